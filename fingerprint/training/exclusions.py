"""Which events of a history are left out of training, and why: score, then learn; learn slowly from what was flagged.

Example:
    >>> flagged = Flagged.of(desk.flagged(since, until), settings.training, end)
    >>> bank = train(flagged.through(history.chunks()), settings)
    >>> flagged.left_out()
    {'malicious': 0, 'open': 351, 'recent vote': 12, 'past the cap': 3}

| what the desk knows of an event | in training |
|---|---|
| in an alert that was called a true positive | never |
| in an alert that is open: nobody judged it, or it has grown since | not until it is judged |
| in an alert that was called benign or a false positive | whole |
| a single vote: one detector's, no alert | after `votes_return_days`; of one entity and day the first `votes_per_day` |

A duplicate stands as what it is a duplicate of. Of several answers to one event the first of this table wins. Votes on intervals
(the spectral detector's) leave no event out: what they flag enters the series clipped (`series`).

Nothing here depends on where the history is cut into chunks, and memory is bounded by what was flagged (10 bytes an event).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Training

MALICIOUS, OPEN, RECENT, CAPPED = "malicious", "open", "recent vote", "past the cap"
LEFT_OUT = (MALICIOUS, OPEN, RECENT, CAPPED)
CLEARED, RETURNED = "called benign", "returned vote"
REASONS = (MALICIOUS, OPEN, CLEARED, RECENT, CAPPED, RETURNED)  # the first that applies wins

_OUT = np.array([reason in LEFT_OUT for reason in REASONS])
_VOTE = REASONS.index(RETURNED)  # what a vote is until its day and its rank are known
_OF_WORD = {
    word: REASONS.index(reason)
    for word, reason in (
        ("true_positive", MALICIOUS),
        ("open", OPEN),
        ("benign", CLEARED),
        ("false_positive", CLEARED),
        ("vote", RETURNED),
    )
}

Codes = NDArray[np.int8]


@dataclass
class Flagged:
    """What was flagged, F events: `ids` (F,) sorted hashes of their ids, `reason` (F,) into REASONS, and which of them the
    history was found to hold, `met` (F,)."""

    ids: Hashes
    reason: Codes
    met: NDArray[np.bool_]

    @classmethod
    def nothing(cls) -> Flagged:
        """Nobody was asked."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int8), np.empty(0, bool))

    @classmethod
    def of(cls, known: Iterable[pd.DataFrame], options: Training, end: datetime) -> Flagged:
        """From tables with the columns event_id, event_time (UTC), entity and word (`true_positive`, `open`, `benign`,
        `false_positive`, `vote`), in any order. `end` is where the history ends: votes are young or old by it."""
        parts = [_compact(table) for table in known if len(table)]
        if not parts:
            return cls.nothing()
        ids, entity, time, reason = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        first = _first_of_each(ids, reason)
        ids, entity, time, reason = ids[first], entity[first], time[first], reason[first]
        _judge_votes(ids, entity, time, reason, options, int(end.timestamp() * 1_000_000))
        return cls(ids, reason, np.zeros(len(ids), bool))

    def kept(self, events: pd.DataFrame) -> NDArray[np.bool_]:
        """Which events (n,) training may learn from: a mask (n,)."""
        if not len(self.ids):
            return np.ones(len(events), bool)
        place, found = find(self.ids, _hashes(events["event_id"]))
        place = place[found]
        self.met[place] = True
        kept = np.ones(len(events), bool)
        kept[found] = ~_OUT[self.reason[place]]
        return kept

    def through(self, chunks: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """The same chunks without what is left out. FingerprintError if that is all there is."""
        learned = left = 0
        for events in chunks:
            kept = self.kept(events)
            learned, left = learned + int(kept.sum()), left + int((~kept).sum())
            if kept.any():
                yield frames.rows(events, kept)
        if left and not learned:
            raise FingerprintError(
                f"all {left:,} events were flagged and nobody has judged them: judge their alerts (`fingerprint alerts triage`), "
                "or learn a history before them"
            )

    def left_out(self) -> dict[str, int]:
        """Distinct events of the history that were left out, by reason."""
        return {reason: self._count(reason) for reason in LEFT_OUT}

    def came_back(self) -> dict[str, int]:
        """Distinct events of the history that had been flagged and were learned all the same, by reason."""
        return {reason: self._count(reason) for reason in (CLEARED, RETURNED)}

    def _count(self, reason: str) -> int:
        return int(self.met[self.reason == REASONS.index(reason)].sum())


def _compact(table: pd.DataFrame) -> tuple[Hashes, Hashes, NDArray[np.int64], Codes]:
    """Ids, entities, times (us since 1970) and reasons of one table (n,) each."""
    times = table["event_time"].astype("datetime64[us, UTC]").astype("int64")
    time = np.asarray(times, np.int64)
    reason = np.asarray(table["word"].map(_OF_WORD), np.int8)
    return _hashes(table["event_id"]), hashing.of(table["entity"]), time, reason


def _hashes(ids: pd.Series) -> Hashes:
    """Ids as the desk keeps them, hashed: (n,) -> (n,). No database takes a NUL (`hostile.storable`)."""
    texts = ids.str.replace("\0", "\ufffd", regex=False)
    hashes: Hashes = pd.util.hash_array(texts.to_numpy(object), categorize=False)
    return hashes


def _first_of_each(ids: Hashes, reason: Codes) -> NDArray[np.intp]:
    """The row of each distinct id whose reason comes first, in the order of the ids."""
    order = np.lexsort((reason, ids))
    new = np.r_[True, ids[order][1:] != ids[order][:-1]]
    return order[new]


def _judge_votes(
    ids: Hashes, entity: Hashes, time: NDArray[np.int64], reason: Codes, options: Training, end: int
) -> None:
    """Tell apart, in place, the votes that are too young, those past their day's cap, and those that come back."""
    vote = np.flatnonzero(reason == _VOTE)
    young = time[vote] > end - options.votes_return_days * 86_400_000_000
    reason[vote[young]] = REASONS.index(RECENT)
    old = vote[~young]
    rank = _rank(entity[old], time[old] // 86_400_000_000, time[old], ids[old])
    reason[old[rank >= options.votes_per_day]] = REASONS.index(CAPPED)


def _rank(entity: Hashes, day: NDArray[np.int64], time: NDArray[np.int64], ids: Hashes) -> NDArray[np.intp]:
    """How many of the same entity and day come before each (n,), by time, ties broken by id."""
    order = np.lexsort((ids, time, day, entity))
    entity, day = entity[order], day[order]
    places = np.arange(len(order))
    new = np.r_[True, (entity[1:] != entity[:-1]) | (day[1:] != day[:-1])][: len(order)]
    rank = np.empty(len(order), np.intp)
    rank[order] = places - np.maximum.accumulate(np.where(new, places, 0))
    return rank
