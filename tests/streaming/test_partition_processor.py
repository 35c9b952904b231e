"""One partition of the events topic: early and late events, the training cut-off, clocks; batches may be cut anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fingerprint.core.settings import Settings
from fingerprint.pipeline import StepResult
from fingerprint.registry.bank import Bank
from fingerprint.sources.arrival import CLOCK_TOLERANCE_SECONDS
from fingerprint.state.pipeline_state import NO_CUTOFF, PipelineState, TrainingCutoff
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming.partition_processor import PartitionProcessor
from tests.support.stepwise_pipeline import SETTINGS, Step

HOUR, DAY = 3600, 86400


@pytest.fixture(scope="module")
def events(steps: Sequence[Step]) -> pd.DataFrame:
    """The first events of the new days, oldest first."""
    found = pd.concat([step.events for step in steps[:12]], ignore_index=True)
    return found.sort_values(["event_time", "event_id"], ignore_index=True)


def seconds_of(events: pd.DataFrame) -> np.ndarray:
    return events["event_time"].astype("int64").to_numpy() // 1_000_000


def processor_of(
    bank: Bank, settings: Settings = SETTINGS, cutoff: TrainingCutoff = NO_CUTOFF
) -> PartitionProcessor:
    state = PipelineState(ScorerState.from_arrays(settings, bank.scorer_state), training_cutoff=cutoff)
    return PartitionProcessor(bank, state, settings)


def with_stream(**options: Any) -> Settings:
    return SETTINGS.model_copy(update={"stream": SETTINGS.stream.model_copy(update=options)})


def in_batches(
    processor: PartitionProcessor, events: pd.DataFrame, low: np.ndarray, size: int
) -> list[StepResult]:
    return [
        result
        for at in range(0, len(events), size)
        for result in processor.process(
            events.iloc[at : at + size].reset_index(drop=True), low[at : at + size], low[at : at + size]
        )
    ]


def votes_of(results: Sequence[StepResult]) -> pd.DataFrame:
    votes = pd.concat([each.votes for each in results if len(each.votes)])
    return votes.drop_duplicates(["event_id", "detector"], keep="last").sort_values(
        ["event_id", "detector"], ignore_index=True
    )


def test_where_a_batch_is_cut_changes_no_vote_and_no_alert(bank: Bank, events: pd.DataFrame) -> None:
    """Thirty events come hours late, and the watermark is two hours behind the events."""
    random = np.random.default_rng(1)
    delay = np.zeros(len(events))
    delay[random.choice(len(events), 30, replace=False)] = 600
    shuffled = events.iloc[np.argsort(np.arange(len(events)) + delay, kind="stable")].reset_index(drop=True)
    low = np.maximum.accumulate(seconds_of(shuffled)) - 2 * HOUR
    whole, cut = processor_of(bank), processor_of(bank)
    one, other = in_batches(whole, shuffled, low, len(events)), in_batches(cut, shuffled, low, size=83)
    for processor, results in ((whole, one), (cut, other)):
        results.append(processor.pipeline.flush())
    pd.testing.assert_frame_equal(votes_of(one), votes_of(other))
    last = [{alert.alert_id: alert for each in results for alert in each.alerts} for results in (one, other)]
    assert last[0] == last[1]
    assert whole.state.scorer.late_events == cut.state.scorer.late_events > 0


def test_events_ahead_of_the_watermark_are_kept_and_measured_when_it_comes(
    bank: Bank, events: pd.DataFrame
) -> None:
    processor = processor_of(bank)
    behind = np.full(
        len(events), int(seconds_of(events)[0]) - DAY
    )  # the clock stands where the training ended
    processor.process(events, behind, seconds_of(events))
    early, counters = len(processor.state.early_events), processor.state.counters
    assert early > len(events) * 0.9
    assert counters.events + counters.repeats == len(events) - early
    few, later = events.iloc[:1].assign(event_id="one more"), seconds_of(events)[-1:] + DAY
    processor.process(few, later, later)
    assert not len(processor.state.early_events)
    assert counters.events + counters.repeats == len(events) + 1


def test_of_too_many_early_events_the_oldest_are_measured_and_counted(
    bank: Bank, events: pd.DataFrame
) -> None:
    processor = processor_of(bank, with_stream(max_early_events=10))
    processor.process(events, np.full(len(events), int(seconds_of(events)[0]) - DAY), seconds_of(events))
    kept = seconds_of(processor.state.early_events)
    assert len(kept) == 10
    assert kept.min() >= np.sort(seconds_of(events))[-10]
    assert processor.counter_values()["forced"] > len(events) * 0.9


def test_an_event_of_the_training_is_skipped_only_if_it_had_arrived_by_then(
    bank: Bank, events: pd.DataFrame
) -> None:
    end = int(seconds_of(events)[-1]) + 1
    arrived = np.where(np.arange(len(events)) % 2, end + DAY, end - 1)
    processor = processor_of(bank, cutoff=TrainingCutoff(end, end))
    processor.process(events, seconds_of(events), arrived)
    assert processor.state.counters.already_trained_events == (arrived < end).sum()
    assert processor.counter_values()["already_trained"] == (arrived < end).sum()
    scored = processor.state.counters.events + processor.state.counters.repeats
    assert scored + len(processor.state.early_events) == (arrived > end).sum()


def test_late_events_are_scored_and_counted(bank: Bank, events: pd.DataFrame) -> None:
    processor = processor_of(bank)
    end = np.full(len(events), int(seconds_of(events)[-1]) + 3 * DAY)
    processor.process(events, end, end)
    counts = processor.counter_values()
    assert counts["events"] + counts["duplicates"] == len(events)
    assert counts["late"] > counts["events"] * 0.9, "all but those of the first open interval"


def test_a_record_that_is_delivered_again_days_later_begins_no_step_of_its_own(
    bank: Bank, events: pd.DataFrame
) -> None:
    """A late event that is new does."""
    late = np.repeat(events.index[-400:].to_numpy(), 2)
    late[1::20] = np.arange(40)
    mixed = pd.concat([events.iloc[:-400], events.loc[late]], ignore_index=True)
    new = mixed.assign(event_id=mixed["event_id"].where(~mixed.index.isin(mixed.index[-799::20]), "new"))
    steps = []
    for each in (mixed, new):
        low = np.maximum.accumulate(seconds_of(each))
        steps.append(len(processor_of(bank).process(each, low, low)))
    assert steps[0] == 1
    assert steps[1] > 1


def test_a_clock_that_was_ahead_is_pulled_back(bank: Bank) -> None:
    processor, now = processor_of(bank), 1_900_000_000_000
    far = now + 30 * DAY * 1000
    processor.watermarks.advance(["raw/0"], np.zeros(1, np.int64), np.array([far]), np.array([far]))
    processor.state.scorer.watermark = far // 1000
    processor.clamp_clocks(now)
    latest = now + CLOCK_TOLERANCE_SECONDS * 1000
    assert processor.watermarks.low_watermark <= latest
    assert processor.state.scorer.watermark <= latest // 1000


def test_intervals_close_by_the_clock_when_every_source_is_idle(bank: Bank, events: pd.DataFrame) -> None:
    processor, at = processor_of(bank), seconds_of(events)
    last = int(at[-1])
    mark = np.array([last * 1000])
    low = processor.watermarks.advance(["raw/0"], np.zeros(1, np.int64), mark, mark) // 1000
    processor.process(events, np.full(len(events), int(low[0])), at)
    before = processor.state.scorer.first_open_interval()
    assert processor.advance_clock(last * 1000) == []
    assert len(processor.advance_clock((last + 2 * DAY) * 1000)) == 1
    assert processor.state.scorer.first_open_interval() > before
    assert not processor.state.pending


def test_a_checkpoint_says_which_bank_scores_from_there_on(bank: Bank) -> None:
    saved = processor_of(bank).checkpoint()
    assert saved.metadata["bank"] == bank.version
    assert saved.referenced_blobs == ()
