"""The stream's door without a server: topics are folders, and everything else is as with Kafka.

Example:
    >>> create_topic("stream", "events", partitions=4)
    >>> with FilesProducer(Kafka(client="files", brokers=("stream",))) as producer:
    ...     producer.send("events", b"{}", key=b"alice")

The twin of `kafka.py` and `confluent.py`, and real: processes may share it, may be killed, and go on where they were.
`kafka.brokers` names the folder. POSIX only, and no network file system (it rests on flock).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from fingerprint.adapters.file_broker.group import Group, Life, State, release, share
from fingerprint.adapters.file_broker.partition_log import Log, Reader
from fingerprint.compute.murmur2 import partition_of
from fingerprint.core import private_files
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import (
    NO_METADATA,
    Assigned,
    Consumer,
    Full,
    Headers,
    Message,
    NotOwner,
    Offsets,
    Partition,
    Producer,
    Revoked,
    Undelivered,
)
from fingerprint.core.settings import Kafka

GLANCE = 0.01  # seconds between two looks while nothing comes
SHARING = 0.1  # seconds between two looks at the group
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")


def create_topic(root: str | Path, topic: str, partitions: int = 1) -> None:
    """A topic that is there stays as it is. FingerprintError for a name that Kafka would not take."""
    if not _NAME.fullmatch(topic):
        raise FingerprintError(f"{topic!r} is no name for a topic: letters, digits, '.', '_' and '-'")
    for number in range(partitions):
        private_files.make_folder(Path(root) / topic / str(number))


def partitions_of(root: Path, topic: str) -> int:
    """0 if there is no such topic."""
    return sum(1 for _ in (root / topic).glob("[0-9]*")) if _NAME.fullmatch(topic) else 0


def _root(settings: Kafka) -> Path:
    root = Path(settings.brokers[0])
    if not root.is_dir():
        raise FingerprintError(f"no stream at {root}: create the folder and its topics first")
    return root


def _text(data: bytes | None) -> str | None:
    """Any bytes as JSON text that reads as itself where it is UTF-8."""
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _data(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _line(value: bytes | None, key: bytes | None, headers: Headers) -> bytes:
    fields = {
        "timestamp": time.time_ns() // 1_000_000,
        "key": _text(key),
        "headers": [(name, _text(data)) for name, data in headers],
        "value": _text(value),
    }
    return json.dumps(fields).encode() + b"\n"


def _message(home: Partition, offset: int, line: bytes) -> Message:
    fields = json.loads(line)
    headers = tuple((name, _data(text)) for name, text in fields["headers"])
    return Message(*home, offset, _data(fields["key"]), _data(fields["value"]), headers, fields["timestamp"])


class FilesProducer(Producer):
    """See `ports.Producer`. A message is in the file when `send` returns, and on the disk when `flush` does."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._root = _root(settings)
        self._logs: dict[Partition, Log] = {}
        self._counts: dict[str, int] = {}
        self._turn = 0

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        if len(value or b"") + len(key or b"") > self._settings.message_bytes:
            raise FingerprintError("a message is larger than kafka.message_bytes")
        home = Partition(topic, self._number(topic, key))
        log = self._logs.setdefault(home, Log(self._root / topic / str(home.number)))
        try:
            log.append(_line(value, key, headers))
        except OSError as error:
            raise Full(f"{log.folder}: {error.strerror or error}") from error

    def _number(self, topic: str, key: bytes | None) -> int:
        count = self._counts.get(topic) or partitions_of(self._root, topic)
        if not count:
            raise FingerprintError(f"there is no topic {topic}: create it first")
        self._counts[topic] = count
        if key is not None:
            return partition_of(key, count)
        self._turn += 1
        return self._turn % count

    def flush(self, seconds: float | None = None) -> None:
        try:
            for log in self._logs.values():
                log.sync()
        except OSError as error:
            raise Undelivered(f"{error.strerror or error}") from error

    def close(self) -> None:
        self.flush()
        self._logs.clear()


class FilesConsumer(Consumer):
    """See `ports.Consumer`."""

    def __init__(self, settings: Kafka):
        self._settings = settings
        self._root = _root(settings)
        if not _NAME.fullmatch(settings.group):
            raise FingerprintError(
                f"{settings.group!r} is no name for a group: letters, digits, '.', '_' and '-'"
            )
        self._group = Group(self._root, settings.group)
        self._life = Life(self._group)
        self._name = settings.member or self._life.token
        self._topics: tuple[str, ...] = ()
        self._assigned: Assigned | None = None
        self._revoked: Revoked | None = None
        self._readers: dict[Partition, Reader] = {}
        self._logs: dict[Partition, Log] = {}
        self._paused: set[Partition] = set()
        self._generation = -1
        self._next_share = 0.0
        self._closed = False

    def subscribe(
        self, topics: Sequence[str], assigned: Assigned | None = None, revoked: Revoked | None = None
    ) -> None:
        self._topics, self._assigned, self._revoked = tuple(topics), assigned, revoked
        with self._group.held() as state:
            if old := state["members"].get(self._name):  # whoever had this name before has lost it
                release(state, old["token"])
            state["members"][self._name] = {"token": self._life.token, "topics": list(topics)}

    def poll(self, seconds: float, most: int | None = None, most_bytes: int | None = None) -> list[Message]:
        deadline = time.monotonic() + seconds
        while True:
            self._share()
            messages = self._read(
                most or self._settings.poll_messages, most_bytes or self._settings.poll_bytes
            )
            if messages or time.monotonic() >= deadline:
                return messages
            time.sleep(GLANCE)

    def _share(self) -> None:
        """What falls to others is given back first, then what falls to this member and is free is taken."""
        if time.monotonic() < self._next_share:
            return
        self._next_share = time.monotonic() + SHARING
        with self._group.held() as state:
            self._group.bury(state)
            mine = self._still_mine(state)
            wanted = self._wanted(state)
        self._give_back((self._readers.keys() - mine) | (mine - wanted))
        with self._group.held() as state:
            taken = self._take(state, wanted - mine)
        self._begin(taken)

    def _still_mine(self, state: State) -> set[Partition]:
        return {each for each in self._readers if state["owners"].get(each.place) == self._life.token}

    def _wanted(self, state: State) -> set[Partition]:
        found = set()
        for topic in self._topics:
            homes = [Partition(topic, number) for number in range(partitions_of(self._root, topic))]
            members = sorted(name for name, member in state["members"].items() if topic in member["topics"])
            if state["members"].get(self._name, {}).get("token") == self._life.token:
                mine = share(members, [each.place for each in homes], self._name)
                found |= {each for each in homes if each.place in mine}
        return found

    def _give_back(self, partitions: set[Partition]) -> None:
        if not partitions:
            return
        try:
            if self._revoked:
                self._revoked(partitions)
        finally:
            for each in partitions:
                self._readers.pop(each).close()
            self._paused -= partitions
            with self._group.held() as state:
                release(state, self._life.token, {each.place for each in partitions})

    def _take(self, state: State, partitions: set[Partition]) -> set[Partition]:
        free = {each for each in partitions if each.place not in state["owners"]}
        if free:
            state["generation"] += 1
            self._generation = state["generation"]
            state["owners"] |= {each.place: self._life.token for each in free}
        return free

    def _begin(self, partitions: set[Partition]) -> None:
        if not partitions:
            return
        positions = self.beginning(partitions)
        positions |= {
            each: offset for each, offset in self.committed(partitions).items() if offset is not None
        }
        self._readers |= {each: Reader(self._log(each), offset) for each, offset in positions.items()}
        for each, offset in ((self._assigned and self._assigned(partitions)) or {}).items():
            self.seek(each, offset)

    def _read(self, most: int, most_bytes: int) -> list[Message]:
        messages: list[Message] = []
        for home in [each for each in self._readers if each not in self._paused]:
            if len(messages) < most and (most_bytes > 0 or not messages):
                found = self._held(home).read(most - len(messages), most_bytes if most_bytes > 0 else 1)
                if messages and sum(len(line) for _, line in found) > most_bytes:
                    self.seek(home, found[0][0])  # one at least was read, and it does not fit any more
                    break
                most_bytes -= sum(len(line) for _, line in found)
                messages += [_message(home, offset, line) for offset, line in found]
                self._readers[home] = self._readers.pop(home)  # the next poll begins with another
        return messages

    def _held(self, home: Partition) -> Reader:
        """The reader, at a place that is held; FingerprintError if it no longer is, unless losses are skipped."""
        reader = self._readers[home]
        log = self._log(home)
        if reader._file is None and not log.beginning() <= reader.offset <= log.end():
            if self._settings.lost == "stop":
                raise FingerprintError(
                    f"messages were lost: {home.place} holds {log.beginning()} to {log.end()}, not {reader.offset}; "
                    "set kafka.lost = skip to go on with what is left"
                )
            self.seek(home, log.beginning())
        return self._readers[home]

    def _log(self, home: Partition) -> Log:
        return self._logs.setdefault(home, Log(self._root / home.topic / str(home.number)))

    def assignment(self) -> frozenset[Partition]:
        return frozenset(self._readers)

    def generation(self) -> int:
        return self._generation

    def seek(self, partition: Partition, offset: int) -> None:
        self._readers[partition].close()
        self._readers[partition] = Reader(self._log(partition), offset)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._paused -= set(partitions)

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        with self._group.held() as state:
            for each in offsets:
                if state["owners"].get(each.place) != self._life.token:
                    raise NotOwner(f"{each.place} has another owner now")
            state["offsets"] |= {each.place: offset for each, offset in offsets.items()}
            state["metadata"] |= {each.place: metadata.get(each, "") for each in offsets}

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        with self._group.held() as state:
            return {each: state["offsets"].get(each.place) for each in partitions}

    def metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        with self._group.held() as state:
            offsets, texts = state["offsets"], state["metadata"]
        return {
            each: (offsets[each.place], texts[each.place]) for each in partitions if each.place in offsets
        }

    def beginning(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {each: self._log(each).beginning() for each in partitions}

    def end(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {each: self._log(each).end() for each in partitions}

    def since(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        return {each: self._first_since(each, milliseconds) for each in partitions}

    def _first_since(self, home: Partition, milliseconds: int) -> int:
        with closing(Reader(self._log(home), self._log(home).beginning())) as reader:
            while found := reader.read(self._settings.poll_messages, self._settings.poll_bytes):
                for offset, line in found:
                    if _message(home, offset, line).timestamp >= milliseconds:
                        return offset
            return reader.offset

    def partitions(self, topic: str) -> int:
        if count := partitions_of(self._root, topic):
            return count
        raise FingerprintError(f"there is no topic {topic}: create it first")

    def lag(self, seconds: float | None = None) -> dict[Partition, int]:
        return {each: self._log(each).end() - reader.offset for each, reader in self._readers.items()}

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._give_back(set(self._readers))
        finally:
            with self._group.held() as state:
                if state["members"].get(self._name, {}).get("token") == self._life.token:
                    del state["members"][self._name]
            self._life.end()
