"""The bytes of one file or object, a chunk at a time, to records: in constant memory, whatever they expand to.

Example:
    >>> stored = iter([gzip.compress(b'{"eventName": "GetUser"}')])
    >>> [records.lines for records in read("a.json.gz", stored, ReadLimits())]
    [[b'{"eventName": "GetUser"}']]

Whether the bytes are compressed, and whether they hold lines or one document, is told from them, not from the name; but
what is named LINES always holds lines. Memory is bounded by one document (`max_document_bytes`) where it is one, else by a line;
what it expands to, with all that is wrapped inside, by `max_expanded_bytes`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise

from fingerprint.core.alert import Reject
from fingerprint.sources.cloudtrail import envelopes
from fingerprint.sources.cloudtrail.envelopes import RecordBatch
from fingerprint.sources.inflate import GZIP_MAGIC, ExpansionBudget, GzipInflater
from fingerprint.sources.limits import ReadLimits

LINE_SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
READ_BYTES = 1 << 20  # bytes read, or expanded, at a time
BATCH_BYTES = 64 << 20  # of records: a batch ends here too, so few large ones cost what many small ones cost


class TruncatedInput(Exception):
    """Raised by the bytes themselves: no more will come, and why. What came before is kept, the reason is a reject."""


def read_records(name: str, stored: Iterator[bytes], limits: ReadLimits) -> Iterator[RecordBatch]:
    """The records of one file or object. What breaks on the way is one reject that says how far it came.

    What `stored` raises comes out of here, but for CutShort.
    """
    trouble: list[Reject] = []
    budget = ExpansionBudget(limits.max_expanded_bytes)
    chunks = _chunks(name, stored, budget, trouble)
    head = next(chunks, b"")
    following = next(chunks, None)
    rest = chain([head] if following is None else [head, following], chunks)
    if not name.lower().endswith(LINE_SUFFIXES) and _is_document(head, whole=following is None):
        yield from _document(name, rest, limits, budget, trouble)
    else:
        yield from _LineSplitter(name, limits, budget, trouble).read(rest)
    if trouble:
        yield RecordBatch([], [], trouble)


def rebatch(parts: Iterator[RecordBatch], batch_records: int) -> Iterator[RecordBatch]:
    """The same records in batches that are full, however small or large the files were."""
    waiting: list[RecordBatch] = []
    count = held = 0
    for part in parts:
        for piece in _split_batch(part, batch_records):
            size, weight = len(piece.lines) + len(piece.rejects), sum(map(len, piece.lines))
            if waiting and (count + size > batch_records or held + weight > BATCH_BYTES):
                yield envelopes.merge_batches(waiting)
                waiting, count, held = [], 0, 0
            if size or piece.skipped:
                waiting.append(piece)
            count, held = count + size, held + weight
    if waiting:
        yield envelopes.merge_batches(waiting)


def _split_batch(part: RecordBatch, most: int) -> Iterator[RecordBatch]:
    if len(part.lines) <= most:
        yield part
        return
    yield RecordBatch(part.lines[:most], part.origins[:most], part.rejects, part.skipped)
    for start in range(most, len(part.lines), most):
        yield RecordBatch(part.lines[start : start + most], part.origins[start : start + most], [])


def _chunks(
    name: str, stored: Iterator[bytes], budget: ExpansionBudget, trouble: list[Reject]
) -> Iterator[bytes]:
    """The bytes, expanded if they are gzip, at most CHUNK at a time; ends early with an entry in `trouble`."""
    try:
        first = next(stored, b"")
        stored = chain([first], stored)
        yield from _expanded(name, stored, budget, trouble) if first.startswith(GZIP_MAGIC) else stored
    except TruncatedInput as error:
        trouble.append(Reject(name, "", str(error)))


def _expanded(
    name: str, stored: Iterator[bytes], budget: ExpansionBudget, trouble: list[Reject]
) -> Iterator[bytes]:
    """Gzip, several members in a row too. Bounded: a bomb costs one chunk of memory and ends with its `budget`."""
    inflate = GzipInflater()
    total = 0
    try:
        for text in inflate.read(stored):
            total += len(text)
            if not budget.spend(len(text)):
                trouble.append(Reject(name, "", f"expands to more than {budget.limit:,} bytes"))
                return
            yield text
        if not inflate.complete:
            trouble.append(Reject(name, "", f"gzip is cut short after {total:,} expanded bytes"))
    except zlib.error as error:
        trouble.append(Reject(name, "", f"gzip is damaged after {total:,} expanded bytes: {error}"))


def _is_document(head: bytes, whole: bool) -> bool:
    """Whether a file is one value, or several, spread over lines as they please, rather than a value a
    line."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    if len(lines) <= 1 and not whole:
        return envelopes.may_be_envelope(head)
    lines = (lines if whole else lines[:-1])[:8]
    return sum(map(envelopes.is_json_object, lines)) * 2 <= len(lines)


def _document(
    path: str, chunks: Iterator[bytes], limits: ReadLimits, budget: ExpansionBudget, trouble: list[Reject]
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
    held.clear()  # it is there twice, else
    parts = envelopes.split_message_in_parts(text, path, "", limits, budget)
    yield from _without_truncation_reject(parts) if trouble else parts


def _without_truncation_reject(parts: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """What was cut off is told once, by the file's own reject."""
    for part, following in pairwise(chain(parts, [None])):
        assert part is not None  # noqa: S101 - only the last is
        if following is None and part.rejects and part.rejects[-1].reason.startswith("malformed JSON: no"):
            part = RecordBatch(part.lines, part.origins, part.rejects[:-1], part.skipped)
        yield part


@dataclass(slots=True)
class _LineSplitter:
    """Chunks to lines. A line longer than its bound is dropped while it is read, never held."""

    path: str
    limits: ReadLimits
    budget: ExpansionBudget
    errors: list[Reject]
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
        if self.errors and not envelopes.is_json(b"".join(self.buffered)):
            yield from self._salvage_last_line()
        else:
            yield from self._finish()

    def _whole_lines(self, text: bytes) -> Iterator[RecordBatch]:
        if not text.strip():  # a bomb of nothing but blank lines shall cost nothing
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
        most = self.limits.max_document_bytes if envelopes.may_be_envelope(self.buffered[0]) else 0
        if self.size > most:
            limit = most or self.limits.max_record_bytes
            self.dropping, self.buffered = True, []
            yield RecordBatch(
                [], [], [Reject(self.path, str(self.number), f"a line larger than {limit:,} bytes")]
            )

    def _finish(self) -> Iterator[RecordBatch]:
        """The held line is complete."""
        line = b"".join(self.buffered)
        if line and not self.dropping:
            yield from self._parts([line])
        self.number, self.buffered, self.size, self.dropping = self.number + 1, [], 0, False

    def _salvage_last_line(self) -> Iterator[RecordBatch]:
        """The end of the file is missing: of the line that it tore, keep what is complete."""
        yield from _without_truncation_reject(
            envelopes.split_message_in_parts(
                b"".join(self.buffered), self.path, str(self.number), self.limits, self.budget
            )
        )

    def _parts(self, lines: list[bytes]) -> Iterator[RecordBatch]:
        return envelopes.split_lines_in_parts(lines, self.path, self.number, self.limits, self.budget)
