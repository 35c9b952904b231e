"""Losses by a Triton server, over gRPC.

Example:
    >>> losses = TritonLosses(bank.version, settings.triton)
    >>> loss, known = losses.of(fingerprint, codes)      # Away if there is no answer in time

Every request names the version of the bank, and every answer must: one that names another is none. Asking again is always
safe, because measuring changes nothing. A server that failed several calls in a row is left alone for a while.
"""

from __future__ import annotations

import time
from contextlib import closing

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException

from fingerprint.adapters.triton.connection import connected
from fingerprint.adapters.triton.request import MODEL, Call
from fingerprint.compute.arrays import host, like, namespace
from fingerprint.core import settings
from fingerprint.core.ports import Away
from fingerprint.detection.triton_model import number


class Breaker:
    """For one caller at a time. `now` are seconds of a clock that never goes back."""

    def __init__(self, failures: int, rest_seconds: float) -> None:
        self.most, self.rest_seconds = failures, rest_seconds
        self.failures = 0  # in a row
        self.until = float("-inf")

    def allows(self, now: float) -> bool:
        """Whether to try: while they answer, and once after each rest."""
        return self.failures < self.most or now >= self.until

    def failed(self, now: float) -> None:
        self.failures += 1
        self.until = now + self.rest_seconds

    def succeeded(self) -> None:
        self.failures = 0


ANSWER_SECONDS = 2.0  # for the question what it serves


def serves(version: str, options: settings.Triton) -> bool:
    """Whether the server measures against a version of the bank; False where it does not answer."""
    with closing(connected(options)) as client:
        try:
            return bool(client.is_model_ready(MODEL, str(number(version)), client_timeout=ANSWER_SECONDS))
        except InferenceServerException:
            return False


class TritonLosses:
    """Losses (see `ports`) against one version of a bank. One thread at a time."""

    degraded = False

    def __init__(self, version: str, options: settings.Triton) -> None:
        self.version, self.options = version, options
        self.breaker = Breaker(options.failures, options.rest_seconds)
        self.client = connected(options)

    def of(
        self, fingerprint: NDArray[np.int32], codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """fingerprint (N,), codes (N, F) -> loss (N, F) in nats, known (N, F), where the codes lie; they go to the server from
        the host. Away; FingerprintError for what the server's bank cannot have."""
        if not len(fingerprint):
            xp = namespace(codes)
            return xp.empty(codes.shape, np.float32), xp.empty(codes.shape, bool)
        if not self.breaker.allows(time.monotonic()):
            raise Away(
                f"{self.options.url} failed {self.breaker.failures} times and is left alone for a while"
            )
        try:
            asked = host(fingerprint), host(codes)
            answer = Call(self.client, number(self.version), self.options, *asked).answer()
        except Away:
            self.breaker.failed(time.monotonic())
            self._connect_anew()
            raise
        self.breaker.succeeded()
        loss, known = answer
        return like(loss, codes), like(known, codes)

    def close(self) -> None:
        self.client.close()

    def _connect_anew(self) -> None:
        """A connection that failed would wait ever longer before it looks whether the server is back."""
        self.client.close()
        self.client = connected(self.options)
