"""Members of a stored record that no column has, read from the text of the record.

Example:
    >>> class Record(msgspec.Struct):
    ...     errorCode: Any = None
    >>> decode_record(msgspec.json.Decoder(Record), '{"errorCode": "AccessDenied", "eventName": "GetObject"}')
    Record(errorCode='AccessDenied')

A record is text of an attacker: it may be missing, cut, and of any length and depth, and a member may have any type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeVar

import msgspec

Members = TypeVar("Members", bound=msgspec.Struct)

MAX_RECORD_CHARACTERS = 262_144  # a longer record is not read
# EC2's error codes for a call with DryRun whose caller has the rights for it: "request would have succeeded".
DRY_RUNS = frozenset({"Client.DryRunOperation", "DryRunOperation"})
MAX_VALUES = 5_000  # values of a request that are examined


def decode_record(decoder: msgspec.json.Decoder[Members], record: str) -> Members | None:
    """Return the members of a record that the decoder names; None if the record is missing, too long or not readable."""
    if not 0 < len(record) <= MAX_RECORD_CHARACTERS:
        return None
    try:
        return decoder.decode(record)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


class _Call(msgspec.Struct):
    requestParameters: Any = None
    recipientAccountId: Any = ""
    readOnly: Any = None
    errorCode: Any = None


_CALL_DECODER = msgspec.json.Decoder(_Call)


class CallRecord:
    """The record of a call, decoded once, when a member is first needed."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _members(self) -> _Call:
        return decode_record(_CALL_DECODER, self.text) or _Call()

    @property
    def request(self) -> dict[str, Any] | None:
        """The parameters of the call; None if they are missing or no object."""
        parameters = self._members.requestParameters
        return parameters if isinstance(parameters, dict) else None

    @property
    def account(self) -> str:
        """The account that was called; empty if it is missing."""
        return str(self._members.recipientAccountId or "")

    @property
    def is_dry_run(self) -> bool:
        """True if the call only asked whether its caller has the rights, and the caller has them."""
        return as_text(self._members.errorCode) in DRY_RUNS

    @property
    def reads_only(self) -> bool:
        """True if the record says that the call only read."""
        return self._members.readOnly is True


def as_text(value: Any) -> str:
    """Return a member if it is text, else an empty text."""
    return value if isinstance(value, str) else ""


def as_members(value: Any) -> dict[str, Any]:
    """Return a member if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def request_values(node: Any) -> Iterator[tuple[str, str]]:
    """Yield (member, text) of every plain value of a request.

    Values in a list have the member of the list. Objects written as JSON text, such as policies, are decoded.
    """
    waiting: list[tuple[str, Any]] = [("", node)]
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(str(member), each) for member, each in value.items()]
        elif isinstance(value, list):
            waiting += [(name, each) for each in value]
        elif (opened := _opened(value)) is not None:
            waiting.append((name, opened))
        else:
            yield name, str(value)


def request_objects(node: Any, with_texts: bool = False) -> Iterator[dict[str, Any]]:
    """Yield every object in a request, at any depth; `with_texts`: also objects written as JSON text, such as policies."""
    waiting = [node]
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif with_texts and (opened := _opened(value)) is not None:
            waiting.append(opened)


def _opened(value: Any) -> dict[str, Any] | None:
    """Return the object whose JSON text a value is; None for any other value."""
    if not isinstance(value, str) or value.lstrip()[:1] != "{":
        return None
    try:
        opened: dict[str, Any] = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return opened


def flat_members(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield (member, value) of every object in a request."""
    for each in request_objects(node):
        yield from each.items()
