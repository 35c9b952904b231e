"""Losses by a Triton server, over gRPC.

Example:
    >>> losses = TritonLosses(bank.version, settings.triton)
    >>> loss, known = losses.of(fingerprint, codes)      # Away if there is no answer in time

Every request names the version of the bank, and every answer must: one that names another is none. Asking again is always
safe, because measuring changes nothing. A server that failed several calls in a row is left alone for a while.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from fingerprint.adapters.triton.repository import MODEL_NAME
from fingerprint.adapters.triton.request import ChunkedRequest
from fingerprint.compute.arrays import namespace, to_device_of, to_host
from fingerprint.core import settings
from fingerprint.core.alert import FingerprintError
from fingerprint.core.circuit_breaker import CircuitBreaker
from fingerprint.core.ports import Unavailable
from fingerprint.detection.triton_model import version_number

CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a new client connects at once, whatever became of the one before
]


def connect(options: settings.Triton) -> InferenceServerClient:
    """A client, which connects when it is first asked. FingerprintError where a file of the settings cannot be read."""
    options.check_files()
    return InferenceServerClient(
        str(options.url),
        ssl=options.tls,
        root_certificates=options.ca_file,
        certificate_chain=options.certificate_file,
        private_key=options.certificate_key_file,
        channel_args=CHANNEL_OPTIONS,
    )


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


RESPONSE_TIMEOUT_SECONDS = 10.0  # for a question


class ModelControl:
    """One server, whose control mode is `explicit`."""

    def __init__(self, options: settings.Triton) -> None:
        self.url, self.load_timeout_seconds = options.url, options.load_timeout_seconds
        self.headers = _restricted_api_headers(options.control_key_file)
        self.client = connect(options)

    def load_model(self) -> None:
        """Serve what the repository says; back when all of it is ready. FingerprintError if some of it cannot be served: then
        all that was served before still is."""
        with self._translate_errors("does not serve it"):
            self.client.load_model(MODEL_NAME, headers=self.headers, client_timeout=self.load_timeout_seconds)

    def version_states(self) -> dict[int, str]:
        """Number -> state (READY, LOADING, UNLOADING, UNAVAILABLE), of what the server knows of."""
        with self._translate_errors("does not say what it serves"):
            index = self.client.get_model_repository_index(
                headers=self.headers, client_timeout=RESPONSE_TIMEOUT_SECONDS
            )
        return {
            int(each.version): str(each.state)
            for each in index.models
            if each.name == MODEL_NAME and each.version.isdecimal()
        }

    def close(self) -> None:
        self.client.close()

    @contextmanager
    def _translate_errors(self, trouble: str) -> Iterator[None]:
        try:
            yield
        except InferenceServerException as error:
            raise FingerprintError(f"Triton at {self.url} {trouble}: {_error_reason(error)}") from None


def _restricted_api_headers(key_file: str | None) -> dict[str, str]:
    """What opens the API where the server was started with `--grpc-restricted-protocol=model-repository:NAME=VALUE`."""
    name, equals, value = (settings.read_secret(key_file) or "").partition("=")
    if key_file and not (name and equals and value):
        raise FingerprintError(f"triton.control_key_file {key_file} does not hold NAME=VALUE")
    return {f"triton-grpc-protocol-{name}": value} if name else {}


def _error_reason(error: InferenceServerException) -> str:
    """The model's own sentence if there is one, else the server's first line."""
    text = str(error.message())
    own = re.search(r"FingerprintError: (.*)", text)
    return own[1] if own else text.splitlines()[0]
