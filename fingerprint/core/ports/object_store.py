"""An object store as a port, and the queue of messages that announces its new objects.

Example:
    >>> def size(objects: ObjectStore, bucket: str, key: str) -> int:
    ...     return sum(map(len, objects.read(bucket, key)))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from fingerprint.core.ports.message_stream import Message


class ReceivedMessage(NamedTuple):
    """A message of a queue that one worker has received.

    `message.topic` is the queue's name; `message.offset` and `message.timestamp` are both the time it was sent, in ms since 1970.
    `receive_count` is about how often it was received, including this time; `first_received` is the first time, in ms since 1970.
    """

    id: str
    receipt: str
    message: Message
    receive_count: int = 1
    first_received: int = 0


class MessageQueue(Protocol):
    """Messages that several workers share, in any order.

    Example:
        >>> received = queue.receive()
        >>> process(received)
        >>> queue.delete(received)

    A *received* message is hidden from the other workers until it is deleted, returned (visible at once), or its visibility
    timeout is over. So the messages of a worker that dies become visible after that timeout. Every method raises Unavailable, and
    FingerprintError if a person must correct something.
    """

    @property
    def url(self) -> str:
        """Return the address of the queue."""
        ...

    @property
    def name(self) -> str:
        """Return a name that no topic of Kafka can have: `sqs:account:name`."""
        ...

    def receive(self) -> list[ReceivedMessage]:
        """Return some messages as soon as there are any; an empty list after a while."""
        ...

    def delete(self, received: Sequence[ReceivedMessage]) -> int:
        """Delete messages for good; return the number of those that had already become visible to other workers."""
        ...

    def return_to_queue(self, received: Sequence[ReceivedMessage]) -> None:
        """Make messages visible to other workers at once."""
        ...

    def hide(self, received: Sequence[ReceivedMessage], seconds: int) -> None:
        """Keep messages hidden for so long, then make them visible to all workers."""
        ...

    def send(self, body: bytes) -> None:
        """Put a message on the queue, durably when it returns."""
        ...

    def approximate_depth(self) -> int:
        """Return the approximate number of messages that can be received."""
        ...

    def close(self) -> None:
        """Stop extending the visibility timeouts of received messages, and close the connection. A second call does nothing."""
        ...


class ObjectStore(Protocol):
    """A store of objects by bucket and key."""

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """Yield the stored bytes in chunks. Raise ObjectNotFound, and Unavailable, which may come after some chunks."""
        ...
