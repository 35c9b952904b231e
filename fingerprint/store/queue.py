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
    By,
    Change,
    Changed,
    Chosen,
    Entry,
    Evidence,
    Filter,
    Group,
    Note,
    Order,
    Outcome,
    Page,
    Row,
    View,
)
from fingerprint.store import alert_export, audit, cases, change_feed, queue_rows, similar_alerts
from fingerprint.store import counts as desk_counts
from fingerprint.store import evidence as desk_evidence
from fingerprint.store import notes as desk_notes
from fingerprint.store.database import ROWS
from fingerprint.store.session import Transactions


class Queued(Transactions):
    """See `ports_queue`; `shared_by` is `desk_guard`'s."""

    def page(
        self, which: Filter, order: Order = "urgency", size: int = 50, following: str | None = None
    ) -> Page:
        return self._read(
            lambda connection: queue_rows.page(connection, which, order, size, following, self._now())
        )

    def row(self, alert_id: str) -> Row:
        return self._read(lambda connection: queue_rows.row(connection, alert_id, self._now()))

    def explained(self, alert_id: str) -> Alert:
        return self._read(lambda connection: desk_evidence.explained(connection, alert_id))

    def evidence(
        self, alert_id: str, size: int = 200, following: str | None = None, raw: bool = True
    ) -> Evidence:
        return self._read(lambda connection: desk_evidence.page(connection, alert_id, size, following, raw))

    def event(self, alert_id: str, event_id: str) -> AlertEvent:
        return self._read(lambda connection: desk_evidence.event(connection, alert_id, event_id))

    def whole(self, alert_ids: Sequence[str], raw: bool = True) -> list[tuple[Alert, Disposition | None]]:
        return self._read(lambda connection: alert_export.whole(connection, alert_ids, raw))

    def counts(self, which: Filter) -> dict[str, int]:
        return self._read(lambda connection: desk_counts.counts(connection, which, self._now()))

    def groups(self, which: Filter, by: Sequence[By], limit: int = 200) -> list[Group]:
        return self._read(lambda connection: desk_counts.groups(connection, which, by, limit, self._now()))

    def change(self, chosen: Sequence[Chosen], change: Change, by: str) -> list[Outcome]:
        """Whoever scores is not waited for: the versions of the rows guard them."""
        return self._write(lambda connection: cases.change(connection, chosen, change, by, self._now()), ROWS)

    def note(self, alert_id: str, text: str, by: str) -> Note:
        return self._write(
            lambda connection: desk_notes.add(connection, alert_id, text, by, self._now()), ROWS
        )

    def notes(self, alert_id: str) -> list[Note]:
        return self._read(lambda connection: desk_notes.of_alert(connection, alert_id))

    def history(self, target: str = "", limit: int = 200, before: int | None = None) -> list[Entry]:
        return self._read(lambda connection: audit.history(connection, target, limit, before))

    def similar(self, alert_id: str, limit: int = 10) -> list[Row]:
        with self._transaction() as connection:
            alike = similar_alerts.alike(connection, alert_id, limit)
            return queue_rows.among(connection, alike, self._now())

    def views(self, owner: str) -> list[View]:
        return self._read(lambda connection: desk_notes.views_of(connection, owner))

    def save_view(self, view: View) -> None:
        self._write(lambda connection: desk_notes.save_view(connection, view, self._now()), ROWS)

    def forget_view(self, owner: str, name: str) -> None:
        self._write(lambda connection: desk_notes.forget_view(connection, owner, name, self._now()), ROWS)

    def newest_change(self) -> int:
        return self._read(lambda connection: change_feed.newest(connection))

    def changes(self, since: int, limit: int = 500) -> list[Changed]:
        return self._read(lambda connection: change_feed.since(connection, since, limit))
