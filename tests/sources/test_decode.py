"""Decoding of messages: every message is in one piece or in several, with its events, its rejects and their places."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.core.alert import Reject
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Settings
from fingerprint.sources import decode, json_pieces
from fingerprint.sources.cloudtrail import envelopes
from fingerprint.sources.decode import DecodedMessages, decode_messages, message_number


@dataclass(frozen=True)
class _SmallBackend(Backend):
    """A host that reads few bytes at a time."""

    limit: int = 1

    @property
    def batch_bytes(self) -> int:
        return self.limit


def record(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "eventVersion": "1.08",
        "eventTime": f"2026-02-02T08:00:{number:02}Z",
        "eventID": f"event-{number}",
        "userIdentity": {"type": "IAMUser", "accountId": "111122223333", "userName": "alice"},
    } | fields


def raw(*records: Any) -> bytes:
    return b"".join(json.dumps(each, separators=(",", ":")).encode() for each in records)


def decoded(*values: bytes | None, backend=HOST_BACKEND) -> list[DecodedMessages]:
    messages = [Message("raw", 0, offset, value=value) for offset, value in enumerate(values)]
    return list(decode_messages(messages, Settings(), backend))


def events_by_message(pieces: list[DecodedMessages]) -> list[tuple[int, str]]:
    return [
        (int(source), name)
        for piece in pieces
        for source, name in zip(piece.source, piece.events["event_id"], strict=True)
    ]


def rejects(pieces: list[DecodedMessages]) -> list[tuple[str, str]]:
    return [(each.position, each.reason) for piece in pieces for each in piece.rejects]


def test_each_event_names_its_message_its_record_and_its_time() -> None:
    [piece] = decoded(raw(record(0)), raw(record(1)))
    assert (piece.begin, piece.end, piece.complete_until) == (0, 2, 2)
    assert piece.source.tolist() == [0, 1]
    assert [piece.lines[row] for row in piece.row] == [raw(record(0)), raw(record(1))]
    assert pd.to_datetime(piece.times_ms, unit="ms", utc=True).second.tolist() == [0, 1]
    assert piece.events["principal"].tolist() == ["111122223333:user/alice"] * 2


def test_whatever_wraps_records_their_message_is_known() -> None:
    logs = {"logEvents": [{"message": raw(record(number)).decode()} for number in (2, 3)]}
    wrapped = base64.b64encode(gzip.compress(raw(logs)))
    pieces = decoded(
        raw({"Records": [record(0), record(1)]}),
        raw({"awslogs": {"data": wrapped.decode()}}),
        raw(record(4)),
        raw({"detail-type": "AWS API Call via CloudTrail", "detail": record(5)}),
    )
    assert events_by_message(pieces) == [
        (0, "event-0"),
        (0, "event-1"),
        (1, "event-2"),
        (1, "event-3"),
        (2, "event-4"),
        (3, "event-5"),
    ]
    assert rejects(pieces) == []


def test_what_cannot_be_read_is_a_reject_with_its_place_and_its_neighbours_are_read() -> None:
    pieces = decoded(
        raw(record(0)), b"not JSON", None, b"", raw({"Records": [record(1), [1]]}), raw(record(2))
    )
    assert [name for _, name in events_by_message(pieces)] == ["event-0", "event-1", "event-2"]
    places = [position for position, _ in rejects(pieces)]
    assert places == ["1", "4/1"]
    assert {message_number(place) for place in places} == {1, 4}


def test_a_message_that_begins_like_a_record_and_holds_two_is_read_with_care() -> None:
    pieces = decoded(raw(record(0)), raw(record(1), record(2)), raw(record(3)))
    assert events_by_message(pieces) == [(0, "event-0"), (1, "event-1"), (1, "event-2"), (2, "event-3")]
    assert rejects(pieces) == []


def test_every_message_is_in_the_pieces_once_whatever_the_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_ROW_BYTES", 1)
    values = [
        raw(record(number)) if number % 3 else raw({"Records": [record(number)]}) for number in range(20)
    ]
    whole = events_by_message(decoded(*values))
    assert len(whole) == 20
    for limit in (1, 500, 3_000):
        small = _SmallBackend("pandas", "numpy", "cpu", "for this test", limit=limit)
        pieces = decoded(*values, backend=small)
        assert events_by_message(pieces) == whole
        assert [pieces[0].begin, pieces[-1].end] == [0, 20]
        assert all(one.end == other.begin for one, other in pairwise(pieces))
        assert limit > 500 or len(pieces) >= 5


def test_nothing_may_be_committed_past_a_message_that_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelopes, "PART_RECORDS", 2)
    monkeypatch.setattr(envelopes, "PART_BYTES", 1)
    monkeypatch.setattr(json_pieces, "COMMA_SCAN_THRESHOLD", 1)
    monkeypatch.setattr(json_pieces, "SCAN_BYTES", 300)
    small = _SmallBackend("pandas", "numpy", "cpu", "for this test", limit=600)
    many = raw({"Records": [record(number) for number in range(12)]})
    pieces = decoded(raw(record(20)), many, raw(record(21)), backend=small)
    assert [name for _, name in events_by_message(pieces)] == [
        "event-20",
        *(f"event-{number}" for number in range(12)),
        "event-21",
    ]
    of_many = [piece for piece in pieces if piece.begin == 1 and piece.end == 2]
    assert len(of_many) > 1
    assert [piece.is_partial for piece in of_many] == [True] * (len(of_many) - 1) + [False]
    assert {piece.complete_until for piece in of_many[:-1]} == {1}
    assert of_many[-1].complete_until == 2


def test_a_message_that_does_not_fit_into_memory_is_a_reject_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flatten, large = decode.flatten, raw(record(1, large=1))

    def exhausted(records: Any, *rest: Any) -> Any:
        if large in records.lines:
            raise MemoryError
        return flatten(records, *rest)

    monkeypatch.setattr(decode, "flatten", exhausted)
    pieces = decoded(raw(record(0)), large, raw(record(2)))
    assert events_by_message(pieces) == [(0, "event-0"), (2, "event-2")]
    assert [each for piece in pieces for each in piece.rejects] == [
        Reject("", "1", "does not fit into memory")
    ]


def test_no_messages_are_no_pieces() -> None:
    assert decoded() == []
