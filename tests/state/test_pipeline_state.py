"""The state of a pipeline: what was saved goes on as if nothing had happened, and its parts answer like the whole."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fingerprint.compute import hashing
from fingerprint.core.alert import z_column
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings, Voting
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry.bank import Bank
from fingerprint.state import pipeline_state as pipeline_state_module
from fingerprint.state.pipeline_state import Counters, PipelineState, TrainingCutoff
from fingerprint.state.scorer_state import NOVELTY_DAYS, ScorerState
from fingerprint.state.watermarks import WatermarkTracker
from tests.support.stepwise_pipeline import (
    SETTINGS,
    Outcome,
    Step,
    outcome,
    pipeline_of,
    same,
    silences,
    walked,
)

HOUR = 3600
MIDDLE = 8  # steps before a split
SLOW = settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


def restored(state: PipelineState, settings: Settings = SETTINGS) -> PipelineState:
    """Return the state after a restart: metadata as JSON, blobs as bytes."""
    saved = state.checkpoint()
    return PipelineState.restore(settings, json.loads(json.dumps(saved.metadata)), saved.blobs)


def pipeline_with(bank: Bank, state: PipelineState) -> DetectionPipeline:
    return DetectionPipeline(bank, state, SETTINGS, keep_all_events=True)


def masks(parts: int) -> list[np.ndarray]:
    """Return the hash buckets of each of so many Kafka partitions."""
    virtual = np.arange(hashing.VIRTUAL_PARTITIONS)
    return [hashing.buckets_of_partitions(virtual % parts == number) for number in range(parts)]


def events_in(events: pd.DataFrame, buckets: np.ndarray) -> pd.DataFrame:
    mine = buckets[hashing.bucket_of(hashing.hash_with_bucket(events["principal"]))]
    return events[mine].reset_index(drop=True)


# --- checkpoint and restore -------------------------------------------------------------------------------------------


@given(restarts=st.sets(st.integers(0, 40), min_size=1, max_size=12))
@SLOW
def test_restarts_between_any_steps_change_no_answer(
    bank: Bank, steps: Sequence[Step], undisturbed: Outcome, restarts: set[int]
) -> None:
    pipeline, results = pipeline_of(bank, bank.scorer_state), list[StepResult]()
    for number, step in enumerate(steps):
        results.append(pipeline.process(*step))
        if number in restarts:
            pipeline = pipeline_with(bank, restored(pipeline.state))
    results.append(pipeline.flush())
    assert silences(undisturbed)
    assert len(undisturbed.supporting)
    same(outcome(results), undisturbed)


def test_a_restart_between_records_that_come_weeks_late_changes_no_answer(
    bank: Bank, steps: Sequence[Step]
) -> None:
    """Older than novelties, principals, runs of alerts and ids are kept for; some of them come twice."""
    first, watermark = steps[0].events, steps[MIDDLE - 1].watermark
    old = first.assign(
        event_id="old-" + first["event_id"].astype(str),
        event_time=first["event_time"] - pd.Timedelta(days=NOVELTY_DAYS + 2),
    )
    half = len(old) // 2
    late = [Step(old.iloc[: half + 20], watermark), Step(old.iloc[half:].reset_index(drop=True), watermark)]
    outcomes = []
    for restarts in (False, True):
        pipeline, results = pipeline_of(bank, bank.scorer_state), list[StepResult]()
        for number, step in enumerate((*steps[:MIDDLE], *late, *steps[MIDDLE:])):
            if restarts and number in (MIDDLE, MIDDLE + 1):
                pipeline = pipeline_with(bank, restored(pipeline.state))
            results.append(pipeline.process(*step))
        results.append(pipeline.flush())
        outcomes.append(outcome(results))
    same(*outcomes)


def test_every_part_of_the_state_survives(bank: Bank, steps: Sequence[Step]) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    for step in steps[:MIDDLE]:
        pipeline.process(*step)
    before = pipeline.state
    before.early_events = steps[MIDDLE].events
    before.training_cutoff = TrainingCutoff(7 * HOUR, 8 * HOUR)
    before.watermarks.advance(["raw/0"], np.zeros(1, np.int64), np.array([5_000]), np.array([6_000]))
    before.feed_counts.add_events(
        steps[0].events, ["raw/0"], np.zeros(len(steps[0].events), np.int64), np.zeros(len(steps[0].events))
    )
    before.counters.dropped_events, before.counters.forced_events = 3, 4
    after = restored(before)
    assert before.pending
    assert before.unknown_owners
    assert [len(part) for part in after.pending.parts] == [len(before.pending)]
    assert after.unknown_owners == before.unknown_owners
    assert after.training_cutoff == before.training_cutoff
    assert after.watermarks.as_metadata() == before.watermarks.as_metadata()
    assert (after.counters.dropped_events, after.counters.forced_events) == (3, 4)
    assert after.early_events["event_id"].tolist() == steps[MIDDLE].events["event_id"].tolist()
    pd.testing.assert_frame_equal(after.feed_counts.as_table(), before.feed_counts.as_table())
    for name, array in before.scorer.as_arrays().items():
        np.testing.assert_array_equal(after.scorer.as_arrays()[name], array, err_msg=name)


def test_how_far_feeds_were_looked_at_survives_without_a_count() -> None:
    """As after a day without any event."""
    state = PipelineState(ScorerState(SETTINGS))
    state.feed_counts.drain_closed(491_820)
    after = restored(state)
    assert after.feed_counts.closed_until == 491_820
    assert after.feed_counts.drain_closed(491_820) is None


def test_a_saved_state_is_the_same_bytes_after_a_restart(bank: Bank, steps: Sequence[Step]) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    for step in steps[:MIDDLE]:
        pipeline.process(*step)
    saved = pipeline.state.checkpoint()
    again = restored(pipeline.state).checkpoint()
    assert again.metadata == saved.metadata
    assert again.blobs.keys() == saved.blobs.keys()
    assert [name for name, blob in saved.blobs.items() if again.blobs[name] != blob] == []


def test_only_the_ids_of_new_events_days_are_other_bytes_in_the_next_checkpoint(
    bank: Bank, steps: Sequence[Step]
) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    pipeline.process(*steps[0])
    before = pipeline.state.checkpoint().blobs
    pipeline.process(*steps[1])
    after = pipeline.state.checkpoint().blobs
    changed = {name for name in after if name.startswith("repeats/") and after[name] != before.get(name)}
    days = steps[1].events["event_time"].astype("int64").to_numpy() // (86400 * 1_000_000)
    assert changed <= {f"repeats/{day}" for day in np.unique(days)}
    assert "repeats/None" in before


def test_a_checkpoint_copies_the_ids_of_one_day_at_a_time() -> None:
    """Beside the parts that are to be saved, in which all are once."""
    state, ids = (
        ScorerState(SETTINGS),
        np.random.default_rng(0).integers(0, 2**63, (14, 50_000)).astype(np.uint64),
    )
    for day, keys in enumerate(ids):
        state.deduplicate(
            np.full(len(keys), 7, np.uint64) << np.uint64(48), keys, np.full(len(keys), day, np.int32)
        )
    pipeline_state = PipelineState(state)
    state.repeats.compact()
    tracemalloc.start()
    saved = sum(map(len, pipeline_state.checkpoint().blobs.values()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert saved > ids.size * 14
    assert peak < saved * 1.5


def test_a_damaged_part_is_an_error(bank: Bank) -> None:
    saved = PipelineState(ScorerState.from_arrays(SETTINGS, bank.scorer_state)).checkpoint()
    with pytest.raises(FingerprintError, match="cannot be read"):
        PipelineState.restore(SETTINGS, saved.metadata, saved.blobs | {"principals": b"nothing of ours"})


@pytest.mark.parametrize(
    "listed",
    [
        ("autoencoder", "spectral", "sequence", "isolation_forest"),
        ("autoencoder", "spectral"),
        ("spectral", "sequence"),
    ],
)
def test_a_detector_has_no_opinion_on_what_waited_when_it_was_listed(
    bank: Bank, steps: Sequence[Step], undisturbed: Outcome, listed: tuple[str, ...]
) -> None:
    """The others say of it what they would have said; new events are judged by all; alerts have events of both lists."""
    pipeline = pipeline_of(bank, bank.scorer_state)
    assert [each.name for each in pipeline.scorer.detectors] == ["autoencoder", "spectral", "sequence"]
    remaining = iter(steps)
    while not pipeline.state.open_alerts.verdicts:
        pipeline.process(*next(remaining))
    waited = {name for part in pipeline.state.pending.parts for name in part.frame["event_id"]}
    known = waited | {name for part in pipeline.state.open_alerts.parts for name in part.frame["event_id"]}
    changed, results = SETTINGS.model_copy(update={"voting": Voting(detectors=listed)}), list[StepResult]()
    for number, step in enumerate(remaining):
        if number < 3:  # saved with events of both lists, too
            state = restored(pipeline.state, changed)
            pipeline = DetectionPipeline(bank, state, changed, keep_all_events=True, emit_early=True)
        results.append(pipeline.process(*step))
    results.append(pipeline.flush())
    judged = outcome(results).events
    is_old = judged.index.isin(waited)
    assert set(judged.index[is_old]) == waited
    for name in listed:
        z = judged[z_column(name)]
        if z_column(name) in undisturbed.events:
            before = undisturbed.events.loc[judged.index, z_column(name)]
            np.testing.assert_array_equal(z[is_old], before[is_old], err_msg=name)
        else:
            assert z[is_old].isna().all()
            assert z[~is_old].notna().all()
    told = [event for result in results for alert in result.alerts for event in alert.events]
    assert {event.event_id in known for event in told} == {True, False}
    assert all({*event.flagged_by} <= {*event.scores} for event in told)


def test_events_that_support_an_open_alert_keep_the_bank_that_measured_them(
    bank: Bank, steps: Sequence[Step]
) -> None:
    """Also where the alert's verdicts are another bank's."""
    pipeline, remaining = pipeline_of(bank, bank.scorer_state), iter(steps)
    while not pipeline.state.open_alerts.supporting:
        pipeline.process(*next(remaining))
    state = pipeline.state
    pipeline.swap_bank(replace(bank, manifest={**bank.manifest, "version": "next"}))
    state.pending.parts = []
    state.open_alerts.verdicts = [
        part._replace(
            frame=part.frame.with_columns({"bank_version": np.full(len(part.frame), "next", object)})
        )
        for part in state.open_alerts.verdicts
    ]
    pipeline.release_unused_banks()
    assert state.referenced_banks() == {bank.version, "next"}
    assert [*pipeline.alert_groups.explainer.previous_banks] == [bank.version]
    again = pipeline_with(pipeline.bank, restored(state))
    again.load_previous_banks({bank.version: bank}.get)
    assert [*again.alert_groups.explainer.previous_banks] == [bank.version]
    buckets = [hashing.bucket_of(part.batch.principal) for part in state.open_alerts.supporting]
    state.open_alerts.verdicts = []
    assert state.buckets_in_use()[np.concatenate(buckets)].all()


# --- split ------------------------------------------------------------------------------------------------------------


@given(at=st.integers(1, 20))
@SLOW
def test_the_parts_of_a_state_answer_together_like_the_whole(
    bank: Bank, steps: Sequence[Step], undisturbed: Outcome, at: int
) -> None:
    whole = pipeline_of(bank, bank.scorer_state)
    results = [whole.process(*step) for step in steps[:at]]
    for buckets in masks(4):
        part = pipeline_with(bank, restored(whole.state.split(buckets)))
        results += [part.process(events_in(step.events, buckets), step.watermark) for step in steps[at:]]
        results.append(part.flush())
    same(outcome(results), undisturbed)


def test_a_split_of_a_split_is_the_split_in_one(bank: Bank, steps: Sequence[Step]) -> None:
    whole = pipeline_of(bank, bank.scorer_state)
    for step in steps[:MIDDLE]:
        whole.process(*step)
    twice = whole.state.split(masks(2)[1]).split(masks(4)[3]).checkpoint()
    once = whole.state.split(masks(4)[3]).checkpoint()
    assert twice.metadata == once.metadata
    assert twice.blobs == once.blobs


def test_a_split_leaves_the_whole_as_it_was(bank: Bank, steps: Sequence[Step], undisturbed: Outcome) -> None:
    def split(pipeline: DetectionPipeline, _: Step) -> DetectionPipeline:
        part = pipeline_with(bank, pipeline.state.split(masks(2)[0]))
        part.state.watermarks.clamp(0, 0)
        part.flush()
        return pipeline

    pipeline = pipeline_of(bank, bank.scorer_state)
    same(walked(pipeline, list(steps), after=split), undisturbed)


def test_early_events_follow_their_principals_and_one_part_alone_keeps_the_feeds(
    bank: Bank, steps: Sequence[Step]
) -> None:
    events = steps[0].events
    whole = PipelineState(ScorerState.from_arrays(SETTINGS, bank.scorer_state), WatermarkTracker(expected=3))
    whole.early_events = events
    whole.feed_counts.add_events(events, ["raw/0"], np.zeros(len(events), np.int64), np.zeros(len(events)))
    parts = [whole.split(buckets, keep_feed_counts=not number) for number, buckets in enumerate(masks(2))]
    for part, buckets in zip(parts, masks(2), strict=True):
        assert part.early_events["event_id"].tolist() == events_in(events, buckets)["event_id"].tolist()
        assert part.watermarks.expected == 3
    assert [len(part.feed_counts.as_table()) for part in parts] == [len(whole.feed_counts.as_table()), 0]
    assert len(whole.early_events) == len(events)


def test_what_is_in_use_names_the_buckets_of_pending_and_early_events(
    bank: Bank, steps: Sequence[Step]
) -> None:
    pipeline = pipeline_of(bank, bank.scorer_state)
    pipeline.process(*steps[0])
    pipeline.state.early_events = steps[1].events
    used = pipeline.state.buckets_in_use()
    for events in (steps[1].events, pipeline.state.pending.parts[0].frame):
        assert used[hashing.bucket_of(hashing.hash_with_bucket(events["principal"]))].all()
    assert not PipelineState(ScorerState(SETTINGS)).buckets_in_use().any()


def test_so_many_principals_of_refused_events_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_state_module, "MAX_COUNTED_PRINCIPALS", 3)
    counters = Counters()
    for principals in ([1, 1, 2], [2], [3, 4, 5]):
        counters.refuse_events(np.array(principals, np.uint64))
    assert counters.over_limit_events == 7
    assert counters.over_limit_principals == {1, 2, 3}
