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

What a message may cost is bounded, however it is wrapped: one budget of expanded bytes for all that is inside it
(`max_document_bytes`), MOST_RECORDS records, REJECTS_KEPT rejects of its own (the rest is one that says how many). Records
are handed on in parts of about PART_BYTES. Everything here, the regular expressions too, is linear in the bytes.
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
from fingerprint.sources.inflate import GZIP_MAGIC, ExpansionBudget, GzipInflater
from fingerprint.sources.limits import ReadLimits

Origin = tuple[str, str]  # source, position

SCAN_BYTES = 1 << 20  # bytes looked at together: what a processor's cache holds
PART_BYTES = 8 << 20  # of records that are handed on at a time, about ...
PART_RECORDS = 16_384  # ... or so many records and rejects
MAX_RECORDS = 1_000_000  # in one message or document: AWS writes some ten thousand
MAX_REJECTS_PER_MESSAGE = 100  # of one message or document, each with its place; the rest is counted in one
COMMA_SCAN_THRESHOLD = (
    1 << 17
)  # an array with fewer is decoded at once; with more a window at a time, for its items need memory
MAX_WRAPPINGS = 8  # an envelope in an envelope in ...: AWS makes three, nobody makes nine
_BLANK = b" \t\r\n\x00"
_BOM = b"\xef\xbb\xbf"
_NO_BLANK = re.compile(rb"[^ \t\r\n\x00]")
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
# A string that is not closed goes to the end, also where that is a lone backslash: were it no match, every quote in it would be
# tried as a new beginning. Of what lies between two runs of braces nothing is a match by itself, and the end is one.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BRACES = re.compile(rb'(?:[^"{}]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+(\{++|\}++|\Z)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Bare records, one a line, valid UTF-8 and within the limits; what could not be read; what needs no
    reading.

    `skipped` counts what is no event by design: control messages here; digests, insights and test notices
    in `flatten`.
    """

    lines: list[bytes]
    origins: list[Origin]
    rejects: list[Reject]
    skipped: int = 0


@dataclass(slots=True)
class _MessageUsage:
    """What one message has cost so far, and may still cost."""

    budget: ExpansionBudget
    records: int = 0  # and rejects
    rejects: int = 0
    closed: bool = False  # it had more than MOST_RECORDS

    def begin(self, budget: ExpansionBudget) -> None:
        self.budget, self.records, self.rejects, self.closed = budget, 0, 0, False


@dataclass(slots=True)
class _RecordCollector:
    """Records while they are being gathered, and the message that they are in."""

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
        """How many more records the message may have; where it is none, that is a reject, once."""
        room = MAX_RECORDS - self.message.records
        if room <= 0 and not self.message.closed:
            self.message.closed = True
            self.reject(origin, f"more than {MAX_RECORDS:,} records in one message: the rest is not read")
        return max(room, 0)

    def take_full_parts(self) -> Iterator[RecordBatch]:
        """What was gathered, where it has come to a part."""
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


def split_message(
    message: bytes, source: str = "", position: str = "", limits: ReadLimits | None = None
) -> RecordBatch:
    """The records of one message or document, whatever wraps them; never raises, whatever the bytes.

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
    """The same a part at a time, in bounded memory; one part at least. `budget` is what the document that the message lies in
    may still expand to."""
    limits = limits or ReadLimits()
    own = ExpansionBudget(limits.max_document_bytes, budget)
    pile = _RecordCollector(limits, _MessageUsage(own))
    yield from _read_message(message, (source, position), pile, own, whole=True)
    yield pile.take()


def split_lines(
    lines: Sequence[bytes], source: str = "", first: int = 1, limits: ReadLimits | None = None
) -> RecordBatch:
    """The records of many lines, each one JSON value; `first` is the number of the first line. Blank lines
    are nothing."""
    return merge_batches(list(split_lines_in_parts(lines, source, first, limits)))


def split_lines_in_parts(
    lines: Sequence[bytes],
    source: str = "",
    first: int = 1,
    limits: ReadLimits | None = None,
    budget: ExpansionBudget | None = None,
) -> Iterator[RecordBatch]:
    """The same a part at a time; each line is a message of its own, with a budget of its own, and all spend of `budget`."""
    limits = limits or ReadLimits()
    pile = _RecordCollector(limits, _MessageUsage(ExpansionBudget(limits.max_document_bytes, budget)))
    bare = [line if line[:2] == GZIP_MAGIC else line.strip(_BLANK) for line in lines]
    numbers: Sequence[int] = range(first, first + len(bare))
    if not all(bare):
        numbers = [number for number, line in zip(numbers, bare, strict=True) if line]
        bare = [line for line in bare if line]
    origins = list(zip(repeat(source), map(str, numbers)))
    done = 0
    for index in _suspects(bare, limits):
        pile.add(bare[done:index], origins[done:index])
        own = ExpansionBudget(limits.max_document_bytes, budget)
        yield from _read_message(bare[index], origins[index], pile, own)
        done = index + 1
    pile.add(bare[done:], origins[done:])
    yield pile.take()


def may_be_envelope(head: bytes) -> bool:
    """Whether a line that begins so may hold many records, and so may be longer than one record may be."""
    head = head.removeprefix(_BOM).lstrip(_BLANK)
    if head.startswith((GZIP_MAGIC, _GZIP_AS_BASE64, b"[")) or b'}{"' in head:
        return True
    return not _BARE.match(head) and any(hint in head for hint in _HINTS)


def is_json_object(line: bytes) -> bool:
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


def json_depth(record: bytes) -> int:
    """How deep objects and arrays nest, by counting brackets outside strings; works on broken JSON too."""
    structure = np.frombuffer(_STRING.sub(b"", record), np.uint8) | 0x20  # [ and { become {, ] and } become }
    steps = (structure == 0x7B).astype(np.int64) - (structure == 0x7D)
    return int(np.cumsum(steps).max(initial=0))


def recover_objects(text: bytes) -> Iterator[tuple[bytes, bool]]:
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
    start = 0
    for match in _record_boundary(first[1]).finditer(text, first.start()):
        yield from _balanced(text[start : match.start()])
        start = match.end()
    yield from _balanced(text[start:])


def _record_boundary(key: bytes) -> re.Pattern[bytes]:
    """Between two records that begin with the same key (with its quotes)."""
    return re.compile(rb"(?<=\})\s*+(?:,\s*+)?+(?=\{\s*+" + re.escape(key) + rb"\s*+:)")


def _balanced(text: bytes) -> Iterator[tuple[bytes, bool]]:
    level = start = 0
    for braces in _BRACES.finditer(text):
        at, end = braces.span(1)
        if text[at : at + 1] == b"{":
            start = start if level else at
            level += end - at
        elif level:
            level -= end - at
            if level <= 0:
                level, end = 0, end + level
                yield text[start:end], True
    if level:
        yield text[start:], False


def join_lines(lines: Sequence[bytes]) -> tuple[bytes, NDArray[np.int64]]:
    """Lines as one text, and where in it each begins and the last ends: (N + 1,)."""
    borders = np.zeros(len(lines) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)), out=borders[1:])
    return b"".join(lines), borders


def _read_message(
    data: bytes, origin: Origin, pile: _RecordCollector, budget: ExpansionBudget, whole: bool = False
) -> Iterator[RecordBatch]:
    """One message, from its first byte to the reject that stands for all that had no room. What does not fit into memory is its
    reject, and nobody's end."""
    message = pile.message
    message.begin(budget)
    try:
        yield from _unwrap(data, origin, pile, MAX_WRAPPINGS, whole)
    except MemoryError:
        pile.reject(origin, "does not fit into memory")
    if (more := message.rejects - MAX_REJECTS_PER_MESSAGE) > 0:
        reason = f"and {more:,} more in here that could not be read"
        pile.rejects.append(Reject(*origin, reason, more))


def _gather(
    lines: list[bytes], origins: list[Origin], pile: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    """Bare lines go straight in; only those that a cheap test points at are looked at one by one."""
    room = pile.remaining_records(origins[0]) if lines else 0
    lines, over = lines[:room], origins[room : room + 1]
    done = 0
    for index in _suspects(lines, pile.limits):
        pile.add(lines[done:index], origins[done:index])
        yield from _unwrap(lines[index], origins[index], pile, wrappings)
        done = index + 1
    pile.add(lines[done:], origins[done : len(lines)])
    if over:
        pile.remaining_records(over[0])
    yield from pile.take_full_parts()


def _suspects(lines: list[bytes], limits: ReadLimits) -> list[int]:
    """Indices of lines that do not begin like a record, are not UTF-8, or may be past a bound; ascending."""
    if not lines:
        return []
    bare = _BARE.match
    joined = b"".join(lines)
    found = {index for index, line in enumerate(lines) if not line.startswith(_USUAL) and not bare(line)}
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    found.update(np.flatnonzero(sizes > limits.max_record_bytes).tolist())
    found.update(np.flatnonzero(_brackets(joined, sizes) > limits.max_json_depth).tolist())
    if not _is_utf8(joined):
        found.update(index for index, line in enumerate(lines) if not _is_utf8(line))
    return sorted(found)


def _brackets(joined: bytes, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Opening brackets per line, strings included: an upper bound of the depth, at a tenth of its price."""
    text = np.frombuffer(joined, np.uint8)
    places = [
        np.flatnonzero((text[start : start + SCAN_BYTES] | 0x20) == 0x7B) + start  # [ becomes {
        for start in range(0, len(text), SCAN_BYTES)
    ]
    return np.diff(np.searchsorted(np.concatenate([[], *places]), np.cumsum(sizes)), prepend=0)


def _strip_padding(data: bytes) -> bytes:
    """Without blanks and zeros around it; gzip is left alone, for it may well end in zeros."""
    return data if data.startswith(GZIP_MAGIC) else data.strip(_BLANK)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unwrap(
    data: bytes, origin: Origin, pile: _RecordCollector, wrappings: int, whole: bool = False
) -> Iterator[RecordBatch]:
    """One value that may be an envelope. `whole`: a message or document, so it may also be several values
    in a row."""
    data = _strip_padding(_strip_padding(data).removeprefix(_BOM))
    if not data or not pile.remaining_records(origin):
        return
    if not wrappings:
        pile.reject(origin, f"more than {MAX_WRAPPINGS} envelopes around one another")
    elif data.startswith(GZIP_MAGIC):
        yield from _gunzip(data, origin, pile, wrappings)
    elif data.startswith(_GZIP_AS_BASE64):
        yield from _from_base64(data, origin, pile, wrappings)
    elif data.startswith(b"["):
        yield from _open_array(data, origin, pile, wrappings)
    elif any(hint in data for hint in _HINTS) and not _BARE.match(data):
        yield from _open_envelope(data, origin, pile, wrappings)
    elif whole and not is_json(data):
        yield from _recover(data, origin, pile, wrappings)
    else:
        _add_bare_record(data, origin, pile)


def _add_bare_record(line: bytes, origin: Origin, pile: _RecordCollector) -> None:
    if len(line) > pile.limits.max_record_bytes:
        pile.reject(origin, f"larger than {pile.limits.max_record_bytes:,} bytes")
    elif (
        line.count(b"{") + line.count(b"[") > pile.limits.max_json_depth
        and json_depth(line) > pile.limits.max_json_depth
    ):
        pile.reject(origin, f"nested deeper than {pile.limits.max_json_depth}")
    else:
        pile.add([line if _is_utf8(line) else line.decode(errors="replace").encode()], [origin])


def _open_envelope(
    data: bytes, origin: Origin, pile: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    try:
        envelope = _envelope.decode(data)
    except _UNREADABLE:
        yield from _recover(data, origin, pile, wrappings)
        return
    if envelope.records is not msgspec.UNSET:
        yield from _open_array(bytes(envelope.records), origin, pile, wrappings)
    elif envelope.log_events is not msgspec.UNSET or envelope.message_type is not msgspec.UNSET:
        yield from _cloudwatch(envelope, origin, pile, wrappings)
    elif envelope.awslogs is not msgspec.UNSET:
        yield from _awslogs(bytes(envelope.awslogs), origin, pile, wrappings)
    elif envelope.kind is not msgspec.UNSET:
        yield from _eventbridge(envelope, origin, pile, wrappings)
    else:
        _add_bare_record(data, origin, pile)  # the hint was a value, or deeper inside


def _open_array(data: bytes, origin: Origin, pile: _RecordCollector, wrappings: int) -> Iterator[RecordBatch]:
    """A JSON array of records or envelopes."""
    first = 0
    for items in _array_items(data):
        if isinstance(items, bytes):
            first = yield from _recover(items, origin, pile, wrappings, first)
            continue
        inside = _nested_origins(origin, len(items), first)
        first += len(items)
        if any(item.startswith(b"[") for item in items):
            items, inside = _without_arrays(items, inside, pile)
        yield from _gather(items, inside, pile, wrappings - 1)
        if pile.message.closed:
            return


def _without_arrays(
    items: list[bytes], inside: list[Origin], pile: _RecordCollector
) -> tuple[list[bytes], list[Origin]]:
    kept = []
    for number, item in enumerate(items):
        if item.startswith(b"["):
            pile.reject(inside[number], "a record must be a JSON object, not an array")
        else:
            kept.append(number)
    return [items[number] for number in kept], [inside[number] for number in kept]


def _array_items(data: bytes) -> Iterator[list[bytes] | bytes]:
    """The items of a JSON array, some at a time; or, where that is no JSON, the text they should be in.

    A list of all would take a hundred times the memory of their text. Where `},{"key":` stands, an item probably ends: it does
    if what comes before it can be decoded. If not, brackets are counted.
    """
    if data.count(b",") < COMMA_SCAN_THRESHOLD:
        yield _decode_array(data)
        return
    start, key = 1, _FIRST_KEY.search(data)
    while key and (border := _record_boundary(key[1]).search(data, start + SCAN_BYTES)):
        if isinstance(items := _decode_array(b"[" + data[start : border.start()] + b"]"), bytes):
            break
        yield items
        start = border.end()
    for comma in _commas(data, start):
        yield _decode_array(b"[" + data[start:comma] + b"]")
        start = comma + 1
    yield _decode_array(b"[" + data[start:])


def _decode_array(array: bytes) -> list[bytes] | bytes:
    try:
        return [bytes(item) for item in _items.decode(array)]
    except _UNREADABLE:
        return array


def _commas(data: bytes, begin: int) -> Iterator[int]:
    """Where commas between the items of a JSON array stand, from an item on: the last one in each chunk that has any."""
    slashes, level = 0, 1  # backslashes that end what was looked at; how deep it is nested there
    quoted = False
    for start in range(begin, len(data), SCAN_BYTES):
        text = np.frombuffer(data, np.uint8, min(SCAN_BYTES, len(data) - start), start)
        escaped, slashes = _escaped_mask(text, slashes)
        outside = np.logical_xor.accumulate((text == 0x22) & ~escaped) == quoted
        quoted = not outside[-1]
        structure = np.where(outside, text | 0x20, 0)  # [ and { become {, ] and } become }
        levels = np.cumsum((structure == 0x7B).astype(np.int64) - (structure == 0x7D)) + level
        level = int(levels[-1])
        if len(found := np.flatnonzero((text == 0x2C) & outside & (levels == 1))):
            yield start + int(found[-1])


def _escaped_mask(text: NDArray[np.uint8], before: int) -> tuple[NDArray[np.bool_], int]:
    """Which bytes follow an odd number of backslashes, of which `before` stand before the text; how many end it."""
    place = np.arange(len(text))
    other = np.maximum.accumulate(np.where(text == 0x5C, -1 - before, place))  # the last byte that is none
    run = place - np.concatenate([[-1 - before], other[:-1]]) - 1
    return run % 2 == 1, len(text) - 1 - int(other[-1])


def _recover(
    data: bytes, origin: Origin, pile: _RecordCollector, wrappings: int, first: int = 0
) -> Generator[RecordBatch, None, int]:
    """What can be cut out of a document that is no JSON, or that is several documents in a row; how many pieces. `first`: the
    number of the first one where the text is a window of an array."""
    pieces = recover_objects(data)
    head = list(islice(pieces, 2))
    if len(head) <= 1 and (inner := _RECORDS.search(data)):
        pieces = recover_objects(data[inner.end() :])
        head = list(islice(pieces, 2))
    if (head and head[0] == (data, True)) or (not head and is_json(data)):
        _add_bare_record(data, origin, pile)  # nothing to cut: `flatten` says what is wrong with it
        return 1
    if not head:
        pile.reject(origin, "malformed JSON: no object in it")
        return 1
    several, pieces = first > 0 or len(head) > 1, chain(head, pieces)
    while found := _take_up_to(SCAN_BYTES, pieces):
        origins = _nested_origins(origin, len(found), first) if several else [origin]
        first += len(found)
        for where in (where for (_, closed), where in zip(found, origins, strict=True) if not closed):
            pile.reject(where, "malformed JSON: no complete object")
        whole = [(piece, where) for (piece, closed), where in zip(found, origins, strict=True) if closed]
        yield from _gather([piece for piece, _ in whole], [where for _, where in whole], pile, wrappings - 1)
        if pile.message.closed:
            break
    return first


def _take_up_to(size: int, pieces: Iterable[tuple[bytes, bool]]) -> list[tuple[bytes, bool]]:
    """The next pieces, until they have come to a size or are PART_RECORDS."""
    found: list[tuple[bytes, bool]] = []
    for each in islice(pieces, PART_RECORDS):
        found.append(each)
        size -= len(each[0])
        if size <= 0:
            break
    return found


def _eventbridge(
    envelope: _Envelope, origin: Origin, pile: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    kind = _as_text(envelope.kind)
    if envelope.detail is msgspec.UNSET or not kind.endswith("via CloudTrail"):
        pile.reject(origin, "an EventBridge event, but not one of CloudTrail")
    elif "Insight" in kind:
        pile.skipped += 1
    else:
        yield from _unwrap(bytes(envelope.detail), origin, pile, wrappings - 1)


def _cloudwatch(
    envelope: _Envelope, origin: Origin, pile: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    if _as_text(envelope.message_type) == "CONTROL_MESSAGE":
        pile.skipped += 1
        return
    first = 0
    for entries in _array_items(b"" if envelope.log_events is msgspec.UNSET else bytes(envelope.log_events)):
        if isinstance(entries, bytes):
            pile.reject(origin, "a CloudWatch Logs message without a list of logEvents")
            return
        for entry, where in zip(entries, _nested_origins(origin, len(entries), first), strict=True):
            yield from _log_entry(entry, where, pile, wrappings)
            if pile.message.closed:
                return
        first += len(entries)
        yield from pile.take_full_parts()


def _log_entry(entry: bytes, where: Origin, pile: _RecordCollector, wrappings: int) -> Iterator[RecordBatch]:
    try:
        message = _log_event.decode(entry).message
    except _UNREADABLE:
        pile.remaining_records(where)
        pile.reject(where, "a CloudWatch Logs event without a message")
        return
    yield from _unwrap(message.encode(errors="replace"), where, pile, wrappings - 1, whole=True)


def _awslogs(data: bytes, origin: Origin, pile: _RecordCollector, wrappings: int) -> Iterator[RecordBatch]:
    try:
        text = _logs_data.decode(data).data.encode()
    except _UNREADABLE:
        pile.reject(origin, "awslogs without data")
        return
    yield from _from_base64(text, origin, pile, wrappings)


def _from_base64(
    text: bytes, origin: Origin, pile: _RecordCollector, wrappings: int
) -> Iterator[RecordBatch]:
    try:
        data = base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        pile.reject(origin, "looks like base64, but is not")
        return
    if not data.startswith(GZIP_MAGIC):
        pile.reject(origin, "base64 of something other than gzip")
        return
    yield from _gunzip(data, origin, pile, wrappings)


def _gunzip(data: bytes, origin: Origin, pile: _RecordCollector, wrappings: int) -> Iterator[RecordBatch]:
    """Expands to what is left of the message's budget; several gzip members in a row are one document."""
    budget, inflate = pile.message.budget, GzipInflater(strict=False)
    expanded: list[bytes] = []
    try:
        for text in inflate.read(iter([data])):
            if not budget.spend(len(text)):
                pile.reject(origin, _too_large(len(data), pile.message))
                return
            expanded.append(text)
        if not inflate.complete:
            raise zlib.error("cut short")
    except zlib.error as error:
        pile.reject(origin, f"gzip is damaged: {error}")
    yield from _documents(b"".join(expanded), origin, pile, wrappings - 1)


def _too_large(size: int, message: _MessageUsage) -> str:
    return (
        f"expands to more than {message.budget.limit:,} bytes with all that is inside it "
        f"({size:,} bytes of gzip; {message.records:,} records came before)"
    )


def _documents(data: bytes, origin: Origin, pile: _RecordCollector, wrappings: int) -> Iterator[RecordBatch]:
    """Expanded text: JSON lines when its first line is a value by itself, else one document."""
    start, end, more = _first_line(data)
    if not more or not is_json_object(data[start:end]):
        yield from _unwrap(data, origin, pile, wrappings, whole=True)
        return
    first = 0
    for window in _windows_of_lines(data):
        lines = [bare for line in window.split(b"\n") if (bare := line.strip(_BLANK))]
        yield from _gather(lines, _nested_origins(origin, len(lines), first), pile, wrappings)
        first += len(lines)
        if pile.message.closed:
            return


def _first_line(text: bytes) -> tuple[int, int, bool]:
    """Where the first line that is not blank begins and ends, and whether another one follows."""
    mark = _NO_BLANK.search(text)
    start = mark.start() if mark else len(text)
    end = text.find(b"\n", start)
    end = len(text) if end < 0 else end
    return start, end, _NO_BLANK.search(text, end) is not None


def _windows_of_lines(text: bytes) -> Iterator[bytes]:
    """Whole lines, some CHUNK of them at a time."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + SCAN_BYTES)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _as_text(raw: msgspec.Raw | msgspec.UnsetType) -> str:
    try:
        return "" if raw is msgspec.UNSET else _text.decode(raw)
    except _UNREADABLE:
        return ""


def _nested_origins(origin: Origin, count: int, first: int = 0) -> list[Origin]:
    source, position = origin
    prefix = f"{position}/" if position else ""
    return [(source, f"{prefix}{index}") for index in range(first, first + count)]


def merge_batches(parts: Sequence[RecordBatch]) -> RecordBatch:
    """Several Records as one, in order."""
    if len(parts) == 1:
        return parts[0]
    return RecordBatch(
        [line for part in parts for line in part.lines],
        [origin for part in parts for origin in part.origins],
        [reject for part in parts for reject in part.rejects],
        sum(part.skipped for part in parts),
    )
