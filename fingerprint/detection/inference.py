"""Who measures losses: this process by itself, or another on its behalf, with this one standing in when that one is away.

Example:
    >>> losses = StandIn(far, InProcess(bank))
    >>> loss, known = losses.of(fingerprint, codes)       # the same to 1e-4, whoever measured
    >>> losses.degraded                                   # whether this process had to
    False
    >>> losses.trust.broken                               # why the server is not believed any more
    ''
"""

from __future__ import annotations

import logging
import secrets

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import host, like
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Away, Losses
from fingerprint.estimators import autoencoder
from fingerprint.features.vocabulary import Floats, Ints
from fingerprint.registry.bank import Bank

CLOSE = 1e-4  # nats: who measures the same with another library differs by less
CHECKED_SHARE = 0.01  # of the rows of an answer ...
CHECKED_LEAST = 8  # ... and so many of a small one: they take hardly longer than one does

log = logging.getLogger("fingerprint.detection.inference")


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


class Trust:
    """Whether a server's answers were true, as far as it was checked: one for all banks that it measures against."""

    def __init__(self) -> None:
        self.broken = ""  # the first answer that was wrong, in a sentence; it is asked no more


class StandIn:
    """Losses by `far`; when it is away, or refuses, by `near` on the same bank, and what was measured so is degraded.

    Some rows of every answer, which nobody can foresee, are measured by `near`, too. An answer that differs by more than CLOSE
    is none, and `far` is asked no more: a server that invents losses hides an attack.
    """

    def __init__(self, far: Losses, near: Losses, trust: Trust | None = None) -> None:
        if far.version != near.version:
            raise FingerprintError(
                f"bank {near.version} cannot stand in for bank {far.version}: name the same"
            )
        self.far, self.near, self.degraded = far, near, False
        self.trust, self.random = trust or Trust(), np.random.default_rng(secrets.randbits(128))

    @property
    def version(self) -> str:
        return self.near.version

    def of(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """All of a call is measured by one of the two."""
        try:
            answer = self._asked(fingerprint, codes)
        except Away as reason:
            if not self.degraded:
                log.warning("losses are measured in process", extra={"fields": {"reason": str(reason)}})
            self.degraded = True
            return self.near.of(fingerprint, codes)
        if self.degraded:
            log.info("losses are measured by the server again")
        self.degraded = False
        return answer

    def _asked(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """What `far` answers. Away, also where its answer is not believed, or was not once."""
        if self.trust.broken:
            raise Away(self.trust.broken)
        answer = self.far.of(fingerprint, codes)
        if len(codes) and (wrong := self._difference(fingerprint, codes, answer)):
            self.trust.broken = wrong
            log.critical(
                "the server's losses are wrong; it is asked no more", extra={"fields": {"reason": wrong}}
            )
            raise Away(wrong)
        return answer

    def _difference(self, fingerprint: Ints, codes: Hashes, answer: tuple[Floats, NDArray[np.bool_]]) -> str:
        """How far some rows of an answer are from what they are here; nothing where they are the same."""
        few = min(len(codes), max(CHECKED_LEAST, int(len(codes) * CHECKED_SHARE)))
        rows = like(self.random.choice(len(codes), few, replace=False, shuffle=False), codes)
        wanted = self.near.of(fingerprint[rows], codes[rows])
        gap = float(abs(host(answer[0][rows]) - host(wanted[0])).max())
        if gap <= CLOSE and bool((host(answer[1][rows]) == host(wanted[1])).all()):
            return ""
        return f"of {few} rows that were measured again, one differs by {gap:.3g} nats or in what is known"
