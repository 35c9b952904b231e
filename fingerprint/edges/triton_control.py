"""What a Triton server serves, and the order to serve something else.

Example:
    >>> with closing(Control("127.0.0.1:8001", seconds=120)) as control:
    ...     control.load()                    # what the repository's config.pbtxt says
    ...     control.versions()
    {5874331811777929: 'READY'}

Loading can run code: a server gives this API to its operators alone (docs/triton.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from fingerprint.domain import FingerprintError

MODEL = "fingerprint"
ANSWER_SECONDS = 10.0  # for a question


class Control:
    """One server, whose control mode is `explicit`."""

    def __init__(self, url: str, seconds: float) -> None:
        self.url, self.seconds = url, seconds
        self.client = InferenceServerClient(url)

    def load(self) -> None:
        """Serve what the repository says; back when all of it is ready. FingerprintError if some of it cannot be served: then
        all that was served before still is."""
        with self._plainly("does not serve it"):
            self.client.load_model(MODEL, client_timeout=self.seconds)

    def versions(self) -> dict[int, str]:
        """Number -> state (READY, LOADING, UNLOADING, UNAVAILABLE), of what the server knows of."""
        with self._plainly("does not say what it serves"):
            index = self.client.get_model_repository_index(client_timeout=ANSWER_SECONDS)
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


def _reason(error: InferenceServerException) -> str:
    """The model's own sentence if there is one, else the server's first line."""
    text = str(error.message())
    own = re.search(r"FingerprintError: (.*)", text)
    return own[1] if own else text.splitlines()[0]
