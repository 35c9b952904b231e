"""A poll keeps its bounds whatever a fetch brought."""

from __future__ import annotations

from fingerprint.adapters.kafka.base import FetchBuffer
from fingerprint.core.ports.message_stream import Message, Partition


def messages(count: int, size: int = 10, partition: int = 0) -> list[Message]:
    return [Message("t", partition, offset, None, bytes(size)) for offset in range(count)]


def waiting(*fetches: list[Message]) -> FetchBuffer:
    filled = FetchBuffer()
    for fetch in fetches:
        filled.add(fetch)
    return filled


def offsets(taken: list[Message]) -> list[int]:
    return [message.offset for message in taken]


def test_nothing_is_handed_on_twice_and_nothing_is_left() -> None:
    filled = waiting(messages(10))
    taken = [offsets(filled.pop(4, 1 << 20)) for _ in range(4)]
    assert taken == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]


def test_bytes_bound_a_batch_and_one_message_always_passes() -> None:
    filled = waiting(messages(3, size=100))
    assert offsets(filled.pop(10, 200)) == [0, 1]
    assert offsets(filled.pop(10, 5)) == [2]


def test_keys_count_as_bytes_and_deletions_are_messages_too() -> None:
    filled = waiting([Message("t", 0, 0, b"k" * 50), Message("t", 0, 1, b"k" * 50)])
    assert offsets(filled.pop(10, 60)) == [0]


def test_what_is_paused_waits_and_keeps_its_order() -> None:
    filled = waiting(messages(2), messages(2, partition=1), messages(4)[2:])
    assert offsets(filled.pop(10, 1 << 20, {Partition("t", 0)})) == [0, 1]
    assert offsets(filled.pop(10, 1 << 20)) == [0, 1, 2, 3]


def test_what_was_revoked_is_dropped_and_the_rest_stays() -> None:
    filled = waiting(messages(2), messages(3, partition=1))
    filled.discard_partitions([Partition("t", 0)])
    assert filled.next_offsets() == {Partition("t", 1): 0}
    assert len(filled.pop(10, 1 << 20)) == 3
