"""Who measures losses: this process by itself, or another on its behalf, with this one standing in when that one is away.

Example:
    >>> losses = StandIn(far, InProcess(bank))
    >>> loss, known = losses.of(fingerprint, codes)       # the same to 1e-4, whoever measured
    >>> losses.degraded                                   # whether this process had to
    False
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from fingerprint import autoencoder
from fingerprint.arrays import like
from fingerprint.bank import Bank
from fingerprint.domain import FingerprintError
from fingerprint.hashing import Hashes
from fingerprint.ports import Away, Losses
from fingerprint.vocabulary import Floats, Ints

log = logging.getLogger("fingerprint.losses")


class InProcess:
    """Losses (see `ports`) by this process's own array library, where the bank's arrays lie: the twin of every server."""

    degraded = False

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @property
    def version(self) -> str:
        return self.bank.version

    def of(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """fingerprint (N,), codes (N, F) -> loss (N, F) in nats, known (N, F)."""
        if problem := self.problem(fingerprint, codes):
            raise problem
        there = self.bank.vocabulary.keys
        loss, known = autoencoder.losses(
            self.bank.vocabulary, self.bank.weights, like(fingerprint, there), like(codes, there)
        )
        return like(loss, codes), like(known, codes)

    def problem(self, fingerprint: Ints, codes: Hashes) -> FingerprintError | None:
        """Why this cannot be measured; None if it can. A negative row would be somebody else's."""
        rows, features = self.bank.vocabulary.total.shape
        if codes.ndim != 2 or codes.shape != (len(fingerprint), features):
            return FingerprintError(
                f"codes have the shape {codes.shape}, wanted is ({len(fingerprint)}, {features})"
            )
        if len(fingerprint) and not 0 <= int(fingerprint.min()) <= int(fingerprint.max()) < rows:
            return FingerprintError(
                f"bank {self.version} has the fingerprints 0 to {rows - 1}; "
                f"asked for were {fingerprint.min()} to {fingerprint.max()}"
            )
        return None


class StandIn:
    """Losses by `far`; when it is away, or refuses, by `near` on the same bank, and what was measured so is degraded."""

    def __init__(self, far: Losses, near: Losses) -> None:
        if far.version != near.version:
            raise FingerprintError(
                f"bank {near.version} cannot stand in for bank {far.version}: name the same"
            )
        self.far, self.near, self.degraded = far, near, False

    @property
    def version(self) -> str:
        return self.near.version

    def of(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """All of a call is measured by one of the two."""
        try:
            answer = self.far.of(fingerprint, codes)
        except Away as reason:
            if not self.degraded:
                log.warning("losses are measured in process", extra={"fields": {"reason": str(reason)}})
            self.degraded = True
            return self.near.of(fingerprint, codes)
        if self.degraded:
            log.info("losses are measured by the server again")
        self.degraded = False
        return answer
