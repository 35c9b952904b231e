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
from fingerprint.core.settings import Deliver
from fingerprint.delivery.outbox import Waiting
from fingerprint.delivery.policy import Delivery, Stand, State, Told, heard, key_of, news_for
from fingerprint.store import change_feed
from fingerprint.store import database as desk_engine
from fingerprint.store.alert_export import whole
from fingerprint.store.alerts import SqlDesk
from fingerprint.store.outbox_tables import deliveries, receivers, told
from fingerprint.store.queue_tables import cases
from fingerprint.store.schema import Row, alerts, insert_of
from fingerprint.store.suppression_tables import suppression_hits
from fingerprint.store.suppressions import hidden

BATCH = 500  # changes of one transaction, about
IDS = 500  # of one IN (...)
EVERYTHING = -1  # a position before all changes
HELD_BACK = -1  # events heard of an alert that was not told because a suppression hid it

_DELIVERY = tuple(Delivery.__slots__)
_COLUMNS = tuple(deliveries.c[name] for name in _DELIVERY)

T = TypeVar("T")


def outbox_of(desk: SqlDesk) -> SqlOutbox:
    """The outbox of a desk that is open."""
    return SqlOutbox(desk.engine)


class SqlOutbox:
    """An Outbox over SQLAlchemy."""

    def __init__(self, engine: sql.Engine) -> None:
        self._engine = engine

    def enrol(self, receiver: str, backlog: bool) -> None:
        def put(connection: sql.Connection) -> None:
            position = EVERYTHING if backlog else change_feed.newest(connection)
            row = insert_of(connection, receivers).values(receiver=receiver, position=position)
            connection.execute(row.on_conflict_do_nothing())

        self._write(put)

    def plan(self, receiver: str, wants: Deliver, now: datetime) -> int:
        return self._write(partial(_plan, receiver=receiver, wants=wants, now=now))

    def take(self, receiver: str, now: datetime, held_until: datetime, most: int, by: str) -> list[Delivery]:
        return self._write(partial(_take, receiver=receiver, now=now, until=held_until, most=most, by=by))

    def sent(self, delivery: Delivery, now: datetime) -> None:
        self._end(delivery, state="sent", reason="", done_at=now)

    def failed(self, delivery: Delivery, now: datetime, reason: str) -> None:
        self._end(delivery, state="failed", reason=storable(reason), done_at=now)

    def again(self, delivery: Delivery, due_at: datetime, reason: str, by: str) -> None:
        row = {"due_at": due_at, "reason": storable(reason), "tries": deliveries.c.tries + 1}
        ours = _waiting(delivery) & (deliveries.c.held_by == by)
        self._write(
            lambda connection: connection.execute(sql.update(deliveries).where(ours).values(**row, **FREE))
        )

    def let_go(self, held: Sequence[Delivery], by: str) -> None:
        ours = (deliveries.c.held_by == by) & deliveries.c.key.in_([each.key for each in held])
        if held:
            self._write(
                lambda connection: connection.execute(sql.update(deliveries).where(ours).values(**FREE))
            )

    def revive(self, now: datetime, key: str = "", receiver: str = "") -> int:
        which = deliveries.c.state == "failed"
        for column, value in ((deliveries.c.key, key), (deliveries.c.receiver, receiver)):
            which = which & (column == value) if value else which
        row = {"state": "waiting", "tries": 0, "created_at": now, "due_at": now, "done_at": None}
        statement = sql.update(deliveries).where(which).values(**row)
        return self._write(lambda connection: int(connection.execute(statement).rowcount))

    def deliveries(self, receiver: str = "", state: State | None = None, limit: int = 200) -> list[Delivery]:
        query = sql.select(*_COLUMNS).order_by(deliveries.c.created_at.desc(), deliveries.c.key).limit(limit)
        query = query.where(deliveries.c.receiver == receiver) if receiver else query
        query = query.where(deliveries.c.state == state) if state else query
        return self._read(lambda connection: _all(connection, query))

    def counts(self) -> dict[str, Waiting]:
        return self._read(_counts)

    def alert(self, delivery: Delivery) -> tuple[Alert, Disposition | None] | None:
        found = self._read(lambda connection: whole(connection, [delivery.alert_id], raw=False))
        return found[0] if found else None

    def forget(self, before: datetime) -> int:
        old = (deliveries.c.state == "sent") & (deliveries.c.done_at < before)
        return self._write(
            lambda connection: int(connection.execute(sql.delete(deliveries).where(old)).rowcount)
        )

    def _end(self, delivery: Delivery, **row: Any) -> None:
        statement = sql.update(deliveries).where(_waiting(delivery))
        self._write(
            lambda connection: connection.execute(
                statement.values(**row, **FREE, tries=deliveries.c.tries + 1)
            )
        )

    def _write(self, work: Callable[[sql.Connection], T]) -> T:
        with desk_engine.plainly(self._engine.url):
            return desk_engine.written(self._engine, work, desk_engine.ROWS)

    def _read(self, work: Callable[[sql.Connection], T]) -> T:
        with (
            desk_engine.plainly(self._engine.url),
            self._engine.connect() as connection,
            connection.begin(),
        ):
            return work(connection)


FREE: Row = {"held_until": None, "held_by": ""}


def _waiting(delivery: Delivery) -> sql.ColumnElement[bool]:
    return (deliveries.c.key == delivery.key) & (deliveries.c.state == "waiting")


# --- from changes to deliveries -------------------------------------------------------------------------------------


def _plan(connection: sql.Connection, receiver: str, wants: Deliver, now: datetime) -> int:
    """Whoever plans for a receiver locks its row: the next one sees how far this one came."""
    mine = sql.select(receivers.c.position).where(receivers.c.receiver == receiver).with_for_update()
    position = connection.scalar(mine)
    if position is None:
        return 0
    changed = change_feed.since(connection, position, BATCH)
    seen_again = _seen_again(connection, receiver, wants, now)
    names = list(dict.fromkeys([*(each.alert_id for each in changed), *seen_again]))
    for start in range(0, len(names), IDS):
        _put(connection, receiver, wants, now, names[start : start + IDS])
    if changed:
        row = sql.update(receivers).where(receivers.c.receiver == receiver)
        connection.execute(row.values(position=changed[-1].number))
    return len(names)


def _seen_again(connection: sql.Connection, receiver: str, wants: Deliver, now: datetime) -> list[str]:
    """Alerts that were held back and are hidden no more: a suppression expires by itself, and nothing changes with it. Asked of
    those that one ever hid, so that not all that was told is read."""
    ever = sql.select(suppression_hits.c.alert_id)
    held = (told.c.receiver == receiver) & (told.c.events == HELD_BACK) & told.c.alert_id.in_(ever)
    query = sql.select(told.c.alert_id).join_from(told, alerts, alerts.c.alert_id == told.c.alert_id)
    query = query.where(held, alerts.c.urgency_shown >= wants.least_urgency, ~hidden(now))
    return list(connection.scalars(query.limit(BATCH)))


def _put(
    connection: sql.Connection, receiver: str, wants: Deliver, now: datetime, names: Sequence[str]
) -> None:
    before = _told(connection, receiver, names)
    new: list[Row] = []
    known: list[Row] = []
    for stand in _stands(connection, names, now):
        last = before.get(stand.alert_id)
        happened = news_for(wants, stand, last)
        new += [_row(receiver, stand, each, now) for each in happened]
        if last or stand.urgency >= wants.least_urgency:
            row = heard(stand, last) if last or not stand.suppressed else Told(HELD_BACK)
            known.append({"receiver": receiver, "alert_id": stand.alert_id, **row._asdict()})
    if new:
        connection.execute(insert_of(connection, deliveries).on_conflict_do_nothing(), new)
    if known:
        put = insert_of(connection, told)
        keys, values = ["receiver", "alert_id"], ("events", "decided_at")
        overwrite = {name: put.excluded[name] for name in values}
        connection.execute(put.on_conflict_do_update(index_elements=keys, set_=overwrite), known)


def _row(receiver: str, stand: Stand, happened: Any, now: datetime) -> Row:
    key = key_of(receiver, stand, happened)
    made = Delivery(key, receiver, stand.alert_id, happened, created_at=now, due_at=now)
    return {name: getattr(made, name) for name in _DELIVERY}


def _stands(connection: sql.Connection, names: Sequence[str], now: datetime) -> Iterator[Stand]:
    """How these alerts are now, in the order in which they happened."""
    over_all = (cases.c.decision.is_not(None)) & (cases.c.decided_events >= alerts.c.event_count)
    query = (
        sql.select(
            alerts.c.alert_id,
            alerts.c.urgency_shown,
            alerts.c.event_count,
            hidden(now).label("suppressed"),
            sql.case((over_all, cases.c.decided_at)).label("decided_at"),
        )
        .join_from(alerts, cases, cases.c.alert_id == alerts.c.alert_id, isouter=True)
        .where(alerts.c.alert_id.in_(names))
        .order_by(alerts.c.first_event_time, alerts.c.alert_id)
    )
    for row in connection.execute(query):
        yield Stand(row[0], row[1], row[2], bool(row[3]), row[4])


def _told(connection: sql.Connection, receiver: str, names: Sequence[str]) -> dict[str, Told]:
    """What it has heard; of what was held back nothing."""
    those = (told.c.receiver == receiver) & told.c.alert_id.in_(names) & (told.c.events != HELD_BACK)
    query = sql.select(told).where(those)
    return {
        row["alert_id"]: Told(row["events"], row["decided_at"])
        for row in connection.execute(query).mappings()
    }


# --- from deliveries to receivers -----------------------------------------------------------------------------------


def _take(
    connection: sql.Connection, receiver: str, now: datetime, until: datetime, most: int, by: str
) -> list[Delivery]:
    table = deliveries.c
    free = table.held_until.is_(None) | (table.held_until <= now)
    due = (table.receiver == receiver) & (table.state == "waiting") & (table.due_at <= now) & free
    query = sql.select(*_COLUMNS).where(due).order_by(table.due_at, table.created_at, table.key).limit(most)
    taken = _all(connection, query.with_for_update(skip_locked=True))
    ours = table.key.in_([each.key for each in taken])
    if taken:
        connection.execute(sql.update(deliveries).where(ours).values(held_until=until, held_by=by))
    return taken


def _all(connection: sql.Connection, query: sql.Select[Any]) -> list[Delivery]:
    return [Delivery(**row) for row in connection.execute(query).mappings()]


def _counts(connection: sql.Connection) -> dict[str, Waiting]:
    table = deliveries.c
    query = sql.select(table.receiver, table.state, sql.func.count(), sql.func.min(table.created_at))
    found: dict[str, dict[str, tuple[int, datetime]]] = {}
    for receiver, state, count, oldest in connection.execute(query.group_by(table.receiver, table.state)):
        found.setdefault(receiver, {})[state] = (count, oldest)
    return {receiver: _standing(states) for receiver, states in found.items()}


def _standing(states: dict[str, tuple[int, datetime]]) -> Waiting:
    waiting, sent, failed = (states.get(name, (0, None)) for name in ("waiting", "sent", "failed"))
    return Waiting(waiting[0], sent[0], failed[0], oldest=waiting[1])
