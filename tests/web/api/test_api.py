"""The API over a real alert store, through a real server: what it answers, what it refuses, and in which words."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
import msgspec
import pytest
import sqlalchemy as sql
from hypothesis import HealthCheck, given, settings
from pydantic import StringConstraints, TypeAdapter, ValidationError

from fingerprint.adapters.system import SystemClock
from fingerprint.core.address import NO_ADDRESS_TABLES
from fingerprint.core.alert import Alert, CredentialIssue, NextStep
from fingerprint.core.case import AlertFilter
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import Settings
from fingerprint.core.settings.web import Web
from fingerprint.sources.cloudtrail import playbook_contain_role
from fingerprint.store import evidence, open_store
from fingerprint.store.queue import SqlQueueRepository
from fingerprint.web.api import export
from fingerprint.web.api.queue_params import NON_BLANK_PATTERN
from fingerprint.web.app import create_app
from pipelines.serve import create_dependencies
from tests.support import sample_organisation
from tests.support.alerts import NASTY, PERSON, curve, new_pipeline, stolen_session, votes
from tests.support.services.postgres import Postgres
from tests.support.web_server import all_nasty, served, tokens, variants

STOLEN = stolen_session().alert_id
ALERTS = (stolen_session(), new_pipeline(), *variants(24))
Api = Callable[..., httpx.Response]


class Place:
    """An alert store, its application, and tokens for every role."""

    def __init__(self, url: str, alerts: tuple[Alert, ...], bank: Path) -> None:
        self.store = open_store(url)
        self.store.alerts.save(alerts, [vote for alert in alerts for vote in votes(alert)])
        self.deps = create_dependencies(self.store, sample_organisation.SETTINGS, bank)
        self.tokens = tokens(self.deps.account_store, SystemClock().now())
        self.app = create_app(self.deps)

    def api(self, url: str, client: httpx.Client) -> Api:
        """Calls by path below /api/v1, as someone of a role."""

        def call(method: str, path: str, role: str = "engineer", **options: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {self.tokens[role]}"} | options.pop("headers", {})
            return client.request(method, f"{url}/api/v1{path}", headers=headers, **options)

        return call


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, organisation: sample_organisation.SampleOrganisation
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("store")
    made = Place(f"sqlite:///{folder}/alerts.sqlite", ALERTS, organisation.bank)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def url(place: Place) -> Iterator[str]:
    with served(place.app) as url:
        yield url


@pytest.fixture(scope="module")
def api(place: Place, url: str) -> Iterator[Api]:
    with httpx.Client(timeout=30) as client:
        yield place.api(url, client)


def said(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int) -> str:
    """The sentence of a problem."""
    problem = said(answer, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (problem["status"], problem["type"]) == (status, "about:blank")
    return str(problem["detail"])


# --- reading ----------------------------------------------------------------------------------------------------------


def test_the_queue_comes_page_by_page_every_alert_once_the_most_urgent_first(api: Api) -> None:
    rows, following = [], None
    while True:
        asked = {"size": 7, "status": "all"} | ({"following": following} if following else {})
        page = said(api("GET", "/alerts", "viewer", params=asked))
        rows += page["rows"]
        following = page["following"]
        if not following:
            break
    assert [row["urgency"] for row in rows] == sorted((row["urgency"] for row in rows), reverse=True)
    assert sorted(row["alert_id"] for row in rows) == sorted(alert.alert_id for alert in ALERTS)
    assert page["total"] == len(ALERTS)


@pytest.mark.parametrize(
    "asked",
    [
        {"least_urgency": 50},
        {"most_urgency": 40},
        {"principal": PERSON},
        {"service": "ecs"},
        {"account": "123456789012"},
        {"tactic": "Discovery"},
        {"assignee": ""},
        {"level": "peer"},
        {"q": "STOP CloudTrail"},
        {"within": "30d"},
        {"since": "2026-03-10T00:00:00Z"},
        {"until": "2026-03-06T00:00:00+01:00"},
        {"status": "closed"},
        {"decision": "benign"},
        {"suppressed": True},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_every_field_of_a_filter_asks_the_store(api: Api, place: Place, asked: dict[str, Any]) -> None:
    moments = {name: datetime.fromisoformat(asked[name]) for name in ("since", "until") if name in asked}
    expected = place.store.queue.page(AlertFilter(**asked | moments), size=500)
    found = said(api("GET", "/alerts", params=asked | {"size": 500}))
    assert [row["alert_id"] for row in found["rows"]] == [row.alert_id for row in expected.rows]
    assert found["total"] == expected.total
    assert said(api("GET", "/alerts/counts", params=asked)) == place.store.queue.counts(
        AlertFilter(**asked | moments)
    )


def test_every_field_of_a_filter_can_be_asked_for(api: Api) -> None:
    names = {
        each["name"]
        for each in said(api("GET", "/openapi.json"))["paths"]["/api/v1/alerts"]["get"]["parameters"]
    }
    assert names == {field.name for field in fields(AlertFilter)} | {"order", "size", "following"}


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("size=0", "size"),
        ("size=501", "size"),
        ("size=99999999999999999999999999", "size"),
        ("status=ajar", "status"),
        ("least_urgency=101", "least_urgency"),
        ("since=yesterday", "since"),
        ("since=2026-03-04T14:00:00", "since"),
        ("until=0000-01-01T00:00:00Z", "until"),
        ("colour=red", "colour"),
        ("q=" + "A" * 2_001, "q"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(api: Api, asked: str, named: str) -> None:
    assert refused(api("GET", f"/alerts?{asked}"), 422).startswith(named)


@pytest.mark.parametrize("path", ["/alerts", "/alerts/counts", "/alerts/groups?by=service", "/alerts/export"])
@pytest.mark.parametrize(
    ("query", "why"),
    [
        ('"', "a quote or a bracket is missing"),
        ("acton:StopLogging", "there is no field"),
        ("foo:bar", "there is no field"),
    ],
)
def test_a_query_that_the_description_allows_and_that_cannot_be_read_is_a_bad_request(
    api: Api, path: str, query: str, why: str
) -> None:
    """The description says how long a query is; its grammar, no schema can say."""
    sentence = refused(api("GET", str(httpx.URL(path).copy_add_param("q", query))), 400)
    assert sentence.startswith("q: ")
    assert why in sentence


def test_a_time_before_all_times_or_after_them_is_as_far_as_the_store_goes(api: Api) -> None:
    everything = said(api("GET", "/alerts?status=all&size=500"))
    far = {"since": "0001-01-01T00:00:00+23:00", "until": "9999-12-31T23:59:59-23:00"}
    assert said(api("GET", "/alerts?status=all&size=500", params=far)) == everything


def test_a_page_that_no_one_was_given_is_refused(api: Api) -> None:
    for following in ("nonsense", "bm9uc2Vuc2U", "%00", "W10"):
        refused(api("GET", f"/alerts?following={following}"), 400)
        refused(api("GET", f"/alerts/{STOLEN}/events?following={following}"), 400)


def test_terms_are_suggested_as_they_are_typed(api: Api, place: Place) -> None:
    def terms(**asked: str) -> list[str]:
        return [each["term"] for each in said(api("GET", "/suggestions", role="viewer", params=asked))]

    assert terms(begins="a") == ["action:", "address:", "agent:", "account:", "assignee:"]
    assert terms(field="severity", begins="H") == ["severity:high"]
    assert terms(field="assignee") == ["assignee:me", "assignee:none"]
    assert terms(field="nothing", begins="x") == []
    for field in ("action", "agent", "principal", "person", "resource"):
        for term in terms(field=field):
            which = AlertFilter("all", q=term)
            assert place.store.queue.page(which).total, term
    service = terms(field="service")[0].partition(":")[2]
    calls = terms(field="action", begins=f"{service}:")
    assert calls
    assert all(term.startswith(f"action:{service}:") for term in calls)


def test_groups_are_those_of_the_store(api: Api, place: Place) -> None:
    found = said(api("GET", "/alerts/groups?by=service&by=level&status=all"))
    expected = place.store.queue.groups(AlertFilter(status="all"), ["service", "level"])
    assert [(tuple(each["values"]), each["alerts"], each["urgency"]) for each in found] == [
        (each.values, each.alerts, each.urgency) for each in expected
    ]
    for wrong in ("", "?by=colour", "?by=level&by=level", "?by=level&by=day&by=human&by=tactic"):
        assert "by" in refused(api("GET", f"/alerts/groups{wrong}"), 422)


def test_an_alert_comes_with_all_that_explains_it(api: Api) -> None:
    answer = api("GET", f"/alerts/{STOLEN}", "viewer")
    found, alert = said(answer), stolen_session()
    assert found["alert"]["title"] == alert.title
    assert answer.headers["etag"] == f'"{found["alert"]["version"]}-{len(alert.events)}"'
    assert [each["seen"] for each in found["drivers"]] == [driver.seen for driver in alert.drivers]
    assert found["curve"]["counts"] == list(curve().counts)
    assert found["next_steps"] == [msgspec.to_builtins(step) for step in alert.next_steps]
    assert [each["action"] for each in found["impact_of"]] == [row.action for row in alert.impact_of]
    assert (found["alert"]["rarity"], found["alert"]["impact"]) == (84, 88)
    assert [each["event_id"] for each in found["evidence"]["events"]] == [
        each.event_id for each in alert.events
    ]
    assert {each["raw"] for each in found["evidence"]["events"]} == {""}
    assert found["similar"]
    assert STOLEN not in {row["alert_id"] for row in found["similar"]}


def test_a_program_reads_who_opened_the_session(api: Api, place: Place) -> None:
    stolen = stolen_session()
    step = NextStep(
        "contain", f"First cut who opens the role's sessions: {playbook_contain_role._FIND_OPENER}"
    )
    events = tuple(replace(each, access_key="ASIAAPI") for each in stolen.events)
    alert = replace(stolen, alert_id="0pened", events=events, next_steps=(step,), human="")
    issue = CredentialIssue(
        "ASIAAPI", alert.first_event_time, "e-api", "sts:AssumeRole", "123456789012:user/ann", "", "", "192.0.2.7", "eu-west-1"
    )  # fmt: skip
    place.store.alerts.save([alert], credential_issues=[issue])
    found = said(api("GET", "/alerts/0pened", "viewer"))
    [hop] = found["credential_chain"]
    assert (hop["principal"], hop["action"], hop["event_id"]) == (issue.principal, issue.action, "e-api")
    assert "user/ann opened them by sts:AssumeRole from 192.0.2.7" in found["next_steps"][0]["text"]
    assert found["other_records"] == []
    exported = api("GET", "/alerts/export?format=ecs", "viewer").text.splitlines()
    [whole] = (each for line in exported if (each := json.loads(line))["event"]["id"] == alert.alert_id)
    assert whole["fingerprint"]["opened_by"] == ["123456789012:user/ann by sts:AssumeRole from 192.0.2.7"]
    assert "user/ann opened them" in whole["fingerprint"]["next_steps"][0]["text"]


def test_events_come_page_by_page_with_their_records(api: Api) -> None:
    found, following = [], None
    while not found or following:
        asked = {"size": 4} | ({"following": following} if following else {})
        page = said(api("GET", f"/alerts/{STOLEN}/events", "viewer", params=asked))
        found, following = found + page["events"], page["following"]
    assert [(each["event_id"], each["raw"]) for each in found] == [
        (each.event_id, each.raw) for each in stolen_session().events
    ]
    assert page["total"] == len(found)
    one = said(api("GET", f"/alerts/{STOLEN}/events/{found[3]['event_id']}", "viewer"))
    assert one == found[3]


@pytest.mark.parametrize("form", ["csv", "jsonl", "ecs", "ocsf"])
def test_a_queue_of_any_length_leaves_as_a_file(
    api: Api, place: Place, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "EXPORT_BATCH", 4)
    read, records = [], evidence.SqlEvidenceRepository.records

    def noted(*asked: Any) -> Any:
        read.append(asked[1])
        return records(*asked)

    monkeypatch.setattr(evidence.SqlEvidenceRepository, "records", noted)
    answer = api("GET", f"/alerts/export?format={form}&least_urgency=40&order=oldest", "viewer")
    assert answer.headers["content-disposition"].startswith('attachment; filename="alerts')
    rows = place.store.queue.page(AlertFilter(least_urgency=40), "oldest", 500).rows
    lines = answer.text.splitlines()[form == "csv" :]
    assert bool(read) == (form == "jsonl")  # records are read for the one format that has them
    assert len(rows) > 8
    assert all(row.alert_id in line for row, line in zip(rows, lines, strict=True))


def test_an_alert_that_becomes_more_urgent_while_a_file_leaves_is_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evidence, "EXPORT_BATCH", 2)
    alerts = [
        replace(
            new_pipeline(drivers=()), alert_id=f"{number:016x}", principal=f"p{number}", urgency=90 - number
        )
        for number in range(6)
    ]
    with closing(open_store("sqlite://")) as store:
        store.alerts.save(alerts)
        deps = SimpleNamespace(store=store, settings=Settings(), addresses=NO_ADDRESS_TABLES)
        rows = export._export_rows(deps, store.queue.ids(AlertFilter(status="all")))
        found = [next(rows).alert.alert_id]
        store.alerts.save([replace(alerts[5], urgency=99)])
        assert found + [row.alert.alert_id for row in rows] == [alert.alert_id for alert in alerts]


def test_what_is_not_there_is_said_to_be_not_there(api: Api) -> None:
    for path in ("", "/events", "/history", f"/events/{'0' * 32}"):
        assert "feed" in refused(api("GET", f"/alerts/feedfeedfeedfeed{path}"), 404)
    refused(api("GET", f"/alerts/{STOLEN}/events/none"), 404)
    refused(api("GET", "/nothing"), 404)
    refused(api("PATCH", "/alerts"), 405)


def test_who_shows_no_token_or_a_bad_one_is_told_so(url: str) -> None:
    for headers in ({}, {"Authorization": "Bearer fpt_nonsense"}, {"Authorization": "Basic bWFyaWE6eA=="}):
        answer = httpx.get(f"{url}/api/v1/alerts", headers=headers)
        assert "token" in refused(answer, 401)
        assert answer.headers["www-authenticate"].startswith("Bearer")


# --- deciding ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def alert_id(place: Place) -> Iterator[str]:
    """An alert that no one has touched."""
    number = place.store.queue.page(AlertFilter(status="all"), size=1).total
    fresh = stolen_session(alert_id=f"f4e5{number:012d}", principal=f"{PERSON}-{number}")
    place.store.alerts.save([fresh])
    return fresh.alert_id  # type: ignore[return-value]


def test_a_decision_names_the_version_that_was_seen(api: Api, alert_id: str) -> None:
    path, benign = f"/alerts/{alert_id}/disposition", {"decision": "benign", "why": "a new laptop"}
    assert "version" in refused(api("POST", path, json=benign), 428)
    first = api("POST", path, "analyst", json=benign, headers={"If-Match": '"0-9"'})
    row = said(first)
    assert (row["decision"], row["open"], row["version"]) == ("benign", False, 1)
    assert first.headers["etag"] == '"1-9"'
    late = api("POST", path, json={"decision": "true_positive", "version": 0, "events": 9})
    assert "analyst" in refused(late, 409)
    assert late.json()["now"] == row
    again = said(api("POST", f"/alerts/{alert_id}/reopen", json={"why": "it was not", "version": 1}))
    assert (again["open"], again["version"]) == (True, 2)
    decided = said(api("GET", f"/alerts/{alert_id}"))["dispositions"]
    assert [(each["decision"], each["by"], each["why"]) for each in decided] == [
        ("benign", "analyst", "a new laptop")
    ]


def test_undo_reverts_the_last_decision(api: Api, alert_id: str) -> None:
    path = f"/alerts/{alert_id}"
    first = api("POST", f"{path}/disposition", json={"decision": "true_positive", "version": 0, "events": 9})
    slip = {"decision": "benign", "why": "a slip", "version": 1, "events": 9}
    api("POST", f"{path}/disposition", json=slip)
    undone = said(api("POST", f"{path}/undo", json={"version": 2}))
    assert undone == said(first) | {"version": 3}
    one = {"alert_id": alert_id, "version": 3}
    said(api("POST", "/alerts/bulk", json={"alerts": [one], "change": {"kind": "undo"}}))
    assert said(api("GET", path))["dispositions"] == []


def test_a_decision_is_over_the_events_that_were_seen(api: Api, place: Place, alert_id: str) -> None:
    seen = api("GET", f"/alerts/{alert_id}").headers["etag"]
    whole = place.store.alerts.get(alert_id)
    late = replace(
        whole.events[0], event_id="0" * 32, event_time=whole.last_event_time + timedelta(minutes=1)
    )
    place.store.alerts.save([replace(whole, events=(*whole.events, late), last_event_time=late.event_time)])
    asked = {"decision": "benign", "why": "known"}
    row = said(api("POST", f"/alerts/{alert_id}/disposition", json=asked, headers={"If-Match": seen}))
    assert (row["decision"], row["open"], row["grown"]) == ("benign", True, 1)


def test_a_decision_names_the_events_that_were_seen(api: Api, alert_id: str) -> None:
    asked = {"decision": "benign", "why": "known"}
    path, seen = f"/alerts/{alert_id}/disposition", {"version": 0}
    assert "`events`" in refused(api("POST", path, json=asked | seen), 428)
    many = {"alerts": [{"alert_id": alert_id} | seen], "change": {"kind": "decide"} | asked}
    assert "`events`" in refused(api("POST", "/alerts/bulk", json=many), 428)
    assert said(api("GET", f"/alerts/{alert_id}"))["dispositions"] == []
    many["alerts"][0]["events"] = 9  # type: ignore[index]
    assert said(api("POST", "/alerts/bulk", json=many))[0]["done"]


def test_versions_that_are_none_or_differ_are_refused(api: Api, alert_id: str) -> None:
    path = f"/alerts/{alert_id}/assignee"
    for wrong in ("0-9", '"0"', "*", 'W/"0-9"', '"-1-9"', '"٣-9"'.encode()):
        refused(api("POST", path, json={"to": "analyst"}, headers={"If-Match": wrong}), 422)
    refused(api("POST", path, json={"to": "analyst", "version": 1}, headers={"If-Match": '"0-9"'}), 400)
    refused(api("POST", path, json={"to": "analyst", "version": -1}), 422)


def test_a_duplicate_is_one_of_another_alert(api: Api, alert_id: str) -> None:
    path, seen = f"/alerts/{alert_id}/disposition", {"version": 0, "events": 9}
    refused(api("POST", path, json={"decision": "duplicate"} | seen), 400)
    refused(
        api("POST", path, json={"decision": "benign", "why": "known", "duplicate_of": STOLEN} | seen),
        400,
    )
    for other in (alert_id, "feedfeedfeedfeed"):
        asked = {"decision": "duplicate", "duplicate_of": other} | seen
        assert api("POST", path, json=asked).status_code in (400, 404, 409)
    asked = {"decision": "duplicate", "duplicate_of": STOLEN} | seen
    assert said(api("POST", path, json=asked))["decision"] == "duplicate"


@pytest.mark.parametrize("decision", ["benign", "false_positive"])
def test_what_the_detector_learns_from_needs_a_reason(api: Api, alert_id: str, decision: str) -> None:
    for why in ({}, {"why": ""}, {"why": " \n"}):
        asked = {"decision": decision, "version": 0} | why
        assert "`why` is required" in refused(api("POST", f"/alerts/{alert_id}/disposition", json=asked), 422)
    chosen = [{"alert_id": alert_id, "version": 0}]
    change = {"kind": "decide", "decision": decision}
    refused(api("POST", "/alerts/bulk", json={"alerts": chosen, "change": change}), 422)
    assert said(api("GET", f"/alerts/{alert_id}"))["dispositions"] == []


def test_the_pattern_of_the_schema_finds_blank_what_python_finds_blank() -> None:
    """Pydantic asks Rust, whose `\\s`, like JavaScript's, has no separators of ASCII."""
    reason = TypeAdapter(Annotated[str, StringConstraints(pattern=NON_BLANK_PATTERN)])
    for blank in filter(str.isspace, map(chr, range(sys.maxunicode + 1))):
        with pytest.raises(ValidationError):
            reason.validate_python(blank)
    assert reason.validate_python(" \x1e. ")


def test_alerts_are_assigned_to_people_who_can_work_on_them(api: Api, alert_id: str) -> None:
    path = f"/alerts/{alert_id}/assignee"
    assert said(api("POST", path, "analyst", json={"to": "analyst", "version": 0}))["assignee"] == "analyst"
    assert "stranger" in refused(api("POST", path, json={"to": "stranger", "version": 1}), 400)
    assert said(api("POST", path, json={"to": "", "version": 1}))["assignee"] == ""


def test_me_is_the_caller(api: Api, alert_id: str) -> None:
    said(api("POST", f"/alerts/{alert_id}/assignee", json={"to": "analyst", "version": 0}))
    mine = {"q": "assignee:me", "status": "all"}
    found = said(api("GET", "/alerts", "analyst", params=mine | {"size": 500}))
    assert alert_id in [row["alert_id"] for row in found["rows"]]
    assert {row["assignee"] for row in found["rows"]} == {"analyst"}
    assert said(api("GET", "/alerts/counts", "analyst", params=mine))["open"] > 0
    assert said(api("GET", "/alerts/groups", "analyst", params=mine | {"by": "assignee"}))
    assert alert_id in api("GET", "/alerts/export", "analyst", params=mine).text
    assert said(api("GET", "/alerts", "viewer", params=mine))["total"] == 0


def test_of_many_who_decide_at_once_one_does_and_the_others_are_told(api: Api, alert_id: str) -> None:
    path = f"/alerts/{alert_id}/disposition"
    asked = {"decision": "benign", "why": "known", "version": 0, "events": 9}
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: api("POST", path, json=asked), range(12)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 11
    assert {answer.json()["now"]["version"] for answer in answers if answer.status_code == 409} == {1}


def test_many_alerts_take_one_change_each_by_itself(api: Api, place: Place, alert_id: str) -> None:
    others = [row for row in place.store.queue.page(AlertFilter(), size=10).rows if row.alert_id != alert_id][
        :3
    ]
    chosen = [{"alert_id": row.alert_id, "version": row.version} for row in others]
    chosen += [{"alert_id": alert_id, "version": 7}, {"alert_id": "feedfeedfeedfeed", "version": 0}]
    done = said(
        api("POST", "/alerts/bulk", json={"alerts": chosen, "change": {"kind": "assign", "to": "engineer"}})
    )
    assert [(each["alert_id"], each["done"]) for each in done] == [
        *((row.alert_id, True) for row in others),
        (alert_id, False),
        ("feedfeedfeedfeed", False),
    ]
    assert [each["version"] for each in done[-2:]] == [0, -1]
    assert all(each["reason"] for each in done[-2:])
    wrong = {"alerts": [chosen[0]] * 501, "change": {"kind": "reopen"}}
    assert refused(api("POST", "/alerts/bulk", json=wrong), 422).startswith("alerts")
    refused(api("POST", "/alerts/bulk", json={"alerts": chosen, "change": {"kind": "forget"}}), 422)


def test_notes_and_history_tell_who_did_what(api: Api, alert_id: str) -> None:
    note = said(
        api("POST", f"/alerts/{alert_id}/notes", "analyst", json={"text": "  asked her: <b>no</b>\n"}), 201
    )
    assert (note["text"], note["by"]) == ("asked her: <b>no</b>", "analyst")
    said(api("POST", f"/alerts/{alert_id}/assignee", json={"to": "analyst", "version": 0}))
    assert said(api("GET", f"/alerts/{alert_id}"))["notes"] == [note]
    history = said(api("GET", f"/alerts/{alert_id}/history", "viewer"))
    assert [each["by"] for each in history] == ["engineer", "analyst"]
    older = said(api("GET", f"/alerts/{alert_id}/history?before={history[0]['number']}", "viewer"))
    assert older == history[1:]
    for empty in ("", "   ", "A" * 10_001):
        refused(api("POST", f"/alerts/{alert_id}/notes", json={"text": empty}), 422)


def test_the_history_of_anything_but_an_alert_is_for_the_audit(api: Api) -> None:
    refused(api("GET", "/alerts/analyst/history", "viewer"), 404)
    assert said(api("GET", "/audit?target=analyst"))
    refused(api("GET", "/audit?target=analyst", "analyst"), 403)


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("POST", f"/alerts/{STOLEN}/disposition", "viewer"),
        ("POST", f"/alerts/{STOLEN}/notes", "viewer"),
        ("POST", "/alerts/bulk", "viewer"),
        ("PUT", "/views/mine", "viewer"),
        ("POST", "/suppressions", "analyst"),
        ("POST", "/suppressions/x/end", "analyst"),
        ("GET", "/audit", "analyst"),
    ],
)
def test_roles_that_are_too_low_are_refused_before_anything_is_read(
    api: Api, method: str, path: str, role: str
) -> None:
    assert "role" in refused(api(method, path, role, content=b"{"), 403)


# --- principals, suppressions, views, banks ---------------------------------------------------------------------------


def test_a_principal_has_its_alerts_and_how_strange_its_days_were(api: Api) -> None:
    found = said(api("GET", f"/entities/{PERSON}", "viewer"))
    assert STOLEN in {row["alert_id"] for row in found["alerts"]}
    assert [(day["day"], day["detector"], day["votes"]) for day in found["days"]] == [
        ("2026-03-04", "autoencoder", 9)
    ]
    assert found["profile"] is None
    assert "knows no" in found["profile_error"]
    assert said(api("GET", "/entities", "viewer", params={"principal": PERSON})) == found


def test_a_principal_that_the_bank_knows_has_a_card(api: Api, place: Place) -> None:
    bank = place.deps.banks.open_served()
    principal = str(bank.people["principal"].iloc[0])
    card = said(api("GET", f"/entities/{principal}"))["profile"]
    assert (card["principal"], card["bank_version"], card["shown"]) == (principal, bank.version, principal)
    entity = card["fingerprints"][1]["key"]
    other = said(api("GET", "/entities", params={"principal": principal, "fingerprint": entity}))["profile"]
    assert other["shown"] == entity
    assert other["usual"] != card["usual"]


@pytest.mark.parametrize("name", ["a/../b", "x//y", "?q=1#f", "%2e%2e", "\u202e\U0001f600", ""])
def test_a_principal_may_be_called_anything(api: Api, name: str) -> None:
    found = said(api("GET", "/entities", params={"principal": name}))
    assert (found["principal"], found["alerts_in_all"] > 0) == (name, name == "")


def test_single_votes_are_read_by_principal_and_time(api: Api, place: Place) -> None:
    asked = {"principal": PERSON, "limit": 4}
    found = said(api("GET", "/votes", "viewer", params=asked))
    assert found["following"]
    assert [each["event_id"] for each in found["votes"]] == list(
        place.store.votes.read(PERSON, limit=4)["event_id"]
    )
    assert {(each["action"], each["reach"]) for each in found["votes"]} == {("", None)}, (
        "none was stored with these"
    )
    until = found["votes"][2]["event_time"]
    before = said(api("GET", "/votes", params=asked | {"until": until}))["votes"]
    assert before == [each for each in found["votes"] if each["event_time"] < until]


def test_votes_of_one_moment_are_paged_through(api: Api, place: Place) -> None:
    moment, who = datetime(2026, 1, 4, 12, tzinfo=UTC), f"{PERSON}-at-once"
    vote = votes(stolen_session())[0]
    place.store.alerts.save(
        [],
        [
            replace(vote, principal=who, event_id=f"at-once-{number}", event_time=moment)
            for number in range(5)
        ],
    )
    asked, found, following = {"principal": who, "limit": 2}, [], None
    for _ in range(3):
        page = said(api("GET", "/votes", params=asked | ({"following": following} if following else {})))
        found, following = found + [each["event_id"] for each in page["votes"]], page["following"]
    assert found == [f"at-once-{number}" for number in range(5)]
    assert following is None
    cursor = said(api("GET", "/votes", params=asked))["following"]
    refused(api("GET", "/votes", params={"limit": 2, "following": cursor}), 400)


def test_a_suppression_is_looked_at_first_then_made_and_ended(api: Api, place: Place, alert_id: str) -> None:
    match = {"principal": place.store.queue.row(alert_id).principal}
    before = said(api("POST", "/suppressions/preview", json={"match": match}))
    assert [row["alert_id"] for row in before["rows"]] == [alert_id]
    ends = (datetime.now(UTC) + timedelta(days=7)).isoformat()
    assert before["critical"] == 1
    asked = {
        "match": match,
        "reason": "a migration until Friday",
        "expires_at": ends,
        "force": "the red team",
    }
    made = said(api("POST", "/suppressions", json=asked), 201)
    assert (made["owner"], made["hits"], made["ended_at"]) == ("engineer", 1, None)
    hidden = said(api("GET", "/alerts", params=match | {"suppressed": True}))["rows"]
    assert [row["suppressed_by"] for row in hidden] == [made["suppression_id"]]
    assert said(api("GET", "/alerts", params=match))["rows"] == []
    assert made in said(api("GET", "/suppressions", "viewer"))
    assert [
        each["suppression_id"] for each in said(api("GET", "/entities", params=match))["suppressions"]
    ] == [made["suppression_id"]]
    path = f"/suppressions/{made['suppression_id']}/end"
    refused(api("POST", path, json={"version": made["version"] + 1}), 409)
    over = said(api("POST", path, json={"version": made["version"]}))
    assert over["ended_at"]
    assert over not in said(api("GET", "/suppressions"))
    assert over in said(api("GET", "/suppressions?ended=true"))
    assert [row["alert_id"] for row in said(api("GET", "/alerts", params=match))["rows"]] == [alert_id]


def test_a_suppression_that_hides_everything_or_for_ever_is_refused(api: Api) -> None:
    ends = datetime.now(UTC) + timedelta(days=7)
    for match in ({}, {"network": "0.0.0.0/0"}, {"network": "nonsense"}):
        refused(api("POST", "/suppressions/preview", json={"match": match}), 400)
        asked = {"match": match, "reason": "x", "expires_at": ends.isoformat()}
        refused(api("POST", "/suppressions", json=asked), 400)
    for moment in (datetime(2020, 1, 1, tzinfo=UTC), ends + timedelta(days=400)):
        asked = {"match": {"service": "s3"}, "reason": "x", "expires_at": moment.isoformat()}
        refused(api("POST", "/suppressions", json=asked), 400)
    critical = {
        "match": {"principal": stolen_session().principal},
        "reason": "x",
        "expires_at": ends.isoformat(),
    }
    assert "--force" in refused(api("POST", "/suppressions", json=critical), 400)
    refused(api("POST", "/suppressions", json=critical | {"force": " "}), 422)
    refused(api("POST", "/suppressions/preview", json={"match": {"colour": "red"}}), 422)
    refused(api("POST", "/suppressions/nothing/end", json={"version": 0}), 404)


def test_a_view_is_kept_for_anyone_who_saved_it(api: Api) -> None:
    kept = said(api("PUT", "/views/urgent%20iam", "analyst", json={"query": "?least_urgency=50&service=iam"}))
    assert kept["query"] == "least_urgency=50&service=iam"  # as the page keeps it, which opens `/?` with it
    assert kept in said(api("GET", "/views", "analyst"))
    assert said(api("GET", "/views", "engineer")) == []
    refused(api("PUT", "/views/wrong", "analyst", json={"query": "?status=ajar"}), 400)
    for _ in range(2):
        assert api("DELETE", "/views/urgent%20iam", "analyst").status_code == 204
    assert said(api("GET", "/views", "analyst")) == []


def test_who_i_am_is_said(api: Api) -> None:
    assert said(api("GET", "/me", "analyst")) == {"name": "analyst", "role": "analyst", "scopes": ["triage"]}


def test_banks_and_health_say_what_is_served_and_how_far_everything_is(api: Api, place: Place) -> None:
    [version] = said(api("GET", "/banks", "viewer"))
    served_now = said(api("GET", "/banks/served", "viewer"))
    assert version["served"]
    assert version["version"] == served_now["version"] == place.deps.banks.open_served().version
    assert {each["level"]: each["ready"] for each in served_now["levels"]} == version["ready"]
    health = said(api("GET", "/health", "viewer"))
    assert (health["bank"], health["no_bank"]) == (version["version"], "")
    assert health["open_alerts"] == place.store.queue.counts(AlertFilter())["open"]
    assert (health["lag_seconds"], health["silent"]) == (None, [])


def test_a_store_without_a_bank_says_so(tmp_path: Path) -> None:
    alone = Place(f"sqlite:///{tmp_path}/alerts.sqlite", (stolen_session(),), tmp_path / "bank")
    with served(alone.app) as url, httpx.Client(timeout=30) as client:
        api = alone.api(url, client)
        assert said(api("GET", "/banks")) == []
        for sentence in (
            refused(api("GET", "/banks/served"), 404),
            said(api("GET", f"/entities/{PERSON}"))["profile_error"],
            said(api("GET", "/health"))["no_bank"],
        ):
            assert "no bank in" in sentence
    alone.store.close()


def test_a_store_that_does_not_answer_is_said_to_be_away(postgresql: Postgres, tmp_path: Path) -> None:
    url = postgresql.fresh()
    place = Place(url, (stolen_session(),), tmp_path / "bank")
    with served(place.app) as address, httpx.Client(timeout=30) as client:
        api = place.api(address, client)
        assert said(api("GET", "/alerts"))["total"] == 1
        with postgresql.talk() as other:
            other.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")
        sentence = "the alert store does not answer: try again in a moment; this server's log says why"
        assert refused(api("GET", "/alerts"), 503) == sentence
        login = client.get(f"{address}/login")
    server = place.store.session.engine.url
    assert login.status_code == 503
    assert not {f"{server.host}:{server.port}", server.database} & set(re.findall(r"[\w.:]+", login.text))
    place.store.close()


def test_a_search_that_takes_too_long_is_stopped_on_the_page_and_in_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000000) SELECT count(*) FROM n"
    place = Place(f"sqlite:///{tmp_path}/alerts.sqlite", (), tmp_path / "bank")
    place.app.state.dependencies = replace(place.deps, store=place.store.for_visitors(0.2))
    monkeypatch.setattr(
        SqlQueueRepository,
        "page",
        lambda queue, *_, **__: queue._session.read(lambda c: c.scalar(sql.text(slow))),
    )
    with served(place.app) as url, httpx.Client(timeout=30) as client:
        sentence = (
            "the search took more than 0.2 seconds and was stopped: narrow it, for example to fewer days"
        )
        assert refused(place.api(url, client)("GET", "/alerts"), 503) == sentence
        page = client.get(f"{url}/", headers={"Authorization": f"Bearer {place.tokens['engineer']}"})
    assert (page.status_code, f"T{sentence[1:]}" in page.text) == (503, True)
    place.store.close()


def test_pages_and_api_have_the_limit_of_the_settings(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/alerts.sqlite")) as store:
        settings = Settings(web=Web(query_timeout_seconds=7))
        deps = create_dependencies(store, settings, tmp_path)
        assert deps.store.queue._session.query_timeout == 7


# --- what an attacker writes ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Api]]:
    """An alert store on which every field of every alert is an attacker's."""
    folder = tmp_path_factory.mktemp("hostile")
    endless = replace(stolen_session(), curve=replace(curve(), expected=(math.nan, math.inf)))
    made = Place(f"sqlite:///{folder}/alerts.sqlite", (*all_nasty(), endless), folder / "bank")
    with served(made.app) as url, httpx.Client(timeout=30) as client:
        yield made, made.api(url, client)
    made.store.close()


def test_nasty_texts_come_back_as_they_were_recorded_and_steer_no_terminal(
    hostile: tuple[Place, Api],
) -> None:
    place, api = hostile
    for number, text in enumerate(NASTY):
        row = place.store.queue.row(f"bad5ec0de{number:07d}")
        paths = (
            f"/alerts/{row.alert_id}",
            f"/alerts/{row.alert_id}/events",
            f"/alerts?q={row.alert_id}&status=all",
        )
        for path in paths:
            answer = api("GET", path)
            found = said(answer)
            assert all(32 <= byte < 127 for byte in answer.content)
            assert answer.headers["content-type"] == "application/json"
        assert found["rows"][0]["title"] == storable(text)
        event = said(api("GET", f"/alerts/{row.alert_id}/events"))["events"][-1]
        assert event["user_agent"] == storable(text)
        assert event["raw"] == storable(all_nasty()[number].events[-1].raw)


def test_nasty_texts_can_be_asked_for(hostile: tuple[Place, Api]) -> None:
    _, api = hostile
    for text in NASTY:
        if 0 < len(text) <= 2_000:
            wanted = text.encode("utf-8", "replace").decode()  # an address takes no lone surrogate
            for name in ("principal", "service", "tactic"):
                found = said(api("GET", "/alerts", params={name: wanted, "size": 500}))
                assert found["total"] >= ("\ud800" not in text)
            said(api("GET", "/entities", params={"principal": wanted}))


def test_nasty_texts_may_be_written_too(hostile: tuple[Place, Api]) -> None:
    place, api = hostile
    fits = [text for text in NASTY if 0 < len(text) <= 10_000 and "\ud800" not in text]
    for text in NASTY:
        answer = api(
            "POST",
            f"/alerts/{STOLEN}/notes",
            content=json.dumps({"text": text}).encode(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == (201 if text in fits else 422)
    assert [note.text for note in place.store.cases.notes(STOLEN)] == [storable(text) for text in fits]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"text": 1}',
        b'{"text": "x", "colour": "red"}',
        b'{"\\ud800": "x"}',
        b'{"text": "\\ud800"}',
        b"[" * 100_000,
        b'{"text": "' + b"A" * 20_000 + b'"}',
    ],
    ids=range(11),
)
def test_bodies_that_cannot_be_read_are_refused_in_a_sentence(api: Api, body: bytes) -> None:
    answer = api(
        "POST", f"/alerts/{STOLEN}/notes", content=body, headers={"Content-Type": "application/json"}
    )
    assert refused(answer, 400 if body.startswith(b"[[") else 422)


def test_a_body_past_its_bound_is_refused(api: Api) -> None:
    large = b'{"text": "' + b"A" * (1 << 20) + b'"}'
    assert "bytes" in refused(api("POST", f"/alerts/{STOLEN}/notes", content=large), 413)


# --- the description, and the fuzzer ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def description(place: Place, api: Api, url: str) -> Any:
    """The API as it describes itself; live streams, which do not end, have tests of their own."""
    import schemathesis  # takes a second, in every process that collects this file

    schema = schemathesis.openapi.from_dict(said(api("GET", "/openapi.json")))
    schema.config.update(base_url=url)
    # 400: what no schema can say, such as an end that has passed; 428: a version in the body or the header
    accepting = schema.config.checks.positive_data_acceptance
    accepting.expected_statuses = [*accepting.expected_statuses, "400", "428"]
    return schema.exclude(path_regex="/live$")


def test_every_operation_has_a_name_and_a_sentence_of_its_own(api: Api) -> None:
    paths = said(api("GET", "/openapi.json"))["paths"]
    operations = [operation for path in paths.values() for operation in path.values()]
    assert all(operation["description"] for operation in operations)
    names = [operation["operationId"] for operation in operations]
    assert sorted(set(names)) == sorted(names)


def test_every_number_that_may_be_asked_for_has_a_least_and_a_most(api: Api) -> None:
    """Parameters and bodies; a database has no number past 64 bits."""

    def unbounded(part: Any, path: str) -> Iterator[str]:
        if isinstance(part, list):
            for each in part:
                yield from unbounded(each, path)
        elif isinstance(part, dict):
            fixed = "enum" in part or "const" in part
            bounded = {"minimum", "exclusiveMinimum"} & set(part) and {"maximum", "exclusiveMaximum"} & set(
                part
            )
            if part.get("type") in ("integer", "number") and not (fixed or bounded):
                yield path
            for name, each in part.items():
                yield from unbounded(each, f"{path}.{name}")

    described = said(api("GET", "/openapi.json"))
    asked = {
        f"{method} {path}": [operation.get("parameters", []), operation.get("requestBody", {})]
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    }
    named = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(asked)))
    bodies = {name: described["components"]["schemas"][name] for name in named}
    assert [*unbounded(asked, ""), *unbounded(bodies, "")] == []


def test_a_line_past_every_number_is_refused(api: Api) -> None:
    sentence = refused(api("GET", f"/alerts/{STOLEN}/history?before={2**63}"), 422)
    assert "before" in sentence
    all_of_it = said(api("GET", f"/alerts/{STOLEN}/history"))
    assert said(api("GET", f"/alerts/{STOLEN}/history?before={2**63 - 1}")) == all_of_it


def test_a_fuzzer_finds_nothing(description: Any, place: Place, subtests: pytest.Subtests) -> None:
    """No answer that is not described, no server error, nothing wrong that is let pass; whatever is asked, however mangled."""
    from requests import Session
    from schemathesis.specs.openapi.checks import ignored_auth

    headers = {"Authorization": f"Bearer {place.tokens['engineer']}"}
    with Session() as session:  # one connection, not one for each case
        # that check asks twice more, without a token and with a wrong one: test_authorisation.py asks so on every route
        sent = {"session": session, "headers": headers, "excluded_checks": [ignored_auth]}
        for operation in description.get_all_operations():
            with subtests.test(operation.ok().label):
                _fuzz(operation.ok(), sent)


def _fuzz(operation: Any, sent: dict[str, Any]) -> None:
    asks = [
        *operation.path_parameters,
        *operation.query,
        *operation.body,
    ]  # where there is nothing to draw, all cases are the same

    @given(case=operation.as_strategy())
    @settings(
        max_examples=10 if asks else 1,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def attack(case: Any) -> None:
        case.call_and_validate(**sent)

    attack()
