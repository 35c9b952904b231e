"""The transactional outbox: deliveries of alerts to receivers, in the same database as the alerts (`delivery.outbox.Outbox`).

Example:
    >>> store.outbox.register_receiver("soc", settings.deliver["soc"])
    >>> store.outbox.schedule("soc", settings.deliver["soc"], now)
    3

- Scheduling reads the changes since the last time, and writes deliveries and its position in one transaction. After a crash the
  same deliveries are scheduled again, under the same keys.
- Several workers may schedule and send at once. A worker that claims a delivery locks its row, skips rows that others have locked
  (SQLite has one writer anyway), and owns the delivery until its lease ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sql

from fingerprint.core.alert import Alert, Disposition
from fingerprint.core.sanitize import storable
from fingerprint.core.settings import ReceiverSettings
from fingerprint.delivery.outbox import Backlog, DeliveryCounts
from fingerprint.delivery.policy import (
    AlertStatus,
    Delivery,
    DeliveryState,
    ReceiverKnowledge,
    changes_to_deliver,
    idempotency_key,
    knowledge_after,
)
from fingerprint.store.audit import changes_after, latest_change_number
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.evidence import read_full_alerts
from fingerprint.store.query_conditions import CLOSED
from fingerprint.store.schema import (
    Row,
    alert_changes,
    alerts,
    cases,
    deliveries,
    id_batches,
    insert_into,
    last_delivered,
    receiver_positions,
    replace_into,
    suppression_hits,
)
from fingerprint.store.suppression_hits import is_hidden

BATCH = 500  # changes of one transaction, about
START_POSITION = -1  # a position before all changes
WITHHELD = -1  # `last_delivered.events` of an alert that was not delivered because a suppression hid it
UNCLAIMED: Row = {"leased_until": None, "leased_by": ""}

_DECIDED_AT = sql.case((CLOSED, cases.c.decided_at)).label("decided_at")  # null: the alert is open
_DELIVERY_FIELDS = tuple(Delivery.__slots__)
_COLUMNS = tuple(deliveries.c[name] for name in _DELIVERY_FIELDS)


class SqlOutbox(Repository):
    """Deliveries and positions of receivers. Rows are locked one by one, so no delivery waits for the scorer."""

    @writes(Locking.ROW_VERSIONS)
    def register_receiver(self, connection: sql.Connection, receiver: str, options: ReceiverSettings) -> None:
        """Register a receiver for all changes from now on; with `include_existing` also for stored alerts."""
        position = START_POSITION if options.include_existing else latest_change_number(connection)
        row = insert_into(connection, receiver_positions).values(receiver=receiver, position=position)
        row = row.on_conflict_do_nothing().returning(receiver_positions.c.receiver)
        is_first = connection.scalar(row) is not None
        if is_first and not options.include_existing:
            _take_as_delivered(connection, receiver, options, position)

    @reads
    def registered_receivers(self, connection: sql.Connection) -> frozenset[str]:
        """Return the registered receivers."""
        return frozenset(connection.scalars(sql.select(receiver_positions.c.receiver)))

    @writes(Locking.ROW_VERSIONS)
    def schedule(
        self, connection: sql.Connection, receiver: str, options: ReceiverSettings, now: datetime
    ) -> int:
        """Turn changes since the last time into deliveries; return the number of alerts read, 0 when none are left.

        The receiver's position is locked, so another worker goes on where this one stops.
        """
        own = receiver_positions.c.receiver == receiver
        position = connection.scalar(sql.select(receiver_positions.c.position).where(own).with_for_update())
        if position is None:
            return 0
        changed = changes_after(connection, position, BATCH)
        shown_again = _no_longer_suppressed(connection, receiver, options, now)
        ids = list(dict.fromkeys([*(change.alert_id for change in changed), *shown_again]))
        for batch in id_batches(ids):
            _schedule_alerts(connection, receiver, options, now, batch)
        if changed:
            connection.execute(sql.update(receiver_positions).where(own).values(position=changed[-1].number))
        return len(ids)

    @writes(Locking.ROW_VERSIONS)
    def claim(
        self,
        connection: sql.Connection,
        receiver: str,
        now: datetime,
        lease_until: datetime,
        limit: int,
        worker: str,
    ) -> list[Delivery]:
        """Lease due deliveries to a worker, the longest due first."""
        table = deliveries.c
        free = table.leased_until.is_(None) | (table.leased_until <= now)
        due = (table.receiver == receiver) & (table.state == "waiting") & (table.due_at <= now) & free
        query = sql.select(*_COLUMNS).where(due).order_by(table.due_at, table.created_at, table.key)
        claimed = _read_deliveries(connection, query.limit(limit).with_for_update(skip_locked=True))
        own = table.key.in_([delivery.key for delivery in claimed])
        if claimed:
            lease = {"leased_until": lease_until, "leased_by": worker}
            connection.execute(sql.update(deliveries).where(own).values(**lease))
        return claimed

    @writes(Locking.ROW_VERSIONS)
    def mark_sent(self, connection: sql.Connection, delivery: Delivery, now: datetime) -> None:
        """Record that a receiver has got a delivery."""
        _finish(connection, delivery, state="sent", reason="", done_at=now)

    @writes(Locking.ROW_VERSIONS)
    def mark_failed(self, connection: sql.Connection, delivery: Delivery, now: datetime, reason: str) -> None:
        """Record that a delivery failed and is not tried again."""
        _finish(connection, delivery, state="failed", reason=storable(reason), done_at=now)

    @writes(Locking.ROW_VERSIONS)
    def reschedule(
        self, connection: sql.Connection, delivery: Delivery, due_at: datetime, reason: str, worker: str
    ) -> None:
        """Try a delivery again at `due_at`, if the worker still has its lease."""
        row = {"due_at": due_at, "reason": storable(reason), "tries": deliveries.c.tries + 1}
        own = _is_waiting(delivery) & (deliveries.c.leased_by == worker)
        connection.execute(sql.update(deliveries).where(own).values(**row, **UNCLAIMED))

    @writes(Locking.ROW_VERSIONS)
    def release(self, connection: sql.Connection, held: Sequence[Delivery], worker: str) -> None:
        """End the worker's leases of these deliveries."""
        own = (deliveries.c.leased_by == worker) & deliveries.c.key.in_([each.key for each in held])
        if held:
            connection.execute(sql.update(deliveries).where(own).values(**UNCLAIMED))

    @writes(Locking.ROW_VERSIONS)
    def retry_failed(
        self, connection: sql.Connection, now: datetime, key: str = "", receiver: str = ""
    ) -> int:
        """Schedule failed deliveries again, one or all of a receiver; return their number."""
        which = _with_state("failed", receiver)
        which = which & (deliveries.c.key == key) if key else which
        row = {"state": "waiting", "tries": 0, "created_at": now, "due_at": now, "done_at": None}
        return int(connection.execute(sql.update(deliveries).where(which).values(**row)).rowcount)

    @reads
    def list_deliveries(
        self,
        connection: sql.Connection,
        receiver: str = "",
        state: DeliveryState | None = None,
        limit: int = 200,
    ) -> list[Delivery]:
        """Return deliveries, the newest first."""
        query = sql.select(*_COLUMNS).order_by(deliveries.c.created_at.desc(), deliveries.c.key).limit(limit)
        if state:
            query = query.where(_with_state(state, receiver))
        elif receiver:
            query = query.where(deliveries.c.receiver == receiver)
        return _read_deliveries(connection, query)

    @reads
    def counts_by_receiver(self, connection: sql.Connection) -> dict[str, DeliveryCounts]:
        """Return the numbers of waiting, sent and failed deliveries of each receiver."""
        table = deliveries.c
        query = sql.select(table.receiver, table.state, sql.func.count(), sql.func.min(table.created_at))
        found: dict[str, dict[str, tuple[int, datetime]]] = {}
        for receiver, state, count, oldest in connection.execute(query.group_by(table.receiver, table.state)):
            found.setdefault(receiver, {})[state] = (count, oldest)
        return {receiver: _to_delivery_counts(states) for receiver, states in found.items()}

    @reads
    def backlog(self, connection: sql.Connection, receiver: str) -> Backlog:
        """Return a receiver's waiting and failed deliveries."""
        table = deliveries.c
        query = sql.select(table.state, sql.func.count(), sql.func.min(table.created_at))
        own = (table.receiver == receiver) & table.state.in_(("waiting", "failed"))
        found = {
            state: (count, oldest)
            for state, count, oldest in connection.execute(query.where(own).group_by(table.state))
        }
        (waiting, oldest), (failed, _) = (found.get(state, (0, None)) for state in ("waiting", "failed"))
        return Backlog(waiting, failed, oldest)

    @reads
    def current_alert(
        self, connection: sql.Connection, delivery: Delivery
    ) -> tuple[Alert, Disposition | None] | None:
        """Return a delivery's alert in its current state, with the decision in force; None if it was deleted."""
        found = read_full_alerts(connection, [delivery.alert_id])
        return found[0] if found else None

    @writes(Locking.ROW_VERSIONS)
    def delete_sent(self, connection: sql.Connection, before: datetime) -> int:
        """Delete deliveries that were sent before a time; return their number."""
        # The condition on `created_at` follows from that on `done_at`; it is there because it has an index.
        old = (
            (deliveries.c.state == "sent")
            & (deliveries.c.done_at < before)
            & (deliveries.c.created_at < before)
        )
        return int(connection.execute(sql.delete(deliveries).where(old)).rowcount)


def _with_state(state: DeliveryState, receiver: str) -> sql.ColumnElement[bool]:
    """Return the condition of deliveries in a state, of one receiver or of all by name: the index begins with the receiver."""
    table, registered = deliveries.c, sql.select(receiver_positions.c.receiver)
    return (table.receiver == receiver if receiver else table.receiver.in_(registered)) & (
        table.state == state
    )


def _finish(connection: sql.Connection, delivery: Delivery, **row: Any) -> None:
    done = {**row, **UNCLAIMED, "tries": deliveries.c.tries + 1}
    connection.execute(sql.update(deliveries).where(_is_waiting(delivery)).values(**done))


def _is_waiting(delivery: Delivery) -> sql.ColumnElement[bool]:
    return (deliveries.c.key == delivery.key) & (deliveries.c.state == "waiting")


# --- from changes to deliveries -------------------------------------------------------------------------------------


def _take_as_delivered(
    connection: sql.Connection, receiver: str, options: ReceiverSettings, position: int
) -> None:
    """Record the alerts up to a position as known to a receiver, so that a note on one of them does not make it new.

    An alert below `min_urgency` is not recorded: it is new when it becomes urgent enough. An alert that changes while the
    receiver is being registered has a later number, and is left to `schedule`.
    """
    known = (
        sql.select(sql.literal(receiver), alerts.c.alert_id, alerts.c.event_count, _DECIDED_AT)
        .join_from(alerts, cases, cases.c.alert_id == alerts.c.alert_id, isouter=True)
        .join(alert_changes, alert_changes.c.alert_id == alerts.c.alert_id)
        .where(alert_changes.c.number <= position, alerts.c.urgency_shown >= options.min_urgency)
    )
    connection.execute(sql.insert(last_delivered).from_select([*last_delivered.c], known))


def _no_longer_suppressed(
    connection: sql.Connection, receiver: str, options: ReceiverSettings, now: datetime
) -> list[str]:
    """Return alerts that were withheld or grew while hidden, and are no longer hidden.

    They must be searched, because a suppression expires without a change. Only alerts that a suppression ever matched are read.
    """
    ever = sql.select(suppression_hits.c.alert_id)
    own = (last_delivered.c.receiver == receiver) & last_delivered.c.alert_id.in_(ever)
    unknown = alerts.c.event_count > last_delivered.c.events  # WITHHELD is less than any number of events
    urgent = (last_delivered.c.events != WITHHELD) | (alerts.c.urgency_shown >= options.min_urgency)
    query = sql.select(last_delivered.c.alert_id).join_from(
        last_delivered, alerts, alerts.c.alert_id == last_delivered.c.alert_id
    )
    query = query.where(own, unknown, urgent, ~is_hidden(now))
    return list(connection.scalars(query.limit(BATCH)))


def _schedule_alerts(
    connection: sql.Connection, receiver: str, options: ReceiverSettings, now: datetime, names: Sequence[str]
) -> None:
    before = _read_last_delivered(connection, receiver, names)
    new: list[Row] = []
    known: list[Row] = []
    for status in _read_alert_states(connection, names, now):
        last = before.get(status.alert_id)
        happened = changes_to_deliver(options, status, last)
        new += [_delivery_row(receiver, status, each, now) for each in happened]
        if last or status.urgency >= options.min_urgency:
            row = (
                knowledge_after(status, last)
                if last or not status.suppressed
                else ReceiverKnowledge(WITHHELD)
            )
            known.append({"receiver": receiver, "alert_id": status.alert_id, **row._asdict()})
    if new:
        connection.execute(insert_into(connection, deliveries).on_conflict_do_nothing(), new)
    if known:
        connection.execute(replace_into(connection, last_delivered), known)


def _delivery_row(receiver: str, status: AlertStatus, happened: Any, now: datetime) -> Row:
    key = idempotency_key(receiver, status, happened)
    made = Delivery(key, receiver, status.alert_id, happened, created_at=now, due_at=now)
    return {name: getattr(made, name) for name in _DELIVERY_FIELDS}


def _read_alert_states(
    connection: sql.Connection, names: Sequence[str], now: datetime
) -> Iterator[AlertStatus]:
    """Yield the state of these alerts, in the order of their first events."""
    query = (
        sql.select(
            alerts.c.alert_id,
            alerts.c.urgency_shown,
            alerts.c.event_count,
            is_hidden(now).label("suppressed"),
            _DECIDED_AT,
            cases.c.decision.is_not(None) & ~CLOSED,
            sql.func.coalesce(cases.c.version, 0),
        )
        .join_from(alerts, cases, cases.c.alert_id == alerts.c.alert_id, isouter=True)
        .where(alerts.c.alert_id.in_(names))
        .order_by(alerts.c.first_event_time, alerts.c.alert_id)
    )
    for alert_id, urgency, events, suppressed, decided_at, outgrown, version in connection.execute(query):
        yield AlertStatus(alert_id, urgency, events, bool(suppressed), decided_at, bool(outgrown), version)


def _read_last_delivered(
    connection: sql.Connection, receiver: str, names: Sequence[str]
) -> dict[str, ReceiverKnowledge]:
    """Return the state of alerts that the receiver was last notified of, without alerts that were withheld."""
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


def _read_deliveries(connection: sql.Connection, query: sql.Select[Any]) -> list[Delivery]:
    return [Delivery(**row) for row in connection.execute(query).mappings()]


def _to_delivery_counts(states: dict[str, tuple[int, datetime]]) -> DeliveryCounts:
    waiting, sent, failed = (states.get(name, (0, None)) for name in ("waiting", "sent", "failed"))
    return DeliveryCounts(waiting[0], sent[0], failed[0], oldest_waiting=waiting[1])
