"""A stored record is an attacker's text: whatever it is, reading its members never raises."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fingerprint.sources.cloudtrail.record_members import (
    MAX_RECORD_CHARACTERS,
    as_members,
    as_text,
    decode_record,
)


class Record(msgspec.Struct):
    errorCode: Any = None


DECODER = msgspec.json.Decoder(Record)


def test_the_named_members_are_read_and_others_passed_over() -> None:
    assert decode_record(DECODER, '{"eventName": "GetObject", "errorCode": "AccessDenied"}') == Record(
        "AccessDenied"
    )
    assert decode_record(DECODER, "{}") == Record()


@pytest.mark.parametrize(
    "record",
    [
        "",
        "{",
        "[]",
        '"text"',
        "\ud800",
        "[" * 100_000,
        '{"errorCode": ' + "[" * 100_000,
        "{}" + " " * MAX_RECORD_CHARACTERS,
    ],
    ids=["missing", "cut", "a list", "a text", "no text", "deep", "deep within", "too long"],
)
def test_what_is_no_record_has_no_members(record: str) -> None:
    assert decode_record(DECODER, record) is None


def test_a_member_of_another_type_is_empty() -> None:
    assert (as_text("a"), as_text(["a"]), as_text(None)) == ("a", "", "")
    assert (as_members({"a": 1}), as_members("a"), as_members(None)) == ({"a": 1}, {}, {})
