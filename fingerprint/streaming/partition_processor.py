"""Partition processor: one partition of the events topic, from assignment to revocation, with its events in log order.

Example:
    >>> processor = PartitionProcessor(bank, PipelineState(scorer_state, WatermarkTracker(expected=4)), settings)
    >>> for result in processor.process(events, low_watermarks, arrival_times):
    ...     store.alerts.save(result.alerts, result.votes)
    >>> saved = processor.checkpoint()

The results depend on the log alone, not on where batches are cut, because of two rules:
- An *early* event, which came ahead of other sources, is measured only once the intervals that its features read are closed.
- A *late* event, whose interval has closed, begins a step of its own, because the events before it must be judged without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames, hashing
from fingerprint.compute.arrays import Array, Longs
from fingerprint.compute.frames import Frame
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Settings
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry.bank import Bank
from fingerprint.sources.arrival import CLOCK_TOLERANCE_SECONDS
from fingerprint.state.coded_events import CodedEvents, code_events
from fingerprint.state.eviction import StateEvictor, bucket_mask
from fingerprint.state.feed_activity import FeedCounts
from fingerprint.state.pipeline_state import PipelineState, StateCheckpoint
from fingerprint.state.watermarks import WatermarkTracker

NO_EVENTS = pd.DataFrame()
MAX_LATE_STEPS = 64  # steps into which late events may cut a batch; further ones share the last step


class PartitionProcessor:
    """Runs the detection pipeline of one partition by the watermarks of its sources, with early and late events in order."""

    def __init__(
        self, bank: Bank, state: PipelineState, settings: Settings, inference: Inference | None = None
    ) -> None:
        self.state, self.settings = state, settings
        self.pipeline = DetectionPipeline(bank, state, settings, emit_early=True, inference=inference)

    @property
    def bank(self) -> Bank:
        """The bank that measures new events."""
        return self.pipeline.bank

    @property
    def watermarks(self) -> WatermarkTracker:
        """The watermark of each source."""
        return self.state.watermarks

    @property
    def feed_counts(self) -> FeedCounts:
        """Events of each feed in each interval."""
        return self.state.feed_counts

    def swap_bank(self, bank: Bank, inference: Inference | None = None) -> Callable[[], None]:
        """Measure with another bank from now on; return a function that undoes the swap (`DetectionPipeline.swap_bank`)."""
        return self.pipeline.swap_bank(bank, inference)

    def apply_settings(self, settings: Settings) -> None:
        """Apply other thresholds from now on (`DetectionPipeline.apply_settings`)."""
        self.settings = settings
        self.pipeline.apply_settings(settings)

    def process(
        self, events: Frame | CodedEvents, low_watermarks: Longs, arrival_times: Longs
    ) -> list[StepResult]:
        """Process N events in the order of the log.

        `low_watermarks` (N,) are the lowest watermark of all sources at each event, `arrival_times` (N,) the arrival of each
        event; both in seconds since 1970, on the host. Events are on the device of the backend's tables.
        """
        coded = code_events(events)
        low_watermarks = arrays.to_device_of(
            np.maximum(low_watermarks, self.state.scorer.watermark), coded.seconds
        )
        selected = self._select_events(coded, arrays.to_device_of(arrival_times, low_watermarks))
        coded, low_watermarks = coded.take(selected), low_watermarks[selected]
        starts = self._step_starts(coded, low_watermarks)
        ends = [*starts[1:], len(coded)] if starts else []
        return [
            self._process_step(coded.between(start, end), int(low_watermarks[end - 1]))
            for start, end in zip(starts, ends, strict=True)
        ]

    def count_feeds(
        self, events: pd.DataFrame, low_watermarks: Longs, feed_sources: list[str], codes: NDArray[Any]
    ) -> None:
        """Count N events for their feeds, before they are processed; `codes` (N,) are their places in `feed_sources`."""
        self.feed_counts.add_events(events, feed_sources, codes, self._first_open_intervals(low_watermarks))

    def feeds_complete_until(self) -> int:
        """Return the first interval whose feed counts may still grow, regardless of the bank's training."""
        return self.state.scorer.first_open_interval(self.watermarks.low_watermark // 1000)

    def clamp_clocks(self, now: int) -> None:
        """Set back every clock that is further ahead of `now` (ms since 1970) than events may be."""
        latest = now + CLOCK_TOLERANCE_SECONDS * 1000
        self.watermarks.clamp(now, latest)
        self.state.scorer.watermark = min(self.state.scorer.watermark, latest // 1000)

    def advance_clock(self, now: int) -> list[StepResult]:
        """Close intervals by the clock, `now` in ms since 1970, when no message is left to read."""
        self.clamp_clocks(now)
        low = self.watermarks.advance_clock(now) // 1000
        scorer_state = self.state.scorer
        if scorer_state.first_open_interval(low) <= scorer_state.first_open_interval():
            return []
        return [self._process_step(code_events(NO_EVENTS), low)]

    def counter_values(self) -> dict[str, int]:
        """Return counts by the name of their metric; some include counts from before a restart."""
        counters = self.state.counters
        return {
            "events": counters.events,
            "duplicates": counters.repeats,
            "degraded": counters.degraded,
            "verdicts": counters.verdicts,
            "silent_intervals": counters.silent_intervals,
            "late": self.state.scorer.late_events,
            "already_trained": counters.already_trained_events,
            "forced": counters.forced_events,
            "dropped": counters.dropped_events,
            "over_limit": counters.over_limit_events + counters.over_limit_intervals,
            "failed_evictions": counters.failed_evictions,
            "reloaded_buckets": self.state.evictor.reloaded_buckets if self.state.evictor else 0,
        }

    def checkpoint(self) -> StateCheckpoint:
        """Return the state as data, with the version of the bank that scores from here on."""
        saved = self.state.checkpoint()
        return saved._replace(metadata={"bank": self.bank.version, **saved.metadata})

    # --- one step -----------------------------------------------------------------------------------------------------

    def _select_events(self, events: CodedEvents, arrival_times: Array) -> Array:
        """Return a mask (N,) of the events that are not in the bank's training."""
        at, cutoff = events.seconds, self.state.training_cutoff
        known = (at < cutoff.event_time) & (arrival_times <= cutoff.arrival_time)
        self.state.counters.already_trained_events += int(known.sum())
        return ~known

    def _is_late(self, events: CodedEvents, low_watermarks: Array) -> Array:
        interval = events.seconds // self.settings.spectral.interval_seconds
        return interval < self._first_open_intervals(low_watermarks)

    def _first_open_intervals(self, low_watermarks: Array) -> Array:
        """Return the first open interval at each watermark (N,)."""
        spectral = self.settings.spectral
        return (low_watermarks - spectral.allowed_lateness_seconds) // spectral.interval_seconds

    def _step_starts(self, events: CodedEvents, low_watermarks: Array) -> list[int]:
        """Return the places where steps begin: the first event, and each first of a run of late events that are no repeats."""
        if not len(events):
            return []
        late = self._is_late(events, low_watermarks)
        if late.any():
            late &= ~self._is_duplicate(events)
        begin = arrays.namespace(late).flatnonzero(late[1:] & ~late[:-1]) + 1
        return [0, *begin[:MAX_LATE_STEPS].tolist()]

    def _is_duplicate(self, events: CodedEvents) -> Array:
        """Return a mask (N,) of the events that will be dropped as repeats: they are in the state, or earlier in this batch.

        An event with the same id and another time is not included, because the other one may be early.
        """
        exact = hashing.hash_pair(
            hashing.hash_pair(events.principal, events.key), events.seconds.astype(np.uint64)
        )
        return ~arrays.is_first_occurrence(exact) | self.state.scorer.is_duplicate(
            events.principal, events.key
        )

    def _process_step(self, events: CodedEvents, low_watermark: int) -> StepResult:
        if len(self.state.early_events):
            early = code_events(self.state.early_events)
            events = CodedEvents.concat([early, events]) if len(events) else early
        ready = self._is_ready(events, low_watermark)
        waiting = (~ready).nonzero()[0]
        self.state.early_events = (
            frames.without_other_rows(frames.select_rows(events.frame, waiting))
            if len(waiting)
            else NO_EVENTS
        )
        events = events.take(ready)
        evictor = self.state.evictor
        if not evictor:
            return self.pipeline.process(events, low_watermark)
        if len(events) and evictor.files:
            evictor.reload(bucket_mask([events.principal]))
        result = self.pipeline.process(events, low_watermark)
        if evictor.is_due():
            self._evict(evictor)
        return result

    def _evict(self, evictor: StateEvictor) -> None:
        """Evict the state of the principals inactive for longest and not in use. A store that fails costs memory, not results."""
        try:
            evictor.evict(self.state.buckets_in_use())
        except FingerprintError:
            self.state.counters.failed_evictions += 1

    def _is_ready(self, events: CodedEvents, low_watermark: int) -> Array:
        """Return a mask (N,) of the events that may be measured: those whose features read only closed intervals.

        If too many events wait, the oldest are measured nevertheless, and counted as forced.
        """
        if not len(events):
            return np.zeros(0, bool)
        scorer_state, at = self.state.scorer, events.seconds
        interval = at // self.settings.spectral.interval_seconds
        ready = interval - scorer_state.series.late_intervals <= scorer_state.first_open_interval(
            low_watermark
        )
        excess = int((~ready).sum()) - self.settings.stream.max_early_events
        if excess > 0:
            xp = arrays.namespace(ready)
            early = xp.flatnonzero(~ready)
            ready[early[xp.argsort(at[early], kind="stable")[:excess]]] = True
            self.state.counters.forced_events += excess
        return ready
