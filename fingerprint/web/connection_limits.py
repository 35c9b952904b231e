"""Separate threads for slow routes, so that they never occupy those that answer pages.

Example:
    >>> @router.post("/login")
    ... @limit_concurrency("passwords")
    ... def submit_login(...) -> Response: ...

A synchronous route usually runs in one of 40 threads that all routes share. While 40 passwords are being checked, or 40 requests
wait for an OpenID provider that hangs, no page would be answered. So a limited route runs in one of MAX_CONCURRENT threads of its
kind; MAX_WAITING more requests may wait, and the next one is refused. At most MAX_PER_NETWORK requests of one network may run or
wait, so that a flood from one network does not fill the queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from fastapi import HTTPException

from fingerprint.web.auth import client_address
from fingerprint.web.security_events import network_prefix

MAX_CONCURRENT = 4  # of a kind; argon2 takes 64 MiB for each password
MAX_WAITING = 100  # of a kind: a wait of 5 s, at 4 passwords in 0.2 s
MAX_PER_NETWORK = 8  # of a kind and network, running or waiting

P = ParamSpec("P")
T = TypeVar("T")

_in_flight: RunVar[Counter[tuple[str, str]]] = RunVar("_under_way")  # by kind and network, of one event loop
_limiters: RunVar[dict[str, CapacityLimiter]] = RunVar("_limiters")  # by kind, of one event loop


class ServerBusy(HTTPException):
    """Status 503: too many requests of a kind are waiting."""

    def __init__(self) -> None:
        super().__init__(503, "too many requests: try again in a few seconds", {"Retry-After": "5"})


def limit_concurrency(
    kind: str, per_network: int = MAX_PER_NETWORK
) -> Callable[[Callable[P, T]], Callable[P, Awaitable[T]]]:
    """Run a synchronous route in the threads of its kind. Raise ServerBusy if too many wait, in total or of one network."""

    def made(route: Callable[P, T]) -> Callable[P, Awaitable[T]]:
        @wraps(route)
        async def run(*arguments: P.args, **named: P.kwargs) -> T:
            limiter, under_way, source = _limiter(kind), _in_flight_counts(), (kind, _client_network(named))
            if limiter.statistics().tasks_waiting >= MAX_WAITING or under_way[source] >= per_network:
                raise ServerBusy
            under_way[source] += 1
            try:
                return await run_sync(partial(route, *arguments, **named), limiter=limiter)
            finally:
                under_way[source] -= 1
                if not under_way[source]:
                    del under_way[source]

        return run

    return made


def _client_network(named: Mapping[str, Any]) -> str:
    """Return the network of a request, from a route's arguments, which FastAPI passes by name."""
    return network_prefix(client_address(named["request"], named["deps"].settings))


def _in_flight_counts() -> Counter[tuple[str, str]]:
    try:
        return _in_flight.get()
    except LookupError:
        counts: Counter[tuple[str, str]] = Counter()
        _in_flight.set(counts)
        return counts


def _limiter(kind: str) -> CapacityLimiter:
    try:
        limiters = _limiters.get()
    except LookupError:
        _limiters.set(limiters := {})
    return limiters.setdefault(kind, CapacityLimiter(MAX_CONCURRENT))
