"""A vote that changes no row is found, by name; one that changes an alert is not."""

from __future__ import annotations

import pandas as pd

from fingerprint.evaluation.idle_votes import describe_idle, idle_detectors, vote_effects

START = pd.Timestamp("2026-01-05T00:00:00Z")


def scored(**votes: list[bool]) -> pd.DataFrame:
    """Four events, each an alert of its own, with the votes of some detectors that have an opinion on all."""
    columns = {f"{name}_vote": each for name, each in votes.items()}
    return pd.DataFrame({**columns, **{f"{name}_z": [1.0] * 4 for name in votes}})


def labelled(*groups: int) -> pd.DataFrame:
    """The same events: the first is an attack's."""
    return pd.DataFrame(
        {"group": groups, "session": ["s", None, None, None], "event_time": [START] * 4, "strength": "quiet"}
    )


def test_a_detector_that_agrees_with_another_one_everywhere_changes_nothing() -> None:
    judged = scored(rare=[True, True, False, False], counts=[True, True, True, True])
    effects = vote_effects(judged, labelled(1, 2, 3, 4), ("rare", "counts"), quorum=2)
    assert effects["counts"] == {"events": 0, "alerts": 0, "sessions": 0}, "what is rare is also much, always"
    assert effects["rare"] == {"events": 2, "alerts": 2, "sessions": 0}
    assert idle_detectors(effects) == ("counts",)
    assert "the vote of counts changes no row" in str(describe_idle(idle_detectors(effects)))


def test_a_vote_that_hides_an_attack_or_an_alert_counts() -> None:
    judged = scored(rare=[True, True, False, False], counts=[False, True, False, False])
    effects = vote_effects(judged, labelled(1, 2, 3, 4), ("rare", "counts"), quorum=2)
    assert effects["counts"] == {"events": 1, "alerts": 1, "sessions": 1}
    assert effects["rare"] == {"events": 0, "alerts": 0, "sessions": 0}


def test_a_vote_that_moves_events_within_the_same_alerts_changes_no_row() -> None:
    judged = scored(rare=[True, True, True, True], counts=[True, True, True, False])
    effects = vote_effects(judged, labelled(1, 2, 2, 2), ("rare", "counts"), quorum=2)
    assert effects["counts"] == {"events": 1, "alerts": 0, "sessions": 0}
    assert idle_detectors(effects) == ("rare", "counts")


def test_one_of_three_is_left_out_of_a_quorum_of_two_of_two() -> None:
    votes = {
        "a": [True, True, False, False],
        "b": [True, False, True, False],
        "c": [True, False, False, True],
    }
    effects = vote_effects(scored(**votes), labelled(1, 2, 3, 4), ("a", "b", "c"), quorum=2)
    assert set(effects) == {"a", "b", "c"}
    assert all(effect["alerts"] == 0 for effect in effects.values()), (
        "the first event has two votes without any one"
    )


def test_every_vote_that_counts_is_no_failure_and_a_single_detector_is_never_left_out() -> None:
    assert describe_idle(()) is None
    assert vote_effects(scored(a=[True] * 4), labelled(1, 2, 3, 4), ("a",), quorum=1) == {}
