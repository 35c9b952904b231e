"""Values that the queue is filtered and grouped by, derived from saved alerts: services, accounts, tactics, surprises.

Example:
    >>> sorted(derive_filter_values("123456789012:role/ci", ["Discovery"], ["ec2", "s3"], [record]))
    [('account', '123456789012'), ('account', '210987654321'), ('service', 'ec2'), ('service', 's3'), ('tactic', 'Discovery')]

Services and accounts cover all evidence and are never removed; tactics and surprises are the newest save's, as on the alert.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.core.sanitize import storable
from fingerprint.sources.active import SOURCE
from fingerprint.store.schema import (
    Row,
    alert_surprises,
    alert_values,
    execute_batches,
    id_batches,
    index_key,
    insert_into,
)

_ACCOUNT = re.compile(r"[0-9]{12}")


def update_filter_values(connection: sql.Connection, alerts: Sequence[Row], events: Iterable[Row]) -> None:
    """Replace the values that are derived from the rows of these alerts and of their events."""
    services, raws = _group_by_alert(events, "service"), _group_by_alert(events, "raw")
    names = [row["alert_id"] for row in alerts]
    for batch in id_batches(names):
        _delete_values(connection, batch)
    values: list[Row] = []
    surprises: list[Row] = []
    for row in alerts:
        name = row["alert_id"]
        found = derive_filter_values(
            row["principal"], row["tactics"], services.get(name, ()), raws.get(name, ())
        )
        values += [{"alert_id": name, "kind": kind, "value": value} for kind, value in sorted(found)]
        surprises += surprise_rows(name, row["drivers"])
    _insert_rows(connection, alert_values, values)
    _insert_rows(connection, alert_surprises, surprises)


def derive_filter_values(
    principal: str, tactics: Iterable[str], services: Iterable[str], raws: Iterable[str]
) -> set[tuple[str, str]]:
    """Return (kind, value) of an alert; its accounts are the principal's and those whose trails recorded its calls."""
    accounts = {principal.partition(":")[0], *map(SOURCE.record_account, raws)}
    found = {"account": filter(_ACCOUNT.fullmatch, accounts), "service": services, "tactic": tactics}
    return {(kind, index_key(value)) for kind, values in found.items() for value in values}


def surprise_rows(alert_id: str, drivers: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield a row for each driver, in their order."""
    for rank, driver in enumerate(drivers):
        feature, seen = storable(driver["feature"]), storable(driver["seen"])
        own = {"alert_id": alert_id, "rank": rank, "surprise_id": surprise_id(feature, seen)}
        yield own | {"feature": feature, "seen": seen, "surprise": driver["surprise"] or 0.0}


def surprise_id(feature: str, seen: str) -> str:
    """Return a digest of a feature and its value, 32 characters."""
    return blake2b(f"{feature}\0{seen}".encode(), digest_size=16).hexdigest()


def _group_by_alert(events: Iterable[Row], column: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in events:
        found.setdefault(row["alert_id"], set()).add(row[column])
    return found


def _delete_values(connection: sql.Connection, alert_ids: Collection[str]) -> None:
    """Delete what the newest save replaces; services and accounts stay."""
    tactics = (alert_values.c.kind == "tactic") & alert_values.c.alert_id.in_(alert_ids)
    connection.execute(sql.delete(alert_values).where(tactics))
    connection.execute(sql.delete(alert_surprises).where(alert_surprises.c.alert_id.in_(alert_ids)))


def _insert_rows(connection: sql.Connection, table: sql.Table, rows: Sequence[Row]) -> None:
    statement = insert_into(connection, table).on_conflict_do_nothing()
    execute_batches(connection, statement, rows)
