"""The data that the project ships: real records with their licences, and the catalogue of AWS operations.

Example:
    >>> data_folder("real/invictus_stratus").name
    'invictus_stratus'
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from fingerprint.core.errors import FingerprintError

ATTACK_DATASET = "real/invictus_stratus"  # Stratus Red Team's techniques, run and labelled
_HERE = Path(__file__).parents[2]
_PLACES = (_HERE / "_data", _HERE.parent / "data")  # of an installed wheel, of a checkout


def data_folder(name: str = "") -> Path:
    """Return the folder `name` under data/, wherever the package was installed from.

    Raises FingerprintError if the installation lacks it.
    """
    for place in _PLACES:
        if (place / name).is_dir():
            return place / name
    raise FingerprintError(
        f"data folder {name!r} is missing from this installation: install the package again"
    )


def sample_records(name: str) -> Iterator[dict[str, Any]]:
    """Yield the raw records of one real set, in the order of its file: `sample_records("real/invictus_stratus")`."""
    yield from map(json.loads, sample_lines(name))


def sample_lines(name: str) -> Iterator[bytes]:
    """Yield the raw records of one real set as bytes, exactly as they are in its file."""
    with gzip.open(data_folder(name) / f"{Path(name).name}.jsonl.gz", "rb") as written:
        for line in written:
            yield line.rstrip(b"\r\n")


def sample_labels(name: str) -> dict[str, dict[str, str]]:
    """Return the labels of one real set, by eventID."""
    with gzip.open(data_folder(name) / "labels.jsonl.gz", "rb") as lines:
        return {label["eventID"]: label for label in map(json.loads, lines)}


def known_attacks() -> list[tuple[str, bytes]]:
    """Return (technique, record) of the labelled attack calls of Stratus Red Team, in the order of their file."""
    labels = sample_labels(ATTACK_DATASET)
    technique = {name: each["technique"] for name, each in labels.items() if each["label"] == "attack"}
    return [
        (technique[record["eventID"]], json.dumps(record).encode())
        for record in sample_records(ATTACK_DATASET)
        if record["eventID"] in technique
    ]


def call_as(record: Mapping[str, Any], caller: Mapping[str, Any], event_id: str) -> dict[str, Any]:
    """Return the call of a record as if the identity of another record, `caller`, had made it, with a new id.

    Action, time, tool and address stay as they are, because a thief brings them along. Identity and account are the caller's.

    >>> theirs = {"eventName": "GetObject", "userIdentity": {"userName": "ann"}, "eventID": "1", "sharedEventID": "2"}
    >>> call_as(theirs, {"userIdentity": {"userName": "bob"}}, "3")
    {'eventName': 'GetObject', 'userIdentity': {'userName': 'bob'}, 'eventID': '3'}
    """
    moved = {name: value for name, value in record.items() if name != "sharedEventID"}
    account = {name: caller[name] for name in ("recipientAccountId",) if name in caller}
    return {**moved, "userIdentity": caller["userIdentity"], **account, "eventID": event_id}


def moved_to_day(records: Sequence[bytes | str], day: date) -> list[str]:
    """Return records moved by whole days, so that the earliest is on `day`; the times of day stay.

    >>> moved_to_day(['{"eventTime": "2023-07-10T23:50:00Z"}'], date(2026, 2, 1))
    ['{"eventTime": "2026-02-01T23:50:00Z"}']
    """
    calls = [json.loads(record) for record in records]
    times = [datetime.fromisoformat(call["eventTime"]) for call in calls]
    shift = timedelta(days=(day - min(times).date()).days)
    return [
        json.dumps({**call, "eventTime": (time + shift).strftime("%Y-%m-%dT%H:%M:%SZ")})
        for call, time in zip(calls, times, strict=True)
    ]
