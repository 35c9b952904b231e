"""Events topic -> bank, again and again: look, train when it is due, hand the bank to Triton. One page, read downhill.

The training itself is `fingerprint train` in a process of its own (apart.py), and goes through the gate like any other. Who dies
in between leaves nothing half done: the next look finds what is due by the bank's own history.
"""

from __future__ import annotations

import logging
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from fingerprint.adapters import work_directory
from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Clock
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from fingerprint.streaming.dependency_status import Troubles
from fingerprint.training import schedule
from fingerprint.training.schedule import Due, Known
from pipelines.commands import triton
from pipelines.retrain_metrics import RetrainMetrics
from pipelines.runtime import child_process, topic_time_span
from pipelines.runtime.service import running

TICK_SECONDS = 0.2  # how late SIGTERM is heard between two looks
SETTLED_SECONDS = 600.0  # between two looks at the topic once a bank is served: each joins a group of its own
OUTCOMES = {0: "served", 3: "refused"}  # by the exit status of `train`; any other has failed

log = logging.getLogger("fingerprint.retrain")


def run(
    settings: Settings,
    folder: Path,
    file: Path | None = None,
    once: bool = False,
    registry: CollectorRegistry = REGISTRY,
) -> dict[str, Any]:
    """`fingerprint retrain` for the bank in `folder`, with the settings of `file`; its figures.

    FingerprintError while another looks after the same bank; with `once` also where something failed.
    """
    with work_directory.entered(folder / "work", "retrain", about={}) as work:
        program = Retrain(folder, settings, file, work / "tmp", RetrainMetrics(registry, settings.triton))
        with running(settings, program.not_ready, program.not_alive, "retrain") as asked_to_end:
            program.run(asked_to_end, once)
    if once and (trouble := program.not_ready()):
        raise FingerprintError(trouble)
    return program.figures()


class Retrain:
    """The program without its process: turn after turn."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        file: Path | None,
        scratch: Path,
        metrics: RetrainMetrics,
        clock: Clock | None = None,
    ) -> None:
        self.folder, self.settings, self.file, self.scratch = folder, settings, file, scratch
        self.metrics, self.clock = metrics, clock or SystemClock()
        self.options = settings.retraining
        self.troubles = Troubles()
        self.asked_to_end: Callable[[], bool] = lambda: False
        self.held_days: float | None = None
        self.looked = float("-inf")  # at the topic, by the monotonic clock
        self.trained: datetime | None = None  # by this program: one that learned nothing new leaves no line
        self.failures = 0
        self.failed: datetime | None = None
        self.said: Due | None = None
        self.last_turn = time.monotonic()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> None:
        """Turn after turn until asked to end; with `once` a single one."""
        self.asked_to_end = asked_to_end
        self.turn()
        while not (once or self._rested_and_asked()):
            self.turn()

    def turn(self) -> None:
        """One look, and what follows from it. What fails is noted, and tried again with a later one."""
        self._load()
        self._look()
        if "topic" in self.troubles or self._unwanted():
            return
        if (due := self._due()).by(self.clock.now()):
            self._train(due.why)
            self._due()
            self._load()

    # --- when ---------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        settled = versions.served(self.folder) is not None and "topic" not in self.troubles
        if settled and time.monotonic() - self.looked < SETTLED_SECONDS:
            return
        self.looked = time.monotonic()
        with self._noting("topic"):
            held_days = topic_time_span.days(self.settings.kafka.events, self.settings, self._unwanted)
            self.held_days = self.held_days if self._unwanted() else held_days

    def _due(self) -> Due:
        """When the next training is due; why it is not is said once, as long as it stays the same."""
        now, trained = self.clock.now(), self._trained()
        served = versions.served(self.folder) is not None
        known = Known(self.held_days, served, trained, self.failures, self.failed)
        due = schedule.due(known, now, self.options)
        self.metrics.knows(trained, due.at, self.held_days)
        if not due.by(now) and (self.said is None or due.why != self.said.why):
            log.info("no training is due", extra=_fields(why=due.why))
        self.said = due
        return due

    def _trained(self) -> datetime | None:
        noted = schedule.last_training(versions.history(self.folder))
        return max(filter(None, (noted, self.trained)), default=None)

    # --- training -----------------------------------------------------------------------------------------------------

    def _train(self, why: str) -> None:
        began = time.monotonic()
        self.metrics.last_attempt.set(self.clock.now().timestamp())
        log.info("a training begins", extra=_fields(why=why, held_days=self.held_days))
        with self._scratch():
            ended = child_process.run(self._arguments(), self.scratch, self._unwanted)
        seconds = time.monotonic() - began
        if ended is None:
            log.info("the training is broken off, and goes on where it was with the next start")
            return
        self.metrics.last_seconds.set(seconds)
        self._count(ended, seconds)

    def _arguments(self) -> list[str]:
        """Of `fingerprint train`."""
        settings = ["--settings", str(self.file)] if self.file else []
        wanted = ["--topic", self.settings.kafka.events, "--days", str(self.options.days)]
        return ["train", *wanted, "--bank", str(self.folder), "--json", *settings]

    def _count(self, ended: child_process.Ended, seconds: float) -> None:
        outcome = OUTCOMES.get(ended.status, "failed")
        self.metrics.trainings.labels(outcome).inc()
        if outcome == "failed":
            self.failures, self.failed = self.failures + 1, self.clock.now()
            self.troubles.say("training", _why(ended.status))
            return
        self.failures, self.failed, self.trained = 0, None, self.clock.now()
        self.troubles.over("training")
        version, refusal = ended.figures.get("version"), ended.figures.get("refusal")
        log.info(
            "trained",
            extra=_fields(outcome=outcome, version=version, refusal=refusal, seconds=round(seconds, 1)),
        )

    @contextmanager
    def _scratch(self) -> Iterator[None]:
        """An empty folder for a training's temporary files, whatever the one before has left there."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    # --- Triton -------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Have the server that the settings name serve what is served, whoever decided that."""
        options, version = self.settings.triton, versions.served(self.folder)
        if options.url is None or version is None or self.asked_to_end():
            return
        with self._noting("triton"):
            if not triton.has(version, options):
                self.metrics.triton_loaded.set(0)
                triton.run_load(self.folder, options, self.settings.bank)
                log.info("loaded", extra=_fields(version=version, server=options.url))
            self.metrics.triton_loaded.set(1)

    # --- how it goes --------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """Of `retrain --json`."""
        due = self.said or Due(None, "nothing was looked at")
        return {
            "bank": str(self.folder),
            "served": versions.served(self.folder),
            "trainings": self.metrics.figures(),
            "history_days": self.held_days,
            "due": due.at and due.at.isoformat(timespec="seconds"),
            "why": due.why,
        }

    def not_ready(self) -> str | None:
        """What failed last; to wait for history is no trouble."""
        return self.troubles.sentence()

    def not_alive(self) -> str | None:
        still = time.monotonic() - self.last_turn
        most = self.settings.health.stalled_seconds + self.settings.triton.load_seconds
        return f"stands still for {still:.0f} s" if still > most else None

    def _unwanted(self) -> bool:
        """Whether to leave off; asked often while a training runs, which is a sign of life."""
        self.last_turn = time.monotonic()
        return self.asked_to_end()

    def _rested_and_asked(self) -> bool:
        """After the time between two looks, or as soon as asked to end: whether that was it."""
        until = time.monotonic() + self.options.look_seconds
        while not self._unwanted() and (left := until - time.monotonic()) > 0:
            self.clock.wait(min(left, TICK_SECONDS))
        return self.asked_to_end()

    @contextmanager
    def _noting(self, door: str) -> Iterator[None]:
        """What fails at a door is why the program is not ready, until it works again."""
        try:
            yield
        except FingerprintError as error:
            self.troubles.say(door, str(error))
        else:
            self.troubles.over(door)


def print_figures(figures: dict[str, Any]) -> None:
    """What `retrain` says to a person when it ends."""
    done = ", ".join(f"{count} {outcome}" for outcome, count in figures["trainings"].items() if count)
    print(f"trainings: {done or 'none'}; {figures['why']}")
    print(f"served: {figures['served'] or 'no bank yet'}")


def _why(status: int) -> str:
    if status == -signal.SIGKILL:
        return "the training was killed: where memory ran out, a smaller training.piece_events needs less"
    if status < 0:
        return f"the training was ended by {signal.Signals(-status).name}"
    return f"the training failed with status {status}: its own sentence stands before this one"


def _fields(**fields: Any) -> dict[str, dict[str, Any]]:
    return {"fields": fields}
