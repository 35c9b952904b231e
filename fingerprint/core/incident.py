"""Incidents: alerts that belong together (`core.incident_rule`) and are changed as one; the records that programs and pages read.

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
MAX_OTHER_RECORDS = 5  # alerts, named with an alert, that have other records of its calls


class OtherRecord(NamedTuple):
    """An alert with another account's record of a call of this alert, and the principal and person in that record.

    The caller's own account records its user or role, any other account only an id.
    """

    alert_id: str
    principal: str
    human: str


class SessionOrigin(NamedTuple):
    """The opener of an alert's session, as far as the store knows it.

    - `chain`: the calls that led to the access key of most events, the nearest first.
    - `distinct_keys`: the number of the alert's access keys.
    - `same_opener`: there are several keys, and one principal is known to have opened the sessions of all of them.
    """

    chain: tuple[CredentialIssue, ...]
    distinct_keys: int
    other_records: tuple[OtherRecord, ...]
    same_opener: bool = False

    @property
    def has_one_opener(self) -> bool:
        """Return whether one opener is known for all sessions of the alert."""
        return bool(self.chain) and (self.distinct_keys == 1 or self.same_opener)

    @property
    def opener(self) -> str:
        """Return the nearest person who opened the alert's session; empty for none, or if its sessions had several openers."""
        if not self.has_one_opener:
            return ""
        # With several sessions, the earlier calls of the chain may concern the first session alone.
        calls = self.chain if self.distinct_keys == 1 else self.chain[:1]
        return next((call.human for call in calls if names_person(call.human)), "")


UNKNOWN_ORIGIN = SessionOrigin((), 0, ())


@dataclass(frozen=True, slots=True)
class IncidentEdit:
    """A person's correction: the alerts were split off (`split`), or the first of them joined another alert's incident."""

    edit_id: str
    kind: EditKind
    alert_ids: tuple[str, ...]
    with_alert: str
    at: datetime
    by: str
    undone: bool = False


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """A filter of incidents. An empty field or None does not restrict; `open` means new or in progress."""

    status: IncidentStatusFilter = "open"
    assignee: str | None = None  # "" asks for incidents without an assignee
    principal: str = ""
    least_urgency: int = 0


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One incident in a list. `revision` changes when an alert joins, leaves, grows, or is changed by a person."""

    incident_id: str
    revision: str
    status: IncidentStatus
    urgency: int  # the highest of its alerts
    first_event_time: datetime
    last_event_time: datetime
    stored_at: datetime  # when the store received the first of its alerts
    alerts: int
    open_alerts: int
    principals: tuple[str, ...]
    titles: tuple[str, ...]  # of the gravest alerts
    tactics: tuple[str, ...]
    assignees: tuple[str, ...]
    decisions: tuple[Decision, ...]  # of its closed alerts, each once


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """A page of a filter's rows. `total` counts all rows; `following` is the cursor of the next page, None at the end."""

    rows: tuple[IncidentRow, ...]
    total: int
    following: str | None = None


@dataclass(frozen=True, slots=True)
class IncidentAlert:
    """An alert of an incident, and its link to the alert `with_alert`: the reason, and the shared value (a key or an address)."""

    row: QueueRow
    reason: LinkReason
    value: str
    with_alert: str


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident with its alerts, the oldest first, and people's edits of it, the newest first."""

    row: IncidentRow
    alerts: tuple[IncidentAlert, ...]
    edits: tuple[IncidentEdit, ...]

    @property
    def alike_principals(self) -> int:
        """Return the number of principals if alerts were joined by the same new actions on one day; else 0."""
        return len(self.row.principals) if any(each.reason == "new_action" for each in self.alerts) else 0
