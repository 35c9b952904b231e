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
from fingerprint.core.ports import Consumer, Message, NotOwner, Partition, Rebalancing

DEATHS = 2  # at one position; then its messages are read one by one
BREATH_SECONDS = 10.0
REASON = "killed its reader twice"

log = logging.getLogger("fingerprint.poison")


class Mark(NamedTuple):
    """How often reading began at a committed offset, and which message was read alone (-1: many were)."""

    tries: int = 0
    alone: int = -1

    @property
    def kills(self) -> bool:
        """Whether the message that was read alone is to blame."""
        return self.alone >= 0 and self.tries > DEATHS

    def __str__(self) -> str:
        return f"tries={self.tries} alone={self.alone}"

    @classmethod
    def of(cls, text: str) -> Mark:
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

    def __init__(self, consumer: Consumer, breathe: Callable[[], None] = lambda: None) -> None:
        self.consumer = consumer
        self.breathe = breathe  # called now and then while messages are read one by one, so that the group knows that we live
        self.known: set[Partition] = set()  # those whose mark was read since they were assigned
        self.begun: dict[
            Partition, tuple[int, Mark]
        ] = {}  # not passed yet: the position, and the mark that lies there
        self.deadly: dict[Partition, int] = {}  # the message that was being read alone when a reader died

    @property
    def careful(self) -> bool:
        """Whether messages are read one by one."""
        return any(mark.tries > DEATHS for _, mark in self.begun.values())

    def batches(self, polled: Sequence[Message]) -> Iterator[tuple[list[Message], bool]]:
        """All messages in their order, in batches; and whether a batch is one message that killed its reader."""
        self._begin(polled)
        if not self.careful:
            if polled:
                yield list(polled), False
            return
        breath = time.monotonic()
        for message in polled:
            if time.monotonic() - breath > BREATH_SECONDS:
                self.breathe()
                breath = time.monotonic()
            if message.offset == self.deadly.get(message.home):
                del self.deadly[message.home]
                log.error("a message kills its reader", extra={"fields": _place(message)})
                yield [message], True
                continue
            self._mark_alone(message)
            yield [message], False

    def passed(self, partitions: Collection[Partition]) -> None:
        """Something was committed past where they began: whatever was marked is gone."""
        for each in partitions:
            self.begun.pop(each, None)

    def forget(self, partitions: Collection[Partition]) -> None:
        """Others read these now, or they are ours anew."""
        self.passed(partitions)
        self.known -= set(partitions)
        for each in partitions:
            self.deadly.pop(each, None)

    @contextmanager
    def spared(self) -> Iterator[None]:
        """A reader that ends with an error, and can say so: no message is to blame."""
        try:
            yield
        except BaseException:
            self._spare()
            raise

    def _spare(self) -> None:
        self._write(
            {
                each: (at, mark._replace(tries=mark.tries - 1, alone=-1))
                for each, (at, mark) in self.begun.items()
            }
        )

    def _begin(self, polled: Sequence[Message]) -> None:
        """Mark the partitions that are new here, and learn which of their messages was being read alone when a reader died."""
        if not polled or self.known >= self.consumer.assignment():
            return
        first = {message.home: message.offset for message in reversed(polled)}
        new = first.keys() - self.known
        self.known |= new
        with suppress(FingerprintError):  # who cannot be asked is not marked either
            found = self.consumer.metadata(new)
            marks = {each: Mark.of(text) for each, (at, text) in found.items() if at == first[each]}
            self.deadly |= {each: mark.alone for each, mark in marks.items() if mark.kills}
            tried = {each: marks.get(each, Mark()) for each in new}
            self._write(
                {each: (first[each], mark._replace(tries=mark.tries + 1)) for each, mark in tried.items()}
            )

    def _mark_alone(self, message: Message) -> None:
        """Of all partitions one message is being read from now on: marks of what was read before are taken back with it."""
        at, mark = self.begun.get(message.home, (message.offset, Mark(DEATHS + 1)))
        others = {
            home: (begun, each._replace(alone=-1))
            for home, (begun, each) in self.begun.items()
            if each.alone >= 0
        }
        self._write({**others, message.home: (at, mark._replace(alone=message.offset))})

    def _write(self, marks: dict[Partition, tuple[int, Mark]]) -> None:
        """Safe when it returns, unless the partition is somebody else's or the broker away: then no mark is missed."""
        ours = {each: marks[each] for each in marks.keys() & self.consumer.assignment()}
        self.begun |= ours
        if ours:
            with suppress(NotOwner, Rebalancing, FingerprintError):
                self.consumer.commit(
                    {each: at for each, (at, _) in ours.items()},
                    {each: str(mark) for each, (_, mark) in ours.items()},
                )


def _place(message: Message) -> dict[str, object]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "reason": REASON,
    }
