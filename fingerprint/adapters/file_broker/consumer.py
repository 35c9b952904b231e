"""The stream's door without a server: topics are folders, and everything else is as with Kafka.

Example:
    >>> create_topic("stream", "events", partitions=4)
    >>> with FilesProducer(Kafka(client="files", brokers=("stream",))) as producer:
    ...     producer.send("events", b"{}", key=b"alice")

The twin of `kafka.py` and `confluent.py`, and real: processes may share it, may be killed, and go on where they were.
`kafka.bootstrap_servers` names the folder. POSIX only, and no network file system (it rests on flock).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from fingerprint.adapters.file_broker.group import (
    ConsumerGroup,
    LivenessLock,
    State,
    assign_partitions,
    release_partitions,
)
from fingerprint.adapters.file_broker.partition_log import LogReader, PartitionLog
from fingerprint.adapters.kafka.base import FETCH_MAX_BYTES
from fingerprint.compute.hashing import kafka_partition
from fingerprint.core import private_files
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import (
    NO_METADATA,
    Consumer,
    DeliveryFailed,
    Headers,
    Message,
    Offsets,
    OnAssigned,
    OnRevoked,
    Partition,
    PartitionNotOwned,
    Producer,
    QueueFull,
)
from fingerprint.core.settings import Kafka

POLL_PAUSE_SECONDS = 0.01  # seconds between two looks while nothing comes
REBALANCE_SECONDS = 0.1  # seconds between two looks at the group
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")


def create_topic(root: str | Path, topic: str, partitions: int = 1) -> None:
    """A topic that is there stays as it is. FingerprintError for a name that Kafka would not take."""
    if not _NAME.fullmatch(topic):
        raise FingerprintError(f"{topic!r} is no name for a topic: letters, digits, '.', '_' and '-'")
    for number in range(partitions):
        private_files.make_private_folder(Path(root) / topic / str(number))


def count_topic_partitions(root: Path, topic: str) -> int:
    """0 if there is no such topic."""
    return sum(1 for _ in (root / topic).glob("[0-9]*")) if _NAME.fullmatch(topic) else 0


def _root(settings: Kafka) -> Path:
    root = Path(settings.bootstrap_servers[0])
    if not root.is_dir():
        raise FingerprintError(f"no stream at {root}: create the folder and its topics first")
    return root


def _to_text(data: bytes | None) -> str | None:
    """Any bytes as JSON text that reads as itself where it is UTF-8."""
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _encode_message(value: bytes | None, key: bytes | None, headers: Headers) -> bytes:
    fields = {
        "timestamp": time.time_ns() // 1_000_000,
        "key": _to_text(key),
        "headers": [(name, _to_text(data)) for name, data in headers],
        "value": _to_text(value),
    }
    return json.dumps(fields).encode() + b"\n"


def _decode_message(home: Partition, offset: int, line: bytes) -> Message:
    fields = json.loads(line)
    headers = tuple((name, _to_bytes(text)) for name, text in fields["headers"])
    return Message(
        *home, offset, _to_bytes(fields["key"]), _to_bytes(fields["value"]), headers, fields["timestamp"]
    )


class FileProducer(Producer):
    """See `ports.Producer`. A message is in the file when `send` returns, and on the disk when `flush` does."""

    def __init__(self, settings: Kafka, max_partition_fetch_bytes: int | None = None):
        self._settings = settings
        self._root = _root(settings)
        self._logs: dict[Partition, PartitionLog] = {}
        self._partition_counts: dict[str, int] = {}
        self._round_robin = 0

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()) -> None:
        if len(value or b"") + len(key or b"") > self._settings.max_request_size:
            raise FingerprintError("a message is larger than kafka.max_request_size")
        home = Partition(topic, self._choose_partition(topic, key))
        log = self._logs.setdefault(home, PartitionLog(self._root / topic / str(home.number)))
        try:
            log.append(_encode_message(value, key, headers))
        except OSError as error:
            raise QueueFull(f"{log.folder}: {error.strerror or error}") from error

    def _choose_partition(self, topic: str, key: bytes | None) -> int:
        count = self._partition_counts.get(topic) or count_topic_partitions(self._root, topic)
        if not count:
            raise FingerprintError(f"there is no topic {topic}: create it first")
        self._partition_counts[topic] = count
        if key is not None:
            return kafka_partition(key, count)
        self._round_robin += 1
        return self._round_robin % count

    def flush(self, timeout_seconds: float | None = None) -> None:
        try:
            for log in self._logs.values():
                log.sync()
        except OSError as error:
            raise DeliveryFailed(f"{error.strerror or error}") from error

    def close(self) -> None:
        self.flush()
        self._logs.clear()


class FileConsumer(Consumer):
    """See `ports.Consumer`."""

    def __init__(self, settings: Kafka, max_partition_fetch_bytes: int | None = None):
        self._settings = settings
        self._root = _root(settings)
        if not _NAME.fullmatch(settings.group_id):
            raise FingerprintError(
                f"{settings.group_id!r} is no name for a group: letters, digits, '.', '_' and '-'"
            )
        self._group = ConsumerGroup(self._root, settings.group_id)
        self._liveness_lock = LivenessLock(self._group)
        self._member_name = settings.group_instance_id or self._liveness_lock.token
        self._topics: tuple[str, ...] = ()
        self._assigned: OnAssigned | None = None
        self._revoked: OnRevoked | None = None
        self._readers: dict[Partition, LogReader] = {}
        self._logs: dict[Partition, PartitionLog] = {}
        self._paused: set[Partition] = set()
        self._generation = -1
        self._next_rebalance = 0.0
        self._closed = False

    def subscribe(
        self,
        topics: Sequence[str],
        on_assigned: OnAssigned | None = None,
        on_revoked: OnRevoked | None = None,
    ) -> None:
        self._topics, self._assigned, self._revoked = tuple(topics), on_assigned, on_revoked
        with self._group.locked_state() as state:
            if old := state["members"].get(self._member_name):  # whoever had this name before has lost it
                release_partitions(state, old["token"])
            state["members"][self._member_name] = {"token": self._liveness_lock.token, "topics": list(topics)}

    def poll(
        self, timeout_seconds: float, max_messages: int | None = None, max_bytes: int | None = None
    ) -> list[Message]:
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._rebalance()
            messages = self._read(
                max_messages or self._settings.max_poll_records, max_bytes or FETCH_MAX_BYTES
            )
            if messages or time.monotonic() >= deadline:
                return messages
            time.sleep(POLL_PAUSE_SECONDS)

    def _rebalance(self) -> None:
        """What falls to others is given back first, then what falls to this member and is free is taken."""
        if time.monotonic() < self._next_rebalance:
            return
        self._next_rebalance = time.monotonic() + REBALANCE_SECONDS
        with self._group.locked_state() as state:
            self._group.remove_dead_members(state)
            mine = self._retained_partitions(state)
            wanted = self._target_partitions(state)
        self._revoke((self._readers.keys() - mine) | (mine - wanted))
        with self._group.locked_state() as state:
            taken = self._acquire(state, wanted - mine)
        self._set_positions(taken)

    def _retained_partitions(self, state: State) -> set[Partition]:
        return {
            each for each in self._readers if state["owners"].get(each.label) == self._liveness_lock.token
        }

    def _target_partitions(self, state: State) -> set[Partition]:
        found = set()
        for topic in self._topics:
            homes = [Partition(topic, number) for number in range(count_topic_partitions(self._root, topic))]
            members = sorted(name for name, member in state["members"].items() if topic in member["topics"])
            if state["members"].get(self._member_name, {}).get("token") == self._liveness_lock.token:
                mine = assign_partitions(members, [each.label for each in homes], self._member_name)
                found |= {each for each in homes if each.label in mine}
        return found

    def _revoke(self, partitions: set[Partition]) -> None:
        if not partitions:
            return
        try:
            if self._revoked:
                self._revoked(partitions)
        finally:
            for each in partitions:
                self._readers.pop(each).close()
            self._paused -= partitions
            with self._group.locked_state() as state:
                release_partitions(state, self._liveness_lock.token, {each.label for each in partitions})

    def _acquire(self, state: State, partitions: set[Partition]) -> set[Partition]:
        free = {each for each in partitions if each.label not in state["owners"]}
        if free:
            state["generation"] += 1
            self._generation = state["generation"]
            state["owners"] |= {each.label: self._liveness_lock.token for each in free}
        return free

    def _set_positions(self, partitions: set[Partition]) -> None:
        if not partitions:
            return
        positions = self.beginning_offsets(partitions)
        positions |= {
            each: offset for each, offset in self.committed(partitions).items() if offset is not None
        }
        self._readers |= {
            each: LogReader(self._partition_log(each), offset) for each, offset in positions.items()
        }
        for each, offset in ((self._assigned and self._assigned(partitions)) or {}).items():
            self.seek(each, offset)

    def _read(self, most: int, most_bytes: int) -> list[Message]:
        messages: list[Message] = []
        for home in [each for each in self._readers if each not in self._paused]:
            if len(messages) < most and (most_bytes > 0 or not messages):
                found = self._open_reader(home).read(
                    most - len(messages), most_bytes if most_bytes > 0 else 1
                )
                if messages and sum(len(line) for _, line in found) > most_bytes:
                    self.seek(home, found[0][0])  # one at least was read, and it does not fit any more
                    break
                most_bytes -= sum(len(line) for _, line in found)
                messages += [_decode_message(home, offset, line) for offset, line in found]
                self._readers[home] = self._readers.pop(home)  # the next poll begins with another
        return messages

    def _open_reader(self, home: Partition) -> LogReader:
        """The reader, at a place that is held; FingerprintError if it no longer is, unless losses are skipped."""
        reader = self._readers[home]
        log = self._partition_log(home)
        if reader._file is None and not log.beginning_offset() <= reader.offset <= log.end_offset():
            if self._settings.auto_offset_reset == "none":
                raise FingerprintError(
                    f"messages were lost: {home.label} holds {log.beginning_offset()} to {log.end_offset()}, "
                    f"not {reader.offset}; "
                    "set kafka.auto_offset_reset = earliest to go on with what is left"
                )
            self.seek(home, log.beginning_offset())
        return self._readers[home]

    def _partition_log(self, home: Partition) -> PartitionLog:
        return self._logs.setdefault(home, PartitionLog(self._root / home.topic / str(home.number)))

    def assignment(self) -> frozenset[Partition]:
        return frozenset(self._readers)

    def generation(self) -> int:
        return self._generation

    def seek(self, partition: Partition, offset: int) -> None:
        self._readers[partition].close()
        self._readers[partition] = LogReader(self._partition_log(partition), offset)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self._paused -= set(partitions)

    def commit(self, offsets: Offsets, metadata: Mapping[Partition, str] = NO_METADATA) -> None:
        with self._group.locked_state() as state:
            for each in offsets:
                if state["owners"].get(each.label) != self._liveness_lock.token:
                    raise PartitionNotOwned(f"{each.label} has another owner now")
            state["offsets"] |= {each.label: offset for each, offset in offsets.items()}
            state["metadata"] |= {each.label: metadata.get(each, "") for each in offsets}

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int | None]:
        with self._group.locked_state() as state:
            return {each: state["offsets"].get(each.label) for each in partitions}

    def committed_metadata(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        with self._group.locked_state() as state:
            offsets, texts = state["offsets"], state["metadata"]
        return {
            each: (offsets[each.label], texts[each.label]) for each in partitions if each.label in offsets
        }

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {each: self._partition_log(each).beginning_offset() for each in partitions}

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        return {each: self._partition_log(each).end_offset() for each in partitions}

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        return {each: self._first_offset_since(each, milliseconds) for each in partitions}

    def _first_offset_since(self, home: Partition, milliseconds: int) -> int:
        with closing(
            LogReader(self._partition_log(home), self._partition_log(home).beginning_offset())
        ) as reader:
            while found := reader.read(self._settings.max_poll_records, FETCH_MAX_BYTES):
                for offset, line in found:
                    if _decode_message(home, offset, line).timestamp >= milliseconds:
                        return offset
            return reader.offset

    def partition_count(self, topic: str) -> int:
        if count := count_topic_partitions(self._root, topic):
            return count
        raise FingerprintError(f"there is no topic {topic}: create it first")

    def lag(self, timeout_seconds: float | None = None) -> dict[Partition, int]:
        return {
            each: self._partition_log(each).end_offset() - reader.offset
            for each, reader in self._readers.items()
        }

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._revoke(set(self._readers))
        finally:
            with self._group.locked_state() as state:
                if state["members"].get(self._member_name, {}).get("token") == self._liveness_lock.token:
                    del state["members"][self._member_name]
            self._liveness_lock.release()
