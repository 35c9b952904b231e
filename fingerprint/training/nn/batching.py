"""Size-bucketed batching: fingerprints with histories and vocabularies of similar size are fitted as one stack.

Example:
    >>> for bucket in make_buckets(np.array([4, 7, 9]), np.array([12, 900, 15]), np.array([3, 20, 4]), 24, 8, 1 << 25):
    ...     print(bucket)
    Bucket(members=array([4, 9]), rows=16, slots=4)
    Bucket(members=array([7]), rows=16, slots=24)

The rows of a step and the slots of a network depend only on the fingerprint's own history, never on the others in the stack. So
the same fingerprint gets the same network in every bucket and in every partition of a training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fingerprint.estimators.autoencoder import VISIBLE_MASK

Indices = NDArray[np.intp]

MIN_ROWS, SUFFICIENT_ROWS, MAX_ROWS = 8, 16, 512  # rows of a fingerprint in a step
# A step draws a 64th of a long history if that is more than SUFFICIENT_ROWS, as of the shared fingerprints.
HISTORY_DIVISOR = 64
MIN_SLOTS = 4
# Copies of a network in memory while it is fitted: itself, gradient, Adam's two means and their quotient, the best one.
COPIES_PER_NETWORK = 6
# Bytes of the networks that a thread fits at a time: a CPU is faster if its caches hold the bucket
CPU_BUCKET_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Bucket:
    """Fingerprints `members` (Q,) that are fitted as one stack, with `rows` of each in a step and `slots` for each feature."""

    members: Indices
    rows: int
    slots: int


def make_buckets(
    members: Indices, histories: Indices, used: Indices, max_slots: int, hidden: int, max_bytes: int
) -> Iterator[Bucket]:
    """Yield buckets of fingerprints `members` (Q,) with `histories` (Q,) rows and `used` (Q,) slots, ordered by rows and slots.

    A bucket takes at most about `max_bytes` while it is fitted, unless it has only one network.
    """
    kind = np.column_stack([rows_per_step(histories), fitted_slots(used, max_slots)])
    for rows, slots in np.unique(kind, axis=0).tolist():
        alike = members[(kind == (rows, slots)).all(axis=1)]
        step = max(1, max_bytes // network_bytes(rows, slots, hidden))
        for at in range(0, len(alike), step):
            yield Bucket(alike[at : at + step], rows, slots)


def rows_per_step(histories: Indices) -> Indices:
    """Return the number of rows that a step draws of each history (Q,): a power of two, about the length of a short history."""
    rows = np.maximum(np.minimum(histories, SUFFICIENT_ROWS), histories // HISTORY_DIVISOR)
    return _next_power_of_two(np.clip(rows, MIN_ROWS, MAX_ROWS))


def fitted_slots(used: Indices, max_slots: int) -> Indices:
    """Return the number of slots that are fitted (Q,): those in use, rounded up to a power of two or to 1.5 times one."""
    whole = _next_power_of_two(np.maximum(used, MIN_SLOTS))
    return np.minimum(np.where(used <= whole * 3 // 4, whole * 3 // 4, whole), max_slots)


def _next_power_of_two(least: Indices) -> Indices:
    return 1 << np.ceil(np.log2(least)).astype(np.intp)


def network_bytes(rows: int, slots: int, hidden: int) -> int:
    """Return the bytes (float32) that one network takes while it is fitted, including the arrays of a step."""
    free, features = VISIBLE_MASK.shape
    net = (features + free) * slots * hidden + hidden
    step = rows * (features * (slots + 2 * hidden + 4) + free * (2 * slots + 3 * hidden))
    return 4 * (COPIES_PER_NETWORK * net + step)
