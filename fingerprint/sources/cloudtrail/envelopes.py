"""Envelopes: unwrap CloudTrail records from every envelope that they come in, to one bare record for each line.

Example:
    >>> split_message(b'{"Records": [{"eventName": "GetUser"}, {"eventName": "ListUsers"}]}').lines
    [b'{"eventName": "GetUser"}', b'{"eventName": "ListUsers"}']

Forms that are read, each also inside another one:
- a bare record; `{"Records": [...]}` (delivery files)
- EventBridge (`detail-type`, `detail`); SNS (`Message`)
- CloudWatch Logs subscriptions (`logEvents[].message`, or `awslogs.data`, base64 of gzip)
- output of the AWS CLI (`Events[].CloudTrailEvent` of `cloudtrail lookup-events`, `events[].message` of `logs filter-log-events`)
- forms of log shippers, searches and queries (`shipped_records`)
- a JSON array, a JSON string with an object in it, or several documents in a row
- gzip around any of them

Most messages are bare records. They are recognised by their first key and by tests of the whole batch; `flatten` parses them.

The cost of a message is bounded, however it is wrapped: by one budget of expanded bytes for everything in it
(`max_document_bytes`), by MAX_RECORDS records, and by MAX_REJECTS_PER_MESSAGE rejects (one more has the number of the others).
Records are returned in parts of about PART_BYTES. All functions and regular expressions take time linear in the bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat

import msgspec
import numpy as np
from numpy.typing import NDArray

from fingerprint.core.alert import Reject
from fingerprint.sources import json_pieces
from fingerprint.sources.base import Origin, RecordBatch, merge_batches
from fingerprint.sources.cloudtrail.shipped_records import record_in_row, shipped_record
from fingerprint.sources.inflate import GZIP_MAGIC, ExpansionBudget, GzipInflater
from fingerprint.sources.joined_lines import JoinedLines, join_lines, lines_with_prefix
from fingerprint.sources.json_text import (
    BLANK,
    BYTE_ORDER_MARK,
    UNREADABLE,
    UTF16_MARKS,
    is_json,
    is_json_object,
    text_of,
)
from fingerprint.sources.limits import ReadLimits

PART_BYTES = 8 << 20  # approximate bytes of a part of the records ...
PART_RECORDS = 16_384  # ... or its number of records and rejects
MAX_RECORDS = 1_000_000  # in one message or document: AWS writes about ten thousand
MAX_REJECTS_PER_MESSAGE = 100  # of one message or document; one more reject counts the others
MAX_WRAPPINGS = 8  # levels of envelopes in envelopes; AWS makes three
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
    rb'|_raw|_source|original|message|log|payload|body|kinesis|event|hits|results|QueryResultRows|Sns|Messages|Body)"'
)
_OF_LAKE = b'"eventJson"'  # a row of CloudTrail Lake may begin like a record
_OBJECT_AS_TEXT = b'"{'
_NOT_AN_ARRAY = "a record must be a JSON object, not an array"
_NO_RECORD_IN_ROW = (
    "a row of a query without the record: select eventJson (CloudTrail Lake) or @message (Logs Insights)"
)
_RECORDS = re.compile(rb'"Records"\s*:\s*\[')


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
    """Return the records of one message or document, in any envelope. No bytes make it raise an error.

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
    """Yield the same records as `split_message` a part at a time, in bounded memory; at least one part.

    `budget` is the expansion budget of the document that has the message in it.
    """
    limits = limits or ReadLimits()
    reader, own = _MessageReader(limits), ExpansionBudget(limits.max_document_bytes, budget)
    yield from reader.read(message, (source, position), own, whole=True)
    yield reader.take()


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
    """Yield the same records as `split_lines` a part at a time. Each line has a budget of its own, which is part of `budget`."""
    limits = limits or ReadLimits()
    reader, joined = _MessageReader(limits), join_lines(lines)
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
        reader.add(bare[done:index], origins[done:index])
        own = ExpansionBudget(limits.max_document_bytes, budget)
        yield from reader.read(bare[index], origins[index], own)
        done = index + 1
    reader.add(bare[done:], origins[done:])
    yield reader.take()


def may_be_envelope(head: bytes) -> bool:
    """Return whether a line that begins with `head` may have many records, and so may be longer than one record."""
    head = head.removeprefix(BYTE_ORDER_MARK).lstrip(BLANK)
    if head.startswith((GZIP_MAGIC, _GZIP_AS_BASE64, b"[")) or b'}{"' in head or b'}\t{"' in head:
        return True
    return _may_wrap(head)


def _may_wrap(data: bytes) -> bool:
    """Return whether an object, or the beginning of one, may have records in a member."""
    return _OF_LAKE in data or (not _BARE.match(data) and bool(_HINT.search(data)))


@dataclass(slots=True)
class _MessageReader:
    """Reads messages one after another, and collects their records until they are a full part.

    Methods yield full parts of the collected records. For the current message it keeps the `budget` of expanded bytes, the number
    of records and rejects, and whether the message is closed because it had more than MAX_RECORDS.
    """

    limits: ReadLimits
    budget: ExpansionBudget = field(init=False)
    message_records: int = 0  # and rejects
    message_rejects: int = 0
    is_closed: bool = False
    lines: list[bytes] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    skipped: int = 0
    size: int = 0  # of the lines that were weighed
    weighed: int = 0

    def read(
        self, data: bytes, origin: Origin, budget: ExpansionBudget, whole: bool = False
    ) -> Iterator[RecordBatch]:
        """Collect the records of one message, and one reject that counts the rejects beyond the limit.

        A message that does not fit into memory becomes a reject.
        """
        self.budget, self.message_records, self.message_rejects, self.is_closed = budget, 0, 0, False
        try:
            yield from self._unwrap(data, origin, MAX_WRAPPINGS, whole)
        except MemoryError:
            self.reject(origin, "does not fit into memory")
        if (more := self.message_rejects - MAX_REJECTS_PER_MESSAGE) > 0:
            reason = f"and {more:,} more in here that could not be read"
            self.rejects.append(Reject(*origin, reason, more))

    def take(self) -> RecordBatch:
        """Return the collected records and rejects, and clear them."""
        taken = RecordBatch(self.lines, self.origins, self.rejects, self.skipped)
        self.lines, self.origins, self.rejects = [], [], []
        self.skipped = self.size = self.weighed = 0
        return taken

    def add(self, lines: list[bytes], origins: list[Origin]) -> None:
        """Collect records."""
        self.lines += lines
        self.origins += origins
        self.message_records += len(lines)

    def reject(self, origin: Origin, reason: str) -> None:
        """Collect a reject, at most MAX_REJECTS_PER_MESSAGE for one message."""
        self.message_records += 1
        self.message_rejects += 1
        if self.message_rejects <= MAX_REJECTS_PER_MESSAGE:
            self.rejects.append(Reject(*origin, reason))

    def _remaining_records(self, origin: Origin) -> int:
        """Return the number of records that the message may still have; if it is 0, add one reject, once."""
        room = MAX_RECORDS - self.message_records
        if room <= 0 and not self.is_closed:
            self.is_closed = True
            self.reject(origin, f"more than {MAX_RECORDS:,} records in one message: the rest is not read")
        return max(room, 0)

    def _take_full_parts(self) -> Iterator[RecordBatch]:
        """Yield the collected records if they are a full part."""
        new, self.weighed = self.lines[self.weighed :], len(self.lines)
        self.size += sum(map(len, new))
        if self.size >= PART_BYTES or len(self.lines) + len(self.rejects) >= PART_RECORDS:
            yield self.take()

    def _unwrap(
        self, data: bytes, origin: Origin, wrappings: int, whole: bool = False
    ) -> Iterator[RecordBatch]:
        """Collect the records of a value that may be an envelope; a `whole` message may also be several values in a row."""
        if data.startswith(UTF16_MARKS):
            data = data.decode("utf-16", errors="replace").encode()
        data = _strip_padding(_strip_padding(data).removeprefix(BYTE_ORDER_MARK))
        if not data or not self._remaining_records(origin):
            return
        if not wrappings:
            self.reject(origin, f"more than {MAX_WRAPPINGS} envelopes around one another")
        elif data.startswith(GZIP_MAGIC):
            yield from self._gunzip(data, origin, wrappings)
        elif data.startswith(_GZIP_AS_BASE64):
            yield from self._from_base64(data, origin, wrappings)
        elif data.startswith(b"["):
            yield from self._open_array(data, origin, wrappings)
        elif data.startswith(_OBJECT_AS_TEXT) and (text := text_of(data)):
            yield from self._unwrap_text(text, origin, wrappings)
        elif _may_wrap(data):
            yield from self._open_envelope(data, origin, wrappings)
        elif whole and not is_json(data):
            yield from self._recover(data, origin, wrappings)
        else:
            self._add_bare_record(data, origin)

    def _open_envelope(self, data: bytes, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        try:
            envelope = _envelope.decode(data)
        except UNREADABLE:
            yield from self._recover(data, origin, wrappings)
            return
        if envelope.records is not msgspec.UNSET:
            yield from self._open_array(bytes(envelope.records), origin, wrappings)
        elif envelope.lookup is not msgspec.UNSET:
            yield from self._open_array(bytes(envelope.lookup), origin, wrappings)
        elif text := text_of(envelope.lookup_record):
            yield from self._unwrap_text(text, origin, wrappings)
        elif envelope.log_events is not msgspec.UNSET or envelope.message_type is not msgspec.UNSET:
            yield from self._cloudwatch(envelope, origin, wrappings)
        elif envelope.awslogs is not msgspec.UNSET:
            yield from self._awslogs(bytes(envelope.awslogs), origin, wrappings)
        elif envelope.kind is not msgspec.UNSET:
            yield from self._eventbridge(envelope, origin, wrappings)
        elif envelope.filtered_events is not msgspec.UNSET:
            yield from self._log_events(bytes(envelope.filtered_events), origin, wrappings)
        elif text_of(envelope.sns_type) == "Notification" and (text := text_of(envelope.sns_message)):
            yield from self._unwrap_text(text, origin, wrappings)
        elif inner := shipped_record(data):
            yield from self._unwrap(inner, origin, wrappings - 1, whole=True)
        else:
            self._add_bare_record(data, origin)  # the hint was a value, or deeper inside

    def _open_array(self, data: bytes, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        """Collect a JSON array of records or envelopes."""
        first = 0
        for items in json_pieces.array_items(data):
            if isinstance(items, bytes):
                first = yield from self._recover(items, origin, wrappings, first)
                continue
            inside = _nested_origins(origin, len(items), first)
            first += len(items)
            if any(item.startswith(b"[") for item in items):
                items, inside = self._open_rows(items, inside)
            yield from self._gather(items, inside, wrappings - 1)
            if self.is_closed:
                return

    def _open_rows(self, items: list[bytes], inside: list[Origin]) -> tuple[list[bytes], list[Origin]]:
        """Return the items, with rows of a query replaced by the records in them; other arrays become rejects."""
        kept = []
        for item, where in zip(items, inside, strict=True):
            if not item.startswith(b"["):
                kept.append((item, where))
            elif len(item) > self.limits.max_record_bytes:
                self.reject(where, f"larger than {self.limits.max_record_bytes:,} bytes")
            elif record := record_in_row(item):
                kept.append((record, where))
            else:
                has_cells = item[1:].lstrip(BLANK).startswith(b"{")
                self.reject(where, _NO_RECORD_IN_ROW if has_cells else _NOT_AN_ARRAY)
        return [item for item, _ in kept], [where for _, where in kept]

    def _recover(
        self, data: bytes, origin: Origin, wrappings: int, first: int = 0
    ) -> Generator[RecordBatch, None, int]:
        """Collect the records in a text that is broken JSON or several documents in a row; return the number of pieces.

        `first` is the number of the first piece, if the text is a window of an array.
        """
        pieces = json_pieces.recover_objects(data)
        head = list(islice(pieces, 2))
        if len(head) <= 1 and (inner := _RECORDS.search(data)):
            pieces = json_pieces.recover_objects(data[inner.end() :])
            head = list(islice(pieces, 2))
        if (head and head[0] == (data, True)) or (not head and is_json(data)):
            self._add_bare_record(data, origin)  # nothing to cut: `flatten` says what is wrong with it
            return 1
        if not head:
            self.reject(origin, "malformed JSON: no object in it")
            return 1
        several, pieces = first > 0 or len(head) > 1, chain(head, pieces)
        while found := _take_up_to(json_pieces.SCAN_BYTES, pieces):
            origins = _nested_origins(origin, len(found), first) if several else [origin]
            first += len(found)
            for where in (where for (_, closed), where in zip(found, origins, strict=True) if not closed):
                self.reject(where, "malformed JSON: no complete object")
            whole = [(piece, where) for (piece, closed), where in zip(found, origins, strict=True) if closed]
            yield from self._gather(
                [piece for piece, _ in whole], [where for _, where in whole], wrappings - 1
            )
            if self.is_closed:
                break
        return first

    def _gather(self, lines: list[bytes], origins: list[Origin], wrappings: int) -> Iterator[RecordBatch]:
        """Collect bare lines together, and unwrap only those that a cheap test finds suspect."""
        room = self._remaining_records(origins[0]) if lines else 0
        lines, over = lines[:room], origins[room : room + 1]
        done = 0
        for index in _suspects(lines, join_lines(lines), self.limits):
            self.add(lines[done:index], origins[done:index])
            yield from self._unwrap(lines[index], origins[index], wrappings)
            done = index + 1
        self.add(lines[done:], origins[done : len(lines)])
        if over:
            self._remaining_records(over[0])
        yield from self._take_full_parts()

    def _add_bare_record(self, line: bytes, origin: Origin) -> None:
        if len(line) > self.limits.max_record_bytes:
            self.reject(origin, f"larger than {self.limits.max_record_bytes:,} bytes")
        elif (
            line.count(b"{") + line.count(b"[") > self.limits.max_json_depth
            and json_pieces.json_depth(line) > self.limits.max_json_depth
        ):
            self.reject(origin, f"nested deeper than {self.limits.max_json_depth}")
        else:
            self.add([line if _is_utf8(line) else line.decode(errors="replace").encode()], [origin])

    def _eventbridge(self, envelope: _Envelope, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        kind = text_of(envelope.kind)
        if envelope.detail is msgspec.UNSET or not kind.endswith("via CloudTrail"):
            self.reject(origin, "an EventBridge event, but not one of CloudTrail")
        elif "Insight" in kind:
            self.skipped += 1
        else:
            yield from self._unwrap(bytes(envelope.detail), origin, wrappings - 1)

    def _cloudwatch(self, envelope: _Envelope, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        if text_of(envelope.message_type) == "CONTROL_MESSAGE":
            self.skipped += 1
            return
        events = b"" if envelope.log_events is msgspec.UNSET else bytes(envelope.log_events)
        yield from self._log_events(events, origin, wrappings)

    def _log_events(self, data: bytes, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        """Collect the messages of CloudWatch Logs events."""
        first = 0
        for entries in json_pieces.array_items(data):
            if isinstance(entries, bytes):
                self.reject(origin, "a CloudWatch Logs message without a list of logEvents")
                return
            for entry, where in zip(entries, _nested_origins(origin, len(entries), first), strict=True):
                yield from self._log_entry(entry, where, wrappings)
                if self.is_closed:
                    return
            first += len(entries)
            yield from self._take_full_parts()

    def _log_entry(self, entry: bytes, where: Origin, wrappings: int) -> Iterator[RecordBatch]:
        try:
            message = _log_event.decode(entry).message
        except UNREADABLE:
            self._remaining_records(where)
            self.reject(where, "a CloudWatch Logs event without a message")
            return
        yield from self._unwrap_text(message, where, wrappings)

    def _unwrap_text(self, text: str, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        """Collect the records in a JSON string, one level of wrapping deeper."""
        return self._unwrap(text.encode(errors="replace"), origin, wrappings - 1, whole=True)

    def _awslogs(self, data: bytes, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        try:
            text = _logs_data.decode(data).data.encode()
        except UNREADABLE:
            self.reject(origin, "awslogs without data")
            return
        yield from self._from_base64(text, origin, wrappings)

    def _from_base64(self, text: bytes, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        try:
            data = base64.b64decode(text, validate=False)
        except (binascii.Error, ValueError):
            self.reject(origin, "looks like base64, but is not")
            return
        if not data.startswith(GZIP_MAGIC):
            self.reject(origin, "base64 of something other than gzip")
            return
        yield from self._gunzip(data, origin, wrappings)

    def _gunzip(self, data: bytes, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        """Expand gzip within the budget of the message, and collect its records; several members in a row are one document."""
        budget, inflate = self.budget, GzipInflater(strict=False)
        expanded: list[bytes] = []
        try:
            for text in inflate.read(iter([data])):
                if not budget.spend(len(text)):
                    self.reject(origin, self._too_large(len(data)))
                    return
                expanded.append(text)
            if not inflate.complete:
                raise zlib.error("cut short")
        except zlib.error as error:
            self.reject(origin, f"gzip is damaged: {error}")
        yield from self._documents(b"".join(expanded), origin, wrappings - 1)

    def _documents(self, data: bytes, origin: Origin, wrappings: int) -> Iterator[RecordBatch]:
        """Collect the records of expanded text: JSON lines if its first line is a complete value, else one document."""
        start, end, more = _first_line(data)
        if not more or not is_json_object(data[start:end]):
            yield from self._unwrap(data, origin, wrappings, whole=True)
            return
        first = 0
        for window in _windows_of_lines(data):
            lines = [bare for line in window.split(b"\n") if (bare := line.strip(BLANK))]
            yield from self._gather(lines, _nested_origins(origin, len(lines), first), wrappings)
            first += len(lines)
            if self.is_closed:
                return

    def _too_large(self, size: int) -> str:
        return (
            f"expands to more than {self.budget.limit:,} bytes with all that is inside it "
            f"({size:,} bytes of gzip; {self.message_records:,} records came before)"
        )


def _suspects(lines: list[bytes], joined: JoinedLines, limits: ReadLimits) -> list[int]:
    """Return the ascending indices of lines that do not begin like a record, are not UTF-8, or may exceed a limit."""
    text, borders = joined
    unusual = np.flatnonzero(~lines_with_prefix(RECORD_PREFIX, text, borders)).tolist()
    found = {index for index in unusual if not _BARE.match(lines[index]) or _OF_LAKE in lines[index]}
    found.update(np.flatnonzero(np.diff(borders) > limits.max_record_bytes).tolist())
    found.update(np.flatnonzero(_brackets(text, borders) > limits.max_json_depth).tolist())
    if not _is_utf8(text):
        found.update(index for index, line in enumerate(lines) if not _is_utf8(line))
    return sorted(found)


def _are_objects(text: bytes, borders: NDArray[np.int64]) -> bool:
    """Return whether all of the joined lines begin and end with braces, so that none has padding."""
    codes, begin, end = np.frombuffer(text, np.uint8), borders[:-1], borders[1:]
    return bool((begin < end).all() and (codes[begin] == 0x7B).all() and (codes[end - 1] == 0x7D).all())


def _brackets(text: bytes, borders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the opening brackets of each line, also those in strings: an upper bound of its depth that is cheap to compute."""
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


def _take_up_to(size: int, pieces: Iterable[tuple[bytes, bool]]) -> list[tuple[bytes, bool]]:
    """Return the next pieces, until they reach `size` bytes or PART_RECORDS pieces."""
    found: list[tuple[bytes, bool]] = []
    for each in islice(pieces, PART_RECORDS):
        found.append(each)
        size -= len(each[0])
        if size <= 0:
            break
    return found


def _first_line(text: bytes) -> tuple[int, int, bool]:
    """Return begin and end of the first line that is not blank, and whether another one follows."""
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
