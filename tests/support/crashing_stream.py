"""`fingerprint stream` in a process that kills itself: python -m tests.support.crashing_stream BANK DOOR METHOD before|after N

At the N-th call of the door's method it sends itself SIGKILL, before or after the call has had its effect: nothing is closed,
nothing is flushed, nobody is told. Settings come from the environment.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.adapters.system import SystemClock
from fingerprint.core.settings import load_settings
from fingerprint.store.alerts import open_alert_store
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.publisher import StreamAdapters
from pipelines.runtime import wiring
from pipelines.stream import StreamService


class Deadly:
    """A door behind which death waits."""

    def __init__(self, door: Any, method: str, when: str, number: int) -> None:
        self.door, self.method, self.when, self.left = door, method, when, number

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.door, name)
        return self._deadly(real) if name == self.method else real

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


def main(folder: str, door: str, method: str, when: str, number: str) -> None:
    """Runs until it dies; exit status 0 if it never came so far."""
    settings = load_settings()
    with (
        wiring.open_consumer(settings.kafka, "stream") as consumer,
        wiring.producing(settings.kafka) as producer,
    ):
        opened: dict[str, Any] = {
            "consumer": consumer,
            "producer": producer,
            "desk": open_alert_store(settings.database.url),
            "checkpoints": FileCheckpointStore(settings.checkpoints),
        }
        if door == "store":
            opened["snapshots"]._store = Deadly(opened["snapshots"]._store, method, when, int(number))
        else:
            opened[door] = Deadly(opened[door], method, when, int(number))
        stream = StreamService(
            wiring.bank_watcher(Path(folder), settings),
            StreamAdapters(**opened, clock=SystemClock()),
            settings,
            StreamMetrics(CollectorRegistry()),
        )
        stream.run(lambda: False, once=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
