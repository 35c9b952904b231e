"""A run cut by principal: each part walks the steps of the whole by the whole's clock, and says its part of what the whole says.

Example:
    >>> steps = Steps(ledger)
    >>> pieces.split(map(steps.mark, chunks), folder, 8, saw, without=())      # events, and the step each comes in
    >>> for said in walk(road, history.chunks(3, most), steps.watermarks, most):
    ...     desk.save(said.alerts, said.votes)

All that a ledger knows of a principal lies at its home, but for the clock: how far event time has come, and which events lie too
far ahead to be believed, is read off all events. So the clock runs once, when the events are cut, and every part is told.
A part closes its intervals where the whole does. Between two closings it takes several steps at once: a batch has its price,
however small, and where it is cut changes nothing.
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

STEP_COLUMN = "step"  # the column that says in which step of the whole an event came


class ReplayClock:
    """The clock of a whole run that begins where a ledger stands: `watermarks`, seconds from the epoch after each step."""

    def __init__(self, state: ScorerState) -> None:
        self.clock = deepcopy(state.clock)
        self.watermarks: list[int] = []

    def assign_step(self, events: pd.DataFrame) -> pd.DataFrame:
        """The events of the next step (some), with its number."""
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
    """What a part says of its events (marked, in the order of the whole), to the end; at most about `most` at a time, in tables
    of that library."""
    scorer_state = pipeline.state.scorer
    held: list[pd.DataFrame] = []
    for watermark, parts in zip(watermarks, _group_by_step(chunks, len(watermarks)), strict=True):
        held += parts
        closes = scorer_state.first_open_interval(watermark) > scorer_state.first_open_interval()
        if closes or sum(map(len, held)) >= max_events:
            yield pipeline.process(_concat_events(held, dataframe_library), watermark)
            held = []
    if held:
        yield pipeline.process(_concat_events(held, dataframe_library), watermarks[-1])
    yield pipeline.flush()


def _group_by_step(chunks: Iterable[pd.DataFrame], count: int) -> Iterator[list[pd.DataFrame]]:
    """The events of each step in its turn; most parts have none in some."""
    runs = _split_by_step(chunks)
    ahead = next(runs, None)
    for step in range(count):
        parts = []
        while ahead is not None and ahead[0] == step:
            parts.append(ahead[1])
            ahead = next(runs, None)
        yield parts


def _split_by_step(chunks: Iterable[pd.DataFrame]) -> Iterator[tuple[int, pd.DataFrame]]:
    """Stretches of events of one step: a chunk may hold many of them, or part of one."""
    for chunk in chunks:
        step = chunk.pop(STEP_COLUMN).to_numpy()
        starts = np.flatnonzero(np.diff(step, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(step)], strict=True):
            yield int(step[start]), frames.select_rows(chunk, np.arange(start, end))


def _concat_events(parts: list[pd.DataFrame], dataframe_library: str) -> Frame:
    return (
        frames.to_device(pd.concat(parts, ignore_index=True), dataframe_library) if parts else pd.DataFrame()
    )
