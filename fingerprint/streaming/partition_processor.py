"""One partition of the events topic and its ledger, from assignment to revocation: what comes in, in the order of the log.

Example:
    >>> keeper = Keeper(bank, ledger, settings, Sources(expected=4))
    >>> for said in keeper.walk(events, low, arrived):   # (N,): the least watermark at each event, and its arrival
    ...     desk.save(said.alerts, said.votes)
    >>> facts, parts = keeper.facts(), keeper.parts()    # a snapshot; `restored` takes it back

Whatever it says is a function of the log alone, not of where a batch was cut. Two things make it so.
Events that came ahead of other sources are *held* until the intervals that their memory reads are closed. And a *late* event
(its interval had closed) begins a step of its own, because what came before it must be judged without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting.explanation import Verdicts
from fingerprint.compute import arrays, frames, hashing
from fingerprint.compute.arrays import Array
from fingerprint.compute.backend import HOST, Backend
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Losses
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import concat
from fingerprint.pipeline import Road, Said
from fingerprint.registry.bank import Bank
from fingerprint.sources.flatten import repeat_key
from fingerprint.state import partitioning
from fingerprint.state.scorer_state import Ledger
from fingerprint.streaming import checkpoint_codec
from fingerprint.streaming.feed_activity import FeedCounts
from fingerprint.streaming.state_eviction import Spill, homes_of
from fingerprint.streaming.watermarks import Sources

Longs = NDArray[np.int64]

_ELSE = ("held", "feeds", "spilled")  # parts that are not the ledger's
NO_PARTS: Mapping[str, bytes] = {}
STEPS = 64  # steps that late events may cut a batch into; past that they share the last one
_COUNTS = ("late_dropped", "learned", "hurried")


class Learned(NamedTuple):
    """What a bank's training can have read: events before `upto` that arrived by `arrived`, both in seconds since 1970.

    An event is passed over only if it is both. What is dated back, and arrives after the training, is judged.
    """

    upto: int = 0
    arrived: int = 0


NOTHING_LEARNED = Learned()


class Keeper:
    """The road of one partition, and what it needs to go on after a restart."""

    def __init__(
        self,
        bank: Bank,
        ledger: Ledger,
        settings: Settings,
        sources: Sources,
        lies_in_bank: Learned = NOTHING_LEARNED,
        losses: Losses | None = None,
        backend: Backend = HOST,
    ) -> None:
        self.settings, self.sources, self.backend = settings, sources, backend
        self.road = Road(bank, ledger, settings, early=True, losses=losses)
        self.lies_in_bank = lies_in_bank
        self.feeds = FeedCounts(settings.spectral.interval_seconds, settings.feeds.most)
        self.spill: Spill | None = None  # where what was silent longest is put away
        self.held = pd.DataFrame()
        self.late_dropped = 0  # late events, where the settings drop them
        self.learned = 0  # events that the bank has learned
        self.hurried = 0  # events that were held no longer, because too many were
        self.unspilled = 0  # times that nothing could be put away, because the store was

    @property
    def bank(self) -> Bank:
        """The one that judges."""
        return self.road.scorer.bank

    def judge_by(self, bank: Bank, losses: Losses | None = None) -> Callable[[], None]:
        """Measure what comes from now on against another bank; returns what takes that back (`Road.judge_by`)."""
        return self.road.judge_by(bank, losses)

    def hold_to(self, settings: Settings) -> None:
        """Hold what comes from now on to other thresholds (`Road.hold_to`)."""
        self.settings = settings
        self.road.hold_to(settings)

    def walk(self, events: pd.DataFrame, low: Longs, arrived: Longs) -> list[Said]:
        """Events in the order of the log, the least watermark at each of them and when each arrived, (N,) each, in seconds. Told
        where they lie: events where the backend's tables do, the times on the host."""
        low = arrays.like(np.maximum(low, self.road.ledger.watermark), _seconds(events))
        wanted = self._wanted(events, low, arrays.like(arrived, low))
        events, low = frames.rows(events, wanted), low[wanted]
        starts = self._starts(events, low)
        ends = [*starts[1:], len(events)] if starts else []
        return [
            self._step(events.iloc[start:end], int(low[end - 1]))
            for start, end in zip(starts, ends, strict=True)
        ]

    def hear(self, events: pd.DataFrame, low: Longs, ways: list[str], codes: NDArray[Any]) -> None:
        """Count for their feeds what is about to be walked; `codes` (N,) say which of `ways` each came by."""
        self.feeds.count(events, ways, codes, self._closed(low))

    def heard_upto(self) -> int:
        """Feeds are completely counted in the intervals below this one; that a bank has learned them says nothing of it."""
        return self.road.ledger.closed(self.sources.low // 1000)

    def bound_clocks(self, now: int) -> None:
        """Let no clock be ahead of `now` (ms) by more than events may be: one that was heals."""
        most = now + self.settings.stream.future_seconds * 1000
        self.sources.bound(now, most)
        self.road.ledger.watermark = min(self.road.ledger.watermark, most // 1000)

    def pass_time(self, now: int) -> list[Said]:
        """Nothing is left to be read at `now` (ms): intervals close by the clock."""
        self.bound_clocks(now)
        low = self.sources.pass_time(now) // 1000
        ledger = self.road.ledger
        if ledger.closed(low) <= ledger.closed():
            return []
        return [self._step(pd.DataFrame(), low)]

    def counts(self) -> dict[str, int]:
        """What has gone by, some of it before a restart: for whoever counts what came in between."""
        tally, scorer = self.road.tally, self.road.scorer
        return {
            "events": tally.events,
            "repeats": tally.repeats,
            "degraded": tally.degraded,
            "verdicts": tally.verdicts,
            "silences": tally.silences,
            "late": self.road.ledger.late + self.late_dropped,
            "learned": self.learned,
            "hurried": self.hurried,
            "dropped": scorer.dropped,
            "refused": scorer.refused,
            "unspilled": self.unspilled,
            "fetched": self.spill.fetched if self.spill else 0,
        }

    def only(self, homes: NDArray[np.bool_]) -> Keeper:
        """What of it belongs to some homes, (65536,): where a partition was divided."""
        road = self.road
        if self.spill:
            self.spill.fetch(homes)
        own, told = (
            partitioning.pick(road.ledger.as_arrays(), homes),
            (self.settings, self.sources, self.lies_in_bank),
        )
        ledger = Ledger.from_arrays(self.settings, own, self.backend.place)
        keeper = Keeper(self.bank, ledger, *told, road.scorer.losses, self.backend)
        keeper.road.groups.by = replace(keeper.road.groups.by, earlier=road.groups.by.earlier)
        keeper.feeds = self.feeds  # of no home

        def theirs(principal: Hashes) -> NDArray[np.bool_]:
            return arrays.like(homes, principal)[hashing.homes(principal)]

        keeper.road.scorer.names.strangers = dict(road.scorer.names.strangers)
        keeper.road.scorer.waiting = [part.take(theirs(part.principal)) for part in road.scorer.waiting]
        keeper.road.groups.open = [part.take(theirs(part.batch.principal)) for part in road.groups.open]
        if len(self.held):
            keeper.held = frames.rows(self.held, theirs(hashing.homed(self.held["principal"])))
        return keeper

    # --- one step -----------------------------------------------------------------------------------------------------

    def _wanted(self, events: pd.DataFrame, low: Array, arrived: Array) -> Array:
        at, learned = _seconds(events), self.lies_in_bank
        known = (at < learned.upto) & (arrived <= learned.arrived)
        self.learned += int(known.sum())
        if self.settings.stream.late == "judge":
            return ~known
        late = self._late(events, low) & ~known
        self.late_dropped += int(late.sum())
        return ~known & ~late

    def _late(self, events: pd.DataFrame, low: Array) -> Array:
        return _seconds(events) // self.settings.spectral.interval_seconds < self._closed(low)

    def _closed(self, low: Array) -> Array:
        """Below which interval all had closed at watermarks (N,)."""
        spectral = self.settings.spectral
        return (low - spectral.lateness_seconds) // spectral.interval_seconds

    def _starts(self, events: pd.DataFrame, low: Array) -> list[int]:
        """Where steps begin: at the first event, and wherever late ones do that are no repeats."""
        if not len(events):
            return []
        late = self._late(events, low)
        if late.any():
            late &= ~self._repeated(events)
        begin = arrays.namespace(late).flatnonzero(late[1:] & ~late[:-1]) + 1
        return [0, *begin[:STEPS].tolist()]

    def _repeated(self, events: pd.DataFrame) -> Array:
        """Which events will be dropped: the ledger has them, or the same one came earlier in this batch. One that lies as the
        other's id but at another time is not counted among them: the other may be held."""
        principal, keys = hashing.homed(events["principal"]), repeat_key(events)
        exact = hashing.mix(hashing.mix(principal, keys), _seconds(events).astype(np.uint64))
        return ~arrays.firsts(exact) | self.road.ledger.repeated(principal, keys)

    def _step(self, events: pd.DataFrame, low: int) -> Said:
        if len(self.held):
            events = frames.concat([self.held, events])
        ready = self._ready(events, low)
        self.held = frames.rows(events, ~ready)
        events = frames.rows(events, ready)
        if not self.spill:
            return self.road.walk(events, low)
        if len(events) and self.spill.files:
            self.spill.fetch(homes_of([hashing.homed(events["principal"])]))
        said = self.road.walk(events, low)
        if self.spill.due():
            self._put_away(self.spill)
        return said

    def _put_away(self, spill: Spill) -> None:
        """Of what waits for nothing, what was silent longest, where there is too much. A store that cannot take it costs
        memory, no answer."""
        waiting = [part.principal for part in self.road.scorer.waiting]
        verdicts = [part.batch.principal for part in self.road.groups.open]
        held = [hashing.homed(self.held["principal"])] if len(self.held) else []
        try:
            spill.spill(homes_of([*waiting, *verdicts, *held]))
        except FingerprintError:
            self.unspilled += 1

    def _ready(self, events: pd.DataFrame, low: int) -> Array:
        """Which events may be measured: all that their memory reads is closed. Of too many that may not, the oldest are
        measured all the same, and counted."""
        if not len(events):
            return np.zeros(0, bool)
        ledger = self.road.ledger
        at = _seconds(events)
        interval = at // self.settings.spectral.interval_seconds
        ready = interval - ledger.series.gap <= ledger.closed(low)
        over = int((~ready).sum()) - self.settings.stream.held_events
        if over > 0:
            xp = arrays.namespace(ready)
            held = xp.flatnonzero(~ready)
            ready[held[xp.argsort(at[held], kind="stable")[:over]]] = True
            self.hurried += over
        return ready

    # --- a snapshot ---------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """What is small, fit for JSON."""
        return {
            "bank": self.bank.version,
            "lies_in_bank": list(self.lies_in_bank),
            "feeds_closed": self.feeds.closed,
            "dropped": self.road.scorer.dropped,
            "refused": self.road.scorer.refused,
            "strangers": {str(name): list(kept) for name, kept in self.road.scorer.names.strangers.items()},
            **{name: getattr(self, name) for name in _COUNTS},
            **self.sources.as_facts(),
        }

    def parts(self) -> dict[str, bytes]:
        """What is large, by name. Parts that did not change are the same bytes again."""
        scorer, parts = self.road.scorer, checkpoint_codec.pack_tables(_by_day(self.road.ledger.as_arrays()))
        if scorer.waiting:
            scorer.waiting = [concat(scorer.waiting)]
            parts |= checkpoint_codec.pack_measured("waiting", scorer.waiting[0])
        if self.road.groups.open:
            batch, frame = self.road.groups.together()
            parts |= checkpoint_codec.pack_measured("verdicts", batch, frame)
        if self.spill and self.spill.files:
            parts["spilled"] = checkpoint_codec.pack_arrays(self.spill.as_arrays())
        if len(self.held):
            parts["held"] = checkpoint_codec.pack_table(frames.host(self.held))
        if len(counts := self.feeds.as_table()):
            parts["feeds"] = checkpoint_codec.pack_table(counts)
        return parts

    def bounded(
        self, put: Callable[[bytes], str], get: Callable[[str], bytes], parts: Mapping[str, bytes] = NO_PARTS
    ) -> Keeper:
        """Itself, its ledger bounded from now on: what was silent longest goes to a store and comes back before it is read.
        `parts` of a snapshot say what lies there already."""
        self.spill = Spill(self.road.ledger, self.settings.state.rows, put, get)
        if "spilled" in parts:
            self.spill.restore(checkpoint_codec.arrays(parts["spilled"]))
        return self

    def kept(self) -> tuple[str, ...]:
        """The files of the store that a snapshot needs."""
        return self.spill.names() if self.spill else ()

    @classmethod
    def restored(
        cls,
        bank: Bank,
        settings: Settings,
        sources: Sources,
        facts: Mapping[str, Any],
        parts: Mapping[str, bytes],
        losses: Losses | None = None,
        earlier: Callable[[str], Bank | None] = lambda version: None,
        backend: Backend = HOST,
    ) -> Keeper:
        """The keeper that goes on where a snapshot was taken. `earlier` finds the banks that measured what waits, None where
        one is gone."""
        own = [name for name in parts if name not in _ELSE and not name.startswith(("waiting.", "verdicts."))]
        ledger = Ledger.from_arrays(settings, _together(checkpoint_codec.tables(parts, own)), backend.place)
        keeper = cls(bank, ledger, settings, sources, Learned(*facts["lies_in_bank"]), losses, backend)
        scorer, groups = keeper.road.scorer, keeper.road.groups
        scorer.dropped, scorer.refused = int(facts["dropped"]), int(facts["refused"])
        scorer.names.strangers = {
            int(name): (text, last) for name, (text, last) in facts["strangers"].items()
        }
        for name in _COUNTS:
            setattr(keeper, name, int(facts[name]))
        if waiting := checkpoint_codec.measured("waiting", parts):
            scorer.waiting = [waiting]
        if verdicts := checkpoint_codec.measured("verdicts", parts):
            groups.open = [Verdicts(verdicts, verdicts.frame)]
        keeper._know_again(earlier, str(facts["bank"]))
        if "held" in parts:
            keeper.held = frames.lifted(checkpoint_codec.table(parts["held"]), backend.tables)
        if "feeds" in parts:
            keeper.feeds.restore(checkpoint_codec.table(parts["feeds"]), int(facts["feeds_closed"]))
        return keeper

    def _know_again(self, earlier: Callable[[str], Bank | None], judged: str) -> None:
        """The banks that measured what waits, where they are still there; and that another one judges now than `judged`."""
        found = {version: earlier(version) for version in self.road.waits_of() - {self.bank.version}}
        there = {version: bank for version, bank in found.items() if bank}
        groups, ledger = self.road.groups, self.road.ledger
        groups.by = replace(groups.by, earlier=there)
        if judged != self.bank.version:
            ledger.channels_since = ledger.watermark // self.settings.spectral.interval_seconds


def _seconds(events: pd.DataFrame) -> Array:
    """Event times since 1970 (N,), where the events lie."""
    if not len(events):
        return np.zeros(0, np.int64)
    return frames.seconds(events["event_time"])


def _by_day(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Ids that were seen, a table for each day: of the largest table only today's part changes."""
    out = {name: array for name, array in arrays.items() if not name.startswith("repeats.")}
    ids = {name: array for name, array in arrays.items() if name.startswith("repeats.")}
    days = ids["repeats.day"]
    for day in [None, *np.unique(days)]:  # and a table of no day, so that the columns are always known
        which = days == day if day is not None else np.zeros(len(days), bool)
        out |= {f"repeats/{day}.{name[8:]}": column[which] for name, column in ids.items()}
    return out


def _together(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """`_by_day` undone."""
    out = {name: array for name, array in arrays.items() if not name.startswith("repeats/")}
    columns = {name.partition(".")[2] for name in arrays if name.startswith("repeats/")}
    ids = {
        column: np.concatenate(
            [
                arrays[name]
                for name in sorted(arrays)
                if name.startswith("repeats/") and name.endswith(f".{column}")
            ]
        )
        for column in columns
    }
    order = np.argsort(ids["key"])
    return out | {f"repeats.{column}": array[order] for column, array in ids.items()}
