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
from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import concat_batches
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry.bank import Bank
from fingerprint.sources.flatten import dedup_key
from fingerprint.state import partitioning
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming import checkpoint_codec, feed_activity
from fingerprint.streaming.feed_activity import FeedCounts
from fingerprint.streaming.state_eviction import StateEvictor, bucket_mask
from fingerprint.streaming.watermarks import WatermarkTracker

Longs = NDArray[np.int64]

_OTHER_PARTS = ("held", "feeds", "spilled")  # parts that are not the ledger's
NO_BLOBS: Mapping[str, bytes] = {}
MAX_LATE_STEPS = 64  # steps that late events may cut a batch into; past that they share the last one
_COUNTER_NAMES = ("already_trained_events", "forced_events")


class TrainingCutoff(NamedTuple):
    """What a bank's training can have read: events before `upto` that arrived by `arrived`, both in seconds since 1970.

    An event is passed over only if it is both. What is dated back, and arrives after the training, is judged.
    """

    event_time: int = 0
    arrival_time: int = 0


NO_CUTOFF = TrainingCutoff()


class PartitionProcessor:
    """The road of one partition, and what it needs to go on after a restart."""

    def __init__(
        self,
        bank: Bank,
        state: ScorerState,
        settings: Settings,
        watermarks: WatermarkTracker,
        training_cutoff: TrainingCutoff = NO_CUTOFF,
        inference: Inference | None = None,
        backend: Backend = HOST_BACKEND,
    ) -> None:
        self.settings, self.watermarks, self.backend = settings, watermarks, backend
        self.pipeline = DetectionPipeline(bank, state, settings, emit_early=True, inference=inference)
        self.training_cutoff = training_cutoff
        self.feed_counts = FeedCounts(settings.spectral.interval_seconds, feed_activity.MAX_FEEDS)
        self.evictor: StateEvictor | None = None  # where what was silent longest is put away
        self.early_events = pd.DataFrame()
        self.already_trained_events = 0  # events that the bank has learned
        self.forced_events = 0  # events that were held no longer, because too many were
        self.failed_evictions = 0  # times that nothing could be put away, because the store was

    @property
    def bank(self) -> Bank:
        """The one that judges."""
        return self.pipeline.scorer.bank

    def swap_bank(self, bank: Bank, inference: Inference | None = None) -> Callable[[], None]:
        """Measure what comes from now on against another bank; returns what takes that back (`Road.judge_by`)."""
        return self.pipeline.swap_bank(bank, inference)

    def apply_settings(self, settings: Settings) -> None:
        """Hold what comes from now on to other thresholds (`Road.hold_to`)."""
        self.settings = settings
        self.pipeline.apply_settings(settings)

    def process(self, events: pd.DataFrame, low_watermarks: Longs, arrival_times: Longs) -> list[StepResult]:
        """Events in the order of the log, the least watermark at each of them and when each arrived, (N,) each, in seconds. Told
        where they lie: events where the backend's tables do, the times on the host."""
        low_watermarks = arrays.to_device_of(
            np.maximum(low_watermarks, self.pipeline.state.watermark), _seconds(events)
        )
        wanted = self._select_events(events, arrays.to_device_of(arrival_times, low_watermarks))
        events, low_watermarks = frames.select_rows(events, wanted), low_watermarks[wanted]
        starts = self._step_starts(events, low_watermarks)
        ends = [*starts[1:], len(events)] if starts else []
        return [
            self._process_step(events.iloc[start:end], int(low_watermarks[end - 1]))
            for start, end in zip(starts, ends, strict=True)
        ]

    def count_feeds(
        self, events: pd.DataFrame, low_watermarks: Longs, feed_sources: list[str], codes: NDArray[Any]
    ) -> None:
        """Count for their feeds what is about to be walked; `codes` (N,) say which of `ways` each came by."""
        self.feed_counts.add_events(events, feed_sources, codes, self._first_open_intervals(low_watermarks))

    def feeds_complete_until(self) -> int:
        """Feeds are completely counted in the intervals below this one; that a bank has learned them says nothing of it."""
        return self.pipeline.state.first_open_interval(self.watermarks.low_watermark // 1000)

    def clamp_clocks(self, now: int) -> None:
        """Let no clock be ahead of `now` (ms) by more than events may be: one that was heals."""
        most = now + self.settings.reading.max_future_seconds * 1000
        self.watermarks.clamp(now, most)
        self.pipeline.state.watermark = min(self.pipeline.state.watermark, most // 1000)

    def advance_clock(self, now: int) -> list[StepResult]:
        """Nothing is left to be read at `now` (ms): intervals close by the clock."""
        self.clamp_clocks(now)
        low = self.watermarks.advance_clock(now) // 1000
        ledger = self.pipeline.state
        if ledger.first_open_interval(low) <= ledger.first_open_interval():
            return []
        return [self._process_step(pd.DataFrame(), low)]

    def counter_values(self) -> dict[str, int]:
        """What has gone by, some of it before a restart: for whoever counts what came in between."""
        tally, scorer = self.pipeline.counters, self.pipeline.scorer
        return {
            "events": tally.events,
            "repeats": tally.repeats,
            "degraded": tally.degraded,
            "verdicts": tally.verdicts,
            "silences": tally.silent_intervals,
            "late": self.pipeline.state.late_events,
            "learned": self.already_trained_events,
            "hurried": self.forced_events,
            "dropped": scorer.dropped_events,
            "refused": scorer.over_limit_events,
            "unspilled": self.failed_evictions,
            "fetched": self.evictor.reloaded_buckets if self.evictor else 0,
        }

    def restrict_to(self, buckets: NDArray[np.bool_]) -> PartitionProcessor:
        """What of it belongs to some homes, (65536,): where a partition was divided."""
        road = self.pipeline
        if self.evictor:
            self.evictor.reload(buckets)
        own, told = (
            partitioning.select_buckets(road.state.as_arrays(), buckets),
            (self.settings, self.watermarks, self.training_cutoff),
        )
        ledger = ScorerState.from_arrays(self.settings, own, self.backend.to_device)
        keeper = PartitionProcessor(self.bank, ledger, *told, road.scorer.inference, self.backend)
        keeper.pipeline.alert_groups.explainer = replace(
            keeper.pipeline.alert_groups.explainer, previous_banks=road.alert_groups.explainer.previous_banks
        )
        keeper.feed_counts = self.feed_counts  # of no home

        def theirs(principal: Hashes) -> NDArray[np.bool_]:
            return arrays.to_device_of(buckets, principal)[hashing.bucket_of(principal)]

        keeper.pipeline.scorer.owner_names.unknown_owners = dict(road.scorer.owner_names.unknown_owners)
        keeper.pipeline.scorer.pending = [part.take(theirs(part.principal)) for part in road.scorer.pending]
        keeper.pipeline.alert_groups.open_verdicts = [
            part.take(theirs(part.batch.principal)) for part in road.alert_groups.open_verdicts
        ]
        if len(self.early_events):
            keeper.early_events = frames.select_rows(
                self.early_events, theirs(hashing.hash_with_bucket(self.early_events["principal"]))
            )
        return keeper

    # --- one step -----------------------------------------------------------------------------------------------------

    def _select_events(self, events: pd.DataFrame, arrival_times: Array) -> Array:
        at, learned = _seconds(events), self.training_cutoff
        known = (at < learned.event_time) & (arrival_times <= learned.arrival_time)
        self.already_trained_events += int(known.sum())
        return ~known

    def _is_late(self, events: pd.DataFrame, low_watermarks: Array) -> Array:
        return _seconds(events) // self.settings.spectral.interval_seconds < self._first_open_intervals(
            low_watermarks
        )

    def _first_open_intervals(self, low_watermarks: Array) -> Array:
        """Below which interval all had closed at watermarks (N,)."""
        spectral = self.settings.spectral
        return (low_watermarks - spectral.allowed_lateness_seconds) // spectral.interval_seconds

    def _step_starts(self, events: pd.DataFrame, low_watermarks: Array) -> list[int]:
        """Where steps begin: at the first event, and wherever late ones do that are no repeats."""
        if not len(events):
            return []
        late = self._is_late(events, low_watermarks)
        if late.any():
            late &= ~self._is_duplicate(events)
        begin = arrays.namespace(late).flatnonzero(late[1:] & ~late[:-1]) + 1
        return [0, *begin[:MAX_LATE_STEPS].tolist()]

    def _is_duplicate(self, events: pd.DataFrame) -> Array:
        """Which events will be dropped: the ledger has them, or the same one came earlier in this batch. One that lies as the
        other's id but at another time is not counted among them: the other may be held."""
        principal, keys = hashing.hash_with_bucket(events["principal"]), dedup_key(events)
        exact = hashing.hash_pair(hashing.hash_pair(principal, keys), _seconds(events).astype(np.uint64))
        return ~arrays.is_first_occurrence(exact) | self.pipeline.state.is_duplicate(principal, keys)

    def _process_step(self, events: pd.DataFrame, low_watermark: int) -> StepResult:
        if len(self.early_events):
            events = frames.concat_frames([self.early_events, events])
        ready = self._is_ready(events, low_watermark)
        self.early_events = frames.select_rows(events, ~ready)
        events = frames.select_rows(events, ready)
        if not self.evictor:
            return self.pipeline.process(events, low_watermark)
        if len(events) and self.evictor.files:
            self.evictor.reload(bucket_mask([hashing.hash_with_bucket(events["principal"])]))
        said = self.pipeline.process(events, low_watermark)
        if self.evictor.is_due():
            self._evict(self.evictor)
        return said

    def _evict(self, evictor: StateEvictor) -> None:
        """Of what waits for nothing, what was silent longest, where there is too much. A store that cannot take it costs
        memory, no answer."""
        waiting = [part.principal for part in self.pipeline.scorer.pending]
        verdicts = [part.batch.principal for part in self.pipeline.alert_groups.open_verdicts]
        held = [hashing.hash_with_bucket(self.early_events["principal"])] if len(self.early_events) else []
        try:
            evictor.evict(bucket_mask([*waiting, *verdicts, *held]))
        except FingerprintError:
            self.failed_evictions += 1

    def _is_ready(self, events: pd.DataFrame, low_watermark: int) -> Array:
        """Which events may be measured: all that their memory reads is closed. Of too many that may not, the oldest are
        measured all the same, and counted."""
        if not len(events):
            return np.zeros(0, bool)
        ledger = self.pipeline.state
        at = _seconds(events)
        interval = at // self.settings.spectral.interval_seconds
        ready = interval - ledger.series.late_intervals <= ledger.first_open_interval(low_watermark)
        over = int((~ready).sum()) - self.settings.stream.max_early_events
        if over > 0:
            xp = arrays.namespace(ready)
            held = xp.flatnonzero(~ready)
            ready[held[xp.argsort(at[held], kind="stable")[:over]]] = True
            self.forced_events += over
        return ready

    # --- a snapshot ---------------------------------------------------------------------------------------------------

    def checkpoint_metadata(self) -> dict[str, Any]:
        """What is small, fit for JSON."""
        return {
            "bank": self.bank.version,
            "lies_in_bank": list(self.training_cutoff),
            "feeds_closed": self.feed_counts.closed_until,
            "dropped": self.pipeline.scorer.dropped_events,
            "refused": self.pipeline.scorer.over_limit_events,
            "strangers": {
                str(name): list(kept)
                for name, kept in self.pipeline.scorer.owner_names.unknown_owners.items()
            },
            **{name: getattr(self, name) for name in _COUNTER_NAMES},
            **self.watermarks.as_metadata(),
        }

    def checkpoint_blobs(self) -> dict[str, bytes]:
        """What is large, by name. Parts that did not change are the same bytes again."""
        scorer, parts = (
            self.pipeline.scorer,
            checkpoint_codec.pack_tables(_split_by_day(self.pipeline.state.as_arrays())),
        )
        if scorer.pending:
            scorer.pending = [concat_batches(scorer.pending)]
            parts |= checkpoint_codec.pack_batch("waiting", scorer.pending[0])
        if self.pipeline.alert_groups.open_verdicts:
            batch, frame = self.pipeline.alert_groups.merge_open()
            parts |= checkpoint_codec.pack_batch("verdicts", batch, frame)
        if self.evictor and self.evictor.files:
            parts["spilled"] = checkpoint_codec.pack_arrays(self.evictor.as_arrays())
        if len(self.early_events):
            parts["held"] = checkpoint_codec.pack_table(frames.to_pandas(self.early_events))
        if len(counts := self.feed_counts.as_table()):
            parts["feeds"] = checkpoint_codec.pack_table(counts)
        return parts

    def with_eviction(
        self, put: Callable[[bytes], str], get: Callable[[str], bytes], blobs: Mapping[str, bytes] = NO_BLOBS
    ) -> PartitionProcessor:
        """Itself, its ledger bounded from now on: what was silent longest goes to a store and comes back before it is read.
        `parts` of a snapshot say what lies there already."""
        self.evictor = StateEvictor(self.pipeline.state, self.settings.stream.max_series, put, get)
        if "spilled" in blobs:
            self.evictor.restore(checkpoint_codec.unpack_arrays(blobs["spilled"]))
        return self

    def referenced_blobs(self) -> tuple[str, ...]:
        """The files of the store that a snapshot needs."""
        return self.evictor.blob_names() if self.evictor else ()

    @classmethod
    def from_checkpoint(
        cls,
        bank: Bank,
        settings: Settings,
        watermarks: WatermarkTracker,
        metadata: Mapping[str, Any],
        blobs: Mapping[str, bytes],
        inference: Inference | None = None,
        find_bank: Callable[[str], Bank | None] = lambda version: None,
        backend: Backend = HOST_BACKEND,
    ) -> PartitionProcessor:
        """The keeper that goes on where a snapshot was taken. `earlier` finds the banks that measured what waits, None where
        one is gone."""
        own = [
            name
            for name in blobs
            if name not in _OTHER_PARTS and not name.startswith(("waiting.", "verdicts."))
        ]
        ledger = ScorerState.from_arrays(
            settings, _merge_days(checkpoint_codec.unpack_tables(blobs, own)), backend.to_device
        )
        keeper = cls(
            bank, ledger, settings, watermarks, TrainingCutoff(*metadata["lies_in_bank"]), inference, backend
        )
        scorer, groups = keeper.pipeline.scorer, keeper.pipeline.alert_groups
        scorer.dropped_events, scorer.over_limit_events = int(metadata["dropped"]), int(metadata["refused"])
        scorer.owner_names.unknown_owners = {
            int(name): (text, last) for name, (text, last) in metadata["strangers"].items()
        }
        for name in _COUNTER_NAMES:
            setattr(keeper, name, int(metadata[name]))
        if waiting := checkpoint_codec.unpack_batch("waiting", blobs):
            scorer.pending = [waiting]
        if verdicts := checkpoint_codec.unpack_batch("verdicts", blobs):
            groups.open_verdicts = [Verdicts(verdicts, verdicts.frame)]
        keeper._restore_previous_banks(find_bank, str(metadata["bank"]))
        if "held" in blobs:
            keeper.early_events = frames.to_device(
                checkpoint_codec.unpack_table(blobs["held"]), backend.dataframe_library
            )
        if "feeds" in blobs:
            keeper.feed_counts.restore(
                checkpoint_codec.unpack_table(blobs["feeds"]), int(metadata["feeds_closed"])
            )
        return keeper

    def _restore_previous_banks(
        self, find_bank: Callable[[str], Bank | None], checkpoint_bank_version: str
    ) -> None:
        """The banks that measured what waits, where they are still there; and that another one judges now than `judged`."""
        found = {
            version: find_bank(version) for version in self.pipeline.referenced_banks() - {self.bank.version}
        }
        there = {version: bank for version, bank in found.items() if bank}
        groups, ledger = self.pipeline.alert_groups, self.pipeline.state
        groups.explainer = replace(groups.explainer, previous_banks=there)
        if checkpoint_bank_version != self.bank.version:
            ledger.channels_since = ledger.watermark // self.settings.spectral.interval_seconds


def _seconds(events: pd.DataFrame) -> Array:
    """Event times since 1970 (N,), where the events lie."""
    if not len(events):
        return np.zeros(0, np.int64)
    return frames.epoch_seconds(events["event_time"])


def _split_by_day(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Ids that were seen, a table for each day: of the largest table only today's part changes."""
    out = {name: array for name, array in arrays.items() if not name.startswith("repeats.")}
    ids = {name: array for name, array in arrays.items() if name.startswith("repeats.")}
    days = ids["repeats.day"]
    for day in [None, *np.unique(days)]:  # and a table of no day, so that the columns are always known
        which = days == day if day is not None else np.zeros(len(days), bool)
        out |= {f"repeats/{day}.{name[8:]}": column[which] for name, column in ids.items()}
    return out


def _merge_days(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
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
