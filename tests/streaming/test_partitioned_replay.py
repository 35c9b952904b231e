"""A run cut by principal: each part walks the whole's steps by the whole's clock, and together they say what the whole says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.detection import batch as measured
from fingerprint.detection.owner_names import OwnerNames
from fingerprint.pipeline import StepResult
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files
from fingerprint.state import partitioning
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming.partitioned_replay import STEP_COLUMN, ReplayClock, replay_partition
from tests.support import sample_organisation
from tests.support.stepwise_pipeline import (
    SETTINGS,
    Outcome,
    Step,
    outcome,
    pipeline_of,
    same,
    silences,
    steps_of,
    walked,
)


@pytest.fixture(scope="module")
def bank(organisation: sample_organisation.SampleOrganisation) -> banks.Bank:
    return bank_files.open_bank(organisation.bank)


@pytest.fixture(scope="module")
def steps(organisation: sample_organisation.SampleOrganisation) -> list[Step]:
    """Some events late, rare principals whom the bank does not know, the busiest one silent, and a few dated years ahead."""
    steps = steps_of(organisation)
    times = steps[2].events["event_time"].copy()
    times.iloc[:5] = pd.Timestamp("2199-01-01", tz="UTC")
    return [*steps[:2], Step(steps[2].events.assign(event_time=times), steps[2].watermark), *steps[3:]]


@pytest.fixture(scope="module")
def undivided(bank: banks.Bank, steps: list[Step]) -> Outcome:
    return walked(pipeline_of(bank, bank.scorer_state), [Step(step.events, None) for step in steps])


def in_parts(bank: banks.Bank, steps: list[Step], count: int, most: int, chunk: int) -> list[StepResult]:
    """Walked in `count` parts, `most` events at a time, read in chunks of some."""
    clock = ReplayClock(ScorerState.from_arrays(SETTINGS, bank.scorer_state))
    marked = pd.concat([clock.assign_step(step.events) for step in steps], ignore_index=True)
    part = hashing.bucket_of(hashing.hash_with_bucket(marked["principal"])) % count
    results: list[StepResult] = []
    for number in range(count):
        mine = marked[part == number].reset_index(drop=True)
        homes = np.arange(hashing.BUCKETS) % count == number
        pipeline = pipeline_of(bank, partitioning.select_buckets(bank.scorer_state, homes))
        results += replay_partition(pipeline, chunks(mine, chunk), clock.watermarks, most)
        assert pipeline.state.scorer.watermark == clock.watermarks[-1]
    return results


def chunks(events: pd.DataFrame, rows: int) -> Iterator[pd.DataFrame]:
    for start in range(0, len(events), rows):
        yield events.iloc[start : start + rows].reset_index(drop=True)


@pytest.mark.parametrize(("count", "most", "chunk"), [(1, 10_000, 1000), (3, 200, 70), (7, 10_000, 25)])
def test_the_parts_together_say_what_the_whole_says(
    bank: banks.Bank, steps: list[Step], undivided: Outcome, count: int, most: int, chunk: int
) -> None:
    assert silences(undivided)
    same(outcome(in_parts(bank, steps, count, most, chunk)), undivided)


def test_the_clock_believes_what_the_whole_believes(bank: banks.Bank, steps: list[Step]) -> None:
    whole = pipeline_of(bank, bank.scorer_state)
    clock = ReplayClock(whole.state.scorer)
    for step in steps:
        clock.assign_step(step.events)
        whole.process(step.events)
        assert clock.watermarks[-1] == whole.state.scorer.watermark
    assert clock.clock.unconfirmed == whole.state.scorer.unconfirmed


def test_a_part_without_events_still_walks_to_the_end(bank: banks.Bank, steps: list[Step]) -> None:
    clock = ReplayClock(ScorerState.from_arrays(SETTINGS, bank.scorer_state))
    for step in steps:
        assert list(clock.assign_step(step.events)[STEP_COLUMN].unique()) == [len(clock.watermarks) - 1]
    alone = pipeline_of(bank, partitioning.select_buckets(bank.scorer_state, np.zeros(hashing.BUCKETS, bool)))
    assert not any(
        each.alerts or len(each.votes) for each in replay_partition(alone, [], clock.watermarks, 100)
    )
    assert alone.state.scorer.watermark == clock.watermarks[-1]


def test_a_stranger_is_known_until_its_own_last_interval_anyone_who_else_came_with_it(
    bank: banks.Bank, steps: list[Step]
) -> None:
    events = pd.concat([step.events for step in steps], ignore_index=True)
    batch, _ = measured.encode_batch(events, ScorerState(SETTINGS))
    names = OwnerNames(bank, {})
    names.observe(batch)
    last = pd.Series(batch.interval).groupby(batch.frame["principal"].to_numpy()).max()
    known = {text: at for text, at in names.unknown_owners.values() if "|" not in text}
    assert len(known) > 5
    assert known == {text: last[text] for text in known}
    assert len(set(known.values())) > 1
