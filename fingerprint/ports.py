"""The outside, as protocols: what the inside needs of each door, and the words for it, defined once.

Example:
    >>> def empty(desk: Desk) -> bool:
    ...     return not desk.alerts(limit=1)

A door is a module in `edges/`. Every door has a twin that keeps the same contract (tests/contracts/), so a
program may be given either. Only programs choose; nothing inside imports a door.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

import pandas as pd

from fingerprint.cloudtrail import Records
from fingerprint.domain import Alert, Vote

Votes = Sequence[Vote] | pd.DataFrame  # a table has the fields of Vote as its columns


class Source(Protocol):
    """Where records come from. Read again, it gives the same records; in what order, and cut where, is its
    own affair."""

    def __iter__(self) -> Iterator[Records]:
        """Batches of records, with what was rejected and skipped on the way."""
        ...


class Desk(Protocol):
    """Where alerts, their evidence and single votes rest.

    *Evidence* is the set of an alert's events: it may grow, and it never shrinks. *Saved* means safe: when
    `save` returns, the input may be forgotten. Saving the same again changes nothing, because ids come from
    content. What people decide on an alert is never written here.
    """

    def save(self, alerts: Sequence[Alert] = (), votes: Votes = ()) -> None:
        """All of it or, if it raises, none of it."""
        ...

    def alerts(self, limit: int | None = None, raw: bool = True) -> list[Alert]:
        """The most urgent first; then the oldest, then by id. Without `raw`, records are empty text."""
        ...

    def alert(self, id_or_prefix: str) -> Alert:
        """One alert by its id or its first characters. FingerprintError if there is not exactly one."""
        ...

    def votes(
        self, principal: str | None = None, since: datetime | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Single votes, the oldest first, with the fields of Vote as columns; `event_time` is UTC."""
        ...


class Clock(Protocol):
    """The time of day, for what has to know it. Detection does not: it lives in event time."""

    def now(self) -> datetime:
        """Now, in UTC."""
        ...
