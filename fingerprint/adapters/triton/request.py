"""One call to Triton: its rows are cut into requests, several in flight at a time, repeated where that helps, until a deadline.

Example:
    >>> loss, known = ChunkedRequest(client, version_number(version), settings.triton, fingerprint, codes).run()

The repeats are our own and not `stamina`'s: a round repeats only the requests that failed, and no pause may go past the deadline
of the call (stamina pauses first and looks at the time afterwards).
"""

from __future__ import annotations

import queue
import random
import struct
import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from fingerprint.adapters.triton.repository import MODEL_NAME
from fingerprint.core import settings
from fingerprint.core.errors import FingerprintError, Unavailable

REQUEST_ROWS = 1024  # rows of one request
MAX_IN_FLIGHT = 4  # concurrent requests of one call
MAX_ATTEMPTS = 3  # of a request that can be repeated
BACKOFF_SECONDS = 0.05  # before the second try; each further one waits twice as long, half of it by chance
# Asking again is no use
PERMANENT_STATUSES = ("NOT_FOUND", "UNIMPLEMENTED", "UNAUTHENTICATED", "PERMISSION_DENIED")
REQUESTED_OUTPUTS = [InferRequestedOutput("loss"), InferRequestedOutput("known")]


class ChunkReply(NamedTuple):
    """The reply to the request whose rows begin at `start`."""

    start: int
    result: Any
    error: Exception | None


class ChunkedRequest:
    """The rows of one call, and the answers so far."""

    def __init__(
        self,
        client: InferenceServerClient,
        number: int,
        options: settings.Triton,
        fingerprint: NDArray[np.int32],
        codes: NDArray[np.uint64],
    ) -> None:
        self.client, self.model_version, self.options = client, str(number), options
        self.fingerprint, self.codes = fingerprint.astype(np.int32)[:, None], np.ascontiguousarray(codes)
        self.loss, self.known = np.empty(codes.shape, np.float32), np.empty(codes.shape, bool)
        self.deadline = time.monotonic() + options.timeout_seconds
        self.replies: queue.SimpleQueue[ChunkReply] = queue.SimpleQueue()
        self.in_flight: dict[int, Any] = {}  # by start: what cancels the request

    def run(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return loss and known of all rows. Raise Unavailable if the server gives no answer, FingerprintError if it cannot."""
        todo = list(range(0, len(self.codes), REQUEST_ROWS))
        reason = ""
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                self._wait(BACKOFF_SECONDS * 2**attempt)
            try:
                todo, reason = self._run_round(todo)
            finally:
                self._cancel()
            if not todo:
                return self.loss, self.known
        raise Unavailable(f"{self.options.url}: {reason}")

    def _run_round(self, starts: list[int]) -> tuple[list[int], str]:
        """Request the rows that begin at these places; return those to repeat, and why the first one failed."""
        todo, failed, reasons = list(reversed(starts)), [], []
        while todo or self.in_flight:
            while todo and len(self.in_flight) < MAX_IN_FLIGHT:
                self._send_chunk(todo.pop())
            reply = self._next_reply()
            if reply.error is None:
                self._copy_result(reply)
            else:
                failed.append(reply.start)
                reasons.append(self._retry_reason(reply.error))
        return failed, reasons[0] if reasons else ""

    def _send_chunk(self, start: int) -> None:
        rows = slice(start, start + REQUEST_ROWS)
        inputs = [
            _to_infer_input("fingerprint", "INT32", self.fingerprint[rows]),
            _to_infer_input("codes", "UINT64", self.codes[rows]),
        ]
        self.in_flight[start] = self.client.async_infer(
            MODEL_NAME,
            inputs,
            partial(self._on_reply, start),
            model_version=self.model_version,
            outputs=REQUESTED_OUTPUTS,
            timeout=max(
                int(self._remaining_seconds() * 1e6), 1
            ),  # what waits in the server's queue for longer, it drops
            client_timeout=self._remaining_seconds(),
        )

    def _on_reply(self, start: int, result: Any, error: Exception | None) -> None:
        self.replies.put(ChunkReply(start, result, error))

    def _next_reply(self) -> ChunkReply:
        """Return the next reply to a request that is in flight."""
        while True:
            try:
                reply = self.replies.get(timeout=self._remaining_seconds())
            except queue.Empty:
                raise Unavailable(
                    f"{self.options.url}: no answer within {self.options.timeout_seconds:g} s"
                ) from None
            if self.in_flight.pop(reply.start, None) is not None:
                return reply

    def _copy_result(self, reply: ChunkReply) -> None:
        """Copy an answer into its place; raise Unavailable if it is no valid one."""
        version = reply.result.get_response().model_version
        if version != self.model_version:
            raise Unavailable(
                f"{self.options.url}: answered by version {version}, asked was {self.model_version}"
            )
        rows = slice(reply.start, reply.start + REQUEST_ROWS)
        shape = self.codes[rows].shape
        try:
            loss, known = reply.result.as_numpy("loss"), reply.result.as_numpy("known")
        except (ValueError, struct.error):  # fewer or more bytes than the shape has
            loss = known = None
        if any(each is None or each.shape != shape or each.dtype == object for each in (loss, known)):
            raise Unavailable(f"{self.options.url}: the answer has not the shape {shape}")
        if not np.isfinite(loss).all():
            raise Unavailable(f"{self.options.url}: the answer holds losses that are no numbers")
        self.loss[rows], self.known[rows] = loss, known

    def _retry_reason(self, error: Exception) -> str:
        """Return why a request failed, if it may be repeated; raise an error if not."""
        status = str(error.status() if isinstance(error, InferenceServerException) else "").split(".")[-1]
        text = error_line(error)
        if status == "INVALID_ARGUMENT":
            raise FingerprintError(f"Triton at {self.options.url}: {text}")
        if status in PERMANENT_STATUSES:
            raise Unavailable(f"{self.options.url}: {text}")
        return text

    def _remaining_seconds(self) -> float:
        return max(self.deadline - time.monotonic(), 0.001)

    def _wait(self, seconds: float) -> None:
        jittered = seconds * (1 + random.random()) / 2  # noqa: S311  (it guards nothing)
        if time.monotonic() + jittered < self.deadline:
            time.sleep(jittered)

    def _cancel(self) -> None:
        for request in self.in_flight.values():
            request.cancel()
        self.in_flight.clear()


def error_line(error: Exception) -> str:
    """Return the first line of what a server says; its status, or the error's name, where it says nothing, as some proxies do."""
    text, status = str(error), ""
    if isinstance(error, InferenceServerException):
        text, status = error.message() or "", error.status() or ""
    return text.strip().split("\n")[0] or status or type(error).__name__


def _to_infer_input(name: str, kind: str, array: NDArray[Any]) -> InferInput:
    tensor = InferInput(name, list(array.shape), kind)
    tensor.set_data_from_numpy(array)
    return tensor
