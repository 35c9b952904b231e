"""Processor time, for tests that what an attacker wrote costs no more than its length.

Example:
    >>> assert runs_within(1.0, lambda: split_message(b"[" * 2**20))
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

ATTEMPTS = 3  # a busy machine makes a run dearer, never cheaper


def runs_within(cpu_seconds: float, work: Callable[[], Any]) -> bool:
    """Whether one of a few runs takes less of the processor's time; the first that does is the last."""
    return any(_cpu_seconds(work) < cpu_seconds for _ in range(ATTEMPTS))


def _cpu_seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
