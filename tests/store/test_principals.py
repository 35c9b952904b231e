"""Principals as their alerts show them, from both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from fingerprint.core.alert import CredentialIssue
from fingerprint.core.sanitize import storable
from fingerprint.store import SqlStore, open_store
from tests.support.alerts import NASTY, PERSON, START, nasty, new_pipeline, stolen_session

STOLEN = stolen_session()
LATER = stolen_session(
    alert_id="1a7e000000000001",
    events=(
        STOLEN.events[-1],  # the same event is in two alerts
        replace(
            STOLEN.events[0], event_id="later", event_time=START + timedelta(days=2), access_key="ASIALATER"
        ),
    ),
)


def issued(key: str, caller: str, with_key: str, minutes: int) -> CredentialIssue:
    at = START + timedelta(minutes=minutes)
    return CredentialIssue(
        key, at, f"e-{key}", "AssumeRole", caller, "", with_key, "198.51.100.7", "eu-west-1"
    )


ISSUES = (
    issued("ASIALATER", "1:user/eve", "AKIAEVE", 0),
    issued("ASIAROLE", PERSON, "ASIALATER", 5),
    issued("ASIAOTHER", "1:user/other", "AKIAOTHER", 6),
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    folder = tmp_path_factory.mktemp("principals")
    sqlite = request.param == "sqlite"
    made = open_store(
        f"sqlite:///{folder}/alerts.sqlite" if sqlite else request.getfixturevalue("postgresql").fresh()
    )
    made.alerts.save([STOLEN, LATER, new_pipeline()], [], ISSUES)
    yield made
    made.close()


def test_a_principal_has_the_events_of_all_its_alerts_once_the_oldest_first(store: SqlStore) -> None:
    found = store.principals.events(PERSON, 100)
    expected = sorted(
        {event.event_id: event for event in (*STOLEN.events, *LATER.events)}.values(),
        key=lambda event: (event.event_time, event.event_id),
    )
    assert [each.event for each in found.events] == [replace(event, raw="") for event in expected]
    assert found.total == len(expected)
    assert {each.principal for each in found.events} == {PERSON}
    assert found.events[-1].alert_id == LATER.alert_id


def test_of_many_events_the_newest_are_read(store: SqlStore) -> None:
    every = store.principals.events(PERSON, 100)
    newest = store.principals.events(PERSON, 3)
    assert newest.events == every.events[-3:]
    assert newest.total >= every.total


def test_events_of_alerts_say_whose_they_are(store: SqlStore) -> None:
    found = store.principals.events_of_alerts([STOLEN.alert_id, new_pipeline().alert_id, "none"], 100)
    assert {each.principal for each in found.events} == {PERSON, new_pipeline().principal}
    assert found.total == len(STOLEN.events) + len(new_pipeline().events)


def test_credentials_are_those_it_issued_and_those_that_issued_its_keys(store: SqlStore) -> None:
    found = store.principals.credential_issues(PERSON, ["ASIALATER", ""], 10)
    assert [each.issued_key for each in found] == ["ASIALATER", "ASIAROLE"]
    assert store.principals.credential_issues("", ["AKIAOTHER"], 10) == [ISSUES[2]]
    assert store.principals.credential_issues(PERSON, ["ASIALATER"], 1) == [ISSUES[1]]
    assert store.principals.credential_issues("", [], 10) == []


def test_notes_of_all_its_alerts_are_read_the_newest_first(store: SqlStore) -> None:
    first = store.cases.add_note(STOLEN.alert_id, "asked her", "ana")
    second = store.cases.add_note(LATER.alert_id, "again", "bo")
    store.cases.add_note(new_pipeline().alert_id, "another principal", "bo")
    assert store.principals.notes(PERSON, 10) == [second, first]
    assert store.principals.notes(PERSON, 1) == [second]


@pytest.mark.parametrize("text", NASTY)
def test_an_attackers_name_finds_its_own_events_alone(store: SqlStore, text: str) -> None:
    hostile = nasty(text)
    store.alerts.save([hostile])
    found = store.principals.events(hostile.principal, 1_000)
    assert {each.principal for each in found.events} == {storable(hostile.principal)}
    assert store.principals.credential_issues(hostile.principal, [hostile.principal], 10) == []
