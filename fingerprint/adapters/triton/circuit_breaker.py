"""Leaves somebody alone for a while who failed several times in a row, then tries once.

Example:
    >>> breaker = Breaker(failures=2, rest_seconds=10.0)
    >>> breaker.failed(now=0.0); breaker.failed(now=1.0)
    >>> breaker.allows(now=5.0), breaker.allows(now=11.0)
    (False, True)
"""

from __future__ import annotations


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
