"""State of the scorer: ids that came before, the recent history of each principal, and the activity series.

Example:
    >>> state = ScorerState(settings)
    >>> fresh = state.deduplicate(principal, repeat_keys, days)          # which events have not been seen before
    >>> history = state.update_history(principal, interval, codes)       # the columns idle, today, sources, actions

What a principal did counts from the next interval on, once late records of it can no longer come: a feature with a memory
reads only intervals that ended before this one's start minus the allowed lateness. So neither the order in which records
arrive nor where a batch is cut changes an answer.

Every 64-bit key has the hash bucket of its principal in its top 16 bits (`hashing`): the state of some buckets can be cut out,
and merged into another state (`partitioning`).
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
# Their values are counted that are new on their day.
NOVEL_FEATURES = np.array([ADDRESS_COLUMN, ACTION_COLUMN])
HISTORY_COLUMNS = ("idle", "today", "sources", "actions")
MAX_IDLE, MAX_SOURCES = 12, 5  # greatest bins
SEQUENCE_INTERVALS = 2  # closed intervals of which the sequence of actions is kept, for what comes late
ACTIVITY_DAYS = 2  # days of activity by the interval that are kept
DEDUPLICATION_DAYS = 14  # days of event time for which the id of a record is kept, to drop duplicates
# Of the arrays of a state that is kept in a file: another name, column or scalar is another format.
STATE_FORMAT = 2
SCALAR_FIELDS = ("late_events", "voted_until", "channels_since")  # what lies before the clock in its array
NOVELTY_DAYS = 35  # days for which a novelty is kept: longer than banks live
# Novelties that are kept of one hash bucket, the latest, 12 bytes each, and 40 those of tools and places: who chooses resources
# and tools can make up many.
MAX_BUCKET_NOVELTIES = 100_000
INACTIVE_DAYS = NOVELTY_DAYS  # after which a principal is new again, also one that comes once a month
# Days for which the series of a principal of a single day are kept, as names are made for every run or visitor: each series takes
# 32 bytes, the principal 20. They begin again as they were, without a count. No week or fortnight, as jobs come in those.
SINGLE_DAY_SERIES_DAYS = 10
MAX_PRINCIPALS = 500_000  # of one state; of more, those of a single day expire first


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

    # `_open_intervals` of the last expiry.
    _last_expiry: tuple[int, int] = field(init=False, default=(-1, -1))

    def __post_init__(self) -> None:
        empty = partial(SortedTable.empty, place=self.placement)
        self.repeats = empty(keep_first=True, day=np.int32, rest=np.uint16)
        self.principals = empty(keep_first=True, slot=np.int32, since=np.int32, last=np.int32)
        self.activity = empty(key=np.int64, events=np.int32, sources=np.int32, actions=np.int32)
        # a principal's day; few, so on the host
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
        """Return how many events are so far ahead that they are not believed yet."""
        return self.clock.unconfirmed

    def deduplicate(self, principal: Hashes, keys: Hashes, day: Ints) -> NDArray[np.bool_]:
        """Return which events (N,) are new, neither known nor earlier in this batch, and keep their ids.

        The bits of a key that its bucket leaves no room for are kept beside it: a principal has so many ids that 48 bits
        would take some of them for repeats.
        """
        names, rest = hashing.rebucket(principal, keys), hashing.overflow_bits(keys)
        fresh = is_first_occurrence(hashing.hash_pair(principal, keys)) & ~self._is_kept(names, rest)
        self.repeats.add(names[fresh], day=day[fresh], rest=rest[fresh])
        return fresh

    def is_duplicate(self, principal: Hashes, keys: Hashes) -> NDArray[np.bool_]:
        """Return which events (N,) came in an earlier batch."""
        return self._is_kept(hashing.rebucket(principal, keys), hashing.overflow_bits(keys))

    def _is_kept(self, names: Hashes, rest: NDArray[np.uint16]) -> NDArray[np.bool_]:
        """Return which ids (N,) are kept, by their key in the bucket of the principal and the bits that it leaves out."""
        known = self.repeats.has(names)
        if known.any():
            known &= self.repeats.get(names, "rest") == rest
        return known

    def update_history(self, principal: Hashes, interval: Ints, codes: Hashes) -> dict[str, Ints]:
        """Count N events and return the history that is visible to each: principal, interval (N,), codes (N, F) -> bins, (N,).

        `idle`: log2 hours since the principal was last active, -1 for never; `today`, `actions`: log2 of one plus events
        and distinct actions so far today; `sources`: address ranges so far today, at most MAX_SOURCES.
        """
        slot = self._assign_slots(principal, interval)
        cell = _activity_key(slot, interval)
        self._count_activity(principal, cell, interval, codes)
        _, first, which = unique_places(cell)
        history = self._visible_history(principal[first], slot[first], interval[first])
        return {name: column[which] for name, column in history.items()}

    def _visible_history(self, principal: Hashes, slot: Ints, interval: Ints) -> dict[str, Ints]:
        """Return the history that is visible to a principal in an interval, (D,) each."""
        measure = self._compiled_history if is_on_host(slot) else self._array_history
        bins = measure(slot, interval, self.principals.get(principal, "last", missing=-1))
        return dict(zip(HISTORY_COLUMNS, bins, strict=True))

    def _compiled_history(self, slot: Ints, interval: Ints, latest: Ints) -> Iterable[Ints]:
        """Return the same as `_array_history`, on the host."""
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
        """Return HISTORY_COLUMNS, (D,) each, of principals of which the last interval is kept, -1 for none: `latest` (D,)."""
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
        """Return the state of some arrays, where `placement` puts it; tables that are missing are empty.

        It was expired as of its clock, and is again when that has come further: a restart forgets nothing sooner that came late.
        """
        state = cls(options, placement)
        for name, value in zip(SCALAR_FIELDS, arrays["clock"].tolist(), strict=False):
            setattr(state, name, value)
        state.clock.restore(arrays["clock"][len(SCALAR_FIELDS) :])
        state._last_expiry = state._open_intervals()
        state.merge(arrays)
        return state

    def replace_with(self, other: ScorerState) -> None:
        """Take over another state in place, for all objects that hold this one or its series."""
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
        cells, _ = self.activity.compact()  # in order: the last cell of a slot is its latest
        ends = xp.flatnonzero(xp.diff(cells >> 32, append=-1))
        out[cells[ends] >> 32] = xp.maximum(out[cells[ends] >> 32], cells[ends] & 0xFFFFFFFF)
        return keys, out[columns["slot"]]

    def merge(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Add a part that was cut out of a state (`partitioning.select_buckets`), of other principals; the clock stays.

        Slots and rows of the part are numbered after those of this state. Raises ValueError if it shares a principal.
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
        self, principal: Hashes, interval: Ints, rooms: Ints, max_principals: int
    ) -> NDArray[np.bool_]:
        """Return which events of unknown principals (N,) are admitted, on the host (`unknown_principals.admit`).

        Events more than a day late count as yesterday's.
        """
        day = np.maximum(interval // self.series.intervals_per_day, self.watermark // DAY_SECONDS - 1)
        return unknown_principals.admit(
            self.unknown_principals, principal, day.astype(np.int32), rooms, max_principals
        )

    def first_seen(self, principal: Hashes) -> Ints:
        """Return the interval in which each principal was first seen (N,)."""
        return self.principals.get(principal, "since")

    def is_known_novelty(self, keys: Hashes, interval: Ints) -> NDArray[np.bool_]:
        """Return which novelties (owner and value, as one hash) came in an earlier visible interval (N,), and keep all."""
        return self.novelty_age(keys, interval) > self.series.late_intervals

    def novelty_age(self, keys: Hashes, interval: Ints) -> Ints:
        """Return how many intervals ago novelties (owner and value, as one hash) first came (N,), and keep all."""
        if not len(keys):
            return interval
        _keep_earliest(self.novelties, keys, interval)
        first: Ints = self.novelties.get(keys, "interval", missing=np.iinfo(np.int32).max)
        return interval - first

    def first_open_interval(self, watermark: int | None = None) -> int:
        """Return the first interval that is open now, or at some other watermark: earlier ones change by late records only."""
        at = self.watermark if watermark is None else watermark
        return (at - self.options.spectral.allowed_lateness_seconds) // self.options.spectral.interval_seconds

    def observe_time(self, times: NDArray[np.integer[Any]], principals: Hashes) -> None:
        """Advance the clock by the times of events (seconds since 1970) and their principals: (N,) each.

        Few events far ahead of all others are not believed (`event_clock`); they are counted in `unconfirmed`.
        """
        self.clock.observe(times, principals)

    def expire(self) -> None:
        """Move days that are over into the past, and drop what no feature reads; once an interval, as it looks at all."""
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
        """Return the interval of the watermark, and the first that is open."""
        return self.watermark // self.options.spectral.interval_seconds, self.first_open_interval()

    # --- history ------------------------------------------------------------------------------------------------------

    def _assign_slots(self, principal: Hashes, interval: Ints) -> Ints:
        """Return the slot of each principal (N,), with a slot for those that are new."""
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
        """Move back the beginning of known principals (N,) to records that come late, by the allowed lateness at most.

        What comes later still is not looked at: forecasts were made, and verdicts given, by where the principal began.
        """
        since = self.principals.get(principal, "since", missing=-1)
        may = (interval < since) & (interval >= since - self.series.late_intervals)
        earlier = may.nonzero()[0]
        if len(earlier):
            first = _earliest_rows(principal, interval, earlier)
            self.principals.overwrite(principal[first], "since", interval[first])

    def _count_activity(self, principal: Hashes, cell: Longs, interval: Ints, codes: Hashes) -> None:
        """Count events, and address ranges and actions that are new on their day, in the interval in which each came first."""
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
        """Return log2 of the hours since the interval of the last activity (D,), -1 for none."""
        xp = namespace(latest)
        hours = xp.maximum(interval - latest, 1) * self.options.spectral.interval_seconds / 3600
        doublings = xp.frexp(xp.maximum(hours, 1))[1] - 1  # log2 without its fraction, exact in every library
        idle: Ints = xp.where(latest < 0, -1, xp.minimum(doublings, MAX_IDLE)).astype(np.int32)
        return idle

    def _expire_activity(self, before: int) -> None:
        """Drop activity from before an interval, noting when each principal was last active in it."""
        keys, _ = self.activity.compact()
        _, columns = self.principals.compact()
        xp, slot = namespace(keys), columns["slot"]
        end = xp.searchsorted(keys, _activity_key(slot, before)) - 1
        has_activity = xp.zeros(len(slot), bool)
        has_activity[end >= 0] = keys[end[end >= 0]] >> 32 == slot[end >= 0]
        latest = (keys[end[has_activity]] & 0xFFFFFFFF).astype(np.int32)
        # what came late may be older
        columns["last"][has_activity] = xp.maximum(columns["last"][has_activity], latest)
        _drop(self.activity, (keys & 0xFFFFFFFF) < before)

    def _expire_principals(self, now: int) -> None:
        """Drop principals that were inactive for INACTIVE_DAYS as a day begins, and sooner the series of those of a single day.

        Of more than MAX_PRINCIPALS, those of a single day that were inactive longest are dropped, too. The day alone says which,
        not the hour: what was evicted is looked at when it comes back. `now` is the interval in which the day begins.
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
        """Keep some principals (P,), and renumber their slots in the same order. The others have no activity left."""
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
    """Return the sum of the rows of each of `count` ranges; float64 holds it exactly."""
    xp = namespace(column)
    if not len(which):
        return xp.zeros(count, np.int64)
    sums: NDArray[np.int64] = xp.bincount(which, column.astype(np.float64), count).astype(np.int64)
    return sums


def _log2(counts: NDArray[np.int64]) -> Ints:
    """Return log2 of one plus a count, rounded up (N,): its number of bits, as two libraries differ in a logarithm's last bit."""
    bits: Ints = namespace(counts).frexp(counts.astype(np.float64))[1].astype(np.int32)
    return bits


def _drop(table: SortedTable, rows: NDArray[np.bool_]) -> None:
    if rows.any():
        table.retain(~rows)


def _beyond_latest(keys: Hashes, interval: Ints, most: int) -> NDArray[np.bool_]:
    """Return which rows of a table, by key and interval (M,), are not among the `most` latest of their hash bucket."""
    xp, bucket = namespace(keys), hashing.bucket_of(keys).astype(np.int64)
    beyond = xp.zeros(len(keys), bool)
    crowded = xp.flatnonzero(xp.bincount(bucket, minlength=hashing.BUCKETS)[bucket] > most)
    if len(crowded):
        order = crowded[lexsort(-interval[crowded], bucket[crowded])]
        beyond[order[rank_in_run(bucket[order]) >= most]] = True
    return beyond


def _keep_earliest(table: SortedTable, keys: Hashes, interval: Ints) -> tuple[Ints, Ints, NDArray[np.intp]]:
    """Keep the earliest interval of each key.

    Returns, for keys that are new or moved, the interval before (-1 for new), the interval now, and one example row of each.
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
    """Return, of some rows, that of the earliest interval of each key, by rising key."""
    order = rows[lexsort(interval[rows], keys[rows])]
    first: NDArray[np.intp] = order[run_starts(keys[order])]
    return first
