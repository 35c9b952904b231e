"""Records that the packages exchange: rejects, votes, alerts, dispositions, feed gaps.

Events are millions, so they travel as tables (one row an event, see `sources.base.EVENT_COLUMNS`); what is few travels as these
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
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from fingerprint.core.people import people_behind

DetectorName = str
Level = Literal["entity", "principal", "peer", "generic"]  # finest first
Rarity = Literal["unseen", "rare", "infrequent", "frequent"]
# Of the values seen; what is below both is rare.
LEAST_SHARE: dict[Rarity, float] = {"frequent": 0.1, "infrequent": 0.01}
CallPath = Literal["direct", "service"]
Decision = Literal["true_positive", "benign", "false_positive", "duplicate"]
Gravity = Literal["none", "minor", "notable", "grave", "severe"]  # least first
FeedKind = Literal["account", "region", "source"]
StepPhase = Literal["contain", "verify", "extent", "undo"]  # in the order of work

GRAVITIES: tuple[Gravity, ...] = get_args(Gravity)
GRAVE_OR_SEVERE: tuple[Gravity, ...] = ("grave", "severe")
MOVE_FEATURE = "another network"  # of the driver of a settled machine that is seen at another network
MANY_PRINCIPALS = 5  # a network that more of them used in the history is usual for others
ORDER_FEATURE = "next action"  # of a driver of the sequence detector
NOTHING_USUAL = "nothing yet"  # what a driver expects where no usual value is known
WEAK_VOTE_Z = 0.84  # a vote of a lower z, which one harmless event in five reaches, is a weak one
LEVELS: tuple[Level, ...] = get_args(Level)
ALERT_THRESHOLD_COLUMN = "alert_threshold"  # of a frame of events: the z that opens an alert
NEWCOMER_COLUMN = "newcomer"  # of a frame of events: whether some detector judged them by how newcomers began


def z_column(detector: DetectorName) -> str:
    """Return the column of a frame of events that holds a detector's z (NaN for no opinion)."""
    return f"{detector}_z"


def vote_column(detector: DetectorName) -> str:
    """Return the column of a frame of events that holds whether a detector voted."""
    return f"{detector}_vote"


def threshold_column(detector: DetectorName) -> str:
    """Return the column of a frame of events that holds the threshold that a detector's z was compared with."""
    return f"{detector}_threshold"


@dataclass(frozen=True, slots=True)
class Reject:
    """A message or record that could not be read.

    `position` is a line, an index in `Records`, or a byte offset. `count` is how many rejects it stands for: of one message or
    document only the first ones have a reject each.
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


MAX_VOTE_ACTION_LENGTH = 200  # characters; those of AWS have 80 at most, and an attacker may write any


@dataclass(frozen=True, slots=True)
class Vote:
    """One detector's z of one event or interval (high is unusual), the threshold it was compared with, and whether it voted.

    `bank_version` is that of the bank that measured the event, or that judged the interval when it closed. `alone`: no other
    detector had an opinion, or but one on how newcomers begin. The `event_id` of an interval is a digest, which no event has.
    `action` is that of the event, `s3:GetObject`: at most MAX_VOTE_ACTION_LENGTH characters of it, empty for an interval.
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


VOTE_COLUMNS = tuple(Vote.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class SurpriseDriver:
    """One feature that drove the loss: the value that was seen, the expected ones, and how rare it is here.

    `surprise` is the loss of the feature in nats above what is usual for the fingerprint; `events` counts the alert's
    events that share it. `peers` is how rare it is in the principal's peer group, None without one. `fingerprint` is the key of
    the fingerprint that `expected` and `rarity` are of, empty where a detector asks none. `principals` is how many principals of
    the history showed the value; of a network, how many did the rarest of the address ranges that the events came from.
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
        """Return whether a value surprises more than its share explains: it is usual, but not with the rest of the call.

        >>> SurpriseDriver("program", "Boto3 linux", "Boto3 linux, Terraform linux", "frequent", 4.1).unusual_together
        True
        """
        return self.surprise > -math.log(LEAST_SHARE[self.rarity]) if self.rarity in LEAST_SHARE else False


def rarity_of(share: float) -> Rarity:
    """Return how rare a value is that has such a share of those seen."""
    if share == 0:
        return "unseen"
    return next((rarity for rarity, least in LEAST_SHARE.items() if share >= least), "rare")


@dataclass(frozen=True, slots=True)
class ActionImpact:
    """One action of an alert that can do harm: what it does, and how often it was called, failed, and on which resources.

    `action` is `service:Action`, `effect` completes "the call ..." ("stops or removes an audit log"). `tactic` and `technique`
    are MITRE ATT&CK's, empty where none fits. `new`: the principal never called it before, or gave a right by it to an account
    that no one dealt with, or did harm by it as never before (`alerting.novel_impact`). `new_place`: it came from a network that
    is new for the principal. `calls` counts its events in the alert, `failed` those of them that were refused or failed.
    `resources` are the first few, `type:name`, with the accounts that it lies `in` or is opened `for`; of a call that names no
    resource, whom it is `for` alone. `supporting`: the calls are those of events that support the alert, beside any row of its
    own events, and count only where they are grave, new and succeeded (`alerting.impact`). `in_bulk`: it reads data or secrets,
    and the principal never read as much. `dry_run`: its calls only asked whether they may, and may: `failed` counts them, for
    none was carried out, and none was refused. `gravity_at_home`: its gravity had its credential been used where it belongs; None
    where it was, else `gravity` is grave at least.
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
        """Return whether its credential was used outside of its networks."""
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
    """Return what follows a call that was made on resources, or opened something for accounts; empty for none.

    >>> on_resources(["bucket:logs", "bucket:cards"]), on_resources(["for account 210987654321"])
    (' on bucket:logs, bucket:cards', ' for account 210987654321')
    """
    if not resources:
        return ""
    return f"{' ' if resources[0].startswith('for ') else ' on '}{', '.join(resources)}"


@dataclass(frozen=True, slots=True)
class NextStep:
    """One step of the response: its phase, one or two sentences, and commands to copy, empty where a person acts.

    Commands are for a POSIX shell; what comes from a record is quoted in them.
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

    `resource` is what the call touched, `type:name`, empty where the record names nothing. `scores` maps each detector that was
    asked to its z, None where it had no opinion. `flagged_by` are the detectors that voted for it, and `thresholds` maps each
    detector to what its z was compared with: lower beside another detector's z that opens an alert. `raw` is the record as AWS
    wrote it, JSON text.
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
        """Return the service that made the call for its caller: its domain stands in place of an address; empty for their own."""
        return service_at(self.source_address)

    def has_weak_vote(self, detector: DetectorName) -> bool:
        """Return whether a detector voted for a z that is usual by itself: enough beside another one that is very rare."""
        z = self.scores.get(detector)
        return detector in self.flagged_by and z is not None and z < WEAK_VOTE_Z

    @property
    def weak_votes(self) -> tuple[DetectorName, ...]:
        """Return the detectors of `flagged_by` whose vote is a weak one."""
        return tuple(filter(self.has_weak_vote, self.flagged_by))


def service_at(place: str) -> str:
    """Return the service whose domain stands in place of an address or a network; empty for a place.

    >>> service_at("athena.amazonaws.com")
    'athena.amazonaws.com'
    >>> service_at("198.51.100.0/24")
    ''
    """
    return place if place.rpartition(".")[2].isalpha() and "." in place and " " not in place else ""


@dataclass(frozen=True, slots=True)
class Alert:
    """Verdicts of one principal in one run of intervals, explained: what the analyst reads.

    `alert_id` is a hash of principal and first interval, so scoring again overwrites instead of repeating. `urgency`, 0 to 100,
    ranks it and makes its severity; it combines `rarity` (how unlikely its events are by chance) and `impact` (what its new calls
    can do), 0 to 100 each. `impact_of` are the gravest actions behind the impact and of supporting events, the gravest first.
    `supporting_events` have no verdict: a detector voted for them in an hour with one. They are few, have no records, and add
    nothing to the rarity; the next steps undo what they did. `bank_version` is that of the bank that measured its newest
    event. `degraded`: some losses were computed in process, because the inference server was unavailable; they are the same
    to 1e-4.
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
        """Return the persons or the machine behind it, the one behind the call that leads the title first; empty for none."""
        return people_behind(self.human, self.events)

    @property
    def highest_scores(self) -> dict[DetectorName, float]:
        """Return the highest z of each detector over the events; a detector without an opinion on any of them is left out."""
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

    @property
    def weak_votes(self) -> tuple[DetectorName, ...]:
        """Return the detectors of `flagged_by` all of whose votes are weak ones."""
        full = {name for event in self.events for name in event.flagged_by if name not in event.weak_votes}
        return tuple(name for name in self.flagged_by if name not in full)


def alert_fields(alert: Alert) -> dict[str, Any]:
    """Return an alert for JSON: its fields, and of each event its `weak_votes` beside `flagged_by`."""
    import msgspec  # what lists alerts starts without it

    fields: dict[str, Any] = msgspec.to_builtins(replace(alert, events=(), supporting_events=()))
    for name in ("events", "supporting_events"):
        fields[name] = list(map(event_fields, getattr(alert, name)))
    return fields


def event_fields(event: AlertEvent) -> dict[str, Any]:
    """Return an event for JSON: its fields, and its `weak_votes` beside `flagged_by`."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(event)
    return fields | {"weak_votes": event.weak_votes}


@dataclass(frozen=True, slots=True)
class CredentialIssue:
    """A call that issued credentials: `issued_key` is the access key of the session it began, the rest is the caller's."""

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

    `events` is how many events the alert had when it was decided; one that has grown since is open again. `duplicate_of` is the
    id of the other alert, where the decision is `duplicate`.
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
    """A feed (an account, a region of it, a source) from which no event comes although many were expected.

    `notice_id` is a hash of the feed and the first silent interval. `since` is that interval's start; `expected` events were
    missed up to `seen_at`, the end of the interval last examined; `hourly` is how many usually come in an hour. `ending` is empty
    while the feed is silent; then `heard again`, or `given up` when its past is too long ago to expect anything, and `ended_at`
    is when.
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


# From 50 on is what harmless surprises hardly ever reach (docs/explanation/experiments.md, "Ranking and impact").
SEVERITY_LEVELS = ((75, "critical"), (50, "high"), (35, "medium"), (0, "low"))
MINIMUM_URGENCY = {word: least for least, word in SEVERITY_LEVELS}  # the urgency from which a word holds


def severity_of(urgency: int) -> str:
    """Return the severity of an urgency of 0 to 100."""
    return next(word for least, word in SEVERITY_LEVELS if urgency >= least or least == 0)
