"""Topics in memory, for tests that look at one program's behaviour: one group member, no rebalancing of its own."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection

from fingerprint.ports import Assigned, Full, Headers, Message, Offsets, Partition, Revoked


class Topics:
    """Logs by partition, and what groups have committed."""

    def __init__(self, partitions: int = 2) -> None:
        self.partitions = partitions
        self.logs: dict[Partition, list[Message]] = defaultdict(list)
        self.commits: dict[tuple[str, Partition], int] = {}

    def of(self, topic: str) -> list[Partition]:
        return [Partition(topic, number) for number in range(self.partitions)]

    def append(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers, time: int) -> None:
        number = zlib.crc32(key) % self.partitions if key else self.count(topic) % self.partitions
        log = self.logs[Partition(topic, number)]
        log.append(Message(topic, number, len(log), key, value, headers, time))

    def count(self, topic: str) -> int:
        return sum(len(self.logs[partition]) for partition in self.of(topic))

    def read(self, topic: str) -> list[Message]:
        return [message for partition in self.of(topic) for message in self.logs[partition]]


class MemoryProducer:
    def __init__(self, topics: Topics, time: int = 0) -> None:
        self.topics, self.time = topics, time
        self.waiting: list[tuple[str, bytes | None, bytes | None, Headers]] = []
        self.full_times = 0  # so many sends find no room

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        if self.full_times:
            self.full_times -= 1
            raise Full
        self.waiting.append((topic, value, key, headers))

    def flush(self, seconds: float | None = None) -> None:
        for each in self.waiting:
            self.topics.append(*each, self.time)
        self.waiting = []

    def close(self) -> None:
        self.flush()


class MemoryConsumer:
    def __init__(self, topics: Topics, group: str) -> None:
        self.topics, self.group = topics, group
        self.positions: dict[Partition, int] = {}
        self.paused: set[Partition] = set()
        self.paused_ever: list[Partition] = []
        self.wanted: list[Partition] = []

    def subscribe(
        self, topics: Collection[str], assigned: Assigned | None = None, revoked: Revoked | None = None
    ) -> None:
        self.wanted = [partition for topic in topics for partition in self.topics.of(topic)]
        self.assigned, self.revoked = assigned, revoked

    def poll(self, seconds: float, most: int | None = None, most_bytes: int | None = None) -> list[Message]:
        if not self.positions:
            self.positions = {each: self.topics.commits.get((self.group, each), 0) for each in self.wanted}
            if self.assigned:
                self.assigned(self.wanted)
        found: list[Message] = []
        for partition in self.positions.keys() - self.paused:
            take = self.topics.logs[partition][self.positions[partition] :][: most or 50]
            self.positions[partition] += len(take)
            found += take
        return found

    def assignment(self) -> frozenset[Partition]:
        return frozenset(self.positions)

    def pause(self, partitions: Collection[Partition]) -> None:
        self.paused |= set(partitions)
        self.paused_ever += partitions

    def resume(self, partitions: Collection[Partition]) -> None:
        self.paused -= set(partitions)

    def commit(self, offsets: Offsets) -> None:
        self.topics.commits |= {(self.group, partition): offset for partition, offset in offsets.items()}

    def end(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {partition: len(self.topics.logs[partition]) for partition in partitions}

    def lag(self) -> dict[Partition, int]:
        return {each: len(self.topics.logs[each]) - position for each, position in self.positions.items()}
