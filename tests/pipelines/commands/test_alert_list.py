"""`alerts list` with filters and formats, and the work on alerts: assign, note, reopen."""

from __future__ import annotations

import csv
import io
import json
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fingerprint.adapters.system import SystemClock
from fingerprint.core.case import AlertRevision, SetDisposition
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Web
from fingerprint.store import open_store
from fingerprint.store.accounts import open_account_store
from pipelines import cli
from pipelines.commands.alerts import CSV_COLUMNS, list_alerts, parse_since, queue_filter
from pipelines.commands.triage import add_note, assign_alert, reopen_alert, triage_alert
from tests.support.alerts import nasty, new_pipeline, stolen_session

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)


@pytest.fixture
def queue(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    with closing(open_store(url)) as store:
        store.alerts.save([new_pipeline(), stolen_session()])
    return url


def ids(capsys: pytest.CaptureFixture[str], queue: str, limit: int | None = None, **which: str) -> list[str]:
    list_alerts(queue, "id", queue_filter(**which), limit)
    return capsys.readouterr().out.split()


def test_ids_alone_are_for_other_programs(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ids(capsys, queue) == [stolen_session().alert_id, new_pipeline().alert_id]
    assert ids(capsys, queue, limit=1) == [stolen_session().alert_id]


def test_filters_choose_by_severity_principal_time_and_status(
    queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stolen, pipeline = stolen_session().alert_id, new_pipeline().alert_id
    assert ids(capsys, queue, severity="critical") == [stolen]
    assert ids(capsys, queue, severity="medium") == [stolen, pipeline]
    assert ids(capsys, queue, principal=new_pipeline().principal) == [pipeline]
    later = max(stolen_session().last_event_time, new_pipeline().last_event_time) + timedelta(days=1)
    assert ids(capsys, queue, since=later.date().isoformat()) == []
    assert ids(capsys, queue, since="2000-01-01") == [stolen, pipeline]
    triage_alert(queue, pipeline, "benign", "a release")
    assert ids(capsys, queue, status="open") == [stolen]
    assert ids(capsys, queue, status="closed") == [pipeline]


def test_a_query_chooses_by_what_events_hold(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    stolen, action = stolen_session().alert_id, stolen_session().events[0].action
    assert stolen in ids(capsys, queue, where=f"action:{action}")
    assert stolen not in ids(capsys, queue, where=f"-action:{action}")
    with pytest.raises(FingerprintError, match=r"^--where: there is no field 'acton'"):
        queue_filter(where="acton:StopLogging")
    with pytest.raises(
        FingerprintError, match=r"^--where: there is no field 'foo'; there are action, service, "
    ):
        queue_filter(where="foo:bar")


@pytest.mark.parametrize("query", ["assignee:me", "-assignee:me", "severity>=high assignee:(maria, me)"])
def test_on_the_terminal_no_one_is_me(query: str) -> None:
    with pytest.raises(
        FingerprintError, match=r"^--where: `me` is known on the web page only; write the name: assignee:"
    ):
        queue_filter(where=query)
    for other in ("me", "principal:me", "assignee:mei"):
        assert queue_filter(where=other).q == other


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("30m", timedelta(minutes=30)),
        ("24h", timedelta(days=1)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(days=14)),
    ],
)
def test_an_age_counts_back_from_now(text: str, age: timedelta) -> None:
    assert parse_since(text, NOW) == NOW - age


def test_a_date_is_its_first_moment_in_utc_and_anything_else_an_error() -> None:
    assert parse_since("2026-01-31", NOW) == datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_since(None, NOW) is None
    with pytest.raises(FingerprintError, match="--since"):
        parse_since("7 parsecs", NOW)
    for age in ("9999999d", f"{'9' * 400}w"):
        with pytest.raises(FingerprintError, match="--since"):
            parse_since(age, NOW)


def test_a_limit_says_how_many_more_match(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    list_alerts(queue, limit=1)
    assert "1 more match" in capsys.readouterr().out


def test_equal_alerts_of_two_accounts_are_told_apart_by_the_account(
    queue: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    alert, url = stolen_session(), f"sqlite:///{tmp_path}/two.sqlite"
    moved = [replace(each, raw="") for each in alert.events]
    other = replace(alert, alert_id="f" * 16, principal="222222222222:role/ci-deploy", events=tuple(moved))
    with closing(open_store(url)) as store:
        store.alerts.save([alert, other])
    list_alerts(url)
    shown = capsys.readouterr().out
    assert f"{alert.title} · 222222222222" in shown
    assert shown.count(" · ") == 2
    list_alerts(queue)
    assert " · " not in capsys.readouterr().out, "all of one account"


def test_no_match_is_a_sentence(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    list_alerts(queue, which=queue_filter(principal="stranger"))
    assert "no alert matches" in capsys.readouterr().out


def test_wide_shows_whole_ids_principals_and_assignees(
    queue: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assign_alert(queue, stolen_session().alert_id, "maria")
    list_alerts(queue, "wide")
    shown = capsys.readouterr().out
    for text in (stolen_session().alert_id, stolen_session().principal, "maria"):
        assert text in shown


def test_csv_has_a_row_an_alert_and_no_formula(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/nasty.sqlite"
    with closing(open_store(url)) as store:
        store.alerts.save([nasty('=HYPERLINK("http://evil.example")'), stolen_session()])
    list_alerts(url, "csv")
    text = capsys.readouterr().out
    header, *rows = csv.reader(io.StringIO(text))
    assert tuple(header) == CSV_COLUMNS
    assert len(rows) == 2
    assert [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))] == []


def test_a_decision_of_the_command_line_counts_though_the_web_servers_clock_is_ahead(
    tmp_path: Path,
) -> None:
    url, alert = f"sqlite:///{tmp_path}/alerts.sqlite", stolen_session()
    with closing(open_store(url, now=lambda: datetime.now(UTC) + timedelta(minutes=5))) as store:
        store.alerts.save([alert])
        store.cases.change([AlertRevision(alert.alert_id, 0)], SetDisposition("benign", "a laptop"), "maria")
    decided = triage_alert(url, alert.alert_id, "true_positive", by="kim")
    assert (decided["decision"], decided["by"]) == ("true_positive", "kim")
    with closing(open_store(url)) as store:
        assert store.queue.row(alert.alert_id).decision == "true_positive"


def test_an_alert_is_assigned_noted_closed_and_reopened(queue: str) -> None:
    alert = stolen_session().alert_id
    assert assign_alert(queue, alert[:8], "maria", by="kim")["assignee"] == "maria"
    assert add_note(queue, alert[:8], "asked maria", by="kim")["text"] == "asked maria"
    with pytest.raises(FingerprintError, match="is open already"):
        reopen_alert(queue, alert)
    triage_alert(queue, alert, "benign", "a new laptop", by="kim")
    assert reopen_alert(queue, alert, "too early", by="lee")["status"] == "open"
    assert assign_alert(queue, alert, "")["assignee"] == ""
    with closing(open_store(queue)) as store:
        assert [note.text for note in store.cases.notes(alert)] == ["asked maria"]
        assert {entry.by for entry in store.audit.entries(alert)} >= {"kim", "lee"}


def test_an_empty_note_and_an_unknown_alert_are_errors(queue: str) -> None:
    with pytest.raises(FingerprintError, match="note is empty"):
        add_note(queue, stolen_session().alert_id, "  ")
    with pytest.raises(FingerprintError):
        assign_alert(queue, "ffff", "maria")


def test_an_alert_is_assigned_to_an_active_account_where_there_are_accounts(queue: str) -> None:
    alert = stolen_session().alert_id
    with closing(open_store(queue)) as store:
        accounts = open_account_store(store.session, SystemClock(), Web()).accounts
        accounts.invite("kim", "analyst", by="root")
        accounts.invite("viola", "viewer", by="root")
    for name in ("maria", "viola"):
        with pytest.raises(
            FingerprintError, match=f"{name} has no active account of an analyst; these do: kim$"
        ):
            assign_alert(queue, alert, name)
    assert assign_alert(queue, alert, "kim")["assignee"] == "kim"
    assert assign_alert(queue, alert, "")["assignee"] == ""


def test_benign_and_false_positive_need_a_reason(queue: str) -> None:
    for decision in ("benign", "false_positive"):
        with pytest.raises(FingerprintError, match=r"needs a reason.*--why"):
            triage_alert(queue, stolen_session().alert_id, decision, "  ")
    assert triage_alert(queue, stolen_session().alert_id, "true_positive")["decision"] == "true_positive"


def test_the_command_line_has_them_all(
    queue: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fingerprint", "alerts", *arguments, "--database", queue])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        return capsys.readouterr().out

    alert = stolen_session().alert_id
    assert json.loads(run("list", "-o", "json", "--severity", "critical")) == json.loads(
        run("list", "--json", "--limit", "1")
    )
    assert "assigned to maria" in run("assign", alert, "maria")
    assert "noted on" in run("note", alert, "asked maria", "--by", "kim")
    run("triage", alert, "benign", "--why", "a new laptop")
    assert json.loads(run("reopen", alert, "--json"))["status"] == "open"
