"""Run `fingerprint stream` in a process that kills itself.

    kill_stream(place, ADAPTER, METHOD, "before" or "after", N)

ADAPTER is consumer, producer, store, checkpoints, or objects (the files below the
checkpoints); a METHOD of the store is named with its repository: alerts.save. At the N-th call of METHOD the process sends itself
SIGKILL, before or after the call has had its effect: nothing is closed or flushed. Settings come from the environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.adapters.system import SystemClock
from fingerprint.core.settings import load_settings
from fingerprint.store import open_store
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.publisher import StreamAdapters
from fingerprint.streaming.stream_service import StreamService
from pipelines.runtime import wiring
from tests.support.forked import Forked
from tests.support.stream_environment import Place

PATIENCE = 120.0  # seconds a life may take


class Deadly:
    """An adapter that kills the process at the N-th call of one method."""

    def __init__(self, adapter: Any, method: str, when: str, number: int) -> None:
        """`method`: its name, or the name of a repository and of a method of it, as `alerts.save`."""
        part, _, rest = method.partition(".")
        real = getattr(adapter, part)  # a name that is no method would never kill
        self.adapter, self.part, self.when, self.left = adapter, part, when, number
        self.deadly = Deadly(real, rest, when, number) if rest else self._deadly(real)

    def __getattr__(self, name: str) -> Any:
        return self.deadly if name == self.part else getattr(self.adapter, name)

    def _deadly(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0 and self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **options)
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def main(folder: str, adapter: str, method: str, when: str, number: str) -> None:
    """Run until killed; exit with status 0 if the N-th call never came."""
    settings = load_settings()
    with (
        wiring.open_consumer(settings.kafka, "stream") as consumer,
        wiring.open_producer(settings.kafka) as producer,
    ):
        opened: dict[str, Any] = {
            "consumer": consumer,
            "producer": producer,
            "store": open_store(settings.database.url),
            "checkpoints": FileCheckpointStore(settings.checkpoints),
        }
        if adapter == "objects":
            checkpoints = opened["checkpoints"]
            checkpoints._store = Deadly(checkpoints._store, method, when, int(number))
        else:
            opened[adapter] = Deadly(opened[adapter], method, when, int(number))
        stream = StreamService(
            wiring.bank_watcher(Path(folder), settings),
            StreamAdapters(**opened, clock=SystemClock()),
            settings,
            StreamMetrics(CollectorRegistry()),
        )
        stream.run(lambda: False, once=True)


def kill_stream(place: Place, *step: object) -> None:
    """Run in a process with the settings of a place, which has to die at that step."""
    stream = Forked(main, str(place.bank), *map(str, step), environment=place.environment())
    try:
        assert stream.wait(PATIENCE) == -signal.SIGKILL, stream.err[-2000:]
    finally:
        stream.kill()
