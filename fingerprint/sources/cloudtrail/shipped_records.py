r"""Records in the forms of log shippers, searches and connectors.

Example:
    >>> shipped_record(b'{"@timestamp": "t", "message": "{\\"eventName\\": \\"GetUser\\"}"}')
    b'{"eventName": "GetUser"}'

A record is in one of these members, as text or as an object:
- Splunk: `_raw`, `result` and `results` (exports of searches), `event` (HTTP event collector)
- Elasticsearch: `_source` and `hits`
- Elastic Agent, Filebeat, Logstash and Vector: `event.original` and `message`
- Fluent Bit: `log`
- Kafka Connect with schemas: `payload`
- events of Lambda: `body` (SQS), `kinesis.data` in base64 (Kinesis), `Sns`
- SQS by the AWS CLI: `Messages` and `Body`
- CloudTrail Lake: `eventJson`
- rows of cells of queries: `QueryResultRows` (CloudTrail Lake), `results` (CloudWatch Logs Insights)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

import msgspec

from fingerprint.sources.json_text import UNREADABLE, text_of

_RawOrUnset = msgspec.Raw | msgspec.UnsetType


class _Shipped(msgspec.Struct):
    """The members that may hold a record. An object with `eventTime` is a record itself, whatever other members it has.

    The exception is a row of CloudTrail Lake with `eventTime` beside `eventJson`: it has no caller, which every record has.
    """

    time: _RawOrUnset = msgspec.field(name="eventTime", default=msgspec.UNSET)
    caller: _RawOrUnset = msgspec.field(name="userIdentity", default=msgspec.UNSET)
    lake: _RawOrUnset = msgspec.field(name="eventJson", default=msgspec.UNSET)
    rows: _RawOrUnset = msgspec.field(name="QueryResultRows", default=msgspec.UNSET)
    results: _RawOrUnset = msgspec.UNSET
    hits: _RawOrUnset = msgspec.UNSET
    sns: _RawOrUnset = msgspec.field(name="Sns", default=msgspec.UNSET)
    messages: _RawOrUnset = msgspec.field(name="Messages", default=msgspec.UNSET)
    received: _RawOrUnset = msgspec.field(name="Body", default=msgspec.UNSET)
    raw: _RawOrUnset = msgspec.field(name="_raw", default=msgspec.UNSET)
    result: _RawOrUnset = msgspec.UNSET
    source: _RawOrUnset = msgspec.field(name="_source", default=msgspec.UNSET)
    event: _RawOrUnset = msgspec.UNSET
    message: _RawOrUnset = msgspec.UNSET
    log: _RawOrUnset = msgspec.UNSET
    payload: _RawOrUnset = msgspec.UNSET
    body: _RawOrUnset = msgspec.UNSET
    kinesis: _RawOrUnset = msgspec.UNSET


class _Result(msgspec.Struct):
    member: _RawOrUnset = msgspec.field(name="_raw", default=msgspec.UNSET)


class _Event(msgspec.Struct):
    """The member `event`: of Elastic, with its `original`, or of Splunk, where it is a record or an event of EventBridge."""

    member: _RawOrUnset = msgspec.field(name="original", default=msgspec.UNSET)
    time: _RawOrUnset = msgspec.field(name="eventTime", default=msgspec.UNSET)
    kind: _RawOrUnset = msgspec.field(name="detail-type", default=msgspec.UNSET)


class _Hits(msgspec.Struct):
    member: _RawOrUnset = msgspec.field(name="hits", default=msgspec.UNSET)


class _Cell(msgspec.Struct):
    """A cell of a row: `{"eventJson": text}` (CloudTrail Lake) or `{"field": "@message", "value": text}` (Logs Insights)."""

    lake: _RawOrUnset = msgspec.field(name="eventJson", default=msgspec.UNSET)
    field: _RawOrUnset = msgspec.UNSET
    value: _RawOrUnset = msgspec.UNSET


class _Kinesis(msgspec.Struct):
    member: _RawOrUnset = msgspec.field(name="data", default=msgspec.UNSET)


_shipped = msgspec.json.Decoder(_Shipped)
_result = msgspec.json.Decoder(_Result)
_event = msgspec.json.Decoder(_Event)
_hits = msgspec.json.Decoder(_Hits)
_kinesis = msgspec.json.Decoder(_Kinesis)
_row = msgspec.json.Decoder(list[_Cell])


def shipped_record(data: bytes) -> bytes:
    """Return the record, envelope or list in a member of a JSON object; empty if there is none, or `data` is a record itself.

    Raises msgspec.MsgspecError if `data` is no JSON object.
    """
    shipped = _shipped.decode(data)
    if shipped.time is not msgspec.UNSET:
        return b"" if _first_of((shipped.caller,), b"{") else text_of(shipped.lake).encode(errors="replace")
    # a search of Splunk adds fields of its own to the result, also `eventTime`: only `_raw` is the record
    found, original = _member(_result, shipped.result), _member(_event, shipped.event)
    texts = (shipped.raw, found, shipped.lake, original, shipped.event, shipped.message, shipped.log)
    for member in (*texts, shipped.body, shipped.received, shipped.payload):
        if _may_be_record(text := text_of(member)):
            return text.encode(errors="replace")
    if encoded := text_of(_member(_kinesis, shipped.kinesis)):
        return _decode_base64(encoded)
    event = shipped.event if _holds_record(shipped.event) else msgspec.UNSET
    objects = (shipped.result, shipped.source, shipped.payload, shipped.sns, event)
    lists = (shipped.rows, shipped.results, _member(_hits, shipped.hits), shipped.messages)
    return _first_of(objects, b"{") or _first_of(lists, b"[")


def record_in_row(row: bytes) -> bytes:
    """Return the record in a row of a query, which is a JSON array of cells; empty if no cell holds one.

    Example:
        >>> record_in_row(b'[{"eventID": "a"}, {"eventJson": "{}"}]')
        b'{}'
    """
    try:
        cells = _row.decode(row)
    except UNREADABLE:
        return b""
    texts = (text_of(cell.value if text_of(cell.field) == "@message" else cell.lake) for cell in cells)
    return next((text.encode(errors="replace") for text in texts if _may_be_record(text)), b"")


def _member(decoder: msgspec.json.Decoder[Any], raw: _RawOrUnset) -> _RawOrUnset:
    """Return the member that the decoder reads; unset if the value is no such object."""
    try:
        return decoder.decode(raw).member if raw else msgspec.UNSET
    except msgspec.MsgspecError:
        return msgspec.UNSET


def _holds_record(raw: _RawOrUnset) -> bool:
    """Return whether the member `event` is a record or an event of EventBridge (Splunk); Elastic's only describes the event."""
    try:
        event = _event.decode(raw) if raw else _Event()
    except msgspec.MsgspecError:
        return False
    return event.time is not msgspec.UNSET or event.kind is not msgspec.UNSET


def _first_of(members: Iterable[_RawOrUnset], opening: bytes) -> bytes:
    """Return the first member that begins with `opening`, the bracket of an object or of a list; empty if none does."""
    found = (bytes(each) for each in members if isinstance(each, msgspec.Raw))
    return next((each for each in found if each.startswith(opening)), b"")


def _may_be_record(text: str) -> bool:
    """Return whether a text begins like a JSON object or a list of objects; `[INFO] started` does not."""
    return text.lstrip().removeprefix("[").lstrip().startswith("{")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
