"""Ablations of the autoencoder's score: without its networks, its counts or its peers, to measure what each is worth.

Example:
    >>> counts = LocalInference(without_nets(bank))          # losses by counts alone
    >>> nets = NetsAlone(LocalInference(bank), counts)       # losses by the networks' corrections alone
    >>> recentered(bank, LocalInference(bank), counts)       # a bank whose usual losses are those of the counts
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats, Ints, namespace, to_device_of, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.core.ports.inference import Inference
from fingerprint.registry.bank import PEER_LEVEL, Bank


class NetsAlone:
    """Losses by the networks' corrections alone: what they add to the loss of the counts, zero where they lower it."""

    def __init__(self, both: Inference, counts: Inference) -> None:
        self.both, self.counts = both, counts

    @property
    def degraded(self) -> bool:
        """Return whether the fallback computed the last losses."""
        return self.both.degraded

    @property
    def version(self) -> str:
        """The version of the bank."""
        return self.both.version

    def losses(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """Return loss (N, F) in nats and known (N, F) of fingerprint (N,) and codes (N, F)."""
        loss, known = self.both.losses(fingerprint, codes)
        counted, _ = self.counts.losses(fingerprint, codes)
        return namespace(loss).maximum(loss - counted, 0), known


def without_nets(bank: Bank) -> Bank:
    """Return a bank without networks: its losses are those of the counts."""
    nets = bank.weights
    return replace(bank, weights=replace(nets, row=namespace(nets.row).full_like(nets.row, -1)))


def without_peers(bank: Bank) -> Bank:
    """Return a bank that judges values which a principal never showed by the organisation, not by its peers."""
    known, level = bank.vocabulary, bank.fingerprints["level"].to_numpy()
    parent = to_host(known.parent).copy()
    parent[(parent >= 0) & (level[parent] == PEER_LEVEL)] = 0
    return replace(bank, vocabulary=replace(known, parent=to_device_of(parent, known.keys)))


def recentered(bank: Bank, whole: Inference, part: Inference) -> Bank:
    """Return a bank with the usual losses of `part`: those of each feature are moved by its median difference from `whole`.

    The difference is measured on the bank's sample of training rows; a bank without a sample is returned unchanged.
    """
    codes, at = (bank.scorer_state.get(f"sample.{name}") for name in ("codes", "fingerprint"))
    if codes is None or at is None or not len(codes):
        return bank
    rows = tuple(to_device_of(each, bank.vocabulary.keys) for each in (at, codes))
    before, after = (to_host(each.losses(*rows)[0]) for each in (whole, part))
    moved = to_device_of(np.median(after - before, axis=0).astype(np.float32), bank.baseline.center)
    center = namespace(moved).maximum(bank.baseline.center + moved, 0)
    return replace(bank, baseline=replace(bank.baseline, center=center))
