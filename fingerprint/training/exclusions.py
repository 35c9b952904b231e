"""Exclusions: flagged events that training does not learn from. Score, then learn; learn slowly from flagged events.

Example:
    >>> exclusions = TrainingExclusions.from_labels(store.feedback.flagged_events(since, until), settings.training, end)
    >>> bank = train(exclusions.mark(history.chunks()), settings)
    >>> exclusions.excluded_counts()
    {'malicious': 0, 'open': 351, 'recent vote': 12, 'past the cap': 3}

| an event in the alert store | habits are learned from it |
|---|---|
| in an alert that was called a true positive | never; the event is left out altogether |
| in an alert that is open: not judged yet, or grown since | not until the alert is judged |
| in an alert that was called benign or a false positive | yes |
| one detector's vote, no alert | after `single_vote_exclusion_days`; the first `MAX_RETURNED_VOTES` a day of an entity |

Excluded events other than true positives are still counted in series, and on held-out days, where a bank measures what is rare,
they are judged like all others. Without them the strangest harmless events would be missing, and each training would set lower
thresholds than the one before.

A duplicate counts as its original. If several rows of the table apply to one event, the first wins. Votes on intervals (by the
spectral detector) exclude no event: surges enter a forecast clipped (`estimators.spectral`).

The cut of the history into chunks does not change the result. Memory grows only with the flagged events (10 bytes each).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import MAX_KEY_LENGTH, index_key
from fingerprint.core.settings import Training
from fingerprint.core.time_range import DAY_MICROSECONDS

MAX_RETURNED_VOTES = 20  # votes of one entity and day that are learned: it bounds the weight of a day
MALICIOUS, OPEN, RECENT, CAPPED = "malicious", "open", "recent vote", "past the cap"
EXCLUDED = (MALICIOUS, OPEN, RECENT, CAPPED)
CLEARED, RETURNED = "called benign", "returned vote"
REASONS = (MALICIOUS, OPEN, CLEARED, RECENT, CAPPED, RETURNED)  # the first that applies wins

LEARNED = "learned"  # column of events: whether habits are learned from them
UNFLAGGED = len(REASONS)  # stands for no reason

_IS_EXCLUDED = np.array([*(reason in EXCLUDED for reason in REASONS), False])
_RETURNED_VOTE = REASONS.index(RETURNED)  # the reason of every vote until its age and rank are known
_REASON_OF_LABEL = {
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
class TrainingExclusions:
    """F flagged events.

    `ids` (F,) are the sorted hashes of their ids, `reason` (F,) are places in REASONS, `seen` (F,) marks those found in the
    history.
    """

    ids: Hashes
    reason: Codes
    seen: NDArray[np.bool_]

    @classmethod
    def empty(cls) -> TrainingExclusions:
        """Return exclusions without any flagged event."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int8), np.empty(0, bool))

    @classmethod
    def from_labels(
        cls, labels: Iterable[pd.DataFrame], options: Training, end: datetime
    ) -> TrainingExclusions:
        """Return the exclusions of tables with the columns event_id, event_time (UTC), entity and label, in any order.

        A label is `true_positive`, `open`, `benign`, `false_positive` or `vote`. The age of a vote is measured from `end`, the
        end of the history.
        """
        parts = [_parse_labels(table) for table in labels if len(table)]
        if not parts:
            return cls.empty()
        ids, entity, time, reason = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        first = _first_reason_per_id(ids, reason)
        ids, entity, time, reason = ids[first], entity[first], time[first], reason[first]
        _classify_votes(ids, entity, time, reason, options, int(end.timestamp() * 1_000_000))
        return cls(ids, reason, np.zeros(len(ids), bool))

    def mark(self, chunks: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Yield the chunks with the column LEARNED, without malicious events. Raise FingerprintError if nothing is learned.

        If no event was flagged, the chunks are yielded unchanged.
        """
        if not len(self.ids):
            yield from chunks
            return
        learned = left = 0
        for events in chunks:
            reason = self._find_reasons(events)
            may_learn = ~_IS_EXCLUDED[reason]
            learned, left = learned + int(may_learn.sum()), left + int((~may_learn).sum())
            known = reason != REASONS.index(MALICIOUS)
            if known.any():
                yield frames.select_rows(events.assign(**{LEARNED: may_learn}), known)
        if left and not learned:
            raise FingerprintError(
                f"all {left:,} events were flagged and are not judged yet: judge their alerts (`fingerprint alerts triage`), "
                "or learn a history before them"
            )

    def _find_reasons(self, events: pd.DataFrame) -> Codes:
        """Return the reason of each event (n,), UNFLAGGED for none, and mark the flagged events among them as seen."""
        place, found = find_sorted(self.ids, _hash_ids(events["event_id"]))
        place = place[found]
        self.seen[place] = True
        reason = np.full(len(events), UNFLAGGED, np.int8)
        reason[found] = self.reason[place]
        return reason

    def excluded_counts(self) -> dict[str, int]:
        """Return by reason the number of distinct events of the history that were not learned."""
        return {reason: self._count(reason) for reason in EXCLUDED}

    def readmitted_counts(self) -> dict[str, int]:
        """Return by reason the number of distinct events of the history that were learned although they were flagged."""
        return {reason: self._count(reason) for reason in (CLEARED, RETURNED)}

    def _count(self, reason: str) -> int:
        return int(self.seen[self.reason == REASONS.index(reason)].sum())


def is_learned(events: Frame) -> NDArray[np.bool_]:
    """Return a mask (n,) of the events from which habits are learned, by the column LEARNED; all True without it."""
    if LEARNED not in events:
        return np.ones(len(events), bool)
    return np.asarray(frames.column_of(events, LEARNED), bool)


def _parse_labels(table: pd.DataFrame) -> tuple[Hashes, Hashes, NDArray[np.int64], Codes]:
    """Return ids, entities, times (us since 1970) and reasons (n,) of one table."""
    times = table["event_time"].astype("datetime64[us, UTC]").astype("int64")
    time = np.asarray(times, np.int64)
    reason = np.asarray(table["label"].map(_REASON_OF_LABEL), np.int8)
    return _hash_ids(table["event_id"]), hashing.hash_strings(table["entity"]), time, reason


def _hash_ids(ids: pd.Series) -> Hashes:
    """Return hashes (n,) of ids (n,) as the alert store keeps them: without NULs, long ones cut (`sanitize.index_key`)."""
    texts = ids.str.replace("\0", "\ufffd", regex=False).to_numpy(object)
    for row in np.flatnonzero(ids.str.len().to_numpy() > MAX_KEY_LENGTH):
        texts[row] = index_key(texts[row])
    hashes: Hashes = pd.util.hash_array(texts, categorize=False)
    return hashes


def _first_reason_per_id(ids: Hashes, reason: Codes) -> NDArray[np.intp]:
    """Return for each distinct id, in the order of ids, the row with the first reason of REASONS."""
    order = np.lexsort((reason, ids))
    new = np.r_[True, ids[order][1:] != ids[order][:-1]]
    return order[new]


def _classify_votes(
    ids: Hashes, entity: Hashes, time: NDArray[np.int64], reason: Codes, options: Training, end: int
) -> None:
    """Change, in place, the reason of votes that are too young or past the cap of their day; the other votes are learned."""
    vote = np.flatnonzero(reason == _RETURNED_VOTE)
    young = time[vote] > end - options.single_vote_exclusion_days * DAY_MICROSECONDS
    reason[vote[young]] = REASONS.index(RECENT)
    old = vote[~young]
    rank = _rank_within_day(entity[old], time[old] // DAY_MICROSECONDS, time[old], ids[old])
    reason[old[rank >= MAX_RETURNED_VOTES]] = REASONS.index(CAPPED)


def _rank_within_day(
    entity: Hashes, day: NDArray[np.int64], time: NDArray[np.int64], ids: Hashes
) -> NDArray[np.intp]:
    """Return the number of votes of the same entity and day before each vote (n,), by time; ties are broken by id."""
    order = np.lexsort((ids, time, day, entity))
    entity, day = entity[order], day[order]
    places = np.arange(len(order))
    new = np.r_[True, (entity[1:] != entity[:-1]) | (day[1:] != day[:-1])][: len(order)]
    rank = np.empty(len(order), np.intp)
    rank[order] = places - np.maximum.accumulate(np.where(new, places, 0))
    return rank
