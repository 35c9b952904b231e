"""Whether messages keep coming: a broker that went away, a partition that stands still. For every program that reads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Gauge

from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Consumer, Message, Offsets, Partition
from fingerprint.core.settings import Kafka
from fingerprint.streaming.stall_detector import Watchdog

LOOK_SECONDS = 5.0  # between two looks
ANSWER_SECONDS = 2.0  # a look that takes longer is given up: reading must go on where it can

log = logging.getLogger("fingerprint.watch")


class WatchMetrics:
    """One registry a process, or one a test."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        self.stuck = Gauge(
            f"{prefix}_stuck_partitions", "Partitions that lag and stand still.", registry=registry
        )
        self.unanswered = Gauge(
            f"{prefix}_unanswered_seconds",
            "How long the broker has owed an answer; 0 while it answers.",
            registry=registry,
        )


class Watch:
    """Looks at the lag now and then, remembers which questions to the broker were not answered, says what is wrong.

    Example:
        >>> watch.saw(messages)                        # what a poll handed on
        >>> with watch.asking():
        ...     producer.flush()                       # a question too: a broker that is away does not answer it
        >>> lag = watch.look()                         # each turn; None between looks, and without an answer
        >>> watch.trouble()                            # a sentence for /readyz, from any thread
    """

    def __init__(
        self,
        consumer: Consumer,
        settings: Kafka,
        metrics: WatchMetrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.consumer, self.settings, self.metrics, self.now = consumer, settings, metrics, now
        self.patience = min(ANSWER_SECONDS, settings.answer_seconds)
        self.every = min(LOOK_SECONDS, settings.answer_seconds / 2)
        self.watchdog = Watchdog(settings.watchdog_seconds)
        self.positions: dict[Partition, int] = {}
        self.stuck: list[Partition] = []
        self.asked: float | None = None  # when the oldest question was asked that is not answered yet
        self.said_away = False
        self.next_look = now() + self.every

    def saw(self, messages: Sequence[Message]) -> None:
        """What was handed on, in order within each partition."""
        self.positions |= {message.home: message.offset + 1 for message in messages}

    def look(self, paused: Collection[Partition] = ()) -> Offsets | None:
        """The lag of each assigned partition, if it is time and the broker answers."""
        if self.now() < self.next_look:
            return None
        lag = self._lag()
        self.next_look = self.now() + self.every
        self._tell_of_broker()
        if lag is not None:
            self._tell_of_partitions(self.watchdog.stuck(self.now(), self.positions, lag, paused))
        return lag

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around whatever waits for the broker; answered if nothing is raised."""
        self.ask()
        yield
        self.answered()

    def ask(self) -> None:
        self.asked = self.now() if self.asked is None else self.asked

    def answered(self) -> None:
        self.asked = None

    def unanswered(self) -> float:
        """For how many seconds the broker has owed an answer."""
        asked = self.asked
        return 0.0 if asked is None else self.now() - asked

    def trouble(self) -> str | None:
        """Why a program that reads is not ready, in one sentence; None while all is well."""
        if self.unanswered() > self.settings.answer_seconds:
            return f"no broker has answered for {self.unanswered():.0f} s"
        if self.stuck:
            seconds = self.settings.watchdog_seconds
            return f"{_places(self.stuck)} lag and have stood still for {seconds:.0f} s or longer"
        return None

    def _lag(self) -> dict[Partition, int] | None:
        try:
            with self.asking():
                return self.consumer.lag(self.patience)
        except FingerprintError:
            return None

    def _tell_of_broker(self) -> None:
        away = self.unanswered() > self.settings.answer_seconds
        self.metrics.unanswered.set(self.unanswered())
        if away and not self.said_away:
            log.warning("no broker answers", extra={"fields": {"seconds": round(self.unanswered())}})
        if self.said_away and not away:
            log.info("a broker answers again")
        self.said_away = away

    def _tell_of_partitions(self, stuck: list[Partition]) -> None:
        self.metrics.stuck.set(len(stuck))
        if stuck != self.stuck:
            told = "partitions stand still" if stuck else "no partition stands still any more"
            log.warning(told, extra={"fields": {"partitions": [each.place for each in stuck]}})
        self.stuck = stuck


def _places(partitions: Sequence[Partition]) -> str:
    return ", ".join(each.place for each in partitions)
