"""People behind an alert: names that are persons', and all whose sessions of a shared role are among its events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fingerprint.core.people import names_person
from tests.support.alerts import event, stolen_session


@pytest.mark.parametrize(
    ("human", "people"),
    [
        ("ann@example.com", "ann@example.com, cid@example.com, ann.lee, bob.ray, bob@example.com, run-7"),
        ("dan@example.com", "dan@example.com"),  # a source identity: the sessions' names are other texts
        ("i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("ann.lee", "ann.lee, cid@example.com, ann@example.com, bob.ray, bob@example.com, run-7"),
        ("", ""),
    ],
)
def test_all_people_at_a_shared_role_are_behind_an_alert_the_leading_one_first(
    human: str, people: str
) -> None:
    sessions = ("ann@example.com", "bob@example.com", "cid@example.com", "cid@example.com", "run-7")
    sessions += ("ann.lee", "bob.ray")
    events = tuple(replace(event(at, "s3", "GetObject"), session=each) for at, each in enumerate(sessions))
    assert stolen_session(human=human, events=events).people == people


@pytest.mark.parametrize(
    ("name", "is_person"),
    [
        ("ann.lee", True),
        ("leroy.jenkins", True),
        ("Dev.Patel", True),
        ("ann@example.com", True),
        ("web.server", False),
        ("nginx.service", False),
        ("Prod.Deploy", False),
        ("user.name", False),
        ("i-0123456789abcdef0", False),
        ("ann", False),
    ],
)
def test_a_person_has_a_first_and_a_last_name_and_what_runs_has_a_word_for_that(
    name: str, is_person: bool
) -> None:
    assert names_person(name) is is_person
