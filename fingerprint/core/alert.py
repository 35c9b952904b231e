"""The nouns of the house as frozen records; the README's vocabulary says what each word means.

Events travel as tables (one row an event, see `flatten.COLUMNS`), because they are millions; what is few (rejects, votes
that were kept, alerts) travels as these records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from fingerprint.core.credentials import mask_credentials

Detector = str
Level = Literal["entity", "principal", "peer", "generic"]
Rarity = Literal["unseen", "rare", "infrequent", "frequent"]
CallPath = Literal["direct", "service"]
Decision = Literal["true_positive", "benign", "false_positive", "duplicate"]

LEVELS: tuple[Level, ...] = ("entity", "principal", "peer", "generic")  # finest first


class FingerprintError(Exception):
    """Something the person at the keyboard can mend: shown as one sentence, exit status 2, never as a traceback. A password or
    token in a URL is not part of the sentence, whoever wrote it."""

    def __str__(self) -> str:
        return mask_credentials(super().__str__())


class NotFound(FingerprintError):
    """What was asked for by its id or name is not there (any more)."""


class Conflict(FingerprintError):
    """Somebody else changed it since it was looked at: look again, then decide."""


class ServerUnavailable(FingerprintError):
    """A server that this program needs does not answer: try again in a while."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A message or record that could not be read. `position` is a line, an index in `Records`, or a byte offset. `count` is how
    many it stands for: of one message or document only the first have a reject each."""

    source: str
    position: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Vote:
    """One detector's opinion of one event: z (high is strange) against the threshold it was held to, by the bank that measured
    the event; of an interval, by the one that judged when it closed. `alone`: no other detector had an opinion."""

    event_id: str
    event_time: datetime
    principal: str
    entity: str
    detector: Detector
    z: float
    threshold: float
    vote: bool
    level: Level
    bank_version: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class SurpriseDriver:
    """One feature that drove the loss: what was seen beside what was expected, and how rare that is here.

    `surprise` is the loss of the feature in nats above what is usual for the fingerprint; `events` counts the alert's
    events that share it. `peers` is how rare it is among those that resemble the principal, None where nothing is known of
    them.
    """

    feature: str
    seen: str
    expected: str
    rarity: Rarity
    surprise: float
    events: int = 1
    peers: Rarity | None = None


@dataclass(frozen=True, slots=True)
class ActivityCurve:
    """An entity's activity in one channel: counts and expected counts per interval, oldest first, same length.

    `flagged` holds the indices of intervals in which the spectral detector voted.
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
    """One event of an alert as the analyst reads it. `raw` is the record as AWS wrote it, JSON text."""

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
    autoencoder_z: float | None
    spectral_z: float | None
    raw: str
    bank_version: str = ""  # of the bank that measured it
    access_key: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """Verdicts of one principal in one window of event time, explained: what the analyst reads.

    `alert_id` is a hash of principal and window, so scoring again overwrites instead of repeating. `urgency` is 0 to 100.
    `bank_version`: of the bank that measured its newest event.
    `degraded`: some losses were measured in process, because the server that should have was away; they are the same to 1e-4.
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
    next_steps: tuple[str, ...] = ()
    events: tuple[AlertEvent, ...] = field(default=())
    degraded: bool = False

    @property
    def event_ids(self) -> tuple[str, ...]:
        return tuple(event.event_id for event in self.events)


@dataclass(frozen=True, slots=True)
class CredentialIssue:
    """A call that handed out credentials: `issued_key` is the access key of the session it began, `access_key` that of who
    called, and `principal` and `human` are who called."""

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
    """What an analyst says of an alert, when, and why. The newest one of an alert counts.

    `events`: so many events the alert had when it was judged; one that has grown since is open again. `duplicate_of` is the
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
    """A feed (an account, a region of it, a source) from which nothing comes although much was expected.

    `notice_id` is a hash of the feed and the first silent interval: one silence is one notice. `since` is that interval's start;
    `expected` events were missed up to `seen_at`, the end of the interval last looked at; `hourly` is how many usually come in
    an hour. `ending` is empty while it is silent; then `heard again`, or `given up` when its past is too long ago to expect
    anything, and `ended_at` says when.
    """

    notice_id: str
    kind: Literal["account", "region", "source"]
    feed: str
    since: datetime
    seen_at: datetime
    expected: float
    hourly: float
    urgency: int
    title: str
    ended_at: datetime | None = None
    ending: str = ""


# From 50 on is what harmless surprises hardly ever reach (docs/explanation/detection.md).
SEVERITY_LEVELS = ((75, "critical"), (50, "high"), (35, "medium"), (0, "low"))
MINIMUM_URGENCY = {word: least for least, word in SEVERITY_LEVELS}  # the urgency from which a word holds


def severity_of(urgency: int) -> str:
    """The word for an urgency of 0 to 100."""
    return next(word for least, word in SEVERITY_LEVELS if urgency >= least or least == 0)
