"""Reading a topic until the end it had at the start, for programs that are to finish."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Consumer, Message, Offsets, Partition

NOTHING_OURS = (
    "this member was given no partition: others of its group have them all; try again when they are done"
)


class UntilEnd:
    """Where the partitions of a consumer ended when they were first seen (or as `goals` say), and how far it has come.

    A position that no message leads to (the end of a transaction, a compacted topic) counts as reached when nothing
    lags. Who is given no partition for `patience` seconds is done too, and `left_out`: by then those of a member
    that died have been given to others.
    """

    def __init__(self, consumer: Consumer, patience: float = 75.0, goals: Offsets | None = None) -> None:
        self.consumer, self.patience = consumer, patience
        self.goals: dict[Partition, int] = dict(goals or {})
        self.reached_offsets: dict[Partition, int] = {}
        self.left_out = False
        self._last_ours = time.monotonic()

    def saw(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.reached_offsets[message.home] = message.offset + 1

    def reached(self) -> bool:
        """Whether every assigned partition has been read to its goal, or none was given to us for too long."""
        assigned = self.consumer.assignment()
        if not assigned:
            self.left_out = time.monotonic() - self._last_ours > self.patience
            return self.left_out
        self._last_ours = time.monotonic()
        self._set_goals([partition for partition in assigned if partition not in self.goals])
        waiting = [each for each in assigned if self.reached_offsets.get(each, 0) < self.goals[each]]
        if not waiting:
            return True
        lag = self.consumer.lag()
        return all(lag.get(each, 1) == 0 for each in waiting)

    def _set_goals(self, partitions: list[Partition]) -> None:
        if partitions:
            self.goals |= self.consumer.end(partitions)


def until_end(
    consumer: Consumer, seconds: float = 0.2, patience: float = 75.0, goals: Offsets | None = None
) -> Iterator[list[Message]]:
    """Polls until every assigned partition has been read to where it ended at the start, or to its goal. FingerprintError if
    none is given to us for `patience` seconds."""
    end = UntilEnd(consumer, patience, goals)
    while not end.reached():
        messages = consumer.poll(seconds)
        end.saw(messages)
        if messages:
            yield messages
    if end.left_out:
        raise FingerprintError(NOTHING_OURS)
