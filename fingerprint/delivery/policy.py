"""Who is told what, when it is tried again, and when it is given up: rules without a clock, a network or a table.

Example:
    >>> news_for(receiver, now_is, told=None)                   # it is urgent enough, and this receiver never heard of it
    ['new']
    >>> round(wait(tries=3, draw=1.0))                          # seconds after the third try; between half of it and it
    20

A *receiver* is one entry `[deliver.NAME]` of the settings. A *delivery* is one thing that happened to one alert, for one
receiver. Its key is a hash of the three: whoever gets the same key again has it already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Literal, NamedTuple

from fingerprint.core.settings import ReceiverSettings
from fingerprint.delivery.notification import ChangeKind

MAX_ATTEMPTS = 60  # after which a delivery has failed; max_age_seconds bounds it for operators
INITIAL_BACKOFF = 5.0  # seconds after the first try that failed; each later wait is twice as long ...
MAX_BACKOFF = 3600.0  # ... up to this

DeliveryState = Literal["waiting", "sent", "failed"]


class AlertStatus(NamedTuple):
    """An alert as the desk has it now. `decided_at`: when it was judged, if that decision still covers all its events."""

    alert_id: str
    urgency: int
    events: int
    suppressed: bool = False
    decided_at: datetime | None = None


class ReceiverKnowledge(NamedTuple):
    """What a receiver has heard of an alert last."""

    events: int
    decided_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """`due_at`: before then it is not tried. `reason`: why the last try failed; `done_at`: when it was sent, or given up."""

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
    """What has happened to an alert that this receiver is to hear of. Of what is suppressed, or not urgent enough yet, nothing:
    the first time that it is neither, it is new."""
    if known is None and (status.suppressed or status.urgency < receiver.min_urgency):
        return []
    decided = status.decided_at is not None and (known is None or status.decided_at != known.decided_at)
    happened: dict[ChangeKind, bool] = {
        "new": known is None,
        "updated": known is not None and status.events > known.events and not status.suppressed,
        "decided": decided,
    }
    return [each for each, so in happened.items() if so and each in receiver.notify_on]


def knowledge_after(status: AlertStatus, known: ReceiverKnowledge | None) -> ReceiverKnowledge:
    """What the receiver has heard of when it was told that."""
    return ReceiverKnowledge(status.events, status.decided_at or (known.decided_at if known else None))


def idempotency_key(receiver: str, status: AlertStatus, change: ChangeKind) -> str:
    """The same for the same thing that happened to the same alert: 32 hexadecimal digits."""
    mark = {
        "new": "",
        "updated": str(status.events),
        "decided": status.decided_at.isoformat() if status.decided_at else "",
    }
    text = "\0".join((receiver, status.alert_id, change, mark[change]))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def retry_delay(tries: int, jitter: float, retry_after: float = 0.0) -> float:
    """Seconds until the next try after `tries` that failed: doubled each time, and of that a half to the whole (`draw`, 0 to 1),
    so that what failed together does not come back together. `asked`: what the receiver wants (Retry-After), within bounds."""
    whole = min(INITIAL_BACKOFF * 2.0 ** min(tries - 1, 30), MAX_BACKOFF)
    return max(whole * (0.5 + jitter / 2), min(retry_after, MAX_BACKOFF))


def next_attempt(
    receiver: ReceiverSettings, delivery: Delivery, now: datetime, jitter: float, retry_after: float = 0.0
) -> datetime | None:
    """When to try again what has just failed; None where it is given up. The try that failed is not yet in `tries`."""
    tries = delivery.tries + 1
    again = now + timedelta(seconds=retry_delay(tries, jitter, retry_after))
    last = delivery.created_at + timedelta(seconds=receiver.max_age_seconds)
    return again if tries < MAX_ATTEMPTS and again <= last else None
