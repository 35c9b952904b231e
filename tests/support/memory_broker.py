"""A small broker in memory: topics, consumer groups, and a port by which other processes reach it.

Example:
    >>> broker = MemoryBroker()
    >>> broker.create_topic("events", partitions=4)
    >>> broker.append(Partition("events", 0), b"{}", key=b"alice")
    0

The process that made it holds everything. Programs that a test starts connect to `address`; the operating system ends their
connections when they are killed, and with a connection ends a member of a group. `memory_clients.py` has the clients.
"""

from __future__ import annotations

import pickle
import re
import socket
import time
import uuid
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from threading import RLock, Thread
from typing import Any

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Headers, Message, Partition, PartitionNotOwned

TOPIC_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")
_here: weakref.WeakValueDictionary[str, MemoryBroker] = weakref.WeakValueDictionary()


class OffsetOutOfRange(Exception):
    """An offset that is not held; the arguments are the partition, its beginning and its end."""


@dataclass
class _Log:
    """One partition's messages from `beginning` on."""

    beginning: int = 0
    messages: list[Message] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.beginning + len(self.messages)


@dataclass
class _Group:
    """Members by name with session and topics, owners by partition, and what was committed, with its text."""

    generation: int = 0
    members: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    owners: dict[Partition, str] = field(default_factory=dict)
    committed: dict[Partition, tuple[int, str]] = field(default_factory=dict)

    def release(self, session: str, partitions: Collection[Partition] | None = None) -> None:
        """Take these partitions, or all, from a session."""
        for each, owner in list(self.owners.items()):
            if owner == session and (partitions is None or each in partitions):
                del self.owners[each]


class MemoryBroker:
    """Each public method is one request, safe from any thread and over the port."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._logs: dict[Partition, _Log] = {}
        self._counts: dict[str, int] = {}
        self._groups: dict[str, _Group] = {}
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        _here[self.address] = self
        Thread(target=_accept, args=(listener, weakref.ref(self)), daemon=True).start()
        weakref.finalize(self, _stop_listening, listener)

    # --- topics -----------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic, or give it as many partitions; it never shrinks."""
        if not TOPIC_NAME.fullmatch(name):
            raise FingerprintError(f"{name!r} is no name for a topic: letters, digits, '.', '_' and '-'")
        with self._lock:
            self._counts[name] = max(partitions, self._counts.get(name, 0))
            for number in range(self._counts[name]):
                self._logs.setdefault(Partition(name, number), _Log())

    def partition_count(self, name: str) -> int:
        """Return 0 if there is no such topic."""
        return self._counts.get(name, 0)

    # --- messages ---------------------------------------------------------------------------------------------------

    def append(
        self,
        partition: Partition,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> int:
        """Append a message, and return its offset."""
        with self._lock:
            log = self._logs[partition]
            at = time.time_ns() // 1_000_000 if timestamp is None else timestamp
            log.messages.append(Message(*partition, log.end, key, value, tuple(headers), at))
            return log.end - 1

    def fetch(self, offsets: Mapping[Partition, int], max_messages: int, max_bytes: int) -> list[Message]:
        """Return the messages that follow, at most so many and so large, but one if there is one. OffsetOutOfRange."""
        found: list[Message] = []
        with self._lock:
            for partition, offset in offsets.items():
                log = self._logs[partition]
                if not log.beginning <= offset <= log.end:
                    raise OffsetOutOfRange(partition, log.beginning, log.end)
                for message in islice(log.messages, offset - log.beginning, None):
                    size = len(message.value or b"") + len(message.key or b"")
                    if len(found) == max_messages or (found and size > max_bytes):
                        return found
                    found.append(message)
                    max_bytes -= size
        return found

    def messages(self, topic: str) -> list[Message]:
        """Return all that a topic holds, partition by partition."""
        with self._lock:
            homes = [Partition(topic, number) for number in range(self.partition_count(topic))]
            return [message for home in homes for message in self._logs[home].messages]

    def delete_records(self, partition: Partition, before: int) -> None:
        """Drop the messages before an offset, as retention does."""
        with self._lock:
            log = self._logs[partition]
            drop = min(max(before - log.beginning, 0), len(log.messages))
            del log.messages[:drop]
            log.beginning += drop

    def beginning_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the first offset that each partition holds."""
        return {each: self._logs[each].beginning for each in partitions}

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset that the next message of each partition will get."""
        with self._lock:
            return {each: self._logs[each].end for each in partitions}

    def offsets_for_time(self, partitions: Collection[Partition], milliseconds: int) -> dict[Partition, int]:
        """Return the first offset of that time or later, the end where there is none."""
        with self._lock:
            return {
                each: log.beginning
                + next(
                    (n for n, m in enumerate(log.messages) if m.timestamp >= milliseconds), len(log.messages)
                )
                for each, log in ((each, self._logs[each]) for each in partitions)
            }

    # --- groups -----------------------------------------------------------------------------------------------------

    def open_session(self) -> str:
        """Return the token of a member's process."""
        return uuid.uuid4().hex

    def end_session(self, session: str) -> None:
        """Remove a session from all groups."""
        with self._lock:
            for group in self._groups.values():
                for name, (owner, _) in list(group.members.items()):
                    if owner == session:
                        del group.members[name]
                group.release(session)

    def subscribe(self, group: str, name: str, session: str, topics: Sequence[str]) -> None:
        """Join a group. A session that had this name has lost it, and its partitions."""
        with self._lock:
            state = self._group(group)
            if name in state.members:
                state.release(state.members[name][0])
            state.members[name] = (session, tuple(topics))

    def rebalance(
        self, group: str, name: str, session: str, held: Collection[Partition]
    ) -> tuple[set[Partition], set[Partition]]:
        """Return what a member must give back of what it holds, and what it may ask for."""
        with self._lock:
            state = self._group(group)
            mine = {each for each in held if state.owners.get(each) == session}
            target = self._target(state, name, session)
        return (set(held) - mine) | (mine - target), target - mine

    def _target(self, state: _Group, name: str, session: str) -> set[Partition]:
        """Deal the partitions of each topic to its members in turn."""
        owner, topics = state.members.get(name, ("", ()))
        if owner != session:
            return set()
        found = set()
        for topic in topics:
            members = sorted(each for each, (_, theirs) in state.members.items() if topic in theirs)
            numbers = range(members.index(name), self.partition_count(topic), len(members))
            found |= {Partition(topic, number) for number in numbers}
        return found

    def acquire(
        self, group: str, session: str, partitions: Collection[Partition]
    ) -> tuple[set[Partition], int]:
        """Take those partitions that are free, and return them with the generation."""
        with self._lock:
            state = self._group(group)
            free = {each for each in partitions if each not in state.owners}
            state.generation += bool(free)
            state.owners |= dict.fromkeys(free, session)
            return free, state.generation

    def release(self, group: str, session: str, partitions: Collection[Partition]) -> None:
        """Give partitions back."""
        with self._lock:
            self._group(group).release(session, partitions)

    def commit(
        self, group: str, session: str, offsets: Mapping[Partition, int], texts: Mapping[Partition, str]
    ) -> None:
        """Store offsets and their texts. PartitionNotOwned."""
        with self._lock:
            state = self._group(group)
            for each in offsets:
                if state.owners.get(each) != session:
                    raise PartitionNotOwned(f"{each.label} has another owner now")
            state.committed |= {each: (offset, texts.get(each, "")) for each, offset in offsets.items()}

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, tuple[int, str]]:
        """Return the committed offset and its text of each partition that has one."""
        with self._lock:
            found = self._group(group).committed
            return {each: found[each] for each in partitions if each in found}

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())


def connect(address: str) -> Any:
    """Return the broker at an address, or a connection to it. FingerprintError if none answers."""
    return _here.get(address) or RemoteBroker(address)


class RemoteBroker:
    """A connection to a broker of another process: the name of a method and its arguments go, a value or an error comes."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=30)
        except (OSError, ValueError) as error:
            raise FingerprintError(f"no broker answers at {address}: {error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rwb")

    def __getattr__(self, name: str) -> Any:
        def request(*arguments: Any, **named: Any) -> Any:
            _write(self._file, (name, arguments, named))
            answer, error = pickle.load(self._file)  # noqa: S301 - from the test that started this program
            if error is not None:
                raise error
            return answer

        return request

    def disconnect(self) -> None:
        """End the connection, and with it the sessions that were opened by it."""
        self._file.close()
        self._socket.close()


def _accept(listener: socket.socket, broker: weakref.ref[MemoryBroker]) -> None:
    with suppress(OSError):  # the listener was shut
        while True:
            connection, _ = listener.accept()
            Thread(target=_serve, args=(connection, broker()), daemon=True).start()


def _serve(connection: socket.socket, broker: MemoryBroker) -> None:
    """Answer requests until the other side is gone, then end its sessions."""
    sessions = []
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rwb") as file, suppress(EOFError, OSError, pickle.UnpicklingError):
        try:
            while True:
                name, arguments, named = pickle.load(file)  # noqa: S301 - from a program that a test started
                answer, error = None, None
                try:
                    answer = getattr(broker, name)(*arguments, **named)
                except Exception as raised:
                    error = raised
                sessions += [answer] if name == "open_session" else []
                _write(file, (answer, error))
        finally:
            for session in sessions:
                broker.end_session(session)


def _write(file: Any, content: Iterable[Any]) -> None:
    pickle.dump(tuple(content), file)
    file.flush()


def _stop_listening(listener: socket.socket) -> None:
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
