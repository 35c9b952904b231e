"""Figures of a detector, by hand and by what must always hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.compute import hashing
from fingerprint.evaluation.false_alert_causes import FalseAlertCauses
from fingerprint.evaluation.metrics import (
    PrecisionRecallCurve,
    alert_curve,
    alert_session_pairs,
    compute_metrics,
    event_curve,
    rank_alerts,
    true_alert_scores,
    within_budget,
)
from pipelines.evaluation.standing_table import budgets_sentence

START = pd.Timestamp("2026-01-05T00:00:00Z")


def table(*rows: tuple[int, str | None, float, bool, str], strength: str = "quiet") -> pd.DataFrame:
    """Events from (minute, session, score, flagged, group)."""
    frame = pd.DataFrame(list(rows), columns=["minute", "session", "score", "flagged", "group"])
    frame["session"] = frame["session"].astype(object).where(frame["session"].notna(), None)
    times = START + pd.to_timedelta(frame.pop("minute"), unit="min")
    return frame.assign(event_time=times, strength=np.where(frame["session"].isna(), None, strength))


@pytest.fixture
def two_attacks() -> pd.DataFrame:
    """Sessions s (found a quarter of an hour after it began) and t (missed); alert B is false."""
    return table(
        (0, "s", 1.0, False, "A"),
        (15, "s", 9.0, True, "A"),
        (20, None, 7.0, True, "A"),
        (30, None, 8.0, True, "B"),
        (40, None, 0.0, False, "B"),
        (50, "t", 2.0, False, "C"),
    )


def test_an_event_is_right_when_it_is_flagged_and_the_attacks(two_attacks: pd.DataFrame) -> None:
    event = compute_metrics(two_attacks, days=2, principals=50)["per_event"]
    assert event["precision"] == pytest.approx(1 / 3, abs=1e-4)
    assert event["recall"] == pytest.approx(1 / 3, abs=1e-4)
    # by score: attack, benign, benign, attack, attack, benign
    assert event["average_precision"] == pytest.approx((1 + 2 / 4 + 3 / 5) / 3, abs=1e-4)


def test_a_session_is_found_when_an_alert_is_about_it(two_attacks: pd.DataFrame) -> None:
    figures = compute_metrics(two_attacks, days=2, principals=50)
    session = figures["per_session"]
    assert (session["precision"], session["recall"], session["f1"]) == (0.5, 0.5, 0.5)
    assert figures["alerts_per_day"] == 1.0
    assert figures["false_alerts_per_day"] == 0.5
    assert figures["false_alerts_per_day_per_100_principals"] == 1.0


def test_the_queue_has_an_average_precision_of_its_own(two_attacks: pd.DataFrame) -> None:
    session = compute_metrics(two_attacks, days=2, principals=50)["per_session"]
    # alerts by their best score: A finds s, B is false, C finds t
    assert session["average_precision"] == pytest.approx((1 + 2 / 3) / 2, abs=1e-4)
    assert session["curve"] == [[0.5, 1.0], [1.0, 0.6667]]


def test_only_false_alerts_are_looked_for_a_cause(two_attacks: pd.DataFrame) -> None:
    ada, ben = hashing.hash_strings(pd.Series(["ada", "ben"], dtype=object))
    events = two_attacks.assign(principal=two_attacks["group"].map({"A": ada, "B": ben, "C": ada}))
    lines = [
        {"surprise": "holiday", "key": who, "from": "2026-01-05", "to": "2026-01-05"}
        for who in ("ada", "ben")
    ]
    day = START.value // 86_400_000_000_000
    figures = compute_metrics(
        events, 2, 50, FalseAlertCauses.from_anomalies(lines, np.array([ada, ben]), day, day)
    )
    assert figures["by_surprise"] == {
        "holiday": {"principal_days": 2, "false_alerts": 1, "highest_score": 8.0},
        "ordinary day": {"principal_days": 0, "false_alerts": 0, "highest_score": None},
    }


def test_the_time_to_detect_runs_from_the_sessions_first_event(two_attacks: pd.DataFrame) -> None:
    assert compute_metrics(two_attacks, days=2, principals=50)["median_seconds_to_detect"] == 15 * 60


def test_an_alert_that_drowns_the_attack_is_false() -> None:
    crowd = [(minute, None, 5.0, True, "A") for minute in range(10)]
    assert alert_session_pairs(table((0, "s", 5.0, True, "A"), *crowd[:9]))["session"].tolist() == [
        "s"
    ]  # one in ten
    drowned = table((0, "s", 5.0, True, "A"), *crowd)  # one in eleven
    figures = compute_metrics(drowned, days=1, principals=1)
    assert figures["per_session"]["recall"] == 0
    assert figures["false_alerts_per_day"] == 1
    assert figures["median_seconds_to_detect"] is None


def test_a_budget_keeps_the_best_alerts_over_the_whole_span() -> None:
    ranked = table(
        *((place, None, 100.0 - place, False, f"benign {place}") for place in range(9)),
        (60, "s", 91.0, False, "attack"),
        *((70 + place, None, 50.0 - place, False, f"noise {place}") for place in range(20)),
    )
    found = compute_metrics(ranked, days=1, principals=1)["recall_at"]
    assert found == {"5": 0.0, "20": 1.0, "50": 1.0}


def test_what_is_never_shown_fills_no_budget() -> None:
    events = table((0, "s", -np.inf, False, "A"), (1, None, 3.0, True, "B"))
    assert within_budget(events, rank_alerts(events), 10)["group"].tolist() == ["B"]
    assert compute_metrics(events, days=1, principals=1)["recall_at"]["50"] == 0


def test_within_a_budget_an_alert_holds_what_scores_no_less_than_the_last_alert() -> None:
    events = table((0, None, 9.0, False, "A"), (1, None, 1.0, False, "A"), (2, None, 5.0, False, "B"))
    assert within_budget(events, rank_alerts(events), 2)["score"].tolist() == [9.0, 5.0]


def test_each_strength_has_its_own_recall() -> None:
    loud = table((0, "s", 5.0, True, "A"), strength="smash")
    quiet = table((1, "t", 0.0, False, "B"), strength="mimic")
    by_strength = compute_metrics(pd.concat([loud, quiet], ignore_index=True), days=1, principals=2)[
        "by_strength"
    ]
    assert {name: figures["recall"] for name, figures in by_strength.items()} == {"smash": 1.0, "mimic": 0.0}


def test_without_an_alert_everything_is_zero_and_nothing_breaks() -> None:
    figures = compute_metrics(table((0, "s", -np.inf, False, "A")), days=1, principals=1)
    assert figures["per_session"]["f1"] == figures["alerts_per_day"] == 0
    assert figures["p90_seconds_to_detect"] is None


EVENT = st.tuples(
    st.integers(0, 600),
    st.sampled_from([None, None, "s", "t"]),
    st.floats(-5, 5),
    st.booleans(),
    st.sampled_from("ABCDE"),
)
EVENTS = st.lists(EVENT, min_size=1, max_size=30).map(lambda rows: table(*rows))


def ratios(figures: dict) -> list[float]:
    event, session = figures["per_event"], figures["per_session"]
    names = ("precision", "recall", "f1")
    return [
        *(part[name] for part in (event, session) for name in names),
        event["average_precision"],
        *figures["recall_at"].values(),
    ]


@settings(max_examples=10, deadline=None)
@given(EVENTS)
def test_every_ratio_lies_between_zero_and_one_and_a_larger_budget_shows_more(events: pd.DataFrame) -> None:
    figures = compute_metrics(events, days=0.2, principals=3)
    assert all(0 <= ratio <= 1 for ratio in ratios(figures))
    shown = [len(within_budget(events, rank_alerts(events), most)) for most in (1, 2, 5)]
    assert shown == sorted(shown)


@settings(max_examples=6, deadline=None)
@given(EVENTS, st.randoms(use_true_random=False))
def test_neither_the_order_of_events_nor_the_names_of_sessions_change_a_figure(
    events: pd.DataFrame, random
) -> None:
    order = list(range(len(events)))
    random.shuffle(order)
    shuffled = events.iloc[order].reset_index(drop=True)
    renamed = shuffled.assign(session=shuffled["session"].map({"s": "t", "t": "s"}))
    assert ratios(compute_metrics(renamed, days=1, principals=3)) == ratios(
        compute_metrics(events, days=1, principals=3)
    )


@settings(max_examples=6, deadline=None)
@given(EVENTS.filter(lambda events: events["session"].notna().any()))
def test_who_knows_the_truth_finds_everything_and_disturbs_no_one(events: pd.DataFrame) -> None:
    attack = events["session"].notna()
    knows = events.assign(
        score=attack.astype(float), flagged=attack, group=events["session"].fillna("benign")
    )
    figures = compute_metrics(knows, days=1, principals=3)
    assert ratios(figures) == [1.0] * len(ratios(figures))
    assert figures["false_alerts_per_day"] == 0


# --- precision-recall curves --------------------------------------------------------------------------------


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


def test_methods_are_compared_at_as_many_alerts_as_one_of_them_shows(two_attacks: pd.DataFrame) -> None:
    found = [
        compute_metrics(two_attacks, days=2, principals=50, equal_alerts=count)["found_at_equal_alerts"]
        for count in (0, 1, 2, 3)
    ]
    assert found == [0, 1, 1, 2], "A, then B, then C"


def test_the_queue_says_how_much_of_an_alert_is_the_attacks_and_how_often_a_principal_comes_again() -> None:
    events = table(
        (0, "s", 9.0, True, "A"),
        (1, None, 8.0, True, "A"),
        (2, None, 7.0, True, "A"),
        (3, None, 6.0, True, "A"),
        (60, None, 5.0, True, "B"),
        (90, "s", 4.0, True, "C"),
    ).assign(principal=[1, 1, 1, 1, 1, 2])
    queue = compute_metrics(events, days=1, principals=50)["queue"]
    assert queue["alerts"] == 3
    assert queue["attack_share"] == pytest.approx((1 / 4 + 1) / 2)
    assert queue["repeated_alerts"] == pytest.approx(1 / 3, abs=1e-4)
    assert queue["median_seconds_to_detect"] == 0.0


def test_how_many_alerts_are_read_is_said_where_no_ranking_could_find_all_sessions(
    two_attacks: pd.DataFrame,
) -> None:
    figures = compute_metrics(two_attacks, days=7.2, principals=50)
    assert figures["alerts_read"] == {"5": 36, "20": 144, "50": 360}
    assert budgets_sentence(figures) == ""
    crowded = {**figures, "sessions": 144}
    assert (
        budgets_sentence(crowded)
        == "At 5 a day 36 alerts are read for 144 sessions: about 25% can be found at most.\n"
    )
