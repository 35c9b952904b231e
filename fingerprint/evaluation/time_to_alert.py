"""When an alert about an attack is there: the victims' events are walked once more, as they arrived, in small steps.

Example:
    >>> listening = Listening(bank, ledger, settings)
    >>> tips(listening, events, session, wanted)        # events in the order of arrival
           place  events
    session
    a-3      812       2

What becomes of a principal does not depend on others, so its events alone are enough; and where a batch is cut changes no
verdict, so the walk ends with those of the undivided one. The record with which an attack's event gets its verdict is the
one that *tipped* it: an event of the attack, or another of the same principal in the same interval.

While an attack is under way, and not in an alert yet, a step is one record, then a twentieth of the records since the
attack's first: the last of a step counts as what tipped. Elsewhere a step is up to 20,000 records.

    seconds     event time from the session's first event to the record that tipped
    events      of the session that had arrived by then, the one that tipped among them

The alert is there in the step in which that record arrives. How long the log takes to deliver it is not in this, nor what the
service needs from its arrival on (`make bench` measures that).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import Judged, no_votes
from fingerprint.pipeline import Road, Said
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import Ledger

STEP = 20_000  # records, where no attack is under way
SHARE = 20  # of the records since the attack began, a step is one in so many
NOBODY = -1


class Listening(Road):
    """A road that only says which events have a verdict, as soon as they have it."""

    def __init__(self, bank: Bank, ledger: Ledger, settings: Settings) -> None:
        super().__init__(bank, ledger, settings)
        self.settled: list[Hashes] = []

    def heard(self, principals: Hashes) -> Hashes:
        """Events with a verdict that the last steps let go, or that wait and are of these principals: hashes of ids."""
        judged = self.scorer.so_far(principals)
        waiting = [_verdicts(judged)] if judged else []
        settled, self.settled = self.settled, []
        return np.concatenate([*settled, *waiting, np.empty(0, np.uint64)])

    def _kept(self, judged: Judged | None) -> Said:
        if judged is not None:
            self.settled.append(_verdicts(judged))
        return Said([], no_votes(), [])


def tips(
    road: Listening,
    events: pd.DataFrame,
    session: NDArray[np.int64],
    wanted: Sequence[int],
    saw: Callable[[int], None] = lambda _: None,
) -> pd.DataFrame:
    """For each session that is wanted and found: the `place` in `events` of the record that tipped it, and how many
    `events` of the session had arrived.

    `events` (N,) lie in the order of arrival; `session` (N,) numbers the attack session of each, -1 for none. `saw` is told
    how many of them were walked.
    """
    walk = _Walk(road, events, session, wanted)
    while walk.goes_on():
        walk.step()
        saw(walk.at)
    walk.finish()
    return walk.table()


class _Walk:
    """Where a walk has come, and which sessions are under way."""

    def __init__(
        self, road: Listening, events: pd.DataFrame, session: NDArray[np.int64], wanted: Sequence[int]
    ) -> None:
        self.road, self.events, self.session = road, events, session
        self.principal = hashing.homed(events["principal"])
        self.event = hashing.of(events["event_id"])
        places = {number: np.flatnonzero(session == number) for number in wanted}
        self.places = {number: each for number, each in places.items() if len(each)}
        self.starts = sorted((int(each[0]), number) for number, each in self.places.items())
        self.at = self.since = 0
        self.under_way: set[int] = set()
        self.tipped: dict[int, int] = {}  # session -> place of the record

    def goes_on(self) -> bool:
        return self.at < len(self.events) and len(self.tipped) < len(self.places)

    def step(self) -> None:
        self._begin()
        end = self._end()
        self.road.walk(frames.rows(self.events, np.arange(self.at, end)))
        self.since += end - self.at
        self.at = end
        self._listen()

    def finish(self) -> None:
        """What still waits is judged with the last record."""
        self.road.finish()
        self._listen()

    def table(self) -> pd.DataFrame:
        numbers = sorted(self.tipped)
        place = np.array([self.tipped[number] for number in numbers], np.int64)
        upto = [int((self.places[number] <= at).sum()) for number, at in zip(numbers, place, strict=True)]
        index = pd.Index(numbers, name="session", dtype=np.int64)
        return pd.DataFrame({"place": place, "events": upto}, index=index)

    def _begin(self) -> None:
        """The sessions whose first record comes next are under way."""
        while self.starts and self.starts[0][0] <= self.at:
            self.under_way.add(self.starts.pop(0)[1])
            self.since = 0

    def _end(self) -> int:
        ends = [len(self.events), self.at + (max(self.since // SHARE, 1) if self.under_way else STEP)]
        return min([*ends, *(place for place, _ in self.starts[:1])])

    def _listen(self) -> None:
        if not self.under_way:
            self.road.settled.clear()
            return
        whose = [self.principal[self.places[number]] for number in self.under_way]
        heard = self.road.heard(np.unique(np.concatenate(whose)))
        for number in sorted(self.under_way):
            if np.isin(self.event[self.places[number]], heard).any():
                self.tipped[number] = self.at - 1
                self.under_way.discard(number)


def times(found: pd.DataFrame) -> dict[str, Any]:
    """How long it took, in all and by strength: `found` has a row a session with strength, seconds and
    events."""
    strengths = {str(name): _times(part) for name, part in found.groupby("strength", observed=True)}
    return {"all": _times(found), **strengths} if len(found) else {}


def _times(found: pd.DataFrame) -> dict[str, Any]:
    quantiles: dict[str, Any] = {"sessions": len(found)}
    for name in ("seconds", "events"):
        for word, share in (("median", 0.5), ("p90", 0.9)):
            quantiles[f"{word}_{name}"] = round(float(found[name].quantile(share)), 1)
    return quantiles


def _verdicts(judged: Judged) -> Hashes:
    return hashing.of(judged.frame.loc[judged.frame["verdict"].to_numpy(bool), "event_id"])
