"""Retention of the database: `fingerprint database prune` and `purge`, and a daily run beside the web app.

Example:
    >>> with daily_retention(store, settings.retention):
    ...     server.run()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from fingerprint.core.credentials import mask_credentials
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.settings import Retention
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.store import SqlStore, open_store
from pipelines.cli.console import Progress, command_line
from pipelines.runtime import host

# The author in the audit log of the daily run; no account has a name with a colon.
RETENTION_ACTOR = "program:retention"
INITIAL_DELAY_SECONDS = 60.0  # between the start and the first run
INTERVAL_SECONDS = DAY_SECONDS  # between a run that succeeded and the next one
RETRY_SECONDS = 3_600.0  # between a run that failed and the next one
NOT_PURGED = (  # copies that a purge of the database does not reach
    "the topics of Kafka, the banks, checkpoints, files of scored events, deliveries, and lines "
    "of other principals that name it: docs/explanation/alert-store.md says how to clean those"
)
KIND_LABELS = {
    "records": "raw records",
    "votes": "single votes",
    "credential_issues": "session starts",
    "alerts": "alerts",
}

log = get_logger("fingerprint.store")


def prune_database(database_url: str, retention: Retention, progress: Progress) -> dict[str, Any]:
    """Remove rows that are older than their retention; return how many were removed, by kind."""
    store = open_store(database_url, create=False)
    removed = store.retention.apply(
        retention,
        host.operator_name(),
        lambda kind, done: progress(f"removing {KIND_LABELS[kind]}", done),
    )
    return {"removed": removed, "days": retention.model_dump()}


def print_prune_summary(figures: dict[str, Any]) -> None:
    """Print what was removed."""
    parts = [f"{count:,} {KIND_LABELS[kind]}" for kind, count in figures["removed"].items()]
    print(f"removed {', '.join(parts)}" if parts else "nothing is older than it is kept")


def purge_principal(database_url: str, principal: str, yes: bool) -> dict[str, Any]:
    """Remove all rows of a principal. Raises FingerprintError without `yes`, or if the principal has no rows."""
    if not yes:
        raise FingerprintError(
            "a purge cannot be undone: all alerts, votes, notes and dispositions of this principal go; "
            "say --yes if you mean it"
        )
    removed = open_store(database_url, create=False).retention.purge_principal(
        principal, host.operator_name()
    )
    return {"principal": principal, "removed": removed, "beyond": NOT_PURGED}


def print_purge_summary(figures: dict[str, Any]) -> None:
    """Print what was removed, and what a purge does not reach."""
    parts = (f"{count:,} of {table}" for table, count in figures["removed"].items())
    print(f"removed {', '.join(parts)}\nnot reached: {figures['beyond']}")


def describe_pause(store: SqlStore, retention: Retention, database_url: str) -> str:
    """Return why the daily run removes nothing, and the command that does; empty if the daily run is not paused."""
    since = store.retention.paused_since(retention)
    if since is None:
        return ""
    command = command_line("database", "prune", "--database", mask_credentials(database_url))
    return (
        f"Nothing is removed from this database: it received nothing since {since:%Y-%m-%d}, and all in it is older than the "
        f"settings keep it (retention.record_days, vote_days, closed_alert_days). To remove what is old: {command}"
    )


@contextmanager
def daily_retention(store: SqlStore, retention: Retention, *chores: Callable[[], None]) -> Iterator[None]:
    """Apply the retention and run the chores on a thread while the block runs: soon after its start, then once a day."""
    stopped = Event()
    thread = Thread(
        target=_run_retention, args=(store, retention, chores, stopped), name="retention", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(timeout=INITIAL_DELAY_SECONDS)


def _run_retention(
    store: SqlStore, retention: Retention, chores: Sequence[Callable[[], None]], stopped: Event
) -> None:
    rest = INITIAL_DELAY_SECONDS
    while not stopped.wait(rest):
        rest = INTERVAL_SECONDS if apply_retention(store, retention, chores) else RETRY_SECONDS


def apply_retention(store: SqlStore, retention: Retention, chores: Sequence[Callable[[], None]] = ()) -> bool:
    """Run the chores and remove rows that are older than their retention; return False if that failed and has to be retried.

    Nothing is removed from a store whose retention is paused until a person runs it (`paused_since`).
    """
    try:
        for chore in chores:
            chore()
        if since := store.retention.paused_since(retention):
            log.warning(
                "nothing old is removed until it is asked for", nothing_received_since=since.isoformat()
            )
            return True
        removed = store.retention.apply(retention, RETENTION_ACTOR)
    except FingerprintError as error:
        log.warning("what is old could not be removed", reason=str(error))
        return False
    except Exception:  # the thread must go on, or nothing would be removed until the next start
        log.exception("what is old could not be removed")
        return False
    if removed:
        log.info("removed what is old", **removed)
    return True
