"""An organisation that does not exist works before our eyes: its past at once, and when a bank knows it, its last days. One page.

Example:
    >>> rehearse(Organisation(seed=7), Path("demo"), Path("bank"), 3600, settings, until_asked)["past"]
    96138
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fingerprint.adapters import logs
from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Clock
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from fingerprint.streaming.replay_rate import Pace
from pipelines.replay import replay
from pipelines.runtime import wiring
from pipelines.runtime.service import asked
from pipelines.simulate import ATTACKS, DAYS, PRINCIPALS, SEED, beginning, past, simulate

LOOK_SECONDS = 1.0  # between two looks whether a bank is served
TICK_SECONDS = 0.2  # how late SIGTERM is heard

log = logging.getLogger("fingerprint.rehearse")


@dataclass(frozen=True, slots=True)
class Organisation:
    """Who rehearses."""

    principals: int = PRINCIPALS
    days: int = DAYS
    attacks: int = ATTACKS
    seed: int = SEED


def run(
    organisation: Organisation, folder: Path, bank: Path, speed: float, keep: bool, settings: Settings
) -> dict[str, Any]:
    """`fingerprint rehearse`, until it is done or SIGTERM comes; its figures."""
    logs.start()
    with asked() as ended:
        clock = UntilAsked(SystemClock(), ended)
        try:
            return rehearse(organisation, folder, bank, speed, settings, clock, keep)
        except Ended:
            log.info("asked to end: started again, it goes on where it was")
            return Diary(folder, organisation).figures()


def rehearse(
    organisation: Organisation,
    folder: Path,
    bank: Path,
    speed: float,
    settings: Settings,
    clock: UntilAsked,
    keep: bool = False,
) -> dict[str, Any]:
    """Simulate into `folder` what ended today; send the first three quarters of the days; wait until a bank is served; send the
    rest at `speed` times real time. What the folder's diary says was done is not done again. The figures of `--json`."""
    diary = Diary(folder, organisation)
    pace = Pace(speed=speed)
    if "until" not in diary:
        diary.note("until", _simulated(organisation, folder, clock))
    days = sorted(folder.glob("*.jsonl.gz"))
    first = past(organisation.days)
    if "past" not in diary:
        diary.note("past", _sent(days[:first], Pace(), settings, clock))
    if "rest" not in diary:
        diary.note("bank", _awaited(bank, clock))
        diary.note("rest", _sent(days[first:], pace, settings, clock))
    if not keep:
        _remove(days)
    log.info("the rehearsal is over", extra={"fields": diary.figures()})
    return diary.figures()


def _simulated(organisation: Organisation, folder: Path, clock: UntilAsked) -> str:
    """Until when (ISO date) there are records now."""
    today = clock.now().date()
    log.info("simulates an organisation", extra={"fields": asdict(organisation)})
    simulate(
        organisation.principals,
        organisation.days,
        organisation.seed,
        folder,
        organisation.attacks,
        start=beginning("today", organisation.days, today),
        sharp=True,
        progress=lambda *_: clock.listen(),
    )
    return today.isoformat()


def _sent(days: list[Path], pace: Pace, settings: Settings, clock: UntilAsked) -> int:
    """How many records of these days went to the raw topic."""
    topic, sources = settings.kafka.raw, [str(day) for day in days]
    how = f"at {pace.speed:g} times real time" if pace.speed else "at once"
    log.info("sends %d days %s", len(days), how, extra={"fields": {"topic": topic}})
    with wiring.producer(settings.kafka) as producer:
        return int(replay(sources, topic, producer, settings, clock, clock.progress, pace)["records"])


def _awaited(bank: Path, clock: UntilAsked) -> str:
    """The version that is served, as soon as there is one."""
    if versions.served(bank) is None:
        log.info("waits until a bank is served", extra={"fields": {"bank": str(bank)}})
    while (version := versions.served(bank)) is None:
        clock.wait(LOOK_SECONDS)
    return version


def _remove(days: list[Path]) -> None:
    """The records; the labels stay, to compare alerts with."""
    for day in days:
        day.unlink()


class Ended(Exception):
    """The program has been asked to end."""


class UntilAsked:
    """A clock that lets nobody wait, or work, past the moment at which the program is asked to end: that raises Ended."""

    def __init__(self, clock: Clock, asked_to_end: Callable[[], bool]) -> None:
        self._clock, self._asked_to_end = clock, asked_to_end

    def now(self) -> datetime:
        return self._clock.now()

    def wait(self, seconds: float) -> None:
        while seconds > 0:
            self.listen()
            self._clock.wait(min(seconds, TICK_SECONDS))
            seconds -= TICK_SECONDS
        self.listen()

    def progress(self, stage: str, done: int, of: int = 0) -> None:
        """Between two pieces of work."""
        self.listen()

    def listen(self) -> None:
        if self._asked_to_end():
            raise Ended


class Diary:
    """What was done, in a file that outlives the program: `until`, `past`, `bank`, `rest`, one after the other."""

    def __init__(self, folder: Path, organisation: Organisation) -> None:
        self._file = folder / "rehearsal.json"
        self._done: dict[str, Any] = _read(self._file) or asdict(organisation)
        before = {name: self._done.get(name) for name in asdict(organisation)}
        if before != asdict(organisation):
            said = ", ".join(f"--{name} {value}" for name, value in before.items())
            raise FingerprintError(
                f"{folder} holds another rehearsal ({said}): name another --folder, or remove it"
            )

    def __contains__(self, what: str) -> bool:
        return what in self._done

    def note(self, what: str, value: Any) -> None:
        """In one step: a program that is killed has either said it or not."""
        self._done[what] = value
        staged = self._file.with_suffix(".tmp")
        staged.write_text(json.dumps(self._done) + "\n")
        staged.replace(self._file)

    def figures(self) -> dict[str, Any]:
        return {"folder": str(self._file.parent), **self._done}


def _read(file: Path) -> dict[str, Any] | None:
    try:
        said = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise FingerprintError(
            f"{file} is no diary of a rehearsal: remove {file.parent}, or name another --folder"
        )
    return said


def print_rehearsed(figures: dict[str, Any]) -> None:
    if "rest" not in figures:
        print("not done yet: started again, it goes on where it was")
        return
    print(
        f"{figures['past'] + figures['rest']:,} records sent of {figures['principals']} principals over {figures['days']} days "
        f"until {figures['until']}; attacks are labelled in {figures['folder']}/labels.jsonl"
    )
