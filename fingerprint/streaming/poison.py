"""Poison messages: find messages that kill their reader (segfault, out of memory, a hang that the liveness probe ends).

Kafka stores a text beside each committed offset. A reader writes a mark there before it reads messages, and the next commit
removes it. So a mark that is still there after a restart means that the reader died. A reader that ends with an error removes its
marks first (`clearing_marks_on_error`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.message_stream import (
    Consumer,
    Message,
    Partition,
    PartitionNotOwned,
    RebalanceInProgress,
)

MAX_READ_ATTEMPTS = 2  # at one position; after so many deaths, messages from there on are read one by one
MAX_BATCH_SECONDS = 10.0
POISON_REASON = "killed its reader twice"

log = get_logger("fingerprint.poison")


class ReadMark(NamedTuple):
    """The number of attempts to read from a committed offset, and the offset of a message that was read alone (-1: none)."""

    tries: int = 0
    alone: int = -1

    @property
    def is_poison(self) -> bool:
        """Return whether the message that was read alone killed its reader."""
        return self.alone >= 0 and self.tries > MAX_READ_ATTEMPTS

    def __str__(self) -> str:
        return f"tries={self.tries} alone={self.alone}"

    @classmethod
    def parse(cls, text: str) -> ReadMark:
        """Parse a mark; any other text is a mark without attempts."""
        try:
            tries, alone = (int(part.partition("=")[2]) for part in text.split())
        except ValueError:
            return cls()
        return cls(tries, alone)


class PoisonGuard:
    """Splits polled messages into batches, so that a message that kills its reader is found and skipped.

    Example:
        >>> for batch, is_poison in guard.batches(consumer.poll(1.0)):
        ...     dead_letter(batch) if is_poison else process(batch)
        ...     consumer.commit(offsets)                       # those after the batch, by partition
        ...     guard.committed(offsets)

    The first batch of a partition after its assignment is marked. Once MAX_READ_ATTEMPTS readers have died at the same position,
    messages come one by one, each with a mark of its own. The next reader gets the one that killed its reader as poison.
    """

    def __init__(self, consumer: Consumer, before_message: Callable[[], None] = lambda: None) -> None:
        self.consumer = consumer
        # Called every MAX_BATCH_SECONDS while messages are read one by one, so that this process stays in its group
        self.before_message = before_message
        self.known_partitions: set[Partition] = set()  # their mark was read since they were assigned
        # Position and mark of the partitions without a commit since the mark
        self.started: dict[Partition, tuple[int, ReadMark]] = {}
        self.poison_messages: dict[Partition, int] = {}  # offsets of messages that killed their reader

    @property
    def is_isolating(self) -> bool:
        """Return whether messages are read one by one."""
        return any(mark.tries > MAX_READ_ATTEMPTS for _, mark in self.started.values())

    def batches(self, polled: Sequence[Message]) -> Iterator[tuple[list[Message], bool]]:
        """Yield all messages, in order, in batches, each with a flag: True for a single message that killed its reader."""
        self._start_partitions(polled)
        if not self.is_isolating:
            if polled:
                yield list(polled), False
            return
        last_call = time.monotonic()
        for message in polled:
            if time.monotonic() - last_call > MAX_BATCH_SECONDS:
                self.before_message()
                last_call = time.monotonic()
            if message.offset == self.poison_messages.get(message.source_partition):
                del self.poison_messages[message.source_partition]
                log.error("a message kills its reader", **_log_fields(message))
                yield [message], True
                continue
            self._mark_isolated(message)
            yield [message], False

    def committed(self, partitions: Collection[Partition]) -> None:
        """Note a commit in partitions, which removed their marks."""
        for each in partitions:
            self.started.pop(each, None)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Forget partitions that were revoked or assigned again."""
        self.committed(partitions)
        self.known_partitions -= set(partitions)
        for each in partitions:
            self.poison_messages.pop(each, None)

    @contextmanager
    def clearing_marks_on_error(self) -> Iterator[None]:
        """Clear all marks if the block raises: a reader that ends with an error was not killed."""
        try:
            yield
        except BaseException:
            self._clear_marks()
            raise

    def _clear_marks(self) -> None:
        self._write_marks(
            {
                each: (at, mark._replace(tries=mark.tries - 1, alone=-1))
                for each, (at, mark) in self.started.items()
            }
        )

    def _start_partitions(self, polled: Sequence[Message]) -> None:
        """Read the marks of newly assigned partitions, note their poison messages, and write new marks."""
        if not polled or self.known_partitions >= self.consumer.assignment():
            return
        first = {message.source_partition: message.offset for message in reversed(polled)}
        new = first.keys() - self.known_partitions
        self.known_partitions |= new
        with suppress(FingerprintError):  # without an answer there is no mark either
            found = self.consumer.committed_metadata(new)
            marks = {each: ReadMark.parse(text) for each, (at, text) in found.items() if at == first[each]}
            self.poison_messages |= {each: mark.alone for each, mark in marks.items() if mark.is_poison}
            tried = {each: marks.get(each, ReadMark()) for each in new}
            self._write_marks(
                {each: (first[each], mark._replace(tries=mark.tries + 1)) for each, mark in tried.items()}
            )

    def _mark_isolated(self, message: Message) -> None:
        """Mark the one message that is read now, and clear the marks of messages in other partitions."""
        at, mark = self.started.get(
            message.source_partition, (message.offset, ReadMark(MAX_READ_ATTEMPTS + 1))
        )
        others = {
            partition: (begun, each._replace(alone=-1))
            for partition, (begun, each) in self.started.items()
            if each.alone >= 0
        }
        self._write_marks({**others, message.source_partition: (at, mark._replace(alone=message.offset))})

    def _write_marks(self, marks: dict[Partition, tuple[int, ReadMark]]) -> None:
        """Write marks. On return they are stored, unless the partition has another owner or the broker does not answer."""
        owned = {each: marks[each] for each in marks.keys() & self.consumer.assignment()}
        self.started |= owned
        if owned:
            with suppress(PartitionNotOwned, RebalanceInProgress, FingerprintError):
                self.consumer.commit(
                    {each: at for each, (at, _) in owned.items()},
                    {each: str(mark) for each, (_, mark) in owned.items()},
                )


def _log_fields(message: Message) -> dict[str, object]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "reason": POISON_REASON,
    }
