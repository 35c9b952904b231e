"""When there is no room for what follows, fetch nothing, and poll all the same, or the group takes us for dead."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fingerprint.core.ports import Consumer, Message, Partition


class PausableConsumer:
    """A consumer that can be made silent. What it hands on meanwhile is kept for the next turn.

    `on_pause` is called each time, for whoever counts.
    """

    def __init__(self, consumer: Consumer, on_pause: Callable[[], None]) -> None:
        self.consumer, self.on_pause = consumer, on_pause
        self.paused_partitions: frozenset[Partition] = frozenset()
        self.backlog: list[Message] = []

    def poll(self, timeout_seconds: float) -> list[Message]:
        """What was kept, or else what comes."""
        kept, self.backlog = self.backlog, []
        return kept or self.consumer.poll(timeout_seconds)

    def pause(self) -> None:
        """Silence what is ours, and let the group know that we live."""
        self.on_pause()
        assigned = self.consumer.assignment()
        self.consumer.pause(assigned)
        self.paused_partitions |= assigned
        self.poll_to_backlog(0.0)

    def poll_to_backlog(self, seconds: float) -> None:
        """Poll, and keep what comes for the next turn."""
        self.backlog += self.consumer.poll(seconds)

    def resume(self) -> None:
        """There is room again."""
        if self.paused_partitions:
            self.consumer.resume(self.paused_partitions & self.consumer.assignment())
            self.paused_partitions = frozenset()

    def drop_backlog(self, partitions: Collection[Partition]) -> None:
        """Others have these now."""
        self.backlog = [message for message in self.backlog if message.source_partition not in partitions]
