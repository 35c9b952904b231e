"""A live simulation: send the first days of a simulated organisation at once, wait for a bank, then send the last days slowly.

Example:
    >>> run_live_simulation(SimulatedOrganisation(seed=7), Path("demo"), Path("bank"), 3600, False, settings)["past"]
    96138
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from fingerprint.adapters import files, logs
from fingerprint.adapters.system import SystemClock
from fingerprint.core.log import get_logger
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from fingerprint.simulation.live_progress import ProgressFile
from fingerprint.streaming.replay_rate import ReplayRate
from pipelines.replay import replay_records
from pipelines.runtime import wiring
from pipelines.runtime.interruptible_clock import InterruptibleClock, StopRequested
from pipelines.runtime.service import shutdown_requested
from pipelines.simulate import SimulatedOrganisation, training_days

POLL_SECONDS = 1.0  # between two checks for a served bank

log = get_logger("fingerprint.simulate_live")


def run_live_simulation(
    organisation: SimulatedOrganisation,
    folder: Path,
    bank: Path,
    speed: float,
    keep: bool,
    settings: Settings,
) -> dict[str, Any]:
    """Run `fingerprint simulate-live` until it is done or SIGTERM comes; return its figures."""
    logs.configure_logging()
    with shutdown_requested() as ended:
        clock = InterruptibleClock(SystemClock(), ended)
        try:
            return simulate_live(organisation, folder, bank, speed, settings, clock, keep)
        except StopRequested:
            log.info("asked to end: started again, it goes on where it was")
            return ProgressFile(folder, asdict(organisation)).figures()


def simulate_live(
    organisation: SimulatedOrganisation,
    folder: Path,
    bank: Path,
    speed: float,
    settings: Settings,
    clock: InterruptibleClock,
    keep: bool = False,
) -> dict[str, Any]:
    """Simulate days that end today; send three quarters of them, wait until a bank is served, and send the rest.

    The rest is sent at `speed` times real time. Steps in the progress file are not repeated. Return the figures of
    `simulate-live --json`.
    """
    progress_file = ProgressFile(folder, asdict(organisation))
    pace = ReplayRate(speed=speed)
    if "until" not in progress_file:
        progress_file.record("until", _write_records(organisation, folder, clock))
    days = sorted(folder.glob("*.jsonl.gz"))
    first = training_days(organisation.days)
    if "past" not in progress_file:
        progress_file.record("past", _send_records(days[:first], ReplayRate(), settings, clock))
    if "rest" not in progress_file:
        progress_file.record("bank", _wait_for_bank(bank, clock))
        progress_file.record("rest", _send_records(days[first:], pace, settings, clock))
    if not keep:
        _remove_records(days)
    log.info("the live simulation has ended", **progress_file.figures())
    return progress_file.figures()


def _write_records(organisation: SimulatedOrganisation, folder: Path, clock: InterruptibleClock) -> str:
    """Write the records; return the ISO date at which they end."""
    today = clock.now().date()
    log.info("simulates an organisation", **asdict(organisation))
    organisation.write_records(folder, "today", today, lambda *_: clock.raise_if_stopped())
    return today.isoformat()


def _send_records(days: list[Path], pace: ReplayRate, settings: Settings, clock: InterruptibleClock) -> int:
    """Send the records of these days to the raw topic; return their number."""
    topic, found = settings.kafka.raw_topic, files.find_files([str(day) for day in days])
    how = f"at {pace.speed:g} times real time" if pace.speed else "at once"
    log.info("sends %d days %s", len(days), how, topic=topic)
    with wiring.open_producer(settings.kafka) as producer:
        return int(replay_records(found, topic, producer, settings, clock, clock.progress, pace)["records"])


def _wait_for_bank(bank: Path, clock: InterruptibleClock) -> str:
    """Wait until a version is served, and return it."""
    if versions.served_version(bank) is None:
        log.info("waits until a bank is served", bank=str(bank))
    while (version := versions.served_version(bank)) is None:
        clock.sleep(POLL_SECONDS)
    return version


def _remove_records(days: list[Path]) -> None:
    """Remove the records; the labels stay, so that alerts can be compared with them."""
    for day in days:
        day.unlink()
