"""What every program that runs on has: one-line logs, health, and an end when it is asked to end."""

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
from threading import Event
from types import FrameType
from typing import IO, Any, NamedTuple

from prometheus_client import REGISTRY

from fingerprint.adapters import health, logs
from fingerprint.core.settings import Settings

HealthCheck = health.Check


@contextmanager
def running_service(
    settings: Settings, ready: HealthCheck, alive: HealthCheck, name: str
) -> Iterator[Callable[[], bool]]:
    """Gives whether the program has been asked to end (SIGTERM, SIGINT); serves health and metrics meanwhile."""
    logs.configure_logging()
    where = settings.health
    with (
        health.serve_health(where.host, where.port, {name: ready}, {name: alive}, REGISTRY),
        shutdown_requested() as ended,
    ):
        yield ended


@contextmanager
def shutdown_requested() -> Iterator[Callable[[], bool]]:
    """Gives whether SIGTERM or SIGINT came; neither ends the program by itself meanwhile."""
    event = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        event.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield event.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


POLL_SECONDS = 0.2  # between two looks at the process, and whether it is wanted still
TERMINATION_SECONDS = 20.0  # that it has to end when it is asked to


class CompletedCommand(NamedTuple):
    """Its exit status (below 0: the signal that killed it), and what it printed, where that was JSON."""

    exit_status: int
    figures: dict[str, Any]


def run_command(
    arguments: Sequence[str], scratch: Path, should_stop: Callable[[], bool]
) -> CompletedCommand | None:
    """`fingerprint ARGUMENTS` under the same environment, with `scratch` for its temporary files; its standard error is ours.
    None where it became `unwanted` meanwhile: then it is over, too."""
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
    """As by Ctrl-C, which lets it put its temporary files away; then by force. Nothing where it is over already."""
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
    except ValueError:  # it came to no figures
        return {}
    return figures if isinstance(figures, dict) else {}
