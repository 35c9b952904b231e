"""What every program that runs on has: one-line logs, health, and an end when it is asked to end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

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
