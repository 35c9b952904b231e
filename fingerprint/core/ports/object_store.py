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

    `message.topic` is the queue's name; `message.offset` and `message.timestamp` are when it was sent, in ms since 1970.
    `receive_count` is about how often it was received, this time included, and `first_received` when it first was, in ms since
    1970.
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

    A *received* message is hidden from the other workers until it is deleted, returned (visible at once) or its time to be hidden
    is over. A worker that dies does none of these, so its messages become visible after their visibility timeout. Every method
    raises Unavailable, and FingerprintError for what a person must correct.
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
        """Return some messages as soon as there are any; none after a while."""
        ...

    def delete(self, received: Sequence[ReceivedMessage]) -> int:
        """Delete messages for good; return how many had already become visible to other workers."""
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
        """Return about how many messages can be received."""
        ...

    def close(self) -> None:
        """Stop extending all received messages, and close the connection. A second call does nothing."""
        ...


class ObjectStore(Protocol):
    """A store of objects by bucket and key."""

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """Yield the bytes as they are stored, chunk by chunk. Raise ObjectNotFound; Unavailable, also after some chunks."""
        ...
