"""The lifecycle of a service: one-line logs, health, an orderly end at SIGTERM, and commands in a child process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Timer
from types import FrameType
from typing import IO, Any, NamedTuple

from prometheus_client import REGISTRY

from fingerprint.adapters import health, logs
from fingerprint.core.log import get_logger
from fingerprint.core.settings import Settings

HealthCheck = health.Check

log = get_logger("fingerprint.service")


@contextmanager
def running_service(
    settings: Settings, ready: HealthCheck, alive: HealthCheck, name: str
) -> Iterator[Callable[[], bool]]:
    """Serve health and metrics while the block runs; yield a function that returns whether the end was requested."""
    logs.configure_logging()
    where = settings.health
    with (
        health.serve_health(where.host, where.port, {name: ready}, {name: alive}, REGISTRY),
        shutdown_requested() as ended,
    ):
        yield ended


@contextmanager
def shutdown_requested() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGTERM or SIGINT came. While the block runs, neither signal ends the process."""
    event = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        event.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield event.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def announce_wait(what: str, after_seconds: float = 5.0) -> Iterator[None]:
    """Log what a service waits for, if the block takes longer than `after_seconds`."""
    timer = Timer(after_seconds, log.warning, args=(f"waiting for {what}",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


POLL_SECONDS = 0.2  # between two checks of the child
TERMINATION_SECONDS = 20.0  # time that a child has to end by itself


class CompletedCommand(NamedTuple):
    """The exit status of a command (below 0: the signal that killed it), and the JSON that it printed."""

    exit_status: int
    figures: dict[str, Any]


def run_command(
    arguments: Sequence[str], scratch: Path, should_stop: Callable[[], bool]
) -> CompletedCommand | None:
    """Run `fingerprint ARGUMENTS` in a child process, whose memory is freed at its end, and whose crash does not end this one.

    The child has the same environment and standard error, and `scratch` for temporary files. Return None if `should_stop` came
    true; the child has ended by then.
    """
    command = [sys.executable, "-m", "pipelines.cli", *arguments]
    environment = os.environ | {"TMPDIR": str(scratch)}
    with TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, env=environment)  # noqa: S603 - our own program
        try:
            while not _has_exited(child, POLL_SECONDS):
                if should_stop():
                    return None
        finally:
            _terminate(child)
        return CompletedCommand(child.returncode, _parse_figures(output))


def _terminate(child: subprocess.Popen[bytes]) -> None:
    """End a child like Ctrl-C, so that it removes its temporary files; kill it if it does not end in time."""
    child.send_signal(signal.SIGINT)
    if not _has_exited(child, TERMINATION_SECONDS):
        child.kill()
        child.wait()


def _has_exited(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _parse_figures(output: IO[bytes]) -> dict[str, Any]:
    output.seek(0)
    try:
        figures = json.loads(output.read())
    except ValueError:  # it printed no figures
        return {}
    return figures if isinstance(figures, dict) else {}
