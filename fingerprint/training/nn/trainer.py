"""Fit many autoencoders at once in torch, which only this package imports.

Example:
    >>> weights = fit_autoencoders(vocabulary, rows, held_out, ready, settings.autoencoder)

Denoising by swapping: a share of a row's inputs is replaced by the same features of another row of the same fingerprint,
and a few are blanked to "never seen", so that a network reconstructs what belongs together instead of copying. The generic
network is fitted first; all others start from its weights, value by value, and stop one by one: each keeps the weights of the
epoch in which its held-out rows were reconstructed best, the counts alone (no correction) included, and leaves the stack
after EARLY_STOPPING_PATIENCE epochs without improvement (`loop`).

A network depends on the seed and on its own fingerprint: its rows, its slots, and the stream of random numbers that its key
names. In another bucket, on another worker or in another partition of the history, it is the same to 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import to_torch
from fingerprint.compute.hashing import Hashes
from fingerprint.core import settings
from fingerprint.core.alert import FingerprintError
from fingerprint.core.extras import how_to_install
from fingerprint.estimators.autoencoder import FREE_FEATURES, VISIBLE_MASK, Weights
from fingerprint.features.vocabulary import Ints, Vocabulary
from fingerprint.registry.bank import Bank
from fingerprint.training.distinct_rows import SEED
from fingerprint.training.nn.batching import Bucket, Indices, make_buckets
from fingerprint.training.nn.warm_start import remap_weights

try:
    import torch

    from fingerprint.training.nn.device import bucket_memory_bytes, select_device, to_numpy
    from fingerprint.training.nn.loop import TrainingLoop
    from fingerprint.training.nn.network import Parameters, StackedNetworks
    from fingerprint.training.nn.sampling import TrainingRows
    from fingerprint.training.nn.warm_start import initial_networks
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise FingerprintError(f"learning needs torch, scoring does not: {how_to_install('train')}") from None

__all__ = ["InitialWeights", "SlotRows", "fit_autoencoders", "remap_weights"]

HIDDEN_UNITS = 8  # of a net
VALIDATION_ROWS = 32  # rows held out that say whether an epoch was an improvement
FLOAT16_MAX = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class SlotRows:
    """Slots (R, F) of rows sorted by fingerprint; `bounds` (E + 1,) cuts them by fingerprint."""

    slots: NDArray[np.int16]
    bounds: NDArray[np.intp]

    @classmethod
    def from_fingerprints(cls, fingerprint: Ints, slots: NDArray[np.int16], size: int) -> SlotRows:
        """Return rows sorted by their fingerprint (R,), of `size` fingerprints."""
        order = np.argsort(fingerprint, kind="stable")
        return cls(slots[order], np.searchsorted(fingerprint[order], np.arange(size + 1)))

    @property
    def counts(self) -> NDArray[np.intp]:
        """Rows of each fingerprint (E,)."""
        return np.diff(self.bounds)


@dataclass(frozen=True, slots=True)
class InitialWeights:
    """The net that others start from: one of Weights, over the slots `codes` (1, F, K)."""

    weights: Weights
    codes: Hashes

    @classmethod
    def from_weights(cls, weights: Weights, codes: Hashes) -> InitialWeights:
        """Return the first of several networks."""
        first = Weights(weights.inputs[:1], weights.bias[:1], weights.outputs[:1], np.zeros(1, np.int32))
        return cls(first, codes[:1])

    @classmethod
    def from_bank(cls, bank: Bank) -> InitialWeights:
        """Return the generic network of a bank that was trained before, on any history."""
        return cls.from_weights(bank.weights, bank.vocabulary.codes)


def fit_autoencoders(
    vocabulary: Vocabulary,
    rows: SlotRows,
    held_out: SlotRows,
    ready: Indices,
    options: settings.Autoencoder,
    on_progress: Callable[[int], None] = lambda done: None,
    *,
    start: InitialWeights | None = None,
    keys: Hashes | None = None,
    seed: int = SEED,
) -> Weights:
    """Return networks, in half precision, for the fingerprints `ready` (P,). Calls `on_progress` with the number finished.

    The generic one (0), if it is among them, is fitted first, from `start`, and the others start from it; else all start from
    `start`. `keys` (E,) name the fingerprints wherever they are fitted; without, their numbers do. A fingerprint without rows,
    or without held-out rows, has a network that corrects nothing. Raises FingerprintError where the device of the setting is
    missing, or `start` has networks of another size.
    """
    stack = _zero_weights(vocabulary, ready, HIDDEN_UNITS)
    if not options.max_epochs:
        on_progress(len(ready))
        return stack
    keys = np.arange(len(vocabulary.parent), dtype=np.uint64) if keys is None else keys
    here = _Trainer(vocabulary, rows, held_out, keys, options, seed)
    start = _check_start(start) or _untrained_start(vocabulary, seed)
    generic, others = ready[ready == 0], ready[ready != 0]
    if len(generic):
        here.fit_all(generic, start, stack, on_progress)
        start = (
            InitialWeights.from_weights(stack, vocabulary.codes) if stack.inputs[0].any() else start
        )  # it may have had no rows
    here.fit_all(others, start, stack, on_progress)
    return stack


def _zero_weights(vocabulary: Vocabulary, ready: Indices, hidden: int) -> Weights:
    """Return networks that correct nothing."""
    nets, features, slots = len(ready), len(VISIBLE_MASK[0]), vocabulary.base.shape[2]
    row = np.full(len(vocabulary.parent), -1, np.int32)
    row[ready] = np.arange(nets)
    return Weights(
        np.zeros((nets, features, slots, hidden), np.float16),
        np.zeros((nets, hidden), np.float16),
        np.zeros((nets, len(FREE_FEATURES), slots, hidden), np.float16),
        row,
    )


def _untrained_start(vocabulary: Vocabulary, seed: int) -> InitialWeights:
    shape = (1, *vocabulary.base.shape[1:], HIDDEN_UNITS)
    inputs = np.random.default_rng(seed).normal(0, 0.5, shape).astype(np.float32)
    nothing = np.zeros((1, HIDDEN_UNITS), np.float32)
    outputs = np.zeros((1, len(FREE_FEATURES), *shape[2:]), np.float32)
    return InitialWeights(Weights(inputs, nothing, outputs, np.zeros(1, np.int32)), vocabulary.codes[:1])


def _check_start(start: InitialWeights | None) -> InitialWeights | None:
    if start and (hidden := start.weights.bias.shape[1]) != HIDDEN_UNITS:
        raise FingerprintError(
            f"the nets to start from have {hidden} hidden units, nets have {HIDDEN_UNITS}: start without them"
        )
    return start


class _Trainer:
    """The data that all buckets share; the rows lie on the device once."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        rows: SlotRows,
        held_out: SlotRows,
        keys: Hashes,
        options: settings.Autoencoder,
        seed: int,
    ) -> None:
        self.vocabulary, self.rows, self.held_out, self.options = vocabulary, rows, held_out, options
        self.keys = hashing.hash_pair(keys, np.uint64(seed)).view(np.int64)
        self.device = select_device(options.device)
        self.slots = [to_torch(each.slots).to(self.device) for each in (rows, held_out)]

    def fit_all(
        self, members: Indices, start: InitialWeights, stack: Weights, advance: Callable[[int], None]
    ) -> None:
        """Fit the networks of some fingerprints into `stack`; on a CPU each core has a bucket of its own."""
        fitted = members[(self.rows.counts[members] > 0) & (self.held_out.counts[members] > 0)]
        advance(len(members) - len(fitted))
        threads = torch.get_num_threads() if self.device.type == "cpu" else 1
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for done in pool.map(partial(self._fit_bucket, start=start, stack=stack), self._buckets(fitted)):
                advance(done)

    def _buckets(self, members: Indices) -> Iterator[Bucket]:
        codes = self.vocabulary.codes[members]
        used = 1 + (codes != 0).sum(2).max(1, initial=0)
        sizes = codes.shape[2], HIDDEN_UNITS, bucket_memory_bytes(self.device)
        return make_buckets(members, self.rows.counts[members], used, *sizes)

    def _fit_bucket(self, bucket: Bucket, start: InitialWeights, stack: Weights) -> int:
        """Fit a bucket; its networks are copied to `stack` one after the other as they finish."""
        places = stack.row[bucket.members]
        self._training_loop(bucket, start).train(lambda done, best: _store_weights(stack, places, done, best))
        return len(places)

    def _training_loop(self, bucket: Bucket, start: InitialWeights) -> TrainingLoop:
        history, held_out = (
            self._training_rows(slots, each, bucket.members)
            for slots, each in zip(self.slots, (self.rows, self.held_out), strict=True)
        )
        nets = self._initial_networks(bucket, start)
        return TrainingLoop(nets, history, held_out.evenly_spaced(VALIDATION_ROWS), bucket.rows, self.options)

    def _training_rows(self, slots: torch.Tensor, rows: SlotRows, members: Indices) -> TrainingRows:
        columns = (rows.bounds[members], rows.counts[members], self.keys[members])
        return TrainingRows(slots, *(torch.from_numpy(column).to(self.device) for column in columns))

    def _initial_networks(self, bucket: Bucket, start: InitialWeights) -> StackedNetworks:
        """Return the start's weights at the slots that their values have in each fingerprint."""
        codes = self.vocabulary.codes[bucket.members, :, : bucket.slots]
        base = self.vocabulary.base[bucket.members][:, FREE_FEATURES, : bucket.slots]
        return initial_networks(start.weights, start.codes[0], codes, base, self.device)


def _store_weights(stack: Weights, places: Ints, finished: torch.Tensor, best: Parameters) -> None:
    """Write networks of a bucket, those at `finished` (M,), to the stack; slots that were not fitted stay zero."""
    inputs, bias, outputs = (_to_half_precision(part) for part in best)
    at, *parts = to_numpy(finished, inputs.mT.contiguous(), bias, outputs.mT.contiguous())
    rows, slots = places[at], parts[0].shape[2]
    stack.inputs[rows, :, :slots], stack.bias[rows], stack.outputs[rows, :, :slots] = parts


def _to_half_precision(part: torch.Tensor) -> torch.Tensor:
    """Convert to half precision on the device: half as much is copied back."""
    return part.clamp(-FLOAT16_MAX, FLOAT16_MAX).to(torch.float16)
