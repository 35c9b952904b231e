"""Losses by a Triton server over gRPC, and the control of the models that it serves.

Example:
    >>> inference = TritonInference(bank.version, settings.triton)
    >>> loss, known = inference.losses(fingerprint, codes)      # Unavailable if there is no answer in time
    >>> with closing(ModelControl(settings.triton)) as control:
    ...     control.load_model()                  # what the repository's config.pbtxt says
    ...     control.version_states()
    {5874331811777929: 'READY'}

Every request names the version of the bank, and every answer must: one that names another is refused. A repeated request is
always safe, because inference changes nothing. A circuit breaker opens after several failures in a row.

Loading can run code: a server gives this API to holders of its key (docs/explanation/triton.md).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from fingerprint.adapters.triton.repository import MODEL_NAME
from fingerprint.adapters.triton.request import ChunkedRequest, error_line
from fingerprint.compute.arrays import namespace, to_device_of, to_host
from fingerprint.core import settings
from fingerprint.core.circuit_breaker import CircuitBreaker
from fingerprint.core.errors import FingerprintError, ServerUnavailable, Unavailable
from fingerprint.detection.triton_model import version_number

CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a new client connects at once, whatever became of the one before
]


def connect(options: settings.Triton) -> InferenceServerClient:
    """Return a client, which connects at its first request. Raise FingerprintError if a file of the settings cannot be read."""
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
    """Return whether the server serves a version of the bank; False where it does not answer."""
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
    """Losses against one version of a bank, for one thread at a time. Implement `ports.inference.Inference`."""

    degraded = False

    def __init__(self, version: str, options: settings.Triton) -> None:
        self.version, self.options = version, options
        self.circuit_breaker = CircuitBreaker(FAILURE_THRESHOLD, COOL_DOWN_SECONDS)
        self.client = connect(options)

    def losses(
        self, fingerprint: NDArray[np.int32], codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return loss (N, F) in nats and known (N, F) for fingerprint (N,) and codes (N, F), where the codes lie.

        They go to the server from the host. Raise Unavailable if there is no answer in time, FingerprintError for rows that the
        server's bank cannot have.
        """
        if not len(fingerprint):
            xp = namespace(codes)
            return xp.empty(codes.shape, np.float32), xp.empty(codes.shape, bool)
        if not self.circuit_breaker.allow_request(time.monotonic()):
            raise Unavailable(
                f"{self.options.url} failed {self.circuit_breaker.failures} times and is left alone for a while"
            )
        try:
            inputs = to_host(fingerprint), to_host(codes)
            answer = ChunkedRequest(self.client, version_number(self.version), self.options, *inputs).run()
        except Unavailable:
            self.circuit_breaker.record_failure(time.monotonic())
            self._reconnect()
            raise
        self.circuit_breaker.record_success()
        loss, known = answer
        return to_device_of(loss, codes), to_device_of(known, codes)

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def _reconnect(self) -> None:
        """Connect again: a connection that failed waits ever longer before it looks whether the server is back."""
        self.client.close()
        self.client = connect(self.options)


CONNECTION_ERRORS = (  # gRPC's words, and ours
    ("Deadline Exceeded", "it does not answer in time"),
    ("failed to connect to all addresses", "nothing accepts a connection there"),
    ("DNS resolution failed", "there is no such host"),
)
RESPONSE_TIMEOUT_SECONDS = 5.0  # for a question: a person waits for the answer
UNSETTLED = frozenset(("LOADING", "UNLOADING"))  # states of versions
SETTLE_SECONDS, SETTLE_POLL_SECONDS = 10.0, 0.1


class ModelControl:
    """The control of one server, whose mode is `explicit`."""

    def __init__(self, options: settings.Triton) -> None:
        self.url, self.load_timeout_seconds = options.url, options.load_timeout_seconds
        self.headers = _restricted_api_headers(options.control_key_file)
        self.client = connect(options)

    def load_model(self) -> None:
        """Serve what the repository says; return when all of it is ready.

        Raise FingerprintError if some of it cannot be served: then everything that was served before still is. It is
        ServerUnavailable where there is no answer.
        """
        try:
            with self._translate_errors("does not serve it"):
                self.client.load_model(
                    MODEL_NAME, headers=self.headers, client_timeout=self.load_timeout_seconds
                )
        except ServerUnavailable:
            raise
        except FingerprintError:
            self._wait_until_settled()
            raise

    def _wait_until_settled(self) -> None:
        """Wait while the server unloads what it loaded for nothing.

        Asked to load again before that, tritonserver 2.51 crashed.
        """
        end = time.monotonic() + SETTLE_SECONDS
        with suppress(FingerprintError):
            while time.monotonic() < end and UNSETTLED & {*self.version_states().values()}:
                time.sleep(SETTLE_POLL_SECONDS)

    def version_states(self) -> dict[int, str]:
        """Return the state (READY, LOADING, UNLOADING, UNAVAILABLE) of each version that the server knows, by number."""
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
        """Close the connection."""
        self.client.close()

    @contextmanager
    def _translate_errors(self, trouble: str) -> Iterator[None]:
        try:
            yield
        except InferenceServerException as error:
            text = str(error.message())
            away = next((ours for theirs, ours in CONNECTION_ERRORS if theirs in text), None)
            kind = ServerUnavailable if away else FingerprintError
            raise kind(f"Triton at {self.url} {trouble}: {away or _error_reason(error)}") from None


def _restricted_api_headers(key_file: str | None) -> dict[str, str]:
    """Return the header that opens a server started with `--grpc-restricted-protocol=model-repository:NAME=VALUE`."""
    name, equals, value = (settings.read_secret(key_file) or "").partition("=")
    if key_file and not (name and equals and value):
        raise FingerprintError(f"triton.control_key_file {key_file} does not hold NAME=VALUE")
    return {f"triton-grpc-protocol-{name}": value} if name else {}


def _error_reason(error: InferenceServerException) -> str:
    """Return the model's own sentence if there is one, else the server's first line."""
    own = re.search(r"FingerprintError: (.*)", str(error.message()))
    return own[1] if own else error_line(error)
