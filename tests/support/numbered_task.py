"""A task for a pool of processes, which imports nothing that takes long."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class NumberedTask:
    """Say one's number, which process one ran in, and in how many threads what is imported from now on would compute."""

    number: int

    def run(self, progress: object = None) -> tuple[int, int, str | None]:
        return self.number, os.getpid(), None if "numpy" in sys.modules else os.environ["OMP_NUM_THREADS"]
