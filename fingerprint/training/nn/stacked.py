"""Fit networks on a CUDA device as stacked tensors in torch: the tensors of a bucket, and the copy back to the host.

Example:
    >>> StackedFitter(data, torch.device("cuda")).fit(bucket, start, stack)

The rows are copied to the device once. The initial network is expanded to many on the device: only the codes of slots are copied,
8 bytes each, and not the weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from fingerprint.compute.arrays import Floats, Ints, to_torch
from fingerprint.compute.hashing import Hashes
from fingerprint.estimators.autoencoder import FLOAT16_MAX, FREE_FEATURES, Weights
from fingerprint.training.nn.batching import Bucket, Indices
from fingerprint.training.nn.device import bucket_memory_bytes, select_device, to_numpy
from fingerprint.training.nn.hyperparameters import VALIDATION_ROWS
from fingerprint.training.nn.loop import TrainingLoop
from fingerprint.training.nn.network import Parameters, StackedNetworks
from fingerprint.training.nn.sampling import TrainingRows
from fingerprint.training.nn.warm_start import FEATURE_BITS

if TYPE_CHECKING:
    from fingerprint.training.nn.trainer import InitialWeights, SlotRows, TrainingData

__all__ = ["StackedFitter", "initial_networks", "select_device"]

Tensor = torch.Tensor


class StackedFitter:
    """Fits the networks of a bucket together, on a device (or, in tests, on a CPU)."""

    threads = 1

    def __init__(self, data: TrainingData, device: torch.device) -> None:
        self.data, self.device = data, device
        self.bucket_bytes = bucket_memory_bytes(device)
        self.keys = data.keys.view(np.int64)
        self.slots = [to_torch(each.slots).to(device) for each in (data.rows, data.held_out)]

    def fit(self, bucket: Bucket, start: InitialWeights, stack: Weights) -> None:
        """Fit a bucket; its networks are copied to `stack` as they finish."""
        places = stack.row[bucket.members]
        self._training_loop(bucket, start).train(lambda done, best: _store_weights(stack, places, done, best))

    def _training_loop(self, bucket: Bucket, start: InitialWeights) -> TrainingLoop:
        data = self.data
        history, held_out = (
            self._training_rows(slots, each, bucket.members)
            for slots, each in zip(self.slots, (data.rows, data.held_out), strict=True)
        )
        nets = initial_networks(
            start.weights, start.codes[0], data.initial_codes(bucket), data.base(bucket), self.device
        )
        return TrainingLoop(nets, history, held_out.evenly_spaced(VALIDATION_ROWS), bucket.rows, data.options)

    def _training_rows(self, slots: torch.Tensor, rows: SlotRows, members: Indices) -> TrainingRows:
        columns = (rows.bounds[members], rows.counts[members], self.keys[members])
        return TrainingRows(slots, *(torch.from_numpy(column).to(self.device) for column in columns))


def _store_weights(stack: Weights, places: Ints, finished: torch.Tensor, best: Parameters) -> None:
    """Write the `finished` (M,) networks of a bucket to the stack; slots that were not fitted stay zero."""
    inputs, bias, outputs = (_to_half_precision(part) for part in best)
    at, *parts = to_numpy(finished, inputs.mT.contiguous(), bias, outputs.mT.contiguous())
    rows, slots = places[at], parts[0].shape[2]
    stack.inputs[rows, :, :slots], stack.bias[rows], stack.outputs[rows, :, :slots] = parts


def _to_half_precision(part: torch.Tensor) -> torch.Tensor:
    """Convert to half precision on the device: half as much is copied back."""
    return part.clamp(-FLOAT16_MAX, FLOAT16_MAX).to(torch.float16)


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
    new_keys = new ^ feature
    place = torch.searchsorted(keys, new_keys).clamp_(max=len(keys) - 1)
    found = (keys[place] == new_keys) & (new != 0)
    slot = torch.where(found, order[place] % old.shape[1], 0)
    found[..., 0], slot[..., 0] = True, 0
    return slot, found


def _remap(weights: Tensor, slot: Tensor, found: Tensor) -> Tensor:
    """Return weights (F, K, H) of one network at the slots (P, F, L) of others, zeros where they had none: -> (P, F, H, L)."""
    hidden = weights.shape[2]
    index = slot[:, :, None].expand(-1, -1, hidden, -1)
    return weights.mT.expand(len(slot), -1, -1, -1).gather(3, index).masked_fill_(~found[:, :, None], 0)
