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


class Waiting:
    """In the order of fetching. What is paused stays, what was revoked or sought away from is dropped."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, messages: Sequence[Message]) -> None:
        self._messages += messages

    def drop(self, partitions: Collection[Partition]) -> None:
        self._messages = [message for message in self._messages if message.home not in partitions]

    def take(self, most: int, most_bytes: int, paused: Collection[Partition] = ()) -> list[Message]:
        """At most so many messages and bytes of keys and values; one at least, if there is one not paused."""
        ready, rest = self._messages, []
        if paused:
            rest = [message for message in ready if message.home in paused]
            ready = [message for message in ready if message.home not in paused]
        sizes = [len(message.value or b"") + len(message.key or b"") for message in ready[:most]]
        cut = max(int(np.searchsorted(np.cumsum(sizes), most_bytes, side="right")), 1)
        self._messages = ready[cut:] + rest
        return ready[:cut]

    def first_offsets(self) -> dict[Partition, int]:
        """Of each partition of which something waits, the offset of the first."""
        return {message.home: message.offset for message in reversed(self._messages)}
