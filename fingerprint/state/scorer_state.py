"""The scorer's only state: ids that came before, what each principal did lately, and the series.

Example:
    >>> ledger = Ledger(settings)
    >>> fresh = ledger.fresh(principal, repeat_keys, days)    # which events have not been seen before
    >>> memory = ledger.remember(principal, interval, codes)  # the columns idle, today, sources, actions

What a principal did counts from the next interval on, once late records of it can no longer come: a feature with a memory
reads only intervals that ended before this one's start minus the allowed lateness. So neither the order in which records
arrive nor where a batch is cut changes an answer.

Every 64-bit key says in its top 16 bits where its principal has its home (`hashing`): what is kept of some homes can be
cut out of a ledger, and put back into another (`slices`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Place, counted, firsts, host, lexsort, namespace, stays
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.core import settings
from fingerprint.features.encoding import NAMES
from fingerprint.state.activity_series import Ints, Series
from fingerprint.state.event_clock import EventClock
from fingerprint.state.interval_surprise import Company

ACTION, ADDRESS = NAMES.index("action"), NAMES.index("address")
ACTIVITY_DAYS = 2  # days of activity by the interval that are kept
TABLES = (
    "principals",
    "activity",
    "strangers",
    "firsts",
    "seen",
    "company.values",
    "company.sums",
    "company.home",
)
COUNTS = ("late", "silent_upto", "channels_since")  # what lies before the clock in its array
EACH_STRANGER = 500  # events a day of one principal that the bank does not know, that may wait or have a vote
SEEN_DAYS = 35  # days for which a novelty is remembered: longer than banks live
SILENT_DAYS = SEEN_DAYS  # of silence after which a principal is new again
PASSING_DAYS = (
    10  # the same of one that was there on a single day: no week or fortnight, as jobs come in those
)
MOST_PRINCIPALS = 500_000  # of one ledger; of more, those of a single day go first


@dataclass
class Ledger:
    options: settings.Settings
    place: Place = stays
    repeats: SortedTable = field(init=False)
    principals: SortedTable = field(init=False)
    activity: SortedTable = field(init=False)  # slot << 32 | interval
    strangers: SortedTable = field(init=False)
    firsts: SortedTable = field(init=False)
    seen: SortedTable = field(init=False)
    company: Company = field(init=False)
    series: Series = field(init=False)
    clock: EventClock = field(init=False)
    late: int = 0  # events whose interval had closed before they came
    silent_upto: int = 0  # silences were looked for in the intervals below this one
    channels_since: int = (
        0  # a single action's channel that is new begins here, not with its principal (`Scorer.judge_by`)
    )

    _forgot: int = field(init=False, default=-1)  # the day on which that was last looked at

    def __post_init__(self) -> None:
        empty = partial(SortedTable.empty, place=self.place)
        self.repeats = empty(keep_first=True, day=np.int32, rest=np.uint16)
        self.principals = empty(keep_first=True, slot=np.int32, since=np.int32, last=np.int32)
        self.activity = empty(key=np.int64, events=np.int32, sources=np.int32, actions=np.int32)
        self.strangers = SortedTable.empty(
            day=np.int32, events=np.int32
        )  # a principal's day; few, so on the host
        self.firsts, self.seen = (empty(keep_first=True, interval=np.int32) for _ in range(2))
        self.company = Company(self.place)
        self.series = Series(self.options.spectral, self.place)
        self.clock = EventClock(self.options.spectral.interval_seconds)

    @property
    def watermark(self) -> int:
        """The latest event time that is believed, seconds from the epoch."""
        return self.clock.watermark

    @watermark.setter
    def watermark(self, seconds: int) -> None:
        self.clock.watermark = seconds

    @property
    def ahead(self) -> int:
        """Events so far ahead of it that they are not believed yet."""
        return self.clock.ahead

    def fresh(self, principal: Hashes, keys: Hashes, day: Ints) -> NDArray[np.bool_]:
        """Which events (N,) are new: neither remembered nor earlier in this batch. Remembers them.

        The bits of a key that its home leaves no room for are kept beside it: a principal has so many ids that 48 bits
        would take some of them for repeats.
        """
        fresh = firsts(hashing.mix(principal, keys)) & ~self.repeated(principal, keys)
        homed, rest = hashing.at_home(principal[fresh], keys[fresh]), hashing.beyond_home(keys[fresh])
        self.repeats.add(homed, day=day[fresh], rest=rest)
        return fresh

    def repeated(self, principal: Hashes, keys: Hashes) -> NDArray[np.bool_]:
        """Which events (N,) came in an earlier batch."""
        known = self.repeats.has(hashing.at_home(principal, keys))
        homed = hashing.at_home(principal[known], keys[known])
        known[known] = self.repeats.get(homed, "rest") == hashing.beyond_home(keys[known])
        return known

    def remember(self, principal: Hashes, interval: Ints, codes: Hashes) -> dict[str, Ints]:
        """Count what happened, then say what was visible of it: principal, interval (N,), codes (N, F) -> bins, each (N,).

        `idle`: log2 hours since the principal was last active, -1 for never; `today`, `actions`: log2 of one plus events
        and distinct actions so far today; `sources`: address ranges so far today, at most 5.
        """
        slot = self._slots(principal, interval)
        self._count(principal, slot, interval, codes)
        keys, columns = self.activity.settle()
        visible = interval - self.series.gap - 1
        xp = namespace(keys)
        upto = xp.searchsorted(keys, _at(slot, visible), side="right")
        midnight = interval // self.series.per_day * self.series.per_day
        since = xp.searchsorted(keys, _at(slot, midnight))
        sums = {name: _between(column, since, xp.maximum(upto, since)) for name, column in columns.items()}
        return {
            "idle": self._idle(keys, slot, interval, upto),
            "today": _log2(sums["events"]),
            "sources": xp.minimum(sums["sources"], 5).astype(np.int32),
            "actions": _log2(sums["actions"]),
        }

    def as_arrays(self, parts: Sequence[str] = ("repeats", *TABLES, "series")) -> dict[str, NDArray[Any]]:
        """What must survive, as plain arrays by name `part.column`, on the host; `from_arrays` takes it back."""
        counts = np.array([getattr(self, name) for name in COUNTS], np.int64)
        out: dict[str, NDArray[Any]] = {"clock": np.concatenate([counts, self.clock.as_array()])}
        for part in parts:
            kept = self.series.as_arrays() if part == "series" else dict(self._table(part).items())
            out |= {f"{part}.{name}": host(array) for name, array in kept.items()}
        return out

    @classmethod
    def from_arrays(
        cls, options: settings.Settings, arrays: Mapping[str, NDArray[Any]], place: Place = stays
    ) -> Ledger:
        """A ledger that goes on where the arrays left off; what they lack starts empty. It lies where `place` puts it."""
        ledger = cls(options, place)
        for name, value in zip(COUNTS, arrays["clock"].tolist(), strict=False):
            setattr(ledger, name, value)
        ledger.clock.restore(arrays["clock"][len(COUNTS) :])
        ledger.merge(arrays)
        return ledger

    def become(self, other: Ledger) -> None:
        """Go on as another one, for everybody who holds this one or its series."""
        for each in fields(self):
            if each.name != "series":
                setattr(self, each.name, getattr(other, each.name))
        self.series.become(other.series)

    def latest(self) -> tuple[Hashes, Ints]:
        """When each principal last did something, as the features remember it: principals, intervals (-1: never), (P,)."""
        keys, columns = self.principals.settle()
        xp = namespace(keys)
        out = xp.full(len(keys), -1, np.int32)
        out[columns["slot"]] = columns["last"]
        cells, _ = self.activity.settle()  # in order: the last cell of a slot is its latest
        ends = xp.flatnonzero(xp.diff(cells >> 32, append=-1))
        out[cells[ends] >> 32] = xp.maximum(out[cells[ends] >> 32], cells[ends] & 0xFFFFFFFF)
        return keys, out[columns["slot"]]

    def merge(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take in a part that was cut out of a ledger (`slices.pick`), of principals that are not here; the clock stays.

        Slots and rows of the part are numbered after those that are here. ValueError if one of its principals is here.
        """
        if "principals.key" in arrays and self.principals.has(arrays["principals.key"]).any():
            raise ValueError("a part of a ledger holds principals that the ledger has already")
        before = len(self.principals)
        for part in ("repeats", *TABLES):
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

    def admit(self, principal: Hashes, interval: Ints, most: int) -> NDArray[np.bool_]:
        """Return which events of strangers (N,) are let in: of the first `most` of them on a day, in the order in which they
        come, the first EACH_STRANGER events. Events more than a day late count as yesterday's: days of long ago are no room. On
        the host."""
        day = np.maximum(interval // self.series.per_day, self.watermark // 86400 - 1).astype(np.int32)
        names = hashing.within(principal, day.astype(np.uint64))
        distinct, first, which = np.unique(names, return_index=True, return_inverse=True)
        before = self.strangers.get(distinct, "events", missing=0)
        new = np.flatnonzero(~self.strangers.has(distinct))
        new = new[np.argsort(first[new])]
        days = np.sort(self.strangers.settle()[1]["day"])
        there = np.diff([np.searchsorted(days, day[first[new]] + after) for after in (0, 1)], axis=0)[0]
        room = new[there + counted(day[first[new]]) < most]
        inside = self.strangers.has(distinct)
        inside[room] = True
        admitted = inside[which] & (before[which] + counted(names) < EACH_STRANGER)
        self.strangers.add(distinct[room], day=day[first[room]], events=np.zeros(len(room), np.int32))
        events = np.bincount(which[admitted], minlength=len(distinct))
        self.strangers.add(distinct[inside], day=np.zeros(int(inside.sum()), np.int32), events=events[inside])
        return admitted

    def since(self, principal: Hashes) -> Ints:
        """The interval since which each principal is known (N,)."""
        return self.principals.get(principal, "since")

    def seen_before(self, keys: Hashes, interval: Ints) -> NDArray[np.bool_]:
        """Which novelties (owner and value, as one hash) were there in an earlier visible interval; remembers them all."""
        _lower(self.seen, keys, interval)
        return self.seen.get(keys, "interval", missing=np.iinfo(np.int32).max) < interval - self.series.gap

    def closed(self, watermark: int | None = None) -> int:
        """Intervals below this one can no longer change, but for late records; now, or at some other watermark."""
        at = self.watermark if watermark is None else watermark
        return (at - self.options.spectral.lateness_seconds) // self.options.spectral.interval_seconds

    def see(self, times: NDArray[np.integer[Any]], principals: Hashes) -> None:
        """Note when events of some principals happened (seconds from the epoch), by which intervals close: (N,) each.

        Few events far ahead of all others are not believed (`event_clock`); they are counted in `ahead`.
        """
        self.clock.see(times, principals)

    def advance(self) -> None:
        """Let time pass: days become past, what no feature reads any more is forgotten.

        Judge what is closed before: flagged counts enter the past clipped.
        """
        now, per_day = self.watermark // self.options.spectral.interval_seconds, self.series.per_day
        self.series.roll(now)
        for table, column, days in (
            (self.firsts, "interval", ACTIVITY_DAYS),
            (self.seen, "interval", SEEN_DAYS),
        ):
            _forget(table, table.settle()[1][column] < now - days * per_day)
        _forget(self.strangers, self.strangers.settle()[1]["day"] < now // per_day - 2)
        self.company.forget(now - ACTIVITY_DAYS * per_day)
        self._forget_activity(now - ACTIVITY_DAYS * per_day)
        self._forget_silent(now)
        _forget(
            self.repeats,
            self.repeats.settle()[1]["day"] < now // per_day - self.options.reading.repeat_horizon_days,
        )

    # --- memory -------------------------------------------------------------------------------------------------------

    def _slots(self, principal: Hashes, interval: Ints) -> Ints:
        new = ~self.principals.has(principal)
        xp, order = namespace(principal), lexsort(interval[new], principal[new])
        fresh, first = xp.unique(principal[new][order], return_index=True)
        slots = len(self.principals) + xp.arange(len(fresh))
        since = interval[new][order][first]
        self.principals.add(fresh, slot=slots, since=since, last=xp.full(len(fresh), -1))
        return self.principals.get(principal, "slot")

    def _count(self, principal: Hashes, slot: Ints, interval: Ints, codes: Hashes) -> None:
        at = _at(slot, interval)
        xp = namespace(at)
        zeros = xp.zeros(len(at), np.int32)
        self.activity.add(at, events=zeros + 1, sources=zeros, actions=zeros)
        owner = hashing.within(principal, (interval // self.series.per_day).astype(np.uint64))
        for name, place in (("sources", ADDRESS), ("actions", ACTION)):
            keys = hashing.within(hashing.within(owner, codes[:, place]), place)
            moved_from, moved_to, which = _lower(self.firsts, keys, interval)
            for interval_, sign in ((moved_to, 1), (moved_from, -1)):
                real = interval_ >= 0
                cells = _at(slot[which][real], interval_[real])
                counts = dict.fromkeys(("events", "sources", "actions"), zeros[: len(cells)])
                counts[name] = xp.full(len(cells), sign, np.int32)
                self.activity.add(cells, **counts)

    def _idle(self, keys: NDArray[np.int64], slot: Ints, interval: Ints, upto: NDArray[np.intp]) -> Ints:
        xp = namespace(keys)
        before = xp.maximum(upto - 1, 0)
        same = (upto > 0) & (keys[before] >> 32 == slot)
        last = xp.where(same, keys[before] & 0xFFFFFFFF, self._last(slot))
        hours = xp.maximum(interval - last, 1) * self.options.spectral.interval_seconds / 3600
        doublings = xp.frexp(xp.maximum(hours, 1))[1] - 1  # log2 without its fraction, exact in every library
        idle: Ints = xp.where(last < 0, -1, xp.minimum(doublings, 12)).astype(np.int32)
        return idle

    def _last(self, slot: Ints) -> Ints:
        """The last active interval from before the kept activity, -1 for none (N,)."""
        _, columns = self.principals.settle()
        by_slot = namespace(slot).full(len(self.principals), -1, np.int32)
        by_slot[columns["slot"]] = columns["last"]
        return by_slot[slot]

    def _forget_activity(self, before: int) -> None:
        """Drop activity from before an interval, noting when each principal was last active in it."""
        keys, _ = self.activity.settle()
        _, columns = self.principals.settle()
        xp, slot = namespace(keys), columns["slot"]
        end = xp.searchsorted(keys, _at(slot, before)) - 1
        mine = xp.zeros(len(slot), bool)
        mine[end >= 0] = keys[end[end >= 0]] >> 32 == slot[end >= 0]
        columns["last"][mine] = (keys[end[mine]] & 0xFFFFFFFF).astype(np.int32)
        _forget(self.activity, (keys & 0xFFFFFFFF) < before)

    def _forget_silent(self, now: int) -> None:
        """Forget, once a day, principals that were silent for SILENT_DAYS, or for PASSING_DAYS after a single day. Where there
        are more than MOST_PRINCIPALS, those of a single day that were silent longest go, too."""
        per_day = self.series.per_day
        if now // per_day == self._forgot:
            return
        self._forgot = now // per_day
        self.series.forget(now - PASSING_DAYS * per_day)
        keys, latest = self.latest()
        xp, columns = namespace(keys), self.principals.settle()[1]
        passing = latest - columns["since"] < per_day
        gone = (latest < now - SILENT_DAYS * per_day) | passing & (latest < now - PASSING_DAYS * per_day)
        excess = len(keys) - int(gone.sum()) - MOST_PRINCIPALS
        if excess > 0:
            unused = xp.flatnonzero(passing & ~gone & (latest < now - ACTIVITY_DAYS * per_day))
            gone[unused[xp.argsort(latest[unused])][:excess]] = True
        if gone.any():
            self._keep_principals(~gone)

    def _keep_principals(self, kept: NDArray[np.bool_]) -> None:
        """Keep some principals (P,), and number their slots anew, in the same order. The others have no activity left."""
        xp, slot = namespace(kept), self.principals.settle()[1]["slot"]
        number = xp.zeros(len(slot), np.int64)
        number[slot[kept]] = 1
        number = xp.cumsum(number) - 1
        cells, columns = self.activity.settle()
        self.activity.old = (number[cells >> 32] << 32 | cells & 0xFFFFFFFF, columns)
        self.principals.keep(kept)
        self.principals.put(self.principals.settle()[0], "slot", number[slot[kept]].astype(np.int32))


def _at(slot: Ints, interval: Ints | int) -> NDArray[np.int64]:
    return slot.astype(np.int64) << 32 | interval


def _between(column: NDArray[np.int32], start: NDArray[np.intp], end: NDArray[np.intp]) -> NDArray[np.int64]:
    xp = namespace(column)
    total = xp.concatenate([xp.zeros(1, np.int64), xp.cumsum(column, dtype=np.int64)])
    between: NDArray[np.int64] = total[end] - total[start]
    return between


def _log2(counts: NDArray[np.int64]) -> Ints:
    """Of one plus a count, rounded up: as many bits as the count has (N,). Logarithms of two libraries differ in the last bit."""
    bits: Ints = namespace(counts).frexp(counts.astype(np.float64))[1].astype(np.int32)
    return bits


def _forget(table: SortedTable, which: NDArray[np.bool_]) -> None:
    if which.any():
        table.keep(~which)


def _lower(table: SortedTable, keys: Hashes, interval: Ints) -> tuple[Ints, Ints, NDArray[np.intp]]:
    """Keep the earliest interval of each key. Returns, for keys that are new or moved, the interval before (-1 for new),
    the interval now, and one example row of each."""
    order = lexsort(interval, keys)
    distinct, first = namespace(keys).unique(keys[order], return_index=True)
    which = order[first]
    earliest = interval[which]
    before = table.get(distinct, "interval", missing=-1)
    changed = (before < 0) | (earliest < before)
    table.add(distinct[before < 0], interval=earliest[before < 0])
    moved = changed & (before >= 0)
    table.put(distinct[moved], "interval", earliest[moved])
    return before[changed], earliest[changed], which[changed]
