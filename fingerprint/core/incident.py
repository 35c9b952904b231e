"""Incidents: alerts that belong together (`core.incident_rule`), changed as one, as programs and pages read them.

Example:
    >>> IncidentFilter(status="all", principal="123456789012:user/maria").least_urgency
    0
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from fingerprint.core.alert import CredentialIssue, Decision
from fingerprint.core.case import QueueRow
from fingerprint.core.people import names_person

LinkKind = Literal[  # the surest first
    "shared_call", "access_key", "principal", "person", "opened", "name", "service", "address", "new_action"
]
LinkReason = LinkKind | Literal["first", "credential_chain", "hand"]
IncidentStatus = Literal["new", "in_progress", "closed"]
IncidentStatusFilter = Literal["open", "new", "in_progress", "closed", "all"]
IncidentOrder = Literal["urgency", "newest", "oldest"]
EditKind = Literal["split", "join"]
MAX_OTHER_RECORDS = 5  # alerts that are named beside one as holding other records of its calls


class OtherRecord(NamedTuple):
    """An alert that holds another account's record of a call that this alert holds, and whom that record names.

    The caller's own account knows its user or role, any other account an id alone.
    """

    alert_id: str
    principal: str
    human: str


class SessionOrigin(NamedTuple):
    """The opener of an alert's session, as far as the store knows.

    `chain` are the calls that led to the access key that most events used, the nearest first; `distinct_keys` counts the keys of
    the alert. `same_opener`: of several keys each is known to be opened by the one who opened the first.
    """

    chain: tuple[CredentialIssue, ...]
    distinct_keys: int
    other_records: tuple[OtherRecord, ...]
    same_opener: bool = False

    @property
    def has_one_opener(self) -> bool:
        """Return whether it is known who opened the session, or all sessions, of the alert."""
        return bool(self.chain) and (self.distinct_keys == 1 or self.same_opener)

    @property
    def opener(self) -> str:
        """Return the nearest person who opened an alert's session, empty for none, and where several sessions had several."""
        if not self.has_one_opener:
            return ""
        # Of several sessions, what led to the others may be another's.
        calls = self.chain if self.distinct_keys == 1 else self.chain[:1]
        return next((call.human for call in calls if names_person(call.human)), "")


UNKNOWN_ORIGIN = SessionOrigin((), 0, ())


@dataclass(frozen=True, slots=True)
class IncidentEdit:
    """A correction by a person: a set of alerts was split off, or the first of them joined another alert's incident."""

    edit_id: str
    kind: EditKind
    alert_ids: tuple[str, ...]
    with_alert: str
    at: datetime
    by: str
    undone: bool = False


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """A filter of incidents. An empty field or None does not restrict; `open` is new or in progress."""

    status: IncidentStatusFilter = "open"
    assignee: str | None = None  # "" asks for those without one
    principal: str = ""
    least_urgency: int = 0


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One incident in a list. `revision` changes when an alert joins, leaves, grows or is changed by a person."""

    incident_id: str
    revision: str
    status: IncidentStatus
    urgency: int  # the highest of its alerts
    first_event_time: datetime
    last_event_time: datetime
    stored_at: datetime  # when the first of its alerts came
    alerts: int
    open_alerts: int
    principals: tuple[str, ...]
    titles: tuple[str, ...]  # of the gravest alerts
    tactics: tuple[str, ...]
    assignees: tuple[str, ...]
    decisions: tuple[Decision, ...]  # of its closed alerts, each once


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """Rows of one filter; `following` asks for the next ones, None at the end. `total` counts all."""

    rows: tuple[IncidentRow, ...]
    total: int
    following: str | None = None


@dataclass(frozen=True, slots=True)
class IncidentAlert:
    """An alert of an incident, and what it shares with which other one there: `value` is the key or address."""

    row: QueueRow
    reason: LinkReason
    value: str
    with_alert: str


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident with its alerts, the oldest first, and what people changed about it, the newest first."""

    row: IncidentRow
    alerts: tuple[IncidentAlert, ...]
    edits: tuple[IncidentEdit, ...]

    @property
    def alike_principals(self) -> int:
        """Return how many principals called the same new actions on one day, where that joined their alerts; else 0."""
        return len(self.row.principals) if any(each.reason == "new_action" for each in self.alerts) else 0
