"""Votes -> verdicts: which detectors there are, when each votes, and how many votes forward an event to the analysts.

Example:
    >>> votes = {"autoencoder": np.array([5.0, 5.0, 1.0]) >= 4, "spectral": np.array([6.0, np.nan, 9.0]) >= 4}
    >>> verdicts(votes, quorum=2)
    array([ True, False, False])

The vote, exactly:
- A detector votes when its z is at or above its threshold. No opinion (NaN: a fingerprint still warming up) is no vote.
- The autoencoder votes on an event: its own surprise, and a share of what else of its principal was surprising in its
  interval (`company`), which grows while the interval fills. The spectral detector votes on an interval of a series, and an event
  has that vote if one of the channels it was counted in has it: the principal's or entity's events, errors (if it failed),
  writes (if it wrote), new actions (if its action is new), or its own action. A surge is voted while the interval fills;
  counts only grow, so a verdict may turn true once and never back.
- An event's verdict is true when at least `quorum` of the listed detectors vote for it (default: two of two).
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

from fingerprint.measured import Measured

Floats = NDArray[np.float32]


class Detector(Protocol):
    """A voter. It shares nothing with the others but the events."""

    name: str
    threshold: float
    votes_on: Literal["event", "interval"]
    degraded: bool  # whether who stands in measured the last batch

    def measure(self, batch: Measured) -> NDArray[Any]:
        """What is kept of each event until its interval closes: (N, C), C this detector's own."""
        ...

    def z(self, batch: Measured) -> Floats:
        """z of events (N,) from what was kept of them (`batch.evidence[name]`), as things stand now; NaN for no opinion.
        It may grow while an event's interval is open, and never falls."""
        ...

    def may_vote(self, batch: Measured) -> NDArray[np.bool_]:
        """Which events (N,) have its vote, or may have it before their interval closes."""
        ...


def verdicts(votes: Mapping[str, NDArray[np.bool_]], quorum: int) -> NDArray[np.bool_]:
    """Which events (N,) have at least `quorum` votes."""
    votes_for = reduce(add, (each.astype(np.int32) for each in votes.values()))
    verdict: NDArray[np.bool_] = votes_for >= quorum
    return verdict
