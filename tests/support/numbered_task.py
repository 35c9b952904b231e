"""A task for a pool of processes, which imports nothing that takes long."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class NumberedTask:
    """Say one's number, and which process one ran in."""

    number: int

    def run(self) -> tuple[int, int]:
        return self.number, os.getpid()
