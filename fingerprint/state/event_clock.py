"""Find how far event time has come from the events alone, so that no single record can move it far.

Example:
    >>> times, principals = np.array([100, 160, 999_999]), np.array([1, 2, 3], np.uint64)
    >>> confirmed_watermark(times, principals, ConfirmationRule(100, 20, 3600, needs_two_principals=True))
    160

Files have no arrival times, so only the events say how far time has come. Taking the latest event would be wrong: one record
dated days ahead would close every interval before it. Two rules move the clock:

- An instant is believed once `CONFIRMATIONS` events of at least two principals lie at it or later. One principal is enough if
  only one was seen for long.
- From there the clock follows each event that lies within one interval of the one before, so a single record moves it by at most
  one interval.

Events ahead of the clock are kept, at most `CONFIRMATIONS` of them, until others confirm them. They are dropped if
`MAX_PENDING_AGE` events came without doing so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Longs, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.core.time_range import DAY_SECONDS

CONFIRMATIONS = 20  # events that together confirm an instant
MAX_PENDING_AGE = 1_000  # later events after which an event ahead of the clock is forgotten
MAX_PAUSE_SECONDS = 7 * DAY_SECONDS  # after which one principal alone does not continue a history


class ConfirmationRule(NamedTuple):
    """The rule by which events move the watermark.

    - `watermark`: its present value
    - `required_events`: how many events confirm an instant
    - `max_step`: seconds; the clock follows an event that lies within these of the one before
    - `needs_two_principals`: whether the events that confirm must be of two principals
    """

    watermark: int
    required_events: int
    max_step: int
    needs_two_principals: bool


def confirmed_watermark(times: Longs, principals: Hashes, rule: ConfirmationRule) -> int:
    """Return the watermark, seconds since 1970, after events at `times` (n,) of `principals` (n,)."""
    order = np.argsort(-times, kind="stable")
    latest, who = times[order], principals[order]
    base = rule.watermark
    others = np.flatnonzero(who != who[:1])
    if len(latest) >= rule.required_events and (len(others) or not rule.needs_two_principals):
        confirmed = latest[rule.required_events - 1]
        base = max(base, int(min(confirmed, latest[others[0]]) if rule.needs_two_principals else confirmed))
    ahead = latest[::-1][latest[::-1] > base]
    leaps = np.flatnonzero(np.diff(ahead, prepend=base) > rule.max_step)
    followed = ahead[: leaps[0]] if len(leaps) else ahead
    return int(followed[-1]) if len(followed) else base


def confirmations_needed(events: int) -> int:
    """Return how many of the first `events` must confirm an instant: a tenth of them, from 1 to CONFIRMATIONS."""
    return min(max(events // 10, 1), CONFIRMATIONS)


def two_principals_needed(times: Longs, principals: Hashes) -> bool:
    """Return whether two principals must confirm the end of a history, from its latest events (n,), oldest first.

    They must, unless the history has only one principal, or one continued alone, as in a small account: with at least
    CONFIRMATIONS events on more than one day, and no pause of a week (MAX_PAUSE_SECONDS).
    """
    start = int(np.max(np.flatnonzero(principals != principals[-1]), initial=-1)) + 1
    if not start:
        return False
    alone, pauses = times[start:], np.diff(times[start - 1 :])
    goes_on = len(np.unique(alone // DAY_SECONDS)) > 1 and pauses.max() < MAX_PAUSE_SECONDS
    return len(alone) < CONFIRMATIONS or not goes_on


class EventClock:
    """Clock of event time. `watermark` is the latest event time that is believed, seconds since 1970; 0 before any event."""

    def __init__(self, max_step: int) -> None:
        self.max_step, self.watermark = max_step, 0
        self.single_principal_events = MAX_PENDING_AGE  # events since two principals were seen together
        self.pending = np.zeros((3, 0), np.int64)  # of the events ahead: time, principal, events seen since

    @property
    def unconfirmed(self) -> int:
        """Return how many events are so far ahead that they are not believed yet."""
        return self.pending.shape[1]

    def observe(self, times: NDArray[Any], principals: Hashes) -> None:
        """Advance the clock by events at `times` (n,), seconds since 1970, of `principals` (n,)."""
        if not len(times):
            return
        fresh = np.zeros((3, len(times)), np.int64)
        fresh[0], fresh[1] = to_host(times), to_host(principals).view(np.int64)
        self.pending[2] += len(times)
        seen = np.concatenate([self.pending, fresh], axis=1)
        self.single_principal_events = (
            0
            if (seen[1] != seen[1, 0]).any()
            else min(self.single_principal_events + len(times), MAX_PENDING_AGE)
        )
        since = self.watermark or int(np.median(fresh[0]))
        events = CONFIRMATIONS if self.watermark else confirmations_needed(len(times))
        seen = seen[:, seen[0] > since]
        beliefs = ConfirmationRule(
            since, events, self.max_step, self.single_principal_events < MAX_PENDING_AGE
        )
        self.watermark = confirmed_watermark(seen[0], seen[1].view(np.uint64), beliefs)
        self._keep_pending(seen)

    def _keep_pending(self, seen: Longs) -> None:
        """Keep the latest CONFIRMATIONS events that are still ahead, except those that are too old (MAX_PENDING_AGE)."""
        ahead = seen[:, (seen[0] > self.watermark) & (seen[2] < MAX_PENDING_AGE)]
        self.pending = ahead[:, np.argsort(ahead[0], kind="stable")[-CONFIRMATIONS:]]

    def as_array(self) -> Longs:
        """Return the clock for a checkpoint, as integers (2 + 3 * pending,); `restore` reads them."""
        return np.concatenate([[self.watermark, self.single_principal_events], self.pending.ravel()]).astype(
            np.int64
        )

    def restore(self, array: Longs) -> None:
        """Continue from the clock that `as_array` saved. Raises ValueError if the array has another form."""
        self.watermark, self.single_principal_events = int(array[0]), int(array[1])
        self.pending = array[2:].reshape(3, -1).astype(np.int64)
