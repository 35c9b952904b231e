"""`alerts list` and `alerts show`: JSON for programs, text for people, and safe for terminals."""

from __future__ import annotations

import json
import re
import subprocess
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fingerprint.core.alert import ActionImpact, CredentialIssue, NextStep, SurpriseDriver
from fingerprint.core.case import AlertFilter, AlertRevision, ReopenCase, SuppressionMatch
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable
from fingerprint.store import open_store
from pipelines.commands.alert_details import _shared_networks, show_alert, sparkline
from pipelines.commands.alert_export import export_alerts
from pipelines.commands.alerts import list_alerts
from pipelines.commands.triage import triage_alert
from tests.contracts.suppression_store import rolled_out
from tests.support.alerts import NASTY, event, nasty, new_pipeline, stolen_session

KEYS = [
    "alert_id",
    "principal",
    "first_event_time",
    "last_event_time",
    "urgency",
    "rarity",
    "impact",
    "title",
    "event_ids",
]


@pytest.fixture
def store_url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/alerts.sqlite"


@pytest.fixture
def queue(store_url) -> str:
    open_store(store_url).alerts.save([new_pipeline(), stolen_session()])
    return store_url


def test_a_program_reads_the_queue_in_a_fixed_order(queue, capsys):
    list_alerts(queue, "json")
    listed = json.loads(capsys.readouterr().out)
    assert [list(alert) for alert in listed] == [
        [*KEYS, "decision", "own_urgency", "sharing", "suppressed"]
    ] * 2
    assert [alert["urgency"] for alert in listed] == [91, 38]
    assert listed[0]["first_event_time"] == "2026-03-04T14:02:00Z"
    assert listed[0]["event_ids"] == list(stolen_session().event_ids)
    assert datetime.fromisoformat(listed[0]["last_event_time"]) == stolen_session().last_event_time


@pytest.mark.parametrize(
    ("others", "said", "lowered"),
    [
        (0, "", False),
        (2, "2 other principals", False),
        (5, "5 other principals", True),
        (24, "at least 20 other principals", True),
    ],
)
def test_it_says_how_many_others_did_the_same_before_it_says_whom_to_ask(
    store_url, capsys, monkeypatch, others, said, lowered
):
    """Its owner was to be asked by telephone about what 63 others did on that day."""
    monkeypatch.setenv("COLUMNS", "300")
    open_store(store_url).alerts.save([rolled_out(number) for number in range(others + 1)])
    show_alert(store_url, f"{0:016x}")
    shown = capsys.readouterr().out
    assert ("shared with" in shown) == bool(others)
    assert f"{said} within a day" in shown or not others
    assert ("so its own urgency of 38 is lowered" in shown) == lowered
    first = f"{said[:1].upper()}{said[1:]} did the same within a day, as after a change to all: ask first who made"
    assert shown.partition("verify: ")[2].startswith(first) == lowered


def test_it_says_who_opened_the_session(queue, capsys, monkeypatch, tmp_path):
    """The nearest call comes first; its names are an attacker's text like others."""
    monkeypatch.setenv("COLUMNS", "200")
    store, alert = open_store(queue), stolen_session()
    shared = '{"sharedEventID": "7c5e1a2b-0000-4000-8000-000000000001"}'
    events = tuple(replace(each, access_key="ASIATWO", raw=shared) for each in alert.events)
    other = replace(alert, alert_id="0ther", principal="999:role/x\x1b[32m", events=events[:1], human="eve")
    first = CredentialIssue(
        "ASIATWO", datetime(2026, 3, 4, tzinfo=UTC), "e1", "AssumeRole", "123456789012:role/agent", "i-0\x1b[31m", "ASIAONE",
        "10.0.0.1", "eu-west-1",
    )  # fmt: skip
    before = replace(
        first, issued_key="ASIAONE", event_id="e2", principal="123456789012:user/ann", access_key=""
    )
    store.alerts.save([replace(alert, events=events), other], credential_issues=[first, before])
    show_alert(queue, alert.alert_id)
    shown = capsys.readouterr().out
    assert "opened by" in shown
    assert shown.index("123456789012:role/agent") < shown.index("123456789012:user/ann")
    assert "by AssumeRole from 10.0.0.1" in shown
    assert re.search(r"same call by +999:role/x.+ \(eve\), in another account's trail: alert 0ther", shown)
    assert not {"\x1b[31m", "\x1b[32m"} & {*re.findall(r"\x1b\[3\dm", shown)}
    show_alert(queue, alert.alert_id, json=True)
    shown_json = json.loads(capsys.readouterr().out)
    assert [issue["action"] for issue in shown_json["credential_chain"]] == ["AssumeRole"] * 2
    assert [issue["event_id"] for issue in shown_json["credential_chain"]] == ["e1", "e2"]
    assert shown_json["other_records"] == [
        {"alert_id": "0ther", "principal": other.principal, "human": "eve"}
    ]
    export_alerts(queue, "ocsf", tmp_path / "alerts")
    findings = {
        found["finding_info"]["uid"]: found["unmapped"]
        for found in map(json.loads, (tmp_path / "alerts").read_text().splitlines())
    }
    assert findings[alert.alert_id]["opened_by"] == [
        "123456789012:role/agent (i-0\x1b[31m) by AssumeRole from 10.0.0.1",
        "123456789012:user/ann (i-0\x1b[31m) by AssumeRole from 10.0.0.1",
    ]
    assert findings[alert.alert_id]["same_call_by"] == [
        "999:role/x\x1b[32m (eve), in another account's trail: alert 0ther"
    ]
    assert "opened_by" not in findings[new_pipeline().alert_id]


def test_the_grave_calls_are_shown_of_many_events(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "240")
    usual = [event(minute, "ec2", "DescribeVpcs", parameters={"n": minute}) for minute in range(60)]
    copies = [event(60 + minute, "s3", "CopyObject", parameters={"n": minute}) for minute in range(50)]
    grave = event(200, "cloudtrail", "StopLogging")
    row = ActionImpact(
        "cloudtrail:StopLogging", "severe", "stops", "Defense Evasion", "T1562.008", 1, 0, True, True
    )
    many = replace(stolen_session(), events=(*usual, *copies, grave), impact_of=(row,))
    open_store(store_url).alerts.save([many])
    show_alert(store_url, many.alert_id)
    shown = capsys.readouterr().out
    assert {shown.count("ec2:DescribeVpcs"), shown.count("s3:CopyObject")} == {19, 20}
    times = re.findall(
        r"2026-03-0\d (\d\d:\d\d):\d\d +(?:ec2:DescribeVpcs|s3:CopyObject|cloudtrail:StopLogging)", shown
    )
    assert len(times) == 40
    assert times == sorted(times)
    assert times[-1] == "17:20"  # of StopLogging
    assert "71 more are not shown" in " ".join(shown.split())


def test_what_is_suppressed_is_counted_for_people_and_marked_for_programs(queue, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    store = open_store(queue)
    store.suppressions.create(
        SuppressionMatch(service="ecs"), "a migration", datetime.now(UTC) + timedelta(days=1), by="maria"
    )
    list_alerts(queue)
    shown = capsys.readouterr().out
    assert "ci-deploy" not in shown
    assert "1 alert more, suppressed" in shown
    list_alerts(queue, "json")
    listed = json.loads(capsys.readouterr().out)
    assert [alert["suppressed"] for alert in listed] == [False, True]


def test_the_sentences_of_a_next_step_are_shown_to_their_end(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = "Ask the owner. " * 40 + "It is judged by what others do."
    step = NextStep("verify", text)
    open_store(store_url).alerts.save([replace(stolen_session(), next_steps=(step,))])
    show_alert(store_url, stolen_session().alert_id)
    assert text in " ".join(capsys.readouterr().out.split())


def test_an_empty_queue_is_an_empty_array_and_a_sentence(store_url, capsys):
    open_store(store_url)
    list_alerts(store_url, "json")
    assert json.loads(capsys.readouterr().out) == []
    list_alerts(store_url)
    assert "no alerts" in capsys.readouterr().out


def test_a_queue_in_which_alerts_belong_together_says_how_many_incidents_it_is(queue, capsys):
    list_alerts(queue)
    assert "incidents" not in capsys.readouterr().out  # each is its own
    open_store(queue).alerts.save([replace(stolen_session(), alert_id="3fa94c1be0d2ffff")])
    list_alerts(queue, limit=1)
    assert (
        "3 alerts are 2 incidents: see `fingerprint incidents list --status all`" in capsys.readouterr().out
    )
    list_alerts(queue, which=AlertFilter(status="all", principal=stolen_session().principal))
    assert "incidents" not in capsys.readouterr().out


def test_a_person_reads_urgency_title_time_and_size(queue, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    list_alerts(queue)
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.split()[:3] == ["91", "critical", "3fa94c1be0d2"]
    assert stolen_session().title in first
    assert "2026-03-04 14:02" in first
    assert "ci-deploy" in second


def test_a_narrow_terminal_folds_the_names_of_a_title(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "elasticloadbalancing:DescribeLoadBalancerPolicyTypes"
    open_store(store_url).alerts.save(
        [replace(stolen_session(), title=f"tara called {name} from 84.17.50.9")]
    )
    list_alerts(store_url)
    shown = capsys.readouterr().out
    assert "…" not in shown
    head, *rows = shown.splitlines()
    column = slice(head.index("what"), head.index("when") - 1)
    assert name in "".join(row[column].strip() for row in rows)


def test_an_alert_explains_itself_on_the_terminal(queue, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    show_alert(queue, "3fa")
    shown = capsys.readouterr().out
    alert = stolen_session()
    for part in (
        alert.title,
        alert.human,
        "not in the history",
        "185.220.101.0/24",
        "StopLogging",
        "AccessDenied",
        "█",
        "^",
    ):
        assert part in shown
    for step in alert.next_steps:
        assert step.text in " ".join(shown.split())
        assert all(line in shown for line in step.command.splitlines())


def test_where_no_person_is_recorded_the_terminal_shows_the_names_of_sessions(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    alert = stolen_session()
    events = [replace(each, session=f"op-{place % 2}\x1b[2J") for place, each in enumerate(alert.events)]
    open_store(store_url).alerts.save([replace(alert, human="", events=tuple(events))])
    show_alert(store_url, alert.alert_id)
    shown = capsys.readouterr().out
    assert (
        "session names  op-0\\x1b[2J, op-1\\x1b[2J (chosen by the caller or the service that opened the session)"
        in shown
    )


@pytest.mark.parametrize("other", ["ann@example.com", "session-4821"])
def test_all_sessions_of_a_shared_role_are_named_behind_an_alert(other, store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    alert = stolen_session()
    sessions = (other, "bob@example.com")
    events = tuple(replace(each, session=sessions[at % 2]) for at, each in enumerate(alert.events))
    open_store(store_url).alerts.save([replace(alert, human="bob@example.com", events=events)])
    show_alert(store_url, alert.alert_id)
    assert f"bob@example.com, {other}" in capsys.readouterr().out


def test_who_opened_the_session_is_behind_an_alert_whose_records_name_no_one(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    alert = stolen_session()
    store = open_store(store_url)
    events = tuple(replace(each, access_key="ASIASTOLEN") for each in alert.events)
    store.alerts.save([replace(alert, human="", events=events)])
    opened = CredentialIssue(
        "ASIASTOLEN",
        alert.first_event_time,
        "e-1",
        "AssumeRole",
        "1:role/Admin",
        "tara@example.com",
        "",
        "192.0.2.7",
        "r",
    )
    store.alerts.save(credential_issues=[opened])
    show_alert(store_url, alert.alert_id)
    assert "tara@example.com, who opened the session" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("others", "said"), [(0, ""), (1, "1 other principal "), (24, "at least 20 other principals ")]
)
def test_it_says_how_many_others_have_alerts_from_the_same_new_network(store_url, capsys, others, said):
    """Of a VPN that failed over to another exit, as of a thief with many keys: the analyst tells which, no urgency falls."""
    network = SurpriseDriver("network", "62.156.0.0/16", "195.145.0.0/16", "unseen", 10.0)
    made = [
        replace(
            stolen_session(), alert_id=f"{place:02x}" * 8, principal=f"1:user/{place}", drivers=(network,)
        )
        for place in range(others + 1)
    ]
    open_store(store_url).alerts.save(made)
    show_alert(store_url, "0000")  # the beginning of its id
    shown = " ".join(capsys.readouterr().out.split())
    expected = f"also from 62.156.0.0/16: {said}with alerts within a day"
    assert (expected in shown) if others else ("also from" not in shown)
    assert shown.startswith("91 ")


def test_a_service_is_no_place_that_others_have_alerts_from_and_no_place_is_named_twice():
    """Athena, which calls for its caller, stands as network and as address range; a range may be a whole network."""
    shared = [
        (feature, seen, 5)
        for feature in ("network", "address range")
        for seen in ("athena.amazonaws.com", "62.156.0.0/16", "AS64500 example.com")
    ]
    said = "5 other principals with alerts within a day"
    assert _shared_networks(shared) == [f"62.156.0.0/16: {said}", f"AS64500 example.com: {said}"]


def test_a_narrow_terminal_cuts_no_name_and_no_time(store_url, capsys, monkeypatch):
    """What has no room as a table is two lines for each row; a curve is one line."""
    monkeypatch.setenv("COLUMNS", "80")
    alert = stolen_session()
    resource, action = "user:maria", "ListServiceSpecificCredentials"
    events = tuple(
        replace(each, action=action, resource=resource, scores=each.scores | {"sequence": 7.25})
        for each in alert.events
    )
    curve = replace(alert.curve, counts=alert.curve.counts * 9, expected=alert.curve.expected * 9)
    open_store(store_url).alerts.save([replace(alert, events=events, curve=curve)])
    show_alert(store_url, alert.alert_id)
    shown = capsys.readouterr().out
    lines = shown.split("also unusual")[0].splitlines()
    for each in events:
        head = f"{each.event_time:%Y-%m-%d %H:%M:%S}  {each.service}:{action} on {resource}"
        assert any(line.startswith(head) for line in lines)
    for driver in alert.drivers:
        assert f"{driver.feature}: {driver.seen}" in lines
    assert "* flagged by this detector" in shown
    assert max(len(line) for line in lines if "█" in line) <= 80


@pytest.mark.parametrize("columns", ["80", "400"])
def test_an_action_has_one_name_in_title_evidence_and_events(store_url, capsys, monkeypatch, columns):
    """The version that Lambda adds is no part of it; only what reads the records needs that."""
    monkeypatch.setenv("COLUMNS", columns)
    alert, dated = stolen_session(), "UpdateFunctionCode20150331v2"
    first = replace(alert.events[0], service="lambda", action=dated)
    seen = SurpriseDriver(
        "action", f"lambda:{dated}", f"lambda:GetPolicy20150331v2, lambda:{dated}", "unseen", 9
    )
    after = SurpriseDriver("next action", f"lambda:{dated} after lambda:{dated}", "nothing yet", "unseen", 9)
    on = SurpriseDriver(
        "resource", f"lambda:{dated} on function:a", f"lambda:{dated} on function:b", "unseen", 5
    )
    amount = SurpriseDriver(
        "amount", f"2 calls of lambda:{dated} in an hour on unusual resources", "none before", "unseen", 4
    )
    row = replace(alert.impact_of[0], action=f"lambda:{dated}")
    drivers = (seen, after, on, amount)
    changed = replace(alert, events=(first,), drivers=drivers, impact_of=(row,), next_steps=())
    open_store(store_url).alerts.save([changed])
    show_alert(store_url, alert.alert_id)
    shown = capsys.readouterr().out
    assert shown.count("lambda:UpdateFunctionCode") == 9
    assert "lambda:GetPolicy" in shown
    assert "20150331" not in shown


@pytest.mark.parametrize("columns", ["80", "160"])
def test_a_usual_value_that_surprises_is_said_to_be_unusual_with_the_rest(
    store_url, capsys, monkeypatch, columns
):
    """ "Boto3 linux: frequent, surprise 4.1; usual here: Boto3 linux" explained nothing."""
    monkeypatch.setenv("COLUMNS", columns)
    usual = SurpriseDriver("program", "Boto3 linux", "Terraform linux, Boto3 linux", "frequent", 4.1)
    drivers = [usual, replace(usual, surprise=2.2), replace(usual, rarity="unseen", surprise=9.0)]
    drivers += [replace(usual, rarity="infrequent", surprise=nats) for nats in (4.5, 4.7)]
    assert [driver.unusual_together for driver in drivers] == [True, False, False, False, True]
    open_store(store_url).alerts.save([replace(stolen_session(), drivers=tuple(drivers))])
    show_alert(store_url, stolen_session().alert_id)
    shown = capsys.readouterr().out
    assert shown.count("frequent, but not with the rest of the call") == 2
    assert "infrequent, but not with the rest of the call" in shown


@pytest.mark.parametrize("columns", ["80", "160"])
def test_what_is_usual_is_said_once_of_actions_that_follow_one_another(
    store_url, capsys, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", columns)
    actions = ("iam:CreateUser", "iam:CreateAccessKey", "iam:CreateLoginProfile")
    drivers = [SurpriseDriver("action", each, "kms:Decrypt", "unseen", 9.0) for each in actions]
    network = SurpriseDriver("network", "203.0.113.0/24", "private", "unseen", 9.0)
    found = (*drivers, network, replace(drivers[0], seen="iam:GetUser"))
    open_store(store_url).alerts.save([replace(stolen_session(), drivers=found)])
    show_alert(store_url, stolen_session().alert_id)
    shown = capsys.readouterr().out
    assert shown.count("kms:Decrypt") == 2  # again where another feature stands between
    assert all(each in shown for each in actions)


def test_steps_stand_apart_from_one_another_on_a_terminal(store_url, capsys):
    steps = (NextStep("contain", "Cut it off.", "aws a"), NextStep("verify", "Ask them."))
    open_store(store_url).alerts.save([replace(stolen_session(), next_steps=steps)])
    show_alert(store_url, stolen_session().alert_id)
    assert "\n\ncontain: Cut it off.\naws a\n\nverify: Ask them.\n" in capsys.readouterr().out


def test_a_curve_says_what_is_counted_of_whom_without_a_key(store_url, capsys):
    alert = stolen_session()
    curve = replace(alert.curve, channel="less common actions", entity="123456789012:user/grace|s3|direct")
    open_store(store_url).alerts.save([replace(alert, curve=curve)])
    show_alert(store_url, alert.alert_id)
    shown = capsys.readouterr().out
    assert "less common actions per hour of user/grace in s3, called directly" in shown
    assert "|direct" not in shown.partition("less common")[2].splitlines()[0]


@pytest.mark.parametrize("columns", ["80", "200"])
def test_a_vote_of_an_earlier_version_with_a_usual_z_is_a_vote_like_any_other(
    store_url, capsys, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", columns)
    alert = stolen_session()
    first = alert.events[0]
    first = replace(
        first, scores={"autoencoder": 4.1, "spectral": -0.4}, flagged_by=("autoencoder", "spectral")
    )
    open_store(store_url).alerts.save([replace(alert, events=(first,))])
    show_alert(store_url, alert.alert_id)
    shown = capsys.readouterr().out
    assert ("-0.4*" if columns == "80" else "-0.4 *") in shown


@pytest.mark.parametrize("columns", ["80", "200"])
def test_a_z_below_what_is_usual_is_no_figure(store_url, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    alert = stolen_session()
    first = replace(
        alert.events[0], scores={"autoencoder": 4.1, "spectral": -6.0}, flagged_by=("autoencoder",)
    )
    open_store(store_url).alerts.save([replace(alert, events=(first,))])
    show_alert(store_url, alert.alert_id)
    shown = capsys.readouterr().out.partition("also unusual")[0]
    assert "4.1" in shown
    assert "usual" in shown
    assert "-6.0" not in shown


def test_the_commands_of_a_step_are_pasted_into_a_shell(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [f"aws iam put-user-policy --policy-document '{'x ' * 300}'", "aws two \x1b[2J\u202e\r end"]
    step = NextStep("contain", "Cut it off.", "\n".join(lines))
    open_store(store_url).alerts.save([replace(stolen_session(), next_steps=(step,))])
    show_alert(store_url, "3fa")
    pasted = capsys.readouterr().out.partition("Cut it off.\n")[2].partition("`--page")[0]
    assert pasted.splitlines() == [lines[0], "aws two \\x1b[2J\\u202e\\x0d end"]
    shell = subprocess.run(
        ["/bin/sh"], input=f'aws() {{ echo "$# words"; }}\n{pasted}', capture_output=True, text=True
    )
    assert shell.stdout.split("\n") == ["4 words", "3 words", ""]


def test_a_program_reads_all_of_an_alert(queue, capsys):
    show_alert(queue, "3fa", json=True)
    shown, alert = json.loads(capsys.readouterr().out), stolen_session()
    assert list(shown)[: len(KEYS)] == KEYS
    assert [driver["seen"] for driver in shown["drivers"]] == [driver.seen for driver in alert.drivers]
    assert json.loads(shown["events"][0]["raw"])["eventName"] == "GetCallerIdentity"
    assert shown["curve"]["flagged"] == list(alert.curve.flagged)


def test_what_was_decided_of_an_alert_is_read_in_the_queue_and_on_the_alert(queue, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    triage_alert(queue, "3fa", "benign", "her new laptop \x1b[2J", by="maria")
    list_alerts(queue)
    assert f"benign: {stolen_session().title}" in capsys.readouterr().out
    list_alerts(queue, "json")
    assert [alert["decision"] for alert in json.loads(capsys.readouterr().out)] == ["benign", "open"]
    show_alert(queue, "3fa")
    shown = capsys.readouterr().out
    assert "benign, says maria" in shown
    assert "her new laptop \\x1b[2J" in shown
    show_alert(queue, "3fa", json=True)
    (said,) = json.loads(capsys.readouterr().out)["dispositions"]
    assert (said["decision"], said["by"], said["events"]) == ("benign", "maria", 9)


def test_an_alert_that_grew_after_it_was_judged_says_that_it_is_open_again(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    store, whole = open_store(store_url), stolen_session()
    store.alerts.save([replace(whole, events=whole.events[:4])])
    triage_alert(store_url, "3fa", "benign", "a new laptop")
    store.alerts.save([whole])
    show_alert(store_url, "3fa")
    assert "open again: 5 events came since" in capsys.readouterr().out
    list_alerts(store_url, "json")
    assert json.loads(capsys.readouterr().out)[0]["decision"] == "open"


def test_an_alert_that_someone_opened_again_says_so(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    store, alert = open_store(store_url), stolen_session()
    store.alerts.save([alert])
    triage_alert(store_url, "3fa", "benign", "a new laptop")
    assert store.cases.change([AlertRevision(alert.alert_id, 1)], ReopenCase(), "kim")[0].done
    show_alert(store_url, "3fa")
    assert "open again: it was reopened" in capsys.readouterr().out


def test_the_page_of_an_alert_is_written_where_it_was_asked_for(queue, capsys, tmp_path):
    show_alert(queue, "3fa", page=tmp_path / "pages" / "alert.html")
    assert stolen_session().title in (tmp_path / "pages" / "alert.html").read_text()
    assert "alert.html" in capsys.readouterr().out


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_nothing_in_a_record_steers_a_terminal(store_url, capsys, text):
    open_store(store_url).alerts.save([nasty(text)])
    for as_json in (False, True):
        list_alerts(store_url, "json" if as_json else "table")
        show_alert(store_url, "bad", json=as_json)
    shown = {*capsys.readouterr().out}
    assert {char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")} <= {"\n"}


def test_text_in_square_brackets_is_text_and_no_colour(store_url, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    open_store(store_url).alerts.save([nasty("[red]a[/red][/]:smile:")])
    list_alerts(store_url)
    show_alert(store_url, "bad")
    shown = capsys.readouterr().out
    assert shown.count("[red]a[/red][/]:smile:") >= 8
    assert shown.count("a[/red]") == shown.count("[red]a")


def test_hostile_text_reaches_a_program_whole(store_url, capsys):
    for text in NASTY:
        open_store(store_url).alerts.save([nasty(text)])
        show_alert(store_url, "bad", json=True)
        assert json.loads(capsys.readouterr().out)["title"] == storable(text)


def test_what_cannot_be_read_is_one_sentence(queue, tmp_path):
    with pytest.raises(FingerprintError, match="no alert"):
        show_alert(queue, "ffff")
    with pytest.raises(FingerprintError, match="there is no database"):
        list_alerts(f"sqlite:///{tmp_path}/other.sqlite")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ((), ""),
        ((0.0, 0.0), "▁▁"),
        ((0.0, 1.0, 4.0, 8.0), "▁▂▅█"),
        ((float("nan"), float("inf"), 2.0), "▁▁█"),
    ],
)
def test_a_sparkline_is_as_high_as_its_values(values, line):
    assert sparkline(values) == line


def test_what_was_counted_and_what_was_expected_have_one_scale(store_url, capsys):
    """ "Expected at most 0.63" was as tall as "counted at most 8"."""
    alert = stolen_session()
    curve = replace(alert.curve, counts=(0, 8, 4), expected=(0.0, 0.63, float("nan")), flagged=(1,))
    open_store(store_url).alerts.save([replace(alert, curve=curve)])
    show_alert(store_url, alert.alert_id)
    lines = capsys.readouterr().out.splitlines()
    assert "counted  ▁█▅  at most 8" in lines
    assert "expected ▁▂▁  at most 0.63" in lines


def test_a_sparkline_shows_the_latest_where_it_does_not_fit():
    assert sparkline((9.0, 0.0, 1.0), width=2) == "▁█"
