"""Delivery policy: which changes of an alert go to which receiver, and when a delivery is tried again. No I/O.

Example:
    >>> changes_to_deliver(receiver, status, known=None)        # urgent enough, and never sent to this receiver
    ['new']
    >>> round(retry_delay(tries=3, jitter=1.0))                 # seconds after the third attempt, with the longest jitter
    20

A *receiver* is an entry `[deliver.NAME]` of the settings. A *delivery* is one change of one alert for one receiver. Its key is a
hash of the three: a receiver that gets the same key again has it already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Literal, NamedTuple

from fingerprint.core.settings import ReceiverSettings
from fingerprint.delivery.notification import ChangeKind

MAX_ATTEMPTS = 60  # after which a delivery has failed, or after:
MAX_AGE = timedelta(days=3)
INITIAL_BACKOFF = 5.0  # seconds after the first failed attempt; each later wait is twice as long ...
MAX_BACKOFF = 3600.0  # ... up to this

DeliveryState = Literal["waiting", "sent", "failed"]


class AlertStatus(NamedTuple):
    """The current state of an alert.

    `decided_at` is set if the decision still covers all its events; `outgrown` is, if there is one that no longer does.
    `version` is its case's.
    """

    alert_id: str
    urgency: int
    events: int
    suppressed: bool = False
    decided_at: datetime | None = None
    outgrown: bool = False
    version: int = 0

    @property
    def has_hidden_growth(self) -> bool:
        """Return whether it is open again by nothing but what it grew by under a suppression."""
        return self.suppressed and self.outgrown


class ReceiverKnowledge(NamedTuple):
    """The state of an alert that a receiver was sent last."""

    events: int
    decided_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One change of one alert for one receiver.

    It is not tried before `due_at`; `reason` says why the last attempt failed; `done_at` is when it was sent or given up.
    """

    key: str
    receiver: str
    alert_id: str
    happened: ChangeKind
    created_at: datetime
    due_at: datetime
    tries: int = 0
    state: DeliveryState = "waiting"
    reason: str = ""
    done_at: datetime | None = None


def changes_to_deliver(
    receiver: ReceiverSettings, status: AlertStatus, known: ReceiverKnowledge | None
) -> list[ChangeKind]:
    """Return the changes of an alert that a receiver is to be sent.

    An alert that it does not know has none while it is suppressed or below `min_urgency`; the first time that it is neither, it
    is new. One that it knows is not updated while it is suppressed. A decision that is no longer in force is "decided", too: the
    alert is open then. If it is open because it grew, "updated" says so where that is wanted.
    """
    if known is None and (status.suppressed or status.urgency < receiver.min_urgency):
        return []
    updated = known is not None and status.events > known.events and not status.suppressed
    notified = updated and "updated" in receiver.notify_on
    happened: dict[ChangeKind, bool] = {
        "new": known is None,
        "updated": updated,
        "decided": _is_decided_again(status, known) or (_is_open_again(status, known) and not notified),
    }
    return [each for each, so in happened.items() if so and each in receiver.notify_on]


def _is_decided_again(status: AlertStatus, known: ReceiverKnowledge | None) -> bool:
    return status.decided_at is not None and (known is None or status.decided_at != known.decided_at)


def _is_open_again(status: AlertStatus, known: ReceiverKnowledge | None) -> bool:
    was_decided = known is not None and known.decided_at is not None
    return was_decided and status.decided_at is None and not status.has_hidden_growth


def knowledge_after(status: AlertStatus, known: ReceiverKnowledge | None) -> ReceiverKnowledge:
    """Return the state that a receiver knows once it was sent the alert's current one.

    It does not know what an alert grew while suppressed: that is delivered when the suppression has ended.
    """
    events = known.events if known and status.suppressed else status.events
    decided_at = known.decided_at if known and status.has_hidden_growth else status.decided_at
    return ReceiverKnowledge(events, decided_at)


def idempotency_key(receiver: str, status: AlertStatus, change: ChangeKind) -> str:
    """Return the same key for the same change of the same alert: 32 hexadecimal digits.

    A decision is known by its case's version, not by its time: one that is undone puts an earlier one, with its time, in force
    again, and a receiver drops what has a key that it knows. Events count as well: an alert that outgrows its decision is open
    again without a new version.
    """
    mark = {"new": "", "updated": f"{status.events}", "decided": f"{status.version}/{status.events}"}
    text = "\0".join((receiver, status.alert_id, change, mark[change]))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def retry_delay(tries: int, jitter: float, retry_after: float = 0.0) -> float:
    """Return the seconds until the next attempt after `tries` failed ones.

    They double with each attempt; of that, half to all is waited by `jitter` (0 to 1), so that deliveries which failed together
    do not come back together. `retry_after` is the receiver's wish in seconds, within bounds.
    """
    whole = min(INITIAL_BACKOFF * 2.0 ** min(tries - 1, 30), MAX_BACKOFF)
    return max(whole * (0.5 + jitter / 2), min(retry_after, MAX_BACKOFF))


def next_attempt(
    delivery: Delivery, now: datetime, jitter: float, retry_after: float = 0.0
) -> datetime | None:
    """Return when to try a delivery again that has just failed, or None to give up.

    The failed attempt is not yet counted in `delivery.tries`.
    """
    tries = delivery.tries + 1
    again = now + timedelta(seconds=retry_delay(tries, jitter, retry_after))
    last = delivery.created_at + MAX_AGE
    return again if tries < MAX_ATTEMPTS and again <= last else None
