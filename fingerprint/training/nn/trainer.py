"""Fit many autoencoders at once: compiled for a CPU, in torch on a CUDA device.

Example:
    >>> weights = fit_autoencoders(vocabulary, rows, held_out, ready, settings.autoencoder)

Denoising by swapping: a share of a row's inputs is replaced by the same features of another row of the same fingerprint,
and a few are blanked to "never seen", so that a network reconstructs what belongs together instead of copying. The generic
network is fitted first; all others start from its weights, value by value, and stop one by one: each keeps the weights of the
epoch in which its held-out rows were reconstructed best, the counts alone (no correction) included, and goes on for no more
than EARLY_STOPPING_PATIENCE epochs without improvement (`hyperparameters`).

A network depends on the seed and on its own fingerprint: its rows, its slots, and the stream of random numbers that its key
names. In another bucket, on another worker or in another partition of the history, it is the same to 1e-6.

A CPU always fits by `compiled`, also where torch is installed: a bank does not depend on what else is in the environment, and it
takes less CPU. A device fits by `stacked`, the same recipe as stacked tensors in torch; the tests hold one against the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import cuda, hashing
from fingerprint.compute.arrays import Ints
from fingerprint.compute.hashing import Hashes
from fingerprint.core import settings
from fingerprint.core.errors import FingerprintError
from fingerprint.core.extras import how_to_install
from fingerprint.estimators.autoencoder import FLOAT16_MAX, FREE_FEATURES, VISIBLE_MASK, Weights
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.registry.bank import Bank
from fingerprint.training.distinct_rows import SEED
from fingerprint.training.nn import compiled
from fingerprint.training.nn.batching import CPU_BUCKET_BYTES, Bucket, Indices, make_buckets
from fingerprint.training.nn.hyperparameters import HIDDEN_UNITS, VALIDATION_ROWS
from fingerprint.training.nn.warm_start import remap_weights

__all__ = ["InitialWeights", "SlotRows", "fit_autoencoders", "remap_weights"]


@dataclass(frozen=True, slots=True)
class SlotRows:
    """Slots (R, F) of rows sorted by fingerprint; those of fingerprint e are `bounds[e]` ... `bounds[e + 1] - 1`."""

    slots: NDArray[np.int16]
    bounds: NDArray[np.intp]

    @classmethod
    def from_fingerprints(cls, fingerprint: Ints, slots: NDArray[np.int16], size: int) -> SlotRows:
        """Return rows sorted by their `fingerprint` (R,), for `size` fingerprints."""
        order = np.argsort(fingerprint, kind="stable")
        return cls(slots[order], np.searchsorted(fingerprint[order], np.arange(size + 1)))

    @property
    def counts(self) -> NDArray[np.intp]:
        """The number of rows of each fingerprint (E,)."""
        return np.diff(self.bounds)


@dataclass(frozen=True, slots=True)
class InitialWeights:
    """The network that others start from: Weights of one network, over the slots `codes` (1, F, K)."""

    weights: Weights
    codes: Hashes

    @classmethod
    def from_weights(cls, weights: Weights, codes: Hashes) -> InitialWeights:
        """Return the first of several networks."""
        first = Weights(weights.inputs[:1], weights.bias[:1], weights.outputs[:1], np.zeros(1, np.int32))
        return cls(first, codes[:1])

    @classmethod
    def from_bank(cls, bank: Bank) -> InitialWeights:
        """Return the generic network of an earlier bank, trained on any history."""
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
    make_fitter: Callable[[TrainingData], BucketFitter] | None = None,
) -> Weights:
    """Return networks, in half precision, for the fingerprints `ready` (P,). Call `on_progress` with the number finished.

    If the generic fingerprint (0) is among them, it is fitted first, from `start`, and the others start from it; else all start
    from `start`. A network of zeros is no start, because all its gradients are zero: random weights replace it. `keys` (E,) seed
    the random streams of the fingerprints, by default their numbers. `make_fitter` is by default `select_fitter`. A fingerprint
    without rows or without held-out rows gets a network that corrects nothing. Raise FingerprintError if the device of the
    setting is missing, or if `start` has networks of another size.
    """
    stack = _zero_weights(vocabulary, ready, HIDDEN_UNITS)
    if not options.max_epochs:
        on_progress(len(ready))
        return stack
    keys = np.arange(len(vocabulary.parent), dtype=np.uint64) if keys is None else keys
    streams = hashing.hash_pair(keys, np.uint64(seed))
    data = TrainingData(vocabulary, rows, held_out, streams, options)
    here = _Trainer(data, (make_fitter or select_fitter)(data))
    start = _usable_start(start) or _untrained_start(vocabulary, seed)
    generic, others = ready[ready == 0], ready[ready != 0]
    if len(generic):
        here.fit_all(generic, start, stack, on_progress)
        # The generic fingerprint may have had no rows.
        start = _usable_start(InitialWeights.from_weights(stack, vocabulary.codes)) or start
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


def _usable_start(start: InitialWeights | None) -> InitialWeights | None:
    """Return a network to start from; None without one, or for one of zeros, which would never learn."""
    if start and (hidden := start.weights.bias.shape[1]) != HIDDEN_UNITS:
        raise FingerprintError(
            f"the nets to start from have {hidden} hidden units, nets have {HIDDEN_UNITS}: start without them"
        )
    return start if start and start.weights.inputs.any() else None


class BucketFitter(Protocol):
    """An object that fits the networks of a bucket, on a CPU or on a device."""

    threads: int  # number of threads that fit buckets at the same time
    bucket_bytes: int  # largest size of a bucket

    def fit(self, bucket: Bucket, start: InitialWeights, stack: Weights) -> None:
        """Fit a bucket's networks into `stack`."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Data that all buckets share: rows by fingerprint, those held out, and the key (E,) of each fingerprint's random stream."""

    vocabulary: Vocabulary
    rows: SlotRows
    held_out: SlotRows
    keys: Hashes
    options: settings.Autoencoder

    def initial_codes(self, bucket: Bucket) -> Hashes:
        """Return the codes of the slots that a bucket's networks are fitted with (Q, F, L)."""
        return self.vocabulary.codes[bucket.members, :, : bucket.slots]

    def base(self, bucket: Bucket) -> NDArray[np.float32]:
        """Return the log likelihoods that the networks of a bucket correct (Q, G, L)."""
        return self.vocabulary.base[bucket.members][:, FREE_FEATURES, : bucket.slots]


class CompiledFitter:
    """Fits the networks of a bucket one after another, on a CPU."""

    bucket_bytes = CPU_BUCKET_BYTES

    def __init__(self, data: TrainingData) -> None:
        self.data, self.threads = data, cpu_threads()

    def fit(self, bucket: Bucket, start: InitialWeights, stack: Weights) -> None:
        """Fit a bucket's networks into `stack`; slots that were not fitted stay zero."""
        data, source = self.data, np.zeros(len(bucket.members), np.intp)
        first = remap_weights(start.weights, start.codes, data.initial_codes(bucket), source)
        nets = compiled.fit_networks(
            compiled.Networks(first.inputs, first.bias, first.outputs.swapaxes(2, 3)),
            data.base(bucket),
            self._histories(data.rows, bucket),
            self._histories(data.held_out, bucket).evenly_spaced(VALIDATION_ROWS),
            bucket.rows,
            data.options.max_epochs,
        )
        rows = stack.row[bucket.members]
        stack.inputs[rows, :, : bucket.slots] = _to_half_precision(nets.inputs)
        stack.bias[rows] = _to_half_precision(nets.bias)
        stack.outputs[rows, :, : bucket.slots] = _to_half_precision(nets.outputs.swapaxes(2, 3))

    def _histories(self, rows: SlotRows, bucket: Bucket) -> compiled.Histories:
        members = bucket.members
        return compiled.Histories(
            rows.slots, rows.bounds[members], rows.counts[members], self.data.keys[members]
        )


def cpu_threads() -> int:
    """Return the number of threads that fit: OMP_NUM_THREADS if it is set (Dask's workers have it), else the available cores."""
    wished = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(1, int(wished) if wished.isascii() and wished.isdecimal() else len(os.sched_getaffinity(0)))


def select_fitter(data: TrainingData) -> BucketFitter:
    """Return the fitter for `autoencoder.device`: torch if it sees a CUDA device and the setting is not cpu, else compiled code.

    Raise FingerprintError if the setting is cuda, and torch or the GPU is missing.
    """
    setting = data.options.device
    if setting == "cpu" or (setting == "auto" and not cuda.has_driver()):
        return CompiledFitter(data)
    try:
        from fingerprint.training.nn import stacked
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        if setting == "cuda":
            raise FingerprintError(
                f"autoencoder.device is cuda, which needs torch: {how_to_install('train')}"
            ) from None
        return CompiledFitter(data)
    device = stacked.select_device(setting)
    return CompiledFitter(data) if device.type == "cpu" else stacked.StackedFitter(data, device)


class _Trainer:
    """Cuts fingerprints into buckets and fits these in threads."""

    def __init__(self, data: TrainingData, fitter: BucketFitter) -> None:
        self.data, self.fitter = data, fitter

    def fit_all(
        self, members: Indices, start: InitialWeights, stack: Weights, advance: Callable[[int], None]
    ) -> None:
        """Fit the networks of fingerprints `members` into `stack`; on a CPU each thread has a bucket of its own."""
        data = self.data
        fitted = members[(data.rows.counts[members] > 0) & (data.held_out.counts[members] > 0)]
        advance(len(members) - len(fitted))
        with ThreadPoolExecutor(self.fitter.threads) as pool:
            for done in pool.map(partial(self._fit_bucket, start=start, stack=stack), self._buckets(fitted)):
                advance(done)

    def _buckets(self, members: Indices) -> Iterator[Bucket]:
        codes = self.data.vocabulary.codes[members]
        used = 1 + (codes != 0).sum(2).max(1, initial=0)
        sizes = codes.shape[2], HIDDEN_UNITS, self.fitter.bucket_bytes
        return make_buckets(members, self.data.rows.counts[members], used, *sizes)

    def _fit_bucket(self, bucket: Bucket, start: InitialWeights, stack: Weights) -> int:
        self.fitter.fit(bucket, start, stack)
        return len(bucket.members)


def _to_half_precision(part: NDArray[np.float32]) -> NDArray[np.float16]:
    return part.clip(-FLOAT16_MAX, FLOAT16_MAX).astype(np.float16)
