"""State of the scorer: the ids of seen records, the recent history of each principal, and the activity series.

Example:
    >>> state = ScorerState(settings)
    >>> fresh = state.deduplicate(principal, repeat_keys, days)          # whether each event is new
    >>> history = state.update_history(principal, interval, codes)       # the columns idle, today, sources, actions

A feature with a memory reads only *visible* intervals: those that ended before the start of the event's interval minus the
allowed lateness, so that no late record can change them. So answers do not depend on the order in which records arrive or on how
batches are cut.

Every 64-bit key has the hash bucket of its principal in its top 16 bits (`hashing`), so the state of some buckets can be split
off and merged into another state (`partitioning`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import (
    Ints,
    Longs,
    Placement,
    identity_placement,
    is_first_occurrence,
    is_on_host,
    lexsort,
    namespace,
    to_device_of,
    to_host,
    unique_places,
)
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable, rank_in_run, run_starts
from fingerprint.core import settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_NAMES
from fingerprint.state import alert_runs, unknown_principals
from fingerprint.state.action_sequence import ActionSequence
from fingerprint.state.activity_series import ActivitySeries
from fingerprint.state.event_clock import EventClock
from fingerprint.state.first_calls import FirstCalls
from fingerprint.state.interval_amounts import IntervalAmounts
from fingerprint.state.interval_surprise import IntervalSurprise
from fingerprint.state.partitioning import TABLE_NAMES

ADDRESS_COLUMN = FEATURE_NAMES.index("address")
# Features whose values are counted once a day, as they come first.
NOVEL_FEATURES = np.array([ADDRESS_COLUMN, ACTION_COLUMN])
HISTORY_COLUMNS = ("idle", "today", "sources", "actions")
MAX_IDLE, MAX_SOURCES = 12, 5  # greatest bins
SEQUENCE_INTERVALS = 2  # closed intervals whose sequences of actions are kept, for late records
ACTIVITY_DAYS = 2  # days for which activity by interval is kept
DEDUPLICATION_DAYS = 14  # days of event time for which the id of a record is kept, to drop duplicates
# Version of the arrays of a state in a file. Other names, columns or scalars need another number.
STATE_FORMAT = 2
SCALAR_FIELDS = ("late_events", "voted_until", "channels_since")  # stored before the clock, in its array
NOVELTY_DAYS = 35  # days for which a novelty is kept: longer than banks live
# Most novelties of one hash bucket: the latest are kept. Each takes 12 bytes, that of a tool or place 40, and an attacker can
# invent any number of resources and tools.
MAX_BUCKET_NOVELTIES = 100_000
INACTIVE_DAYS = NOVELTY_DAYS  # after which a principal is new again; one that comes once a month stays known
# Days for which the series of a principal that was active on a single day are kept: some principals are made for one run or one
# visitor. A series takes 32 bytes, the principal 20. If it comes again, its series begin without counts, as at first. The number
# is not that of a week or a fortnight, because jobs repeat in these.
SINGLE_DAY_SERIES_DAYS = 10
MAX_PRINCIPALS = 500_000  # of one state; above it, principals of a single day expire


@dataclass
class ScorerState:
    """Tables by principal, all keyed by hash bucket, the activity series, and the clock of event time.

    `placement` puts the tables on the host or on a device.
    """

    options: settings.Settings
    placement: Placement = identity_placement
    repeats: SortedTable = field(init=False)
    principals: SortedTable = field(init=False)
    activity: SortedTable = field(init=False)  # slot << 32 | interval
    unknown_principals: SortedTable = field(init=False)
    alert_runs: SortedTable = field(init=False)  # `alert_runs.AlertRuns`
    firsts: SortedTable = field(init=False)
    novelties: SortedTable = field(init=False)
    first_calls: FirstCalls = field(init=False)
    interval_surprise: IntervalSurprise = field(init=False)
    sequence: ActionSequence = field(init=False)
    interval_amounts: IntervalAmounts = field(init=False)
    series: ActivitySeries = field(init=False)
    clock: EventClock = field(init=False)
    late_events: int = 0  # events whose interval had closed before they came
    voted_until: int = 0  # all votes on intervals below this one were made
    channels_since: int = 0  # interval of the last `swap_bank`: no channel of a single action begins earlier

    # The result of `_open_intervals` at the last expiry
    _last_expiry: tuple[int, int] = field(init=False, default=(-1, -1))

    def __post_init__(self) -> None:
        empty = partial(SortedTable.empty, place=self.placement)
        self.repeats = empty(keep_first=True, day=np.int32, rest=np.uint16)
        self.principals = empty(keep_first=True, slot=np.int32, since=np.int32, last=np.int32)
        self.activity = empty(key=np.int64, events=np.int32, sources=np.int32, actions=np.int32)
        # By principal and day; on the host, because there are few
        self.unknown_principals = SortedTable.empty(day=np.int32, events=np.int32)
        self.alert_runs = alert_runs.empty_runs()
        self.firsts, self.novelties = (empty(keep_first=True, interval=np.int32) for _ in range(2))
        self.first_calls = FirstCalls(self.placement)
        self.interval_surprise = IntervalSurprise(self.placement)
        self.sequence = ActionSequence(self.placement)
        self.interval_amounts = IntervalAmounts(self.placement)
        self.series = ActivitySeries(self.options.spectral, self.placement)
        self.clock = EventClock(self.options.spectral.interval_seconds)

    @property
    def watermark(self) -> int:
        """Latest event time that is believed, seconds since 1970."""
        return self.clock.watermark

    @watermark.setter
    def watermark(self, seconds: int) -> None:
        self.clock.watermark = seconds

    @property
    def unconfirmed(self) -> int:
        """Return the number of events that are so far ahead that the clock does not believe them yet."""
        return self.clock.unconfirmed

    def deduplicate(self, principal: Hashes, keys: Hashes, day: Ints) -> NDArray[np.bool_]:
        """Return whether each event (N,) is new, neither known nor earlier in this batch, and keep the ids of new ones.

        The bucket replaces 16 bits of a key; these are kept beside it, because a principal has so many ids that some of them
        would have equal 48 bits.
        """
        names, rest = hashing.rebucket(principal, keys), hashing.overflow_bits(keys)
        fresh = is_first_occurrence(hashing.hash_pair(principal, keys)) & ~self._is_kept(names, rest)
        self.repeats.add(names[fresh], day=day[fresh], rest=rest[fresh])
        return fresh

    def is_duplicate(self, principal: Hashes, keys: Hashes) -> NDArray[np.bool_]:
        """Return whether each event (N,) came in an earlier batch."""
        return self._is_kept(hashing.rebucket(principal, keys), hashing.overflow_bits(keys))

    def _is_kept(self, names: Hashes, rest: NDArray[np.uint16]) -> NDArray[np.bool_]:
        """Return whether each id (N,) is kept, by its key in the bucket of its principal and the bits that this replaces."""
        known = self.repeats.has(names)
        if known.any():
            known &= self.repeats.get(names, "rest") == rest
        return known

    def update_history(self, principal: Hashes, interval: Ints, codes: Hashes) -> dict[str, Ints]:
        """Count N events and return the visible history of each: principal, interval (N,), codes (N, F) -> bins by name, (N,).

        - `idle`: log2 of the hours since the principal was last active, -1 for never, at most MAX_IDLE
        - `today`, `actions`: log2 of one plus the events, or distinct actions, so far today, rounded up
        - `sources`: address ranges so far today, at most MAX_SOURCES
        """
        slot = self._assign_slots(principal, interval)
        cell = _activity_key(slot, interval)
        self._count_activity(principal, cell, interval, codes)
        _, first, which = unique_places(cell)
        history = self._visible_history(principal[first], slot[first], interval[first])
        return {name: column[which] for name, column in history.items()}

    def _visible_history(self, principal: Hashes, slot: Ints, interval: Ints) -> dict[str, Ints]:
        """Return the visible history of principals in intervals, (D,) each."""
        measure = self._compiled_history if is_on_host(slot) else self._array_history
        bins = measure(slot, interval, self.principals.get(principal, "last", missing=-1))
        return dict(zip(HISTORY_COLUMNS, bins, strict=True))

    def _compiled_history(self, slot: Ints, interval: Ints, latest: Ints) -> Iterable[Ints]:
        """Return the result of `_array_history`, by compiled code on the host."""
        # numba takes half a second, and most commands keep no state
        from fingerprint.state import compiled_history

        series, seconds = self.series, self.options.spectral.interval_seconds
        rules = compiled_history.HistoryRules(
            series.intervals_per_day, series.late_intervals, seconds, MAX_SOURCES, MAX_IDLE
        )
        history = compiled_history.VisibleHistory.empty(slot, interval, latest)
        for keys, columns in self.activity.parts:
            counts = tuple(columns[name] for name in compiled_history.COUNTS)
            compiled_history.add_visible_history(keys, counts, history, rules)
        compiled_history.fill_bins(history, rules)
        return history.bins

    def _array_history(self, slot: Ints, interval: Ints, latest: Ints) -> Iterable[Ints]:
        """Return HISTORY_COLUMNS, (D,) each; `latest` (D,) is the last active interval in the principals' table, -1 for none."""
        xp, per_day = namespace(slot), self.series.intervals_per_day
        first = _activity_key(slot, interval // per_day * per_day)
        last = _activity_key(slot, interval - self.series.late_intervals - 1)
        which, _, columns = self.activity.between(first, last)
        events, sources, actions = (
            _sums(which, columns[name], len(slot)) for name in ("events", "sources", "actions")
        )
        last_active = latest.astype(np.int64)
        for keys, _ in self.activity.parts:
            place = xp.searchsorted(keys, last, side="right") - 1
            there = xp.flatnonzero(place >= 0)
            there = there[keys[place[there]] >> 32 == slot[there]]
            last_active[there] = xp.maximum(last_active[there], keys[place[there]] & 0xFFFFFFFF)
        bounded = xp.minimum(sources, MAX_SOURCES).astype(np.int32)
        return self._idle_bins(last_active, interval), _log2(events), bounded, _log2(actions)

    def as_arrays(
        self, parts: Sequence[str] = ("repeats", *TABLE_NAMES, "series")
    ) -> dict[str, NDArray[Any]]:
        """Return the state as plain arrays by name `part.column`, on the host; `from_arrays` restores it."""
        counts = np.array([getattr(self, name) for name in SCALAR_FIELDS], np.int64)
        out: dict[str, NDArray[Any]] = {"clock": np.concatenate([counts, self.clock.as_array()])}
        for part in parts:
            kept = self.series.as_arrays() if part == "series" else dict(self._table(part).items())
            out |= {f"{part}.{name}": to_host(array) for name, array in kept.items()}
        return out

    @classmethod
    def from_arrays(
        cls,
        options: settings.Settings,
        arrays: Mapping[str, NDArray[Any]],
        placement: Placement = identity_placement,
    ) -> ScorerState:
        """Return the state that `as_arrays` returned, on the device of `placement`; missing tables are empty.

        The state counts as expired at its clock, and expires again when the clock moves on. So a restart does not expire late
        records sooner than they would have been without it.
        """
        state = cls(options, placement)
        for name, value in zip(SCALAR_FIELDS, arrays["clock"].tolist(), strict=False):
            setattr(state, name, value)
        state.clock.restore(arrays["clock"][len(SCALAR_FIELDS) :])
        state._last_expiry = state._open_intervals()
        state.merge(arrays)
        return state

    def replace_with(self, other: ScorerState) -> None:
        """Take over the content of another state, so that all objects that hold this one or its series see it."""
        for each in fields(self):
            if each.name != "series":
                setattr(self, each.name, getattr(other, each.name))
        self.series.replace_with(other.series)

    def last_active(self) -> tuple[Hashes, Ints]:
        """Return all principals and the interval in which each was last active (-1: never), (P,) each."""
        keys, columns = self.principals.compact()
        xp = namespace(keys)
        out = xp.full(len(keys), -1, np.int32)
        out[columns["slot"]] = columns["last"]
        cells, _ = self.activity.compact()  # sorted: the last cell of a slot is its latest
        ends = xp.flatnonzero(xp.diff(cells >> 32, append=-1))
        out[cells[ends] >> 32] = xp.maximum(out[cells[ends] >> 32], cells[ends] & 0xFFFFFFFF)
        return keys, out[columns["slot"]]

    def merge(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Add a part of a state with other principals (`partitioning.select_buckets`), without its clock.

        Slots and rows of the part are numbered after those of this state. Raises ValueError if they have a principal in common.
        """
        if "principals.key" in arrays and self.principals.has(arrays["principals.key"]).any():
            raise ValueError("a part of a state holds principals that the state has already")
        before = len(self.principals)
        for part in ("repeats", *TABLE_NAMES):
            if f"{part}.key" in arrays:
                table = self._table(part)
                columns = {name: arrays[f"{part}.{name}"] for name in table.old[1]}
                keys = arrays[f"{part}.key"]
                if part == "activity":
                    keys = keys + (before << 32)
                if part == "principals":
                    columns["slot"] = columns["slot"] + np.int32(before)
                table.merge(keys, **columns)
        series = {name[7:]: array for name, array in arrays.items() if name.startswith("series.")}
        if series:
            self.series.merge(series)

    def _table(self, name: str) -> SortedTable:
        owner, _, part = name.rpartition(".")
        table: SortedTable = getattr(getattr(self, owner) if owner else self, part)
        return table

    def admit_unknown(
        self, principal: Hashes, interval: Ints, quotas: Ints, max_principals: int
    ) -> NDArray[np.bool_]:
        """Return whether each event of an unknown principal (N,) is admitted, on the host (`unknown_principals.admit`).

        Events from before yesterday count as yesterday's.
        """
        day = np.maximum(interval // self.series.intervals_per_day, self.watermark // DAY_SECONDS - 1)
        return unknown_principals.admit(
            self.unknown_principals, principal, day.astype(np.int32), quotas, max_principals
        )

    def first_seen(self, principal: Hashes) -> Ints:
        """Return the interval in which each principal was first seen (N,)."""
        return self.principals.get(principal, "since")

    def is_known_novelty(self, keys: Hashes, interval: Ints) -> NDArray[np.bool_]:
        """Keep novelties (N,), hashes of owner and value, and return whether each first came in an earlier visible interval."""
        return self.novelty_age(keys, interval) > self.series.late_intervals

    def novelty_age(self, keys: Hashes, interval: Ints) -> Ints:
        """Keep novelties (N,), hashes of owner and value, and return how many intervals ago each first came."""
        if not len(keys):
            return interval
        _keep_earliest(self.novelties, keys, interval)
        first: Ints = self.novelties.get(keys, "interval", missing=np.iinfo(np.int32).max)
        return interval - first

    def first_open_interval(self, watermark: int | None = None) -> int:
        """Return the first open interval, now or at another `watermark`; only records later than allowed fall before it."""
        at = self.watermark if watermark is None else watermark
        return (at - self.options.spectral.allowed_lateness_seconds) // self.options.spectral.interval_seconds

    def observe_time(self, times: NDArray[np.integer[Any]], principals: Hashes) -> None:
        """Advance the clock by the times of events (seconds since 1970) and their principals: (N,) each.

        A few events far ahead of all others are not believed (`event_clock`); `unconfirmed` counts them.
        """
        self.clock.observe(times, principals)

    def expire(self) -> None:
        """Move days that are over into the past, and drop state out of use; once an interval, as it reads all tables."""
        before, self._last_expiry = self._last_expiry, self._open_intervals()
        if before == self._last_expiry:
            return
        now, per_day = self._last_expiry[0], self.series.intervals_per_day
        self.series.close_days(now)
        _drop(self.firsts, self.firsts.compact()[1]["interval"] < now - ACTIVITY_DAYS * per_day)
        for table, interval in (
            (self.novelties, self.novelties.compact()[1]["interval"]),
            (self.first_calls.calls, self.first_calls.first_interval()),
        ):
            old = interval < now - NOVELTY_DAYS * per_day
            _drop(table, old | _beyond_latest(table.compact()[0], interval, MAX_BUCKET_NOVELTIES))
        _drop(self.unknown_principals, self.unknown_principals.compact()[1]["day"] < now // per_day - 2)
        _drop(self.alert_runs, self.alert_runs.compact()[1]["last"] < now - NOVELTY_DAYS * per_day)
        self.interval_surprise.expire(now - ACTIVITY_DAYS * per_day)
        closed = self.first_open_interval() - SEQUENCE_INTERVALS
        self.sequence.expire(closed * self.options.spectral.interval_seconds, now - NOVELTY_DAYS * per_day)
        self.interval_amounts.expire(now - ACTIVITY_DAYS * per_day)
        self._expire_activity(now - ACTIVITY_DAYS * per_day)
        if before[0] // per_day != now // per_day:
            self._expire_principals(now - now % per_day)
        _drop(
            self.repeats,
            self.repeats.compact()[1]["day"] < now // per_day - DEDUPLICATION_DAYS,
        )

    def _open_intervals(self) -> tuple[int, int]:
        """Return the interval of the watermark, and the first open interval."""
        return self.watermark // self.options.spectral.interval_seconds, self.first_open_interval()

    # --- history ------------------------------------------------------------------------------------------------------

    def _assign_slots(self, principal: Hashes, interval: Ints) -> Ints:
        """Return the slot of each principal (N,), and give new principals one."""
        slot = self.principals.get(principal, "slot", missing=-1)
        self._move_beginnings(principal, interval)
        new = (slot < 0).nonzero()[0]
        if not len(new):
            return slot
        first = _earliest_rows(principal, interval, new)
        slots = len(self.principals) + namespace(principal).arange(len(first))
        never = namespace(principal).full(len(first), -1)
        self.principals.add(principal[first], slot=slots, since=interval[first], last=never)
        return self.principals.get(principal, "slot")

    def _move_beginnings(self, principal: Hashes, interval: Ints) -> None:
        """Move the beginning of known principals (N,) back to late records, by at most the allowed lateness.

        Records that are later than allowed are ignored: forecasts and verdicts already depend on when the principal began.
        """
        since = self.principals.get(principal, "since", missing=-1)
        may = (interval < since) & (interval >= since - self.series.late_intervals)
        earlier = may.nonzero()[0]
        if len(earlier):
            first = _earliest_rows(principal, interval, earlier)
            self.principals.overwrite(principal[first], "since", interval[first])

    def _count_activity(self, principal: Hashes, cell: Longs, interval: Ints, codes: Hashes) -> None:
        """Count events by interval, and each address range and action of a day once, in the interval in which it came first."""
        xp = namespace(cell)
        day = hashing.combine(principal, (interval // self.series.intervals_per_day).astype(np.uint64))
        feature = to_device_of(NOVEL_FEATURES, codes)
        keys = hashing.combine(hashing.combine(day, codes.T[feature]), feature[:, None])
        moved_from, moved_to, which = _keep_earliest(
            self.firsts, keys.ravel(), xp.concatenate([interval, interval])
        )
        ones, zeros = xp.ones(len(cell), np.int32), xp.zeros(len(cell), np.int32)
        if not len(which):
            self.activity.add(cell, events=ones, sources=zeros, actions=zeros)
            return
        moved, sign = xp.concatenate([moved_to, moved_from]), xp.ones(2 * len(which), np.int32)
        sign[len(which) :] = -1
        is_action, row = which >= len(cell), which % len(cell)
        is_action, row = (xp.concatenate([each, each])[moved >= 0] for each in (is_action, row))
        moved, sign = moved[moved >= 0], sign[moved >= 0]
        self.activity.add(
            xp.concatenate([cell, _activity_key(cell[row] >> 32, moved)]),
            events=xp.concatenate([ones, 0 * sign]),
            sources=xp.concatenate([zeros, sign * ~is_action]),
            actions=xp.concatenate([zeros, sign * is_action]),
        )

    def _idle_bins(self, latest: Longs, interval: Ints) -> Ints:
        """Return log2 of the hours since the last active interval (D,), at most MAX_IDLE, -1 for none."""
        xp = namespace(latest)
        hours = xp.maximum(interval - latest, 1) * self.options.spectral.interval_seconds / 3600
        doublings = xp.frexp(xp.maximum(hours, 1))[1] - 1  # log2 without its fraction, exact in every library
        idle: Ints = xp.where(latest < 0, -1, xp.minimum(doublings, MAX_IDLE)).astype(np.int32)
        return idle

    def _expire_activity(self, before: int) -> None:
        """Drop activity from before an interval, but keep the last active interval of each principal."""
        keys, _ = self.activity.compact()
        _, columns = self.principals.compact()
        xp, slot = namespace(keys), columns["slot"]
        end = xp.searchsorted(keys, _activity_key(slot, before)) - 1
        has_activity = xp.zeros(len(slot), bool)
        has_activity[end >= 0] = keys[end[end >= 0]] >> 32 == slot[end >= 0]
        latest = (keys[end[has_activity]] & 0xFFFFFFFF).astype(np.int32)
        # A late record may be older than the interval that is kept.
        columns["last"][has_activity] = xp.maximum(columns["last"][has_activity], latest)
        _drop(self.activity, (keys & 0xFFFFFFFF) < before)

    def _expire_principals(self, now: int) -> None:
        """Drop principals that were inactive for INACTIVE_DAYS, and after SINGLE_DAY_SERIES_DAYS the series of single-day ones.

        Above MAX_PRINCIPALS, the single-day principals that were inactive longest are dropped, too. `now` is the interval in
        which the day begins: the result depends on the day and not on the hour, because evicted state expires only when it is
        reloaded.
        """
        per_day = self.series.intervals_per_day
        self.series.expire_rows(now - SINGLE_DAY_SERIES_DAYS * per_day)
        keys, latest = self.last_active()
        xp, columns = namespace(keys), self.principals.compact()[1]
        expired = latest < now - INACTIVE_DAYS * per_day
        excess = len(keys) - int(expired.sum()) - MAX_PRINCIPALS
        if excess > 0:
            passing = latest - columns["since"] < per_day
            unused = xp.flatnonzero(passing & ~expired & (latest < now - ACTIVITY_DAYS * per_day))
            expired[unused[xp.argsort(latest[unused])][:excess]] = True
        if expired.any():
            self._keep_principals(~expired)

    def _keep_principals(self, kept: NDArray[np.bool_]) -> None:
        """Keep some principals, a mask (P,), and renumber their slots in order. The others have no activity left."""
        xp, slot = namespace(kept), self.principals.compact()[1]["slot"]
        number = xp.zeros(len(slot), np.int64)
        number[slot[kept]] = 1
        number = xp.cumsum(number) - 1
        cells, columns = self.activity.compact()
        self.activity.old = (number[cells >> 32] << 32 | cells & 0xFFFFFFFF, columns)
        self.principals.retain(kept)
        self.principals.overwrite(self.principals.compact()[0], "slot", number[slot[kept]].astype(np.int32))


def _activity_key(slot: Ints, interval: Ints | int) -> NDArray[np.int64]:
    return slot.astype(np.int64) << 32 | interval


def _sums(which: NDArray[np.intp], column: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Return the sum of the rows of each of `count` ranges; float64 holds such sums exactly."""
    xp = namespace(column)
    if not len(which):
        return xp.zeros(count, np.int64)
    sums: NDArray[np.int64] = xp.bincount(which, column.astype(np.float64), count).astype(np.int64)
    return sums


def _log2(counts: NDArray[np.int64]) -> Ints:
    """Return log2 of one plus a count, rounded up (N,).

    It is the number of bits of the count, because libraries differ in the last bit of a logarithm.
    """
    bits: Ints = namespace(counts).frexp(counts.astype(np.float64))[1].astype(np.int32)
    return bits


def _drop(table: SortedTable, rows: NDArray[np.bool_]) -> None:
    if rows.any():
        table.retain(~rows)


def _beyond_latest(keys: Hashes, interval: Ints, most: int) -> NDArray[np.bool_]:
    """Return whether each row of a table, by key and interval (M,), is not among the `most` latest of its hash bucket."""
    xp, bucket = namespace(keys), hashing.bucket_of(keys).astype(np.int64)
    beyond = xp.zeros(len(keys), bool)
    crowded = xp.flatnonzero(xp.bincount(bucket, minlength=hashing.BUCKETS)[bucket] > most)
    if len(crowded):
        order = crowded[lexsort(-interval[crowded], bucket[crowded])]
        beyond[order[rank_in_run(bucket[order]) >= most]] = True
    return beyond


def _keep_earliest(table: SortedTable, keys: Hashes, interval: Ints) -> tuple[Ints, Ints, NDArray[np.intp]]:
    """Keep the earliest interval of each key in the table.

    Returns for each key that is new or has an earlier interval now: the old interval (-1 for none), the new one, and an example
    row.
    """
    before = table.get(keys, "interval", missing=-1)
    earlier = ((before < 0) | (interval < before)).nonzero()[0]
    if not len(earlier):
        return before[:0], interval[:0], earlier
    which = _earliest_rows(keys, interval, earlier)
    distinct, before, earliest = keys[which], before[which], interval[which]
    new = before < 0
    table.add(distinct[new], interval=earliest[new])
    table.overwrite(distinct[~new], "interval", earliest[~new])
    return before, earliest, which


def _earliest_rows(keys: Hashes, interval: Ints, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the row with the earliest interval of each key, among some rows, sorted by key."""
    order = rows[lexsort(interval[rows], keys[rows])]
    first: NDArray[np.intp] = order[run_starts(keys[order])]
    return first
