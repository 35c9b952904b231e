"""Dead letters: what could not be read, and giving it back to where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fingerprint.domain import FingerprintError
from fingerprint.hostile import visible
from fingerprint.ingesting import OWN_HEADERS
from fingerprint.ports import Consumer, Full, Message, Producer
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


def letters(consumer: Consumer, topic: str) -> Iterator[Letter]:
    """The letters of a dead-letter topic that were not replayed yet, oldest first within a partition; commits nothing."""
    consumer.subscribe([topic])
    for messages in until_end(consumer):
        yield from map(_letter, messages)


def replay_letters(consumer: Consumer, producer: Producer, topic: str, suffix: str) -> dict[str, Any]:
    """Send the original bytes of the letters in `topic` back to the topic they came from, then mark them replayed.

    Marked is: committed by the consumer's group, when all that was sent has arrived. Letters without a value (the
    message was too large for one) are counted and passed over.
    """
    source = topic.removesuffix(suffix)
    consumer.subscribe([topic])
    replayed = gone = 0
    for messages in until_end(consumer):
        for message in messages:
            if message.value is None:
                gone += 1
                continue
            _send(producer, source, message)
            replayed += 1
        producer.flush()
        consumer.commit({message.home: message.offset + 1 for message in messages})
    return {"topic": source, "replayed": replayed, "without_value": gone}


def print_letters(found: list[dict[str, Any]]) -> None:
    for letter in found:
        where = f"{letter['topic']}/{letter['partition']}/{letter['offset']}"
        print(f"{where}  {letter['bytes']:,} bytes: {letter['reason']}")
        print(f"    {letter['begins']}")
    print(f"{len(found):,} dead letters" + ("; give them back: fingerprint dlq replay" if found else ""))


def _send(producer: Producer, topic: str, message: Message, tries: int = 60) -> None:
    """As it was: its own key and headers, without ours."""
    for _ in range(tries):
        try:
            return producer.send(topic, message.value, message.key, message.headers[OWN_HEADERS:])
        except Full:
            producer.flush()
    raise FingerprintError("the broker takes no messages: nothing more is replayed; try again later")


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
