"""Why a program is not ready: a sentence for each door that fails, logged once and taken back when it opens again."""

from __future__ import annotations

import logging

log = logging.getLogger("fingerprint.trouble")


class Troubles:
    """By the name of the door."""

    def __init__(self) -> None:
        self.by_door: dict[str, str] = {}

    def __contains__(self, door: str) -> bool:
        return door in self.by_door

    def say(self, door: str, what: str) -> None:
        if self.by_door.get(door) != what:
            log.warning("in trouble", extra={"fields": {"door": door, "what": what}})
        self.by_door[door] = what

    def over(self, door: str) -> None:
        if self.by_door.pop(door, None):
            log.info("no longer in trouble", extra={"fields": {"door": door}})

    def sentence(self) -> str | None:
        """All of them, None if there are none."""
        return "; ".join(f"{door}: {what}" for door, what in sorted(self.by_door.items())) or None
