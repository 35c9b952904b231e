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

from fingerprint.adapters.triton.connection import connect
from fingerprint.adapters.triton.request import MODEL_NAME, ChunkedRequest
from fingerprint.compute.arrays import namespace, to_device_of, to_host
from fingerprint.core import settings
from fingerprint.core.circuit_breaker import CircuitBreaker
from fingerprint.core.ports import Unavailable
from fingerprint.detection.triton_model import version_number

FAILURE_THRESHOLD = 3  # consecutive failures that open the circuit
COOL_DOWN_SECONDS = 10.0  # that an open circuit waits before one attempt
READY_TIMEOUT_SECONDS = 2.0  # for the question what it serves


def is_version_served(version: str, options: settings.Triton) -> bool:
    """Whether the server measures against a version of the bank; False where it does not answer."""
    with closing(connect(options)) as client:
        try:
            return bool(
                client.is_model_ready(
                    MODEL_NAME, str(version_number(version)), client_timeout=READY_TIMEOUT_SECONDS
                )
            )
        except InferenceServerException:
            return False


class TritonInference:
    """Losses (see `ports`) against one version of a bank. One thread at a time."""

    degraded = False

    def __init__(self, version: str, options: settings.Triton) -> None:
        self.version, self.options = version, options
        self.circuit_breaker = CircuitBreaker(FAILURE_THRESHOLD, COOL_DOWN_SECONDS)
        self.client = connect(options)

    def losses(
        self, fingerprint: NDArray[np.int32], codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """fingerprint (N,), codes (N, F) -> loss (N, F) in nats, known (N, F), where the codes lie; they go to the server from
        the host. Away; FingerprintError for what the server's bank cannot have."""
        if not len(fingerprint):
            xp = namespace(codes)
            return xp.empty(codes.shape, np.float32), xp.empty(codes.shape, bool)
        if not self.circuit_breaker.allow_request(time.monotonic()):
            raise Unavailable(
                f"{self.options.url} failed {self.circuit_breaker.failures} times and is left alone for a while"
            )
        try:
            asked = to_host(fingerprint), to_host(codes)
            answer = ChunkedRequest(self.client, version_number(self.version), self.options, *asked).run()
        except Unavailable:
            self.circuit_breaker.record_failure(time.monotonic())
            self._reconnect()
            raise
        self.circuit_breaker.record_success()
        loss, known = answer
        return to_device_of(loss, codes), to_device_of(known, codes)

    def close(self) -> None:
        self.client.close()

    def _reconnect(self) -> None:
        """A connection that failed would wait ever longer before it looks whether the server is back."""
        self.client.close()
        self.client = connect(self.options)
