"""Messages that kill their reader, found across restarts: a segfault, the kernel out of memory, a loop that liveness ends.

Kafka keeps a text beside each committed offset. What is written there before messages are read is gone with the next commit, so
after a restart it is there only if the reader died. A reader that ends with an error takes it back first (`spared`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Consumer, Message, Partition, PartitionNotOwned, RebalanceInProgress

MAX_READ_ATTEMPTS = 2  # at one position; then its messages are read one by one
MAX_BATCH_SECONDS = 10.0
POISON_REASON = "killed its reader twice"

log = logging.getLogger("fingerprint.poison")


class ReadMark(NamedTuple):
    """How often reading began at a committed offset, and which message was read alone (-1: many were)."""

    tries: int = 0
    alone: int = -1

    @property
    def is_poison(self) -> bool:
        """Whether the message that was read alone is to blame."""
        return self.alone >= 0 and self.tries > MAX_READ_ATTEMPTS

    def __str__(self) -> str:
        return f"tries={self.tries} alone={self.alone}"

    @classmethod
    def parse(cls, text: str) -> ReadMark:
        """What was written; nothing of ours is no try."""
        try:
            tries, alone = (int(part.partition("=")[2]) for part in text.split())
        except ValueError:
            return cls()
        return cls(tries, alone)


class PoisonGuard:
    """Cuts what was polled so that a message which kills its reader is found, and passed over after its second time.

    Example:
        >>> for batch, deadly in guard.batches(consumer.poll(1.0)):
        ...     bury(batch) if deadly else read(batch)
        ...     consumer.commit(after(batch))
        ...     guard.passed(home for home in after(batch))

    The first batch of a partition after it was assigned is marked. Where DEATHS readers died at the same position, messages
    come one by one, each marked by itself; the one that kills then comes as `deadly` to the next reader.
    """

    def __init__(self, consumer: Consumer, before_message: Callable[[], None] = lambda: None) -> None:
        self.consumer = consumer
        self.before_message = before_message  # called now and then while messages are read one by one, so that the group knows that we live
        self.known_partitions: set[Partition] = set()  # those whose mark was read since they were assigned
        self.started: dict[
            Partition, tuple[int, ReadMark]
        ] = {}  # not passed yet: the position, and the mark that lies there
        self.poison_messages: dict[
            Partition, int
        ] = {}  # the message that was being read alone when a reader died

    @property
    def is_isolating(self) -> bool:
        """Whether messages are read one by one."""
        return any(mark.tries > MAX_READ_ATTEMPTS for _, mark in self.started.values())

    def batches(self, polled: Sequence[Message]) -> Iterator[tuple[list[Message], bool]]:
        """All messages in their order, in batches; and whether a batch is one message that killed its reader."""
        self._start_partitions(polled)
        if not self.is_isolating:
            if polled:
                yield list(polled), False
            return
        breath = time.monotonic()
        for message in polled:
            if time.monotonic() - breath > MAX_BATCH_SECONDS:
                self.before_message()
                breath = time.monotonic()
            if message.offset == self.poison_messages.get(message.source_partition):
                del self.poison_messages[message.source_partition]
                log.error("a message kills its reader", extra={"fields": _log_fields(message)})
                yield [message], True
                continue
            self._mark_isolated(message)
            yield [message], False

    def committed(self, partitions: Collection[Partition]) -> None:
        """Something was committed past where they began: whatever was marked is gone."""
        for each in partitions:
            self.started.pop(each, None)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Others read these now, or they are ours anew."""
        self.committed(partitions)
        self.known_partitions -= set(partitions)
        for each in partitions:
            self.poison_messages.pop(each, None)

    @contextmanager
    def clearing_marks_on_error(self) -> Iterator[None]:
        """A reader that ends with an error, and can say so: no message is to blame."""
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
        """Mark the partitions that are new here, and learn which of their messages was being read alone when a reader died."""
        if not polled or self.known_partitions >= self.consumer.assignment():
            return
        first = {message.source_partition: message.offset for message in reversed(polled)}
        new = first.keys() - self.known_partitions
        self.known_partitions |= new
        with suppress(FingerprintError):  # who cannot be asked is not marked either
            found = self.consumer.committed_metadata(new)
            marks = {each: ReadMark.parse(text) for each, (at, text) in found.items() if at == first[each]}
            self.poison_messages |= {each: mark.alone for each, mark in marks.items() if mark.is_poison}
            tried = {each: marks.get(each, ReadMark()) for each in new}
            self._write_marks(
                {each: (first[each], mark._replace(tries=mark.tries + 1)) for each, mark in tried.items()}
            )

    def _mark_isolated(self, message: Message) -> None:
        """Of all partitions one message is being read from now on: marks of what was read before are taken back with it."""
        at, mark = self.started.get(
            message.source_partition, (message.offset, ReadMark(MAX_READ_ATTEMPTS + 1))
        )
        others = {
            home: (begun, each._replace(alone=-1))
            for home, (begun, each) in self.started.items()
            if each.alone >= 0
        }
        self._write_marks({**others, message.source_partition: (at, mark._replace(alone=message.offset))})

    def _write_marks(self, marks: dict[Partition, tuple[int, ReadMark]]) -> None:
        """Safe when it returns, unless the partition is somebody else's or the broker away: then no mark is missed."""
        ours = {each: marks[each] for each in marks.keys() & self.consumer.assignment()}
        self.started |= ours
        if ours:
            with suppress(PartitionNotOwned, RebalanceInProgress, FingerprintError):
                self.consumer.commit(
                    {each: at for each, (at, _) in ours.items()},
                    {each: str(mark) for each, (_, mark) in ours.items()},
                )


def _log_fields(message: Message) -> dict[str, object]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "reason": POISON_REASON,
    }
