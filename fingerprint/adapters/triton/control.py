"""What a Triton server serves, and the order to serve something else.

Example:
    >>> with closing(Control(settings.triton)) as control:
    ...     control.load()                    # what the repository's config.pbtxt says
    ...     control.versions()
    {5874331811777929: 'READY'}

Loading can run code: a server gives this API to whoever has its key (docs/triton.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tritonclient.utils import InferenceServerException

from fingerprint.adapters.triton.connection import connected
from fingerprint.core import settings
from fingerprint.core.alert import FingerprintError

MODEL = "fingerprint"
ANSWER_SECONDS = 10.0  # for a question


class Control:
    """One server, whose control mode is `explicit`."""

    def __init__(self, options: settings.Triton) -> None:
        self.url, self.seconds = options.url, options.load_seconds
        self.headers = _headers(options.key_file)
        self.client = connected(options)

    def load(self) -> None:
        """Serve what the repository says; back when all of it is ready. FingerprintError if some of it cannot be served: then
        all that was served before still is."""
        with self._plainly("does not serve it"):
            self.client.load_model(MODEL, headers=self.headers, client_timeout=self.seconds)

    def versions(self) -> dict[int, str]:
        """Number -> state (READY, LOADING, UNLOADING, UNAVAILABLE), of what the server knows of."""
        with self._plainly("does not say what it serves"):
            index = self.client.get_model_repository_index(
                headers=self.headers, client_timeout=ANSWER_SECONDS
            )
        return {
            int(each.version): str(each.state)
            for each in index.models
            if each.name == MODEL and each.version.isdecimal()
        }

    def close(self) -> None:
        self.client.close()

    @contextmanager
    def _plainly(self, trouble: str) -> Iterator[None]:
        try:
            yield
        except InferenceServerException as error:
            raise FingerprintError(f"Triton at {self.url} {trouble}: {_reason(error)}") from None


def _headers(key_file: str | None) -> dict[str, str]:
    """What opens the API where the server was started with `--grpc-restricted-protocol=model-repository:NAME=VALUE`."""
    name, equals, value = (settings.secret(key_file) or "").partition("=")
    if key_file and not (name and equals and value):
        raise FingerprintError(f"triton.key_file {key_file} does not hold NAME=VALUE")
    return {f"triton-grpc-protocol-{name}": value} if name else {}


def _reason(error: InferenceServerException) -> str:
    """The model's own sentence if there is one, else the server's first line."""
    text = str(error.message())
    own = re.search(r"FingerprintError: (.*)", text)
    return own[1] if own else text.splitlines()[0]
