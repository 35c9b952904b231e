"""Warm start: networks that start from the weights of others, with each value's weights moved to its slot in a new vocabulary.

Example:
    >>> weights = remap_weights(weights, early.codes[ready], full.codes[ready], np.arange(len(ready)))

`remap_weights` works in NumPy on stacks of any networks; `stacked.initial_networks` does it on the device that fits them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.estimators.autoencoder import FREE_FEATURES, Weights

FEATURE_BITS = 58  # bits of a value's hash below the number of its feature


def remap_weights(weights: Weights, old: Hashes, new: Hashes, source: NDArray[np.intp]) -> Weights:
    """Return networks for new vocabularies: each slot gets the weights that its value had before, or zeros if it had none.

    `old` (P, F, K) and `new` (Q, F, L) are the codes of the slots before and after; `source` (Q,) is the old network of each new
    one.
    """
    features, slots, hidden = *new.shape[1:], weights.inputs.shape[-1]
    inputs = np.zeros((*new.shape, hidden), weights.inputs.dtype)
    outputs = np.zeros((len(new), len(FREE_FEATURES), slots, hidden), weights.outputs.dtype)
    row = np.arange(features)[None, :, None]
    for net in np.unique(source):
        takers = np.flatnonzero(source == net)
        slot, found = _previous_slots(old[net], new[takers])
        inputs[takers] = np.where(found[..., None], weights.inputs[net][row, slot], 0)
        outputs[takers] = np.where(
            found[:, FREE_FEATURES, :, None],
            weights.outputs[net][row[:, : len(FREE_FEATURES)], slot[:, FREE_FEATURES]],
            0,
        )
    return Weights(inputs, weights.bias[source], outputs, weights.row)


def _previous_slots(old: Hashes, new: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the slot each value had, and whether it had one: old (F, K), new (Q, F, L) -> 2 x (Q, F, L). Slot 0 stays slot 0."""
    owner = np.arange(len(old), dtype=np.uint64)[:, None] << np.uint64(FEATURE_BITS)
    keys = (old ^ owner).ravel()
    order = np.argsort(keys)
    place, found = find_sorted(keys[order], (new ^ owner).ravel())
    slot = np.where(found, order[np.minimum(place, len(order) - 1)] % old.shape[1], 0).reshape(new.shape)
    found = found.reshape(new.shape) & (new != 0)
    found[..., 0], slot[..., 0] = True, 0
    return slot, found
