"""Inference: losses computed in this process, or by a server with this process as its fallback.

Example:
    >>> inference = FallbackInference(remote, LocalInference(bank))
    >>> loss, known = inference.losses(fingerprint, codes)    # equal to 1e-4 nats, whichever of the two computed them
    >>> inference.degraded                                    # True if the fallback computed them
    False
    >>> inference.trust.failure                               # why the server is no longer trusted
    ''
"""

from __future__ import annotations

import secrets
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats, Ints, to_device_of, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.core.errors import FingerprintError, Unavailable
from fingerprint.core.log import get_logger
from fingerprint.core.ports.inference import Inference
from fingerprint.estimators import autoencoder
from fingerprint.registry.bank import Bank

LOSS_TOLERANCE = 1e-4  # nats: array libraries differ by less
CHECKED_SHARE = 0.01  # of the rows of a response, which are computed again
MIN_CHECKED_ROWS = 8  # rows of a small response: they take hardly longer than one

log = get_logger("fingerprint.detection.inference")


class LocalInference:
    """Losses computed by this process with the array library of the bank: the reference for every server."""

    degraded = False

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @property
    def version(self) -> str:
        """The version of the bank."""
        return self.bank.version

    def losses(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """Return loss (N, F) in nats and known (N, F) of fingerprint (N,) and codes (N, F)."""
        if problem := self.validation_error(fingerprint, codes):
            raise problem
        there = self.bank.vocabulary.keys
        loss, known = self._measure(to_device_of(fingerprint, there), to_device_of(codes, there))
        return to_device_of(loss, codes), to_device_of(known, codes)

    @cached_property
    def _measure(self) -> autoencoder.LossFunction:
        return autoencoder.make_loss_function(self.bank.vocabulary, self.bank.weights)

    def validation_error(self, fingerprint: Ints, codes: Hashes) -> FingerprintError | None:
        """Return an error for rows that cannot be computed, or None. A negative row would index another fingerprint."""
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
    """The trust in a server after checks of its responses; all banks that it serves share it."""

    def __init__(self) -> None:
        self.failure = ""  # the first wrong response, in a sentence; from then on the server is not used


class FallbackInference:
    """Losses by `remote`; if it is unavailable or refuses, by `local` on the same bank, and `degraded` is then True.

    `local` also computes random rows of every response, which the server cannot predict. A response that differs by more than
    LOSS_TOLERANCE is discarded, and `remote` is not used any more: a server that invents losses could hide an attack.
    """

    def __init__(self, remote: Inference, local: Inference, trust: ServerTrust | None = None) -> None:
        if remote.version != local.version:
            raise FingerprintError(
                f"bank {local.version} cannot be the fallback of bank {remote.version}: name the same"
            )
        self.remote, self.local, self.degraded = remote, local, False
        self.trust, self.random = trust or ServerTrust(), np.random.default_rng(secrets.randbits(128))

    @property
    def version(self) -> str:
        """The version of the bank, which is the same for both."""
        return self.local.version

    def losses(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """Return all losses from one of the two. Raise FingerprintError for rows that `local` refuses as well."""
        try:
            answer = self._verified_remote_losses(fingerprint, codes)
        except (Unavailable, FingerprintError) as reason:
            # A server with another model may refuse valid rows.
            answer = self.local.losses(fingerprint, codes)
            if not self.degraded:
                log.warning("losses are computed in process", reason=str(reason))
            self.degraded = True
            return answer
        if self.degraded:
            log.info("losses are computed by the server again")
        self.degraded = False
        return answer

    def _verified_remote_losses(self, fingerprint: Ints, codes: Hashes) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the server's losses. Raise Unavailable also for a wrong response, and for every request after it."""
        if self.trust.failure:
            raise Unavailable(self.trust.failure)
        answer = self.remote.losses(fingerprint, codes)
        if len(codes) and (wrong := self._describe_mismatch(fingerprint, codes, answer)):
            self.trust.failure = wrong
            log.critical("the server's losses are wrong; it is not used any more", reason=wrong)
            raise Unavailable(wrong)
        return answer

    def _describe_mismatch(
        self, fingerprint: Ints, codes: Hashes, answer: tuple[Floats, NDArray[np.bool_]]
    ) -> str:
        """Return in words how random rows of a response differ from the local losses; empty if they agree."""
        few = min(len(codes), max(MIN_CHECKED_ROWS, int(len(codes) * CHECKED_SHARE)))
        rows = to_device_of(self.random.choice(len(codes), few, replace=False, shuffle=False), codes)
        expected = self.local.losses(fingerprint[rows], codes[rows])
        gap = float(abs(to_host(answer[0][rows]) - to_host(expected[0])).max())
        if gap <= LOSS_TOLERANCE and bool((to_host(answer[1][rows]) == to_host(expected[1])).all()):
            return ""
        return f"of {few} rows that were computed again, one differs by {gap:.3g} nats or in what is known"
