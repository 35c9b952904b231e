r"""Records in the form that log shippers, searches and connectors give them.

Example:
    >>> shipped_record(b'{"@timestamp": "t", "message": "{\\"eventName\\": \\"GetUser\\"}"}')
    b'{"eventName": "GetUser"}'

A record lies in a member, as its text or as the object that it is: `_raw` and `result` (Splunk, what its searches export),
`_source` (Elasticsearch), `event.original` and `message` (Elastic Agent, Filebeat, Logstash, Vector), `log` (Fluent Bit),
`payload` (Kafka Connect with schemas), `body` and `kinesis.data` in base64 (SQS and Kinesis, as Lambda gets them).
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from fingerprint.sources.json_text import text_of

_RawOrUnset = msgspec.Raw | msgspec.UnsetType


class _Shipped(msgspec.Struct):
    """The members of which one may hold a record; with `eventTime` it is a record itself, whatever else it has."""

    time: _RawOrUnset = msgspec.field(name="eventTime", default=msgspec.UNSET)
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
    member: _RawOrUnset = msgspec.field(name="original", default=msgspec.UNSET)


class _Kinesis(msgspec.Struct):
    member: _RawOrUnset = msgspec.field(name="data", default=msgspec.UNSET)


_shipped = msgspec.json.Decoder(_Shipped)
_result = msgspec.json.Decoder(_Result)
_event = msgspec.json.Decoder(_Event)
_kinesis = msgspec.json.Decoder(_Kinesis)


def shipped_record(data: bytes) -> bytes:
    """Return the record or envelope that lies in a member of a JSON object; empty where none does, or `data` is a record.

    Raises msgspec.MsgspecError where `data` is no JSON object.
    """
    shipped = _shipped.decode(data)
    if shipped.time is not msgspec.UNSET:
        return b""
    # a search of Splunk adds fields of its own, `eventTime` among them: `_raw` is the record, not the result
    found, original = _member(_result, shipped.result), _member(_event, shipped.event)
    for member in (shipped.raw, found, original, shipped.message, shipped.log, shipped.body, shipped.payload):
        if _may_be_record(text := text_of(member)):
            return text.encode(errors="replace")
    if encoded := text_of(_member(_kinesis, shipped.kinesis)):
        return _decode_base64(encoded)
    objects = (bytes(each) for each in (shipped.result, shipped.source, shipped.payload) if each)
    return next((each for each in objects if each.startswith(b"{")), b"")


def _member(
    decoder: msgspec.json.Decoder[_Result] | msgspec.json.Decoder[_Event] | msgspec.json.Decoder[_Kinesis],
    raw: _RawOrUnset,
) -> _RawOrUnset:
    """Return the member that the decoder reads of what may be an object."""
    try:
        return decoder.decode(raw).member if raw else msgspec.UNSET
    except msgspec.MsgspecError:
        return msgspec.UNSET


def _may_be_record(text: str) -> bool:
    """Return whether a text begins like an object or a list of them; `[INFO] started` does not."""
    return text.lstrip().removeprefix("[").lstrip().startswith("{")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
