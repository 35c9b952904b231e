"""What a Triton server serves, and the order to serve something else.

Example:
    >>> with closing(Control(settings.triton)) as control:
    ...     control.load()                    # what the repository's config.pbtxt says
    ...     control.versions()
    {5874331811777929: 'READY'}

Loading can run code: a server gives this API to whoever has its key (docs/explanation/triton.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tritonclient.utils import InferenceServerException

from fingerprint.adapters.triton.connection import connect
from fingerprint.core import settings
from fingerprint.core.alert import FingerprintError

MODEL_NAME = "fingerprint"
CONNECTION_ERRORS = (  # gRPC's words, and ours
    ("Deadline Exceeded", "it does not answer in time"),
    ("failed to connect to all addresses", "nothing accepts a connection there"),
    ("DNS resolution failed", "there is no such host"),
)
RESPONSE_TIMEOUT_SECONDS = 5.0  # for a question: a person waits for the answer


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
    if own:
        return own[1]
    return next((ours for theirs, ours in CONNECTION_ERRORS if theirs in text), text.splitlines()[0])
