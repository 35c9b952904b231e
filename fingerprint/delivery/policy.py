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

from fingerprint.core.settings import Deliver
from fingerprint.delivery.notification import Happened

FIRST_WAIT = 5.0  # seconds after the first try that failed; each later wait is twice as long ...
LONGEST_WAIT = 3600.0  # ... up to this

State = Literal["waiting", "sent", "failed"]


class Stand(NamedTuple):
    """An alert as the desk has it now. `decided_at`: when it was judged, if that decision still covers all its events."""

    alert_id: str
    urgency: int
    events: int
    suppressed: bool = False
    decided_at: datetime | None = None


class Told(NamedTuple):
    """What a receiver has heard of an alert last."""

    events: int
    decided_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """`due_at`: before then it is not tried. `reason`: why the last try failed; `done_at`: when it was sent, or given up."""

    key: str
    receiver: str
    alert_id: str
    happened: Happened
    created_at: datetime
    due_at: datetime
    tries: int = 0
    state: State = "waiting"
    reason: str = ""
    done_at: datetime | None = None


def news_for(receiver: Deliver, now_is: Stand, told: Told | None) -> list[Happened]:
    """What has happened to an alert that this receiver is to hear of. Of what is suppressed, or not urgent enough yet, nothing:
    the first time that it is neither, it is new."""
    if told is None and (now_is.suppressed or now_is.urgency < receiver.least_urgency):
        return []
    decided = now_is.decided_at is not None and (told is None or now_is.decided_at != told.decided_at)
    happened: dict[Happened, bool] = {
        "new": told is None,
        "grown": told is not None and now_is.events > told.events and not now_is.suppressed,
        "decided": decided,
    }
    return [each for each, so in happened.items() if so and each in receiver.on]


def heard(now_is: Stand, told: Told | None) -> Told:
    """What the receiver has heard of when it was told that."""
    return Told(now_is.events, now_is.decided_at or (told.decided_at if told else None))


def key_of(receiver: str, now_is: Stand, happened: Happened) -> str:
    """The same for the same thing that happened to the same alert: 32 hexadecimal digits."""
    mark = {
        "new": "",
        "grown": str(now_is.events),
        "decided": now_is.decided_at.isoformat() if now_is.decided_at else "",
    }
    text = "\0".join((receiver, now_is.alert_id, happened, mark[happened]))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def wait(tries: int, draw: float, asked: float = 0.0) -> float:
    """Seconds until the next try after `tries` that failed: doubled each time, and of that a half to the whole (`draw`, 0 to 1),
    so that what failed together does not come back together. `asked`: what the receiver wants (Retry-After), within bounds."""
    whole = min(FIRST_WAIT * 2.0 ** min(tries - 1, 30), LONGEST_WAIT)
    return max(whole * (0.5 + draw / 2), min(asked, LONGEST_WAIT))


def next_try(
    receiver: Deliver, delivery: Delivery, now: datetime, draw: float, asked: float = 0.0
) -> datetime | None:
    """When to try again what has just failed; None where it is given up. The try that failed is not yet in `tries`."""
    tries = delivery.tries + 1
    again = now + timedelta(seconds=wait(tries, draw, asked))
    last = delivery.created_at + timedelta(seconds=receiver.give_up_seconds)
    return again if tries < receiver.tries and again <= last else None
