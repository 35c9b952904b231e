"""What another threshold would have shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fingerprint.analysis.threshold_what_if import ThresholdWhatIf, decisive_thresholds
from fingerprint.core.settings import Alerts, Autoencoder, Settings, Voting
from fingerprint.detection.detectors.spectral import SpectralDetector
from fingerprint.detection.ensemble import (
    NEWCOMER_THRESHOLD_SHARE,
    strong_vote_threshold,
)
from tests.support import sample_organisation

SETTINGS = Settings()
TWO = Settings(voting=Voting(detectors=("autoencoder", "spectral")))


def judged(rows: list[tuple[str, str, float, bool, str | None]]) -> pd.DataFrame:
    """Events: principal, time, z of the autoencoder, vote of the spectral detector, attack session."""
    frame = pd.DataFrame(
        rows, columns=["principal", "event_time", "autoencoder_z", "spectral_vote", "session"]
    )
    times = pd.to_datetime(frame["event_time"], utc=True).astype("datetime64[us, UTC]")
    return frame.assign(
        event_time=times,
        autoencoder_vote=frame["autoencoder_z"] >= 4,
        spectral_z=frame["spectral_vote"].map({True: 6.0, False: -1.0}),
        sequence_vote=False,
        sequence_z=-1.0,
        level="entity",
    )


WEEK = judged(
    [
        ("ana", "2026-01-05 09:00", 6.0, True, "theft"),
        ("ana", "2026-01-05 09:01", 3.0, True, "theft"),
        ("ana", "2026-01-05 09:02", 9.0, False, None),  # no vote of the other: no threshold shows it
        ("ana", "2026-01-06 09:00", 2.5, True, None),  # a day later: another alert
        ("ben", "2026-01-05 09:00", 4.5, True, None),
        ("cai", "2026-01-07 09:00", 2.0, True, "quiet"),
        ("cai", "2026-01-07 09:10", np.nan, False, None),
    ]
)


def test_an_event_is_shown_up_to_its_z_where_the_other_detector_votes() -> None:
    reach = decisive_thresholds(WEEK, SETTINGS)
    assert reach.tolist() == [6.0, 3.0, -np.inf, 2.5, 4.5, 2.0, -np.inf]


def test_beside_a_second_vote_an_event_needs_no_vote_at_the_threshold_that_judged_it() -> None:
    """A lower threshold of alerts gives it the autoencoder's vote, too."""
    voted = WEEK.head(3).assign(sequence_z=1.0)
    unvoted = voted.assign(autoencoder_vote=False)
    assert decisive_thresholds(unvoted, SETTINGS).tolist() == decisive_thresholds(voted, SETTINGS).tolist()


def test_without_a_calibrated_detector_the_votes_alone_show_an_event_at_any_threshold() -> None:
    counts = Settings(voting=Voting(detectors=("spectral", "sequence"), quorum=1))
    assert np.isinf(decisive_thresholds(WEEK, counts)).all()
    assert (decisive_thresholds(WEEK, counts) > 0).tolist() == WEEK["spectral_vote"].tolist()


def test_where_the_others_agree_strongly_an_event_is_shown_up_to_a_higher_threshold() -> None:
    """The second and the third event alone: of the others one of the two does not vote, or none has a strong vote."""
    known = WEEK.head(4).assign(
        sequence_z=[1.5, 2.5, 2.5, -1.0],
        sequence_vote=[False, True, True, False],
        spectral_vote=[True, True, False, True],
    )
    reach = decisive_thresholds(known, SETTINGS)
    assert reach.tolist() == pytest.approx([6.0, reach[1], 9.0, 2.5])
    assert strong_vote_threshold(reach[1]) == pytest.approx(3.0, abs=1e-5)


def test_where_the_other_detector_has_no_opinion_its_own_z_is_enough() -> None:
    silent = WEEK.assign(spectral_vote=False, spectral_z=np.nan)
    alone = [6.0, 3.0, 9.0, 2.5, 4.5, 2.0, -np.inf]
    assert decisive_thresholds(silent, TWO).tolist() == alone
    assert np.isinf(decisive_thresholds(silent, SETTINGS)).all(), (
        "the third has an opinion, and votes against"
    )
    by_peers = decisive_thresholds(silent.assign(level="peer"), TWO) * NEWCOMER_THRESHOLD_SHARE
    assert by_peers.tolist() == pytest.approx(alone), "a newcomer needs a share of the threshold"


def test_a_newcomer_that_begins_calmly_needs_the_whole_threshold_and_no_second_vote() -> None:
    """The spectral detector says how it began, the sequence detector has no opinion."""
    least = SpectralDetector.calm_newcomer_z
    fresh = WEEK.assign(
        spectral_vote=False, spectral_z=least + 0.01, sequence_z=np.nan, level="peer", newcomer=True
    )
    alone = [6.0, 3.0, 9.0, 2.5, 4.5, 2.0, -np.inf]
    assert (decisive_thresholds(fresh, SETTINGS) * NEWCOMER_THRESHOLD_SHARE).tolist() == pytest.approx(alone)
    calm = decisive_thresholds(fresh.assign(spectral_z=least - 0.01), SETTINGS)
    assert calm.tolist() == pytest.approx(alone)


def test_with_one_vote_needed_every_event_is_shown_up_to_its_z() -> None:
    one = Settings(voting=Voting(quorum=1))
    assert decisive_thresholds(WEEK, one).tolist() == [6.0, 3.0, 9.0, 2.5, 4.5, 2.0, -np.inf]


def test_alerts_are_counted_by_principal_and_run() -> None:
    tuned = ThresholdWhatIf.from_scored_events(WEEK, SETTINGS, days=2)
    assert tuned.alert_peaks.tolist() == [6.0, 4.5, 2.5, 2.0]
    assert [tuned.alerts_per_day(at) for at in (7, 6, 4, 2)] == [0, 0.5, 1.0, 2.0]


@pytest.mark.parametrize(("budget", "threshold"), [(0.5, 4.51), (1, 2.51), (1.4, 2.51), (2, 0.0), (9, 0.0)])
def test_the_threshold_for_a_budget_is_just_above_the_first_alert_too_many(
    budget: float, threshold: float
) -> None:
    tuned = ThresholdWhatIf.from_scored_events(WEEK, SETTINGS, days=2)
    assert tuned.threshold_for(budget) == threshold
    assert tuned.alerts_per_day(threshold) <= budget


def test_recall_counts_the_sessions_that_an_alert_is_about() -> None:
    tuned = ThresholdWhatIf.from_scored_events(WEEK, SETTINGS, days=2)
    assert tuned.sessions == 2
    assert tuned.sweep([7, 4, 2])["recall"].tolist() == [0, 0.5, 1]


def test_without_labels_there_are_alerts_and_no_recall() -> None:
    tuned = ThresholdWhatIf.from_scored_events(WEEK.drop(columns="session"), SETTINGS, days=2)
    assert (tuned.sessions, tuned.recall(2)) == (0, 0)
    assert tuned.alerts_per_day(2) == 2


@pytest.mark.parametrize("threshold", [1.5, 3.0])
def test_a_threshold_shows_what_scoring_with_it_shows(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    tmp_path: Path,
    threshold: float,
) -> None:
    """Judged once with the default, and again with another."""
    other = Settings(autoencoder=Autoencoder(max_epochs=1), alerts=Alerts(threshold=threshold))
    again = sample_organisation.run(organisation.new, organisation.bank, tmp_path, other)
    tuned = ThresholdWhatIf.from_scored_events(scored.events, sample_organisation.SETTINGS, days=3)
    shown = tuned.shown_events(threshold)
    said = again.events[again.events["verdict"]]
    assert {f"{group:016x}" for group in shown["group"]} == set(said["alert_id"])
    assert set(scored.events.loc[shown.index, "event_id"]) == set(said["event_id"])
    assert tuned.alerts_per_day(threshold) == pytest.approx(len(again.alerts) / 3)


def test_two_runs_that_a_lower_threshold_joins_are_one_alert() -> None:
    day = [("ana", f"2026-01-05 {hour:02}:00", z, True, None) for hour, z in ((1, 6.0), (4, 2.0), (7, 5.0))]
    tuned = ThresholdWhatIf.from_scored_events(judged(day), SETTINGS, days=1)
    assert [tuned.alerts_per_day(at) for at in (6, 5, 2)] == [1, 2, 1]
