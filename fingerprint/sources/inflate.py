"""Gzip and zstd to text, a bounded chunk at a time and in linear time, whatever the bytes.

Example:
    >>> [text] = GzipInflater().read(iter([gzip.compress(b"one, ") + gzip.compress(b"two")]))
    >>> text
    b'one, two'

A decompressor returns the input that it did not use as a copy. Fed a whole message, it would copy the rest for every member,
and an attacker's message has a member for every twenty bytes. So it is fed small slices.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import RawIOBase

GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
OUTPUT_BYTES = 1 << 20  # bytes of text handed on at a time, at most
_SLICE = 1 << 14  # bytes fed at a time: the most that a member's end makes it copy
_GZIP_ONLY = 31  # zlib's wbits: gzip, its window as large as may be


class ExpansionBudget:
    """Bytes that one message or document may still expand to, together with everything that is wrapped in it.

    Example:
        >>> whole = ExpansionBudget(1000)
        >>> inner = ExpansionBudget(300, whole)         # bytes spent of a part are spent of the whole
        >>> inner.spend(200), inner.remaining, whole.remaining
        (True, 100, 800)
    """

    __slots__ = ("_left", "_whole", "limit")

    def __init__(self, limit: int, whole: ExpansionBudget | None = None) -> None:
        self.limit, self._left, self._whole = limit, limit, whole

    @property
    def remaining(self) -> int:
        """Bytes that may still come, 0 at least."""
        left = self._left if self._whole is None else min(self._left, self._whole.remaining)
        return max(left, 0)

    def spend(self, count: int) -> bool:
        """Take `count` bytes off the budget and return whether it had so many; bytes past it are taken off, too."""
        within = count <= self.remaining
        self._left -= count
        if self._whole is not None:
            self._whole.spend(count)
        return within


class GzipInflater:
    """Gzip members, one after the other, to text of at most OUTPUT_BYTES at a time; `complete` after a whole last member.

    Bytes after a member that are no member (padding apart) end the text where `strict` is False, and are a zlib.error where it
    is True.
    """

    format = "gzip"

    def __init__(self, strict: bool = True) -> None:
        self._strict = strict
        self._member = zlib.decompressobj(_GZIP_ONLY)
        self._buffered: list[bytes] = []
        self._size = 0
        self._ended = False

    @property
    def complete(self) -> bool:
        """True when the last member has ended."""
        return self._member.eof

    def read(self, stored: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the text of stored bytes as far as they are gzip.

        Raises zlib.error where they are damaged, after the text before.
        """
        try:
            for chunk in stored:
                for start in range(0, len(chunk), _SLICE):
                    yield from self._feed(chunk[start : start + _SLICE])
            while text := self._member.decompress(
                b"", OUTPUT_BYTES - self._size
            ):  # what the last slice left inside
                yield from self._buffer(text)
        except zlib.error:
            yield from self._drain()
            raise
        yield from self._drain()

    def _feed(self, part: bytes) -> Iterator[bytes]:
        while part and not self._ended:
            if self._member.eof and not (part := self._next_member(part)):
                return
            yield from self._buffer(self._member.decompress(part, OUTPUT_BYTES - self._size))
            part = self._member.unused_data if self._member.eof else self._member.unconsumed_tail

    def _next_member(self, part: bytes) -> bytes:
        """Begin a new member behind the padding and return its bytes; empty where none follows."""
        part = part.lstrip(b"\x00")
        self._ended = bool(part) and not self._strict and part[:1] != GZIP_MAGIC[:1]
        if self._ended or not part:
            return b""
        self._member = zlib.decompressobj(_GZIP_ONLY)
        return part

    def _buffer(self, text: bytes) -> Iterator[bytes]:
        if text:
            self._buffered.append(text)
            self._size += len(text)
        if self._size >= OUTPUT_BYTES:
            yield from self._drain()

    def _drain(self) -> Iterator[bytes]:
        if self._buffered:
            text = b"".join(self._buffered)
            self._buffered, self._size = [], 0
            yield text


class ZstdInflater:
    """Frames of zstd, one after the other, to text of at most OUTPUT_BYTES at a time; `complete` after a whole last frame."""

    format = "zstd"

    def __init__(self) -> None:
        self.complete = False

    def read(self, stored: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the text of stored bytes as far as they are zstd.

        Raises OSError where they are damaged or cut short, after the text before.
        """
        import pyarrow as pa  # few files are zstd, and its import takes longer than reading one

        buffered: list[bytes] = []
        try:
            with pa.CompressedInputStream(pa.PythonFile(_ByteStream(stored), "r"), "zstd") as stream:
                while text := stream.read(_SLICE):
                    buffered.append(text)
                    if len(buffered) * _SLICE >= OUTPUT_BYTES:
                        yield b"".join(buffered)
                        buffered = []
        except Exception:
            yield b"".join(buffered)
            raise
        yield b"".join(buffered)
        self.complete = True


def inflater_of(head: bytes) -> GzipInflater | ZstdInflater | None:
    """Return what expands data that begins so; None where it is neither gzip nor zstd."""
    if head.startswith(GZIP_MAGIC):
        return GzipInflater()
    return ZstdInflater() if head.startswith(ZSTD_MAGIC) else None


class _ByteStream(RawIOBase):
    """Chunks of bytes as a file that is read from its beginning to its end."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, empty at the end."""
        self._rest = self._rest or next(self._chunks, b"")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
