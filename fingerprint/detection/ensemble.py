"""Votes -> verdicts: which detectors there are, when each votes, and how many votes forward an event to the analysts.

Example:
    >>> z = {"autoencoder": np.array([5.0, 5.0, 5.0, 1.0]), "spectral": np.array([6.0, 0.1, np.nan, np.nan])}
    >>> verdicts({name: each >= 4 for name, each in z.items()}, quorum=2, opinions=opinions(z))
    array([ True, False,  True, False])

The vote, exactly:
- A detector votes when its z is at or above its threshold. A z of NaN is no opinion (a series still warming up): neither a vote
  for nor a vote against.
- The autoencoder votes on an event: its own surprise, and a share of what else of its principal was surprising in its
  interval (`company`), which grows while the interval fills. The spectral detector votes on an interval of a series, and an event
  has that vote if one of the channels it was counted in has it: the principal's or entity's events, errors (if it failed),
  writes (if it wrote), new actions (if its action is new), or its own action. A surge is voted while the interval fills;
  counts only grow, so a verdict may turn true once and never back.
- An event's verdict is true when at least `quorum` of the listed detectors vote for it (default: two of two). Where fewer have
  an opinion, all of those who have one must vote for it, and at least one must: a principal that is hours old has peers, but
  no history of counts. Who has an opinion and votes against still decides: for everybody known two of two stays the law.
- Whom only one detector has an opinion on, and by its peers at that, is a newcomer: `NEWCOMER_THRESHOLD_SHARE` of the threshold is
  enough for a vote (docs/explanation/detection.md says what that finds, and what it costs).
- Whether a detector has an opinion follows from how old the principal was when the event's day began, which nothing that comes
  later changes. So an opinion never appears while an interval is open, and no verdict is taken back by one.
- A silence is a vote, kept for hunting, and never a verdict.

Detectors are a list in the settings (`voting.detectors`). Another one is a class with the members of `Detector`,
named in `detectors.KINDS`; the others are not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import namespace
from fingerprint.detection.batch import EventBatch
from fingerprint.registry.bank import PEER_LEVEL

NEWCOMER_THRESHOLD_SHARE = (
    0.9  # of its threshold is enough where a detector judges a newcomer by its peer group
)
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
VoteMasks = Mapping[str, Mask]  # yes or no of each event (N,), by detector


class Detector(Protocol):
    """A voter. It shares nothing with the others but the events."""

    name: str
    threshold: float
    granularity: Literal["event", "interval"]
    degraded: bool  # whether who stands in measured the last batch

    def measure(self, batch: EventBatch) -> NDArray[Any]:
        """What is kept of each event until its interval closes: (N, C), C this detector's own."""
        ...

    def score(self, batch: EventBatch) -> Floats:
        """z of events (N,) from what was kept of them (`batch.evidence[name]`), as things stand now; NaN for no opinion.
        It may grow while an event's interval is open, and never falls; it is NaN all the while or never."""
        ...

    def can_still_vote(self, batch: EventBatch) -> NDArray[np.bool_]:
        """Which events (N,) have its vote, or may have it before their interval closes; also those that it has no opinion on,
        so that they wait for the others."""
        ...

    def has_opinion(self, batch: EventBatch) -> Mask:
        """Which events (N,) it has an opinion on: those whose z is not NaN, known before any z is made."""
        ...


def verdicts(votes: VoteMasks, quorum: int, opinions: VoteMasks | None = None) -> Mask:
    """Return which events (N,) have the votes they need; `opinions` says who has one, without it everybody."""
    verdict: Mask = _count_true(votes) >= (quorum if opinions is None else votes_needed(opinions, quorum))
    return verdict


def votes_needed(opinions: VoteMasks, quorum: int) -> NDArray[np.int32]:
    """Return how many votes make a verdict of each event (N,): the quorum, or all of fewer opinions, and at least one."""
    return _count_true(opinions).clip(1, quorum)


def opinion_masks(z: Mapping[str, NDArray[Any]]) -> dict[str, Mask]:
    """Return which events (N,) each detector has an opinion on, by its z (N,)."""
    return {name: ~namespace(each).isnan(each) for name, each in z.items()}


def newcomer_mask(opinions: VoteMasks, level: NDArray[np.int8]) -> Mask:
    """Return which events (N,) one detector judges alone, of a principal that it knows by its peers only (`level` (N,))."""
    newcomer: Mask = sole_opinion_mask(opinions) & (level >= PEER_LEVEL)
    return newcomer


def sole_opinion_mask(opinions: VoteMasks) -> Mask:
    """Return on which events (N,) one of several detectors has an opinion and the others have none."""
    one: Mask = (_count_true(opinions) == 1) & (len(opinions) > 1)
    return one


def _count_true(masks: VoteMasks) -> NDArray[np.int32]:
    """Return how many detectors say yes of each event (N,)."""
    return reduce(add, (each.astype(np.int32) for each in masks.values()))
