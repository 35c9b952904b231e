"""The queue as people work on it: the part of the desk behind `ports_queue.Queue` and `Changes`. Each method is one transaction.

Example:
    >>> desk = open_desk("sqlite:///fingerprint.sqlite")
    >>> first = desk.page(Filter(status="open"), size=50).rows[0]
    >>> desk.change([Chosen(first.alert_id, first.version, first.events)], Decide("benign", "a migration"), by="maria")
"""

from __future__ import annotations

from collections.abc import Sequence

from fingerprint.core.alert import Alert, AlertEvent, Disposition
from fingerprint.core.case import (
    ActionOutcome,
    AlertChange,
    AlertFilter,
    AlertGroup,
    AlertRevision,
    AuditEntry,
    CaseAction,
    CaseNote,
    EvidencePage,
    GroupField,
    QueueOrder,
    QueuePage,
    QueueRow,
    SavedView,
)
from fingerprint.store import alert_export, audit, cases, change_feed, queue_rows, similar_alerts
from fingerprint.store import counts as desk_counts
from fingerprint.store import evidence as desk_evidence
from fingerprint.store import notes as desk_notes
from fingerprint.store.database import ROW_VERSIONED
from fingerprint.store.session import SqlStore


class SqlCaseStore(SqlStore):
    """See `ports_queue`; `shared_by` is `desk_guard`'s."""

    def page(
        self,
        alert_filter: AlertFilter,
        order: QueueOrder = "urgency",
        size: int = 50,
        cursor: str | None = None,
    ) -> QueuePage:
        return self._read(
            lambda connection: queue_rows.read_queue_page(
                connection, alert_filter, order, size, cursor, self._now()
            )
        )

    def row(self, alert_id: str) -> QueueRow:
        return self._read(lambda connection: queue_rows.read_queue_row(connection, alert_id, self._now()))

    def alert_without_events(self, alert_id: str) -> Alert:
        return self._read(lambda connection: desk_evidence.read_alert_without_events(connection, alert_id))

    def evidence(
        self, alert_id: str, size: int = 200, cursor: str | None = None, raw: bool = True
    ) -> EvidencePage:
        return self._read(
            lambda connection: desk_evidence.read_event_page(connection, alert_id, size, cursor, raw)
        )

    def event(self, alert_id: str, event_id: str) -> AlertEvent:
        return self._read(lambda connection: desk_evidence.read_event(connection, alert_id, event_id))

    def full_alerts(
        self, alert_ids: Sequence[str], raw: bool = True
    ) -> list[tuple[Alert, Disposition | None]]:
        return self._read(lambda connection: alert_export.read_full_alerts(connection, alert_ids, raw))

    def counts(self, alert_filter: AlertFilter) -> dict[str, int]:
        return self._read(
            lambda connection: desk_counts.count_matching_alerts(connection, alert_filter, self._now())
        )

    def groups(
        self, alert_filter: AlertFilter, by: Sequence[GroupField], limit: int = 200
    ) -> list[AlertGroup]:
        return self._read(
            lambda connection: desk_counts.count_alerts_by(connection, alert_filter, by, limit, self._now())
        )

    def change_cases(
        self, revisions: Sequence[AlertRevision], action: CaseAction, by: str
    ) -> list[ActionOutcome]:
        """Whoever scores is not waited for: the versions of the rows guard them."""
        return self._write(
            lambda connection: cases.change_cases(connection, revisions, action, by, self._now()),
            ROW_VERSIONED,
        )

    def add_note(self, alert_id: str, text: str, by: str) -> CaseNote:
        return self._write(
            lambda connection: desk_notes.insert_note(connection, alert_id, text, by, self._now()),
            ROW_VERSIONED,
        )

    def notes(self, alert_id: str) -> list[CaseNote]:
        return self._read(lambda connection: desk_notes.read_notes(connection, alert_id))

    def audit_log(self, target: str = "", limit: int = 200, before: int | None = None) -> list[AuditEntry]:
        return self._read(lambda connection: audit.read_audit_log(connection, target, limit, before))

    def similar_alerts(self, alert_id: str, limit: int = 10) -> list[QueueRow]:
        with self._transaction() as connection:
            alike = similar_alerts.find_similar_alerts(connection, alert_id, limit)
            return queue_rows.read_queue_rows_by_id(connection, alike, self._now())

    def views(self, owner: str) -> list[SavedView]:
        return self._read(lambda connection: desk_notes.read_views(connection, owner))

    def save_view(self, view: SavedView) -> None:
        self._write(lambda connection: desk_notes.upsert_view(connection, view, self._now()), ROW_VERSIONED)

    def delete_view(self, owner: str, name: str) -> None:
        self._write(
            lambda connection: desk_notes.delete_view_row(connection, owner, name, self._now()), ROW_VERSIONED
        )

    def newest_change_number(self) -> int:
        return self._read(lambda connection: change_feed.latest_change_number(connection))

    def changes(self, since: int, limit: int = 500) -> list[AlertChange]:
        return self._read(lambda connection: change_feed.changes_after(connection, since, limit))
