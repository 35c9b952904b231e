"""Retention: remove old records, votes and alerts, and purge a principal.

Example:
    >>> store.retention.apply(Retention(record_days=30), by="maria", progress=print)
    records 1800
    {'records': 1800}

Each step finds old rows and removes them in short writing transactions, so that the stream never waits for long.

Age counts from when the store received a row, not from the time in a record: a record that was dated back would be removed before
an analyst could see it. Records are removed whatever the state of their alert. Alerts are removed when they are closed and no
remaining alert is their duplicate; every table that has an alert's id loses its rows too, so that a new table is not forgotten.

The daily run asks `paused_since` first. A store that received nothing for as long as it keeps rows is a demo, an archive or a
copy, and the first run would empty it before a person has looked at it. There the run waits until a person has asked for it once.
A store whose daily run has removed rows before is in use. Its run goes on even if its stream stops, so that the promise of its
settings about old records stays true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sql

from fingerprint.core.errors import NotFound
from fingerprint.core.sanitize import printable, storable
from fingerprint.core.settings import Retention
from fingerprint.store import incident_groups, prevalence
from fingerprint.store.audit import add_audit_entry, audit_digest, mark_changed
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.heartbeats import remove_silent
from fingerprint.store.query_conditions import CLOSED
from fingerprint.store.schema import (
    alert_events,
    alerts,
    audit_entries,
    cases,
    credential_issues,
    dispositions,
    id_batches,
    metadata,
    removed_records,
    replace_into,
    suppression_hits,
    suppressions,
    votes,
)

ALERT_BATCH = 200  # alerts of one transaction
VOTE_BATCH = 5_000  # votes of one transaction
ALERTS = "alerts"  # name of the step that removes alerts
ACTION, TARGET = "retention.apply", "database"  # of the audit entries

Keys = Sequence[Any]
Progress = Callable[[str, int], None]  # (kind, rows of it removed so far)


def ignore_progress(kind: str, done: int) -> None:
    """Ignore progress."""


class RetentionStep(NamedTuple):
    """The removal of one kind of old rows: a query for keys, and a function that removes a batch of them."""

    name: str
    batch: int
    find_expired: Callable[[sql.Connection], Keys]
    remove: Callable[[Keys, sql.Connection], int]


class SqlRetentionRepository(Repository):
    """Retention: removal of rows that are older than the settings keep them."""

    def apply(self, retention: Retention, by: str, progress: Progress = ignore_progress) -> dict[str, int]:
        """Remove rows that are older than the settings keep them, and return the numbers of rows by kind.

        Silent programs are removed as well, but not counted. The audit records the removals even if the run is interrupted.
        """
        now, removed = self._session.now(), Counter[str]()
        self._session.write(lambda connection: remove_silent(connection, now))
        try:
            for step in _retention_steps(retention, now):
                for done in self._remove_in_batches(step):
                    removed[step.name] += done
                    progress(step.name, removed[step.name])
                if step.name == ALERTS and removed[ALERTS]:
                    self._session.write(_forget_deleted_words)
        finally:
            if removed:
                detail = {"removed": dict(removed), "days": retention.model_dump()}
                entry = partial(add_audit_entry, action=ACTION, target=TARGET, detail=detail)
                self._session.write(lambda connection: entry(connection, now, by))
        return dict(removed)

    @reads
    def paused_since(self, connection: sql.Connection, retention: Retention) -> datetime | None:
        """Return when the store last received a row if removal waits until a person asks for it; else None.

        It waits if nothing was ever removed and all rows are older than the shortest period, since removal would leave nothing.
        """
        periods = [days for days in retention.model_dump().values() if days]
        if not periods or _was_applied(connection):
            return None
        newest = _newest_row(connection)
        before = self._session.now() - timedelta(days=min(periods))
        return newest if newest is not None and newest < before else None

    @writes(Locking.SERIALIZED)
    def purge_principal(self, connection: sql.Connection, principal: str, by: str) -> dict[str, int]:
        """Remove all rows of a principal, and return the numbers of rows by table. Raise NotFound if there are none."""
        name, now = storable(principal), self._session.now()
        own = sql.select(alerts.c.alert_id).where(alerts.c.principal == name)
        removed, changed = delete_alerts(connection, connection.scalars(own).all())
        removed += _delete_principal_rows(connection, name) + _delete_principal_suppressions(connection, name)
        counts = {table: rows for table, rows in sorted(removed.items()) if rows}
        if not counts:
            raise NotFound(f"the database has nothing of the principal {printable(name[:200])!r}")
        _forget_deleted_words(connection)
        detail = {"removed": counts}
        add_audit_entry(connection, now, by, "retention.purge", audit_digest(name), detail)
        mark_changed(connection, changed)
        return counts

    def _remove_in_batches(self, step: RetentionStep) -> Iterator[int]:
        """Yield the number of rows that each transaction removed, until nothing is left to remove."""
        while keys := self._session.read(step.find_expired):
            done = 0
            for batch in id_batches(keys, step.batch):
                removed = self._session.write(partial(step.remove, batch))
                done += removed
                yield removed
            if not done:  # all rows of these keys are needed again
                return


def _forget_deleted_words(connection: sql.Connection) -> None:
    """Rewrite SQLite's full text index, which keeps the words of deleted alerts until it merges its parts."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("INSERT INTO alert_words (alert_words) VALUES ('optimize')")


def _was_applied(connection: sql.Connection) -> bool:
    own = (audit_entries.c.target == TARGET) & (audit_entries.c.action == ACTION)
    return connection.scalar(sql.select(sql.literal(1)).where(own).limit(1)) is not None


def _newest_row(connection: sql.Connection) -> datetime | None:
    """Return when the newest row was stored; None in an empty store."""
    columns = (each.c.stored_at for each in (votes, credential_issues, alert_events))
    newest = [connection.scalar(sql.select(sql.func.max(column))) for column in columns]
    return max((each for each in newest if each is not None), default=None)


def _retention_steps(retention: Retention, now: datetime) -> Iterator[RetentionStep]:
    """Yield the steps that the settings ask for; a period of 0 days keeps rows for ever."""
    if retention.record_days:
        before = now - timedelta(days=retention.record_days)
        yield RetentionStep("records", ALERT_BATCH, _find_old_records(before), _remove_records(before, now))
    if retention.vote_days:
        before = now - timedelta(days=retention.vote_days)
        yield RetentionStep("votes", VOTE_BATCH, _find_old_votes(before), _remove_votes)
        yield RetentionStep(
            "credential_issues", VOTE_BATCH, _find_old_credential_issues(before), _remove_credential_issues
        )
    if retention.closed_alert_days:
        before = now - timedelta(days=retention.closed_alert_days)
        yield RetentionStep(ALERTS, ALERT_BATCH, _find_closed_alerts(before), _remove_closed_alerts(before))


# --- by age ----------------------------------------------------------------------------------------------------------


def _find_old_records(before: datetime) -> Callable[[sql.Connection], Keys]:
    own = (alert_events.c.alert_id == alerts.c.alert_id) & _is_old_record(before)
    query = sql.select(alerts.c.alert_id).where(sql.exists().where(own))
    return lambda connection: connection.scalars(query.order_by(alerts.c.alert_id)).all()


def _is_old_record(before: datetime) -> sql.ColumnElement[bool]:
    return (alert_events.c.stored_at < before) & (alert_events.c.raw != "")


def _remove_records(before: datetime, now: datetime) -> Callable[[Keys, sql.Connection], int]:
    def remove(keys: Keys, connection: sql.Connection) -> int:
        old = sql.update(alert_events).where(alert_events.c.alert_id.in_(keys), _is_old_record(before))
        count = connection.execute(old.values(raw="")).rowcount
        removed = [{"alert_id": key, "at": now} for key in keys]
        connection.execute(replace_into(connection, removed_records), removed)
        return count

    return remove


def _find_old_votes(before: datetime) -> Callable[[sql.Connection], Keys]:
    key = (votes.c.event_id, votes.c.detector)
    query = sql.select(*key).where(votes.c.stored_at < before).order_by(votes.c.stored_at).limit(VOTE_BATCH)
    return lambda connection: [tuple(row) for row in connection.execute(query)]


def _remove_votes(keys: Keys, connection: sql.Connection) -> int:
    one = (votes.c.event_id == sql.bindparam("event")) & (votes.c.detector == sql.bindparam("by"))
    connection.execute(sql.delete(votes).where(one), [{"event": event, "by": by} for event, by in keys])
    return len(keys)


def _find_old_credential_issues(before: datetime) -> Callable[[sql.Connection], Keys]:
    old = sql.select(credential_issues.c.issued_key).where(credential_issues.c.stored_at < before)
    query = old.order_by(credential_issues.c.stored_at).limit(VOTE_BATCH)
    return lambda connection: connection.scalars(query).all()


def _remove_credential_issues(keys: Keys, connection: sql.Connection) -> int:
    one = sql.delete(credential_issues).where(credential_issues.c.issued_key == sql.bindparam("key"))
    connection.execute(one, [{"key": key} for key in keys])
    return len(keys)


def _find_closed_alerts(before: datetime) -> Callable[[sql.Connection], Keys]:
    query = _select_removable_alerts(before)
    return lambda connection: connection.scalars(query).all()


def _select_removable_alerts(before: datetime) -> sql.Select[Any]:
    """Return a query of alerts that are old, closed, and not the original of a remaining duplicate."""
    copies = dispositions.alias("copies")
    recent = (alert_events.c.alert_id == alerts.c.alert_id) & (alert_events.c.stored_at >= before)
    copied = (copies.c.duplicate_of == alerts.c.alert_id) & (copies.c.alert_id != alerts.c.alert_id)
    return (
        sql.select(alerts.c.alert_id)
        .join_from(alerts, cases, cases.c.alert_id == alerts.c.alert_id)
        .where(
            ~sql.exists().where(recent),
            CLOSED,
            ~sql.exists().where(copied),
        )
        .order_by(alerts.c.alert_id)
    )


def _remove_closed_alerts(before: datetime) -> Callable[[Keys, sql.Connection], int]:
    def remove(keys: Keys, connection: sql.Connection) -> int:
        still_removable = (
            _select_removable_alerts(before).where(alerts.c.alert_id.in_(keys)).with_for_update()
        )
        ids = connection.scalars(still_removable).all()
        _, changed = delete_alerts(connection, ids)
        mark_changed(connection, changed)
        return len(ids)

    return remove


def delete_alerts(connection: sql.Connection, alert_ids: Sequence[str]) -> tuple[Counter[str], list[str]]:
    """Delete alerts from all tables; return the numbers of rows by table, and the other alerts whose figures changed."""
    changed = prevalence.delete_prevalence(connection, alert_ids)
    touched = incident_groups.incidents_of(connection, alert_ids)
    removed: Counter[str] = Counter()
    for table in (table for table in metadata.sorted_tables if "alert_id" in table.c):
        for batch in id_batches(alert_ids):
            statement = sql.delete(table).where(table.c.alert_id.in_(batch))
            removed[table.name] += connection.execute(statement).rowcount
    regrouped = incident_groups.regroup(connection, incident_groups.members_of(connection, touched))
    reordered = incident_groups.incidents_of(connection, changed)
    incident_groups.refresh_incidents(connection, touched | regrouped.incidents | reordered)
    gone = set(alert_ids)
    return removed, [each for each in (*changed, *sorted(regrouped.moved)) if each not in gone]


# --- one principal ---------------------------------------------------------------------------------------------------


def _delete_principal_rows(connection: sql.Connection, name: str) -> Counter[str]:
    own = [table for table in metadata.sorted_tables if "principal" in table.c]
    rows = {
        table.name: connection.execute(sql.delete(table).where(table.c.principal == name)) for table in own
    }
    return Counter({table: result.rowcount for table, result in rows.items()})


def _delete_principal_suppressions(connection: sql.Connection, name: str) -> Counter[str]:
    """Delete suppressions that match this principal by name."""
    rows = connection.execute(sql.select(suppressions.c.suppression_id, suppressions.c.match)).all()
    ids = [suppression_id for suppression_id, match in rows if match["principal"] == name]
    for table in (suppression_hits, suppressions):
        connection.execute(sql.delete(table).where(table.c.suppression_id.in_(ids)))
    return Counter({suppressions.name: len(ids)})
