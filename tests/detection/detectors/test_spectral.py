"""The spectral detector: channels that events are counted in, surges, opinions, intervals and silences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fingerprint.detection.detectors.spectral import (
    CHANNEL_LABELS,
    ERROR_CHANNEL,
    EVENT_CHANNEL,
    NEW_ACTION_CHANNEL,
    WRITE_CHANNEL,
    SpectralDetector,
    count_events,
)
from fingerprint.detection.inference import LocalInference
from fingerprint.registry.bank import Bank
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.scorer_state import ScorerState
from tests.detection.detectors.conftest import Encode
from tests.support.stepwise_pipeline import SETTINGS

CHANNELS = (EVENT_CHANNEL, ERROR_CHANNEL, WRITE_CHANNEL, NEW_ACTION_CHANNEL)


@pytest.fixture
def detector(bank: Bank, state: ScorerState) -> SpectralDetector:
    return SpectralDetector(SETTINGS, bank, state, LocalInference(bank))


def measured(detector: SpectralDetector, batch: EventBatch) -> EventBatch:
    return replace(batch, evidence={detector.name: detector.measure(batch)})


def repeated(events: pd.DataFrame, row: int, times: int) -> pd.DataFrame:
    """One event as often as wanted, a second apart, each with an id of its own."""
    many = events.iloc[[row] * times].reset_index(drop=True)
    seconds = pd.to_timedelta(np.arange(times) % 60, unit="s")
    return many.assign(
        event_id=[f"burst-{number}" for number in range(times)],
        event_time=many["event_time"].dt.floor("min") + seconds,
    )


def test_an_event_is_counted_for_its_entity_and_its_principal_in_the_channels_it_belongs_to(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = measured(detector, encode(events, detector.state))
    keys, series = batch.evidence["spectral"], detector.state.series
    assert keys.shape == (len(batch), 9)
    for start, owner in ((1, batch.owner), (5, batch.principal)):
        for offset, channel in enumerate(CHANNELS):
            here = keys[:, start + offset] != 0
            rows = series.find_rows(keys[here, start + offset])
            assert (series.channel[rows] == channel).all()
            assert (series.owner[rows] == owner[here]).all()
    assert (keys[:, [1, 5]] != 0).all(), "every event is an event"
    np.testing.assert_array_equal(keys[:, 2] != 0, batch.is_error)
    np.testing.assert_array_equal(keys[:, 3] != 0, batch.is_write)


def test_only_an_action_that_is_new_is_counted_as_new_and_once_an_interval_later_no_more(
    encode: Encode, events: pd.DataFrame, state: ScorerState
) -> None:
    batch = encode(events, state)
    everything, nothing, weight = (
        np.ones(len(batch), bool),
        np.zeros(len(batch), bool),
        np.ones(len(batch), np.float32),
    )
    known = count_events(batch, state, everything, nothing, weight)
    assert (known[:, [4, 8]] == 0).all()
    new = count_events(batch, state, nothing, nothing, weight)
    assert (new[:, 4] != 0).any()
    later = replace(batch, interval=batch.interval + 1 + state.series.late_intervals)
    assert ((count_events(later, state, nothing, nothing, weight)[:, 4] != 0) < (new[:, 4] != 0)).any()


def test_a_burst_is_a_surge_that_only_grows(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    warm = detector.has_opinion(encode(events, ScorerState.from_arrays(SETTINGS, detector.bank.scorer_state)))
    row = int(np.flatnonzero(warm)[0])
    burst = repeated(events, row, 600)
    first = measured(detector, encode(burst.iloc[:5].reset_index(drop=True), detector.state))
    before = detector.score(first)
    measured(detector, encode(burst.iloc[5:].reset_index(drop=True), detector.state))
    after = detector.score(first)
    assert (after > before).all()
    assert (after >= detector.threshold).all()


def of_eve(events: pd.DataFrame) -> pd.DataFrame:
    """The first day's events but for sign-ins of workloads, as those of a user that was never seen."""
    is_first = events["event_time"] < events["event_time"].min() + pd.Timedelta(days=1)
    first_day = events[is_first & events["action"].ne("AssumeRoleWithWebIdentity")]
    return first_day.assign(
        principal="999999999999:user/eve", entity="999999999999:user/eve|s3", kind="user"
    ).reset_index(drop=True)


def test_there_is_no_opinion_on_a_principal_that_is_new_where_too_few_were_seen_to_begin(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    blind = detector.without("newcomers")
    batch = measured(detector, encode(of_eve(events), detector.state))
    assert not blind.has_opinion(batch).any()
    assert np.isnan(blind.score(batch)).all()
    assert blind.can_still_vote(batch).all(), "so that it waits for the other detectors"


def test_a_newcomer_is_judged_by_how_others_began(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = measured(detector, encode(of_eve(events), detector.state))
    assert detector.judges_newcomer(batch).all()
    assert detector.has_opinion(batch).all()
    assert not np.isnan(detector.score(batch)).any()


def a_beginning(events: pd.DataFrame, times: int, **columns: object) -> pd.DataFrame:
    read_only = events[events["read_only"].eq(True) & events["error_code"].isna()]
    return of_eve(repeated(read_only, 0, times)).assign(**columns)


def test_a_newcomers_burst_is_strange_and_a_short_look_is_not(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    look = measured(detector, encode(a_beginning(events, 3), detector.state))
    assert (detector.score(look) < detector.calm_newcomer_z).all()
    failures = a_beginning(events, 300, error_code="AccessDenied")
    failures["event_id"] = [f"failure-{number}" for number in range(len(failures))]
    burst = measured(detector, encode(failures, detector.state))
    assert (detector.score(burst) >= detector.threshold).all()
    assert (detector.score(look) >= detector.threshold).all(), "all that it did in the hour is as strange"


def test_how_others_began_says_nothing_of_a_workload_that_signs_in(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    sign_in = a_beginning(events, 2, service="sts", action=["AssumeRoleWithWebIdentity", "AssumeRole"])
    batch = measured(detector, encode(sign_in, detector.state))
    assert detector.judges_newcomer(batch).tolist() == [False, True]
    assert np.isnan(detector.score(batch)).tolist() == [True, False]
    assert detector.has_opinion(batch).tolist() == [False, True]


def test_where_batches_are_cut_makes_no_difference_to_a_newcomer(
    detector: SpectralDetector, bank: Bank, encode: Encode, events: pd.DataFrame
) -> None:
    some = of_eve(events)
    whole = measured(detector, encode(some, detector.state))
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    again = SpectralDetector(SETTINGS, bank, state, LocalInference(bank))
    parts = [
        measured(again, encode(some.iloc[start : start + 97].reset_index(drop=True), state))
        for start in range(0, len(some), 97)
    ]
    cut = np.concatenate([again.score(part) for part in parts])
    np.testing.assert_array_equal(cut, detector.score(whole))


def test_an_event_of_a_newcomer_has_the_strongest_z_of_its_intervals(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    """A kind that the bank does not know is judged by all kinds, as an owner is whose kind no interval tells."""
    batch = measured(detector, encode(of_eve(events).assign(kind="unheard of"), detector.state))
    scores = detector.interval_scores(0, np.iinfo(np.int32).max, -np.inf)
    eve = scores.owner == batch.principal[0]
    cells = pd.Series(scores.z[eve]).groupby(scores.interval[eve]).max()
    np.testing.assert_allclose(cells.loc[batch.interval].to_numpy(), detector.score(batch), atol=1e-5)


def test_who_has_a_fingerprint_is_no_newcomer(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = encode(of_eve(events), detector.state)
    known = measured(detector, replace(batch, level=np.zeros(len(batch), np.int8)))
    assert not detector.has_opinion(known).any()
    assert np.isnan(detector.score(known)).all()


def test_an_opinion_is_a_z_and_no_opinion_is_none(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = measured(detector, encode(events, detector.state))
    opinion = detector.has_opinion(batch)
    assert opinion.any()
    np.testing.assert_array_equal(~np.isnan(detector.score(batch)), opinion)


def test_intervals_are_told_from_a_z_on_and_those_without_one_are_counted(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    measured(detector, encode(events, detector.state))
    everything = detector.interval_scores(0, np.iinfo(np.int32).max, -np.inf)
    strong = detector.interval_scores(0, np.iinfo(np.int32).max, 2.0)
    assert 0 < len(strong.z) < len(everything.z)
    np.testing.assert_array_equal(strong.z, everything.z[everything.z >= 2.0])
    np.testing.assert_array_equal(strong.owner, everything.owner[everything.z >= 2.0])
    assert strong.no_opinion == everything.no_opinion
    labelled = np.isin(strong.channel, list(CHANNEL_LABELS))
    assert labelled.any()


def test_only_what_is_expected_to_come_can_be_missed(
    detector: SpectralDetector, encode: Encode, events: pd.DataFrame
) -> None:
    """Nothing comes for a day: whose series are busy enough is missed, and only their events."""
    end = int(encode(events, detector.state).interval.max()) + 24
    silent = detector.silent_intervals(end - 24, end)
    assert (silent.channel == EVENT_CHANNEL).all()
    assert (silent.z >= detector.threshold).all()
    assert ((silent.interval >= end - 24) & (silent.interval < end)).all()
