"""The daily run beside the web app, and what it leaves alone: a store that nothing was written to for long."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from fingerprint.core.settings import Retention, Settings
from fingerprint.store import SqlStore, open_store
from fingerprint.web import formatting
from pipelines.cli.app import app
from pipelines.commands import retention
from tests.support.alerts import new_pipeline, stolen_session, votes
from tests.support.web_app import Site

TODAY = datetime.now(UTC)
KEPT = Retention(record_days=1, vote_days=1, closed_alert_days=0)


def store_of(folder: Path, days_old: float) -> tuple[str, SqlStore]:
    """A store that received two alerts and nine votes so long ago."""
    url, then = f"sqlite:///{folder}/alerts.sqlite", TODAY - timedelta(days=days_old)
    filled = open_store(url, now=lambda: then)
    filled.alerts.save([new_pipeline(), stolen_session()], votes(stolen_session()))
    filled.close()
    return url, open_store(url)


def records(store: SqlStore) -> int:
    return sum(bool(event.raw) for alert in store.alerts.by_urgency() for event in alert.events)


@pytest.mark.parametrize("days_old", [0, 200])
def test_the_first_run_over_a_demo_takes_nothing_however_old_its_events_and_its_file_are(
    tmp_path, days_old, caplog
):
    """A store of January's events, made in November; and one that was made in May, and is opened in November."""
    url, store = store_of(tmp_path, days_old)
    assert max(event.event_time for event in stolen_session().events) < TODAY - timedelta(days=91)
    assert retention.apply_retention(store, Retention())
    assert (records(store), len(store.votes.read())) == (12, 9)
    assert store.audit.entries("database") == []
    said = retention.describe_pause(store, Retention(), url)
    assert bool(said) == (days_old == 200) == ("until it is asked for" in caplog.text)
    if said:
        assert said.endswith(f"fingerprint database prune --database {url}")
        assert f"nothing since {TODAY - timedelta(days=200):%Y-%m-%d}" in said


def test_what_is_asked_for_is_removed_and_from_then_on_every_day(tmp_path):
    url, store = store_of(tmp_path, 200)
    told = CliRunner().invoke(app, ["database", "prune", "--database", url])
    assert told.output.endswith("removed 12 raw records, 9 single votes\n")
    assert retention.describe_pause(store, Retention(), url) == ""
    assert [entry.action for entry in store.audit.entries("database")] == ["retention.apply"]


def test_the_health_page_says_that_retention_waits_and_how_to_ask(tmp_path):
    _, store = store_of(tmp_path, 200)
    page = Site.of(store).browser("viewer").get("/banks").text
    assert "Retention waits" in page
    assert f"received nothing since {formatting.format_day(TODAY - timedelta(days=200))}" in page
    store.alerts.save([replace(new_pipeline(), alert_id="0000000000000001")])
    assert "Retention waits" not in Site.of(store).browser("viewer").get("/banks").text


def test_serving_prunes_beside_the_pages_and_goes_on_when_the_store_is_away(tmp_path, caplog):
    _, store = store_of(tmp_path, 2)
    store.alerts.save([replace(new_pipeline(), alert_id="0000000000000001")])
    assert retention.apply_retention(store, KEPT)
    assert len(store.votes.read()) == 0
    assert [entry.by for entry in store.audit.entries("database")] == ["program:retention"]
    broken = open_store("sqlite://")
    with broken.session.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE votes")
    assert not retention.apply_retention(broken, Retention())
    assert "could not be removed" in caplog.text


def test_an_unexpected_error_does_not_end_retention(caplog):
    def fail() -> None:
        raise OverflowError("date value out of range")

    assert not retention.apply_retention(open_store("sqlite://"), Retention(), [fail]), "it is tried again"
    assert "could not be removed" in caplog.text


@pytest.mark.parametrize("name", ["record_days", "vote_days", "closed_alert_days"])
def test_a_period_that_reaches_beyond_the_calendar_is_refused(name):
    with pytest.raises(ValidationError, match="36500"):
        Retention(**{name: 999_999})
    assert retention.apply_retention(open_store("sqlite://"), Retention(**{name: 36_500}))


def test_the_daily_turn_ends_with_the_program(tmp_path):
    """A thread that waited out its day would hold up SIGTERM."""
    with retention.daily_retention(open_store("sqlite://"), Settings().retention):
        assert "retention" in {each.name for each in threading.enumerate()}
    assert "retention" not in {each.name for each in threading.enumerate()}
