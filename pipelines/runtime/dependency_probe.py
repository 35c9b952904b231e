"""Background probe: ask the servers that a service needs before it uses them, so that /readyz says which one is away.

Example:
    >>> with probing({"kafka": lambda: wiring.require_answer(settings.kafka, 5)}) as not_ready:
    ...     not_ready()
    'kafka: no broker answers at localhost:9092 (Connection refused): start Kafka, or set kafka.bootstrap_servers'

Health servers are asked often and must answer at once, while a server that is away takes seconds to be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread

from fingerprint.adapters.health import Check
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger

INTERVAL_SECONDS = 10.0  # between two rounds

Probes = Mapping[str, Callable[[], object]]  # each raises FingerprintError while its server is away

log = get_logger("fingerprint.service")


@contextmanager
def probing(probes: Probes, interval_seconds: float = INTERVAL_SECONDS) -> Iterator[Check]:
    """Run the probes again and again while the block runs; yield a function that returns what is wrong, None if nothing is."""
    latest: dict[str, str | None] = dict.fromkeys(probes, "not asked yet")
    ended = Event()

    def ask() -> None:
        while not ended.is_set():
            for name, probe in probes.items():
                _note(latest, name, _problem(probe))
            ended.wait(interval_seconds)

    # The thread is not waited for: a server may take seconds to be missed, and SIGTERM must not wait for that.
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
    except Exception as error:  # a library's own: without the thread the last answer would stay for ever
        return f"{type(error).__name__}: {error}"
    return None


def _note(latest: dict[str, str | None], name: str, problem: str | None) -> None:
    """Keep an answer, and log it where it differs from the one before."""
    if problem and problem != latest[name]:
        log.warning("a server that is needed does not answer", server=name, reason=problem)
    latest[name] = problem
