"""A program that a message kills.

Anyone who unwraps a message that holds POISON is gone at once, as if the kernel had ended it for its memory: SIGKILL, nothing
closed, nothing flushed, no one told. Settings come from the environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from fingerprint.sources.base import RecordBatch
from fingerprint.sources.cloudtrail import envelopes
from tests.support.forked import run_command_line

POISON = b"who reads this is dead"
unwrap = envelopes._MessageReader._unwrap


def deadly(reader: Any, data: bytes, *rest: Any, **named: Any) -> Iterator[RecordBatch]:
    if POISON in data:
        os.kill(os.getpid(), signal.SIGKILL)
    yield from unwrap(reader, data, *rest, **named)


def run_deadly(*arguments: str) -> None:
    """Run the command line with these arguments."""
    envelopes._MessageReader._unwrap = deadly
    run_command_line(*arguments)
