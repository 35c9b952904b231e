"""Weights of principals in what is said of their kind: none counts more than all others together.

Example:
    >>> kind, principal = np.zeros(7, np.uint64), np.array([1, 2, 3, 4, 5, 6, 6], np.uint64)
    >>> balanced_events(np.array([10, 10, 10, 10, 10, 400, 600.0]), principal, kind, interval=np.arange(7)).tolist()
    [10.0, 10.0, 10.0, 10.0, 10.0, 25.0, 25.0]

A share of a kind's events says what is usual of its principals. One account that makes nine of ten of these events would make the
kind its own: steady, it leaves others a vote for whatever they do; restless, it takes from them the vote for anything. So would
one account in a single hour: a loop, or an attacker before the next training, makes more calls in it than all others in a day.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.hashing import Hashes

MIN_PRINCIPALS = 5  # of a kind: fewer do not say what is usual of it
# Of what the others of its kind make, an interval of a principal counts this share at most ...
INTERVAL_SHARE = 0.02
MIN_INTERVAL_EVENTS = 50  # ... or this many: of a small kind a busy hour is a large share


def balanced_events(
    events: NDArray[Any], principal: Hashes, kind: Hashes, interval: NDArray[Any]
) -> NDArray[np.float64]:
    """Return events (N,) as they count in their kind: by principal, kind and interval (N,).

    An interval of a principal counts INTERVAL_SHARE of what the others of its kind make at most (or MIN_INTERVAL_EVENTS), and
    all of them together as much as the others at most.
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
    """Return by what rows (N,) are scaled, so that the sum that each belongs to (`of_sum`) is at most its principal's `most`."""
    return np.minimum(most[of_key] / np.maximum(sums[of_sum], 1e-9), 1)
