"""Precision against recall, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.evaluation.metrics import PrecisionRecallCurve, alert_curve, event_curve, true_alert_scores


def queue(*rows: tuple[str, str | None, float]) -> pd.DataFrame:
    """Events from (group, session, score)."""
    frame = pd.DataFrame(list(rows), columns=["group", "session", "score"])
    return frame.assign(session=frame["session"].astype(object).where(frame["session"].notna(), None))


def test_events_of_one_score_are_shown_together() -> None:
    curve = event_curve(np.array([True, False, True]), np.array([2.0, 2.0, 1.0]))
    assert curve.recall.tolist() == [0.5, 1.0]
    assert curve.precision.tolist() == [0.5, pytest.approx(2 / 3)]
    assert curve.average_precision() == pytest.approx(0.5 * 0.5 + 0.5 * 2 / 3)


def test_what_is_never_shown_is_never_found() -> None:
    curve = event_curve(np.array([True, True]), np.array([1.0, -np.inf]))
    assert curve.recall.tolist() == [0.5]
    assert curve.average_precision() == 0.5


def test_without_an_attack_or_a_shown_event_there_is_no_precision() -> None:
    assert event_curve(np.array([False]), np.array([1.0])).average_precision() == 0
    assert event_curve(np.array([True]), np.array([-np.inf])).average_precision() == 0
    assert alert_curve(queue(("A", "s", -np.inf)), 1).average_precision() == 0


def test_the_queue_is_read_from_its_best_alert_down() -> None:
    events = queue(("A", None, 9.0), ("B", "s", 8.0), ("C", None, 7.0), ("D", "t", 6.0), ("D", None, 1.0))
    curve = alert_curve(events, sessions=3)  # the third is never shown
    # ranks: A false, B finds s, C false, D finds t
    assert curve.recall.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3])
    assert curve.precision.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 2 / 4])
    assert curve.average_precision() == pytest.approx(1 / 3 * 1 / 2 + 1 / 3 * 2 / 4)


def test_an_alert_is_true_from_the_score_on_at_which_it_is_about_the_attack() -> None:
    crowd = [("A", None, 9.0)] * 10
    drowned = queue(*crowd, ("A", "s", 5.0))  # one of eleven
    assert true_alert_scores(drowned).empty
    heard = queue(*crowd, ("A", "s", 5.0), ("A", "s", 4.0))  # two of twelve
    assert true_alert_scores(heard)[["group", "session", "score"]].to_numpy().tolist() == [["A", "s", 4.0]]
    curve = alert_curve(heard, 1)
    assert curve.recall.tolist() == [0.0, 1.0]
    assert curve.precision.tolist() == [0.0, 1.0]


def test_what_was_found_is_not_lost_when_more_harmless_events_are_shown() -> None:
    events = queue(("A", "s", 9.0), *[("A", None, 1.0)] * 20, ("B", None, 0.5))
    assert alert_curve(events, 1).recall.tolist() == [1.0, 1.0]


def test_points_are_few_and_keep_both_ends() -> None:
    attack = np.arange(1000) % 3 == 0
    curve = event_curve(attack, np.arange(1000, 0, -1.0))
    points = curve.points(limit=10)
    assert len(points) == 10
    assert points[0][0] == pytest.approx(1 / 334, abs=1e-4)
    assert points[-1][0] == 1.0
    assert points == sorted(points, key=lambda point: point[0])
    assert PrecisionRecallCurve(np.empty(0), np.empty(0)).points() == []
