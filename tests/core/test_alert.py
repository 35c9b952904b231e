"""An alert's own facts: who is behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.alerts import event, stolen_session


@pytest.mark.parametrize(
    ("human", "people"),
    [
        ("ann@example.com", "ann@example.com, cid@example.com, bob@example.com"),
        ("dan@example.com", "dan@example.com"),  # a source identity: the sessions' names are other texts
        ("i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("ann.lee", "ann.lee, bob.ray"),
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
