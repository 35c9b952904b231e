"""Messages that were fetched and not yet handed on, so that a poll keeps its bounds whatever a fetch brought.

Example:
    >>> waiting = Waiting()
    >>> waiting.add(fetched)
    >>> batch = waiting.take(most=20_000, most_bytes=64 << 20)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from fingerprint.core.ports import Message, Partition


class FetchBuffer:
    """In the order of fetching. What is paused stays, what was revoked or sought away from is dropped."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, messages: Sequence[Message]) -> None:
        self._messages += messages

    def discard_partitions(self, partitions: Collection[Partition]) -> None:
        self._messages = [message for message in self._messages if message.source_partition not in partitions]

    def pop(self, max_messages: int, max_bytes: int, paused: Collection[Partition] = ()) -> list[Message]:
        """At most so many messages and bytes of keys and values; one at least, if there is one not paused."""
        ready, rest = self._messages, []
        if paused:
            rest = [message for message in ready if message.source_partition in paused]
            ready = [message for message in ready if message.source_partition not in paused]
        sizes = [len(message.value or b"") + len(message.key or b"") for message in ready[:max_messages]]
        cut = max(int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right")), 1)
        self._messages = ready[cut:] + rest
        return ready[:cut]

    def next_offsets(self) -> dict[Partition, int]:
        """Of each partition of which something waits, the offset of the first."""
        return {message.source_partition: message.offset for message in reversed(self._messages)}
