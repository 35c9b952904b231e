"""Queries for all events of a principal in a span: AWS CLI, CloudTrail Lake and Athena, with the names filled in.

Example:
    >>> principal_queries("123456789012:user/ana", ("AKIAIOSFODNN7EXAMPLE",), since, until)[0].text
    "aws cloudtrail lookup-events --lookup-attributes '[{\"AttributeKey\":\"AccessKeyId\", ...

Names come from records, so an attacker wrote them: control characters are left out, a shell argument is one quoted word, and the
quotes of an SQL text are doubled. `lookup-events` reads the management events of one region and the last 90 days; Lake and Athena
read all events of the trail.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

from fingerprint.core.sanitize import storable
from fingerprint.sources.base import EventQuery

COLUMNS = (
    "eventTime",
    "eventSource",
    "eventName",
    "errorCode",
    "sourceIPAddress",
    "awsRegion",
    "userIdentity.accessKeyId",
    "requestParameters",
)
MAX_NAME_LENGTH = 256  # characters; longer names are no names of AWS


def principal_queries(
    principal: str, access_keys: Sequence[str], since: datetime, until: datetime
) -> tuple[EventQuery, ...]:
    """Return queries for the events of a principal, by its key, and of access keys, from `since` on and before `until`.

    Each access key is a command of its own for `lookup-events`.
    """
    keys = [name for key in access_keys if (name := _plain(key))]
    account, field, name = _identity(principal)
    if not keys and not name:
        return ()
    commands = [_lookup("AccessKeyId", key, since, until) for key in keys]
    if user := _user_name(principal) if name else "":
        commands.append(_lookup("Username", user, since, until))
    of_cli = EventQuery("AWS CLI, management events of 90 days, in one region", "\n".join(commands))
    return (
        *([of_cli] if commands else []),
        EventQuery("CloudTrail Lake", _lake(account, field, name, keys, since, until)),
        EventQuery("Athena", _athena(account, field, name, keys, since, until)),
    )


def _identity(principal: str) -> tuple[str, str, str]:
    """Return the account, the field of `userIdentity` that names the principal, and the name; empty if no field does."""
    account, _, rest = principal.partition(":")
    kind, _, named = rest.partition("/")
    name = _plain(unquote(named.partition("/")[0]))
    field = {"user": "userIdentity.userName", "role": "userIdentity.sessionContext.sessionIssuer.userName"}
    known = field.get(kind, "") if name and not name.startswith("?") else ""
    return account if account.isdigit() else "", known, name if known else ""


def _user_name(principal: str) -> str:
    """Return the user name for `lookup-events`: for a role the session's name, empty if the key has none of a person."""
    kind, *parts = principal.partition(":")[2].split("/")
    name, session = [*parts, "", ""][:2]
    return _plain(unquote({"user": name, "role": session}.get(kind, "")))


def _plain(text: str) -> str:
    return "".join(each for each in storable(text) if each.isprintable())[:MAX_NAME_LENGTH]


def _lookup(attribute: str, value: str, since: datetime, until: datetime) -> str:
    attributes = json.dumps([{"AttributeKey": attribute, "AttributeValue": value}], separators=(",", ":"))
    span = f"--start-time {_iso(since)} --end-time {_iso(until)}"
    return f"aws cloudtrail lookup-events --lookup-attributes {shlex.quote(attributes)} {span} --output json"


def _lake(account: str, field: str, name: str, keys: Sequence[str], since: datetime, until: datetime) -> str:
    span = f"eventTime >= '{since.astimezone(UTC):%Y-%m-%d %H:%M:%S}' AND eventTime < '{until.astimezone(UTC):%Y-%m-%d %H:%M:%S}'"
    return (
        f"SELECT {', '.join(COLUMNS)}\nFROM EVENT_DATA_STORE_ID\nWHERE {span}\n"
        f"AND {_who(account, field, name, keys)}\nORDER BY eventTime"
    )


def _athena(
    account: str, field: str, name: str, keys: Sequence[str], since: datetime, until: datetime
) -> str:
    span = f"eventtime >= '{_iso(since)}' AND eventtime < '{_iso(until)}'"
    return (
        f"SELECT {', '.join(COLUMNS).lower()}\nFROM CLOUDTRAIL_TABLE\nWHERE {span}\n"
        f"AND {_who(account, field.lower(), name, keys, lower=True)}\nORDER BY eventtime"
    )


def _who(account: str, field: str, name: str, keys: Sequence[str], lower: bool = False) -> str:
    """Return the condition of a query: the principal by its name and account, or one of the keys."""
    key_field, account_field = "userIdentity.accessKeyId", "userIdentity.accountId"
    if lower:
        key_field, account_field = key_field.lower(), account_field.lower()
    conditions = []
    if name:
        own = f"{field} = {_quoted(name)}"
        conditions.append(f"({own} AND {account_field} = {_quoted(account)})" if account else own)
    if keys:
        conditions.append(f"{key_field} IN ({', '.join(map(_quoted, keys))})")
    return f"({' OR '.join(conditions)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _iso(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
