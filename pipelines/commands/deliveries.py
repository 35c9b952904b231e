"""Deliveries to receivers on a terminal: `fingerprint deliveries list` and `retry`."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fingerprint.adapters.system import SystemClock
from fingerprint.core.errors import NotFound
from fingerprint.core.sanitize import printable
from fingerprint.core.time_range import format_iso
from fingerprint.delivery.policy import Delivery
from fingerprint.store import open_store
from fingerprint.web import formatting
from pipelines.cli.console import fit_columns


def list_deliveries(
    database_url: str, receiver: str = "", failed: bool = False, limit: int = 200
) -> list[dict[str, Any]]:
    """Return deliveries, newest first: the figures of `deliveries list --json`. Raises FingerprintError without a database."""
    with closing(open_store(database_url, create=False)) as store:
        found = store.outbox.list_deliveries(receiver, "failed" if failed else None, limit)
    return [delivery_summary(each) for each in found]


def retry_deliveries(database_url: str, key: str = "", receiver: str = "") -> dict[str, Any]:
    """Schedule failed deliveries again: the one with a key, those of a receiver, or all. Return their number.

    Raises NotFound if a `key` is given and no failed delivery has it.
    """
    with closing(open_store(database_url, create=False)) as store:
        retried = store.outbox.retry_failed(SystemClock().now(), key, receiver)
    if key and not retried:
        raise NotFound(
            f"no failed delivery has the key {printable(key[:200])!r}: `deliveries list --failed --json` names those there are"
        )
    return {"retried": retried}


def delivery_summary(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery for JSON; times are ISO 8601 with a Z."""
    return {
        "key": delivery.key,
        "receiver": delivery.receiver,
        "alert_id": printable(delivery.alert_id),
        "happened": delivery.happened,
        "state": delivery.state,
        "tries": delivery.tries,
        "reason": printable(delivery.reason),
        "created_at": format_iso(delivery.created_at),
        "due_at": format_iso(delivery.due_at),
        "done_at": format_iso(delivery.done_at) if delivery.done_at else None,
    }


def print_deliveries(found: list[dict[str, Any]]) -> None:
    """Print a table of deliveries, newest first."""
    if not found:
        print("no deliveries: nothing happened, or there is no receiver (docs/how-to/deliver.md)")
        return
    table = Table(
        "receiver", "alert", "what", "state", "tries", "since (UTC)", "why", box=None, pad_edge=False
    )
    for each in found:
        since = each["created_at"][:16].replace("T", " ")
        cells = (each["receiver"], each["alert_id"][:12], each["happened"], each["state"], str(each["tries"]))
        table.add_row(*map(Text, cells), since, Text(each["reason"], overflow="fold"))
    fit_columns(table, whole=("alert", "tries"), words=("since (UTC)",))
    Console().print(table)


def print_deliver_summary(figures: dict[str, Any]) -> None:
    """Print the summary of `deliver` when it ends."""
    print(
        f"{figures['sent']:,} sent, {figures['tries_failed']:,} attempts failed, {figures['failed']:,} deliveries failed; "
        f"{figures['waiting']:,} wait, {figures['given_up']:,} have failed: `fingerprint deliveries list` says why"
    )


def print_retry_summary(figures: dict[str, Any]) -> None:
    """Print how many deliveries are retried."""
    print(
        f"{formatting.pluralize(figures['retried'], 'delivery').replace('deliverys', 'deliveries')} are retried"
    )
