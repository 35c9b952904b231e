"""Why a program is not ready: a sentence for each door that fails, logged once and taken back when it opens again."""

from __future__ import annotations

import logging

log = logging.getLogger("fingerprint.trouble")


class DependencyStatus:
    """By the name of the door."""

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}

    def __contains__(self, dependency: str) -> bool:
        return dependency in self.failures

    def fail(self, dependency: str, reason: str) -> None:
        if self.failures.get(dependency) != reason:
            log.warning("in trouble", extra={"fields": {"door": dependency, "what": reason}})
        self.failures[dependency] = reason

    def recover(self, dependency: str) -> None:
        if self.failures.pop(dependency, None):
            log.info("no longer in trouble", extra={"fields": {"door": dependency}})

    def summary(self) -> str | None:
        """All of them, None if there are none."""
        return "; ".join(f"{door}: {what}" for door, what in sorted(self.failures.items())) or None
