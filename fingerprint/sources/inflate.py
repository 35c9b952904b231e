"""Decompression of gzip and zstd, a bounded chunk at a time and in linear time, whatever the bytes.

Example:
    >>> [text] = GzipInflater().read(iter([gzip.compress(b"one, ") + gzip.compress(b"two")]))
    >>> text
    b'one, two'

A decompressor returns a copy of the input that it did not use. With a whole message as input it would copy the rest for every
member, and an attacker's message may have a member for every twenty bytes. So the input is given in small slices.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import RawIOBase

GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
OUTPUT_BYTES = 1 << 20  # most bytes of text that are returned at a time
_SLICE = 1 << 14  # bytes of input at a time: the most that is copied at the end of a member
_GZIP_ONLY = 31  # zlib's wbits: gzip with the largest window


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
        """The number of bytes left, at least 0."""
        left = self._left if self._whole is None else min(self._left, self._whole.remaining)
        return max(left, 0)

    def spend(self, count: int) -> bool:
        """Subtract `count` bytes from the budget, even if it has fewer, and return whether it had so many."""
        within = count <= self.remaining
        self._left -= count
        if self._whole is not None:
            self._whole.spend(count)
        return within


class GzipInflater:
    """Expands gzip members, one after another, to text of at most OUTPUT_BYTES at a time; `complete` after a whole last one.

    Bytes after a member that are neither padding nor a member end the text; if it is `strict`, they raise zlib.error.
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
        """True if the last member has ended."""
        return self._member.eof

    def read(self, stored: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the text of stored bytes as far as they are gzip.

        Raise zlib.error at damaged bytes, after the text before them.
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
        """Begin a new member after the padding and return its bytes; empty if no member follows."""
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
    """Expands zstd frames, one after another, to text of at most OUTPUT_BYTES at a time; `complete` after a whole last one."""

    format = "zstd"

    def __init__(self) -> None:
        self.complete = False

    def read(self, stored: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the text of stored bytes as far as they are zstd.

        Raise OSError at damaged bytes or an early end, after the text before.
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
    """Return the inflater for data that begins with `head`; None if it is neither gzip nor zstd."""
    if head.startswith(GZIP_MAGIC):
        return GzipInflater()
    return ZstdInflater() if head.startswith(ZSTD_MAGIC) else None


class _ByteStream(RawIOBase):
    """Chunks of bytes as a file that can be read once, from beginning to end."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, empty at the end."""
        self._rest = self._rest or next(self._chunks, b"")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken
