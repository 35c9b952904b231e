"""The alert store as ports for programs and the web app: one repository for each noun.

Example:
    >>> def has_alerts(store: Store) -> bool:
    ...     return bool(store.alerts.by_urgency(limit=1))

- *Evidence* is the set of an alert's events: it may grow, and it never shrinks.
- *Saved* means durable: when a method that saves returns, the input may be forgotten. Saving the same again changes nothing,
  because ids come from content.
- Programs never write what analysts decide.
- Every method is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fingerprint.core.alert import (
    Alert,
    AlertEvent,
    AlertSpan,
    CredentialIssue,
    Decision,
    Disposition,
    FeedGap,
    Vote,
)
from fingerprint.core.case import (
    ActionOutcome,
    AlertChange,
    AlertFilter,
    AlertGroup,
    AlertRevision,
    AuditEntry,
    AuditFilter,
    CaseAction,
    CaseNote,
    DayCount,
    EvidencePage,
    GroupField,
    PrincipalEvents,
    ProgramStatus,
    QueueOrder,
    QueuePage,
    QueueRow,
    SavedView,
    Suppression,
    SuppressionMatch,
    SuppressionPreview,
    ThresholdOverride,
)
from fingerprint.core.incident import (
    Incident,
    IncidentEdit,
    IncidentFilter,
    IncidentOrder,
    IncidentPage,
    OtherRecord,
)
from fingerprint.core.overview import Overview
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.settings import Retention
from fingerprint.core.story import CallSummary, EventSelection, RunPage, Tally

if TYPE_CHECKING:  # so that commands which only list alerts start without pandas
    import pandas as pd

VoteTable: TypeAlias = "Sequence[Vote] | pd.DataFrame"  # a table has the fields of Vote as its columns


class AlertRepository(Protocol):
    """Alerts and their evidence."""

    def save(
        self,
        alerts: Sequence[Alert] = (),
        votes: VoteTable = (),
        credential_issues: Sequence[CredentialIssue] = (),
    ) -> None:
        """Save everything or, if it raises, nothing. If several calls issued one access key, the first is kept."""
        ...

    def by_urgency(self, limit: int | None = None, raw: bool = True) -> list[Alert]:
        """Return alerts by falling urgency, then the oldest first, then by id. Without `raw`, records are empty text."""
        ...

    def get(self, id_or_prefix: str) -> Alert:
        """Return one alert by its id or the first characters of it. Raise FingerprintError if not exactly one matches."""
        ...

    def ids_since(self, since: datetime) -> list[str]:
        """Return the ids of alerts with an event at `since` or later."""
        ...

    def spans_since(self, since: datetime) -> list[AlertSpan]:
        """Return principal, first and last event time of the alerts with an event at `since` or later."""
        ...

    def credential_chain(self, access_key: str) -> list[CredentialIssue]:
        """Return the call that issued an access key, then the one that issued that caller's key, and so on."""
        ...


class VoteRepository(Protocol):
    """Single votes of detectors, saved together with alerts."""

    def read(
        self,
        principal: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> pd.DataFrame:
        """Return votes, the oldest first, with the fields of Vote as columns; `event_time` is UTC.

        `limit` keeps the oldest, or the `newest`.
        """
        ...

    def page(
        self,
        principal: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        size: int = 1_000,
        cursor: str | None = None,
    ) -> tuple[pd.DataFrame, str | None]:
        """Return a page of votes from `since` on and before `until`, the oldest first, and the cursor of the next page.

        Raise FingerprintError for a cursor of another query.
        """
        ...

    def nearest(
        self,
        since: datetime,
        least: float,
        limit: int,
        principals: Sequence[str] | None = None,
        related: bool = True,
    ) -> pd.DataFrame:
        """Return at most `limit` votes with a reach of at least `least`, the highest first, then other detectors' related votes.

        The former are on events at `since` or later of these `principals` (None: of all), outside the times of the principal's
        alerts. The latter are on the same events, or for intervals of the principals; without `related` they are left out.
        """
        ...

    def oldest_time(self) -> datetime | None:
        """Return the time of the oldest vote; None without any."""
        ...

    def newest_time(self) -> datetime | None:
        """Return the time of the newest vote; None without any."""
        ...


class QueueRepository(Protocol):
    """The queue of alerts: rows without their events."""

    def page(
        self,
        alert_filter: AlertFilter,
        order: QueueOrder = "urgency",
        size: int = 50,
        cursor: str | None = None,
        total: int | None = None,
    ) -> QueuePage:
        """Return a page of rows and the number of all rows.

        Raise FingerprintError for a cursor that no page had, or a size above MAX_PAGE_SIZE.
        """
        ...

    def first_rows(
        self, alert_filter: AlertFilter, order: QueueOrder = "urgency", size: int = 50
    ) -> list[QueueRow]:
        """Return the first rows of a filter. It is faster than `page`, because nothing is counted."""
        ...

    def ids(self, alert_filter: AlertFilter, order: QueueOrder = "urgency") -> list[str]:
        """Return the ids of all alerts of a filter as of one moment, in their order."""
        ...

    def row(self, alert_id: str) -> QueueRow:
        """Return one alert's row by its whole id. Raise NotFound without one."""
        ...

    def rows(self, alert_ids: Sequence[str]) -> list[QueueRow]:
        """Return the rows of these alerts in the given order, without alerts that do not exist."""
        ...

    def similar(self, alert_id: str, limit: int = 10) -> list[QueueRow]:
        """Return alerts that share one of its strongest surprises: those of its principal first, then the newest."""
        ...

    def counts(self, alert_filter: AlertFilter) -> dict[str, int]:
        """Return the numbers of a filter's alerts that are `open`, `closed` and `suppressed`.

        The open ones are also counted by `new`, `in_progress`, `unassigned`, `critical`, `high`, `medium` and `low`. The filter's
        own status and `suppressed` are ignored.
        """
        ...

    def daily_counts(self, alert_filter: AlertFilter, days: int = 30) -> list[DayCount]:
        """Return counts by day of the last event and by severity, the oldest day first; the filter's times are ignored.

        The last day is today, or the day of the newest alert if the store has no alert from these days.
        """
        ...

    def groups(
        self, alert_filter: AlertFilter, by: Sequence[GroupField], limit: int = 200
    ) -> list[AlertGroup]:
        """Return groups by up to three fields, the one with the most urgent alert first.

        An alert of two services is in two groups.
        """
        ...

    def suggest(self, field: str, begins: str, limit: int = 10) -> list[str]:
        """Return values of a query field (`alert_query.FIELDS`) that begin with `begins`, in alphabetical order.

        Only values of stored alerts are returned. Fields such as `urgency`, whose values are not stored as text, have none.
        """
        ...


class EvidenceRepository(Protocol):
    """The evidence of alerts, in parts."""

    def summary(self, alert_id: str) -> Alert:
        """Return an alert without its events, which may be many. Raise NotFound without one."""
        ...

    def find_ids(self, id_or_prefix: str) -> list[str]:
        """Return the alert with this id, else up to four whose ids begin with it; none for empty text."""
        ...

    def events(
        self,
        alert_id: str,
        size: int = 200,
        cursor: str | None = None,
        raw: bool = True,
        selection: EventSelection | None = None,
        newest_first: bool = False,
    ) -> EvidencePage:
        """Return a page of the selected events, by default the oldest first; without `raw`, records are empty text.

        Raise NotFound, and FingerprintError as `page` does.
        """
        ...

    def calls(self, alert_ids: Sequence[str]) -> list[CallSummary]:
        """Return a summary of each call over all events of these alerts, in the order of first calls."""
        ...

    def tallies(self, alert_ids: Sequence[str]) -> dict[str, Tally]:
        """Return a tally of each of the fields `core.story.TALLIED` over all events of these alerts."""
        ...

    def runs(
        self,
        alert_id: str,
        selection: EventSelection | None = None,
        size: int = 100,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> RunPage:
        """Return a page of the selected events with repeats folded. Raise as `events` does."""
        ...

    def event(self, alert_id: str, event_id: str) -> AlertEvent:
        """Return one event, with the record as AWS wrote it. Raise NotFound without one."""
        ...

    def records(self, alert_id: str, event_ids: Sequence[str]) -> Mapping[str, str]:
        """Return the raw records of these events by id, without events that the alert does not have."""
        ...

    def full_alerts(self, alert_ids: Sequence[str]) -> Iterator[tuple[Alert, Disposition | None]]:
        """Yield these alerts in the given order, with all events and the decision in force, without records.

        Alerts that do not exist are left out. Few alerts are in memory at a time, each as it is when it is read.
        """
        ...

    def iterate_full_alerts(self) -> Iterator[tuple[Alert, Disposition | None]]:
        """Yield all alerts as of one moment, in the order of the queue, without records."""
        ...

    def records_removed_at(self, alert_id: str) -> datetime | None:
        """Return when raw records of the alert were removed; None while all are stored."""
        ...


class PrincipalRepository(Protocol):
    """Principals: their events, credentials and notes, from their alerts."""

    def events(self, principal: str, limit: int) -> PrincipalEvents:
        """Return the newest events of all alerts of a principal, the oldest first, without their records."""
        ...

    def events_of_alerts(self, alert_ids: Sequence[str], limit: int) -> PrincipalEvents:
        """Return the newest events of some alerts, the oldest first, without their records."""
        ...

    def credential_issues(
        self, principal: str, access_keys: Sequence[str], limit: int
    ) -> list[CredentialIssue]:
        """Return the newest calls that issued credentials, the oldest of them first.

        They are the calls of the principal, the calls made with one of the keys, and the calls that issued one of the keys. An
        empty principal asks for the keys alone.
        """
        ...

    def notes(self, principal: str, limit: int) -> list[CaseNote]:
        """Return the newest notes on alerts of a principal, the newest first."""
        ...


class PrevalenceRepository(Protocol):
    """Surprises that several principals show."""

    def of_alert(self, alert_id: str) -> list[tuple[str, str, int]]:
        """Return its surprises that others show within a day of it: feature, value seen, number of other principals."""
        ...


class CaseRepository(Protocol):
    """Decisions and notes of analysts.

    A change of one alert and its line in the audit are one transaction. If an alert was changed since the analyst saw it, it
    stays as it is, and the outcome says so.
    """

    def change(self, revisions: Sequence[AlertRevision], action: CaseAction, by: str) -> list[ActionOutcome]:
        """Change each alert or leave it, and return the outcomes in their order."""
        ...

    def add_disposition(self, disposition: Disposition) -> None:
        """Add a disposition; the newest counts, and a repeat changes nothing.

        Raise FingerprintError if the alert does not exist, or the alert that it is a duplicate of does not.
        """
        ...

    def dispositions(self, alert_id: str | None = None) -> list[Disposition]:
        """Return all dispositions, or those of one alert, the oldest first."""
        ...

    def current_decisions(self) -> dict[str, Decision]:
        """Return the decision in force of each decided alert, by id."""
        ...

    def add_notes(self, revisions: Sequence[AlertRevision], text: str, by: str) -> list[ActionOutcome]:
        """Add the same note to each alert that exists, all at once, and return the outcomes in their order."""
        ...

    def add_note(self, alert_id: str, text: str, by: str) -> CaseNote:
        """Add a note. Raise FingerprintError if the alert does not exist or the text is empty."""
        ...

    def notes(self, alert_id: str) -> list[CaseNote]:
        """Return the notes of an alert, the oldest first."""
        ...


class IncidentRepository(Protocol):
    """Incidents: alerts that belong together (`core.incident`), changed as one. Every alert's id names its incident."""

    def page(
        self,
        incident_filter: IncidentFilter,
        order: IncidentOrder = "urgency",
        size: int = 50,
        cursor: str | None = None,
    ) -> IncidentPage:
        """Return a page of incidents and the number of all; incidents with only suppressed alerts are left out."""
        ...

    def counts(self, incident_filter: IncidentFilter) -> dict[str, int]:
        """Return the numbers of incidents that are `new`, `in_progress`, `open` and `closed`; the filter's status is ignored."""
        ...

    def count(self, incident_filter: IncidentFilter) -> int:
        """Return the number of a filter's incidents; incidents with only suppressed alerts are left out."""
        ...

    def get(self, id_or_prefix: str) -> Incident:
        """Return the incident of an alert, given the alert's id or its first characters. Raise NotFound without one."""
        ...

    def other_records(self, alert_id: str) -> list[OtherRecord]:
        """Return a few alerts with other records of an alert's calls, and whom these records name, the oldest first."""
        ...

    def activity(self, incident_id: str, limit: int = 500) -> tuple[list[AuditEntry], list[CaseNote]]:
        """Return the newest audit entries and notes of an incident's alerts, the newest first."""
        ...

    def change(
        self,
        incident_id: str,
        revision: str,
        action: CaseAction,
        by: str,
        alert_ids: Collection[str] | None = None,
    ) -> list[AlertRevision]:
        """Change all alerts of an incident that the action concerns, or none of them; return the changed ones.

        `alert_ids` restricts the change to some alerts. Raise Conflict if the incident has changed since `revision`, or if
        nothing is left to change.
        """
        ...

    def add_note(self, incident_id: str, text: str, by: str) -> int:
        """Write a note on each alert of an incident, and return the number of alerts."""
        ...

    def split(self, incident_id: str, alert_ids: Sequence[str], by: str) -> IncidentEdit:
        """Split alerts off an incident into one of their own, whatever the rule says."""
        ...

    def join(self, incident_id: str, other_id: str, by: str) -> IncidentEdit:
        """Join another incident with this one."""
        ...

    def undo(self, edit_id: str, by: str) -> IncidentEdit:
        """Undo a split or a join."""
        ...


class OverviewRepository(Protocol):
    """Figures for a lead (`core.overview`)."""

    def figures(
        self, since: datetime, until: datetime, response_target: float, close_target: float
    ) -> Overview:
        """Return the figures of the alerts received from `since` on and before `until`; targets are in seconds."""
        ...


class ViewRepository(Protocol):
    """Filters of the queue that people save under a name."""

    def of_owner(self, owner: str) -> list[SavedView]:
        """Return a person's views, by name."""
        ...

    def save(self, view: SavedView) -> None:
        """Save a view over the one of the same name."""
        ...

    def delete(self, owner: str, name: str) -> None:
        """Delete a view; one that does not exist is no error."""
        ...


class SuppressionRepository(Protocol):
    """Rules that hide alerts. Hidden alerts stay stored, and votes are never touched."""

    def preview(self, match: SuppressionMatch, limit: int = 20) -> SuppressionPreview:
        """Return what a match would hide; if that is nothing, the values that no stored alert has.

        Raise FingerprintError for a match that is empty or cannot be read.
        """
        ...

    def create(
        self, match: SuppressionMatch, reason: str, expires_at: datetime, by: str, force: str | None = None
    ) -> Suppression:
        """Hide matching alerts, stored and future ones.

        Raise FingerprintError without a reason, for an end in the past or more than a year ahead, and for a match that would hide
        confirmed attacks or critical alerts, unless `force` gives a reason. A suppression that was not forced never hides such
        alerts, including future ones.
        """
        ...

    def list_all(self, ended: bool = False) -> list[Suppression]:
        """Return the suppressions in force, the next to expire first; with `ended` also those that are over."""
        ...

    def get(self, suppression_id: str) -> Suppression:
        """Return a suppression by its whole id. Raise NotFound without one."""
        ...

    def end(self, suppression_id: str, version: int, by: str) -> Suppression:
        """End a suppression, so that its alerts are shown again. Raise Conflict if it was changed since `version`."""
        ...


class FeedbackRepository(Protocol):
    """Labels for training."""

    def flagged_events(self, since: datetime, until: datetime) -> Iterator[pd.DataFrame]:
        """Yield tables of flagged events from `since` on and before `until`: event_id, event_time, entity and label.

        The label of an alert's event is the decision on the alert, `open` while there is none. It is `vote` for an event that a
        detector voted on.
        """
        ...

    def decided_entities(self, until: datetime) -> pd.DataFrame:
        """Return a row for each decided alert and entity.

        Columns: alert (the id of the alert decided on; for a duplicate, of its original), principal, entity, event_time (of the
        newest event before `until`) and decision.
        """
        ...

    def confirmed_attacks(self) -> dict[str, list[bytes]]:
        """Return the records of the events of the newest confirmed attacks, by alert."""
        ...


class ThresholdRepository(Protocol):
    """Thresholds that people set, which take precedence over the settings."""

    def override(
        self,
        at: datetime,
        by: str,
        reason: str,
        threshold: float | None = None,
        quorum: int | None = None,
    ) -> ThresholdOverride:
        """Override threshold or quorum from now on; if both are None, the settings are in force again."""
        ...

    def current(self) -> ThresholdOverride | None:
        """Return the override in force; None where there has never been one."""
        ...

    def history(self) -> list[ThresholdOverride]:
        """Return overrides, the newest first."""
        ...


class FeedRepository(Protocol):
    """Activity and gaps of feeds; times of intervals are seconds since 1970."""

    def save_counts(self, partition: Partition, complete_until: int, counts: pd.DataFrame) -> None:
        """Save a partition's counts: columns kind, feed, at (start of an interval) and events.

        They are complete until `complete_until`. Neither a stored count nor `complete_until` ever decreases.
        """
        ...

    def complete_until(self) -> dict[Partition, int]:
        """Return the time until which the counts of each partition are complete."""
        ...

    def forget(self, partitions: Collection[Partition]) -> None:
        """Forget `complete_until` of these partitions. Their counts stay, because the past of their feeds stays true."""
        ...

    def counts(self, since: int = 0) -> pd.DataFrame:
        """Return the counts over all partitions of intervals that start at `since` or later: kind, feed, at and events."""
        ...

    def gaps(self, ended: bool = True) -> list[FeedGap]:
        """Return gaps: open ones first, then by the newest end; equal ones by urgency, then the oldest first, then by id."""
        ...

    def checked_until(self) -> int:
        """Return the time until which feeds were checked for gaps; 0 if they never were."""
        ...

    def save_gaps(self, gaps: Sequence[FeedGap], checked_until: int, delete_before: int = 0) -> None:
        """Save new and changed gaps after a check of all feeds; delete counts of intervals that start before `delete_before`.

        A gap that has ended never opens again.
        """
        ...


class HeartbeatRepository(Protocol):
    """The last status of each running program."""

    def save(self, status: ProgramStatus) -> None:
        """Save a program's status; it replaces the last one."""
        ...

    def recent(self) -> list[ProgramStatus]:
        """Return the last statuses, by kind and name."""
        ...


class AuditRepository(Protocol):
    """The audit log: actor, action and time."""

    def entries(self, target: str = "", limit: int = 200, before: int | None = None) -> list[AuditEntry]:
        """Return entries, the newest first: of one target (the id of an alert or a suppression), or all."""
        ...

    def find(
        self, audit_filter: AuditFilter, limit: int = 200, before: int | None = None
    ) -> list[AuditEntry]:
        """Return the entries of a filter, the newest first."""
        ...


class ChangeRepository(Protocol):
    """New and changed alerts, for pages that stay open.

    Changes are numbered and become visible in their order: a reader that has seen a change has missed none before it.
    """

    def newest_number(self) -> int:
        """Return the number of the newest change; 0 before the first."""
        ...

    def since(self, number: int, limit: int = 500) -> list[AlertChange]:
        """Return alerts that changed after `number`, each once, the oldest change first.

        The result has about `limit` alerts: the changes of one transaction are never divided, so the last number is the place to
        go on.
        """
        ...


class RetentionRepository(Protocol):
    """Retention: removal of rows that are older than the settings keep them."""

    def apply(
        self, retention: Retention, by: str, progress: Callable[[str, int], None] = ...
    ) -> dict[str, int]:
        """Remove rows that are older than the settings keep them, and return the numbers of rows by kind."""
        ...

    def paused_since(self, retention: Retention) -> datetime | None:
        """Return when the store last received a row if removal waits until a person asks for it; else None."""
        ...

    def purge_principal(self, principal: str, by: str) -> dict[str, int]:
        """Remove all rows of a principal, and return the numbers of rows by table. Raise NotFound if there are none."""
        ...


@dataclass(frozen=True)
class Store:
    """The repositories of one database."""

    alerts: AlertRepository
    votes: VoteRepository
    queue: QueueRepository
    evidence: EvidenceRepository
    principals: PrincipalRepository
    prevalence: PrevalenceRepository
    cases: CaseRepository
    incidents: IncidentRepository
    overview: OverviewRepository
    views: ViewRepository
    suppressions: SuppressionRepository
    feedback: FeedbackRepository
    thresholds: ThresholdRepository
    feeds: FeedRepository
    heartbeats: HeartbeatRepository
    audit: AuditRepository
    changes: ChangeRepository
    retention: RetentionRepository
