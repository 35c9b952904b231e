"""A group of readers in a folder: who lives, who owns which partition, and what was committed.

Example:
    >>> with Group(Path("stream"), "scorers").held() as state:
    ...     state["offsets"]["events/0"] = 12

Everything is one small JSON file, changed only under a lock and replaced whole. A member lives as long as it holds the
lock on its own file, and the operating system lets go of that when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fingerprint.adapters.file_broker.partition_log import hold_file_lock
from fingerprint.core import private_files

State = dict[
    str, Any
]  # generation: int; members: name -> token, topics; owners, offsets, metadata: "topic/number" -> ...


def _empty_state() -> State:
    return {"generation": 0, "members": {}, "owners": {}, "offsets": {}, "metadata": {}}


class ConsumerGroup:
    """See the head of this file."""

    def __init__(self, root: Path, name: str):
        self._folder = root / ".groups" / name
        private_files.make_private_folder(self._folder)
        self._file = self._folder / "group.json"

    @contextmanager
    def locked_state(self) -> Iterator[State]:
        """The state, nobody else changing it; what was changed is safe when the block ends."""
        with hold_file_lock(self._folder / "lock"):
            state = json.loads(self._file.read_text()) if self._file.exists() else _empty_state()
            before = json.dumps(state)
            yield state
            if json.dumps(state) != before:
                self._write_state(state)

    def _write_state(self, state: State) -> None:
        staged = self._folder / ".group.json"
        with staged.open("w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(self._file)

    def is_alive(self, token: str) -> bool:
        try:
            with (self._folder / token).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def remove_dead_members(self, state: State) -> None:
        """The dead own nothing."""
        for name, member in list(state["members"].items()):
            if not self.is_alive(member["token"]):
                del state["members"][name]
                release_partitions(state, member["token"])
                (self._folder / member["token"]).unlink(missing_ok=True)


class LivenessLock:
    """A member's proof of life: a locked file of its own."""

    def __init__(self, group: ConsumerGroup):
        self.token = uuid.uuid4().hex
        self._path = group._folder / self.token
        self._file = self._path.open("ab")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        self._file.close()


def release_partitions(state: State, token: str, partitions: set[str] | None = None) -> None:
    """These partitions, or all, are no longer this member's."""
    owners = state["owners"]
    for home in [
        home
        for home, owner in owners.items()
        if owner == token and (partitions is None or home in partitions)
    ]:
        del owners[home]


def assign_partitions(members: list[str], partitions: list[str], name: str) -> set[str]:
    """The partitions that fall to one of the members: each gets as many as any other, or one fewer."""
    return set(partitions[members.index(name) :: len(members)]) if name in members else set()
