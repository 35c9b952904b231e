"""What the queue is filtered and grouped by, derived from alerts as they are saved: services, accounts, tactics, surprises.

Example:
    >>> sorted(values_of("123456789012:role/ci", ["Discovery"], ["ec2", "s3"], [record]))
    [('account', '123456789012'), ('account', '210987654321'), ('service', 'ec2'), ('service', 's3'), ('tactic', 'Discovery')]

Services and accounts are those of all evidence, and never fall; tactics and surprises are the newest save's, as on the alert.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.core.sanitize import storable
from fingerprint.sources.active import SOURCE
from fingerprint.store.queue_tables import alert_surprises, alert_values
from fingerprint.store.schema import Row, index_key, insert_into

CHUNK = 10_000  # rows of one executemany
MAX_IDS_PER_QUERY = 500  # ids of one IN (...)
_ACCOUNT = re.compile(r"[0-9]{12}")


def update_filter_values(connection: sql.Connection, alerts: Sequence[Row], events: Iterable[Row]) -> None:
    """What is derived from the rows of these alerts and of their events, in place of what was."""
    services, raws = _group_by_alert(events, "service"), _group_by_alert(events, "raw")
    names = [row["alert_id"] for row in alerts]
    for start in range(0, len(names), MAX_IDS_PER_QUERY):
        _delete_values(connection, names[start : start + MAX_IDS_PER_QUERY])
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
    """(kind, value) of an alert. The accounts are the principal's and those whose trail recorded its calls."""
    accounts = {principal.partition(":")[0], *map(SOURCE.record_account, raws)}
    found = {"account": filter(_ACCOUNT.fullmatch, accounts), "service": services, "tactic": tactics}
    return {(kind, index_key(value)) for kind, values in found.items() for value in values}


def surprise_rows(alert_id: str, drivers: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """A row for each driver, in their order."""
    for place, driver in enumerate(drivers):
        feature, seen = storable(driver["feature"]), storable(driver["seen"])
        own = {"alert_id": alert_id, "place": place, "surprise_id": surprise_id(feature, seen)}
        yield own | {"feature": feature, "seen": seen, "surprise": driver["surprise"] or 0.0}


def surprise_id(feature: str, seen: str) -> str:
    """The same for the same value of the same feature, 32 characters."""
    return blake2b(f"{feature}\0{seen}".encode(), digest_size=16).hexdigest()


def _group_by_alert(events: Iterable[Row], column: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in events:
        found.setdefault(row["alert_id"], set()).add(row[column])
    return found


def _delete_values(connection: sql.Connection, alert_ids: Collection[str]) -> None:
    """What the newest save says anew."""
    tactics = (alert_values.c.kind == "tactic") & alert_values.c.alert_id.in_(alert_ids)
    connection.execute(sql.delete(alert_values).where(tactics))
    connection.execute(sql.delete(alert_surprises).where(alert_surprises.c.alert_id.in_(alert_ids)))


def _insert_rows(connection: sql.Connection, table: sql.Table, rows: Sequence[Row]) -> None:
    statement = insert_into(connection, table).on_conflict_do_nothing()
    for start in range(0, len(rows), CHUNK):
        connection.execute(statement, rows[start : start + CHUNK])
