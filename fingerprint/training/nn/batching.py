"""Size-bucketed batching: fingerprints of like history and like vocabulary are fitted together, as many as memory allows.

Example:
    >>> for bucket in make_buckets(np.array([4, 7, 9]), np.array([12, 900, 15]), np.array([3, 20, 4]), 24, 8, 1 << 25):
    ...     print(bucket)
    Bucket(members=array([4, 9]), rows=16, slots=4)
    Bucket(members=array([7]), rows=16, slots=24)

The rows in a step and the slots that a network is fitted with follow from its own history alone, never from the others in the
stack: so the same fingerprint gets the same network in every bucket, and in every partition of a training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fingerprint.estimators.autoencoder import VISIBLE_MASK

Indices = NDArray[np.intp]

MIN_ROWS, SUFFICIENT_ROWS, MAX_ROWS = 8, 16, 512  # of a fingerprint in a step
# Of a long history a step draws this part, if that is more than enough: what all others start from.
HISTORY_DIVISOR = 64
MIN_SLOTS = 4
# Of a net while it is fitted: itself, its gradient, Adam's two means and their quotient, its best.
COPIES_PER_NETWORK = 6
# Of networks that a thread takes at a time: a CPU is quicker where its caches hold a bucket
CPU_BUCKET_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Bucket:
    """Fingerprints (Q,) that are fitted as one stack: `rows` of each in a step, `slots` of each feature."""

    members: Indices
    rows: int
    slots: int


def make_buckets(
    members: Indices, histories: Indices, used: Indices, max_slots: int, hidden: int, max_bytes: int
) -> Iterator[Bucket]:
    """Yield buckets of fingerprints `members` (Q,) with `histories` (Q,) rows and `used` (Q,) slots, the largest networks last.

    None takes more than about `max_bytes` while it is fitted, except a bucket of one network.
    """
    kind = np.column_stack([rows_per_step(histories), fitted_slots(used, max_slots)])
    for rows, slots in np.unique(kind, axis=0).tolist():
        alike = members[(kind == (rows, slots)).all(axis=1)]
        step = max(1, max_bytes // network_bytes(rows, slots, hidden))
        for at in range(0, len(alike), step):
            yield Bucket(alike[at : at + step], rows, slots)


def rows_per_step(histories: Indices) -> Indices:
    """Return how many rows of a history (Q,) a step draws: a power of two, about as many as a short history has."""
    rows = np.maximum(np.minimum(histories, SUFFICIENT_ROWS), histories // HISTORY_DIVISOR)
    return _next_power_of_two(np.clip(rows, MIN_ROWS, MAX_ROWS))


def fitted_slots(used: Indices, max_slots: int) -> Indices:
    """Return how many slots are fitted (Q,): those in use, rounded up to a power of two or one and a half times that."""
    whole = _next_power_of_two(np.maximum(used, MIN_SLOTS))
    return np.minimum(np.where(used <= whole * 3 // 4, whole * 3 // 4, whole), max_slots)


def _next_power_of_two(least: Indices) -> Indices:
    return 1 << np.ceil(np.log2(least)).astype(np.intp)


def network_bytes(rows: int, slots: int, hidden: int) -> int:
    """Return the bytes that one network takes while it is fitted (float32), with what a step computes."""
    free, features = VISIBLE_MASK.shape
    net = (features + free) * slots * hidden + hidden
    step = rows * (features * (slots + 2 * hidden + 4) + free * (2 * slots + 3 * hidden))
    return 4 * (COPIES_PER_NETWORK * net + step)
