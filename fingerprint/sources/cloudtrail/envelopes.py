"""Bytes to records: unwrap CloudTrail from every envelope it travels in, one bare record a line.

Example:
    >>> split_message(b'{"Records": [{"eventName": "GetUser"}, {"eventName": "ListUsers"}]}').lines
    [b'{"eventName": "GetUser"}', b'{"eventName": "ListUsers"}']

The envelopes, each also inside another: a bare record; `{"Records": [...]}` (delivery files); EventBridge (`detail-type`,
`detail`); SNS (`Message`); CloudWatch Logs subscriptions (`logEvents[].message`, or `awslogs.data`, base64 of gzip); what the
AWS CLI prints (`Events[].CloudTrailEvent` of `cloudtrail lookup-events`, `events[].message` of `logs filter-log-events`); what
log shippers and searches make of a record (`shipped_records`); a JSON array, a JSON string that holds an object, or several
documents one after the other; gzip around any of them. Bare records, which are most, are recognised by their first key and by
tests of the whole batch, and are not parsed here: `flatten` does that.

What a message may cost is bounded, however it is wrapped: one budget of expanded bytes for everything inside it
(`max_document_bytes`), MAX_RECORDS records, MAX_REJECTS_PER_MESSAGE rejects of its own (one more says how many others there
are). Records are handed on in parts of about PART_BYTES. Everything here, the regular expressions too, is linear in the bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat

import msgspec
import numpy as np
from numpy.typing import NDArray

from fingerprint.core.alert import Reject
from fingerprint.sources import json_pieces
from fingerprint.sources.base import Origin, RecordBatch, merge_batches
from fingerprint.sources.cloudtrail.shipped_records import shipped_record
from fingerprint.sources.inflate import GZIP_MAGIC, ExpansionBudget, GzipInflater
from fingerprint.sources.joined_lines import JoinedLines, join_lines, lines_with_prefix
from fingerprint.sources.json_text import (
    BLANK,
    BYTE_ORDER_MARK,
    UNREADABLE,
    is_json,
    is_json_object,
    text_of,
)
from fingerprint.sources.limits import ReadLimits

PART_BYTES = 8 << 20  # of records that are handed on at a time, about ...
PART_RECORDS = 16_384  # ... or so many records and rejects
MAX_RECORDS = 1_000_000  # in one message or document: AWS writes some ten thousand
MAX_REJECTS_PER_MESSAGE = 100  # of one message or document, each with its place; the rest is counted in one
MAX_WRAPPINGS = 8  # an envelope in an envelope in ...: AWS makes three
_NO_BLANK = re.compile(rb"[^ \t\r\n\x00]")
_GZIP_AS_BASE64 = b"H4sI"

_BARE = re.compile(
    rb'\{\s*"(?:event(?:Version|Time|Source|Name|ID|Type|Category)|userIdentity|awsRegion|sourceIPAddress|userAgent'
    rb"|requestParameters|responseElements|requestID|additionalEventData|addendum|apiVersion|error(?:Code|Message)"
    rb'|managementEvent|readOnly|recipientAccountId|resources|sharedEventID|tlsDetails)"'
)
RECORD_PREFIX = b'{"eventVersion":'  # how AWS begins nearly every record
_HINT = re.compile(
    rb'"(?:Records|detail-type|logEvents|awslogs|messageType|Events|CloudTrailEvent|events|Message'
    rb'|_raw|_source|original|message|log|payload|body|kinesis)"'
)
_OBJECT_AS_TEXT = b'"{'
_RECORDS = re.compile(rb'"Records"\s*:\s*\[')


@dataclass(slots=True)
class _MessageUsage:
    """Bytes, records and rejects that one message has cost so far."""

    budget: ExpansionBudget
    records: int = 0  # and rejects
    rejects: int = 0
    closed: bool = False  # it had more than MAX_RECORDS

    def begin(self, budget: ExpansionBudget) -> None:
        self.budget, self.records, self.rejects, self.closed = budget, 0, 0, False


@dataclass(slots=True)
class _RecordCollector:
    """Records of the messages that are being read, until they are handed on as a batch."""

    limits: ReadLimits
    message: _MessageUsage
    lines: list[bytes] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    skipped: int = 0
    size: int = 0  # of the lines that were weighed
    weighed: int = 0

    def add(self, lines: list[bytes], origins: list[Origin]) -> None:
        self.lines += lines
        self.origins += origins
        self.message.records += len(lines)

    def reject(self, origin: Origin, reason: str) -> None:
        self.message.records += 1
        self.message.rejects += 1
        if self.message.rejects <= MAX_REJECTS_PER_MESSAGE:
            self.rejects.append(Reject(*origin, reason))

    def remaining_records(self, origin: Origin) -> int:
        """Return how many more records the message may have; add a reject, once, where it is none."""
        room = MAX_RECORDS - self.message.records
        if room <= 0 and not self.message.closed:
            self.message.closed = True
            self.reject(origin, f"more than {MAX_RECORDS:,} records in one message: the rest is not read")
        return max(room, 0)

    def take_full_parts(self) -> Iterator[RecordBatch]:
        """Yield what was collected, where it has come to a part."""
        new, self.weighed = self.lines[self.weighed :], len(self.lines)
        self.size += sum(map(len, new))
        if self.size >= PART_BYTES or len(self.lines) + len(self.rejects) >= PART_RECORDS:
            yield self.take()

    def take(self) -> RecordBatch:
        taken = RecordBatch(self.lines, self.origins, self.rejects, self.skipped)
        self.lines, self.origins, self.rejects = [], [], []
        self.skipped = self.size = self.weighed = 0
        return taken


class _Envelope(msgspec.Struct):
    """The keys that distinguish the envelopes; everything else is skipped without building objects."""

    records: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="Records", default=msgspec.UNSET)
    kind: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="detail-type", default=msgspec.UNSET)
    detail: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    log_events: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="logEvents", default=msgspec.UNSET)
    message_type: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="messageType", default=msgspec.UNSET)
    awslogs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    lookup: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="Events", default=msgspec.UNSET)
    lookup_record: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        name="CloudTrailEvent", default=msgspec.UNSET
    )
    filtered_events: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="events", default=msgspec.UNSET)
    sns_type: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="Type", default=msgspec.UNSET)
    sns_message: msgspec.Raw | msgspec.UnsetType = msgspec.field(name="Message", default=msgspec.UNSET)


class _LogEvent(msgspec.Struct):
    message: str


class _LogsData(msgspec.Struct):
    data: str


_envelope = msgspec.json.Decoder(_Envelope)
_log_event = msgspec.json.Decoder(_LogEvent)
_logs_data = msgspec.json.Decoder(_LogsData)


def split_message(
    message: bytes, source: str = "", position: str = "", limits: ReadLimits | None = None
) -> RecordBatch:
    """Return the records of one message or document, whatever wraps them; never raises, whatever the bytes.

    `source` and `position` name the message; records inside it are `position/index`.
    """
    return merge_batches(list(split_message_in_parts(message, source, position, limits)))


def split_message_in_parts(
    message: bytes,
    source: str = "",
    position: str = "",
    limits: ReadLimits | None = None,
    budget: ExpansionBudget | None = None,
) -> Iterator[RecordBatch]:
    """Yield the same a part at a time, in bounded memory; one part at least.

    `budget` is what the document that the message lies in may still expand to.
    """
    limits = limits or ReadLimits()
    own = ExpansionBudget(limits.max_document_bytes, budget)
    collector = _RecordCollector(limits, _MessageUsage(own))
    yield from _read_message(message, (source, position), collector, own, whole=True)
    yield collector.take()


def split_lines(
    lines: Sequence[bytes], source: str = "", first: int = 1, limits: ReadLimits | None = None
) -> RecordBatch:
    """Return the records of many lines, each one JSON value; `first` is the number of the first line. Blank lines are skipped."""
    return merge_batches(list(split_lines_in_parts(lines, source, first, limits)))


def split_lines_in_parts(
    lines: Sequence[bytes],
    source: str = "",
    first: int = 1,
    limits: ReadLimits | None = None,
    budget: ExpansionBudget | None = None,
) -> Iterator[RecordBatch]:
    """Yield the same a part at a time; each line is a message with a budget of its own, and all spend of `budget`."""
    limits = limits or ReadLimits()
    collector = _RecordCollector(limits, _MessageUsage(ExpansionBudget(limits.max_document_bytes, budget)))
    joined = join_lines(lines)
    bare = list(lines)
    numbers: Sequence[int] = range(first, first + len(bare))
    if not _are_objects(*joined):
        bare = list(map(_strip_padding, lines))
        numbers = [number for number, line in zip(numbers, bare, strict=True) if line]
        bare = [line for line in bare if line]
        joined = join_lines(bare)
    origins = list(zip(repeat(source), map(str, numbers)))
    done = 0
    for index in _suspects(bare, joined, limits):
        collector.add(bare[done:index], origins[done:index])
        own = ExpansionBudget(limits.max_document_bytes, budget)
        yield from _read_message(bare[index], origins[index], collector, own)
        done = index + 1
    collector.add(bare[done:], origins[done:])
    yield collector.take()


def may_be_envelope(head: bytes) -> bool:
    """Return whether a line that begins so may hold many records, and so may be longer than one record may be."""
    head = head.removeprefix(BYTE_ORDER_MARK).lstrip(BLANK)
    if head.startswith((GZIP_MAGIC, _GZIP_AS_BASE64, b"[")) or b'}{"' in head or b'}\t{"' in head:
        return True
    return not _BARE.match(head) and bool(_HINT.search(head))


def _read_message(
    data: bytes, origin: Origin, collector: _RecordCollector, budget: ExpansionBudget, whole: bool = False
) -> Iterator[RecordBatch]:
    """Collect one message's records, and one reject that counts those past the limit.

    A message that does not fit into memory is a reject.
    """
    message = collector.message
    message.begin(budget)
    try:
        yield from _unwrap(data, origin, collector, MAX_WRAPPINGS, whole)
    except MemoryError:
        collector.reject(origin, "does not fit into memory")
    if (more := message.rejects - MAX_REJECTS_PER_MESSAGE) > 0:
        reason = f"and {more:,} more in here that could not be read"
        collector.rejects.append(Reject(*origin, reason, more))


def _gather(
    lines: list[bytes], origins: list[Origin], collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    """Collect bare lines at once, and unwrap only those that a cheap test points at."""
    room = collector.remaining_records(origins[0]) if lines else 0
    lines, over = lines[:room], origins[room : room + 1]
    done = 0
    for index in _suspects(lines, join_lines(lines), collector.limits):
        collector.add(lines[done:index], origins[done:index])
        yield from _unwrap(lines[index], origins[index], collector, wrappings)
        done = index + 1
    collector.add(lines[done:], origins[done : len(lines)])
    if over:
        collector.remaining_records(over[0])
    yield from collector.take_full_parts()


def _suspects(lines: list[bytes], joined: JoinedLines, limits: ReadLimits) -> list[int]:
    """Return indices of lines that do not begin like a record, are not UTF-8, or may be past a bound; ascending."""
    text, borders = joined
    unusual = np.flatnonzero(~lines_with_prefix(RECORD_PREFIX, text, borders)).tolist()
    found = {index for index in unusual if not _BARE.match(lines[index])}
    found.update(np.flatnonzero(np.diff(borders) > limits.max_record_bytes).tolist())
    found.update(np.flatnonzero(_brackets(text, borders) > limits.max_json_depth).tolist())
    if not _is_utf8(text):
        found.update(index for index, line in enumerate(lines) if not _is_utf8(line))
    return sorted(found)


def _are_objects(text: bytes, borders: NDArray[np.int64]) -> bool:
    """Return whether all of the joined lines begin and end with braces, so that no padding stands around any."""
    codes, begin, end = np.frombuffer(text, np.uint8), borders[:-1], borders[1:]
    return bool((begin < end).all() and (codes[begin] == 0x7B).all() and (codes[end - 1] == 0x7D).all())


def _brackets(text: bytes, borders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return opening brackets per line, strings included: an upper bound of the depth, at a fraction of its price."""
    # Numba takes half a second, and most commands read no records.
    from fingerprint.sources import compiled_lines

    opening = np.empty(len(borders) - 1, np.int64)
    compiled_lines.count_brackets(np.frombuffer(text, np.uint8), borders, opening)
    return opening


def _strip_padding(data: bytes) -> bytes:
    """Return the data without blanks and zeros around it; gzip is left alone, because it may end in zeros."""
    return data if data.startswith(GZIP_MAGIC) else data.strip(BLANK)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unwrap(
    data: bytes, origin: Origin, collector: _RecordCollector, wrappings: int, whole: bool = False
) -> Iterator[RecordBatch]:
    """Collect one value that may be an envelope; a `whole` message or document may also be several values in a row."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):  # as `>` of Windows PowerShell writes
        data = data.decode("utf-16", errors="replace").encode()
    data = _strip_padding(_strip_padding(data).removeprefix(BYTE_ORDER_MARK))
    if not data or not collector.remaining_records(origin):
        return
    if not wrappings:
        collector.reject(origin, f"more than {MAX_WRAPPINGS} envelopes around one another")
    elif data.startswith(GZIP_MAGIC):
        yield from _gunzip(data, origin, collector, wrappings)
    elif data.startswith(_GZIP_AS_BASE64):
        yield from _from_base64(data, origin, collector, wrappings)
    elif data.startswith(b"["):
        yield from _open_array(data, origin, collector, wrappings)
    elif data.startswith(_OBJECT_AS_TEXT) and (text := text_of(data)):
        yield from _unwrap_text(text, origin, collector, wrappings)
    elif not _BARE.match(data) and _HINT.search(data):
        yield from _open_envelope(data, origin, collector, wrappings)
    elif whole and not is_json(data):
        yield from _recover(data, origin, collector, wrappings)
    else:
        _add_bare_record(data, origin, collector)


def _add_bare_record(line: bytes, origin: Origin, collector: _RecordCollector) -> None:
    if len(line) > collector.limits.max_record_bytes:
        collector.reject(origin, f"larger than {collector.limits.max_record_bytes:,} bytes")
    elif (
        line.count(b"{") + line.count(b"[") > collector.limits.max_json_depth
        and json_pieces.json_depth(line) > collector.limits.max_json_depth
    ):
        collector.reject(origin, f"nested deeper than {collector.limits.max_json_depth}")
    else:
        collector.add([line if _is_utf8(line) else line.decode(errors="replace").encode()], [origin])


def _open_envelope(
    data: bytes, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    try:
        envelope = _envelope.decode(data)
    except UNREADABLE:
        yield from _recover(data, origin, collector, wrappings)
        return
    if envelope.records is not msgspec.UNSET:
        yield from _open_array(bytes(envelope.records), origin, collector, wrappings)
    elif envelope.lookup is not msgspec.UNSET:
        yield from _open_array(bytes(envelope.lookup), origin, collector, wrappings)
    elif text := text_of(envelope.lookup_record):
        yield from _unwrap_text(text, origin, collector, wrappings)
    elif envelope.log_events is not msgspec.UNSET or envelope.message_type is not msgspec.UNSET:
        yield from _cloudwatch(envelope, origin, collector, wrappings)
    elif envelope.awslogs is not msgspec.UNSET:
        yield from _awslogs(bytes(envelope.awslogs), origin, collector, wrappings)
    elif envelope.kind is not msgspec.UNSET:
        yield from _eventbridge(envelope, origin, collector, wrappings)
    elif envelope.filtered_events is not msgspec.UNSET:
        yield from _log_events(bytes(envelope.filtered_events), origin, collector, wrappings)
    elif text_of(envelope.sns_type) == "Notification" and (text := text_of(envelope.sns_message)):
        yield from _unwrap_text(text, origin, collector, wrappings)
    elif inner := shipped_record(data):
        yield from _unwrap(inner, origin, collector, wrappings - 1, whole=True)
    else:
        _add_bare_record(data, origin, collector)  # the hint was a value, or deeper inside


def _open_array(
    data: bytes, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    """Collect a JSON array of records or envelopes."""
    first = 0
    for items in json_pieces.array_items(data):
        if isinstance(items, bytes):
            first = yield from _recover(items, origin, collector, wrappings, first)
            continue
        inside = _nested_origins(origin, len(items), first)
        first += len(items)
        if any(item.startswith(b"[") for item in items):
            items, inside = _without_arrays(items, inside, collector)
        yield from _gather(items, inside, collector, wrappings - 1)
        if collector.message.closed:
            return


def _without_arrays(
    items: list[bytes], inside: list[Origin], collector: _RecordCollector
) -> tuple[list[bytes], list[Origin]]:
    kept = []
    for number, item in enumerate(items):
        if item.startswith(b"["):
            collector.reject(inside[number], "a record must be a JSON object, not an array")
        else:
            kept.append(number)
    return [items[number] for number in kept], [inside[number] for number in kept]


def _recover(
    data: bytes, origin: Origin, collector: _RecordCollector, wrappings: int, first: int = 0
) -> Generator[RecordBatch, None, int]:
    """Collect what can be cut out of a document that is no JSON, or is several documents in a row; return the number of pieces.

    `first` is the number of the first piece where the text is a window of an array.
    """
    pieces = json_pieces.recover_objects(data)
    head = list(islice(pieces, 2))
    if len(head) <= 1 and (inner := _RECORDS.search(data)):
        pieces = json_pieces.recover_objects(data[inner.end() :])
        head = list(islice(pieces, 2))
    if (head and head[0] == (data, True)) or (not head and is_json(data)):
        _add_bare_record(data, origin, collector)  # nothing to cut: `flatten` says what is wrong with it
        return 1
    if not head:
        collector.reject(origin, "malformed JSON: no object in it")
        return 1
    several, pieces = first > 0 or len(head) > 1, chain(head, pieces)
    while found := _take_up_to(json_pieces.SCAN_BYTES, pieces):
        origins = _nested_origins(origin, len(found), first) if several else [origin]
        first += len(found)
        for where in (where for (_, closed), where in zip(found, origins, strict=True) if not closed):
            collector.reject(where, "malformed JSON: no complete object")
        whole = [(piece, where) for (piece, closed), where in zip(found, origins, strict=True) if closed]
        yield from _gather(
            [piece for piece, _ in whole], [where for _, where in whole], collector, wrappings - 1
        )
        if collector.message.closed:
            break
    return first


def _take_up_to(size: int, pieces: Iterable[tuple[bytes, bool]]) -> list[tuple[bytes, bool]]:
    """Return the next pieces, until they have come to a size or are PART_RECORDS."""
    found: list[tuple[bytes, bool]] = []
    for each in islice(pieces, PART_RECORDS):
        found.append(each)
        size -= len(each[0])
        if size <= 0:
            break
    return found


def _eventbridge(
    envelope: _Envelope, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    kind = text_of(envelope.kind)
    if envelope.detail is msgspec.UNSET or not kind.endswith("via CloudTrail"):
        collector.reject(origin, "an EventBridge event, but not one of CloudTrail")
    elif "Insight" in kind:
        collector.skipped += 1
    else:
        yield from _unwrap(bytes(envelope.detail), origin, collector, wrappings - 1)


def _cloudwatch(
    envelope: _Envelope, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    if text_of(envelope.message_type) == "CONTROL_MESSAGE":
        collector.skipped += 1
        return
    events = b"" if envelope.log_events is msgspec.UNSET else bytes(envelope.log_events)
    yield from _log_events(events, origin, collector, wrappings)


def _log_events(
    data: bytes, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    """Collect the messages of CloudWatch Logs events."""
    first = 0
    for entries in json_pieces.array_items(data):
        if isinstance(entries, bytes):
            collector.reject(origin, "a CloudWatch Logs message without a list of logEvents")
            return
        for entry, where in zip(entries, _nested_origins(origin, len(entries), first), strict=True):
            yield from _log_entry(entry, where, collector, wrappings)
            if collector.message.closed:
                return
        first += len(entries)
        yield from collector.take_full_parts()


def _log_entry(
    entry: bytes, where: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    try:
        message = _log_event.decode(entry).message
    except UNREADABLE:
        collector.remaining_records(where)
        collector.reject(where, "a CloudWatch Logs event without a message")
        return
    yield from _unwrap_text(message, where, collector, wrappings)


def _unwrap_text(
    text: str, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    """Collect what a JSON string holds, one level deeper."""
    return _unwrap(text.encode(errors="replace"), origin, collector, wrappings - 1, whole=True)


def _awslogs(
    data: bytes, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    try:
        text = _logs_data.decode(data).data.encode()
    except UNREADABLE:
        collector.reject(origin, "awslogs without data")
        return
    yield from _from_base64(text, origin, collector, wrappings)


def _from_base64(
    text: bytes, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    try:
        data = base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        collector.reject(origin, "looks like base64, but is not")
        return
    if not data.startswith(GZIP_MAGIC):
        collector.reject(origin, "base64 of something other than gzip")
        return
    yield from _gunzip(data, origin, collector, wrappings)


def _gunzip(
    data: bytes, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    """Expand up to what is left of the message's budget; several gzip members in a row are one document."""
    budget, inflate = collector.message.budget, GzipInflater(strict=False)
    expanded: list[bytes] = []
    try:
        for text in inflate.read(iter([data])):
            if not budget.spend(len(text)):
                collector.reject(origin, _too_large(len(data), collector.message))
                return
            expanded.append(text)
        if not inflate.complete:
            raise zlib.error("cut short")
    except zlib.error as error:
        collector.reject(origin, f"gzip is damaged: {error}")
    yield from _documents(b"".join(expanded), origin, collector, wrappings - 1)


def _too_large(size: int, message: _MessageUsage) -> str:
    return (
        f"expands to more than {message.budget.limit:,} bytes with all that is inside it "
        f"({size:,} bytes of gzip; {message.records:,} records came before)"
    )


def _documents(
    data: bytes, origin: Origin, collector: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    """Collect expanded text: JSON lines when its first line is a value by itself, else one document."""
    start, end, more = _first_line(data)
    if not more or not is_json_object(data[start:end]):
        yield from _unwrap(data, origin, collector, wrappings, whole=True)
        return
    first = 0
    for window in _windows_of_lines(data):
        lines = [bare for line in window.split(b"\n") if (bare := line.strip(BLANK))]
        yield from _gather(lines, _nested_origins(origin, len(lines), first), collector, wrappings)
        first += len(lines)
        if collector.message.closed:
            return


def _first_line(text: bytes) -> tuple[int, int, bool]:
    """Return where the first line that is not blank begins and ends, and whether another one follows."""
    mark = _NO_BLANK.search(text)
    start = mark.start() if mark else len(text)
    end = text.find(b"\n", start)
    end = len(text) if end < 0 else end
    return start, end, _NO_BLANK.search(text, end) is not None


def _windows_of_lines(text: bytes) -> Iterator[bytes]:
    """Yield whole lines, about SCAN_BYTES of them at a time."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + json_pieces.SCAN_BYTES)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _nested_origins(origin: Origin, count: int, first: int) -> list[Origin]:
    source, position = origin
    prefix = f"{position}/" if position else ""
    return [(source, f"{prefix}{index}") for index in range(first, first + count)]
