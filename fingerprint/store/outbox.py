"""What is told elsewhere, on the desk's own database: an outbox beside the alerts that it tells of (`ports_outbox.Outbox`).

Example:
    >>> outbox = outbox_of(desk)
    >>> outbox.enrol("soc", backlog=False)
    >>> outbox.plan("soc", settings.deliver["soc"], now)
    3

Planning reads what has changed since the last time, and writes deliveries and how far it came in one transaction: after a crash
it is planned again, under the same keys. Several may plan and send at once. Whoever takes a delivery locks its row, skips rows
that others have locked (on SQLite there is one writer anyway), and holds it until its lease ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sql

from fingerprint.core.alert import Alert, Disposition
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import ReceiverSettings
from fingerprint.delivery.outbox import DeliveryCounts
from fingerprint.delivery.policy import (
    AlertStatus,
    Delivery,
    DeliveryState,
    ReceiverKnowledge,
    changes_to_deliver,
    idempotency_key,
    knowledge_after,
)
from fingerprint.store import change_feed
from fingerprint.store import database as desk_engine
from fingerprint.store.alert_export import read_full_alerts
from fingerprint.store.alerts import SqlAlertStore
from fingerprint.store.outbox_tables import deliveries, last_delivered, receiver_positions
from fingerprint.store.queue_tables import cases
from fingerprint.store.schema import Row, alerts, insert_into
from fingerprint.store.suppression_tables import suppression_hits
from fingerprint.store.suppressions import is_hidden

BATCH = 500  # changes of one transaction, about
MAX_IDS_PER_QUERY = 500  # of one IN (...)
START_POSITION = -1  # a position before all changes
WITHHELD = -1  # events heard of an alert that was not told because a suppression hid it

_DELIVERY_FIELDS = tuple(Delivery.__slots__)
_COLUMNS = tuple(deliveries.c[name] for name in _DELIVERY_FIELDS)

T = TypeVar("T")


def open_outbox(store: SqlAlertStore) -> SqlOutbox:
    """The outbox of a desk that is open."""
    return SqlOutbox(store.engine)


class SqlOutbox:
    """An Outbox over SQLAlchemy."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine

    def register_receiver(self, receiver: str, include_backlog: bool) -> None:
        def put(connection: sql.Connection) -> None:
            position = START_POSITION if include_backlog else change_feed.latest_change_number(connection)
            row = insert_into(connection, receiver_positions).values(receiver=receiver, position=position)
            connection.execute(row.on_conflict_do_nothing())

        self._write(put)

    def schedule(self, receiver: str, options: ReceiverSettings, now: datetime) -> int:
        return self._write(partial(_schedule_deliveries, receiver=receiver, wants=options, now=now))

    def claim(
        self, receiver: str, now: datetime, lease_until: datetime, limit: int, worker: str
    ) -> list[Delivery]:
        return self._write(
            partial(_claim_due, receiver=receiver, now=now, until=lease_until, most=limit, by=worker)
        )

    def mark_sent(self, delivery: Delivery, now: datetime) -> None:
        self._finish(delivery, state="sent", reason="", done_at=now)

    def mark_failed(self, delivery: Delivery, now: datetime, reason: str) -> None:
        self._finish(delivery, state="failed", reason=storable(reason), done_at=now)

    def reschedule(self, delivery: Delivery, due_at: datetime, reason: str, worker: str) -> None:
        row = {"due_at": due_at, "reason": storable(reason), "tries": deliveries.c.tries + 1}
        ours = _is_waiting(delivery) & (deliveries.c.held_by == worker)
        self._write(
            lambda connection: connection.execute(
                sql.update(deliveries).where(ours).values(**row, **UNCLAIMED)
            )
        )

    def release(self, held: Sequence[Delivery], worker: str) -> None:
        ours = (deliveries.c.held_by == worker) & deliveries.c.key.in_([each.key for each in held])
        if held:
            self._write(
                lambda connection: connection.execute(sql.update(deliveries).where(ours).values(**UNCLAIMED))
            )

    def retry_failed(self, now: datetime, key: str = "", receiver: str = "") -> int:
        which = deliveries.c.state == "failed"
        for column, value in ((deliveries.c.key, key), (deliveries.c.receiver, receiver)):
            which = which & (column == value) if value else which
        row = {"state": "waiting", "tries": 0, "created_at": now, "due_at": now, "done_at": None}
        statement = sql.update(deliveries).where(which).values(**row)
        return self._write(lambda connection: int(connection.execute(statement).rowcount))

    def list_deliveries(
        self, receiver: str = "", state: DeliveryState | None = None, limit: int = 200
    ) -> list[Delivery]:
        query = sql.select(*_COLUMNS).order_by(deliveries.c.created_at.desc(), deliveries.c.key).limit(limit)
        query = query.where(deliveries.c.receiver == receiver) if receiver else query
        query = query.where(deliveries.c.state == state) if state else query
        return self._read(lambda connection: _read_deliveries(connection, query))

    def counts_by_receiver(self) -> dict[str, DeliveryCounts]:
        return self._read(_count_deliveries)

    def current_alert(self, delivery: Delivery) -> tuple[Alert, Disposition | None] | None:
        found = self._read(lambda connection: read_full_alerts(connection, [delivery.alert_id], raw=False))
        return found[0] if found else None

    def delete_sent(self, before: datetime) -> int:
        old = (deliveries.c.state == "sent") & (deliveries.c.done_at < before)
        return self._write(
            lambda connection: int(connection.execute(sql.delete(deliveries).where(old)).rowcount)
        )

    def _finish(self, delivery: Delivery, **row: Any) -> None:
        statement = sql.update(deliveries).where(_is_waiting(delivery))
        self._write(
            lambda connection: connection.execute(
                statement.values(**row, **UNCLAIMED, tries=deliveries.c.tries + 1)
            )
        )

    def _write(self, work: Callable[[sql.Connection], T]) -> T:
        with desk_engine.translate_database_errors(self._engine.url):
            return desk_engine.run_write_transaction(self._engine, work, desk_engine.ROW_VERSIONED)

    def _read(self, work: Callable[[sql.Connection], T]) -> T:
        with (
            desk_engine.translate_database_errors(self._engine.url),
            self._engine.connect() as connection,
            connection.begin(),
        ):
            return work(connection)


UNCLAIMED: Row = {"held_until": None, "held_by": ""}


def _is_waiting(delivery: Delivery) -> sql.ColumnElement[bool]:
    return (deliveries.c.key == delivery.key) & (deliveries.c.state == "waiting")


# --- from changes to deliveries -------------------------------------------------------------------------------------


def _schedule_deliveries(
    connection: sql.Connection, receiver: str, wants: ReceiverSettings, now: datetime
) -> int:
    """Whoever plans for a receiver locks its row: the next one sees how far this one came."""
    mine = (
        sql.select(receiver_positions.c.position)
        .where(receiver_positions.c.receiver == receiver)
        .with_for_update()
    )
    position = connection.scalar(mine)
    if position is None:
        return 0
    changed = change_feed.changes_after(connection, position, BATCH)
    seen_again = _no_longer_suppressed(connection, receiver, wants, now)
    names = list(dict.fromkeys([*(each.alert_id for each in changed), *seen_again]))
    for start in range(0, len(names), MAX_IDS_PER_QUERY):
        _schedule_alerts(connection, receiver, wants, now, names[start : start + MAX_IDS_PER_QUERY])
    if changed:
        row = sql.update(receiver_positions).where(receiver_positions.c.receiver == receiver)
        connection.execute(row.values(position=changed[-1].number))
    return len(names)


def _no_longer_suppressed(
    connection: sql.Connection, receiver: str, wants: ReceiverSettings, now: datetime
) -> list[str]:
    """Alerts that were held back and are hidden no more: a suppression expires by itself, and nothing changes with it. Asked of
    those that one ever hid, so that not all that was told is read."""
    ever = sql.select(suppression_hits.c.alert_id)
    held = (
        (last_delivered.c.receiver == receiver)
        & (last_delivered.c.events == WITHHELD)
        & last_delivered.c.alert_id.in_(ever)
    )
    query = sql.select(last_delivered.c.alert_id).join_from(
        last_delivered, alerts, alerts.c.alert_id == last_delivered.c.alert_id
    )
    query = query.where(held, alerts.c.urgency_shown >= wants.min_urgency, ~is_hidden(now))
    return list(connection.scalars(query.limit(BATCH)))


def _schedule_alerts(
    connection: sql.Connection, receiver: str, wants: ReceiverSettings, now: datetime, names: Sequence[str]
) -> None:
    before = _read_last_delivered(connection, receiver, names)
    new: list[Row] = []
    known: list[Row] = []
    for stand in _read_alert_states(connection, names, now):
        last = before.get(stand.alert_id)
        happened = changes_to_deliver(wants, stand, last)
        new += [_delivery_row(receiver, stand, each, now) for each in happened]
        if last or stand.urgency >= wants.min_urgency:
            row = (
                knowledge_after(stand, last) if last or not stand.suppressed else ReceiverKnowledge(WITHHELD)
            )
            known.append({"receiver": receiver, "alert_id": stand.alert_id, **row._asdict()})
    if new:
        connection.execute(insert_into(connection, deliveries).on_conflict_do_nothing(), new)
    if known:
        put = insert_into(connection, last_delivered)
        keys, values = ["receiver", "alert_id"], ("events", "decided_at")
        overwrite = {name: put.excluded[name] for name in values}
        connection.execute(put.on_conflict_do_update(index_elements=keys, set_=overwrite), known)


def _delivery_row(receiver: str, stand: AlertStatus, happened: Any, now: datetime) -> Row:
    key = idempotency_key(receiver, stand, happened)
    made = Delivery(key, receiver, stand.alert_id, happened, created_at=now, due_at=now)
    return {name: getattr(made, name) for name in _DELIVERY_FIELDS}


def _read_alert_states(
    connection: sql.Connection, names: Sequence[str], now: datetime
) -> Iterator[AlertStatus]:
    """How these alerts are now, in the order in which they happened."""
    over_all = (cases.c.decision.is_not(None)) & (cases.c.decided_events >= alerts.c.event_count)
    query = (
        sql.select(
            alerts.c.alert_id,
            alerts.c.urgency_shown,
            alerts.c.event_count,
            is_hidden(now).label("suppressed"),
            sql.case((over_all, cases.c.decided_at)).label("decided_at"),
        )
        .join_from(alerts, cases, cases.c.alert_id == alerts.c.alert_id, isouter=True)
        .where(alerts.c.alert_id.in_(names))
        .order_by(alerts.c.first_event_time, alerts.c.alert_id)
    )
    for row in connection.execute(query):
        yield AlertStatus(row[0], row[1], row[2], bool(row[3]), row[4])


def _read_last_delivered(
    connection: sql.Connection, receiver: str, names: Sequence[str]
) -> dict[str, ReceiverKnowledge]:
    """What it has heard; of what was held back nothing."""
    those = (
        (last_delivered.c.receiver == receiver)
        & last_delivered.c.alert_id.in_(names)
        & (last_delivered.c.events != WITHHELD)
    )
    query = sql.select(last_delivered).where(those)
    return {
        row["alert_id"]: ReceiverKnowledge(row["events"], row["decided_at"])
        for row in connection.execute(query).mappings()
    }


# --- from deliveries to receivers -----------------------------------------------------------------------------------


def _claim_due(
    connection: sql.Connection, receiver: str, now: datetime, until: datetime, most: int, by: str
) -> list[Delivery]:
    table = deliveries.c
    free = table.held_until.is_(None) | (table.held_until <= now)
    due = (table.receiver == receiver) & (table.state == "waiting") & (table.due_at <= now) & free
    query = sql.select(*_COLUMNS).where(due).order_by(table.due_at, table.created_at, table.key).limit(most)
    taken = _read_deliveries(connection, query.with_for_update(skip_locked=True))
    ours = table.key.in_([each.key for each in taken])
    if taken:
        connection.execute(sql.update(deliveries).where(ours).values(held_until=until, held_by=by))
    return taken


def _read_deliveries(connection: sql.Connection, query: sql.Select[Any]) -> list[Delivery]:
    return [Delivery(**row) for row in connection.execute(query).mappings()]


def _count_deliveries(connection: sql.Connection) -> dict[str, DeliveryCounts]:
    table = deliveries.c
    query = sql.select(table.receiver, table.state, sql.func.count(), sql.func.min(table.created_at))
    found: dict[str, dict[str, tuple[int, datetime]]] = {}
    for receiver, state, count, oldest in connection.execute(query.group_by(table.receiver, table.state)):
        found.setdefault(receiver, {})[state] = (count, oldest)
    return {receiver: _to_delivery_counts(states) for receiver, states in found.items()}


def _to_delivery_counts(states: dict[str, tuple[int, datetime]]) -> DeliveryCounts:
    waiting, sent, failed = (states.get(name, (0, None)) for name in ("waiting", "sent", "failed"))
    return DeliveryCounts(waiting[0], sent[0], failed[0], oldest_waiting=waiting[1])
