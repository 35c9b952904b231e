"""Periodic training from the events topic: check the topic, train when it is due, load the bank into Triton.

A training is `fingerprint train` in a child process, and passes the promotion gate like any other. After a crash nothing has to
be repaired: the next check decides by the bank's own history whether a training is due.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from fingerprint.adapters.system import SystemClock
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.clock import Clock
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from fingerprint.streaming.backpressure import DependencyStatus
from fingerprint.streaming.service import LIVENESS_TIMEOUT_SECONDS
from fingerprint.training import schedule
from fingerprint.training.schedule import NextTraining, ScheduleInputs
from pipelines.commands import triton
from pipelines.runtime import service, topic_time_span
from pipelines.runtime.retrain_metrics import RetrainMetrics

TICK_SECONDS = 0.2  # between two checks for SIGTERM
# Between two checks of the topic once a bank is served. Checks are rare because each joins a consumer group of its own.
TOPIC_CHECK_SECONDS = 600.0
OUTCOME_BY_EXIT_STATUS = {0: "promoted", 3: "rejected"}  # of `train`; any other status is a failure

log = get_logger("fingerprint.retrain")


class RetrainService:
    """Periodic training as a series of checks, without the lifecycle of the process."""

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
        self.stop_requested: Callable[[], bool] = lambda: False
        self.topic_days: float | None = None
        self.last_topic_check = float("-inf")  # seconds of the monotonic clock
        # End of this program's last training; the bank's history has no line of a training that learned nothing new.
        self.last_trained: datetime | None = None
        self.failures = 0
        self.first_failure: datetime | None = None  # the first of the current failures in a row
        self.last_failure: datetime | None = None
        self.last_logged_due: NextTraining | None = None
        self.last_logged_future: datetime | None = None
        self.last_iteration = time.monotonic()

    def run(self, stop_requested: Callable[[], bool], once: bool = False) -> None:
        """Run checks until asked to end; with `once` a single check."""
        self.stop_requested = stop_requested
        self.run_once()
        while not (once or self._wait_or_stop()):
            self.run_once()

    def run_once(self) -> None:
        """Check once, and train if it is due. A failure is recorded, and a later check tries again."""
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
        """Return when the next training is due; if it is not due yet, log each reason once."""
        now = self.clock.now()
        trained = self._last_training(now)
        served = versions.served_version(self.folder) is not None
        known = ScheduleInputs(
            self.topic_days, served, trained, self.failures, self.last_failure, self.first_failure
        )
        due = schedule.next_training(known, now, self.options)
        self.metrics.set_schedule(trained, schedule.due_since(known, now, self.options), self.topic_days)
        if not due.is_due(now) and (self.last_logged_due is None or due.why != self.last_logged_due.why):
            log.info("no training is due", why=due.why)
        self.last_logged_due = due
        return due

    def _last_training(self, now: datetime) -> datetime | None:
        """Return when the last training ended. A time in the future does not count, and is logged once."""
        times = schedule.training_times(versions.decision_history(self.folder))
        times += [self.last_trained] if self.last_trained else []
        believed, latest = schedule.latest_believed(times, now), max(times, default=None)
        if latest != believed and latest != self.last_logged_future:
            log.warning(
                "a training dated in the future does not count", at=str(latest), bank=str(self.folder)
            )
            self.last_logged_future = latest
        return believed

    # --- training -----------------------------------------------------------------------------------------------------

    def _train(self, why: str) -> None:
        began = time.monotonic()
        self.metrics.last_attempt.set(self.clock.now().timestamp())
        log.info("a training begins", why=why, held_days=self.topic_days)
        with self._empty_scratch_folder():
            ended = service.run_command(self._arguments(), self.scratch, self._should_stop)
        seconds = time.monotonic() - began
        if ended is None:
            log.info("the training is broken off, and goes on where it was with the next start")
            return
        self.metrics.last_seconds.set(seconds)
        self._record_outcome(ended, seconds)

    def _arguments(self) -> list[str]:
        """Return the arguments of `fingerprint train`."""
        settings = ["--settings", str(self.file)] if self.file else []
        history = ["--topic", self.settings.kafka.events_topic, "--days", str(self.options.history_days)]
        return ["train", *history, "--bank", str(self.folder), "--json", *settings]

    def _record_outcome(self, ended: service.CompletedCommand, seconds: float) -> None:
        outcome = OUTCOME_BY_EXIT_STATUS.get(ended.exit_status, "failed")
        self.metrics.trainings.labels(outcome).inc()
        if outcome == "failed":
            self.failures, self.last_failure = self.failures + 1, self.clock.now()
            self.first_failure = self.first_failure or self.last_failure
            self.dependency_status.fail("training", _exit_reason(ended.exit_status))
            return
        self.failures, self.first_failure, self.last_failure = 0, None, None
        self.last_trained = self.clock.now()
        self.dependency_status.recover("training")
        version, refusal = ended.figures.get("version"), ended.figures.get("refusal")
        log.info("trained", outcome=outcome, version=version, refusal=refusal, seconds=round(seconds, 1))

    @contextmanager
    def _empty_scratch_folder(self) -> Iterator[None]:
        """Create an empty folder for the temporary files of a training, and remove it afterwards."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    # --- Triton -------------------------------------------------------------------------------------------------------

    def _load_into_server(self) -> None:
        """Load the served bank into the Triton server of the settings, unless the server has it."""
        options, version = self.settings.triton, versions.served_version(self.folder)
        if options.url is None or version is None or self.stop_requested():
            return
        with self._tracking_dependency("triton"):
            if not triton.server_has_version(version, options):
                self.metrics.triton_loaded.set(0)
                triton.load_into_server(self.folder, options, self.settings.bank)
                log.info("loaded", version=version, server=options.url)
            self.metrics.triton_loaded.set(1)

    # --- how it goes --------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """Return the figures of `retrain --json`."""
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
        """Return what failed last, or None; waiting for history is no failure."""
        return self.dependency_status.summary()

    def not_alive(self) -> str | None:
        """Return why the service is not alive; None while it makes progress."""
        still = time.monotonic() - self.last_iteration
        loads = 2 * self.settings.triton.load_timeout_seconds  # beside the previous version, then alone
        most = LIVENESS_TIMEOUT_SECONDS + loads
        return f"stands still for {still:.0f} s" if still > most else None

    def _should_stop(self) -> bool:
        """Return whether to stop, and record a sign of life; a training calls it often."""
        self.last_iteration = time.monotonic()
        return self.stop_requested()

    def _wait_or_stop(self) -> bool:
        """Wait until the next check; return whether to stop."""
        until = time.monotonic() + self.options.poll_interval_seconds
        while not self._should_stop() and (left := until - time.monotonic()) > 0:
            self.clock.sleep(min(left, TICK_SECONDS))
        return self.stop_requested()

    @contextmanager
    def _tracking_dependency(self, dependency: str) -> Iterator[None]:
        """Record a failure of a dependency as the reason why the service is not ready, until it works again."""
        try:
            yield
        except FingerprintError as error:
            self.dependency_status.fail(dependency, str(error))
        else:
            self.dependency_status.recover(dependency)


def _exit_reason(status: int) -> str:
    if status == -signal.SIGKILL:
        return "the training was killed: where memory ran out, a smaller training.partition_events needs less"
    if status < 0:
        return f"the training was ended by {signal.Signals(-status).name}"
    return f"the training failed with status {status}: its own sentence stands before this one"
