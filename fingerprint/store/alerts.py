"""Alerts, their evidence and the credentials issued to their callers, which the pipeline writes.

Example:
    >>> store = open_store("sqlite:///fingerprint.sqlite")
    >>> store.alerts.save([alert], votes)                        # saved again, nothing changes
    >>> [(alert.urgency, alert.title) for alert in store.alerts.by_urgency(limit=3)]

One save is one transaction. All values are bound as parameters; NULs and lone surrogates in them become U+FFFD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sql

from fingerprint.core.address import NO_ADDRESS_TABLES, AddressTables
from fingerprint.core.alert import Alert, AlertSpan, CredentialIssue
from fingerprint.core.ports.store import VoteTable
from fingerprint.core.redaction import Redactor
from fingerprint.core.related_events import trace_credentials
from fingerprint.core.sanitize import index_key, storable
from fingerprint.store import evidence, filter_values, incident_groups, prevalence, suppression_hits
from fingerprint.store.audit import mark_changed
from fingerprint.store.database import Repository, Session, reads
from fingerprint.store.rows import NO_REDACTION, alert_row, event_rows, to_alert
from fingerprint.store.schema import (
    ALERT_ORDER,
    STORED_AT,
    Row,
    alert_events,
    alerts,
    credential_issues,
    execute_batches,
    id_batches,
    insert_into,
    votes,
)

VISIBLE_COLUMNS = (  # of a row of the queue
    "event_count",
    "urgency",
    "rarity",
    "impact",
    "gravest_action",
    "title",
    "human",
    "level",
    "tactics",
    "last_event_time",
    "degraded",
)
CREDENTIAL_ISSUE_COLUMNS = tuple(
    column.name for column in credential_issues.columns if column.name != STORED_AT
)
_IMPACT_COLUMNS = ("impact", "impact_of", "gravest_action")
_MERGED_COLUMNS = {  # columns of a stored alert that a save compares or keeps; it overwrites the others, which are long
    *VISIBLE_COLUMNS,
    *_IMPACT_COLUMNS,
    "alert_id",
    "first_event_time",
    "urgency_shown",
    "sharing",
}


class SqlAlertRepository(Repository):
    """Alerts and their evidence.

    When an alert's evidence grows, the newest save provides all values derived from it. If that save has fewer events than the
    stored evidence, the first and last time cover both; urgency, rarity and impact do not fall; supporting events and tactics do
    not get fewer; and `degraded` stays set.
    """

    def __init__(
        self,
        session: Session,
        redaction: Redactor = NO_REDACTION,
        addresses: AddressTables = NO_ADDRESS_TABLES,
    ) -> None:
        super().__init__(session)
        self._redaction, self._addresses = redaction, addresses

    def save(
        self,
        alerts: Sequence[Alert] = (),
        votes: VoteTable = (),
        credential_issues: Sequence[CredentialIssue] = (),
    ) -> None:
        """Save everything or nothing. Votes without an opinion (z is NaN) are left out; a repeated save changes nothing."""
        now = self._session.now()
        stored = {STORED_AT: now}
        rows = [alert_row(alert) | stored for alert in alerts]
        events = [row | stored for alert in alerts for row in event_rows(alert, self._redaction)]
        single = [row | stored for row in _vote_rows(votes)]
        issues = [_issue_row(issue) | stored for issue in credential_issues]
        self._session.write(
            lambda connection: _save_rows(connection, rows, events, single, issues, now, self._addresses)
        )

    @reads
    def by_urgency(
        self, connection: sql.Connection, limit: int | None = None, raw: bool = True
    ) -> list[Alert]:
        """Return alerts with their events, the most urgent first; then the oldest, then by id."""
        return _read_alerts(connection, sql.select(alerts).order_by(*ALERT_ORDER).limit(limit), raw)

    @reads
    def get(self, connection: sql.Connection, id_or_prefix: str) -> Alert:
        """Return one alert by its id or the first characters of it. Raise FingerprintError if not exactly one matches."""
        alert_id = evidence.resolve_alert_id(connection, id_or_prefix)
        return _read_alerts(connection, sql.select(alerts).where(alerts.c.alert_id == alert_id))[0]

    @reads
    def ids_since(self, connection: sql.Connection, since: datetime) -> list[str]:
        """Return the ids of alerts with an event at `since` or later."""
        query = sql.select(alerts.c.alert_id).where(alerts.c.last_event_time >= since)
        return list(connection.scalars(query.order_by(alerts.c.alert_id)))

    @reads
    def spans_since(self, connection: sql.Connection, since: datetime) -> list[AlertSpan]:
        """Return principal, first and last event time of the alerts with an event at `since` or later."""
        columns = (alerts.c.principal, alerts.c.first_event_time, alerts.c.last_event_time)
        query = sql.select(*columns).where(alerts.c.last_event_time >= since)
        return [AlertSpan(*row) for row in connection.execute(query.order_by(*columns))]

    @reads
    def credential_chain(self, connection: sql.Connection, access_key: str) -> list[CredentialIssue]:
        """Return the call that issued an access key, then the call that issued that caller's key, and so on."""
        return list(trace_credentials(access_key, lambda key: _find_issue(connection, key)))


def upsert_statement(insert: Any, keep_if_empty: Sequence[str] = ()) -> sql.Insert:
    """Return an INSERT (`insert_into`) that overwrites the row of the same key.

    Empty text does not overwrite the columns `keep_if_empty`, and the first `stored_at` is kept.
    """
    table: sql.Table = insert.table
    keys = [column.name for column in table.primary_key]
    new: Row = {
        column.name: insert.excluded[column.name] for column in table.columns if column.name not in keys
    }
    if STORED_AT in new:
        new[STORED_AT] = sql.func.coalesce(table.c[STORED_AT], new[STORED_AT])
    for name in keep_if_empty:
        new[name] = sql.func.coalesce(sql.func.nullif(new[name], ""), table.c[name])
    upsert: sql.Insert = (
        insert.on_conflict_do_update(index_elements=keys, set_=new)
        if new
        else insert.on_conflict_do_nothing()
    )
    return upsert


# --- saving -----------------------------------------------------------------------------------------------------------


def _save_rows(
    connection: sql.Connection,
    rows: Sequence[Row],
    events: Sequence[Row],
    single: Sequence[Row],
    issues: Sequence[Row],
    now: datetime,
    addresses: AddressTables,
) -> None:
    known = _existing_alerts(connection, [row["alert_id"] for row in rows])
    _upsert(connection, alert_events, events, keep_if_empty=("raw",))
    new = _merge_evidence(connection, rows, events, known)
    _upsert(connection, alerts, new)
    filter_values.update_filter_values(connection, new, events, addresses)
    _upsert(connection, votes, single)
    execute_batches(connection, _insert_issue(insert_into(connection, credential_issues)), issues)
    ids = [row["alert_id"] for row in new]
    suppression_hits.update_suppression_hits(connection, ids, now)
    shared = prevalence.update_prevalence(connection, ids)
    regrouped = incident_groups.update_incidents(connection, new, events, issues, known)
    grown = incident_groups.incidents_of(connection, {*ids, *shared})
    incident_groups.refresh_incidents(connection, regrouped.incidents | grown)
    changed = [row["alert_id"] for row in new if _is_visible_change(row, known)]
    mark_changed(connection, [*changed, *shared, *regrouped.moved])


def _upsert(
    connection: sql.Connection, table: sql.Table, rows: Iterable[Row], keep_if_empty: tuple[str, ...] = ()
) -> None:
    execute_batches(connection, _upsert_into(insert_into(connection, table), keep_if_empty), rows)


_upsert_into = cache(
    upsert_statement
)  # works because `insert_into` returns the same object for the same table


@cache
def _insert_issue(insert: Any) -> sql.Insert:
    """Return an INSERT that keeps the first issue of a key, but replaces one without the caller's key by one with it.

    A call from another account is recorded in both accounts, and only the caller's own record has the caller's key.
    """
    new = {name: insert.excluded[name] for name in CREDENTIAL_ISSUE_COLUMNS if name != "issued_key"}
    better = (credential_issues.c.access_key == "") & (insert.excluded.access_key != "")
    statement: sql.Insert = insert.on_conflict_do_update(
        index_elements=["issued_key"], set_=new, where=better
    )
    return statement


def _vote_rows(votes: VoteTable) -> list[Row]:
    if not len(votes):
        return []
    from fingerprint.store import tables  # late: programs that save no votes start without pandas

    return tables.vote_rows(votes)


def _existing_alerts(connection: sql.Connection, ids: Sequence[str]) -> dict[str, Row]:
    """Return the _MERGED_COLUMNS of the alerts that are already stored, by id, and lock their rows."""
    columns = [column for column in alerts.columns if column.name in _MERGED_COLUMNS]
    queries = (
        sql.select(*columns).where(alerts.c.alert_id.in_(batch)).with_for_update()
        for batch in id_batches(ids)
    )
    return {row["alert_id"]: dict(row) for query in queries for row in connection.execute(query).mappings()}


def _merge_evidence(
    connection: sql.Connection, rows: Sequence[Row], events: Sequence[Row], known: Mapping[str, Row]
) -> list[Row]:
    """Return the rows of alerts, merged with stored ones whose evidence has more events than `events`."""
    stored = _evidence_sizes(connection, [row["alert_id"] for row in rows])
    saved = Counter(row["alert_id"] for row in events)
    merged = []
    for row in rows:
        alert_id = row["alert_id"]
        new, old = row | {"event_count": stored.get(alert_id, 0)}, known.get(alert_id)
        if old and new["event_count"] > saved[alert_id]:
            new = _cover_both(new, old | _stored_support(connection, alert_id))
        merged.append(_keep_lowered_urgency(new, old))
    return merged


def _evidence_sizes(connection: sql.Connection, ids: Sequence[str]) -> dict[str, int]:
    alert_id = alert_events.c.alert_id
    count = sql.select(alert_id, sql.func.count()).group_by(alert_id)
    queries = (count.where(alert_id.in_(batch)) for batch in id_batches(ids))
    return {row[0]: row[1] for query in queries for row in connection.execute(query)}


def _stored_support(connection: sql.Connection, alert_id: str) -> Row:
    column = alerts.c.supporting_events
    return {
        column.name: connection.execute(sql.select(column).where(alerts.c.alert_id == alert_id)).scalar_one()
    }


def _cover_both(new: Row, old: Row) -> Row:
    graver = new if new["impact"] >= old["impact"] else old
    return new | {
        "first_event_time": min(new["first_event_time"], old["first_event_time"]),
        "last_event_time": max(new["last_event_time"], old["last_event_time"]),
        "urgency": max(new["urgency"], old["urgency"]),
        "rarity": max(new["rarity"], old["rarity"]),
        "degraded": new["degraded"] or old["degraded"],
        "supporting_events": max(new["supporting_events"], old["supporting_events"], key=len),
        "tactics": max(new["tactics"], old["tactics"], key=len),
        **{name: graver[name] for name in _IMPACT_COLUMNS},
    }


def _keep_lowered_urgency(row: Row, old: Row | None) -> Row:
    """Lower the shown urgency by as much as before; this holds until prevalence is counted again."""
    lowered_by = old["urgency"] - old["urgency_shown"] if old else 0
    shown = max(0, row["urgency"] - lowered_by)  # the next count of prevalence applies the lower bound
    return row | {"urgency_shown": shown, "sharing": old["sharing"] if old else 0}


def _is_visible_change(row: Row, known: Mapping[str, Row]) -> bool:
    """Return whether the queue shows the alert differently now."""
    old = known.get(row["alert_id"])
    return old is None or any(row[name] != old[name] for name in VISIBLE_COLUMNS)


def _issue_row(issue: CredentialIssue) -> Row:
    row = {name: storable(getattr(issue, name)) for name in CREDENTIAL_ISSUE_COLUMNS}
    return row | {"issued_key": index_key(issue.issued_key), "access_key": index_key(issue.access_key)}


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_alerts(connection: sql.Connection, query: sql.Select[Any], raw: bool = True) -> list[Alert]:
    rows = connection.execute(query).mappings().all()
    events = evidence.read_events_by_alert(connection, [row["alert_id"] for row in rows], raw)
    return [to_alert(dict(row), events[row["alert_id"]]) for row in rows]


def _find_issue(connection: sql.Connection, access_key: str) -> CredentialIssue | None:
    query = sql.select(*(credential_issues.c[name] for name in CREDENTIAL_ISSUE_COLUMNS))
    own = credential_issues.c.issued_key == index_key(access_key)
    row = connection.execute(query.where(own)).mappings().first()
    return CredentialIssue(**row) if row else None
