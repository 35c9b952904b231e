"""The files door: files, folders, globs and object stores to batches of records, in constant memory.

Example:
    >>> for records in read(["data/real"], Reading()):
    ...     flatten(records)

A source is anything fsspec opens (`trail/`, `2023-07-*.json.gz`, `s3://bucket/AWSLogs/`,
`memory://x.jsonl`). In a folder, the files
with a suffix of SUFFIXES are read, in order of their names, except `labels.*` and `provenance.*`. Whether a
file is
compressed, and whether it holds lines or one document, is told from its bytes, not from its name.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, BinaryIO

import fsspec
from fsspec.core import url_to_fs

from fingerprint import cloudtrail
from fingerprint.cloudtrail import Records
from fingerprint.domain import FingerprintError, Reject
from fingerprint.settings import Reading

SUFFIXES = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")
LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
NOT_RECORDS = ("labels.", "provenance.")
CHUNK = 1 << 20  # bytes read, or expanded, at a time
BATCH_BYTES = (
    64 << 20
)  # a batch ends here too, so that few large records cost no more memory than many small ones
_GZIP = b"\x1f\x8b"

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class File:
    """One file on its file system; `path` is what a reject names."""

    system: fsspec.AbstractFileSystem
    path: str
    size: int


def read(sources: Sequence[str], bounds: Reading, progress: Progress | None = None) -> Iterator[Records]:
    """Batches of at most `bounds.batch_records` lines, rejects and skipped counts with the batch they fell
    in.

    `progress` is called with the bytes read from the store since its last call; they add up to
    `size(find(sources))`.
    Raises FingerprintError before anything is read when a source is missing, empty or needs a package that
    is not there.
    """
    files = find(sources)
    return _batches(chain.from_iterable(_file(file, bounds, progress) for file in files), bounds)


def find(sources: Sequence[str]) -> list[File]:
    """The files behind the sources, in the order in which they are read. Raises FingerprintError as `read`
    does."""
    return [file for source in sources for file in _expand(str(source))]


def size(files: Sequence[File]) -> int:
    """Bytes as stored: the length of a progress bar."""
    return sum(file.size for file in files)


def _expand(source: str) -> list[File]:
    try:
        system, path = url_to_fs(source)
        found = _paths(system, path)
        files = [File(system, name, int(info.get("size") or 0)) for name, info in sorted(found.items())]
    except ImportError as error:
        raise FingerprintError(f"{source}: {error}; `pip install fingerprint[s3]` reads S3") from None
    except Exception as error:  # each object store raises its own kinds
        raise FingerprintError(f"{source}: cannot be read ({error})") from None
    if not files:
        raise FingerprintError(f"{source}: no such file, and no folder or pattern with files of records")
    return files


def _paths(system: fsspec.AbstractFileSystem, path: str) -> dict[str, Any]:
    if system.isfile(path):
        return {path: system.info(path)}
    if system.isdir(path):
        found = system.find(path, detail=True)
        return {name: info for name, info in found.items() if _holds_records(name)}
    found = system.glob(path, detail=True) if any(mark in path for mark in "*?[") else {}
    files = {name: info for name, info in found.items() if info["type"] == "file" and not _is_aside(name)}
    for name, info in found.items():
        files |= _paths(system, name) if info["type"] == "directory" else {}
    return files


def _is_aside(path: str) -> bool:
    return path.rsplit("/", 1)[-1].startswith((".", *NOT_RECORDS))


def _holds_records(path: str) -> bool:
    return path.lower().endswith(SUFFIXES) and not _is_aside(path)


def _batches(parts: Iterator[Records], bounds: Reading) -> Iterator[Records]:
    """The same records in batches that are full, however small or large the files were."""
    waiting: list[Records] = []
    count = held = 0
    for part in parts:
        for piece in _pieces(part, bounds.batch_records):
            size, weight = len(piece.lines) + len(piece.rejects), sum(map(len, piece.lines))
            if waiting and (count + size > bounds.batch_records or held + weight > BATCH_BYTES):
                yield cloudtrail.merge(waiting)
                waiting, count, held = [], 0, 0
            if size or piece.skipped:
                waiting.append(piece)
            count, held = count + size, held + weight
    if waiting:
        yield cloudtrail.merge(waiting)


def _pieces(part: Records, most: int) -> Iterator[Records]:
    yield Records(part.lines[:most], part.origins[:most], part.rejects, part.skipped)
    for start in range(most, len(part.lines), most):
        yield Records(part.lines[start : start + most], part.origins[start : start + most], [])


def _file(file: File, bounds: Reading, progress: Progress | None) -> Iterator[Records]:
    """The records of one file. What breaks on the way is one reject that says how far it came."""
    trouble: list[Reject] = []
    chunks = _chunks(file, bounds, progress, trouble)
    head = next(chunks, b"")
    following = next(chunks, None)
    rest = chain([head] if following is None else [head, following], chunks)
    if not file.path.lower().endswith(LINES) and _is_document(head, whole=following is None):
        yield from _document(file.path, rest, bounds, trouble)
    else:
        yield from _Lines(file.path, bounds, trouble).read(rest)
    if trouble:
        yield Records([], [], trouble)


def _chunks(file: File, bounds: Reading, progress: Progress | None, trouble: list[Reject]) -> Iterator[bytes]:
    """The bytes of a file, expanded if they are gzip, at most CHUNK at a time; ends early with an entry in
    `trouble`."""
    try:
        with file.system.open(file.path, "rb") as stream:
            stored = _counted(stream, progress)
            first = next(stored, b"")
            stored = chain([first], stored)
            yield from _expanded(stored, file, bounds, trouble) if first.startswith(_GZIP) else stored
    except OSError as error:
        trouble.append(Reject(file.path, "", f"cannot be read: {error.strerror or error}"))


def _counted(stream: BinaryIO, progress: Progress | None) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        if progress:
            progress(len(chunk))
        yield chunk


def _expanded(stored: Iterator[bytes], file: File, bounds: Reading, trouble: list[Reject]) -> Iterator[bytes]:
    """Gzip, several members in a row too. Bounded: a bomb costs one chunk of memory and ends at
    `max_expanded_bytes`."""
    inflate = _Inflate()
    total = 0
    try:
        for text in inflate.read(stored):
            total += len(text)
            if total > bounds.max_expanded_bytes:
                trouble.append(
                    Reject(file.path, "", f"expands to more than {bounds.max_expanded_bytes:,} bytes")
                )
                return
            yield text
        if not inflate.complete:
            trouble.append(Reject(file.path, "", f"gzip is cut short after {total:,} expanded bytes"))
    except zlib.error as error:
        trouble.append(Reject(file.path, "", f"gzip is damaged after {total:,} expanded bytes: {error}"))


class _Inflate:
    """Gzip members, one after the other, to text of at most CHUNK bytes at a time; `complete` after a whole
    last member."""

    def __init__(self) -> None:
        self.member = zlib.decompressobj(31)

    @property
    def complete(self) -> bool:
        return self.member.eof

    def read(self, stored: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in stored:
            yield from self._feed(chunk)
        while text := self.member.decompress(b"", CHUNK):  # what the last chunk left inside
            yield text

    def _feed(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self.member.eof:
                chunk = chunk.lstrip(b"\x00")  # padding between members
                if not chunk:
                    return
                self.member = zlib.decompressobj(31)
            if text := self.member.decompress(chunk, CHUNK):
                yield text
            chunk = self.member.unused_data if self.member.eof else self.member.unconsumed_tail


def _is_document(head: bytes, whole: bool) -> bool:
    """Whether a file is one value, or several, spread over lines as they please, rather than a value a
    line."""
    lines = [line for line in head.split(b"\n") if line.strip()]
    if len(lines) <= 1 and not whole:
        return cloudtrail.may_be_envelope(head)
    lines = (lines if whole else lines[:-1])[:8]
    return sum(map(cloudtrail.is_object, lines)) * 2 <= len(lines)


def _document(
    path: str, chunks: Iterator[bytes], bounds: Reading, trouble: list[Reject]
) -> Iterator[Records]:
    held, size = [], 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size > bounds.max_document_bytes:
            yield Records(
                [], [], [Reject(path, "", f"a document larger than {bounds.max_document_bytes:,} bytes")]
            )
            return
    records = cloudtrail.split(b"".join(held), path, "", bounds)
    yield _without_torn_end(records) if trouble else records


def _without_torn_end(records: Records) -> Records:
    """What was cut off is told once, by the file's own reject."""
    torn = (
        records.rejects[-1:]
        if records.rejects and records.rejects[-1].reason.startswith("malformed JSON: no")
        else []
    )
    return Records(
        records.lines, records.origins, records.rejects[: len(records.rejects) - len(torn)], records.skipped
    )


@dataclass(slots=True)
class _Lines:
    """Chunks to lines. A line longer than its bound is dropped while it is read, never held."""

    path: str
    bounds: Reading
    trouble: list[Reject]
    number: int = 1  # of the line that is being held
    held: list[bytes] = field(default_factory=list)
    size: int = 0
    dropping: bool = False

    def read(self, chunks: Iterator[bytes]) -> Iterator[Records]:
        for chunk in chunks:
            head, newline, rest = chunk.partition(b"\n")
            yield from self._hold(head)
            if newline:
                yield from self._finish()
                yield from self._whole_lines(rest)
        if self.trouble and not cloudtrail.is_json(b"".join(self.held)):
            yield from self._torn()
        else:
            yield from self._finish()

    def _whole_lines(self, text: bytes) -> Iterator[Records]:
        if not text.strip():  # a bomb of nothing but blank lines shall cost nothing
            self.number += text.count(b"\n")
            return
        lines = text.split(b"\n")
        last = lines.pop()
        if lines:
            yield cloudtrail.split_lines(lines, self.path, self.number, self.bounds)
            self.number += len(lines)
        yield from self._hold(last)

    def _hold(self, part: bytes) -> Iterator[Records]:
        if self.dropping:
            return
        self.held.append(part)
        self.size += len(part)
        if self.size <= self.bounds.max_record_bytes:
            return
        if len(self.held) > 1 and self.size - len(part) <= self.bounds.max_record_bytes:
            self.held = [b"".join(self.held)]
        most = self.bounds.max_document_bytes if cloudtrail.may_be_envelope(self.held[0]) else 0
        if self.size > most:
            limit = most or self.bounds.max_record_bytes
            self.dropping, self.held = True, []
            yield Records(
                [], [], [Reject(self.path, str(self.number), f"a line larger than {limit:,} bytes")]
            )

    def _finish(self) -> Iterator[Records]:
        """The held line is complete."""
        line = b"".join(self.held)
        if line and not self.dropping:
            yield cloudtrail.split_lines([line], self.path, self.number, self.bounds)
        self.number, self.held, self.size, self.dropping = self.number + 1, [], 0, False

    def _torn(self) -> Iterator[Records]:
        """The end of the file is missing: of the line that it tore, keep what is complete."""
        yield _without_torn_end(
            cloudtrail.split(b"".join(self.held), self.path, str(self.number), self.bounds)
        )
