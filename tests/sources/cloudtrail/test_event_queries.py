"""Queries for all that a principal did: whatever its name is, it stays one word of the shell and one text of SQL."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime

import duckdb
import pytest

from fingerprint.sources.base import escape_key
from fingerprint.sources.cloudtrail.event_queries import principal_queries
from tests.support.alerts import NASTY

SINCE, UNTIL = datetime(2026, 3, 4, tzinfo=UTC), datetime(2026, 3, 5, 12, 30, tzinfo=UTC)


def test_a_user_is_asked_for_by_key_and_by_name() -> None:
    command, lake, athena = principal_queries("123456789012:user/ana", ("AKIAONE",), SINCE, UNTIL)
    first, second = command.text.splitlines()
    assert shlex.split(first)[:4] == [
        "aws",
        "cloudtrail",
        "lookup-events",
        "--lookup-attributes",
    ]
    assert json.loads(shlex.split(first)[4]) == [{"AttributeKey": "AccessKeyId", "AttributeValue": "AKIAONE"}]
    assert json.loads(shlex.split(second)[4]) == [{"AttributeKey": "Username", "AttributeValue": "ana"}]
    assert "--start-time 2026-03-04T00:00:00Z --end-time 2026-03-05T12:30:00Z" in first
    assert "userIdentity.userName = 'ana' AND userIdentity.accountId = '123456789012'" in lake.text
    assert "useridentity.accesskeyid IN ('AKIAONE')" in athena.text


def test_a_person_at_a_role_is_asked_for_by_the_role_and_by_the_sessions_name() -> None:
    command, lake, _ = principal_queries("123456789012:role/Admin/ana@example.com", (), SINCE, UNTIL)
    assert '"AttributeValue":"ana@example.com"' in command.text
    assert "userIdentity.sessionContext.sessionIssuer.userName = 'Admin'" in lake.text


@pytest.mark.parametrize("name", ["deploy", "AWSServiceRoleForAutoScaling"])
def test_a_role_is_not_looked_up_as_a_user(name: str) -> None:
    """CloudTrail's user of a role is the session's name, which the role's key does not have: the look-up would find nothing."""
    principal = f"123456789012:role/{name}"
    by_key, *_ = principal_queries(principal, ("ASIAONE",), SINCE, UNTIL)
    assert len(by_key.text.splitlines()) == 1
    assert "AccessKeyId" in by_key.text
    lake, athena = principal_queries(principal, (), SINCE, UNTIL)
    assert f"userIdentity.sessionContext.sessionIssuer.userName = '{name}'" in lake.text
    assert athena.where == "Athena"


def test_who_has_neither_key_nor_name_is_not_asked_for() -> None:
    assert principal_queries("unknown:service/ec2", (), SINCE, UNTIL) == ()
    assert principal_queries("", (), SINCE, UNTIL) == ()


def test_every_key_is_asked_for() -> None:
    """Who asks says how many, and tells the reader of those that it leaves out."""
    keys = tuple(f"AKIA{at}" for at in range(50))
    command, *others = principal_queries("1:root", keys, SINCE, UNTIL)
    assert len(command.text.splitlines()) == len(keys)
    assert all(f"'{key}'" in query.text for query in others for key in keys)


@pytest.mark.parametrize("text", [*NASTY, "x'; DROP TABLE y; --", "$(reboot)", "`id`", "a\nb", "'", "\\'"])
def test_a_hostile_name_is_one_word_and_one_text(text: str) -> None:
    for principal, keys in ((f"123456789012:user/{escape_key(text)}", ()), ("x", (text,))):
        for query in principal_queries(principal, keys, SINCE, UNTIL):
            assert query.text.replace("\n", "").isprintable()
            if query.text.startswith("aws"):
                for line in query.text.splitlines():
                    words = shlex.split(line)
                    assert len(words) == 11
                    assert len(json.loads(words[4])) == 1
            else:
                parsed = query.text.partition("WHERE")[2].partition("ORDER")[0]
                assert len(duckdb.extract_statements("SELECT * FROM events WHERE " + parsed)) == 1  # noqa: S608
