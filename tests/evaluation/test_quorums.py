"""A quorum as a method: what it shows, in which order, and what a lower threshold would show after that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from fingerprint.compute import hashing
from fingerprint.core.settings import Settings
from fingerprint.evaluation import quorums
from tests.support.alerts import stolen_session

BOTH = ("autoencoder", "spectral")


def judged() -> pd.DataFrame:
    """A verdict of a calm alert, one of an urgent one, strange and alone, strange below the threshold, usual."""
    z, counts = [3.4, 3.3, 5.0, 2.9, 0.1], [True, True, False, True, True]
    return pd.DataFrame(
        {
            "group": [1, 2, 3, 4, 5],
            "autoencoder_z": z,
            "autoencoder_vote": [each >= 3.2 for each in z],
            "spectral_z": [5.0 if each else -1.0 for each in counts],
            "spectral_vote": counts,
        }
    )


URGENCY = pd.Series({1: 34.0, 2: 70.0})


def test_only_what_both_vote_for_is_shown_the_most_urgent_alert_first() -> None:
    score, shown = quorums.rank_by_urgency(judged(), BOTH, 2, URGENCY)
    assert shown.tolist() == [True, True, False, False, False]
    assert score[1] == 70.0 > score[0] == 34.0


def test_a_lower_threshold_would_show_the_next_strangest_and_never_what_one_detector_alone_says() -> None:
    score, _ = quorums.rank_by_urgency(judged(), BOTH, 2, URGENCY)
    assert score[2] == -np.inf
    assert score[0] > score[3] > score[4] > -np.inf


def test_beside_a_strong_z_a_lower_threshold_takes_a_weaker_second_vote() -> None:
    weaker = judged().assign(spectral_z=[5.0, 5.0, 1.0, 5.0, 5.0])
    score, shown = quorums.rank_by_urgency(weaker, BOTH, 2, URGENCY)
    assert score[2] > score[3] > -np.inf
    assert not shown[2]


def test_where_the_others_agree_strongly_an_event_ranks_above_one_as_strange() -> None:
    three = (*BOTH, "sequence")
    calm = judged().assign(sequence_z=1.0, sequence_vote=False)
    score, usual = (
        quorums.rank_by_urgency(each, three, 2, URGENCY)[0]
        for each in (calm.assign(sequence_z=[1.0, 1.0, 1.0, 2.5, 1.0]), calm)
    )
    assert score[3] > usual[3] > -np.inf
    assert np.delete(score, 3).tolist() == np.delete(usual, 3).tolist()


def test_what_one_detector_has_no_opinion_on_the_other_shows_by_itself() -> None:
    young = judged().assign(spectral_z=np.nan, spectral_vote=False)
    score, shown = quorums.rank_by_urgency(young, BOTH, 2, URGENCY.reindex([1, 2, 3]).fillna(90.0))
    assert shown.tolist() == [True, True, True, False, False]
    assert score[2] == 90.0 > score[3] > score[4] > -np.inf


def test_any_vote_is_ranked_by_its_share_of_the_threshold() -> None:
    score, shown = quorums.rank_by_threshold_share(judged(), {"autoencoder": 3.2, "spectral": 4.0})
    assert shown.all()
    assert np.argmax(score) == 2


def test_the_served_queue_shows_nothing_below_its_thresholds() -> None:
    score, shown = quorums.rank_as_served(judged(), BOTH, 2, URGENCY)
    assert shown.tolist() == [True, True, False, False, False]
    assert score.tolist() == [34.0, 70.0, -np.inf, -np.inf, -np.inf]


def test_combined_evidence_weighs_detectors_by_how_rare_a_score_is_and_not_by_its_size() -> None:
    table = judged().assign(
        autoencoder_z=[1.0, 2.0, 3.0, 4.0, 5.0], spectral_z=[9000.0, 1.0, 2.0, 3.0, np.nan]
    )
    score, shown = quorums.rank_by_combined_evidence(table, BOTH, 2)
    assert np.argsort(-score).tolist()[0] == 3, "second of both"
    assert score[4] == -np.log(1 / 5), "no opinion counts nothing"
    assert shown.tolist() == [True, False, False, True, True], "two, and what is as strange as the second"


def test_as_many_events_are_flagged_as_are_asked_for_and_none_without_a_score() -> None:
    score = np.array([3.0, -np.inf, 5.0, 4.0])
    assert quorums.flag_strongest(score, 2).tolist() == [False, False, True, True]
    assert quorums.flag_strongest(score, 9).tolist() == [True, False, True, True]
    assert not quorums.flag_strongest(score, 0).any()


def test_leads_come_below_every_alert_the_nearest_first_and_are_not_flagged() -> None:
    hour = 3_600_000_000  # us
    table = judged().assign(
        principal=hashing.hash_strings(pd.Series(["ana", "ana", "ben", "ben", "ben"])),
        time=[0, 20 * hour, 0, 20 * hour, 30 * hour],
    )
    served = np.array([34.0, 70.0, -np.inf, -np.inf, -np.inf]), np.array([True, True, False, False, False])
    table["reach"] = [3.4, 3.3, 3.1, 2.9, np.nan]
    beside = replace(
        stolen_session(),
        principal="ben",
        first_event_time=datetime(1970, 1, 1, 19, tzinfo=UTC),
        last_event_time=datetime(1970, 1, 1, 19, 30, tzinfo=UTC),
    )
    options = Settings()
    score, shown = quorums.rank_with_leads(table, served, [], options)
    assert shown.tolist() == [True, True, False, False, False]
    assert score[1] > score[0] > score[2] > score[3] > score[4] == -np.inf
    score, _ = quorums.rank_with_leads(table, served, [beside], options)
    assert score[2] > score[3] == -np.inf, "an hour after an alert of the same principal is no lead"
