"""Facts about this process and its user: login name, process name, CPU time, used memory and available memory."""

from __future__ import annotations

import getpass
import os
import resource
import socket
import sys
import time
from pathlib import Path


def login_name() -> str:
    """Return the login name, or the number of a user without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {os.getuid()}"


def process_name() -> str:
    """Return a name of this process that is unique among all hosts: host name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def operator_name() -> str:
    """Return this user as an author in the audit log. Names of accounts have no colon, so no account has this name."""
    return f"console:{login_name()}"


def resources() -> dict[str, float]:
    """Return the CPU seconds of all threads of this process since its start, and its peak memory in bytes."""
    return {"cpu_seconds": round(time.process_time(), 3), "peak_memory_bytes": peak_bytes()}


def peak_bytes() -> int:
    """Return the peak resident memory in bytes. Linux counts the parent's memory into ru_maxrss, so VmHWM is read instead."""
    status = Path("/proc/self/status")
    if not status.exists():
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


def available_bytes() -> int:
    """Return the memory in bytes that programs can still use; all memory if the system does not say."""
    facts = Path("/proc/meminfo")
    if facts.exists():
        line = next(
            (each for each in facts.read_text().splitlines() if each.startswith("MemAvailable:")), None
        )
        if line:
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def limit_threads(threads: int) -> None:
    """Limit the threads of libraries that are not imported yet: they read the limit when they are imported."""
    os.environ["OMP_NUM_THREADS"] = str(threads)


def peak_bytes_by_process(pid: int) -> dict[int, int]:
    """Return the peak resident memory in bytes of a process and its descendants, by process id; Linux only."""
    held: dict[int, int] = {}
    waiting = [pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        try:
            text = (process / "status").read_text()
            tasks = [(task / "children").read_text() for task in (process / "task").iterdir()]
        except OSError:  # it has ended
            continue
        high = next((line for line in text.splitlines() if line.startswith("VmHWM:")), None)
        held[int(process.name)] = int(high.split()[1]) * 1024 if high else 0
        waiting += [int(child) for task in tasks for child in task.split()]
    return held
