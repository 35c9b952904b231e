"""The queue as people work on it: a port of the desk beside `ports.Desk`, which programs write to.

Example:
    >>> page = desk.page(Filter(status="open"), order="urgency", size=50)
    >>> page.rows[0].title, page.total
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

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
    Suppression,
    SuppressionMatch,
    SuppressionPreview,
)


class CaseStore(Protocol):
    """Alerts to read, group and decide on. A change of one alert is one transaction with its line in the audit; what was
    changed by somebody else since it was seen is not done, and the outcome says so."""

    def page(
        self,
        alert_filter: AlertFilter,
        order: QueueOrder = "urgency",
        size: int = 50,
        cursor: str | None = None,
    ) -> QueuePage:
        """FingerprintError for a `following` that no page gave, or a size beyond LARGEST_PAGE."""
        ...

    def row(self, alert_id: str) -> QueueRow:
        """One alert's row by its whole id; NotThere without one."""
        ...

    def alert_without_events(self, alert_id: str) -> Alert:
        """All of an alert but its events, which may be many; NotThere without one."""
        ...

    def evidence(
        self, alert_id: str, size: int = 200, cursor: str | None = None, raw: bool = True
    ) -> EvidencePage:
        """Its events by page; without `raw`, records are empty text. NotThere, and FingerprintError as in `page`."""
        ...

    def event(self, alert_id: str, event_id: str) -> AlertEvent:
        """One of its events, with the record as AWS wrote it; NotThere without one."""
        ...

    def full_alerts(
        self, alert_ids: Sequence[str], raw: bool = True
    ) -> list[tuple[Alert, Disposition | None]]:
        """Those of these alerts that are there, in their order, with all their events and the decision by which they stand."""
        ...

    def records_removed_at(self, alert_id: str) -> datetime | None:
        """When raw records of it were removed; None while all are there."""
        ...

    def counts(self, alert_filter: AlertFilter) -> dict[str, int]:
        """How many alerts of this filter are `open`, `closed` and `suppressed`, and of the open ones how many are
        `critical`, `high`, `medium`, `low` and `unassigned`; the filter's own status and `suppressed` are not asked."""
        ...

    def groups(
        self, alert_filter: AlertFilter, by: Sequence[GroupField], limit: int = 200
    ) -> list[AlertGroup]:
        """By up to three fields, the group with the most urgent alert first. An alert of two services is in two groups."""
        ...

    def change_cases(
        self, revisions: Sequence[AlertRevision], action: CaseAction, by: str
    ) -> list[ActionOutcome]:
        """To each of them or not to it, in their order. The desk's clock says when."""
        ...

    def add_note(self, alert_id: str, text: str, by: str) -> CaseNote:
        """Add a note. FingerprintError where there is no such alert, or no text."""
        ...

    def notes(self, alert_id: str) -> list[CaseNote]:
        """The oldest first."""
        ...

    def audit_log(self, target: str = "", limit: int = 200, before: int | None = None) -> list[AuditEntry]:
        """Lines of the audit, the newest first: of one target (an alert's id, a suppression's), or all."""
        ...

    def similar_alerts(self, alert_id: str, limit: int = 10) -> list[QueueRow]:
        """Alerts that share the strongest surprises with it, those of its principal first, then the newest."""
        ...

    def prevalence(self, alert_id: str) -> list[tuple[str, str, int]]:
        """Its surprises that others show within a day of it: feature, value seen, and how many other principals."""
        ...

    def views(self, owner: str) -> list[SavedView]: ...

    def save_view(self, view: SavedView) -> None:
        """The same name again is overwritten."""
        ...

    def delete_view(self, owner: str, name: str) -> None: ...


class SuppressionStore(Protocol):
    """Alerts that need not be read. What is hidden stays on the desk, and single votes are never touched."""

    def preview(self, match: SuppressionMatch, limit: int = 20) -> SuppressionPreview:
        """FingerprintError for a match that asks nothing or cannot be read."""
        ...

    def create_suppression(
        self, match: SuppressionMatch, reason: str, expires_at: datetime, by: str, force: str | None = None
    ) -> Suppression:
        """From now on, and of what lies there already. FingerprintError without a reason, or for an end that has passed or
        lies more than a year ahead; and for one that would hide confirmed attacks or critical alerts without a reason to
        `force` it. One that was not forced never hides such, whenever they come."""
        ...

    def suppressions(self, ended: bool = False) -> list[Suppression]:
        """Those in force, the next to expire first; with `ended` those that are over, too."""
        ...

    def end_suppression(self, suppression_id: str, version: int, by: str) -> Suppression:
        """What it hid is seen again. FingerprintError where somebody changed it since."""
        ...


class AlertChanges(Protocol):
    """What is new or has changed, for screens that stay open. Changes have numbers, which become visible in their order:
    whoever has seen one has missed none before it."""

    def newest_change_number(self) -> int:
        """The number of the newest one; 0 before the first."""
        ...

    def changes(self, since: int, limit: int = 500) -> list[AlertChange]:
        """Alerts that changed after `since`, each once, the longest ago first. About `limit`: what one transaction changed
        comes together, so the last number says from where to ask again."""
        ...
