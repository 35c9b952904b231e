"""Dead letters: what could not be read, and giving it back to where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from fingerprint.domain import FingerprintError
from fingerprint.hostile import visible
from fingerprint.ingesting import OWN_HEADERS, Outgoing
from fingerprint.ports import Consumer, Message, NotOwner, Producer, Rebalancing
from fingerprint.settings import Settings
from pipelines import doors
from pipelines.sending import Sender
from pipelines.until_end import until_end

FIRST = 120  # characters of a letter that are shown


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter as it is listed: where the message lay, why it is dead, how large it is, how it begins."""

    topic: str
    partition: int
    offset: int
    reason: str
    bytes: int
    begins: str


def run_list(settings: Settings) -> list[dict[str, Any]]:
    """`fingerprint dlq list`: the letters as `--json` prints them."""
    with doors.consumer(settings.kafka, "dlq") as consumer:
        return [asdict(letter) for letter in letters(consumer, topic_of(settings))]


def run_replay(settings: Settings) -> dict[str, Any]:
    """`fingerprint dlq replay`: its figures."""
    with doors.consumer(settings.kafka, "dlq") as consumer, doors.producer(settings.kafka) as producer:
        return replay_letters(consumer, producer, settings)


def topic_of(settings: Settings) -> str:
    return settings.kafka.raw + settings.kafka.dlq_suffix


def letters(consumer: Consumer, topic: str) -> Iterator[Letter]:
    """The letters of a dead-letter topic that were not replayed yet, oldest first within a partition; commits nothing."""
    consumer.subscribe([topic])
    for messages in until_end(consumer):
        yield from map(_letter, messages)


def replay_letters(consumer: Consumer, producer: Producer, settings: Settings) -> dict[str, Any]:
    """Send the original bytes of the letters back to the topic they came from, then mark them replayed.

    Marked is: committed by the consumer's group, when all that was sent has arrived. Letters without a value (the
    message was too large for one) are counted and passed over.
    """
    source, sender = settings.kafka.raw, Sender(producer, settings.kafka.delivery_seconds)
    consumer.subscribe([topic_of(settings)])
    replayed = gone = 0
    for messages in until_end(consumer):
        for message in messages:
            if message.value is None:
                gone += 1
                continue
            sender.send(source, Outgoing(message.value, message.key, message.headers[OWN_HEADERS:]))
            replayed += 1
        producer.flush()
        _mark(consumer, messages)
    return {"topic": source, "replayed": replayed, "without_value": gone}


def print_letters(found: list[dict[str, Any]]) -> None:
    for letter in found:
        where = f"{letter['topic']}/{letter['partition']}/{letter['offset']}"
        print(f"{where}  {letter['bytes']:,} bytes: {letter['reason']}")
        print(f"    {letter['begins']}")
    print(f"{len(found):,} dead letters" + ("; give them back: fingerprint dlq replay" if found else ""))


def _mark(consumer: Consumer, messages: list[Message]) -> None:
    try:
        consumer.commit({message.home: message.offset + 1 for message in messages})
    except (NotOwner, Rebalancing):
        raise FingerprintError(
            "another `fingerprint dlq` has joined and taken over; see with `dlq list` what is left"
        ) from None


def _letter(message: Message) -> Letter:
    own = {name: (value or b"").decode(errors="replace") for name, value in message.headers[:OWN_HEADERS]}
    value = message.value or b""
    return Letter(
        visible(own.get("topic", "?")),
        _number(own.get("partition", "")),
        _number(own.get("offset", "")),
        visible(own.get("reason", "no reason given")),
        len(value),
        visible(value[:FIRST].decode(errors="backslashreplace")),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
