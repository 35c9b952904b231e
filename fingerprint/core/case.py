"""Cases: the rows, filters and changes of the alert queue, and how an alert stands by its dispositions. Alerts are in `alert`.

Example:
    >>> own_alerts = AlertFilter(status="open", assignee="maria", least_urgency=50)
    >>> page = store.queue.page(own_alerts, order="urgency", size=50)
    >>> seen = [AlertRevision(row.alert_id, row.version, row.events) for row in page.rows]
    >>> store.cases.change(seen, SetDisposition("benign", "a migration"), by="maria")
    [ActionOutcome(alert_id='397edb7b6806', done=True, version=2, reason='')]

A *case* is the work on an alert: its assignee, its decision, and how often it was changed. An alert without any change has
version 0. It is *closed* while its newest disposition covers all of its events; one that has *grown* since is open again. An open
alert is *new* until a person assigns it, writes a note on it or says that it is *in progress*. It is new again only where a
person says so: who gives an alert back has looked at it.
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
# To group by
GroupField = Literal["principal", "service", "account", "tactic", "assignee", "level", "day", "human"]

Within = Literal["1h", "24h", "7d", "30d"]  # ages of an alert's last event

# Training learns from these
REASONED_DECISIONS: frozenset[Decision] = frozenset({"benign", "false_positive"})
MAX_PAGE_SIZE = 500
MAX_NOTE_LENGTH = 10_000  # characters
MAX_REASON_LENGTH = 2_000  # characters of why something was decided
MAX_TREND_DAYS = 366  # days of counts by day
MAX_GROUP_FIELDS = 3  # fields
MAX_QUORUM = 16  # votes; the settings say how many detectors there are
MIN_THRESHOLD, MAX_THRESHOLD = 1.0, 37.0  # below, every event passes; above, a double has no probability left


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """A filter of alerts. An empty field or None does not restrict; of `service`, `account` and `tactic` an alert has several."""

    status: CaseStatus = "open"
    least_urgency: int = 0
    most_urgency: int = 100
    principal: str = ""
    service: str = ""
    account: str = ""
    tactic: str = ""
    assignee: str | None = None  # "" asks for those without one
    decision: Decision | None = None
    level: Level | None = None
    q: str = ""  # a query of `alert_query`
    within: Within | None = None  # of the alert's last event: so long ago at most
    since: datetime | None = None  # of the alert's last event
    until: datetime | None = None  # of its first
    day: date | None = None  # of the alert's last event, in UTC: what groups and the trend count by
    suppressed: bool = False  # those that a suppression hides, instead of those that none does

    def total_in(self, counts: Mapping[str, int]) -> int | None:
        """Return how many alerts this filter finds, given its counts; None for suppressed ones, counted without status."""
        if self.suppressed:
            return None
        if self.status == "all" or (self.status == "open" and asks_status(self.q)):  # the query says which
            return counts["open"] + counts["closed"]
        return counts[self.status]


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
    stored_at: datetime  # when it came
    incident_id: str
    incident_size: int  # alerts of its incident, this one among them
    open: bool
    in_progress: bool = False  # while it is open: a person took it, wrote a note, or said so
    grown: int = 0  # events since it was judged
    assignee: str = ""
    decision: Decision | None = None
    notes: int = 0
    suppressed_by: str = ""  # a suppression's id
    actions: tuple[str, ...] = ()  # service:action; of each of these three at most some hundred
    addresses: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    rarity: int = 0
    impact: int = 0
    gravest_action: str = ""  # `service:Action` that counts most towards the impact, empty for none

    @property
    def status(self) -> Literal["new", "in_progress", "closed"]:
        """Return the status of its case."""
        return "closed" if not self.open else "in_progress" if self.in_progress else "new"


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
    """Alerts of one filter that share their values of up to three fields."""

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

    A decision covers the `events` it had then, so an alert that has grown stays open; None covers all that it has by now.
    """

    alert_id: str
    version: int
    events: int | None = None


class AlertChange(NamedTuple):
    """An alert that is new or has changed, and the number of its newest change: a later change has a higher one."""

    number: int
    alert_id: str


@dataclass(frozen=True, slots=True)
class SetDisposition:
    """Decide an alert: close it with a disposition."""

    decision: Decision
    why: str = ""
    duplicate_of: str = ""  # an alert's id, where the decision is `duplicate`


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
    """Say that an open alert is worked on, or that it is not."""

    status: WorkStatus


@dataclass(frozen=True, slots=True)
class UndoDecision:
    """Take the last decision on an alert back: it is as before, decided otherwise or not at all."""

    why: str = ""


CaseAction = SetDisposition | AssignCase | ReopenCase | UndoDecision | SetStatus


def lacks_reason(decision: str, why: str) -> bool:
    """Return whether a decision needs a reason and has none: a benign alert or a false positive teaches the detector.

    A true positive may be closed in haste; a duplicate names the other alert, which has the reason.
    """
    return decision in REASONED_DECISIONS and not why.strip()


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The outcome of one change. If it was not done, `reason` says why; `version` is the current one (-1: no such alert)."""

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
    """One line of the audit, which only grows: who changed what, of which alert, and when."""

    number: int
    at: datetime
    by: str
    action: str  # alert.decide, alert.assign, suppression.create, token.create, login, ...
    target: str
    detail: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of the audit; an empty field does not restrict. `action` is whole, or its noun: `alert`, `alert.decide`."""

    target: str = ""
    by: str = ""
    action: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class SavedView:
    """A filter that was saved under a name: the query of the queue's address, `status=open&service=iam`."""

    owner: str
    name: str
    query: str


@dataclass(frozen=True, slots=True)
class SuppressionMatch:
    """The alerts that a suppression hides: those all of whose events match.

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
    """Alerts that are hidden for a reason until a day, with the person who decided it.

    The votes behind them are never hidden; confirmed attacks and critical alerts only by one that was `forced`, with a reason.
    """

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
class UnknownValue:
    """A value of a match that no stored alert has: it may come later, or be a slip for one of those that are `similar`."""

    field: str  # of SuppressionMatch
    value: str
    similar: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SuppressionPreview:
    """The stored alerts that a match would hide; where it hides none, the values that none of them has."""

    alerts: int
    open: int
    urgent: int  # with an urgency of 50 or more
    critical: int  # with an urgency of 75 or more: these are hidden by force alone ...
    confirmed: int  # ... and so are those that were judged true positive
    rows: tuple[QueueRow, ...]
    unknown: tuple[UnknownValue, ...] = ()


@dataclass(frozen=True, slots=True)
class ThresholdOverride:
    """A threshold override from the web app, which goes before settings files: the threshold of alerts (a z), and a quorum.

    None leaves a value to the files. `cleared` removes the override.
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
    """The effect of a threshold and a quorum on the last days: alerts a day, and attacks found.

    `found` counts attacks that analysts `confirmed`. `sessions` counts known attack sessions (`training.attack_injection`) and
    `sessions_found` those with a call that reaches the threshold by the autoencoder's z; both are None without a bank. An
    estimate for a number of alerts a day says in `unmet` why that number cannot be met, and in `note` what limits it.
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
        """The share of the known attack sessions that is found; None without a bank, or without any."""
        return (self.sessions_found or 0) / self.sessions if self.sessions else None


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """The status of a program as it reports it.

    `lag` messages are not read yet (None: unknown), `figures` are counted since it began, `trouble` is a sentence where
    something fails.
    """

    kind: str  # stream
    name: str  # of the process
    at: datetime
    lag: int | None = None
    figures: dict[str, int] = field(default_factory=dict)
    trouble: str = ""


def current_decisions(newest: Iterable[Disposition], evidence: Mapping[str, int]) -> dict[str, Decision]:
    """Return the decision on each alert, by its id, given the newest disposition of each and how many events it has.

    A duplicate stands as the alert it is a duplicate of. Open alerts are left out: those without a decision, those that have
    grown since, and duplicates of such.

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
    """Return the disposition by which each alert stands, by its id: its own, or that of the alert it is a duplicate of."""
    valid = {each.alert_id: each for each in newest if evidence.get(each.alert_id, 0) <= each.events}
    found = {alert_id: _resolve_duplicate(alert_id, valid) for alert_id in valid}
    return {alert_id: each for alert_id, each in found.items() if each is not None}


def _resolve_duplicate(alert_id: str, newest: Mapping[str, Disposition]) -> Disposition | None:
    """Return the disposition at the end of a chain of duplicates; None where it ends at an open alert or is a circle."""
    passed: set[str] = set()
    while (each := newest.get(alert_id)) and each.decision == "duplicate":
        if alert_id in passed:
            return None
        passed.add(alert_id)
        alert_id = each.duplicate_of
    return each
