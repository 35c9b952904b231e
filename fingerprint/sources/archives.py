"""Archives: files and objects to records, a chunk at a time, in constant memory, whatever the bytes expand to.

Example:
    >>> stored = iter([gzip.compress(b'{"eventName": "GetUser"}')])
    >>> [records.lines for records in read_records("a.json.gz", stored, ReadLimits())]
    [[b'{"eventName": "GetUser"}']]

The bytes themselves show whether they are compressed, whether they are UTF-16 (by the byte order mark), and whether they are
lines or one document; only a name with one of LINE_SUFFIXES always means lines. Memory is bounded by the size of a document
(`max_document_bytes`) or of a line. The expanded size of a file, with everything wrapped in it, is bounded by
`max_expanded_bytes`.
"""

from __future__ import annotations

import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise

from fingerprint.core.alert import Reject
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import RecordBatch, merge_batches
from fingerprint.sources.inflate import ExpansionBudget, GzipInflater, ZstdInflater, inflater_of
from fingerprint.sources.json_text import UTF16_MARKS, is_json, is_json_object
from fingerprint.sources.limits import ReadLimits
from fingerprint.sources.protocol import RecordReader

LINE_SUFFIXES = tuple(f"{each}{packed}" for each in (".jsonl", ".ndjson") for packed in ("", ".gz", ".zst"))
READ_BYTES = 1 << 20  # bytes read, or expanded, at a time
BATCH_BYTES = 64 << 20  # bytes of records that also end a batch: few large records cost like many small ones


class TruncatedInput(Exception):
    """Raised by an iterator of bytes that ends early, with the reason.

    The bytes before are kept; the reason becomes a reject.
    """


def read_records(
    name: str, stored: Iterator[bytes], limits: ReadLimits, log_source: RecordReader = SOURCE
) -> Iterator[RecordBatch]:
    """Yield the records of one file or object. A failure becomes one reject, which says how far reading came.

    Exceptions of `stored` are passed on, except TruncatedInput.
    """
    errors: list[Reject] = []
    budget = ExpansionBudget(limits.max_expanded_bytes)
    chunks = _as_utf8(_chunks(name, stored, budget, errors))
    head = next(chunks, b"")
    following = next(chunks, None)
    rest = chain([head] if following is None else [head, following], chunks)
    if not name.lower().endswith(LINE_SUFFIXES) and _is_document(head, following is None, log_source):
        yield from _document(name, rest, limits, budget, errors, log_source)
    else:
        yield from _LineSplitter(name, limits, budget, errors, log_source).read(rest)
    if errors:
        yield RecordBatch([], [], errors)


def rebatch(parts: Iterator[RecordBatch], batch_records: int) -> Iterator[RecordBatch]:
    """Yield the same records in full batches, however small or large the files were."""
    waiting: list[RecordBatch] = []
    count = held = 0
    for part in parts:
        for piece in _split_batch(part, batch_records):
            size = len(piece.lines) + len(piece.rejects) + piece.skipped
            weight = sum(map(len, piece.lines))
            if waiting and (count + size > batch_records or held + weight > BATCH_BYTES):
                yield merge_batches(waiting)
                waiting, count, held = [], 0, 0
            if size:
                waiting.append(piece)
            count, held = count + size, held + weight
    if waiting:
        yield merge_batches(waiting)


def _split_batch(part: RecordBatch, batch_records: int) -> Iterator[RecordBatch]:
    if len(part.lines) <= batch_records:
        yield part
        return
    yield RecordBatch(part.lines[:batch_records], part.origins[:batch_records], part.rejects, part.skipped)
    for start in range(batch_records, len(part.lines), batch_records):
        yield RecordBatch(
            part.lines[start : start + batch_records], part.origins[start : start + batch_records], []
        )


def _chunks(
    name: str, stored: Iterator[bytes], budget: ExpansionBudget, errors: list[Reject]
) -> Iterator[bytes]:
    """Yield the bytes, expanded if they are gzip or zstd, at most READ_BYTES at a time; an early end adds to `errors`."""
    try:
        first = next(stored, b"")
        stored = chain([first], stored)
        inflate = inflater_of(first)
        yield from _expanded(name, stored, inflate, budget, errors) if inflate else stored
    except TruncatedInput as error:
        errors.append(Reject(name, "", str(error)))


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks, converted from UTF-16 (which Windows writes) to UTF-8: a line end of UTF-16 has two bytes."""
    first = next(chunks, b"")
    chunks = chain([first], chunks)
    if not first.startswith(UTF16_MARKS):
        yield from chunks
        return
    decoder = getincrementaldecoder("utf-16")("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", final=True).encode()


def _expanded(
    name: str,
    stored: Iterator[bytes],
    inflate: GzipInflater | ZstdInflater,
    budget: ExpansionBudget,
    errors: list[Reject],
) -> Iterator[bytes]:
    """Yield expanded gzip or zstd, also of several members. A decompression bomb costs one chunk and ends with its `budget`."""
    total = 0
    try:
        for text in inflate.read(stored):
            total += len(text)
            if not budget.spend(len(text)):
                errors.append(Reject(name, "", f"expands to more than {budget.limit:,} bytes"))
                return
            yield text
        if not inflate.complete:
            errors.append(Reject(name, "", f"{inflate.format} is cut short after {total:,} expanded bytes"))
    except (zlib.error, OSError) as error:
        errors.append(
            Reject(name, "", f"{inflate.format} is damaged after {total:,} expanded bytes: {error}")
        )


def _is_document(head: bytes, whole: bool, log_source: RecordReader) -> bool:
    """Return whether a file is one value, or values that span several lines, rather than one value for each line."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    if len(lines) <= 1 and not whole:
        return log_source.may_be_envelope(head)
    lines = (lines if whole else lines[:-1])[:8]
    return sum(map(is_json_object, lines)) * 2 <= len(lines)


def _document(
    path: str,
    chunks: Iterator[bytes],
    limits: ReadLimits,
    budget: ExpansionBudget,
    errors: list[Reject],
    log_source: RecordReader,
) -> Iterator[RecordBatch]:
    held, size = [], 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size > limits.max_document_bytes:
            yield RecordBatch(
                [], [], [Reject(path, "", f"a document larger than {limits.max_document_bytes:,} bytes")]
            )
            return
    text = b"".join(held)
    held.clear()  # otherwise it would be in memory twice
    parts = log_source.split_message_in_parts(text, path, "", limits, budget)
    yield from _without_truncation_reject(parts) if errors else parts


def _without_truncation_reject(parts: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield the parts without the reject of a truncated record: the file's own reject reports it."""
    for part, following in pairwise(chain(parts, [None])):
        assert part is not None  # noqa: S101 - only the last is
        if following is None and part.rejects and part.rejects[-1].reason.startswith("malformed JSON: no"):
            part = RecordBatch(part.lines, part.origins, part.rejects[:-1], part.skipped)
        yield part


@dataclass(slots=True)
class _LineSplitter:
    """Splits chunks into lines. A line longer than its bound is dropped while it is read and is never in memory."""

    path: str
    limits: ReadLimits
    budget: ExpansionBudget
    errors: list[Reject]
    log_source: RecordReader
    number: int = 1  # of the line that is being held
    buffered: list[bytes] = field(default_factory=list)
    size: int = 0
    dropping: bool = False

    def read(self, chunks: Iterator[bytes]) -> Iterator[RecordBatch]:
        for chunk in chunks:
            head, newline, rest = chunk.partition(b"\n")
            yield from self._buffer(head)
            if newline:
                yield from self._finish()
                yield from self._whole_lines(rest)
        if self.errors and not is_json(b"".join(self.buffered)):
            yield from self._salvage_last_line()
        else:
            yield from self._finish()

    def _whole_lines(self, text: bytes) -> Iterator[RecordBatch]:
        if not text.strip():  # a bomb of blank lines must cost nothing
            self.number += text.count(b"\n")
            return
        lines = text.split(b"\n")
        last = lines.pop()
        if lines:
            yield from self._parts(lines)
            self.number += len(lines)
        yield from self._buffer(last)

    def _buffer(self, part: bytes) -> Iterator[RecordBatch]:
        if self.dropping:
            return
        self.buffered.append(part)
        self.size += len(part)
        if self.size <= self.limits.max_record_bytes:
            return
        if len(self.buffered) > 1 and self.size - len(part) <= self.limits.max_record_bytes:
            self.buffered = [b"".join(self.buffered)]
        most = self.limits.max_document_bytes if self.log_source.may_be_envelope(self.buffered[0]) else 0
        if self.size > most:
            limit = most or self.limits.max_record_bytes
            self.dropping, self.buffered = True, []
            yield RecordBatch(
                [], [], [Reject(self.path, str(self.number), f"a line larger than {limit:,} bytes")]
            )

    def _finish(self) -> Iterator[RecordBatch]:
        """Yield the records of the buffered line, which is complete."""
        line = b"".join(self.buffered)
        if line and not self.dropping:
            yield from self._parts([line])
        self.number, self.buffered, self.size, self.dropping = self.number + 1, [], 0, False

    def _salvage_last_line(self) -> Iterator[RecordBatch]:
        """Yield the complete records of the last line of a file whose end is missing."""
        yield from _without_truncation_reject(
            self.log_source.split_message_in_parts(
                b"".join(self.buffered), self.path, str(self.number), self.limits, self.budget
            )
        )

    def _parts(self, lines: list[bytes]) -> Iterator[RecordBatch]:
        return self.log_source.split_lines_in_parts(lines, self.path, self.number, self.limits, self.budget)
