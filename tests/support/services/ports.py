"""Ports of this machine that no one listens on, and that no one is given by chance.

Linux gives outgoing connections ports from 32,768 on. A server that was stopped in there may find its port taken, and anyone who
calls it before may be connected to someone else, or to itself. So ports are drawn from below, and each process of a test run
that has several draws from its own.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

FIRST, OWN = 20_000, 3_000  # of a process
PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def free_ports(names: Sequence[str]) -> dict[str, int]:
    """One for each name, all different."""
    with ExitStack() as held:
        return dict(zip(names, _free(held), strict=False))


def free_port() -> int:
    return free_ports(["one"])["one"]


def _free(held: ExitStack) -> Iterator[int]:
    """Ports that could be bound, in no order; they stay so while they are held."""
    begin = FIRST + OWN * PROCESS
    for port in random.sample(range(begin, begin + OWN), OWN):
        each = held.enter_context(socket.socket())
        try:
            each.bind(("127.0.0.1", port))
        except OSError:
            continue
        yield port
