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

from fingerprint.compute.arrays import to_device_of, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Inference, Unavailable
from fingerprint.estimators import autoencoder
from fingerprint.features.vocabulary import Floats, Ints
from fingerprint.registry.bank import Bank

LOSS_TOLERANCE = 1e-4  # nats: who measures the same with another library differs by less
CHECKED_SHARE = 0.01  # of the rows of an answer ...
MIN_CHECKED_ROWS = 8  # ... and so many of a small one: they take hardly longer than one does

log = logging.getLogger("fingerprint.detection.inference")


class LocalInference:
    """Losses (see `ports`) by this process's own array library, where the bank's arrays lie: the twin of every server."""

    degraded = False

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @property
    def version(self) -> str:
        return self.bank.version

    def losses(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """fingerprint (N,), codes (N, F) -> loss (N, F) in nats, known (N, F)."""
        if problem := self.validation_error(fingerprint, codes):
            raise problem
        there = self.bank.vocabulary.keys
        loss, known = autoencoder.feature_losses(
            self.bank.vocabulary,
            self.bank.weights,
            to_device_of(fingerprint, there),
            to_device_of(codes, there),
        )
        return to_device_of(loss, codes), to_device_of(known, codes)

    def validation_error(self, fingerprint: Ints, codes: Hashes) -> FingerprintError | None:
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


class ServerTrust:
    """Whether a server's answers were true, as far as it was checked: one for all banks that it measures against."""

    def __init__(self) -> None:
        self.failure = ""  # the first answer that was wrong, in a sentence; it is asked no more


class FallbackInference:
    """Losses by `far`; when it is away, or refuses, by `near` on the same bank, and what was measured so is degraded.

    Some rows of every answer, which nobody can foresee, are measured by `near`, too. An answer that differs by more than CLOSE
    is none, and `far` is asked no more: a server that invents losses hides an attack.
    """

    def __init__(self, remote: Inference, local: Inference, trust: ServerTrust | None = None) -> None:
        if remote.version != local.version:
            raise FingerprintError(
                f"bank {local.version} cannot stand in for bank {remote.version}: name the same"
            )
        self.remote, self.local, self.degraded = remote, local, False
        self.trust, self.random = trust or ServerTrust(), np.random.default_rng(secrets.randbits(128))

    @property
    def version(self) -> str:
        return self.local.version

    def losses(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """All of a call is measured by one of the two."""
        try:
            answer = self._verified_remote_losses(fingerprint, codes)
        except Unavailable as reason:
            if not self.degraded:
                log.warning("losses are measured in process", extra={"fields": {"reason": str(reason)}})
            self.degraded = True
            return self.local.losses(fingerprint, codes)
        if self.degraded:
            log.info("losses are measured by the server again")
        self.degraded = False
        return answer

    def _verified_remote_losses(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """What `far` answers. Away, also where its answer is not believed, or was not once."""
        if self.trust.failure:
            raise Unavailable(self.trust.failure)
        answer = self.remote.losses(fingerprint, codes)
        if len(codes) and (wrong := self._describe_mismatch(fingerprint, codes, answer)):
            self.trust.failure = wrong
            log.critical(
                "the server's losses are wrong; it is asked no more", extra={"fields": {"reason": wrong}}
            )
            raise Unavailable(wrong)
        return answer

    def _describe_mismatch(
        self, fingerprint: Ints, codes: Hashes, answer: tuple[Floats, NDArray[np.bool_]]
    ) -> str:
        """How far some rows of an answer are from what they are here; nothing where they are the same."""
        few = min(len(codes), max(MIN_CHECKED_ROWS, int(len(codes) * CHECKED_SHARE)))
        rows = to_device_of(self.random.choice(len(codes), few, replace=False, shuffle=False), codes)
        wanted = self.local.losses(fingerprint[rows], codes[rows])
        gap = float(abs(to_host(answer[0][rows]) - to_host(wanted[0])).max())
        if gap <= LOSS_TOLERANCE and bool((to_host(answer[1][rows]) == to_host(wanted[1])).all()):
            return ""
        return f"of {few} rows that were measured again, one differs by {gap:.3g} nats or in what is known"
