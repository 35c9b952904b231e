"""Which message is to blame for a dead reader, told across restarts by what lies beside the committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fingerprint.core.ports.message_stream import Message, Partition
from fingerprint.streaming.poison import PoisonGuard


class Group:
    """Committed offsets with their texts, as a broker keeps them, and who reads now."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages, self.committed = (
            messages,
            dict.fromkeys({each.source_partition for each in messages}, (0, "")),
        )

    def assignment(self) -> set[Partition]:
        return set(self.committed)

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        return {each: self.committed[each] for each in partitions}

    def commit(self, offsets: dict[Partition, int], texts: dict[Partition, str] | None = None) -> None:
        self.committed |= {each: (at, (texts or {}).get(each, "")) for each, at in offsets.items()}

    def polled(self) -> list[Message]:
        return [each for each in self.messages if each.offset >= self.committed[each.source_partition][0]]


def dead_letters(poison: set[tuple[int, int]], partitions: int, lives: int = 12) -> list[tuple[int, int]]:
    """Return the messages dead-lettered until a reader comes to the end, which commits once for all it read, as `stream` does."""
    messages = [Message("events", home, number) for number in range(9) for home in range(partitions)]
    group, dead_lettered = Group(messages), []
    for _ in range(lives):
        guard = PoisonGuard(group)  # type: ignore[arg-type]
        for batch, deadly in guard.batches(group.polled()):
            place = (batch[0].partition, batch[0].offset)
            if deadly:
                dead_lettered.append(place)
                group.commit({batch[0].source_partition: batch[0].offset + 1})
                guard.committed([batch[0].source_partition])
            elif poison & {(each.partition, each.offset) for each in batch}:
                break  # the kernel ends it here: nothing more is said
        else:
            return dead_lettered
    raise AssertionError(f"killed {lives} times, dead-lettered {dead_lettered}")


def test_a_message_that_kills_is_dead_lettered_and_no_other() -> None:
    assert dead_letters({(0, 4)}, partitions=1) == [(0, 4)]
    assert dead_letters({(1, 4)}, partitions=2) == [(1, 4)], "nor the last one of another partition"


def test_of_several_that_kill_each_is_dead_lettered_once() -> None:
    assert dead_letters({(0, 2), (0, 7)}, partitions=1) == [(0, 2), (0, 7)]
    assert sorted(dead_letters({(0, 2), (1, 5)}, partitions=2)) == [(0, 2), (1, 5)]


def test_a_reader_that_does_not_die_marks_no_one() -> None:
    assert dead_letters(set(), partitions=2) == []
