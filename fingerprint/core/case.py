"""Cases: rows, filters and changes of the alert queue, and the decision in force on an alert. Alerts are in `alert`.

Example:
    >>> own_alerts = AlertFilter(status="open", assignee="maria", least_urgency=50)
    >>> page = store.queue.page(own_alerts, order="urgency", size=50)
    >>> seen = [AlertRevision(row.alert_id, row.version, row.events) for row in page.rows]
    >>> store.cases.change(seen, SetDisposition("benign", "a migration"), by="maria")
    [ActionOutcome(alert_id='397edb7b6806', done=True, version=2, reason='')]

A *case* is the work on an alert: its assignee, its decision, and its version, the number of changes (0: never changed).

- An alert is *closed* while its newest disposition covers all of its events. If it has *grown* since, it is open again.
- An open alert is *new* until a person assigns it, writes a note on it or sets it *in progress*.
- Only a person sets it to new again. To remove the assignee does not, because that person has looked at the alert.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, NamedTuple

from fingerprint.core.alert import AlertEvent, Decision, Disposition, Level
from fingerprint.core.alert_query import asks_status

CaseStatus = Literal["open", "new", "in_progress", "closed", "all"]  # open: new or in progress
WorkStatus = Literal["new", "in_progress"]
QueueOrder = Literal["urgency", "newest", "oldest", "events", "lowest", "fewest"]
# Fields to group alerts by
GroupField = Literal["principal", "service", "account", "tactic", "assignee", "level", "day", "human"]

Within = Literal["1h", "24h", "7d", "30d"]  # ages of an alert's last event

# Decisions that need a reason: training learns from them
REASONED_DECISIONS: frozenset[Decision] = frozenset({"benign", "false_positive"})
MAX_PAGE_SIZE = 500
MAX_NOTE_LENGTH = 10_000  # characters
MAX_REASON_LENGTH = 2_000  # characters of the reason for a decision
MAX_TREND_DAYS = 366  # days of counts by day
MAX_GROUP_FIELDS = 3  # fields
MAX_QUORUM = 16  # votes; the number of detectors is in the settings
MIN_THRESHOLD, MAX_THRESHOLD = 1.0, 37.0  # below, every event passes; above, a double has no probability left


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """A filter of alerts. An empty field or None does not restrict. An alert can have several services, accounts and tactics."""

    status: CaseStatus = "open"
    least_urgency: int = 0
    most_urgency: int = 100
    principal: str = ""
    service: str = ""
    account: str = ""
    tactic: str = ""
    assignee: str | None = None  # "" asks for alerts without an assignee
    decision: Decision | None = None
    level: Level | None = None
    q: str = ""  # a query of `alert_query`
    within: Within | None = None  # the greatest age of the alert's last event
    since: datetime | None = None  # bound of the alert's last event
    until: datetime | None = None  # bound of its first event
    day: date | None = None  # of the alert's last event, in UTC; groups and the trend count by it
    suppressed: bool = False  # True asks for the alerts that a suppression hides, False for all others

    def total_in(self, counts: Mapping[str, int]) -> int | None:
        """Return the number of alerts that this filter finds, given its counts by status; None for suppressed alerts."""
        if self.suppressed:
            return None
        if self.status == "all" or (self.status == "open" and asks_status(self.q)):  # the query says which
            return counts["open"] + counts["closed"]
        return counts[self.status]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One alert in the queue, without its events.

    The queue is ordered by `urgency`: `own_urgency`, lowered by the number of other principals with the same surprise
    (`sharing`).
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
    stored_at: datetime  # when the store received it
    incident_id: str
    incident_size: int  # alerts of its incident, this one among them
    open: bool
    in_progress: bool = False  # it is open, and a person took it, wrote a note or set the status
    grown: int = 0  # events since it was judged
    assignee: str = ""
    decision: Decision | None = None
    notes: int = 0
    suppressed_by: str = ""  # a suppression's id
    actions: tuple[str, ...] = ()  # service:action; this and the next two have at most some hundred values
    addresses: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    rarity: int = 0
    impact: int = 0
    gravest_action: str = ""  # the `service:Action` that adds most to the impact, empty for none

    @property
    def status(self) -> Literal["new", "in_progress", "closed"]:
        """Return the status of its case."""
        return "closed" if not self.open else "in_progress" if self.in_progress else "new"


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A page of a filter's rows. `total` counts all rows; `following` is the cursor of the next page, None at the end."""

    rows: tuple[QueueRow, ...]
    total: int
    following: str | None = None


@dataclass(frozen=True, slots=True)
class EvidencePage:
    """A page of an alert's `total` events, the oldest first; `following` is the cursor of the next page, None at the end."""

    events: tuple[AlertEvent, ...]
    total: int
    following: str | None = None


class PrincipalEvent(NamedTuple):
    """An event of an alert, and the principal that acted."""

    alert_id: str
    principal: str
    event: AlertEvent


@dataclass(frozen=True, slots=True)
class PrincipalEvents:
    """The newest of the `total` events of some alerts, the oldest first."""

    events: tuple[PrincipalEvent, ...]
    total: int


@dataclass(frozen=True, slots=True)
class AlertGroup:
    """A group: alerts of one filter that have the same values in up to three fields."""

    values: tuple[str, ...]
    alerts: int
    urgency: int  # the highest
    first_event_time: datetime
    last_event_time: datetime
    severities: tuple[int, ...] = ()  # alerts of each severity, critical first


@dataclass(frozen=True, slots=True)
class DayCount:
    """The number of alerts whose last event was on a day (UTC), by severity: critical, high, medium, low."""

    day: date
    severities: tuple[int, ...]

    @property
    def total(self) -> int:
        """Return the number of alerts of the day."""
        return sum(self.severities)


class AlertRevision(NamedTuple):
    """An alert as an analyst saw it: a change applies only if it still has that `version`.

    A decision covers the `events` that it had then, so an alert that has grown stays open. None covers all of its current events.
    """

    alert_id: str
    version: int
    events: int | None = None


class AlertChange(NamedTuple):
    """A new or changed alert, and the number of its newest change. Later changes have higher numbers."""

    number: int
    alert_id: str


@dataclass(frozen=True, slots=True)
class SetDisposition:
    """Decide an alert: close it with a disposition."""

    decision: Decision
    why: str = ""
    duplicate_of: str = ""  # an alert's id, if the decision is `duplicate`


@dataclass(frozen=True, slots=True)
class AssignCase:
    """Assign an alert to an account."""

    to: str  # "" removes the assignee


@dataclass(frozen=True, slots=True)
class ReopenCase:
    """Reopen a closed alert."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Set an open alert to new or in progress."""

    status: WorkStatus


@dataclass(frozen=True, slots=True)
class UndoDecision:
    """Undo the last decision on an alert: the decision before it is in force again, or the alert is open."""

    why: str = ""


CaseAction = SetDisposition | AssignCase | ReopenCase | UndoDecision | SetStatus


def lacks_reason(decision: str, why: str) -> bool:
    """Return whether a decision lacks the reason that it needs: detectors learn from benign alerts and false positives.

    A true positive needs none, because it may be closed in haste; neither does a duplicate, because the other alert has the
    reason.
    """
    return decision in REASONED_DECISIONS and not why.strip()


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The outcome of one change. `reason` says why it was not done; `version` is the alert's current one (-1: no such alert)."""

    alert_id: str
    done: bool
    version: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CaseNote:
    """A note of an analyst on an alert."""

    note_id: str
    alert_id: str
    at: datetime
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit: actor, action, target and time. The audit only grows."""

    number: int
    at: datetime
    by: str
    action: str  # alert.decide, alert.assign, suppression.create, token.create, login, ...
    target: str
    detail: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of the audit; an empty field does not restrict. `action` is an action (`alert.decide`) or its noun (`alert`)."""

    target: str = ""
    by: str = ""
    action: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class SavedView:
    """A filter of the queue, saved under a name. `query` is the query string of the queue's URL: `status=open&service=iam`."""

    owner: str
    name: str
    query: str


@dataclass(frozen=True, slots=True)
class SuppressionMatch:
    """A match of a suppression, which hides an alert if all of the alert's events match.

    An empty field does not restrict; not all may be empty.
    """

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
    """A suppression: hides alerts until a time, for a reason that its owner gave.

    It never hides the votes behind them. It hides confirmed attacks and critical alerts only if it was `forced`, with a reason.
    """

    suppression_id: str
    version: int
    match: SuppressionMatch
    reason: str
    owner: str
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    forced: str = ""  # reason to hide confirmed attacks and critical alerts; empty: it may not hide them
    hits: int = 0  # alerts that it matches or has matched
    last_hit: datetime | None = None


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A value of a match that no stored alert has: one may still come, or the value is misspelt and a `similar` one is meant."""

    field: str  # of SuppressionMatch
    value: str
    similar: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SuppressionPreview:
    """The stored alerts that a match would hide; if there are none, its values that no stored alert has (`unknown`)."""

    alerts: int
    open: int
    urgent: int  # with an urgency of 50 or more
    critical: int  # with an urgency of 75 or more: hidden only by force
    confirmed: int  # judged true positive: hidden only by force
    rows: tuple[QueueRow, ...]
    unknown: tuple[UnknownValue, ...] = ()


@dataclass(frozen=True, slots=True)
class ThresholdOverride:
    """A threshold override from the web app: the threshold of alerts (a z) and the quorum. It takes precedence over settings.

    None leaves a value to the settings. `cleared` removes the override.
    """

    number: int
    at: datetime
    by: str
    why: str
    threshold: float | None = None
    quorum: int | None = None
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class ThresholdEstimate:
    """The estimated effect of a threshold and a quorum on recent days: alerts a day, and attacks found.

    - `confirmed`: attacks that analysts confirmed; `found`: those of them that would still be found.
    - `sessions`: known attack sessions (`training.attack_injection`); `sessions_found`: those with a call whose autoencoder z
      reaches the threshold. Both are None without a bank.
    - `unmet`: why a wanted number of alerts a day cannot be met; `note`: what limits the estimate.
    """

    threshold: float
    quorum: int
    alerts_per_day: float
    confirmed: int
    found: int
    sessions: int | None = None
    sessions_found: int | None = None
    unmet: str = ""
    note: str = ""

    @property
    def session_share(self) -> float | None:
        """The share of the known attack sessions that is found; None without a bank or without sessions."""
        return (self.sessions_found or 0) / self.sessions if self.sessions else None


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """The status that a program reports.

    `lag` is the number of messages not read yet (None: unknown), `figures` are counts since it began, `trouble` is a sentence if
    something fails.
    """

    kind: str  # stream
    name: str  # of the process
    at: datetime
    lag: int | None = None
    figures: dict[str, int] = field(default_factory=dict)
    trouble: str = ""


def current_decisions(newest: Iterable[Disposition], evidence: Mapping[str, int]) -> dict[str, Decision]:
    """Return the decision in force on each closed alert, by id.

    `newest` are the newest dispositions of the alerts, `evidence` their current numbers of events. A duplicate has the decision
    of the other alert. Open alerts are left out: those without a decision, those that have grown since, and duplicates of such.

    Example:
        >>> one = Disposition("a1", "benign", "maria", "a new laptop", datetime(2026, 3, 4, tzinfo=UTC), events=3)
        >>> current_decisions([one], {"a1": 3})
        {'a1': 'benign'}
        >>> current_decisions([one], {"a1": 5})          # two events more than were judged: it is open again
        {}
    """
    return {alert_id: each.decision for alert_id, each in current_dispositions(newest, evidence).items()}


def current_dispositions(
    newest: Iterable[Disposition], evidence: Mapping[str, int]
) -> dict[str, Disposition]:
    """Return the disposition in force on each closed alert, by id: its own, or that of the alert that it duplicates."""
    valid = {each.alert_id: each for each in newest if evidence.get(each.alert_id, 0) <= each.events}
    found = {alert_id: _resolve_duplicate(alert_id, valid) for alert_id in valid}
    return {alert_id: each for alert_id, each in found.items() if each is not None}


def _resolve_duplicate(alert_id: str, newest: Mapping[str, Disposition]) -> Disposition | None:
    """Return the disposition at the end of a chain of duplicates; None if the chain is a circle or ends at an open alert."""
    passed: set[str] = set()
    while (each := newest.get(alert_id)) and each.decision == "duplicate":
        if alert_id in passed:
            return None
        passed.add(alert_id)
        alert_id = each.duplicate_of
    return each
