"""A lead's page and the same figures over HTTP: on an empty store, on a busy one, and on whatever a reason says."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from fingerprint.core.case import AlertRevision, AssignCase, SetDisposition, SuppressionMatch
from fingerprint.core.overview import DayFigures, measure_precision
from fingerprint.web import overview_chart
from fingerprint.web.pages.overview import seconds_as_text
from tests.contracts.account_store import Moment
from tests.contracts.incident_store import alert
from tests.support.alerts import ACCOUNT, NASTY
from tests.support.web_app import Site, store_in


@pytest.fixture
def site(tmp_path) -> Site:
    """Three alerts, of which one was answered after an hour and two were closed after two."""
    store, clock = store_in(tmp_path), Moment()
    store.session.now = clock.now
    store.alerts.save(
        [alert("a0", urgency=40), alert("b0", "kim", 1, urgency=90), alert("c0", "bo", 2, urgency=60)]
    )
    match = SuppressionMatch(principal=f"{ACCOUNT}:user/maria")
    store.suppressions.create(match, NASTY[0], clock.now() + timedelta(days=30), "maria")
    clock.sleep(3600)
    store.cases.change([AlertRevision("a0", 0)], AssignCase("maria"), "maria")
    clock.sleep(3600)
    store.cases.change([AlertRevision("a0", 1)], SetDisposition("benign", "x"), "maria")
    store.cases.change([AlertRevision("b0", 0)], SetDisposition("true_positive"), "maria")
    clock.sleep(3600)
    return Site.of(store, clock=clock)


def test_the_figures_say_what_came_what_was_decided_and_how_long_it_took(site):
    found = site.client("viewer").get("/api/v1/overview?days=7&response_hours=2").json()
    assert (found["alerts"], found["decisions"]) == (3, {"benign": 1, "open": 1, "true_positive": 1})
    assert found["first_response"] == {
        "done": 2, "median": 5400.0, "p90": None, "waiting": 1, "late": 1, "target": 7200.0,
    }  # fmt: skip
    assert found["time_to_close"]["median"] == 7200.0
    assert sum(day["critical"] + day["high"] + day["medium"] for day in found["days"]) == 3
    assert [(each["name"], each["true_positives"], each["benign"]) for each in found["by_detector"]] == [
        ("autoencoder", 1, 1)
    ]
    (suppressed,) = found["by_suppression"]
    assert (suppressed["benign"], suppressed["true_positives"]) == (1, 0)
    assert suppressed["low"] == pytest.approx(0.0)
    assert suppressed["high"] == pytest.approx(0.79, abs=0.01)  # one decision says nearly nothing


def test_an_open_alert_that_a_suppression_hides_waits_for_no_one(site):
    now, match = site.deps.clock.now(), SuppressionMatch(principal=f"{ACCOUNT}:user/bo")
    site.deps.store.suppressions.create(match, "a migration", now + timedelta(days=30), "maria")
    found = site.client("viewer").get("/api/v1/overview?days=7&response_hours=2").json()
    assert (found["alerts"], found["decisions"]) == (2, {"benign": 1, "true_positive": 1})
    assert (found["first_response"]["waiting"], found["first_response"]["late"]) == (0, 0)


def test_the_page_shows_them_with_axes_tables_and_intervals(site):
    page = site.browser("viewer").get("/overview?days=7&response_hours=2").text
    for part in ("day they came (UTC)", "week they came", "1 of 2 decided alerts was true positive: 50 %", "9 % to 91 %",
                 "1 for more than 2 hours", "needs 10 alerts", "The same as a table"):  # fmt: skip
        assert part in page
    assert "<script>alert" not in page
    for wrong in ("days=0", "days=x", "response_hours=0", "days=5000"):
        assert site.browser("viewer").get(f"/overview?{wrong}").status_code == 422


def test_an_empty_store_has_an_overview_too(tmp_path):
    page = Site.of(store_in(tmp_path)).browser("viewer").get("/overview").text
    assert "No alert of these days was decided yet" in page
    assert "none yet" in page


@pytest.mark.parametrize("most", [0, 1, 3, 9, 10, 11, 99, 100, 12_345])
def test_bars_of_days_stay_within_the_chart(most):
    days = [DayFigures(date(2026, 3, 1) + timedelta(days=at), most, at, 1, 0) for at in range(40)]
    chart = overview_chart.draw_days(days, 350, 220)
    assert all(0 <= bar.y <= bar.y + bar.height <= chart.baseline + 0.01 for bar in chart.bars)
    assert all(chart.left <= bar.x <= bar.x + bar.width <= chart.width for bar in chart.bars)
    assert len(chart.x_ticks) < 6
    assert overview_chart.draw_days([], 350, 220).bars == ()


def test_a_week_without_a_decision_has_a_place_and_no_point():
    weeks = [measure_precision("2026-03-02", []), measure_precision("2026-03-09", [])]
    chart = overview_chart.draw_precision(weeks, 1000, 240)
    assert (len(chart.x_ticks), chart.points) == (2, ())


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "too few"), (0, "0 seconds"), (119, "119 seconds"), (5400, "90 minutes"), (86_400, "24 hours"), (180_000, "2 days")],
)  # fmt: skip
def test_durations_are_said_in_a_unit_that_fits(seconds, said):
    assert seconds_as_text(seconds) == said
