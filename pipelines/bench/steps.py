"""Cost of one step of a pipeline with few events, and with a large state.

A scorer polls several times a second, and each poll is a step of each of its partitions. So a fixed cost of a step, or a cost
that grows with the state, is paid all day.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from pipelines.bench.organisations import trained_organisation
from pipelines.bench.report import benchmark

if TYPE_CHECKING:
    from fingerprint.compute.column_table import ColumnTable

STEP_EVENTS, STEPS = 50, 200
POLL_PARTITIONS = 4  # partitions with events in a poll
MAX_STEP_MS = 5.0
EVENTS, MAX_EVENT_US = 500, 50.0
LARGE_STATE, SMALL_STATE = 2_000_000, 100_000  # ids of records that a state keeps
IDS_PER_PRINCIPAL = 200
HOUR, DAY = 3600, DAY_SECONDS
TODAY = 20_000  # days since 1970


@benchmark("a step of 50 events of one partition, CPU", "ms", f"{MAX_STEP_MS:g} ms", 1, at_most=True)
def small_step_cost() -> tuple[float, float]:
    """Take the median of a partition's steps, each with its share of coding the poll; some close an interval, and cost more."""
    from fingerprint.state.coded_events import code_events
    from fingerprint.state.pipeline_state import PipelineState
    from fingerprint.state.scorer_state import ScorerState
    from fingerprint.streaming.partition_processor import PartitionProcessor

    trained = trained_organisation()
    scorer_state = ScorerState.from_arrays(trained.settings, trained.bank.scorer_state)
    processor = PartitionProcessor(trained.bank, PipelineState(scorer_state), trained.settings)
    events = pd.concat(trained.events, ignore_index=True)
    seconds = []
    for start in range(0, STEP_EVENTS * STEPS, STEP_EVENTS * POLL_PARTITIONS):
        poll = _read_poll(events.iloc[start : start + STEP_EVENTS * POLL_PARTITIONS])
        begin = time.process_time()
        coded = code_events(poll)
        share = (time.process_time() - begin) / POLL_PARTITIONS
        for at in range(0, len(coded), STEP_EVENTS):
            begin = time.process_time()
            few = coded.between(at, at + STEP_EVENTS)
            processor.process(few, few.seconds, few.seconds)
            seconds.append(share + time.process_time() - begin)
    cost = float(np.median(seconds)) * 1000
    return cost, cost / MAX_STEP_MS


def _read_poll(events: pd.DataFrame) -> ColumnTable:
    """Return the events of a poll, of all partitions, in the table type of a scorer, which uses no pandas here."""
    from fingerprint.detection.batch import FRAME_COLUMNS

    poll: ColumnTable = frames.to_column_table(
        frames.select_columns(events.reset_index(drop=True), FRAME_COLUMNS)
    )
    return poll


@benchmark(
    f"500 events in a state of {LARGE_STATE:,} ids, CPU",
    "ms",
    f"in a state of {SMALL_STATE:,}",
    3,
    at_most=True,
)
def large_state_cost() -> tuple[float, float]:
    """Drop repeats, count history and expire old entries in two states, one of them twenty times as large."""
    large, small = (_state_step_cost(ids) for ids in (LARGE_STATE, SMALL_STATE))
    return large * 1000, large / small


def _state_step_cost(ids: int) -> float:
    """Return the CPU seconds of a step, the least of ten."""
    from fingerprint.features.encoding import FEATURES
    from fingerprint.state.scorer_state import ScorerState

    random, state = np.random.default_rng(0), ScorerState(Settings())
    people = random.integers(0, 2**63, ids // IDS_PER_PRINCIPAL).astype(np.uint64)
    state.watermark = TODAY * DAY

    def step(events: int) -> float:
        who = people[random.integers(0, len(people), events)]
        keys: NDArray[np.uint64] = random.integers(0, 2**63, events).astype(np.uint64)
        codes = random.integers(0, 1000, (events, len(FEATURES))).astype(np.uint64)
        interval = (TODAY * DAY // HOUR - random.integers(0, 40, events)).astype(np.int32)
        begin = time.process_time()
        state.deduplicate(who, keys, np.full(events, TODAY, np.int32))
        state.update_history(who, interval, codes)
        state.expire()
        return time.process_time() - begin

    for _ in range(ids // 50_000):
        step(50_000)
    return min(step(500) for _ in range(10))


@benchmark(
    "one event, fields to verdict with explanation, CPU", "µs", f"{MAX_EVENT_US:g} µs", 1, at_most=True
)
def single_event_cost() -> tuple[float, float]:
    """Encode an event and measure each feature's surprise and its z, one event at a time: the mean of EVENTS, as decoded."""
    from fingerprint.detection import batch
    from fingerprint.detection.inference import LocalInference
    from fingerprint.estimators import autoencoder, tail_calibration
    from fingerprint.state.scorer_state import ScorerState

    trained = trained_organisation()
    bank, inference = trained.bank, LocalInference(trained.bank)
    state = ScorerState.from_arrays(trained.settings, bank.scorer_state)
    columns = [name for name in batch.FRAME_COLUMNS if name in trained.events[0]]
    decoded = frames.to_column_table(trained.events[0][columns].head(EVENTS))
    events = [decoded.take(np.array([row])) for row in range(len(decoded))]
    begin = time.process_time()
    for event in events:
        encoded, _ = batch.encode_batch(event, state)
        fingerprint, _ = bank.resolve(encoded.entity, encoded.principal, encoded.frame)
        loss, _ = inference.losses(fingerprint, encoded.codes)
        surprise = autoencoder.surprise_per_feature(loss, bank.baseline.center, fingerprint)
        tail_calibration.excess_to_z(autoencoder.total_surprise(surprise), bank.baseline, fingerprint)
    cost = (time.process_time() - begin) / len(events) * 1e6
    return cost, cost / MAX_EVENT_US
