"""A request is tried again while its errors are transient, and no longer than its caller waits."""

from __future__ import annotations

import time

import pytest

from fingerprint.adapters.retries import retry_steadily


class Request:
    """Fails some times, then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.tries = list(failures), 0

    def __call__(self) -> str:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        return "an answer"


def is_transient(error: Exception) -> bool:
    return isinstance(error, ConnectionError)


def test_what_fails_for_a_moment_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    request = Request(ConnectionError("a"), ConnectionError("b"))
    assert retry_steadily(request, is_transient, 30) == "an answer"
    assert request.tries == 3
    assert capsys.readouterr().out == "", "standard output belongs to the program"


def test_another_error_comes_out_at_once() -> None:
    request = Request(ConnectionError("a"), ValueError("b"))
    with pytest.raises(ValueError, match="b"):
        retry_steadily(request, is_transient, 30)
    assert request.tries == 2


@pytest.mark.parametrize("timeout_seconds", [0.0, 0.3])
def test_after_the_timeout_the_last_error_comes_out(timeout_seconds: float) -> None:
    request = Request(*(ConnectionError(str(number)) for number in range(1000)))
    begun = time.monotonic()
    with pytest.raises(ConnectionError):
        retry_steadily(request, is_transient, timeout_seconds)
    assert time.monotonic() - begun < 5
    assert request.tries > 1
