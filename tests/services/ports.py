"""Ports of this machine that nobody listens on."""

from __future__ import annotations

import socket
from collections.abc import Sequence


def free_ports(names: Sequence[str]) -> dict[str, int]:
    """One for each name, all different."""
    sockets = [socket.socket() for _ in names]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}
    finally:
        for each in sockets:
            each.close()
