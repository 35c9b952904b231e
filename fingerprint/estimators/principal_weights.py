"""Weights of principals in the statistics of their kind: none counts more than all others together.

Example:
    >>> kind, principal = np.zeros(7, np.uint64), np.array([1, 2, 3, 4, 5, 6, 6], np.uint64)
    >>> balanced_events(np.array([10, 10, 10, 10, 10, 400, 600.0]), principal, kind, interval=np.arange(7)).tolist()
    [10.0, 10.0, 10.0, 10.0, 10.0, 25.0, 25.0]

Shares of a kind's events say what is usual of its principals. One principal that makes nine of ten of these events would decide
them alone: if it is steady, others get a vote for whatever they do; if it is restless, they get none for anything. A single hour
of one principal could do the same: a loop, or an attacker before the next training, makes more calls in it than all others in a
day.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.hashing import Hashes

MIN_PRINCIPALS = 5  # of a kind: with fewer, nothing is scaled
# An interval of a principal counts at most this share of the events that the others of its kind make ...
INTERVAL_SHARE = 0.02
MIN_INTERVAL_EVENTS = 50  # ... or this many events, because in a small kind a busy hour is a large share


def balanced_events(
    events: NDArray[Any], principal: Hashes, kind: Hashes, interval: NDArray[Any]
) -> NDArray[np.float64]:
    """Return events (N,) scaled down to what they count in their kind; principal, kind and interval are (N,).

    An interval of a principal counts at most INTERVAL_SHARE of the events of the others of its kind (or MIN_INTERVAL_EVENTS). All
    intervals of a principal together count at most as much as the others. Kinds of fewer than MIN_PRINCIPALS are not scaled.
    """
    _, first, of_key = np.unique(principal, return_index=True, return_inverse=True)
    _, of_kind = np.unique(kind[first], return_inverse=True)
    many = np.bincount(of_kind)[of_kind] >= MIN_PRINCIPALS

    def of_others(own: NDArray[Any]) -> NDArray[np.float64]:
        most: NDArray[np.float64] = np.where(many, np.bincount(of_kind, own)[of_kind] - own, np.inf)
        return most

    _, cell = np.unique(of_key.astype(np.int64) << 32 | interval.astype(np.int64), return_inverse=True)
    others = of_others(np.bincount(of_key, events, len(first)))
    most = np.maximum(INTERVAL_SHARE * others, MIN_INTERVAL_EVENTS)
    balanced = events * _scale(np.bincount(cell, events), most, cell, of_key)
    own = np.bincount(of_key, balanced, len(first))
    out: NDArray[np.float64] = balanced * _scale(own, of_others(own), of_key, of_key)
    return out


def _scale(sums: NDArray[Any], most: NDArray[np.float64], of_sum: Any, of_key: Any) -> Any:
    """Return factors (N,) by which each of the `sums` becomes at most its principal's `most`.

    `of_sum` and `of_key` (N,) are the sum and the principal that a row belongs to.
    """
    return np.minimum(most[of_key] / np.maximum(sums[of_sum], 1e-9), 1)
