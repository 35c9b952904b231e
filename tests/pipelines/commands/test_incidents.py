"""`incidents list`, `show` and `overview`: JSON for programs, text for people, and safe for terminals."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from fingerprint.core.case import AlertRevision, AssignCase, SetDisposition
from fingerprint.core.errors import FingerprintError
from fingerprint.core.incident_rule import MIN_PRINCIPALS
from fingerprint.store import open_store
from pipelines.commands import incidents
from tests.contracts.incident_store import alert, fetching_alert
from tests.support.alerts import NASTY, nasty


@pytest.fixture
def url(tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    store = open_store(url)
    store.alerts.save([alert("a0", title="listed users"), alert("a1", hour=1), alert("b0", "kim", 50)])
    revision = store.incidents.get("b0").row.revision
    store.incidents.change("b0", revision, SetDisposition("true_positive"), "maria")
    store.close()
    return url


def test_incidents_are_listed_and_shown_with_the_reasons_of_their_alerts(url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    found = incidents.list_incidents(url, "open", 50)
    assert [(row["incident_id"], row["alerts"], row["status"]) for row in found] == [("a0", 2, "new")]
    incidents.print_incidents(found)
    assert "listed users" in capsys.readouterr().out
    incidents.print_incident(incidents.show_incident(url, "a1"))
    assert "principal 123456789012:user/maria" in capsys.readouterr().out
    open_store(url).alerts.save([fetching_alert(f"n{at}", f"p{at}", 40) for at in range(MIN_PRINCIPALS)])
    incidents.print_incident(incidents.show_incident(url, "n1"))
    said = capsys.readouterr().out
    assert f"{MIN_PRINCIPALS} principals called the same new actions on this day" in said
    assert "new action acm:GetCertificate 2026-03-06" in said
    incidents.print_incidents([])
    assert "--status all" in capsys.readouterr().out
    with pytest.raises(FingerprintError, match="no alert has an id"):
        incidents.show_incident(url, "nothing")


def test_a_narrow_terminal_shows_whole_ids_and_times(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    url, title = f"sqlite:///{tmp_path}/alerts.sqlite", "called iam:CreateAccessKey and 53 other new actions"
    store = open_store(url)
    store.alerts.save([alert("3fa94c1be0d27a58", title=title), alert("3fa94c1be0d27a59", hour=1)])
    store.cases.change([AlertRevision("3fa94c1be0d27a58", 0)], AssignCase("maria.lopez@example.com"), "omar")
    (found,) = incidents.list_incidents(url, "open", 50)
    day, time = found["first_event_time"][:16].split("T")
    incidents.print_incidents([found])
    assert {"3fa94c1be0d2", day, time, "progress", "assignee"} <= set(capsys.readouterr().out.split())
    incidents.print_incident(incidents.show_incident(url, "3fa94c1be0d27a58"))
    assert {"3fa94c1be0d27a58", "3fa94c1be0d27a59", day, time} <= set(capsys.readouterr().out.split())
    incidents.print_incidents([found | {"assignees": []}])
    assert "assignee" not in capsys.readouterr().out


def test_the_overview_is_json_and_lines(url, capsys):
    found = incidents.read_overview(url, 7)
    assert json.loads(json.dumps(found))["total"]["true_positives"] == 1
    incidents.print_overview(found)
    said = capsys.readouterr().out
    assert "1 of 1 decided were true positive, 100%, between 21% and 100%" in said
    assert re.search(r"^came in week of  \d{4}-\d\d-\d\d: ", said, re.MULTILINE)  # not the week of its events
    assert "2 wait, 0 for more than 4.0 h" in said


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_no_text_of_an_attacker_controls_the_terminal(tmp_path, capsys, text):
    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    open_store(url).alerts.save([nasty(text), replace(nasty(text), alert_id="bad5ec0de0000001")])
    incidents.print_incidents(incidents.list_incidents(url, "all", 50))
    incidents.print_incident(incidents.show_incident(url, "bad5ec0de0000000"))
    said = capsys.readouterr().out
    assert all(each.isprintable() or each == "\n" for each in said)
