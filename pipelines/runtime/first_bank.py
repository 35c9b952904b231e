"""A stream that is started before anything was trained waits for its first bank: alive, ready, and saying so.

Example:
    >>> came(Path("bank"), settings, metrics.waiting_for_bank)    # at once where a bank is served already
    True
"""

from __future__ import annotations

import logging
from pathlib import Path

from prometheus_client import Gauge

from fingerprint.adapters.system import SystemClock
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from pipelines.runtime.service import running_service

POLL_SECONDS = 0.5  # between two looks at one small file; also how late SIGTERM is heard

log = logging.getLogger("fingerprint.stream")


def wait_for_first_bank(folder: Path, settings: Settings, waiting_gauge: Gauge) -> bool:
    """Whether a bank is served: waited for, until there is one or the program is asked to end. `waiting` is 1 meanwhile.

    To have learned nothing yet is no trouble: health is content all along.
    """
    if versions.served_version(folder) is not None:
        return True
    with (
        running_service(settings, _always_healthy, _always_healthy, "stream") as asked_to_end,
        waiting_gauge.track_inprogress(),
    ):
        log.info("waits for the first bank", extra={"fields": {"bank": str(folder)}})
        while (version := versions.served_version(folder)) is None and not asked_to_end():
            SystemClock().sleep(POLL_SECONDS)
    if version is None:
        log.info("asked to end before there was a bank")
        return False
    log.info("the first bank is served", extra={"fields": {"version": version}})
    return True


def _always_healthy() -> None:
    """Nothing is wrong."""
