"""How much memory this process has held at most."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak() -> int:
    """Bytes that were resident at most. Linux counts what the starting process held into ru_maxrss, so not that."""
    status = Path("/proc/self/status")
    if not status.exists():
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024
