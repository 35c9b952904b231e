"""The banks as people look at them from the desk: which versions there are, and what the one that is served knows.

Example:
    >>> [each.version for each in banks.versions() if each.served]
    ['2026-02-01-5b3c0a1e']
    >>> banks.served().people["principal"]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from fingerprint.registry.bank import Bank


@dataclass(frozen=True, slots=True)
class BankVersion:
    """A version that is kept. It learned `events` from `since` to `until`; of its `fingerprints` so many are `ready`, by level.

    `passed`: what the gate said, None where it was never asked, and `reasons` why not. `decided` is the newest decision about it:
    trained and served, published, rolled back to, or refused; by whom, when and why, and whether past the gate (`forced`).
    `drift`: how far the behaviour of those who are ready had moved since the version before, by quantile (0 the same, 1 nothing
    in common). `problem` says why a version cannot be read; then the rest is empty.
    """

    version: str
    served: bool
    written: datetime
    since: str = ""
    until: str = ""
    events: int = 0
    fingerprints: int = 0
    ready: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    passed: bool | None = None
    reasons: tuple[str, ...] = ()
    decided: str = ""
    by: str = ""
    at: str = ""
    why: str = ""
    forced: bool = False
    drift: dict[str, float] = field(default_factory=dict)
    problem: str = ""


class BankCatalog(Protocol):
    """A folder of banks, looked at and never changed."""

    def versions(self) -> list[BankVersion]:
        """Those that are kept, the one written last first; none where there is no bank yet."""
        ...

    def served_version(self) -> str:
        """The version that is served now, without opening it; NotThere where there is none."""
        ...

    def open_served(self) -> Bank:
        """The version that is served now, verified. NotThere where there is none, FingerprintError where it cannot be read."""
        ...
