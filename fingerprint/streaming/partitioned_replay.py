"""Partitioned replay: replay a run in parts, split by principal, with the clock of the whole, so that the results are the same.

Example:
    >>> clock = ReplayClock(scorer_state)
    >>> write_partitions(map(clock.assign_step, chunks), folder, parts, on_chunk)      # events, each with its step
    >>> for result in replay_partition(pipeline, history.read_chunks(3, max_rows), clock.watermarks, max_events):
    ...     store.alerts.save(result.alerts, result.votes)

All state of a principal is in its hash bucket, except the clock: event time, and which events are too far ahead to be believed,
depend on all events. So the clock runs once, when the events are split, and every part gets its watermarks. A part closes its
intervals where the whole does. Between two closings it processes several steps together, because each batch has a fixed cost and
the cut into batches does not change results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy

import numpy as np
import pandas as pd

from fingerprint.compute import frames, hashing
from fingerprint.compute.frames import Frame
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.state.scorer_state import ScorerState

STEP_COLUMN = "step"  # the step of the whole run in which an event came


class ReplayClock:
    """The clock of a whole run, which starts from that of a state: `watermarks` after each step, in seconds since 1970."""

    def __init__(self, state: ScorerState) -> None:
        self.clock = deepcopy(state.clock)
        self.watermarks: list[int] = []

    def assign_step(self, events: pd.DataFrame) -> pd.DataFrame:
        """Return the events of the next step (at least one) with its number."""
        self.clock.observe(
            frames.epoch_seconds(events["event_time"]), hashing.hash_with_bucket(events["principal"])
        )
        self.watermarks.append(self.clock.watermark)
        return events.assign(**{STEP_COLUMN: np.int32(len(self.watermarks) - 1)})


def replay_partition(
    pipeline: DetectionPipeline,
    chunks: Iterable[pd.DataFrame],
    watermarks: Sequence[int],
    max_events: int,
    dataframe_library: str = "pandas",
) -> Iterator[StepResult]:
    """Yield the results of one part, to the end of its events.

    `chunks` are its events with their steps, in the order of the whole; `watermarks` are those of the whole after each step.
    About `max_events` events are processed at a time, in tables of `dataframe_library`.
    """
    scorer_state = pipeline.state.scorer
    buffered: list[pd.DataFrame] = []
    for watermark, parts in zip(watermarks, _group_by_step(chunks, len(watermarks)), strict=True):
        buffered += parts
        closes = scorer_state.first_open_interval(watermark) > scorer_state.first_open_interval()
        if closes or sum(map(len, buffered)) >= max_events:
            yield pipeline.process(_concat_events(buffered, dataframe_library), watermark)
            buffered = []
    if buffered:
        yield pipeline.process(_concat_events(buffered, dataframe_library), watermarks[-1])
    yield pipeline.flush()


def _group_by_step(chunks: Iterable[pd.DataFrame], count: int) -> Iterator[list[pd.DataFrame]]:
    """Yield the events of each step in turn; a part has none in some of them."""
    runs = _split_by_step(chunks)
    ahead = next(runs, None)
    for step in range(count):
        parts = []
        while ahead is not None and ahead[0] == step:
            parts.append(ahead[1])
            ahead = next(runs, None)
        yield parts


def _split_by_step(chunks: Iterable[pd.DataFrame]) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield runs of events of one step: a chunk may have many steps, or part of one."""
    for chunk in chunks:
        step = chunk.pop(STEP_COLUMN).to_numpy()
        starts = np.flatnonzero(np.diff(step, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(step)], strict=True):
            yield int(step[start]), frames.select_rows(chunk, np.arange(start, end))


def _concat_events(parts: list[pd.DataFrame], dataframe_library: str) -> Frame:
    return (
        frames.to_device(pd.concat(parts, ignore_index=True), dataframe_library) if parts else pd.DataFrame()
    )
