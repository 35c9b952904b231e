"""The records that every pipeline must read in the same way: real ones, hostile ones, crooked ones.

Example:
    >>> real()["schema_variety"][0][:30]
    b'{"eventVersion": "1.08", "user'
    >>> lines = [*hostile(record), *crooked()]        # whatever an attacker, or a careless program, may write
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fingerprint.sources.cloudtrail import check_records, samples
from tests.support.alerts import NASTY

SHARED = Path(__file__).parents[3] / "shared" / "data"
BASE = {"eventVersion": "1.08", "eventTime": "2023-07-10T11:42:18Z", "eventID": "id-1"}
Record = dict[str, Any]


def real() -> dict[str, list[bytes]]:
    """The lines of every real set that is here, by its name."""
    folders = {folder.name: folder for folder in [*sets(samples.data_folder("real")), *sets(SHARED)]}
    return {name: _lines(folder / f"{name}.jsonl.gz") for name, folder in sorted(folders.items())}


def sets(where: Path) -> list[Path]:
    """Return the folders that hold a set of CloudTrail records, which is named like its folder; logs of other vendors are not."""
    return sorted(
        each.parent for each in where.glob("*/*.jsonl.gz") if each.name == f"{each.parent.name}.jsonl.gz"
    )


def _lines(file: Path) -> list[bytes]:
    return gzip.decompress(file.read_bytes()).splitlines()


# --- hostile: an attacker writes what he likes into any field -----------------------------------------------------------


def hostile(record: Record) -> list[bytes]:
    """The records of `poisoned`, as AWS would write them, and with every character that may be raw written raw."""
    records = poisoned(record)
    escaped = [json.dumps(each).encode() for each in records]
    raw = [json.dumps(each, ensure_ascii=False).encode(errors="surrogatepass") for each in records]
    return [*escaped, *(line for line in raw if b"\n" not in line)]


def poisoned(record: Record) -> list[Record]:
    """Every nasty text in every field, one at a time; then in all fields at once, and in the names of parameters."""
    paths = list(leaves(record))
    one_by_one = [([path], text) for path in paths for text in NASTY]
    at_once = [(paths, text[:2000]) for text in NASTY]
    records = [_with(record, *what, number) for number, what in enumerate(one_by_one + at_once)]
    named = [
        {
            **record,
            "eventID": f"named {number}",
            "requestParameters": {text[:2000]: {text[:2000]: [text[:2000]]}},
        }
        for number, text in enumerate(NASTY)
    ]
    return [*records, *named]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all strings of a record that an event can lose: all but the time that makes it one."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, str) and path != ("eventTime",):
        yield path


def _with(record: Record, paths: list[tuple[Any, ...]], text: str, number: int) -> Record:
    """A copy with `text` at the paths, and an id of its own."""
    out = copy.deepcopy(record)
    for path in paths:
        at = out
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = text
    out["eventID"] = f"{number}{text[:2000] if ('eventID',) in paths else ''}"
    return out


# --- crooked: what no two readers need agree on -------------------------------------------------------------------------

VALUES = ("x", 7, 1.5, True, None, [], [1, None], {}, {"a": {"b": []}}, [{"accountId": {}}], "true", "")
FIELDS = (
    "eventTime",
    "eventID",
    "eventSource",
    "eventName",
    "errorCode",
    "errorMessage",
    "readOnly",
    "userIdentity",
    "requestParameters",
    "responseElements",
    "resources",
    "recipientAccountId",
    "sourceIPAddress",
    "userAgent",
    "eventType",
    "sessionCredentialFromConsole",
    "serviceEventDetails",
    "additionalEventData",
)
NAMING = ("names", "secretIdList", "requestItems", "instancesSet", "bucketName")
NAMED = (
    ["a", "b"],
    ["", "b"],
    [None, "b"],
    ["a", 5],
    [["a"]],
    ["x" * 1025],
    {"b": 1, "a": 2},
    {"é": {}},
    {'"': 1},
    *({"items": each} for each in ([], {}, None, "x", ["i-1"], [{}], [{"instanceId": None}], [None])),
    *({"items": [{"instanceId": each}]} for each in ("i-1", "", "é", "a\\b", 5, ["i-1"], "x" * 1025)),
    {"items": [{"instanceId": "i-1"}, {"instanceId": "i-2"}]},
    {"items": [{"instanceId": "i-1"}, 5], "more": 1},
    {"items": [{"imageId": "ami-1", "instanceId": "i-1"}]},
    {"items": [{"instanceId": "i-1", "imageId": "ami-1"}]},
)
ACCOUNTS = (
    *VALUES,
    "222222222222",
    "22222222222",
    "222222222222/x",
    "arn:aws:iam::222222222222:role",
    "é",
    "x" * 1025,
)
WITHIN = ("accountId", "arn", "sessionContext", "type", "userName", "onBehalfOf", "invokedBy")


def crooked() -> list[bytes]:
    """Every field with a value of every type, and the lines of `proof`: broken JSON, no JSON, two values where one belongs."""
    typed = [{field: value} for field in FIELDS for value in VALUES]
    nested = [{"userIdentity": {field: value}} for field in WITHIN for value in VALUES]
    named = [{"requestParameters": {field: value}} for field in NAMING for value in (*VALUES, *NAMED)]
    given = [
        {"recipientAccountId": own, "serviceEventDetails": {"account_id": account, "role_name": role}}
        for own in (None, "222222222222")
        for account in ACCOUNTS
        for role in (*VALUES, "Admin", 'a"b\n', "x" * 1025)
    ]
    failing = [("serviceEventDetails", "CredentialVerification")]
    failing += [("responseElements", action) for action in ("ConsoleLogin", "CheckMfa", "SwitchRole")]
    logins = [{group: {name: value}} for group, name in failing for value in (*VALUES, "Failure")]
    answers = [
        {"additionalEventData": {"MFAUsed": value}} for value in (*VALUES, "Yes", "No", "yes", "x" * 1025)
    ]
    records = [
        {**BASE, "eventID": f"id-{number}", **each}
        for number, each in enumerate(typed + nested + named + given + logins + answers)
    ]
    lines = [json.dumps(record).encode() for record in records]
    return [*check_records.MALFORMED_RECORDS, *lines]
