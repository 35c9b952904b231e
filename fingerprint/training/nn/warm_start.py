"""Networks that start from another's weights: each value's weights move to the slot that the value has in the new vocabulary.

Example:
    >>> weights = remap_weights(weights, early.codes[ready], full.codes[ready], np.arange(len(ready)))
    >>> nets = initial_networks(start.weights, start.codes[0], codes, base, device)      # P networks over L slots

`remap_weights` works in NumPy on stacks of any networks. `initial_networks` goes from one network to many on the device that
fits them: the names of values are copied there, 8 bytes a slot, and not the weights that each of them has.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.estimators.autoencoder import FREE_FEATURES, Weights
from fingerprint.features.vocabulary import Floats
from fingerprint.training.nn.network import StackedNetworks

FEATURE_BITS = 58  # a feature's number goes to the top of its values' hashes

Tensor = torch.Tensor


def remap_weights(weights: Weights, old: Hashes, new: Hashes, source: NDArray[np.intp]) -> Weights:
    """Return networks whose vocabularies changed: each slot takes the weights its value had, zeros where it had none.

    `old` (P, F, K) and `new` (Q, F, L) are the codes of the slots before and after; `source` (Q,) the network each comes from.
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


def initial_networks(
    net: Weights, old: Hashes, new: Hashes, base: Floats, device: torch.device
) -> StackedNetworks:
    """Return networks over the slots `new` (P, F, L), whose likelihoods are `base` (P, G, L).

    They start from the first of `net`, whose slots are `old` (F, K).
    """
    slot, found = _previous_slots_on_device(
        _copy_to_device(old.view(np.int64), device), _copy_to_device(new.view(np.int64), device)
    )
    free = torch.from_numpy(FREE_FEATURES).to(device)
    bias = _copy_to_device(net.bias[:1].astype(np.float32), device)
    return StackedNetworks(
        _remap(_copy_to_device(net.inputs[0].astype(np.float32), device), slot, found),
        bias.repeat(len(new), 1),
        _remap(_copy_to_device(net.outputs[0].astype(np.float32), device), slot[:, free], found[:, free]),
        _copy_to_device(base, device),
    )


def _copy_to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Return a copy of its own on the device."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device, copy=True)


def _previous_slots_on_device(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """Return the slot each value had, and whether it had one, as `_previous_slots` does: old (F, K), new (P, F, L)."""
    feature = torch.arange(len(old), device=old.device)[:, None] << FEATURE_BITS
    keys, order = (old ^ feature).flatten().sort()
    wanted = new ^ feature
    place = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
    found = (keys[place] == wanted) & (new != 0)
    slot = torch.where(found, order[place] % old.shape[1], 0)
    found[..., 0], slot[..., 0] = True, 0
    return slot, found


def _remap(weights: Tensor, slot: Tensor, found: Tensor) -> Tensor:
    """Return weights (F, K, H) of one network at the slots (P, F, L) of others, zeros where they had none: -> (P, F, H, L)."""
    hidden = weights.shape[2]
    index = slot[:, :, None].expand(-1, -1, hidden, -1)
    return weights.mT.expand(len(slot), -1, -1, -1).gather(3, index).masked_fill_(~found[:, :, None], 0)
