"""Dead letters: what could not be read, and giving it back to where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import (
    Consumer,
    Message,
    MessageQueue,
    PartitionNotOwned,
    Producer,
    RebalanceInProgress,
)
from fingerprint.core.ports.topics import DEAD_LETTER_SUFFIX
from fingerprint.core.sanitize import printable
from fingerprint.core.settings import Settings
from fingerprint.streaming.backpressure import RetryingProducer
from fingerprint.streaming.bounded_read import poll_until_end
from fingerprint.streaming.rekeying import ORIGIN_HEADER_COUNT, OutgoingMessage
from pipelines.runtime import wiring

_QUEUE_PREFIX = "sqs:"  # how the origin of a notice begins; no topic can

PREVIEW_CHARACTERS = 120  # characters of a letter that are shown


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter as it is listed: where the message lay, why it is dead, how large it is, how it begins."""

    topic: str
    partition: int
    offset: int
    reason: str
    bytes: int
    begins: str


def list_dead_letters(settings: Settings) -> list[dict[str, Any]]:
    """`fingerprint dlq list`: the letters as `--json` prints them."""
    with wiring.open_consumer(settings.kafka, "dlq") as consumer:
        return [asdict(letter) for letter in read_dead_letters(consumer, dead_letter_topic(settings))]


def replay_dead_letters(settings: Settings, sqs: str | None = None) -> dict[str, Any]:
    """`fingerprint dlq replay`: its figures. `sqs`: the URL of the queue whose notices are given back too."""
    with ExitStack() as stack:
        queue = stack.enter_context(wiring.open_object_queue(sqs, settings.sqs))[0] if sqs else None
        consumer = stack.enter_context(wiring.open_consumer(settings.kafka, "dlq"))
        producer = stack.enter_context(wiring.producing(settings.kafka))
        return replay_pending(consumer, producer, settings, queue)


def for_dead_letter_topic(settings: Settings, topic: str | None) -> Settings:
    """The settings by which the dead letters are those of `topic`, if one is named."""
    kafka = settings.kafka.model_copy(update={"raw_topic": topic or settings.kafka.raw_topic})
    return settings.model_copy(update={"kafka": kafka})


def dead_letter_topic(settings: Settings) -> str:
    return settings.kafka.raw_topic + DEAD_LETTER_SUFFIX


def read_dead_letters(consumer: Consumer, topic: str) -> Iterator[DeadLetter]:
    """The letters of a dead-letter topic that were not replayed yet, oldest first within a partition; commits nothing."""
    consumer.subscribe([topic])
    for messages in poll_until_end(consumer):
        yield from map(_dead_letter, messages)


def replay_pending(
    consumer: Consumer, producer: Producer, settings: Settings, queue: MessageQueue | None = None
) -> dict[str, Any]:
    """Send the original bytes of the letters back to the topic or queue they came from, then mark them replayed.

    Marked is: committed by the consumer's group, when all that was sent has arrived. Letters without a value (the
    message was too large for one) are counted and passed over. FingerprintError at a notice of another queue than `queue`.
    """
    raw, sender = (
        settings.kafka.raw_topic,
        RetryingProducer(producer, settings.kafka.delivery_timeout_seconds),
    )
    consumer.subscribe([dead_letter_topic(settings)])
    replayed = gone = to_queue = 0
    for messages in poll_until_end(consumer):
        notices, others = _split_by_destination(messages, queue)
        for message in others:
            sender.send(
                raw, OutgoingMessage(message.value, message.key, message.headers[ORIGIN_HEADER_COUNT:])
            )
        producer.flush()
        if queue:
            for message in notices:
                queue.send(message.value or b"")
        _mark_replayed(consumer, messages)
        replayed, to_queue = replayed + len(others), to_queue + len(notices)
        gone += len(messages) - len(others) - len(notices)
    figures = {"topic": raw, "replayed": replayed, "without_value": gone}
    return figures | {"queue": queue.name, "to_queue": to_queue} if queue else figures


def _split_by_destination(
    messages: Sequence[Message], queue: MessageQueue | None
) -> tuple[list[Message], list[Message]]:
    """Notices for the queue, and all others; without what has no value."""
    whole = [message for message in messages if message.value is not None]
    notices = [message for message in whole if _dead_letter(message).topic.startswith(_QUEUE_PREFIX)]
    for message in notices:
        origin = _dead_letter(message).topic
        if queue is None or origin != queue.name:
            raise FingerprintError(
                f"some letters are notices of the queue {origin}; give them back to it with "
                "`fingerprint dlq replay --sqs QUEUE-URL`"
            )
    return notices, [message for message in whole if message not in notices]


def print_dead_letters(found: list[dict[str, Any]]) -> None:
    for letter in found:
        where = f"{letter['topic']}/{letter['partition']}/{letter['offset']}"
        print(f"{where}  {letter['bytes']:,} bytes: {letter['reason']}")
        print(f"    {letter['begins']}")
    print(f"{len(found):,} dead letters" + ("; give them back: fingerprint dlq replay" if found else ""))


def _mark_replayed(consumer: Consumer, messages: list[Message]) -> None:
    try:
        consumer.commit({message.source_partition: message.offset + 1 for message in messages})
    except (PartitionNotOwned, RebalanceInProgress):
        raise FingerprintError(
            "another `fingerprint dlq` has joined and taken over; see with `dlq list` what is left"
        ) from None


def _dead_letter(message: Message) -> DeadLetter:
    own = {
        name: (value or b"").decode(errors="replace") for name, value in message.headers[:ORIGIN_HEADER_COUNT]
    }
    value = message.value or b""
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
