"""A scorer state that was cut and put together again goes on as if whole; a part says of its own what the whole does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.compute import hashing
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.core.settings import Settings, Voting
from fingerprint.detection.batch import encode_batch
from fingerprint.estimators.sequence import SeenActions
from fingerprint.features.encoding import ACTION_COLUMN, FEATURES
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry import bank as banks
from fingerprint.state import partitioning
from fingerprint.state.scorer_state import ScorerState
from tests.support.stepwise_pipeline import SETTINGS, Outcome, Step, pipeline_of, same, silences, walked

THREE = SETTINGS.model_copy(update={"voting": Voting(detectors=("autoencoder", "spectral", "sequence"))})
START = 480_000 // 24 * 24


def cut_and_mended(pipeline: DetectionPipeline, homes: np.ndarray) -> DetectionPipeline:
    whole = pipeline.state.scorer.as_arrays()
    settings = pipeline.scorer.settings
    after = pipeline_of(pipeline.scorer.bank, partitioning.select_buckets(whole, homes), settings)
    after.state.scorer.merge(partitioning.select_buckets(whole, ~homes))
    after.state.pending.parts = pipeline.state.pending.parts
    after.scorer.owner_names = pipeline.scorer.owner_names
    after.state.open_alerts = replace(pipeline.state.open_alerts, published_sizes={}, provisional=set())
    return after


# --- which tables there are -----------------------------------------------------------------------------------------------


def tables_of(state: ScorerState) -> dict[str, SortedTable]:
    """Return every table that a state holds, by name, but those of the series."""
    held: dict[str, object] = {}
    for name, part in vars(state).items():
        inside = {} if name == "series" else getattr(part, "__dict__", {})
        held |= {name: part} | {f"{name}.{each}": table for each, table in inside.items()}
    return {name: table for name, table in held.items() if isinstance(table, SortedTable)}


def test_every_table_of_a_state_is_saved_and_split() -> None:
    state = ScorerState(Settings())
    assert set(tables_of(state)) == {"repeats", *partitioning.TABLE_NAMES}
    saved = {name.rpartition(".")[0] for name in state.as_arrays() if not name.startswith("series.")}
    assert saved == {"", "repeats", *partitioning.TABLE_NAMES}


def test_a_bank_keeps_every_table_that_reading_a_history_fills(bank: banks.Bank, steps: list[Step]) -> None:
    """But the ids of records, which belong to no bank."""
    kept = {name.rpartition(".")[0] for name in bank.scorer_state} & set(partitioning.TABLE_NAMES)
    assert kept == set(partitioning.LEARNED_TABLES)
    state = ScorerState(SETTINGS)
    batch, _ = encode_batch(steps[0].events, state)
    state.sequence.add(
        SeenActions(batch.principal, np.zeros(len(batch), np.int64), batch.codes[:, ACTION_COLUMN])
    )
    filled = {name for name, table in tables_of(state).items() if len(table)}
    assert filled == {"repeats", *partitioning.LEARNED_TABLES}


# --- on the pipeline ------------------------------------------------------------------------------------------------------


def test_a_scorer_state_cut_and_mended_after_every_step_judges_as_if_it_had_stayed_whole(
    bank: banks.Bank, steps: list[Step], undisturbed: Outcome
) -> None:
    random = np.random.default_rng(1)

    def cut(pipeline: DetectionPipeline, _: Step) -> DetectionPipeline:
        return cut_and_mended(pipeline, random.random(hashing.BUCKETS) < random.random())

    assert silences(undisturbed)
    same(walked(pipeline_of(bank, bank.scorer_state), steps, after=cut), undisturbed)


def test_the_sequence_detector_judges_as_if_its_state_had_stayed_whole(
    bank: banks.Bank, steps: list[Step]
) -> None:
    random = np.random.default_rng(3)

    def cut(pipeline: DetectionPipeline, _: Step) -> DetectionPipeline:
        return cut_and_mended(pipeline, random.random(hashing.BUCKETS) < 0.5)

    whole, cut_up = (
        walked(pipeline_of(bank, bank.scorer_state, THREE), steps, **how) for how in ({}, {"after": cut})
    )
    assert whole.events["sequence_vote"].any()
    same(cut_up, whole)


def test_each_quarter_of_the_virtual_partitions_says_of_its_principals_what_the_whole_says(
    bank: banks.Bank, steps: list[Step], undisturbed: Outcome
) -> None:
    parts = []
    for quarter in range(4):
        homes = hashing.buckets_of_partitions(np.arange(256) % 4 == quarter)
        theirs = [Step(_at(step.events, homes), step.watermark) for step in steps]
        parts.append(walked(pipeline_of(bank, partitioning.select_buckets(bank.scorer_state, homes)), theirs))
    together = Outcome(*(pd.concat(tables).sort_index() for tables in zip(*parts, strict=True)))
    same(together, undisturbed)


def _at(events: pd.DataFrame, homes: np.ndarray) -> pd.DataFrame:
    return events[homes[hashing.bucket_of(hashing.hash_with_bucket(events["principal"]))]].reset_index(
        drop=True
    )


# --- by itself --------------------------------------------------------------------------------------------------------


def small_scorer_state(seed: int) -> ScorerState:
    """Forty principals over some days: ids, activity, novelties, interval surprises, series with forecasts."""
    random, count = np.random.default_rng(seed), 400
    scorer_state = ScorerState(Settings())
    people = hashing.hash_with_bucket(pd.Series([f"1:user/{number}" for number in range(40)]))
    for day in range(4):
        who = people[random.integers(0, len(people), count)]
        interval = (START + day * 24 + random.integers(0, 24, count)).astype(np.int32)
        codes = random.integers(1, 9, (count, len(FEATURES))).astype(np.uint64)
        scorer_state.deduplicate(who, random.integers(0, 2**63, count).astype(np.uint64), interval // 24)
        scorer_state.update_history(who, interval, codes)
        scorer_state.is_known_novelty(hashing.combine(who, codes[:, 0]), interval)
        scorer_state.first_calls.familiar_age(hashing.combine(who, codes[:, 2]), interval, codes[:, 0])
        scorer_state.sequence.add(SeenActions(who, interval * np.int64(3600), codes[:, 0]))
        scorer_state.sequence.add_votes(hashing.combine(who, codes[:, 1]), interval)
        scorer_state.interval_surprise.add(
            who, interval, codes, random.random(codes.shape).astype(np.float32) * 9
        )
        scorer_state.interval_amounts.add(who, interval, codes[:, 0])
        since, weight = scorer_state.first_seen(who), np.ones(count, np.float32)
        keys = scorer_state.series.add_counts(who, codes[:, 1], interval, since, weight)
        scorer_state.series.z_scores(scorer_state.series.find_rows(keys), interval)
        scorer_state.observe_time(interval.astype(np.int64) * 3600, who)
        scorer_state.expire()
    return scorer_state


@given(seed=st.integers(0, 99), share=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_two_parts_hold_all_of_a_scorer_state_and_nothing_twice(seed: int, share: float) -> None:
    whole = small_scorer_state(seed).as_arrays()
    homes = np.random.default_rng(seed).random(hashing.BUCKETS) < share
    parts = [partitioning.select_buckets(whole, homes), partitioning.select_buckets(whole, ~homes)]
    for name, array in whole.items():
        if name != "clock":
            assert sum(len(part[name]) for part in parts) == len(array), name
            assert all(part[name].dtype == array.dtype for part in parts), name
    for part in parts:
        for name in ("principals.key", "activity.key", "series.past.key", "series.open.key", "repeats.key"):
            assert (np.diff(part[name].astype(object)) > 0).all(), f"{name} is sorted"


@given(seed=st.integers(0, 99), share=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_what_was_cut_out_and_put_back_is_all_there_and_belongs_to_the_same(seed: int, share: float) -> None:
    scorer_state = small_scorer_state(seed)
    whole = scorer_state.as_arrays()
    homes = np.random.default_rng(seed).random(hashing.BUCKETS) < share
    mended = ScorerState.from_arrays(Settings(), partitioning.select_buckets(whole, homes))
    mended.merge(partitioning.select_buckets(whole, ~homes))
    for table in (
        "repeats",
        "firsts",
        "novelties",
        "first_calls.calls",
        "interval_surprise.values",
        "interval_surprise.sums",
        "interval_surprise.usual_place",
        "sequence.actions",
        "sequence.votes",
        "interval_amounts.counts",
    ):
        for name in (each for each in whole if each.rpartition(".")[0] == table):
            np.testing.assert_array_equal(mended.as_arrays()[name], whole[name], err_msg=name)
    keys = hashing.combine(scorer_state.series.owner, scorer_state.series.channel)
    rows = [one.series.find_rows(keys) for one in (scorer_state, mended)]
    for start, end in ((START, START + 96), (START + 48, START + 200)):
        dense = [
            one.series.dense_counts(row, start, end)
            for one, row in zip((scorer_state, mended), rows, strict=True)
        ]
        np.testing.assert_array_equal(*dense)
    now = np.full(len(keys), START + 96, np.int32)
    expected = [
        one.series.expected_counts(row, now) for one, row in zip((scorer_state, mended), rows, strict=True)
    ]
    np.testing.assert_array_equal(expected[0], expected[1])


def test_a_part_is_not_merged_twice() -> None:
    scorer_state = small_scorer_state(0)
    with pytest.raises(ValueError, match="already"):
        scorer_state.merge(
            partitioning.select_buckets(scorer_state.as_arrays(), np.ones(hashing.BUCKETS, bool))
        )
