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

Check = health.Check


@contextmanager
def running(settings: Settings, ready: Check, alive: Check, name: str) -> Iterator[Callable[[], bool]]:
    """Gives whether the program has been asked to end (SIGTERM, SIGINT); serves health and metrics meanwhile."""
    logs.start()
    where = settings.health
    with health.serve(where.host, where.port, {name: ready}, {name: alive}, REGISTRY), asked() as ended:
        yield ended


@contextmanager
def asked() -> Iterator[Callable[[], bool]]:
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
