"""Who is at the keyboard: for notes of what people decided."""

from __future__ import annotations

import getpass
import os
import resource
import socket
import sys
from pathlib import Path


def login_name() -> str:
    """The name of the login."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {os.getuid()}"


def process_name() -> str:
    """This process among all that run: the machine's name and its number there."""
    return f"{socket.gethostname()}:{os.getpid()}"


def operator_name() -> str:
    """For the audit: no account has a name with a colon, so it tells the console from the desk's people."""
    return f"console:{login_name()}"


def peak_bytes() -> int:
    """Bytes that were resident at most. Linux counts what the starting process held into ru_maxrss, so not that."""
    status = Path("/proc/self/status")
    if not status.exists():
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


def peak_bytes_by_process(pid: int) -> dict[int, int]:
    """Bytes that a process and all who descend from it have held at most, by process; of Linux. Who is over is not in it."""
    held: dict[int, int] = {}
    waiting = [pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        try:
            text = (process / "status").read_text()
            tasks = [(task / "children").read_text() for task in (process / "task").iterdir()]
        except OSError:  # it ended meanwhile
            continue
        high = next((line for line in text.splitlines() if line.startswith("VmHWM:")), None)
        held[int(process.name)] = int(high.split()[1]) * 1024 if high else 0
        waiting += [int(child) for task in tasks for child in task.split()]
    return held
