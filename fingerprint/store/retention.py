"""What a desk no longer keeps: records, votes and alerts that are old enough, and all that is of one principal.

Example:
    >>> prune(read, write, Retention(raw_days=30), "maria", now, progress=print)
    records 1800
    {'records': 1800}

A step asks as a reader what is old, and removes it in short turns of a writer, so that the stream never waits for long.

Everything goes by when the desk stored it, not by the time that a record gives of itself: what was dated back would be gone
before anybody had looked. Records go whatever became of their alert. Alerts go when they are closed and none of those that are
left is a duplicate of theirs; all tables that name an alert go with it (`of_alerts`), so that a table added later is not
forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sql

from fingerprint.core.alert import NotFound
from fingerprint.core.sanitize import printable, storable
from fingerprint.core.settings import Retention
from fingerprint.store import audit, change_feed, prevalence
from fingerprint.store.credential_chains import credential_issues
from fingerprint.store.queue_tables import cases
from fingerprint.store.schema import alert_events, alerts, dispositions, insert_into, metadata, votes
from fingerprint.store.suppression_tables import removed_records, suppression_hits, suppressions
from fingerprint.store.suppressions import principal_digest

ALERT_BATCH = 200  # alerts of one turn
VOTE_BATCH = 5_000  # of one turn
MAX_IDS_PER_QUERY = 500  # of one IN (...)

Keys = Sequence[Any]
Work = Callable[[sql.Connection], Any]
ReadTransaction = Callable[[Work], Any]  # in a reader's transaction
WriteTransaction = Callable[[Work], Any]  # in a writer's turn
Progress = Callable[[str, int], None]  # a kind, and how much of it was removed so far


class RetentionStep(NamedTuple):
    """One kind of what is old: whose turn it is, in reads and short writes."""

    name: str
    before: datetime
    batch: int
    find_expired: Callable[[sql.Connection], Keys]
    remove: Callable[[Keys, sql.Connection], int]


def retention_steps(retention: Retention, now: datetime) -> Iterator[RetentionStep]:
    """What there is to do; nothing for what is kept for ever."""
    if retention.record_days:
        before = now - timedelta(days=retention.record_days)
        yield RetentionStep(
            "records", before, ALERT_BATCH, _find_old_records(before), _remove_records(before, now)
        )
    if retention.vote_days:
        before = now - timedelta(days=retention.vote_days)
        yield RetentionStep("votes", before, VOTE_BATCH, _find_old_votes(before), _remove_votes)
        yield RetentionStep(
            "hops", before, VOTE_BATCH, _find_old_credential_issues(before), _remove_credential_issues
        )
    if retention.closed_alert_days:
        before = now - timedelta(days=retention.closed_alert_days)
        yield RetentionStep(
            "alerts", before, ALERT_BATCH, _find_closed_alerts(before), _remove_closed_alerts(before)
        )


def remove_expired(
    read: ReadTransaction,
    write: WriteTransaction,
    retention: Retention,
    by: str,
    now: datetime,
    progress: Progress,
) -> dict[str, int]:
    """Remove what is old, turn by turn; how much that was, by kind. What was removed is said in the audit, also of a run that
    was stopped."""
    removed: Counter[str] = Counter()
    try:
        for step in retention_steps(retention, now):
            for done in _remove_in_batches(read, write, step):
                removed[step.name] += done
                progress(step.name, removed[step.name])
    finally:
        if removed:
            detail = {"removed": dict(removed), "days": retention.model_dump()}
            write(lambda connection: audit.add_audit_entry(connection, now, by, "desk.prune", "desk", detail))
    return dict(removed)


def _remove_in_batches(read: ReadTransaction, write: WriteTransaction, step: RetentionStep) -> Iterator[int]:
    """How much each turn removed, until nothing is left that may go."""
    while keys := read(step.find_expired):
        parts = [keys[start : start + step.batch] for start in range(0, len(keys), step.batch)]
        done = 0
        for part in parts:
            removed = write(partial(step.remove, part))
            done += removed
            yield removed
        if not done:  # somebody needs them again
            return


def records_removed_at(connection: sql.Connection, alert_id: str) -> datetime | None:
    """When raw records of an alert were removed; None while all are there."""
    found: datetime | None = connection.scalar(
        sql.select(removed_records.c.at).where(removed_records.c.alert_id == storable(alert_id))
    )
    return found


# --- by age ---------------------------------------------------------------------------------------------------------


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
        statement = insert_into(connection, removed_records)
        again = statement.on_conflict_do_update(
            index_elements=["alert_id"], set_={"at": statement.excluded.at}
        )
        connection.execute(again, [{"alert_id": key, "at": now} for key in keys])
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
    """Alerts that are over, closed, and not the original of a duplicate that is still there."""
    copies = dispositions.alias("copies")
    young = (alert_events.c.alert_id == alerts.c.alert_id) & (alert_events.c.stored_at >= before)
    copied = (copies.c.duplicate_of == alerts.c.alert_id) & (copies.c.alert_id != alerts.c.alert_id)
    return (
        sql.select(alerts.c.alert_id)
        .join_from(alerts, cases, cases.c.alert_id == alerts.c.alert_id)
        .where(
            ~sql.exists().where(young),
            cases.c.decision.is_not(None),
            cases.c.decided_events >= alerts.c.event_count,
            ~sql.exists().where(copied),
        )
        .order_by(alerts.c.alert_id)
    )


def _remove_closed_alerts(before: datetime) -> Callable[[Keys, sql.Connection], int]:
    def remove(keys: Keys, connection: sql.Connection) -> int:
        """Only those that nobody opened again meanwhile."""
        still = _select_removable_alerts(before).where(alerts.c.alert_id.in_(keys)).with_for_update()
        ids = connection.scalars(still).all()
        _, changed = delete_alerts(connection, ids)
        change_feed.mark_changed(connection, changed)
        return len(ids)

    return remove


def delete_alerts(connection: sql.Connection, alert_ids: Sequence[str]) -> tuple[Counter[str], list[str]]:
    """Remove alerts with all that names them: how many rows that were, by table, and whose figures changed because of it."""
    changed = prevalence.delete_prevalence(connection, alert_ids)
    removed: Counter[str] = Counter()
    for table in (table for table in metadata.sorted_tables if "alert_id" in table.c):
        for start in range(0, len(alert_ids), MAX_IDS_PER_QUERY):
            part = table.c.alert_id.in_(alert_ids[start : start + MAX_IDS_PER_QUERY])
            removed[table.name] += connection.execute(sql.delete(table).where(part)).rowcount
    return removed, [each for each in changed if each not in set(alert_ids)]


# --- one principal --------------------------------------------------------------------------------------------------


def purge_principal_rows(
    connection: sql.Connection, principal: str, by: str, now: datetime
) -> dict[str, int]:
    """Remove all that is of a principal; how many rows that were, by table. NotThere where nothing is."""
    name = storable(principal)
    own = sql.select(alerts.c.alert_id).where(alerts.c.principal == name)
    removed, changed = delete_alerts(connection, connection.scalars(own).all())
    removed += _delete_principal_rows(connection, name) + _delete_principal_suppressions(connection, name)
    gone = {table: rows for table, rows in sorted(removed.items()) if rows}
    if not gone:
        raise NotFound(f"nothing on the desk is of the principal {printable(name[:200])!r}")
    audit.add_audit_entry(connection, now, by, "desk.purge", principal_digest(name), {"removed": gone})
    change_feed.mark_changed(connection, changed)
    return gone


def _delete_principal_rows(connection: sql.Connection, name: str) -> Counter[str]:
    tables = [table for table in metadata.sorted_tables if "principal" in table.c]
    rows = {
        table.name: connection.execute(sql.delete(table).where(table.c.principal == name)) for table in tables
    }
    return Counter({table: result.rowcount for table, result in rows.items()})


def _delete_principal_suppressions(connection: sql.Connection, name: str) -> Counter[str]:
    """Those that ask for this principal by name."""
    there = connection.execute(sql.select(suppressions.c.suppression_id, suppressions.c.match)).all()
    ids = [suppression_id for suppression_id, match in there if match["principal"] == name]
    for table in (suppression_hits, suppressions):
        connection.execute(sql.delete(table).where(table.c.suppression_id.in_(ids)))
    return Counter({suppressions.name: len(ids)})
