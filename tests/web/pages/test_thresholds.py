"""Thresholds chosen in the browser, over the API and on the command line, on the own history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fingerprint.adapters.system import SystemClock
from fingerprint.analysis.threshold_service import ThresholdForecast
from fingerprint.core.alert import Vote
from fingerprint.core.case import AlertRevision, SetDisposition, ThresholdEstimate, ThresholdOverride
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import load_settings
from fingerprint.store import SqlStore, open_store
from fingerprint.web.formatting import format_rate
from fingerprint.web.threshold_chart import draw_threshold_chart
from pipelines.cli.app import app
from tests.support import sample_organisation
from tests.support.alerts import ACCOUNT, stolen_session
from tests.support.query_plans import queries
from tests.support.web_app import Site, store_in
from tests.web.test_old_wordings import OLD


@pytest.fixture(scope="module")
def store(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqlStore]:
    """One that a run of score has filled; its loudest alert is a confirmed attack."""
    scored = sample_organisation.run(organisation.new, organisation.bank, tmp_path_factory.mktemp("tuning"))
    yield scored.store
    scored.store.close()


@pytest.fixture
def thresholds(store: SqlStore, organisation: sample_organisation.SampleOrganisation) -> ThresholdForecast:
    return ThresholdForecast(store, organisation.bank, sample_organisation.SETTINGS, SystemClock())


def test_a_wish_for_alerts_a_day_gives_a_threshold_that_keeps_it(thresholds: ThresholdForecast) -> None:
    told = []
    for wish in (0.5, 2.0, 5.0):
        found = thresholds.estimate(thresholds.threshold_for_rate(wish, quorum=2), quorum=2)
        assert found.alerts_per_day <= wish
        told.append(found.threshold)
    assert told == sorted(told, reverse=True)
    assert told[0] > told[-1]


def test_known_attacks_fall_away_as_the_threshold_rises(thresholds: ThresholdForecast) -> None:
    known = [each.session_share or 0.0 for each in thresholds.estimate_curve(quorum=2)]
    assert known == sorted(known, reverse=True)
    assert known[0] > 0.5 > known[-1]


def test_what_would_not_have_been_shown_are_alerts_that_are_there(
    thresholds: ThresholdForecast, store: SqlStore
) -> None:
    there = {alert.alert_id for alert in store.alerts.by_urgency()}
    now = thresholds.current().threshold
    assert thresholds.hidden_alerts(now, quorum=2) == []
    high = set(thresholds.hidden_alerts(30.0, quorum=2))
    assert high
    assert high <= there


def test_a_quorum_that_cannot_be_estimated_is_refused(thresholds: ThresholdForecast) -> None:
    with pytest.raises(FingerprintError, match="not of 4"):
        thresholds.estimate(3.0, quorum=4)


def test_without_a_bank_known_attacks_are_not_tried(store: SqlStore, tmp_path: Path) -> None:
    found = ThresholdForecast(store, tmp_path / "none", sample_organisation.SETTINGS, SystemClock()).current()
    assert (found.sessions, found.session_share) == (None, None)
    assert found.alerts_per_day > 0


def test_the_alerts_that_a_threshold_would_not_raise_are_read_at_once(
    thresholds: ThresholdForecast, store: SqlStore
) -> None:
    hidden = thresholds.hidden_alerts(30.0, quorum=2)
    assert len(hidden) > 1
    engineer = Site.of(store, sample_organisation.SETTINGS, thresholds=thresholds).browser("engineer")
    page = "/thresholds?threshold=30&quorum=2"
    found = queries(store, lambda: engineer.get(page).raise_for_status())
    assert sum("alerts.gravest_action" in statement for statement, _ in found) == 1
    assert [row.alert_id for row in store.queue.rows(["nothing", *hidden])] == hidden


def test_the_stored_reach_counts_for_the_quorum_in_force_and_from_its_beginning_on(tmp_path: Path) -> None:
    """No stored vote of another detector says that this event would be an alert up to 3.5: a second vote is not stored."""
    store, at = store_in(tmp_path), stolen_session().first_event_time
    who = f"{ACCOUNT}:user/ana"
    vote = Vote("strange", at, who, f"{who}|iam|direct", "autoencoder", 6.0, 3.2, True, "entity", reach=3.5)
    store.alerts.save([], [vote])

    def shown(quorum: int) -> float:
        forecast = ThresholdForecast(store, None, load_settings(), SystemClock())
        return forecast.estimate(3.4, quorum).alerts_per_day

    assert (shown(2), shown(3)) == (1, 0)
    store.thresholds.override(at - timedelta(days=1), "maria", "fewer", quorum=3)
    assert (shown(2), shown(3)) == (0, 1)
    store.thresholds.override(at + timedelta(days=1), "maria", "as before")
    assert (shown(2), shown(3)) == (0, 0), (
        "two votes are enough again, but were not when the event was judged"
    )


LOUD = 10  # events in a day, of as many people, stranger than any threshold


@pytest.fixture
def loud(tmp_path: Path) -> Site:
    """A site whose alerts a day no threshold brings below ten; two of its alerts are decided on."""
    store = store_in(tmp_path)
    begun = stolen_session().first_event_time
    names = [f"{ACCOUNT}:user/loud-{at}" for at in range(LOUD)]
    store.alerts.save(
        [],
        [
            Vote(who, begun, who, f"{who}|iam|direct", "autoencoder", 50.0, 3.2, True, "entity")
            for who in names
        ],
    )
    grave, mild, harmless = (
        replace(stolen_session(), alert_id=f"{at:016x}", urgency=urgency)
        for at, urgency in ((1, 80), (2, 20), (3, 60))
    )
    store.alerts.save([grave, mild, harmless])
    store.cases.change([AlertRevision(mild.alert_id, 0)], SetDisposition("true_positive", "hers"), "maria")
    store.cases.change([AlertRevision(harmless.alert_id, 0)], SetDisposition("benign", "an audit"), "maria")
    clock, settings = SystemClock(), load_settings(environment={})
    return Site.of(store, settings, clock=clock, thresholds=ThresholdForecast(store, None, settings, clock))


def overrides(site: Site) -> list[ThresholdOverride]:
    return site.deps.store.thresholds.history()


def test_a_budget_that_cannot_be_met_says_so_on_the_page_and_cannot_be_applied(loud: Site) -> None:
    engineer, said = loud.browser("engineer"), "At most 3 alerts a day cannot be met with 1 of 3 votes"
    page = engineer.get("/thresholds?alerts_per_day=3&quorum=1").text
    assert said in page
    assert (
        "would still have shown 10 a day; ask for more votes, suppress what is noisy, or allow more." in page
    )
    assert "Apply threshold" not in page
    form = {
        "csrf": loud.csrf("engineer"),
        "threshold": "37",
        "quorum": "1",
        "alerts_per_day": "3",
        "why": "less",
    }
    answer = engineer.post("/thresholds", data=form)
    assert (answer.status_code, overrides(loud)) == (400, [])
    assert said in answer.text
    assert 'name="alerts_per_day" min="0.1" max="10000" step="any" value="3"' in page
    assert "Apply threshold 1.60" in engineer.get("/thresholds?alerts_per_day=10&quorum=1").text


def test_a_threshold_out_of_bounds_is_refused_wherever_it_is_set(loud: Site) -> None:
    engineer, viewer, client = loud.browser("engineer"), loud.browser("viewer"), loud.client("engineer")
    said = {"content-type": "application/json"}
    for threshold in (0.999, 37.001, 1e300, float("nan"), float("inf")):
        form = {"csrf": loud.csrf("engineer"), "threshold": str(threshold), "why": "less"}
        assert engineer.post("/thresholds", data=form).status_code in (400, 422), threshold
        assert viewer.get(f"/thresholds?threshold={threshold}").status_code == 422, threshold
        body = f'{{"threshold": {json.dumps(threshold)}, "why": "less"}}'
        answer = client.post("/api/v1/thresholds", content=body, headers=said)
        assert answer.status_code == 422, threshold
    assert overrides(loud) == []


def test_a_budget_that_cannot_be_met_is_refused_by_the_api(loud: Site) -> None:
    client = loud.client("engineer")
    preview = client.post("/api/v1/thresholds/preview", json={"alerts_per_day": 3, "quorum": 1}).json()
    assert preview["unmet"].startswith("at most 3 alerts a day cannot be met")
    wish = {"alerts_per_day": 3, "quorum": 1, "why": "less"}
    answer = client.post("/api/v1/thresholds", json=wish)
    assert (answer.status_code, answer.json()["detail"], overrides(loud)) == (400, preview["unmet"], [])
    assert client.post("/api/v1/thresholds", json=wish | {"alerts_per_day": 10}).status_code == 201
    assert [(each.threshold, each.quorum) for each in overrides(loud)] == [(1.6, 1)]


def test_a_budget_that_cannot_be_met_is_refused_on_the_command_line(loud: Site, tmp_path: Path) -> None:
    words = [
        "thresholds",
        "set",
        "--why",
        "less",
        "--quorum",
        "1",
        "--database",
        f"sqlite:///{tmp_path}/alerts.sqlite",
    ]
    refused = CliRunner().invoke(app, [*words, "--alerts-per-day", "3"])
    assert "at most 3 alerts a day cannot be met" in str(refused.exception)
    assert overrides(loud) == []
    CliRunner().invoke(app, [*words, "--alerts-per-day", "20"])
    assert [each.threshold for each in overrides(loud)] == [1.6]
    table = CliRunner().invoke(app, ["thresholds", "estimate", *words[-2:]], env={"COLUMNS": "200"}).output
    assert "cannot be met" in table


def test_the_page_says_no_old_wording(loud: Site) -> None:
    for path in ("/thresholds", "/thresholds?threshold=3"):
        answer = loud.browser("admin").get(path)
        assert answer.status_code == 200
        assert [each for each in OLD if each in " ".join(unescape(answer.text).split())] == []


def test_what_is_not_kept_limits_what_can_be_estimated_and_is_said(loud: Site) -> None:
    assert loud.deps.thresholds is not None
    assert "votes below a z of 1.6 are not kept" in loud.deps.thresholds.estimate_rate(100, 1).note
    assert loud.deps.thresholds.estimate_rate(10, 1).note == ""


def test_the_alerts_that_would_be_hidden_are_marked_and_the_gravest_come_first(loud: Site) -> None:
    page = (
        loud.browser("viewer")
        .get("/thresholds?threshold=37&quorum=3")
        .text.partition('id="hidden-alerts"')[2]
    )
    assert "Among them: 1 confirmed attack, 1 open high or critical alert." in page
    assert "3 alerts: 1 critical, 1 high, 1 low." in page
    order = [page.index(text) for text in ("confirmed attack</span>", ">open</span>", ">benign</span>")]
    assert order == sorted(order)


def test_an_override_says_the_old_and_the_new_value(loud: Site) -> None:
    engineer, form = loud.browser("engineer"), {"csrf": loud.csrf("engineer"), "why": "less noise"}
    for choice in ({"threshold": "3.6"}, {"threshold": "4", "quorum": "3"}, {}):
        assert engineer.post("/thresholds", data=form | choice).status_code == 303
    page = engineer.get("/thresholds").text.partition('id="overrides"')[2]
    changes = (
        "Override removed: threshold 4.00 → from the settings; votes needed 3 → from the settings",
        "threshold 3.60 → 4.00; votes needed from the settings → 3",
        "threshold from the settings → 3.60",
    )
    assert [page.index(text) for text in changes] == sorted(page.index(text) for text in changes)


def test_a_rate_below_one_a_day_is_also_a_number_of_days() -> None:
    assert [format_rate(rate) for rate in (0.12, 0.5, 0.9, 1.0, 6.43, 0.0)] == [
        "0.12 (one in 8 days)",
        "0.5 (one in 2 days)",
        "0.9",
        "1",
        "6.43",
        "0",
    ]


def test_a_store_without_votes_foresees_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    empty = ThresholdForecast(
        open_store(f"sqlite:///{tmp_path}/d.sqlite"), None, sample_organisation.SETTINGS, SystemClock()
    )
    assert empty.current().alerts_per_day == 0
    assert draw_threshold_chart(empty.estimate_curve(2), {"now": 3.2}, 900, 200) is not None


def test_a_drawing_stays_within_its_frame_whatever_was_foreseen() -> None:
    curve = [
        ThresholdEstimate(2.0 + at, 2, alerts, 0, 0, None if found is None else 10, found)
        for at, (alerts, found) in enumerate([(1e9, 10), (0.0, None), (0.3, 2)])
    ]
    drawing = draw_threshold_chart(curve, {"now": 2.5, "far": 99.0}, 900, 200)
    assert drawing is not None
    assert [mark.label for mark in drawing.marks] == ["now"]
    for bar in drawing.bars:
        assert 0 <= bar.y <= bar.y + bar.height <= drawing.baseline
