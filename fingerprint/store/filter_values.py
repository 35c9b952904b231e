"""Values to filter, search and group the queue by, derived from saved alerts.

Example:
    >>> values = derive_filter_values("123456789012:user/ola", "ola", ["Persistence"], [event_row])
    >>> sorted(values["action"]), sorted(values["call"])
    (['CreateUser'], ['iam:CreateUser'])

- Tactics and surprises are those of the newest save, as on the alert. All other values cover all evidence and are never removed.
- An alert keeps the first MAX_VALUES of each kind from each save, so that a flood of resources or addresses is bounded.
- `alert_texts` has the words of all values and of the title, for full text search.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.core.address import NO_ADDRESS_TABLES, AddressTables
from fingerprint.core.alert_query import words_of
from fingerprint.core.sanitize import index_key, storable
from fingerprint.store.schema import (
    Row,
    alert_surprises,
    alert_texts,
    alert_values,
    execute_batches,
    id_batches,
    insert_into,
)

MAX_VALUES = 300  # of a kind, in one save of an alert
MAX_WORDS = 3_000  # of an alert, in its full text
EVENT_VALUES = {  # kind: column of `alert_events`
    "service": "service",
    "action": "action",
    "address": "source_address",
    "key": "access_key",
    "resource": "resource",
    "error": "error_code",
    "agent": "user_agent",
    "region": "region",
}
# Facts from address tables when the alert is saved; pages look them up again when an alert is shown.
PLACE_VALUES = ("country", "network_owner", "known_range")
CALL = "call"  # service:action
TECHNIQUE = "technique"  # of its calls; for a sub-technique also its parent
_ACCOUNT = re.compile(r"[0-9]{12}")
_TEXT_COLUMNS = ("title", "principal", "human", "alert_id")


def update_filter_values(
    connection: sql.Connection,
    alerts: Sequence[Row],
    events: Iterable[Row],
    tables: AddressTables = NO_ADDRESS_TABLES,
) -> None:
    """Update the values derived from the rows of these alerts and of their events."""
    by_alert: dict[str, list[Row]] = defaultdict(list)
    for event in events:
        by_alert[event["alert_id"]].append(event)
    for batch in id_batches([row["alert_id"] for row in alerts]):
        _delete_values(connection, batch)
    values: list[Row] = []
    surprises: list[Row] = []
    for row in alerts:
        name = row["alert_id"]
        found = derive_filter_values(row["principal"], row["human"], row["tactics"], by_alert[name], tables)
        values += [
            {"alert_id": name, "kind": kind, "value": value} for kind, many in found.items() for value in many
        ]
        surprises += surprise_rows(name, row["last_event_time"], row["drivers"])
    _insert_rows(connection, alert_values, values)
    _insert_rows(connection, alert_surprises, surprises)
    _update_texts(connection, alerts)


def derive_filter_values(
    principal: str,
    human: str,
    tactics: Iterable[str],
    events: Sequence[Row],
    tables: AddressTables = NO_ADDRESS_TABLES,
) -> dict[str, list[str]]:
    """Return the distinct values of each kind.

    Accounts are the principal's and those whose trails recorded its calls. A principal is found by its whole name, by the name
    without its account, and by its last part; a person also by the part before an @; an action by its name in titles and by its
    name in the log.
    """
    # late: saving needs the package that reads records, reading the queue does not
    from fingerprint.sources.active import SOURCE

    accounts = (principal.partition(":")[0], *(SOURCE.record_account(row["raw"]) for row in events))
    found: dict[str, Iterable[str]] = {
        kind: [row[column] for row in events] for kind, column in EVENT_VALUES.items()
    }
    calls = dict.fromkeys((row["service"], row["action"]) for row in events)
    names = [(of, name) for of, action in calls for name in (SOURCE.plain_action(action), action)]
    found["action"] = (name for _, name in names)
    found[CALL] = (f"{of}:{name}" for of, name in names)
    found["account"] = filter(_ACCOUNT.fullmatch, accounts)
    found["tactic"] = tactics
    techniques = (each.id for call in calls for each in SOURCE.techniques_of(*call))
    found[TECHNIQUE] = (name for each in techniques for name in (each, each.partition(".")[0]))
    found["principal"] = (principal, principal.partition(":")[2], principal.rpartition("/")[2])
    found["person"] = (human, human.partition("@")[0])
    places = [tables.place(address) for address in dict.fromkeys(row["source_address"] for row in events)]
    found["country"] = (place.country for place in places)
    found["network_owner"] = (place.owner for place in places)
    found["known_range"] = (name for place in places for name in place.ranges)
    return {kind: _first_distinct(values) for kind, values in found.items()}


def _first_distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(index_key(value) for value in values if value))[:MAX_VALUES]


def _update_texts(connection: sql.Connection, alerts: Sequence[Row]) -> None:
    """Replace the words of alerts by those of their title, people and values."""
    texts = {row["alert_id"]: [str(row[name]) for name in _TEXT_COLUMNS] for row in alerts}
    table = alert_values.c
    for batch in id_batches(list(texts)):
        query = sql.select(table.alert_id, table.value).where(
            table.alert_id.in_(batch), table.kind != "action"
        )
        for alert_id, value in connection.execute(query.order_by(table.alert_id, table.kind, table.value)):
            texts[alert_id].append(value)
    rows = [{"alert_id": name, "words": " ".join(_words(parts))} for name, parts in texts.items()]
    insert = insert_into(connection, alert_texts)
    replaced = insert.on_conflict_do_update(
        index_elements=["alert_id"], set_={"words": insert.excluded.words}
    )
    execute_batches(connection, replaced, rows)


def _words(texts: Iterable[str]) -> list[str]:
    """Return the words of texts, each once."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(words_of(text)))
        if len(found) >= MAX_WORDS:
            break
    return list(found)[:MAX_WORDS]


def surprise_rows(alert_id: str, last: datetime, drivers: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield a row for each driver, in their order."""
    for rank, driver in enumerate(drivers):
        feature, seen = storable(driver["feature"]), storable(driver["seen"])
        own = {"alert_id": alert_id, "rank": rank, "surprise_id": surprise_id(feature, seen)}
        own |= {"last_event_time": last}
        yield own | {"feature": feature, "seen": seen, "surprise": driver["surprise"] or 0.0}


def surprise_id(feature: str, seen: str) -> str:
    """Return a digest of a feature and its value, 32 characters."""
    return blake2b(f"{feature}\0{seen}".encode(), digest_size=16).hexdigest()


def _delete_values(connection: sql.Connection, alert_ids: Collection[str]) -> None:
    """Delete tactics and surprises, which the newest save replaces; the values of events and accounts stay."""
    tactics = (alert_values.c.kind == "tactic") & alert_values.c.alert_id.in_(alert_ids)
    connection.execute(sql.delete(alert_values).where(tactics))
    connection.execute(sql.delete(alert_surprises).where(alert_surprises.c.alert_id.in_(alert_ids)))


def _insert_rows(connection: sql.Connection, table: sql.Table, rows: Sequence[Row]) -> None:
    statement = insert_into(connection, table).on_conflict_do_nothing()
    execute_batches(connection, statement, rows)
