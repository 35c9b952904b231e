"""A live simulation: send the past of a simulated organisation at once, wait for a bank, then send its last days slowly.

Example:
    >>> run_live_simulation(SimulatedOrganisation(seed=7), Path("demo"), Path("bank"), 3600, False, settings)["past"]
    96138
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fingerprint.adapters import logs
from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports import Clock
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from fingerprint.streaming.replay_rate import ReplayRate
from pipelines.replay import replay_records
from pipelines.runtime import wiring
from pipelines.runtime.service import shutdown_requested
from pipelines.simulate import (
    ATTACKS,
    DAYS,
    PRINCIPALS,
    SEED,
    first_day,
    simulate_organisation,
    training_days,
)

POLL_SECONDS = 1.0  # between two looks whether a bank is served
TICK_SECONDS = 0.2  # how late SIGTERM is heard

log = get_logger("fingerprint.simulate_live")


@dataclass(frozen=True, slots=True)
class SimulatedOrganisation:
    """The organisation of a live simulation."""

    principals: int = PRINCIPALS
    days: int = DAYS
    attacks: int = ATTACKS
    seed: int = SEED


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
            return ProgressFile(folder, organisation).figures()


def simulate_live(
    organisation: SimulatedOrganisation,
    folder: Path,
    bank: Path,
    speed: float,
    settings: Settings,
    clock: InterruptibleClock,
    keep: bool = False,
) -> dict[str, Any]:
    """Simulate traffic that ended today; send three quarters of it, wait until a bank is served, and send the rest.

    The rest is sent at `speed` times real time. Steps that the progress file names are not repeated. Return the figures of
    `--json`.
    """
    progress_file = ProgressFile(folder, organisation)
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
    simulate_organisation(
        organisation.principals,
        organisation.days,
        organisation.seed,
        folder,
        organisation.attacks,
        start=first_day("today", organisation.days, today),
        sharp=True,
        progress=lambda *_: clock.raise_if_stopped(),
    )
    return today.isoformat()


def _send_records(days: list[Path], pace: ReplayRate, settings: Settings, clock: InterruptibleClock) -> int:
    """Send the records of these days to the raw topic; return their number."""
    topic, sources = settings.kafka.raw_topic, [str(day) for day in days]
    how = f"at {pace.speed:g} times real time" if pace.speed else "at once"
    log.info("sends %d days %s", len(days), how, topic=topic)
    with wiring.producing(settings.kafka) as producer:
        return int(replay_records(sources, topic, producer, settings, clock, clock.progress, pace)["records"])


def _wait_for_bank(bank: Path, clock: InterruptibleClock) -> str:
    """Wait until a version is served, and return it."""
    if versions.served_version(bank) is None:
        log.info("waits until a bank is served", bank=str(bank))
    while (version := versions.served_version(bank)) is None:
        clock.sleep(POLL_SECONDS)
    return version


def _remove_records(days: list[Path]) -> None:
    """Remove the records; the labels stay, to compare alerts with."""
    for day in days:
        day.unlink()


class StopRequested(Exception):
    """Raised when the program was asked to end."""


class InterruptibleClock:
    """A clock whose waits raise StopRequested as soon as the program is asked to end."""

    def __init__(self, clock: Clock, asked_to_end: Callable[[], bool]) -> None:
        self._clock, self._asked_to_end = clock, asked_to_end

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait; raise StopRequested as soon as the program is asked to end."""
        while seconds > 0:
            self.raise_if_stopped()
            self._clock.sleep(min(seconds, TICK_SECONDS))
            seconds -= TICK_SECONDS
        self.raise_if_stopped()

    def progress(self, stage: str, done: int, of: int = 0) -> None:
        """Raise StopRequested between two pieces of work if the program was asked to end."""
        self.raise_if_stopped()

    def raise_if_stopped(self) -> None:
        """Raise StopRequested if the program was asked to end."""
        if self._asked_to_end():
            raise StopRequested


class ProgressFile:
    """The steps that are done, in a file: `until`, `past`, `bank`, `rest`, one after the other."""

    def __init__(self, folder: Path, organisation: SimulatedOrganisation) -> None:
        self._file = folder / "progress.json"
        self._done: dict[str, Any] = _read(self._file) or asdict(organisation)
        before = {name: self._done.get(name) for name in asdict(organisation)}
        if before != asdict(organisation):
            content = ", ".join(f"--{name} {value}" for name, value in before.items())
            raise FingerprintError(
                f"{folder} holds another live simulation ({content}): name another --folder, or remove it"
            )

    def __contains__(self, what: str) -> bool:
        return what in self._done

    def record(self, what: str, value: Any) -> None:
        """Record a step atomically."""
        self._done[what] = value
        staged = self._file.with_suffix(".tmp")
        staged.write_text(json.dumps(self._done) + "\n")
        staged.replace(self._file)

    def figures(self) -> dict[str, Any]:
        """Return the figures of the steps that are done."""
        return {"folder": str(self._file.parent), **self._done}


def _read(file: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise FingerprintError(
            f"{file} is no progress file of a live simulation: remove {file.parent}, or name another --folder"
        )
    return content


def print_live_simulation(figures: dict[str, Any]) -> None:
    """Print what was sent."""
    if "rest" not in figures:
        print("not done yet: started again, it goes on where it was")
        return
    print(
        f"{figures['past'] + figures['rest']:,} records sent of {figures['principals']} principals over {figures['days']} days "
        f"until {figures['until']}; attacks are labelled in {figures['folder']}/labels.jsonl"
    )
