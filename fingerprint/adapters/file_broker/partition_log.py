"""One partition of a topic as files that only grow: a message a line, JSON; its offset is the number of its line.

Example:
    >>> log = Log(Path("stream/events/0"))
    >>> log.append(b'{"value": "..."}\\n')
    >>> Reader(log, offset=0).read(most=100, most_bytes=1 << 20)

A segment is named by the offset of its first line, so that old ones can be deleted and a reader notices. Writers take
turns by a lock; a line that a crash left unfinished is cut off by the next writer and never read.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

SEGMENT_BYTES = 64 << 20
SUFFIX = ".jsonl"


class OffsetOutOfRange(Exception):
    """The offset is not held: `beginning` to `end` is."""


@contextmanager
def hold_file_lock(file: Path) -> Iterator[None]:
    """One holder at a time, among processes and threads; the operating system lets go of the dead."""
    with file.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class PartitionLog:
    """One partition's folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._line_counts: dict[Path, tuple[int, int]] = {}  # segment: bytes looked at, whole lines in them

    def segments(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def beginning_offset(self) -> int:
        segments = self.segments()
        return _base_offset(segments[0]) if segments else 0

    def end_offset(self) -> int:
        segments = self.segments()
        return _base_offset(segments[-1]) + self._count_lines(segments[-1]) if segments else 0

    def _count_lines(self, segment: Path) -> int:
        looked, lines = self._line_counts.get(segment, (0, 0))
        with segment.open("rb") as file:
            file.seek(looked)
            while chunk := file.read(1 << 20):
                whole = chunk.rfind(b"\n") + 1
                if not whole:
                    break
                looked, lines = looked + whole, lines + chunk.count(b"\n")
                file.seek(looked)
        self._line_counts = {segment: (looked, lines)}
        return lines

    def append(self, line: bytes) -> None:
        """Whole or, if it raises OSError, not at all."""
        with hold_file_lock(self.folder / "lock"), self._writable_segment().open("r+b", buffering=0) as file:
            end = _truncate_torn_line(file)
            try:
                written = file.write(line)
                if written != len(line):
                    raise OSError(f"only {written} of {len(line)} bytes were written")
            except OSError:
                file.truncate(end)
                raise

    def _writable_segment(self) -> Path:
        segments = self.segments()
        if segments and segments[-1].stat().st_size < SEGMENT_BYTES:
            return segments[-1]
        fresh = self.folder / f"{self.end_offset():020d}{SUFFIX}"
        fresh.touch()
        return fresh

    def sync(self) -> None:
        """What was appended survives a loss of power."""
        for segment in self.segments()[-2:]:
            with segment.open("rb") as file:
                os.fsync(file.fileno())


def _base_offset(segment: Path) -> int:
    return int(segment.name.removesuffix(SUFFIX))


def _truncate_torn_line(file: BinaryIO) -> int:
    """Where to write on; what a crash left behind the last newline is cut off."""
    end = file.seek(0, os.SEEK_END)
    if not end or os.pread(file.fileno(), 1, end - 1) == b"\n":
        return end
    whole = os.pread(file.fileno(), end, 0).rfind(b"\n") + 1
    file.truncate(whole)
    return file.seek(whole)


class LogReader:
    """A place in a log, and what follows it. Gone if the place is not held."""

    def __init__(self, log: PartitionLog, offset: int):
        self._log = log
        self.offset = offset
        self._file: BinaryIO | None = None
        self._base_offset = -1

    def read(self, most: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """Offsets and whole lines, at most so many and so large; one at least, if there is one."""
        lines: list[tuple[int, bytes]] = []
        while len(lines) < most and (line := self._read_line(most_bytes, alone=not lines)):
            lines.append((self.offset, line))
            self.offset += 1
            most_bytes -= len(line)
        return lines

    def _read_line(self, room: int, alone: bool) -> bytes:
        file = self._file or self._open_segment()
        if file is None:
            return b""
        place = file.tell()
        line = file.readline()
        if line.endswith(b"\n") and (alone or len(line) <= room):
            return line
        file.seek(place)
        if not line and self._advance_segment():
            return self._read_line(room, alone)
        return b""

    def _advance_segment(self) -> bool:
        """On to the next segment, once there is one that begins here."""
        if (
            self.offset == self._base_offset
            or not (self._log.folder / f"{self.offset:020d}{SUFFIX}").exists()
        ):
            return False
        self.close()
        return True

    def _open_segment(self) -> BinaryIO | None:
        segments = self._log.segments()
        if not self._log.beginning_offset() <= self.offset <= self._log.end_offset():
            raise OffsetOutOfRange(
                f"offset {self.offset}: {self._log.beginning_offset()} to {self._log.end_offset()} are held"
            )
        if not segments:
            return None
        segment = next(each for each in reversed(segments) if _base_offset(each) <= self.offset)
        file, self._base_offset = segment.open("rb"), _base_offset(segment)
        for _ in range(self.offset - self._base_offset):
            file.readline()
        self._file = file
        return file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
