"""Background probe of the servers that a service will need, so that /readyz says which one is unavailable.

Example:
    >>> with probing({"kafka": lambda: wiring.require_answer(settings.kafka, 5)}) as not_ready:
    ...     not_ready()
    'kafka: no broker answers at localhost:9092 (Connection refused): start Kafka, or set kafka.bootstrap_servers'

The probes run in the background because /readyz must answer at once, while it takes seconds to find that a server is unavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread

from fingerprint.adapters.health import Check
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger

INTERVAL_SECONDS = 10.0  # between two rounds

Probes = Mapping[str, Callable[[], object]]  # each raises FingerprintError while its server is unavailable

log = get_logger("fingerprint.service")


@contextmanager
def probing(probes: Probes, interval_seconds: float = INTERVAL_SECONDS) -> Iterator[Check]:
    """Run the probes periodically while the block runs; yield a function that returns the current problem, or None."""
    latest: dict[str, str | None] = dict.fromkeys(probes, "not asked yet")
    ended = Event()

    def ask() -> None:
        while not ended.is_set():
            for name, probe in probes.items():
                _note(latest, name, _problem(probe))
            ended.wait(interval_seconds)

    # The thread is not joined: a probe may take seconds, and SIGTERM must not wait for it.
    Thread(target=ask, name="probes", daemon=True).start()
    try:
        yield lambda: "; ".join(f"{name}: {each}" for name, each in latest.items() if each) or None
    finally:
        ended.set()


def _problem(probe: Callable[[], object]) -> str | None:
    try:
        probe()
    except FingerprintError as error:
        return str(error)
    except Exception as error:  # of a library; if the thread ended, its last answer would stay for ever
        return f"{type(error).__name__}: {error}"
    return None


def _note(latest: dict[str, str | None], name: str, problem: str | None) -> None:
    """Keep the answer of a probe, and log a problem if it differs from the last answer."""
    if problem and problem != latest[name]:
        log.warning("a server that is needed does not answer", server=name, reason=problem)
    latest[name] = problem
