"""Dead letters, which are messages that could not be read: list them, and send them back to their origin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import (
    Consumer,
    Message,
    PartitionNotOwned,
    Producer,
    RebalanceInProgress,
)
from fingerprint.core.ports.object_store import MessageQueue
from fingerprint.core.ports.topics import DEAD_LETTER_SUFFIX
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings
from fingerprint.sources.columnar import is_columnar
from fingerprint.streaming.backpressure import RetryingProducer
from fingerprint.streaming.bounded_read import poll_until_end
from fingerprint.streaming.event_messages import OutgoingMessage, single_records
from fingerprint.streaming.rekeying import ORIGIN_HEADER_COUNT, letter_origin
from pipelines.runtime import wiring

_QUEUE_PREFIX = "sqs:"  # prefix of the origin of a notification; no topic has it

PREVIEW_CHARACTERS = 120  # characters of a dead letter that are shown


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter in a list: its origin, reason, size and first characters."""

    topic: str
    partition: int
    offset: int
    reason: str
    bytes: int
    begins: str


def list_dead_letters(settings: Settings) -> list[dict[str, Any]]:
    """Return the dead letters: the figures of `dead-letters list --json`."""
    with wiring.open_consumer(settings.kafka, "dead-letters") as consumer:
        return [asdict(letter) for letter in read_dead_letters(consumer, dead_letter_topic(settings))]


def replay_dead_letters(settings: Settings, sqs: str | None = None) -> dict[str, Any]:
    """Send dead letters back; return the figures of `dead-letters replay --json`.

    `sqs` is the URL of the queue of the notifications among them.
    """
    with ExitStack() as stack:
        queue = stack.enter_context(wiring.open_object_queue(sqs, settings.sqs))[0] if sqs else None
        consumer = stack.enter_context(wiring.open_consumer(settings.kafka, "dead-letters"))
        producer = stack.enter_context(wiring.open_producer(settings.kafka))
        return replay_pending(consumer, producer, settings, queue)


def for_dead_letter_topic(settings: Settings, topic: str | None) -> Settings:
    """Return the settings with `topic`, if one is named, as the raw topic, whose dead letters the other functions read."""
    kafka = settings.kafka.model_copy(update={"raw_topic": topic or settings.kafka.raw_topic})
    return settings.model_copy(update={"kafka": kafka})


def dead_letter_topic(settings: Settings) -> str:
    """Return the topic of records that could not be read."""
    return settings.kafka.raw_topic + DEAD_LETTER_SUFFIX


def read_dead_letters(consumer: Consumer, topic: str) -> Iterator[DeadLetter]:
    """Yield the dead letters that are not replayed yet, oldest first within a partition, without a commit."""
    consumer.subscribe([topic])
    for messages in poll_until_end(consumer):
        yield from map(_dead_letter, messages)


def replay_pending(
    consumer: Consumer, producer: Producer, settings: Settings, queue: MessageQueue | None = None
) -> dict[str, Any]:
    """Send the original bytes of dead letters back to their topic or queue, then mark the letters as replayed.

    - A columnar message is sent back record by record.
    - Letters without a value, whose message was too large, are counted and skipped.
    - A commit of the consumer's group marks letters as replayed, once all that was sent has arrived.

    Raises FingerprintError for a notification of another queue than `queue`.
    """
    raw = settings.kafka.raw_topic
    sender = RetryingProducer(producer, settings.kafka.delivery_timeout_seconds)
    consumer.subscribe([dead_letter_topic(settings)])
    replayed = without_value = to_queue = 0
    for messages in poll_until_end(consumer):
        notifications, others = _split_by_destination(messages, queue)
        for outgoing in (each for message in others for each in _to_send_back(message, settings)):
            sender.send(raw, outgoing)
        producer.flush()
        if queue:
            for message in notifications:
                queue.send(message.value or b"")
        _mark_replayed(consumer, messages)
        replayed, to_queue = replayed + len(others), to_queue + len(notifications)
        without_value += len(messages) - len(others) - len(notifications)
    figures = {"topic": raw, "replayed": replayed, "without_value": without_value}
    return figures | {"queue": queue.name, "to_queue": to_queue} if queue else figures


def _to_send_back(message: Message, settings: Settings) -> list[OutgoingMessage]:
    """Return the original message, or the records of a columnar one."""
    original = OutgoingMessage(message.value, message.key, message.headers[ORIGIN_HEADER_COUNT:])
    return (single_records(message, settings) if is_columnar(message.value) else []) or [original]


def _split_by_destination(
    messages: Sequence[Message], queue: MessageQueue | None
) -> tuple[list[Message], list[Message]]:
    """Return the notifications for the queue, and all other messages; messages without a value are in neither list."""
    whole = [message for message in messages if message.value is not None]
    notifications = [message for message in whole if _dead_letter(message).topic.startswith(_QUEUE_PREFIX)]
    for message in notifications:
        origin = _dead_letter(message).topic
        if queue is None or origin != queue.name:
            raise FingerprintError(
                f"some dead letters are notifications of the queue {origin}; send them back to it with "
                "`fingerprint dead-letters replay --sqs QUEUE-URL`"
            )
    return notifications, [message for message in whole if message not in notifications]


def print_dead_letters(found: list[dict[str, Any]]) -> None:
    """Print dead letters, one a line."""
    for letter in found:
        where = f"{letter['topic']}/{letter['partition']}/{letter['offset']}"
        print(f"{where}  {letter['bytes']:,} bytes: {letter['reason']}")
        print(f"    {letter['begins']}")
    print(
        f"{len(found):,} dead letters"
        + ("; send them back: fingerprint dead-letters replay" if found else "")
    )


def _mark_replayed(consumer: Consumer, messages: list[Message]) -> None:
    try:
        consumer.commit({message.source_partition: message.offset + 1 for message in messages})
    except (PartitionNotOwned, RebalanceInProgress):
        raise FingerprintError(
            "another `fingerprint dead-letters replay` took over; `fingerprint dead-letters list` shows what is left"
        ) from None


def _dead_letter(message: Message) -> DeadLetter:
    own, value = letter_origin(message), message.value or b""
    return DeadLetter(
        printable(own.get("topic", "?")),
        _number(own.get("partition", "")),
        _number(own.get("offset", "")),
        printable(own.get("reason", "no reason given")),
        len(value),
        printable(value[:PREVIEW_CHARACTERS].decode(errors="backslashreplace")),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
