"""What the desk no longer keeps: `fingerprint desk prune` and `fingerprint desk purge`, and once a day beside the pages.

Example:
    >>> with daily(desk, settings.retention):
    ...     server.run()
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Retention
from fingerprint.store.alerts import SqlDesk, open_desk
from pipelines.cli.console import Progress
from pipelines.runtime import operator

BY = "program:retention"  # who it is in the audit, when nobody asked; no account has a name with a colon
SOON, DAY, AGAIN = 60.0, 86_400.0, 3_600.0  # seconds: after the start, after it was done, after it failed
BEYOND = (  # what a purge at the desk does not reach
    "the topics of Kafka, the banks, the streams' snapshots, files of judged events, what was delivered elsewhere, and lines "
    "of other principals that name it: docs/desk.md says how those are cleaned"
)
NAMES = {
    "records": "raw records",
    "votes": "single votes",
    "hops": "beginnings of sessions",
    "alerts": "alerts",
}

log = logging.getLogger("fingerprint.desk")


def run_prune(desk_url: str, kept: Retention, progress: Progress) -> dict[str, Any]:
    """Remove what is older than it is kept; how much that was, by kind."""
    desk = open_desk(desk_url, create=False)
    removed = desk.prune(
        kept, operator.at_console(), lambda kind, done: progress(f"removing {NAMES[kind]}", done)
    )
    return {"removed": removed, "days": kept.model_dump()}


def print_pruned(figures: dict[str, Any]) -> None:
    parts = [f"{count:,} {NAMES[kind]}" for kind, count in figures["removed"].items()]
    print(f"removed {', '.join(parts)}" if parts else "nothing is older than it is kept")


def run_purge(desk_url: str, principal: str, yes: bool) -> dict[str, Any]:
    """Remove all that is of a principal. FingerprintError without `yes`, and where nothing is of it."""
    if not yes:
        raise FingerprintError(
            "a purge cannot be undone: all alerts, votes, notes and dispositions of this principal go; "
            "say --yes if you mean it"
        )
    removed = open_desk(desk_url, create=False).purge(principal, operator.at_console())
    return {"principal": principal, "removed": removed, "beyond": BEYOND}


def print_purged(figures: dict[str, Any]) -> None:
    parts = (f"{count:,} of {table}" for table, count in figures["removed"].items())
    print(f"removed {', '.join(parts)}\nnot reached: {figures['beyond']}")


@contextmanager
def daily(desk: SqlDesk, kept: Retention, *chores: Callable[[], None]) -> Iterator[None]:
    """Prune soon after the start and once a day, beside whatever else goes on, until the end; so with other chores."""
    over = Event()
    beside = Thread(target=_keep_tidy, args=(desk, kept, chores, over), name="retention", daemon=True)
    beside.start()
    try:
        yield
    finally:
        over.set()
        beside.join(timeout=SOON)


def _keep_tidy(desk: SqlDesk, kept: Retention, chores: Sequence[Callable[[], None]], over: Event) -> None:
    rest = SOON
    while not over.wait(rest):
        rest = DAY if tidied(desk, kept, chores) else AGAIN


def tidied(desk: SqlDesk, kept: Retention, chores: Sequence[Callable[[], None]] = ()) -> bool:
    """Whether it went well; a desk that is away is tidied another time."""
    try:
        for chore in chores:
            chore()
        removed = desk.prune(kept, BY)
    except FingerprintError as error:
        log.warning("what is old could not be removed", extra={"fields": {"reason": str(error)}})
        return False
    if removed:
        log.info("removed what is old", extra={"fields": dict(removed)})
    return True
