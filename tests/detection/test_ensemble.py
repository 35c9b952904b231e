"""The ensemble: how many votes make a verdict, and whose opinion counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Voting
from fingerprint.detection.ensemble import (
    SECOND_VOTE_SHARE,
    STRONG_VOTE_SHARE,
    agree_strongly,
    alert_reach,
    newcomer_mask,
    opening_verdicts,
    opinion_masks,
    sole_opinion_mask,
    strong_vote_threshold,
    verdicts,
    votes_needed,
    without_newcomers,
    z_beside_strong_vote,
)
from fingerprint.estimators.tail_calibration import z_to_nats
from fingerprint.registry.quality import LEAST_THRESHOLD

NAN = np.nan


@given(st.lists(st.tuples(*[st.booleans()] * 3), min_size=1), st.integers(1, 3))
def test_a_verdict_is_a_quorum_of_votes_event_by_event(rows: list[tuple[bool, ...]], quorum: int) -> None:
    votes = {str(number): np.array(column) for number, column in enumerate(zip(*rows, strict=True))}
    assert verdicts(votes, quorum).tolist() == [sum(row) >= quorum for row in rows]


BALLOTS = {"yes": (True, True), "no": (False, True), "silent": (False, False)}  # a vote, an opinion


@given(st.lists(st.tuples(*[st.sampled_from(list(BALLOTS))] * 3), min_size=1), st.integers(1, 3))
def test_who_has_no_opinion_is_not_counted_and_all_of_fewer_must_agree(
    rows: list[tuple[str, ...]], quorum: int
) -> None:
    cast = {
        str(number): [BALLOTS[each] for each in column]
        for number, column in enumerate(zip(*rows, strict=True))
    }
    votes, opinions = ({name: np.array(each)[:, at] for name, each in cast.items()} for at in (0, 1))
    expected = [row.count("yes") >= max(min(quorum, 3 - row.count("silent")), 1) for row in rows]
    assert verdicts(votes, quorum, opinions).tolist() == expected


def test_a_quorum_of_zero_votes_is_still_one() -> None:
    opinions = {"one": np.array([False]), "other": np.array([False])}
    assert votes_needed(opinions, 2).tolist() == [1]
    assert not verdicts({"one": np.array([False]), "other": np.array([False])}, 2, opinions).any()


def test_a_z_that_is_no_number_is_no_opinion() -> None:
    masks = opinion_masks({"one": np.array([1.0, NAN, 0.0]), "other": np.array([NAN, NAN, -3.0])})
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "one": [True, False, True],
        "other": [False, False, True],
    }


def test_a_newcomer_is_judged_by_one_of_several_detectors_and_by_its_peers() -> None:
    """Levels: entity, principal, peer, generic."""
    level = np.arange(len(LEVELS), dtype=np.int8)
    sole = {"one": np.ones(4, bool), "other": np.zeros(4, bool)}
    assert newcomer_mask(sole, level).tolist() == [False, False, True, True]
    assert not newcomer_mask(sole | {"other": np.ones(4, bool)}, level).any(), "two have an opinion"
    assert not newcomer_mask({"one": np.ones(4, bool)}, level).any(), "there is but one detector"
    assert sole_opinion_mask(sole).all()


def test_an_opinion_on_how_newcomers_begin_is_none_on_the_principal_itself() -> None:
    opinions = {"one": np.ones(4, bool), "other": np.ones(4, bool)}
    fresh = np.array([False, True, True, True])
    by_history = without_newcomers(opinions, {"other": fresh})
    assert by_history["other"].tolist() == [True, False, False, False]
    assert newcomer_mask(by_history, np.arange(4, dtype=np.int8)).tolist() == [False, False, True, True]
    assert votes_needed(by_history, 2).tolist() == [2, 1, 1, 1], "its vote is not needed"


def test_beside_a_strong_vote_both_together_are_as_rare_as_at_the_threshold() -> None:
    threshold = np.array([2.6, 3.2, 4.5])
    lower = np.array([strong_vote_threshold(each) for each in threshold])
    at_threshold = np.exp(-z_to_nats(threshold)) * SECOND_VOTE_SHARE
    np.testing.assert_allclose(np.exp(-z_to_nats(lower)) * STRONG_VOTE_SHARE, at_threshold, rtol=1e-5)
    np.testing.assert_allclose(z_beside_strong_vote(lower), threshold, atol=1e-5)
    assert (np.diff(z_beside_strong_vote(np.array([-np.inf, -3.0, 0.0, 0.5, 1.0, 40.0]))) >= 0).all()
    assert np.isnan(z_beside_strong_vote(np.array([NAN])))[0]


@pytest.mark.parametrize("threshold", [1.0, 1.6, LEAST_THRESHOLD, 1.8, 2.5])
def test_what_one_active_hour_in_twenty_reaches_opens_no_alert_below_the_threshold(threshold: float) -> None:
    """Of a quiet organisation with a low threshold ten times as usual would be anything at all."""
    lower = strong_vote_threshold(threshold)
    assert lower == pytest.approx(min(threshold, LEAST_THRESHOLD))
    z = np.array([lower - 0.01, lower + 0.01])
    assert (z_beside_strong_vote(z) >= threshold).tolist() == [False, True], "the what-if says the same"


@pytest.mark.parametrize(
    ("spectral", "sequence", "strong", "opinion", "quorum", "agreed"),
    [
        (True, True, True, True, 2, True),
        (True, True, False, True, 2, False),
        (False, True, True, True, 2, False),
        (False, True, True, False, 2, False),
        (False, True, True, True, 1, True),
        (True, True, True, True, 3, False),
    ],
)
def test_the_others_agree_where_they_have_a_quorum_of_their_own_and_one_vote_is_strong(
    spectral: bool, sequence: bool, strong: bool, opinion: bool, quorum: int, agreed: bool
) -> None:
    """Also where the spectral detector has no opinion: then two must agree, and the autoencoder is one of them."""
    others = {"spectral": np.array([spectral]), "sequence": np.array([sequence])}
    opinions = {
        "autoencoder": np.array([True]),
        "spectral": np.array([opinion]),
        "sequence": np.array([True]),
    }
    found = agree_strongly(others, {"sequence": np.array([strong])}, opinions, quorum)
    assert found.tolist() == [agreed]
    assert not agree_strongly({}, {}, opinions, quorum).any()


def test_a_z_reaches_the_highest_threshold_that_the_other_votes_allow() -> None:
    second, agreed = (np.arange(3) >= least for least in (1, 2))
    reach = alert_reach(np.full(3, 3.0), second, agreed)
    assert reach[0] == -np.inf
    assert reach[1] == 3.0 < reach[2]


def test_a_quorum_that_cannot_be_reached_is_refused() -> None:
    with pytest.raises(ValueError, match="never be reached"):
        Voting(detectors=("autoencoder", "spectral"), quorum=3)


def test_an_alert_opens_where_the_votes_suffice_and_a_calibrated_z_is_strong() -> None:
    votes = {
        "autoencoder": np.array([True, True, False, True]),
        "spectral": np.array([True, True, True, False]),
        "forest": np.array([False, False, True, False]),
    }
    opinions = {name: np.ones(4, bool) for name in votes}
    opening = {"autoencoder": np.array([True, False, False, True])}
    assert opening_verdicts(votes, 2, opinions, opening).tolist() == [True, False, False, False]
    assert opening_verdicts(votes, 2, opinions, {}).tolist() == [True, True, True, False]
