"""Reading a topic until the end it had at the start, for programs that are to finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fingerprint.ports import Consumer, Message, Partition


class UntilEnd:
    """Where the partitions of a consumer ended when they were first seen, and how far it has come.

    A position that no message leads to (the end of a transaction, a compacted topic) counts as reached when nothing
    lags.
    """

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.goals: dict[Partition, int] = {}
        self.reached_offsets: dict[Partition, int] = {}

    def saw(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.reached_offsets[message.home] = message.offset + 1

    def reached(self) -> bool:
        """Whether every assigned partition has been read to its goal; not before any is assigned."""
        assigned = self.consumer.assignment()
        self._set_goals([partition for partition in assigned if partition not in self.goals])
        waiting = [each for each in assigned if self.reached_offsets.get(each, 0) < self.goals[each]]
        if not waiting:
            return bool(assigned)
        lag = self.consumer.lag()
        return all(lag.get(each, 1) == 0 for each in waiting)

    def _set_goals(self, partitions: list[Partition]) -> None:
        if partitions:
            self.goals |= self.consumer.end(partitions)


def until_end(consumer: Consumer, seconds: float = 0.2) -> Iterator[list[Message]]:
    """Polls until every assigned partition has been read to where it ended at the start."""
    end = UntilEnd(consumer)
    while not end.reached():
        messages = consumer.poll(seconds)
        end.saw(messages)
        if messages:
            yield messages
