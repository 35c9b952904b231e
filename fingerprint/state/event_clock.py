"""Tell how far event time has come from the events alone, so that no single record can move it far.

Example:
    >>> times, principals = np.array([100, 160, 999_999]), np.array([1, 2, 3], np.uint64)
    >>> believed(times, principals, Beliefs(since=100, events=20, step=3600, several=True))
    160

Where nothing else says how far time has come (files have no arrival), the latest event is the wrong answer: one record dated
days ahead would close every interval before it. Two things move the clock. An instant is believed once `SEVERAL` events
of two principals lie at it or later; of one, where only one was seen for long. From there the clock follows each event that
comes within one interval of the one before, so that a single record moves it by one interval at most.

Events ahead of the clock wait, at most `SEVERAL` of them, until others bear them out; they are forgotten when many events came
and none did.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import host
from fingerprint.compute.hashing import Hashes

Longs = NDArray[np.int64]

SEVERAL = 20  # events that bear out an instant together
PATIENCE = 1_000  # events that come after one that lies ahead, before it is forgotten


class Beliefs(NamedTuple):
    """What is believed before some events are seen: that time had come to `since`; that `events` bear out an instant, of two
    principals if there are `several`; and that each event within `step` seconds of the one before is no leap."""

    since: int
    events: int
    step: int
    several: bool


def believed(times: Longs, principals: Hashes, so_far: Beliefs) -> int:
    """Return how far time has come, seconds since 1970, once events at `times` (n,) of `principals` (n,) are seen."""
    order = np.argsort(-times, kind="stable")
    latest, who = times[order], principals[order]
    base = so_far.since
    others = np.flatnonzero(who != who[:1])
    if len(latest) >= so_far.events and (len(others) or not so_far.several):
        borne_out = latest[so_far.events - 1]
        base = max(base, int(min(borne_out, latest[others[0]]) if so_far.several else borne_out))
    ahead = latest[::-1][latest[::-1] > base]
    leaps = np.flatnonzero(np.diff(ahead, prepend=base) > so_far.step)
    followed = ahead[: leaps[0]] if len(leaps) else ahead
    return int(followed[-1]) if len(followed) else base


def enough(events: int) -> int:
    """Return how many of so many events bear out an instant where nothing is known yet: a tenth of a few, SEVERAL of many."""
    return min(max(events // 10, 1), SEVERAL)


class EventClock:
    """The clock of one ledger. `watermark`: the latest event time that is believed, seconds since 1970, 0 before any event."""

    def __init__(self, step: int) -> None:
        self.step, self.watermark = step, 0
        self.alone = PATIENCE  # events since two principals were seen together
        self.waiting = np.zeros((3, 0), np.int64)  # of the events ahead: time, principal, events seen since

    @property
    def ahead(self) -> int:
        """Events so far ahead that they are not believed yet."""
        return self.waiting.shape[1]

    def see(self, times: NDArray[Any], principals: Hashes) -> None:
        """Note events at `times` (n,), seconds since 1970, of `principals` (n,)."""
        if not len(times):
            return
        fresh = np.zeros((3, len(times)), np.int64)
        fresh[0], fresh[1] = host(times), host(principals).view(np.int64)
        self.waiting[2] += len(times)
        seen = np.concatenate([self.waiting, fresh], axis=1)
        self.alone = 0 if (seen[1] != seen[1, 0]).any() else min(self.alone + len(times), PATIENCE)
        since = self.watermark or int(np.median(fresh[0]))
        events = SEVERAL if self.watermark else enough(len(times))
        seen = seen[:, seen[0] > since]
        beliefs = Beliefs(since, events, self.step, self.alone < PATIENCE)
        self.watermark = believed(seen[0], seen[1].view(np.uint64), beliefs)
        self._wait(seen)

    def _wait(self, seen: Longs) -> None:
        """Keep those that still lie ahead, the latest SEVERAL of them, unless too much came since."""
        ahead = seen[:, (seen[0] > self.watermark) & (seen[2] < PATIENCE)]
        self.waiting = ahead[:, np.argsort(ahead[0], kind="stable")[-SEVERAL:]]

    def as_array(self) -> Longs:
        """Return what must survive, as integers (2 + 3 * ahead,); `restore` takes it back."""
        return np.concatenate([[self.watermark, self.alone], self.waiting.ravel()]).astype(np.int64)

    def restore(self, kept: Longs) -> None:
        """Go on where `as_array` left off. ValueError where the array is none of its."""
        self.watermark, self.alone = int(kept[0]), int(kept[1])
        self.waiting = kept[2:].reshape(3, -1).astype(np.int64)
