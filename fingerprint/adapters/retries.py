"""Retries of one request, by stamina.

Example:
    >>> retry_steadily(lambda: client.commit(offsets), is_transient, timeout_seconds=30.0)

They block the caller, so they are only for short requests. A stream must poll between two tries, so it has a loop of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import stamina
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from fingerprint.core.log import get_logger

RETRY_PAUSE_SECONDS = 0.1
"""Seconds between two tries."""

log = get_logger("fingerprint.retries")
_Result = TypeVar("_Result")


def retry_steadily(
    request: Callable[[], _Result], is_transient: Callable[[Exception], bool], timeout_seconds: float
) -> _Result:
    """Return a request's answer; repeat it while its errors are transient. After the timeout, raise the last error."""
    attempts = stamina.retry_context(
        on=is_transient,
        attempts=None,
        timeout=max(timeout_seconds, RETRY_PAUSE_SECONDS),  # 0 would be none
        wait_initial=RETRY_PAUSE_SECONDS,
        wait_max=RETRY_PAUSE_SECONDS,
        wait_jitter=0.0,
    )
    for attempt in attempts:
        with attempt:
            return request()
    raise AssertionError("stamina ends with an answer or an error")


def _log_retry(details: RetryDetails) -> None:
    log.debug("tried again", attempt=details.retry_num, reason=str(details.caused_by))


# stamina's own hooks would print to standard output, which is for the results of programs
set_on_retry_hooks([_log_retry])
