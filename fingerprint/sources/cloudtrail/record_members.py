"""Members of a stored record, read from its text: for what no column holds.

Example:
    >>> class Record(msgspec.Struct):
    ...     errorCode: Any = None
    >>> decode_record(msgspec.json.Decoder(Record), '{"errorCode": "AccessDenied", "eventName": "GetObject"}')
    Record(errorCode='AccessDenied')

A record is an attacker's text: it may be missing, cut, of any length and depth, and a member of any type.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

Members = TypeVar("Members", bound=msgspec.Struct)

MAX_RECORD_CHARACTERS = 262_144  # a longer record is not read


def decode_record(decoder: msgspec.json.Decoder[Members], record: str) -> Members | None:
    """Return the members of a record that the decoder names; None for one that is missing, too long or no record."""
    if not 0 < len(record) <= MAX_RECORD_CHARACTERS:
        return None
    try:
        return decoder.decode(record)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def as_text(value: Any) -> str:
    """Return a member that is text; empty for any other."""
    return value if isinstance(value, str) else ""


def as_members(value: Any) -> dict[str, Any]:
    """Return a member that is an object; an empty one for any other."""
    return value if isinstance(value, dict) else {}
