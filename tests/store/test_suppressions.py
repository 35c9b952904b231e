"""Suppressions, shared surprises, retention, redaction and purge, on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fingerprint.core.case import AlertRevision, SetDisposition, SuppressionMatch
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Retention
from fingerprint.store import open_store, retention, schema
from fingerprint.store.filter_values import MAX_VALUES
from tests.contracts.suppression_store import GuardContract, GuardRules, Moving, rolled_out
from tests.support.alerts import new_pipeline, stolen_session
from tests.support.query_plans import plans, queries
from tests.support.web_app import Site, store_in


class TestSqlite(GuardRules):
    @pytest.fixture
    def make_guarded(self, tmp_path):
        numbers = itertools.count()

        def make(now=None, redact=()):
            url = f"sqlite:///{tmp_path}/{next(numbers)}.sqlite"
            return open_store(url, redact=redact, now=now or Moving())

        return make


class TestPostgres(GuardContract):
    @pytest.fixture
    def make_guarded(self, postgresql_stores):
        with postgresql_stores.lent() as make:
            yield lambda now=None, redact=(): make(now or Moving(), redact)


OF_NO_ONE = {  # tables that hold nothing of a principal, by neither an alert nor a name: a purge leaves them alone
    "meta",
    "audit",
    "views",
    "change_counter",
    "suppressions",
    "threshold_overrides",
    "incidents",  # figures over alerts, computed again when one of them goes
    "feed_counts",
    "feed_progress",
    "feed_gaps",
    "receiver_positions",
    "heartbeats",
    "accounts",
    "sessions",
    "tokens",
    "invitations",
    "login_attempts",
    "pending_logins",
    "second_factors",
    "known_browsers",
}


@pytest.mark.parametrize("table", schema.metadata.sorted_tables, ids=str)
def test_of_every_table_it_was_thought_about_whether_a_purge_reaches_it(table):
    reached = {"alert_id", "principal"} & set(table.c.keys())
    assert reached or table.name in OF_NO_ONE


@pytest.mark.parametrize("how", ["purge", "retention"])
def test_the_words_of_removed_alerts_leave_the_full_text_index_of_sqlite(tmp_path, how):
    store = store_in(tmp_path)
    clock = Moving()
    store.session.now = lambda: clock.at
    other, hers = rolled_out(0), replace(rolled_out(1), principal="1:user/zqxwvu", human="zqxwvu")
    for alert in (other, hers):  # in two parts of the index
        store.alerts.save([alert])

    def indexed() -> bytes:
        with store.session.engine.connect() as connection:
            return b"".join(connection.exec_driver_sql("SELECT block FROM alert_words_data").scalars())

    assert b"zqxwvu" in indexed()
    if how == "purge":
        store.retention.purge_principal(hers.principal, by="omar")
    else:
        seen = [AlertRevision(hers.alert_id, 0)]
        store.cases.change(seen, SetDisposition("true_positive"), "omar")
        clock.at += timedelta(days=401)
        store.retention.apply(Retention(record_days=0, vote_days=0), by="retention")
    assert b"zqxwvu" not in indexed()


def test_retention_finds_the_duplicates_of_an_alert_by_an_index(tmp_path):
    """It asks for each closed alert: without an index that is quadratic."""
    store = store_in(tmp_path)
    query = retention._select_removable_alerts(datetime.now(UTC)).compile(store.session.engine)
    with store.session.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", ("2026-03-04",)).all()
    assert any("copies USING INDEX dispositions_of_original" in row[-1] for row in plan), plan


def test_whether_retention_pauses_is_read_from_indexes(tmp_path):
    """Each view of the page of banks asks for the newest row of three tables."""
    store = store_in(tmp_path)
    store.alerts.save([new_pipeline()])
    newest = [
        step
        for step in plans(store, lambda: store.retention.paused_since(Retention()))
        if "alert_events" in step
    ]
    assert newest == ["SEARCH alert_events USING COVERING INDEX ix_alert_events_stored_at"]


@pytest.mark.parametrize(
    "match", [SuppressionMatch(network="10.3.0.0/16"), SuppressionMatch(action="UpdateService")], ids=str
)
def test_the_alerts_of_a_network_or_an_action_are_found_by_an_index(tmp_path, match):
    store = store_in(tmp_path)
    store.alerts.save([new_pipeline(), stolen_session()])
    plan = plans(store, lambda: store.suppressions.preview(match))
    assert any("alerts_of_value" in step for step in plan)
    assert [step for step in plan if step.startswith("SCAN alert")] == []


@pytest.mark.parametrize(
    ("action", "hidden"),
    [("GetFunction", True), ("lambda:GetFunction20150331v2", True), ("GetFunct", False), ("GetAlias", False)],
)
def test_an_alert_is_hidden_by_the_action_that_its_title_names(tmp_path, action, hidden):
    one = new_pipeline()
    calls = tuple(replace(each, service="lambda", action="GetFunction20150331v2") for each in one.events)
    store = store_in(tmp_path)
    store.alerts.save([replace(one, events=calls)])
    assert store.suppressions.preview(SuppressionMatch(action=action)).alerts == hidden


def test_a_suppression_is_matched_once_and_not_at_all_without_a_reason_or_a_valid_end(tmp_path):
    """Every other writer waits until it is done."""
    store, wanted = store_in(tmp_path), SuppressionMatch(network="10.3.0.0/16")
    store.alerts.save([new_pipeline()])

    def addresses_read(reason: str, days: int) -> int:
        def create() -> None:
            with suppress(FingerprintError):
                store.suppressions.create(
                    wanted, reason, datetime.now(UTC) + timedelta(days=days), by="maria"
                )

        return sum("DISTINCT alert_values" in statement for statement, _ in queries(store, create))

    assert [addresses_read(" ", 3), addresses_read("a scanner", 400), addresses_read("a scanner", 3)] == [
        0,
        0,
        1,
    ]


def test_an_alert_of_more_addresses_than_it_keeps_is_hidden_by_their_network(tmp_path):
    store, alert = store_in(tmp_path), new_pipeline()
    many = [
        replace(alert.events[0], event_id=f"{number}", source_address=f"10.3.{number // 250}.{number % 250}")
        for number in range(MAX_VALUES + 100)
    ]
    store.alerts.save([replace(alert, events=tuple(many))])
    last = SuppressionMatch(network=many[-1].source_address)
    assert store.suppressions.preview(SuppressionMatch(network="10.3.0.0/16")).alerts == 1
    assert store.suppressions.preview(last).alerts == 0


# --- as an analyst sees it --------------------------------------------------------------------------------------------


def test_the_page_of_an_alert_says_who_shares_it_and_whether_that_lowers_it(tmp_path):
    store = store_in(tmp_path)
    store.alerts.save([rolled_out(number) for number in range(3)])
    analyst, page = Site.of(store).browser("analyst"), f"/alerts/{rolled_out(0).alert_id}"
    two = analyst.get(page).text
    assert "2 other principals showed the same surprise within a day." in two
    assert "is lowered" not in two
    store.alerts.save([rolled_out(3)])
    assert "its own urgency of 38 is lowered" in analyst.get(page).text
    assert "Its own urgency is 38; that others show the same surprise lowers it" in analyst.get("/").text


def test_the_page_of_a_record_says_when_it_was_removed(tmp_path):
    store, alert = store_in(tmp_path), rolled_out(0)
    then = datetime.now(UTC) - timedelta(days=2)
    open_store(f"sqlite:///{tmp_path}/alerts.sqlite", now=lambda: then).alerts.save([alert])
    analyst = Site.of(store).browser("analyst")
    page = f"/alerts/{alert.alert_id}/record?event={alert.events[0].event_id}"
    assert "UpdateService" in analyst.get(page).text
    store.retention.apply(Retention(record_days=1), by="retention")
    removed = store.evidence.records_removed_at(alert.alert_id)
    told = re.search(
        r'were removed on <time datetime="([0-9-]{10})[^>]*>[^<]+</time>, as the settings',
        analyst.get(page).text,
    )
    assert told
    assert told[1] == f"{removed:%Y-%m-%d}"
