"""Read a topic until the end that it had at the start."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Consumer, Message, Offsets, Partition, next_offsets

POLL_SECONDS = 0.2  # a poll that finds no message waits so long
ASSIGNMENT_TIMEOUT_SECONDS = 75.0
NO_PARTITION_ASSIGNED = (
    "no partition was assigned to this member: the topic does not exist (`fingerprint doctor` tells), or others of its group "
    "own all of it: try again when they are done"
)


class EndOffsets:
    """The ends of a consumer's partitions, when they were first seen (or `end_offsets`), and its positions.

    An end that no message leads to (after a transaction, in a compacted topic) counts as reached when the lag is 0. A member
    without any partition for `assignment_timeout_seconds` is done as well, and `unassigned`: by then Kafka has assigned the
    partitions of members that died.
    """

    def __init__(
        self,
        consumer: Consumer,
        assignment_timeout_seconds: float = ASSIGNMENT_TIMEOUT_SECONDS,
        end_offsets: Offsets | None = None,
    ) -> None:
        self.consumer, self.assignment_timeout_seconds = consumer, assignment_timeout_seconds
        self.end_offsets: dict[Partition, int] = dict(end_offsets or {})
        self.positions: dict[Partition, int] = {}
        self.unassigned = False
        self._last_assigned = time.monotonic()

    def observe(self, messages: Sequence[Message]) -> None:
        """Note the positions of polled messages."""
        self.positions |= next_offsets(messages)

    def is_reached(self) -> bool:
        """Return whether every assigned partition was read to its end, or no partition was assigned for too long."""
        assigned = self.consumer.assignment()
        if not assigned:
            self.unassigned = time.monotonic() - self._last_assigned > self.assignment_timeout_seconds
            return self.unassigned
        self._last_assigned = time.monotonic()
        self._record_end_offsets([partition for partition in assigned if partition not in self.end_offsets])
        waiting = [each for each in assigned if self.positions.get(each, 0) < self.end_offsets[each]]
        if not waiting:
            return True
        lag = self.consumer.lag()
        return all(lag.get(each, 1) == 0 for each in waiting)

    def _record_end_offsets(self, partitions: list[Partition]) -> None:
        if partitions:
            self.end_offsets |= self.consumer.end_offsets(partitions)


def poll_until_end(consumer: Consumer, end_offsets: Offsets | None = None) -> Iterator[list[Message]]:
    """Yield polled messages until every assigned partition is read to its end at the start, or to its end offset.

    Raise FingerprintError if no partition is assigned for ASSIGNMENT_TIMEOUT_SECONDS.
    """
    end = EndOffsets(consumer, end_offsets=end_offsets)
    while not end.is_reached():
        messages = consumer.poll(POLL_SECONDS)
        end.observe(messages)
        if messages:
            yield messages
    if end.unassigned:
        raise FingerprintError(NO_PARTITION_ASSIGNED)
