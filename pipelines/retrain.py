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
from fingerprint.streaming.backpressure import DependencyStatus
from fingerprint.streaming.lag_monitor import STALLED_SECONDS
from fingerprint.training import schedule
from fingerprint.training.schedule import NextTraining, ScheduleInputs
from pipelines.commands import triton
from pipelines.retrain_metrics import RetrainMetrics
from pipelines.runtime import child_process, topic_time_span
from pipelines.runtime.service import running_service

TICK_SECONDS = 0.2  # how late SIGTERM is heard between two looks
TOPIC_CHECK_SECONDS = (
    600.0  # between two looks at the topic once a bank is served: each joins a group of its own
)
OUTCOMES = {0: "promoted", 3: "rejected"}  # by the exit status of `train`; any other has failed

log = logging.getLogger("fingerprint.retrain")


def run_retrain(
    settings: Settings,
    folder: Path,
    file: Path | None = None,
    once: bool = False,
    registry: CollectorRegistry = REGISTRY,
) -> dict[str, Any]:
    """`fingerprint retrain` for the bank in `folder`, with the settings of `file`; its figures.

    FingerprintError while another looks after the same bank; with `once` also where something failed.
    """
    with work_directory.work_directory(folder / "work", "retrain", parameters={}) as work:
        program = RetrainService(
            folder, settings, file, work / "tmp", RetrainMetrics(registry, settings.triton)
        )
        with running_service(settings, program.not_ready, program.not_alive, "retrain") as asked_to_end:
            program.run(asked_to_end, once)
    if once and (trouble := program.not_ready()):
        raise FingerprintError(trouble)
    return program.figures()


class RetrainService:
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
        self.dependency_status = DependencyStatus()
        self.asked_to_end: Callable[[], bool] = lambda: False
        self.topic_days: float | None = None
        self.last_topic_check = float("-inf")  # at the topic, by the monotonic clock
        self.last_trained: datetime | None = (
            None  # by this program: one that learned nothing new leaves no line
        )
        self.failures = 0
        self.last_failure: datetime | None = None
        self.last_logged_due: NextTraining | None = None
        self.last_turn = time.monotonic()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> None:
        """Turn after turn until asked to end; with `once` a single one."""
        self.asked_to_end = asked_to_end
        self.run_once()
        while not (once or self._wait_or_stop()):
            self.run_once()

    def run_once(self) -> None:
        """One look, and what follows from it. What fails is noted, and tried again with a later one."""
        self._load_into_server()
        self._check_topic()
        if "topic" in self.dependency_status or self._should_stop():
            return
        if (due := self._next_training()).is_due(self.clock.now()):
            self._train(due.why)
            self._next_training()
            self._load_into_server()

    # --- when ---------------------------------------------------------------------------------------------------------

    def _check_topic(self) -> None:
        settled = versions.served_version(self.folder) is not None and "topic" not in self.dependency_status
        if settled and time.monotonic() - self.last_topic_check < TOPIC_CHECK_SECONDS:
            return
        self.last_topic_check = time.monotonic()
        with self._tracking_dependency("topic"):
            held_days = topic_time_span.topic_span_days(
                self.settings.kafka.events_topic, self.settings, self._should_stop
            )
            self.topic_days = self.topic_days if self._should_stop() else held_days

    def _next_training(self) -> NextTraining:
        """When the next training is due; why it is not is said once, as long as it stays the same."""
        now, trained = self.clock.now(), self._last_training()
        served = versions.served_version(self.folder) is not None
        known = ScheduleInputs(self.topic_days, served, trained, self.failures, self.last_failure)
        due = schedule.next_training(known, now, self.options)
        self.metrics.set_schedule(trained, due.at, self.topic_days)
        if not due.is_due(now) and (self.last_logged_due is None or due.why != self.last_logged_due.why):
            log.info("no training is due", extra=_log_fields(why=due.why))
        self.last_logged_due = due
        return due

    def _last_training(self) -> datetime | None:
        noted = schedule.last_training_time(versions.decision_history(self.folder))
        return max(filter(None, (noted, self.last_trained)), default=None)

    # --- training -----------------------------------------------------------------------------------------------------

    def _train(self, why: str) -> None:
        began = time.monotonic()
        self.metrics.last_attempt.set(self.clock.now().timestamp())
        log.info("a training begins", extra=_log_fields(why=why, held_days=self.topic_days))
        with self._empty_scratch_folder():
            ended = child_process.run_command(self._arguments(), self.scratch, self._should_stop)
        seconds = time.monotonic() - began
        if ended is None:
            log.info("the training is broken off, and goes on where it was with the next start")
            return
        self.metrics.last_seconds.set(seconds)
        self._record_outcome(ended, seconds)

    def _arguments(self) -> list[str]:
        """Of `fingerprint train`."""
        settings = ["--settings", str(self.file)] if self.file else []
        wanted = ["--topic", self.settings.kafka.events_topic, "--days", str(self.options.history_days)]
        return ["train", *wanted, "--bank", str(self.folder), "--json", *settings]

    def _record_outcome(self, ended: child_process.CompletedCommand, seconds: float) -> None:
        outcome = OUTCOMES.get(ended.exit_status, "failed")
        self.metrics.trainings.labels(outcome).inc()
        if outcome == "failed":
            self.failures, self.last_failure = self.failures + 1, self.clock.now()
            self.dependency_status.fail("training", _exit_reason(ended.exit_status))
            return
        self.failures, self.last_failure, self.last_trained = 0, None, self.clock.now()
        self.dependency_status.recover("training")
        version, refusal = ended.figures.get("version"), ended.figures.get("refusal")
        log.info(
            "trained",
            extra=_log_fields(outcome=outcome, version=version, refusal=refusal, seconds=round(seconds, 1)),
        )

    @contextmanager
    def _empty_scratch_folder(self) -> Iterator[None]:
        """An empty folder for a training's temporary files, whatever the one before has left there."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    # --- Triton -------------------------------------------------------------------------------------------------------

    def _load_into_server(self) -> None:
        """Have the server that the settings name serve what is served, whoever decided that."""
        options, version = self.settings.triton, versions.served_version(self.folder)
        if options.url is None or version is None or self.asked_to_end():
            return
        with self._tracking_dependency("triton"):
            if not triton.server_has_version(version, options):
                self.metrics.triton_loaded.set(0)
                triton.load_into_server(self.folder, options, self.settings.bank)
                log.info("loaded", extra=_log_fields(version=version, server=options.url))
            self.metrics.triton_loaded.set(1)

    # --- how it goes --------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """Of `retrain --json`."""
        due = self.last_logged_due or NextTraining(None, "nothing was looked at")
        return {
            "bank": str(self.folder),
            "served": versions.served_version(self.folder),
            "trainings": self.metrics.figures(),
            "history_days": self.topic_days,
            "due": due.at and due.at.isoformat(timespec="seconds"),
            "why": due.why,
        }

    def not_ready(self) -> str | None:
        """What failed last; to wait for history is no trouble."""
        return self.dependency_status.summary()

    def not_alive(self) -> str | None:
        still = time.monotonic() - self.last_turn
        most = STALLED_SECONDS + self.settings.triton.load_timeout_seconds
        return f"stands still for {still:.0f} s" if still > most else None

    def _should_stop(self) -> bool:
        """Whether to leave off; asked often while a training runs, which is a sign of life."""
        self.last_turn = time.monotonic()
        return self.asked_to_end()

    def _wait_or_stop(self) -> bool:
        """After the time between two looks, or as soon as asked to end: whether that was it."""
        until = time.monotonic() + self.options.poll_interval_seconds
        while not self._should_stop() and (left := until - time.monotonic()) > 0:
            self.clock.sleep(min(left, TICK_SECONDS))
        return self.asked_to_end()

    @contextmanager
    def _tracking_dependency(self, dependency: str) -> Iterator[None]:
        """What fails at a door is why the program is not ready, until it works again."""
        try:
            yield
        except FingerprintError as error:
            self.dependency_status.fail(dependency, str(error))
        else:
            self.dependency_status.recover(dependency)


def print_retrain_summary(figures: dict[str, Any]) -> None:
    """What `retrain` says to a person when it ends."""
    done = ", ".join(f"{count} {outcome}" for outcome, count in figures["trainings"].items() if count)
    print(f"trainings: {done or 'none'}; {figures['why']}")
    print(f"served: {figures['served'] or 'no bank yet'}")


def _exit_reason(status: int) -> str:
    if status == -signal.SIGKILL:
        return "the training was killed: where memory ran out, a smaller training.partition_events needs less"
    if status < 0:
        return f"the training was ended by {signal.Signals(-status).name}"
    return f"the training failed with status {status}: its own sentence stands before this one"


def _log_fields(**fields: Any) -> dict[str, dict[str, Any]]:
    return {"fields": fields}
