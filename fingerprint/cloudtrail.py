"""Bytes to records: takes CloudTrail out of every wrapping it travels in, one bare record a line.

Example:
    >>> split(b'{"Records": [{"eventName": "GetUser"}, {"eventName": "ListUsers"}]}').lines
    [b'{"eventName": "GetUser"}', b'{"eventName": "ListUsers"}']

The wrappings, each also inside another: a bare record; `{"Records": [...]}` (delivery files); EventBridge
(`detail-type`, `detail`); CloudWatch Logs subscriptions (`logEvents[].message`, or `awslogs.data`, base64
of gzip);
a JSON array or several documents one after the other; gzip around any of them.

The bare majority is recognised by its first key and by whole-batch tests, and is not parsed here: `flatten`
does that.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import msgspec
import numpy as np
from numpy.typing import NDArray

from fingerprint.domain import Reject
from fingerprint.settings import Reading

Origin = tuple[str, str]  # source, position

CHUNK = 1 << 20  # bytes looked at together: what a processor's cache holds
MAX_WRAPPINGS = 8  # an envelope in an envelope in ...: AWS makes three, nobody makes nine
_BLANK = b" \t\r\n\x00"
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_GZIP_AS_BASE64 = b"H4sI"

_BARE = re.compile(
    rb'\{\s*"(?:event(?:Version|Time|Source|Name|ID|Type|Category)|userIdentity|awsRegion|sourceIPAddress|userAgent'
    rb"|requestParameters|responseElements|requestID|additionalEventData|addendum|apiVersion|error(?:Code|Message)"
    rb'|managementEvent|readOnly|recipientAccountId|resources|sharedEventID|tlsDetails)"'
)
_USUAL = b'{"eventVersion":'  # how AWS begins every record: nine in ten need no regular expression
_HINTS = (b'"Records"', b'"detail-type"', b'"logEvents"', b'"awslogs"', b'"messageType"')
_RECORDS = re.compile(rb'"Records"\s*:\s*\[')
_FIRST_KEY = re.compile(rb'\{\s*("[^"\\]{1,64}")\s*:')
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[{}]', re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Records:
    """Bare records, one a line, valid UTF-8 and within the bounds; what could not be read; what needs no
    reading.

    `skipped` counts what is no event by design: control messages here; digests, insights and test notices
    in `flatten`.
    """

    lines: list[bytes]
    origins: list[Origin]
    rejects: list[Reject]
    skipped: int = 0


@dataclass(slots=True)
class _Pile:
    """Records while they are being gathered."""

    bounds: Reading
    lines: list[bytes] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    skipped: int = 0

    def reject(self, origin: Origin, reason: str) -> None:
        self.rejects.append(Reject(*origin, reason))

    def records(self) -> Records:
        return Records(self.lines, self.origins, self.rejects, self.skipped)


class _Envelope(msgspec.Struct):
    """The keys that tell one wrapping from another; everything else is skipped without building objects."""

    records: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="Records", default=msgspec.UNSET)
    kind: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="detail-type", default=msgspec.UNSET)
    detail: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    log_events: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="logEvents", default=msgspec.UNSET)
    message_type: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="messageType", default=msgspec.UNSET)
    awslogs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _LogEvent(msgspec.Struct):
    message: str


class _LogsData(msgspec.Struct):
    data: str


_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
_envelope = msgspec.json.Decoder(_Envelope)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_any = msgspec.json.Decoder(msgspec.Raw)
_text = msgspec.json.Decoder(str)
_log_event = msgspec.json.Decoder(_LogEvent)
_logs_data = msgspec.json.Decoder(_LogsData)


def split(message: bytes, source: str = "", position: str = "", bounds: Reading | None = None) -> Records:
    """The records of one message or document, whatever wraps them; never raises, whatever the bytes.

    `source` and `position` name the message; records inside it are `position/index`.
    """
    pile = _Pile(bounds or Reading())
    _unwrap(message, (source, position), pile, MAX_WRAPPINGS, whole=True)
    return pile.records()


def split_lines(
    lines: Sequence[bytes], source: str = "", first: int = 1, bounds: Reading | None = None
) -> Records:
    """The records of many lines, each one JSON value; `first` is the number of the first line. Blank lines
    are nothing."""
    pile = _Pile(bounds or Reading())
    bare = [line if line[:2] == _GZIP else line.strip(_BLANK) for line in lines]
    numbers: Sequence[int] = range(first, first + len(bare))
    if not all(bare):
        numbers = [number for number, line in zip(numbers, bare, strict=True) if line]
        bare = [line for line in bare if line]
    origins = list(zip(repeat(source), map(str, numbers)))
    _gather(bare, origins, pile, MAX_WRAPPINGS)
    return pile.records()


def may_be_envelope(head: bytes) -> bool:
    """Whether a line that begins so may hold many records, and so may be longer than one record may be."""
    head = head.removeprefix(_BOM).lstrip(_BLANK)
    if head.startswith((_GZIP, _GZIP_AS_BASE64, b"[")) or b'}{"' in head:
        return True
    return not _BARE.match(head) and any(hint in head for hint in _HINTS)


def is_object(line: bytes) -> bool:
    """Whether a line is one whole JSON object or array by itself."""
    line = line.removeprefix(_BOM).strip(_BLANK)
    return line[:1] in (b"{", b"[") and len(line) > 2 and is_json(line)


def is_json(text: bytes) -> bool:
    """Whether the bytes are one JSON value (strings unchecked)."""
    try:
        _any.decode(text)
    except _UNREADABLE:
        return False
    return True


def depth(record: bytes) -> int:
    """How deep objects and arrays nest, by counting brackets outside strings; works on broken JSON too."""
    structure = np.frombuffer(_STRING.sub(b"", record), np.uint8) | 0x20  # [ and { become {, ] and } become }
    steps = (structure == 0x7B).astype(np.int64) - (structure == 0x7D)
    return int(np.cumsum(steps).max(initial=0))


def cut(text: bytes) -> Iterator[tuple[bytes, bool]]:
    """Objects of a broken document, one by one, and whether each is closed: a broken one never costs its
    neighbours.

    Records begin with the same key, so `}, {"eventVersion":` is a border that no string can contain (its
    quotes would be
    escaped). Between borders, objects are cut by balanced braces outside strings. One pass, linear in the
    text.
    """
    first = _FIRST_KEY.search(text)
    if first is None:
        yield from ([(text, False)] if text.strip(_BLANK + b",[]{}") else [])
        return
    border = re.compile(rb"(?<=\})\s*,?\s*(?=\{\s*" + re.escape(first[1]) + rb"\s*:)")
    start = 0
    for match in border.finditer(text, first.start()):
        yield from _balanced(text[start : match.start()])
        start = match.end()
    yield from _balanced(text[start:])


def _balanced(text: bytes) -> Iterator[tuple[bytes, bool]]:
    level = start = 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if mark == 0x7B:  # {
            start = start if level else token.start()
            level += 1
        elif mark == 0x7D and level:  # }
            level -= 1
            if not level:
                yield text[start : token.end()], True
    if level:
        yield text[start:], False


def joined(lines: Sequence[bytes]) -> tuple[bytes, NDArray[np.int64]]:
    """Lines as one text, and where in it each begins and the last ends: (N + 1,)."""
    borders = np.zeros(len(lines) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)), out=borders[1:])
    return b"".join(lines), borders


def _gather(lines: list[bytes], origins: list[Origin], pile: _Pile, wrappings: int) -> None:
    """Bare lines go straight in; only those that a cheap test points at are looked at one by one."""
    suspects = _suspects(lines, pile.bounds)
    done = 0
    for index in suspects:
        pile.lines += lines[done:index]
        pile.origins += origins[done:index]
        _unwrap(lines[index], origins[index], pile, wrappings)
        done = index + 1
    pile.lines += lines[done:]
    pile.origins += origins[done:]


def _suspects(lines: list[bytes], bounds: Reading) -> list[int]:
    """Indices of lines that do not begin like a record, are not UTF-8, or may be past a bound; ascending."""
    if not lines:
        return []
    bare = _BARE.match
    joined = b"".join(lines)
    found = {index for index, line in enumerate(lines) if not line.startswith(_USUAL) and not bare(line)}
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    found.update(np.flatnonzero(sizes > bounds.max_record_bytes).tolist())
    found.update(np.flatnonzero(_brackets(joined, sizes) > bounds.max_depth).tolist())
    if not _is_utf8(joined):
        found.update(index for index, line in enumerate(lines) if not _is_utf8(line))
    return sorted(found)


def _brackets(joined: bytes, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Opening brackets per line, strings included: an upper bound of the depth, at a tenth of its price."""
    text = np.frombuffer(joined, np.uint8)
    places = [
        np.flatnonzero((text[start : start + CHUNK] | 0x20) == 0x7B) + start  # [ becomes {
        for start in range(0, len(text), CHUNK)
    ]
    return np.diff(np.searchsorted(np.concatenate([[], *places]), np.cumsum(sizes)), prepend=0)


def _stripped(data: bytes) -> bytes:
    """Without blanks and zeros around it; gzip is left alone, for it may well end in zeros."""
    return data if data.startswith(_GZIP) else data.strip(_BLANK)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unwrap(data: bytes, origin: Origin, pile: _Pile, wrappings: int, whole: bool = False) -> None:
    """One value that may be an envelope. `whole`: a message or document, so it may also be several values
    in a row."""
    data = _stripped(_stripped(data).removeprefix(_BOM))
    if not data:
        return
    if not wrappings:
        pile.reject(origin, f"more than {MAX_WRAPPINGS} envelopes around one another")
    elif data.startswith(_GZIP):
        _gunzip(data, origin, pile, wrappings)
    elif data.startswith(_GZIP_AS_BASE64):
        _from_base64(data, origin, pile, wrappings)
    elif data.startswith(b"["):
        _many(data, origin, pile, wrappings)
    elif any(hint in data for hint in _HINTS) and not _BARE.match(data):
        _open_envelope(data, origin, pile, wrappings)
    elif whole and not is_json(data):
        _recover(data, origin, pile, wrappings)
    else:
        _bare(data, origin, pile)


def _bare(line: bytes, origin: Origin, pile: _Pile) -> None:
    if len(line) > pile.bounds.max_record_bytes:
        pile.reject(origin, f"larger than {pile.bounds.max_record_bytes:,} bytes")
    elif line.count(b"{") + line.count(b"[") > pile.bounds.max_depth and depth(line) > pile.bounds.max_depth:
        pile.reject(origin, f"nested deeper than {pile.bounds.max_depth}")
    else:
        pile.lines.append(line if _is_utf8(line) else line.decode(errors="replace").encode())
        pile.origins.append(origin)


def _open_envelope(data: bytes, origin: Origin, pile: _Pile, wrappings: int) -> None:
    try:
        envelope = _envelope.decode(data)
    except _UNREADABLE:
        _recover(data, origin, pile, wrappings)
        return
    if envelope.records is not msgspec.UNSET:
        _many(bytes(envelope.records), origin, pile, wrappings)
    elif envelope.log_events is not msgspec.UNSET or envelope.message_type is not msgspec.UNSET:
        _cloudwatch(envelope, origin, pile, wrappings)
    elif envelope.awslogs is not msgspec.UNSET:
        _awslogs(bytes(envelope.awslogs), origin, pile, wrappings)
    elif envelope.kind is not msgspec.UNSET:
        _eventbridge(envelope, origin, pile, wrappings)
    else:
        _bare(data, origin, pile)  # the hint was a value, or deeper inside


def _many(data: bytes, origin: Origin, pile: _Pile, wrappings: int) -> None:
    """A JSON array of records or envelopes."""
    try:
        items = [bytes(item) for item in _items.decode(data)]
    except _UNREADABLE:
        _recover(data, origin, pile, wrappings)
        return
    inside = _inside(origin, len(items))
    for item, where in zip(items, inside, strict=True):
        if item.startswith(b"["):
            pile.reject(where, "a record must be a JSON object, not an array")
    kept = [pair for pair in zip(items, inside, strict=True) if not pair[0].startswith(b"[")]
    _gather([item for item, _ in kept], [where for _, where in kept], pile, wrappings - 1)


def _recover(data: bytes, origin: Origin, pile: _Pile, wrappings: int) -> None:
    """What can be cut out of a document that is no JSON, or that is several documents in a row."""
    pieces = list(cut(data))
    if len(pieces) <= 1 and (inner := _RECORDS.search(data)):
        pieces = list(cut(data[inner.end() :]))
    origins = _inside(origin, len(pieces)) if len(pieces) > 1 else [origin] * len(pieces)
    whole = [(piece, where) for (piece, closed), where in zip(pieces, origins, strict=True) if closed]
    for (_, closed), where in zip(pieces, origins, strict=True):
        if not closed:
            pile.reject(where, "malformed JSON: no complete object")
    if (whole and whole[0][0] == data) or (not pieces and is_json(data)):
        _bare(data, origin, pile)  # nothing to cut: `flatten` says what is wrong with it
        return
    if not pieces:
        pile.reject(origin, "malformed JSON: no object in it")
    _gather([piece for piece, _ in whole], [where for _, where in whole], pile, wrappings - 1)


def _eventbridge(envelope: _Envelope, origin: Origin, pile: _Pile, wrappings: int) -> None:
    kind = _as_text(envelope.kind)
    if envelope.detail is msgspec.UNSET or not kind.endswith("via CloudTrail"):
        pile.reject(origin, "an EventBridge event, but not one of CloudTrail")
    elif "Insight" in kind:
        pile.skipped += 1
    else:
        _unwrap(bytes(envelope.detail), origin, pile, wrappings - 1)


def _cloudwatch(envelope: _Envelope, origin: Origin, pile: _Pile, wrappings: int) -> None:
    if _as_text(envelope.message_type) == "CONTROL_MESSAGE":
        pile.skipped += 1
        return
    try:
        entries = _items.decode(envelope.log_events)  # type: ignore[arg-type]
    except (*_UNREADABLE, TypeError):
        pile.reject(origin, "a CloudWatch Logs message without a list of logEvents")
        return
    for entry, where in zip(entries, _inside(origin, len(entries)), strict=True):
        try:
            message = _log_event.decode(entry).message
        except _UNREADABLE:
            pile.reject(where, "a CloudWatch Logs event without a message")
            continue
        _unwrap(message.encode(errors="replace"), where, pile, wrappings - 1, whole=True)


def _awslogs(data: bytes, origin: Origin, pile: _Pile, wrappings: int) -> None:
    try:
        text = _logs_data.decode(data).data.encode()
    except _UNREADABLE:
        pile.reject(origin, "awslogs without data")
        return
    _from_base64(text, origin, pile, wrappings)


def _from_base64(text: bytes, origin: Origin, pile: _Pile, wrappings: int) -> None:
    try:
        data = base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        pile.reject(origin, "looks like base64, but is not")
        return
    if not data.startswith(_GZIP):
        pile.reject(origin, "base64 of something other than gzip")
        return
    _gunzip(data, origin, pile, wrappings)


def _gunzip(data: bytes, origin: Origin, pile: _Pile, wrappings: int) -> None:
    """Expands to at most `max_document_bytes`; several gzip members in a row are one document."""
    limit = pile.bounds.max_document_bytes
    expanded = bytearray()
    try:
        while data.startswith(_GZIP) and len(expanded) <= limit:
            member = zlib.decompressobj(31)
            expanded += member.decompress(data, limit + 1 - len(expanded))
            data = member.unused_data.lstrip(b"\x00")
            if not member.eof and len(expanded) <= limit:
                raise zlib.error("cut short")
    except zlib.error as error:
        pile.reject(origin, f"gzip is damaged: {error}")
    if len(expanded) > limit:
        pile.reject(origin, f"expands to more than {limit:,} bytes")
        return
    _documents(bytes(expanded), origin, pile, wrappings - 1)


def _documents(data: bytes, origin: Origin, pile: _Pile, wrappings: int) -> None:
    """Expanded text: JSON lines when its first line is a value by itself, else one document."""
    lines = [line for line in data.split(b"\n") if line.strip(_BLANK)]
    if len(lines) > 1 and is_object(lines[0]):
        _gather([line.strip(_BLANK) for line in lines], _inside(origin, len(lines)), pile, wrappings)
    else:
        _unwrap(data, origin, pile, wrappings, whole=True)


def _as_text(raw: msgspec.Raw | msgspec.UnsetType) -> str:
    try:
        return "" if raw is msgspec.UNSET else _text.decode(raw)
    except _UNREADABLE:
        return ""


def _inside(origin: Origin, count: int) -> list[Origin]:
    source, position = origin
    prefix = f"{position}/" if position else ""
    return [(source, f"{prefix}{index}") for index in range(count)]


def merge(parts: Sequence[Records]) -> Records:
    """Several Records as one, in order."""
    return Records(
        [line for part in parts for line in part.lines],
        [origin for part in parts for origin in part.origins],
        [reject for part in parts for reject in part.rejects],
        sum(part.skipped for part in parts),
    )
