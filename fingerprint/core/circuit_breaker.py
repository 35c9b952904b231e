"""Circuit breaker: send no request to a server that failed several times in a row until a cool-down is over.

Example:
    >>> breaker = CircuitBreaker(3, 10.0)
    >>> breaker.record_failure(now=0.0); breaker.allow_request(now=1.0)
    True

Shared by the clients of Triton and of an OpenID provider.
"""

from __future__ import annotations


class CircuitBreaker:
    """A circuit that is open for `cooldown_seconds` after `max_failures` failures in a row; then requests may be tried again.

    For one caller at a time. `now` is the time of a monotonic clock, in seconds.
    """

    def __init__(self, max_failures: int, cooldown_seconds: float) -> None:
        self.max_failures, self.cooldown_seconds = max_failures, cooldown_seconds
        self.failures = 0  # in a row
        self.open_until = float("-inf")

    def allow_request(self, now: float) -> bool:
        """Return whether a request may be sent: the circuit is closed, or its cool-down is over."""
        return self.failures < self.max_failures or now >= self.open_until

    def record_failure(self, now: float) -> None:
        """Count a failure; after enough of them the circuit is open for the cool-down."""
        self.failures += 1
        self.open_until = now + self.cooldown_seconds

    def record_success(self) -> None:
        """Close the circuit."""
        self.failures = 0
