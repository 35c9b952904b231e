"""Records that the packages exchange: rejects, votes, alerts, dispositions, feed gaps.

Events are millions, so they travel as tables (one row an event, see `sources.base.EVENT_COLUMNS`). Rare things travel as these
frozen records.

Example:
    >>> event.scores
    {'autoencoder': 9.0, 'spectral': None}
    >>> z_column("autoencoder"), vote_column("autoencoder")
    ('autoencoder_z', 'autoencoder_vote')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from fingerprint.core.people import people_behind

DetectorName = str
Level = Literal["entity", "principal", "peer", "generic"]  # finest first
Rarity = Literal["unseen", "rare", "infrequent", "frequent"]
# Least share of all values seen; a value with a smaller share than both is rare.
LEAST_SHARE: dict[Rarity, float] = {"frequent": 0.1, "infrequent": 0.01}
CallPath = Literal["direct", "service"]
Decision = Literal["true_positive", "benign", "false_positive", "duplicate"]
Gravity = Literal["none", "minor", "notable", "grave", "severe"]  # least first
FeedKind = Literal["account", "region", "source"]
StepPhase = Literal["contain", "verify", "extent", "undo"]  # in the order of work

GRAVITIES: tuple[Gravity, ...] = get_args(Gravity)
GRAVE_OR_SEVERE: tuple[Gravity, ...] = ("grave", "severe")
MOVE_FEATURE = "another network"  # feature of a driver: a machine that never moved is seen at another network
MANY_PRINCIPALS = 5  # if more principals used a network in the history, it is usual for others
ORDER_FEATURE = "next action"  # feature of the sequence detector's drivers
NOTHING_USUAL = "nothing yet"  # expectation of a driver if no usual value is known
LEVELS: tuple[Level, ...] = get_args(Level)
ALERT_THRESHOLD_COLUMN = "alert_threshold"  # column of an event table: the z that opens an alert
# Column of an event table: whether some detector compared the event with the first events of other principals
NEWCOMER_COLUMN = "newcomer"


def z_column(detector: DetectorName) -> str:
    """Return the name of the event table's column with a detector's z (NaN for no opinion)."""
    return f"{detector}_z"


def vote_column(detector: DetectorName) -> str:
    """Return the name of the event table's column that says whether a detector voted."""
    return f"{detector}_vote"


def threshold_column(detector: DetectorName) -> str:
    """Return the name of the event table's column with the threshold for a detector's z."""
    return f"{detector}_threshold"


@dataclass(frozen=True, slots=True)
class Reject:
    """A message or record that could not be read.

    `position` is a line, an index in `Records`, or a byte offset. `count` is the number of unreadable records that it stands for:
    only the first ones of a message or document have a reject each.
    """

    source: str
    position: str
    reason: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.source} {self.position}: {self.reason}"


class AlertSpan(NamedTuple):
    """The principal of an alert, and the times of its first and last event."""

    principal: str
    first_event_time: datetime
    last_event_time: datetime


MAX_VOTE_ACTION_LENGTH = 200  # characters; AWS's have at most 80, but an attacker may write longer ones


@dataclass(frozen=True, slots=True)
class Vote:
    """One detector's z of one event or interval (high is unusual), its threshold, and whether the detector voted.

    - `event_id`: for an interval, a digest that no event has.
    - `bank_version`: the bank that measured the event, or that judged the interval when it closed.
    - `alone`: no other detector had an opinion, except one that compares with how newcomers begin.
    - `action`: the event's, such as `s3:GetObject`, cut to MAX_VOTE_ACTION_LENGTH characters; empty for an interval.
    - `reach`: the highest threshold of alerts at which the event opens an alert, by which leads are found. None (NaN in tables)
      below `ensemble.MIN_REACH`, where a verdict lacks votes, and for a detector whose z opens no alert.
    """

    event_id: str
    event_time: datetime
    principal: str
    entity: str
    detector: DetectorName
    z: float
    threshold: float
    vote: bool
    level: Level
    bank_version: str = ""
    alone: bool = False
    action: str = ""
    reach: float | None = None


VOTE_COLUMNS = tuple(Vote.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class SurpriseDriver:
    """One feature that drove the loss: the value seen, the expected values, and the rarity of the value seen.

    - `surprise`: the loss of the feature, in nats above what is usual for the fingerprint.
    - `events`: the number of the alert's events that share it.
    - `peers`: the rarity of the value in the principal's peer group, None without a group.
    - `fingerprint`: the key of the fingerprint behind `expected` and `rarity`, empty if the detector uses none.
    - `principals`: the number of principals with this value in the history; for a network, that of the rarest address range
      among those that the events came from.
    """

    feature: str
    seen: str
    expected: str
    rarity: Rarity
    surprise: float
    events: int = 1
    peers: Rarity | None = None
    fingerprint: str = ""
    principals: int = 0

    @property
    def unusual_together(self) -> bool:
        """Return whether a value surprises more than its share explains: usual by itself, unusual with the rest of the call.

        >>> SurpriseDriver("program", "Boto3 linux", "Boto3 linux, Terraform linux", "frequent", 4.1).unusual_together
        True
        """
        return self.surprise > -math.log(LEAST_SHARE[self.rarity]) if self.rarity in LEAST_SHARE else False


def rarity_of(share: float) -> Rarity:
    """Return the rarity of a value, given its share of all values seen (0 to 1)."""
    if share == 0:
        return "unseen"
    return next((rarity for rarity, least in LEAST_SHARE.items() if share >= least), "rare")


@dataclass(frozen=True, slots=True)
class ActionImpact:
    """One action of an alert that can do harm: its effect, how often it was called and failed, and on which resources.

    - `action`: `service:Action`.
    - `effect`: completes "the call ..." ("stops or removes an audit log").
    - `tactic`, `technique`: of MITRE ATT&CK, empty if none fits.
    - `calls`: its events in the alert; `failed`: those of them that were refused or failed.
    - `new`: the principal never called it before, or gave by it a right to an account that no one dealt with, or did harm by it
      as never before (`alerting.novel_impact`).
    - `new_place`: it came from a network that is new for the principal.
    - `resources`: the first few, `type:name`, with the account that a resource lies `in` or is opened `for`. If the call names no
      resource, only the account that it is `for`.
    - `supporting`: the calls belong to supporting events; the alert's own events of the action have an entry of their own. Such
      calls count only if they are grave, new and succeeded (`alerting.impact`).
    - `in_bulk`: it reads data or secrets, and the principal never read as much.
    - `dry_run`: its calls only asked whether they are permitted, and they are. None was carried out, so `failed` counts them,
      although none was refused.
    - `gravity_at_home`: the gravity that the action would have if its credential had been used in its own networks; None if it
      was used there. If it was not, `gravity` is at least grave.
    """

    action: str
    gravity: Gravity
    effect: str
    tactic: str
    technique: str
    calls: int
    failed: int
    new: bool
    new_place: bool
    resources: tuple[str, ...] = ()
    supporting: bool = False
    in_bulk: bool = False
    dry_run: bool = False
    gravity_at_home: Gravity | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Return whether its credential was used outside its own networks."""
        return self.gravity_at_home is not None

    @property
    def gravity_anywhere(self) -> Gravity:
        """Return the gravity of its calls, wherever they came from."""
        return self.gravity if self.gravity_at_home is None else self.gravity_at_home

    @property
    def is_unusual(self) -> bool:
        """Return whether it is new, from a new network, or more than the principal ever read."""
        return self.new or self.new_place or self.in_bulk

    @property
    def succeeded(self) -> bool:
        """Return whether any of its calls succeeded."""
        return self.failed < self.calls


def on_resources(resources: Sequence[str]) -> str:
    """Return the words after a call that name its resources, or the accounts that it opened something for; empty for none.

    >>> on_resources(["bucket:logs", "bucket:cards"]), on_resources(["for account 210987654321"])
    (' on bucket:logs, bucket:cards', ' for account 210987654321')
    """
    if not resources:
        return ""
    return f"{' ' if resources[0].startswith('for ') else ' on '}{', '.join(resources)}"


@dataclass(frozen=True, slots=True)
class NextStep:
    """One step of the response: its phase, one or two sentences, and commands to copy (empty if a person must act).

    Commands are for a POSIX shell; values from a record are quoted.
    """

    phase: StepPhase
    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class ActivityCurve:
    """An entity's activity in one channel: counts and expected counts per interval, oldest first, same length.

    `flagged` holds the indices of the intervals that had a vote.
    """

    entity: str
    channel: str
    start: datetime
    interval_seconds: int
    counts: tuple[float, ...]
    expected: tuple[float, ...]
    flagged: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AlertEvent:
    """One event of an alert as the analyst reads it.

    - `resource`: the resource of the call, `type:name`; empty if the record names none.
    - `scores`: the z of each detector that was asked, None if it had no opinion.
    - `flagged_by`: the detectors that voted for the event.
    - `thresholds`: the threshold of each detector's z; it is lower if another detector's z is high enough to open an alert.
    - `raw`: the record as AWS wrote it, JSON text.
    """

    event_id: str
    event_time: datetime
    entity: str
    service: str
    action: str
    region: str
    source_address: str
    user_agent: str
    error_code: str
    session: str
    scores: Mapping[DetectorName, float | None] = field(hash=False)
    raw: str
    bank_version: str = ""  # of the bank that measured it
    access_key: str = ""
    resource: str = ""
    flagged_by: tuple[DetectorName, ...] = ()
    thresholds: Mapping[DetectorName, float] = field(default_factory=dict, hash=False)

    @property
    def action_name(self) -> str:
        """Return its action as people and tables name it: `service:Action`."""
        return f"{self.service}:{self.action}"

    @property
    def by_service(self) -> str:
        """Return the service that made the call for its caller, whose domain is in the address field; empty if none did."""
        return service_at(self.source_address)


def service_at(place: str) -> str:
    """Return the text if it is the domain of a service, which a record may have instead of an address; else empty.

    >>> service_at("athena.amazonaws.com")
    'athena.amazonaws.com'
    >>> service_at("198.51.100.0/24")
    ''
    """
    return place if place.rpartition(".")[2].isalpha() and "." in place and " " not in place else ""


@dataclass(frozen=True, slots=True)
class Alert:
    """The verdicts of one principal in one run of intervals, explained for the analyst.

    - `alert_id`: a hash of principal and first interval, so scoring again overwrites the alert instead of repeating it.
    - `urgency`, 0 to 100: ranks the alert and gives its severity. It combines `rarity` (how unlikely its events are by chance)
      and `impact` (what its new calls can do), 0 to 100 each.
    - `impact_of`: the gravest actions of its events and of supporting events, the gravest first.
    - `supporting_events`: events without a verdict that a detector voted for in an hour with a verdict. They are few, have no
      records, and add nothing to the rarity; the next steps undo their effects.
    - `bank_version`: the bank that measured its newest event.
    - `degraded`: some losses were computed in process, because the inference server was unavailable; they agree to 1e-4.
    """

    alert_id: str
    principal: str
    human: str
    window_start: datetime
    first_event_time: datetime
    last_event_time: datetime
    urgency: int
    title: str
    level: Level
    bank_version: str
    drivers: tuple[SurpriseDriver, ...] = ()
    curve: ActivityCurve | None = None
    tactics: tuple[str, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    events: tuple[AlertEvent, ...] = field(default=())
    degraded: bool = False
    rarity: int = 0
    impact: int = 0
    impact_of: tuple[ActionImpact, ...] = ()
    supporting_events: tuple[AlertEvent, ...] = ()

    @property
    def event_ids(self) -> tuple[str, ...]:
        """Return the ids of its events."""
        return tuple(event.event_id for event in self.events)

    @property
    def people(self) -> str:
        """Return the persons or the machine behind it, empty for none. The one behind the call in the title comes first."""
        return people_behind(self.human, self.events)

    @property
    def highest_scores(self) -> dict[DetectorName, float]:
        """Return each detector's highest z over the events, without detectors that had no opinion on any event."""
        highest: dict[DetectorName, float] = {}
        for event in self.events:
            for name, z in event.scores.items():
                if z is not None:
                    highest[name] = max(z, highest.get(name, z))
        return highest

    @property
    def flagged_by(self) -> tuple[DetectorName, ...]:
        """Return the detectors that voted for any of its events."""
        return tuple(dict.fromkeys(name for event in self.events for name in event.flagged_by))


@dataclass(frozen=True, slots=True)
class CredentialIssue:
    """A call that issued credentials. `issued_key` is the access key of the new session; all other fields are the caller's."""

    issued_key: str
    at: datetime
    event_id: str
    action: str
    principal: str
    human: str
    access_key: str
    source_address: str
    region: str


@dataclass(frozen=True, slots=True)
class Disposition:
    """An analyst's decision on an alert, when, and why. The newest one of an alert counts.

    `events` is the number of events that the alert had at the decision; if it has grown since, it is open again. `duplicate_of`
    is the id of the other alert if the decision is `duplicate`.
    """

    alert_id: str
    decision: Decision
    by: str
    why: str
    at: datetime
    events: int
    duplicate_of: str = ""


@dataclass(frozen=True, slots=True)
class FeedGap:
    """A gap of a feed (an account, a region of it, a source): no event came although many were expected.

    - `notice_id`: a hash of the feed and the first interval of the gap.
    - `since`: the start of that interval.
    - `expected`: the number of events missed up to `seen_at`, the end of the interval examined last.
    - `hourly`: the usual number of events in an hour.
    - `ending`: empty while the gap lasts; `heard again` when events come again; `given up` when the feed's past is too long ago
      to expect anything. `ended_at` is when the gap ended.
    """

    notice_id: str
    kind: FeedKind
    feed: str
    since: datetime
    seen_at: datetime
    expected: float
    hourly: float
    urgency: int
    title: str
    ended_at: datetime | None = None
    ending: str = ""


# Harmless surprises hardly ever reach 50 (docs/explanation/experiments.md, "Ranking and impact").
SEVERITY_LEVELS = ((75, "critical"), (50, "high"), (35, "medium"), (0, "low"))
MINIMUM_URGENCY = {word: least for least, word in SEVERITY_LEVELS}  # the least urgency of each severity


def severity_of(urgency: int) -> str:
    """Return the severity of an urgency of 0 to 100."""
    return next(word for least, word in SEVERITY_LEVELS if urgency >= least or least == 0)
