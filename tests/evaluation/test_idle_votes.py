"""A vote that changes no row is found, by name; one that changes an alert is not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fingerprint.evaluation.idle_votes import describe_idle, idle_detectors, vote_effects

START = pd.Timestamp("2026-01-05T00:00:00Z")


def labelled(*groups: int) -> pd.DataFrame:
    """The same events: the first is an attack's."""
    return pd.DataFrame(
        {"group": groups, "session": ["s", None, None, None], "event_time": [START] * 4, "strength": "quiet"}
    )


def shown(*each: bool) -> np.ndarray:
    return np.array(each, bool)


def test_a_detector_that_agrees_with_another_one_everywhere_changes_nothing() -> None:
    served = shown(True, True, False, False)
    effects = vote_effects(
        labelled(1, 2, 3, 4), served, {"counts": served.copy(), "rare": shown(True, True, True, True)}
    )
    assert effects["counts"] == {"events": 0, "alerts": 0, "sessions": 0}, "what is rare is also much, always"
    assert effects["rare"] == {"events": 2, "alerts": 2, "sessions": 0}
    assert idle_detectors(effects) == ("counts",)
    assert "the vote of counts changes no row" in str(describe_idle(idle_detectors(effects)))


def test_a_vote_that_hides_an_attack_or_an_alert_counts() -> None:
    effects = vote_effects(
        labelled(1, 2, 3, 4),
        shown(False, True, False, False),
        {"counts": shown(True, True, False, False), "rare": shown(False, False, False, False)},
    )
    assert effects["counts"] == {"events": 1, "alerts": 1, "sessions": 1}
    assert effects["rare"] == {"events": 1, "alerts": 1, "sessions": 0}
    assert idle_detectors(effects) == ()


def test_a_vote_that_only_makes_alerts_larger_changes_no_row() -> None:
    effects = vote_effects(
        labelled(1, 2, 2, 2), shown(True, True, True, False), {"rare": shown(True, True, True, True)}
    )
    assert effects["rare"] == {"events": 1, "alerts": 0, "sessions": 0}
    assert idle_detectors(effects) == ("rare",)


def test_every_vote_that_counts_is_no_failure_and_a_single_detector_is_never_left_out() -> None:
    assert describe_idle(()) is None
    assert vote_effects(labelled(1, 2, 3, 4), shown(True, True, True, True), {}) == {}
