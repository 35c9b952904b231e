"""The kernels that scoring calls, ready when this module is imported: 0.7 s of CPU, once for all programs that are forked."""

from __future__ import annotations

import numpy as np

from fingerprint.compute import hashing
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.estimators import compiled_losses, sequence

__all__ = ["compiled_losses"]

hashing.hash_pair(none := np.zeros(1, np.uint64), none)
hashing.combine(none, none)
for kind in (np.uint64, np.int64):
    table, keys = SortedTable.empty(key=kind, count=np.float32), none.astype(kind)
    table.get(keys, "count")
    table.has(keys)
nothing = np.zeros(0, np.uint64)
sequence.transition_nats(
    sequence.Transitions(nothing, nothing.astype(np.float32), *[nothing] * 4), nothing, nothing, nothing
)
