"""What people see of the queue and what they may do to it: rows, filters, changes. Alerts themselves are in `domain`.

Example:
    >>> mine = Filter(status="open", assignee="maria", least_urgency=50)
    >>> page = desk.page(mine, order="urgency", size=50)
    >>> seen = [Chosen(row.alert_id, row.version, row.events) for row in page.rows]
    >>> desk.change(seen, Decide("benign", "a migration"), by="maria")
    [Outcome(alert_id='397edb7b6806', done=True, version=2, reason='')]

A *case* is an alert's work: who has it, what was decided, how often it was changed. An alert that nobody touched has version 0.
It is *closed* while its newest disposition was given over all of its events; one that has *grown* since is open again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from fingerprint.core.alert import AlertEvent, Decision, Level

CaseStatus = Literal["open", "closed", "all"]
QueueOrder = Literal["urgency", "newest", "oldest", "events"]
GroupField = Literal[
    "principal", "service", "account", "tactic", "assignee", "level", "day", "human"
]  # to group by

MAX_PAGE_SIZE = 500
MAX_GROUP_FIELDS = 3  # fields
MIN_THRESHOLD, MAX_THRESHOLD = 1.0, 37.0  # below, every event passes; above, a double has no probability left


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which alerts. What is empty or None asks nothing; of `service`, `account` and `tactic` an alert has several."""

    status: CaseStatus = "open"
    least_urgency: int = 0
    most_urgency: int = 100
    principal: str = ""
    service: str = ""
    account: str = ""
    tactic: str = ""
    assignee: str | None = None  # "" asks for those nobody has
    decision: Decision | None = None
    level: Level | None = None
    text: str = ""  # in title, principal, human, or the alert's id
    since: datetime | None = None  # of the alert's last event
    until: datetime | None = None  # of its first
    suppressed: bool = False  # those that a suppression hides, instead of those that none does


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One alert in the queue, without its events.

    `urgency` is what it is worked by: `own_urgency`, lowered by how many other principals (`sharing`) show the same surprise.
    """

    alert_id: str
    version: int
    urgency: int
    own_urgency: int
    sharing: int
    title: str
    principal: str
    human: str
    level: Level
    degraded: bool
    bank_version: str
    window_start: datetime
    first_event_time: datetime
    last_event_time: datetime
    events: int
    services: tuple[str, ...]
    accounts: tuple[str, ...]
    tactics: tuple[str, ...]
    open: bool
    grown: int = 0  # events since it was judged
    assignee: str = ""
    decision: Decision | None = None
    notes: int = 0
    suppressed_by: str = ""  # a suppression's id


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Rows of one filter; `following` asks for the next ones, None at the end. `total` counts all."""

    rows: tuple[QueueRow, ...]
    total: int
    following: str | None = None


@dataclass(frozen=True, slots=True)
class EvidencePage:
    """Some of the `total` events of an alert, the oldest first; `following` asks for the next ones, None at the end."""

    events: tuple[AlertEvent, ...]
    total: int
    following: str | None = None


@dataclass(frozen=True, slots=True)
class AlertGroup:
    """Alerts of one filter that share their values of up to three fields."""

    values: tuple[str, ...]
    alerts: int
    urgency: int  # the highest
    first_event_time: datetime
    last_event_time: datetime


class AlertRevision(NamedTuple):
    """An alert as somebody saw it: changed only if it is still of that version. `events`: so many it had, and a decision is over
    these, so one that has grown meanwhile stays open; None decides over all that it has by now."""

    alert_id: str
    version: int
    events: int | None = None


class AlertChange(NamedTuple):
    """An alert that is new or has changed, and the number of its newest change: a later change has a higher one."""

    number: int
    alert_id: str


@dataclass(frozen=True, slots=True)
class SetDisposition:
    decision: Decision
    why: str = ""
    duplicate_of: str = ""  # an alert's id, where the decision is `duplicate`


@dataclass(frozen=True, slots=True)
class AssignCase:
    to: str  # "": to nobody


@dataclass(frozen=True, slots=True)
class ReopenCase:
    why: str = ""


CaseAction = SetDisposition | AssignCase | ReopenCase


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """What became of one change. Not done: `reason` says why, and `version` is the one of now (-1: no such alert)."""

    alert_id: str
    done: bool
    version: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CaseNote:
    note_id: str
    alert_id: str
    at: datetime
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit, which only grows: who did what to what, and when."""

    number: int
    at: datetime
    by: str
    action: str  # alert.decide, alert.assign, suppression.create, token.create, login, ...
    target: str
    detail: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedView:
    """A filter that somebody saved under a name: the queue's URL without its host, `?status=open&service=iam`."""

    owner: str
    name: str
    query: str


@dataclass(frozen=True, slots=True)
class SuppressionMatch:
    """What a suppression hides: alerts all of whose events are like this. What is empty asks nothing; not all may be."""

    principal: str = ""
    human: str = ""
    account: str = ""
    service: str = ""
    action: str = ""  # `service:Action` or `Action`
    network: str = ""  # a CIDR, or an address
    user_agent: str = ""  # its beginning
    error_code: str = ""


@dataclass(frozen=True, slots=True)
class Suppression:
    """Alerts that are hidden for a reason, until a day, at somebody's word. The votes behind them are never hidden; nor are
    confirmed attacks and critical alerts, but by one that was `forced`, and says why."""

    suppression_id: str
    version: int
    match: SuppressionMatch
    reason: str
    owner: str
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    forced: str = ""  # why it may hide confirmed attacks and critical alerts; empty: it may not
    hits: int = 0  # alerts that it fits or has fitted
    last_hit: datetime | None = None


@dataclass(frozen=True, slots=True)
class SuppressionPreview:
    """What a match would hide of the alerts that are on the desk."""

    alerts: int
    open: int
    urgent: int  # with an urgency of 50 or more
    critical: int  # with an urgency of 75 or more: these are hidden by force alone ...
    confirmed: int  # ... and so are those that were judged true positive
    rows: tuple[QueueRow, ...]


@dataclass(frozen=True, slots=True)
class ThresholdOverride:
    """What somebody chose at the desk: it goes before settings files. A threshold of the autoencoder (a z), and a quorum; None
    for what the files say. `cleared`: all that the files say holds again."""

    number: int
    at: datetime
    by: str
    why: str
    threshold: float | None = None
    quorum: int | None = None
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class ThresholdEstimate:
    """What a threshold and a quorum would have shown on the last days: alerts a day, how many were `found` of the attacks that
    analysts `confirmed`, and which share of the attacks `known` to all (`probe`) the autoencoder would vote on; None without a
    bank."""

    threshold: float
    quorum: int
    alerts_per_day: float
    confirmed: int
    found: int
    known: float | None


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """How a program is, in its own words: `lag` messages are not read yet (None: it does not know), `figures` are what it has
    counted since it began, `trouble` is a sentence where something fails."""

    kind: str  # stream
    name: str  # of the process
    at: datetime
    lag: int | None = None
    figures: dict[str, int] = field(default_factory=dict)
    trouble: str = ""
