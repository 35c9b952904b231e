"""Connections for the webhook door: a name is resolved once, its addresses are judged, and one of them is connected to.

Example:
    >>> network = Guarded(resolved, allowed=(), seconds=10.0)
    >>> network.connect_tcp("localhost", 443)
    Refused: 127.0.0.1 is loopback
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import httpcore

from fingerprint.core.egress import Network, refusal_reason

Resolver = Callable[[str, int], Sequence[str]]  # host and port -> addresses


class AddressRefused(Exception):
    """An address that is not connected to; says which, and why."""


def resolve_host(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system knows them; of an odd spelling of an address (127.1, 0x7f000001) that address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"its name leads nowhere ({getattr(error, 'strerror', error)})") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class GuardedBackend(httpcore.NetworkBackend):
    """For one request: from the first connection on, everything has to be over after so many seconds."""

    def __init__(self, resolve: Resolver, allowed_networks: Collection[Network], seconds: float) -> None:
        self.resolve, self.allowed_networks = resolve, allowed_networks
        self.deadline = time.monotonic() + seconds
        self.inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """To one of the addresses of `host`, none of which may be refused: a name that leads inside as well as outside is a
        trick, or about to become one."""
        addresses = self.resolve(host, port)
        for address in addresses:
            if why := refusal_reason(address, self.allowed_networks):
                raise AddressRefused(why)
        failed: Exception = httpcore.ConnectError("its name leads nowhere")
        for address in addresses:
            try:
                left = _remaining_seconds(self.deadline, timeout)
                return DeadlineStream(self.inner.connect_tcp(address, port, left), self.deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class DeadlineStream(httpcore.NetworkStream):
    """A stream whose every step ends before the deadline: a receiver that sends a byte now and then holds nobody up."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: float) -> None:
        self.inner, self.deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.inner.read(max_bytes, _remaining_seconds(self.deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.inner.write(buffer, _remaining_seconds(self.deadline, timeout))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _remaining_seconds(self.deadline, timeout)
        return DeadlineStream(self.inner.start_tls(ssl_context, server_hostname, left), self.deadline)

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


def _remaining_seconds(deadline: float, timeout: float | None) -> float:
    """Seconds until the deadline, or the timeout where that is sooner."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the deadline has passed")
    return left if timeout is None else min(left, timeout)
