"""How near a container is to its memory limit, for Prometheus: from the kernel's own books, cgroup v2 or v1.

Example:
    >>> registry.register(ContainerMemory())
    fingerprint_memory_limit_bytes 1.073741824e+09
    fingerprint_memory_used_bytes 3.1457280e+08

What counts is what the kernel cannot take back: a bank that is mapped from its files is resident and harms nobody. It is the
whole container's, so a training in a child process is in it. Without a limit nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

CGROUP = Path("/sys/fs/cgroup")
NO_LIMIT = 1 << 60  # bytes: version 1 says "none" with the largest number of pages


class CgroupFiles(NamedTuple):
    """The files of one version; `files` are the lines of `stat` that say what the kernel can take back."""

    limit: str
    used: str
    stat: str
    reclaimable: tuple[str, str]


CGROUP_VERSIONS = (
    CgroupFiles("memory.max", "memory.current", "memory.stat", ("active_file", "inactive_file")),
    CgroupFiles(
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        ("total_active_file", "total_inactive_file"),
    ),
)


class ContainerMemory(Collector):
    """Two gauges, read when they are asked for."""

    def __init__(self, folder: Path = CGROUP) -> None:
        self.folder = folder

    def collect(self) -> Iterator[Metric]:
        for books in CGROUP_VERSIONS:
            limit = _read_number(self.folder / books.limit)
            used = _read_number(self.folder / books.used)
            if limit is None or used is None or limit >= NO_LIMIT:
                continue
            yield GaugeMetricFamily(
                "fingerprint_memory_limit_bytes", "Past it the container is killed.", limit
            )
            yield GaugeMetricFamily(
                "fingerprint_memory_used_bytes",
                "What the container holds and the kernel cannot take back.",
                used - _reclaimable_bytes(self.folder / books.stat, books.reclaimable),
            )
            return


def _read_number(file: Path) -> int | None:
    """What a file says; None where there is no such file, or it says `max`."""
    try:
        said = file.read_text().strip()
    except OSError:
        return None
    return int(said) if said.isdecimal() else None


def _reclaimable_bytes(stat: Path, names: tuple[str, str]) -> int:
    """Bytes of files that are kept in memory."""
    figures = dict(line.split() for line in stat.read_text().splitlines())
    return sum(int(figures.get(name, 0)) for name in names)
