"""Weights of principals in what is said of their kind: none counts more than all others together.

Example:
    >>> kind, principal = np.zeros(7, np.uint64), np.array([1, 2, 3, 4, 5, 6, 6], np.uint64)
    >>> balanced_events(np.array([10, 10, 10, 10, 10, 400, 600.0]), principal, kind).tolist()
    [10.0, 10.0, 10.0, 10.0, 10.0, 20.0, 30.0]

A share of a kind's events says what is usual of its principals. One account that makes nine of ten of these events would make the
kind its own: steady, it leaves others a vote for whatever they do; restless, it takes from them the vote for anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.hashing import Hashes

MIN_PRINCIPALS = 5  # of a kind: fewer do not say what is usual of it


def balanced_events(events: NDArray[Any], principal: Hashes, kind: Hashes) -> NDArray[np.float64]:
    """Return events (N,), those of one that has most of its kind's scaled down to the others': by principal, kind (N,)."""
    _, first, of_key = np.unique(principal, return_index=True, return_inverse=True)
    _, of_kind = np.unique(kind[first], return_inverse=True)
    own = np.bincount(of_key, events, len(first))
    others = np.bincount(of_kind, own)[of_kind] - own
    many = np.bincount(of_kind)[of_kind] >= MIN_PRINCIPALS
    scale = np.where(many & (own > others), others / np.maximum(own, 1e-9), 1)
    balanced: NDArray[np.float64] = events * scale[of_key]
    return balanced
