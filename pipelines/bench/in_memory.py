"""`fingerprint stream` in this process with a broker in memory, so without a client and a network.

Example:
    >>> with MemoryStream.opened(folder) as stream:          # the bank lies in folder / "bank"
    ...     stream.process(lines, datetime(2026, 1, 5, 13, tzinfo=UTC))
    ...     stream.service.metrics.figures()["events"]

All the rest is the same: decoding, scoring, an alert store in SQLite, checkpoints in files. The topic has one partition, the
caller sets the clock, and messages that were read are dropped from the broker.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.adapters.files import read_sources
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.settings import Settings
from fingerprint.estimators import spectral
from fingerprint.state.activity_series import ActivitySeries
from fingerprint.store import open_store
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.publisher import StreamAdapters
from fingerprint.streaming.stream_service import StreamService
from pipelines.bench.broker import import_test_support
from pipelines.bench.organisations import organisation_files, publish_bank
from pipelines.bench.report import benchmark
from pipelines.runtime import wiring

# Principals at their usual pace (a faster one has fewer series for each event); days learned; days in all.
PRINCIPALS, LEARNED, DAYS = 100, 7, 10
MAX_FORECAST_SHARE = 0.02  # aim for the forecasts' share of a stream's CPU


class MovableClock:
    """A clock that shows the time that was set. It implements `ports.clock.Clock`."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time that was set."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """Move on, without waiting."""
        self.at += timedelta(seconds=seconds)


class MemoryStream:
    """A stream service with its broker; used by one thread."""

    def __init__(self, service: StreamService, broker: Any, clock: MovableClock) -> None:
        self.service, self.broker, self.clock = service, broker, clock
        self.partition = Partition(service.settings.kafka.events_topic, 0)
        service.consumer.subscribe([self.partition.topic], service.assigned, service.revoked)

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[MemoryStream]:
        """Yield a stream for a folder with a `bank`; the store and the checkpoints are written beside it."""
        broker = import_test_support("memory_broker").MemoryBroker()
        settings = Settings.model_validate(
            {
                "kafka": import_test_support("memory_clients").on(broker),
                "database": {"url": f"sqlite:///{folder}/alerts.sqlite"},
                "checkpoints": {"url": str(folder / "checkpoints")},
            }
        )
        for topic in _topics(settings):
            broker.create_topic(topic)
        with ExitStack() as keep:
            consumer = keep.enter_context(wiring.open_consumer(settings.kafka, "bench"))
            producer = keep.enter_context(wiring.open_producer(settings.kafka))
            store = open_store(settings.database.url)
            keep.callback(store.close)
            clock = MovableClock()
            # No grace: it counts by the machine's clock, by which a simulated week of checkpoints is minutes old.
            checkpoints = FileCheckpointStore(settings.checkpoints, grace_seconds=0.0)
            adapters = StreamAdapters(consumer, producer, store, checkpoints, clock)
            banks = wiring.bank_watcher(folder / "bank", settings)
            metrics = StreamMetrics(CollectorRegistry())
            yield cls(StreamService(banks, adapters, settings, metrics, "bench:1"), broker, clock)

    def process(self, lines: Sequence[bytes], now: datetime) -> None:
        """Send records at the time `now`, score them in polls of the default size, and commit."""
        self.clock.at = now
        for line in lines:
            self.broker.append(self.partition, line, None, (), int(now.timestamp() * 1000))
        end = self.broker.end_offsets([self.partition])[self.partition]
        while self.partition not in self.service.owned or self.service.owned[self.partition].offset < end:
            self.service.run_once(0.0)
        self.service.commit()
        self._drop_messages()

    def _drop_messages(self) -> None:
        """Drop all messages of the topics, which a real broker keeps on the disk of another machine."""
        for topic in _topics(self.service.settings):
            place = Partition(topic, 0)
            self.broker.delete_records(place, self.broker.end_offsets([place])[place])


def _topics(settings: Settings) -> tuple[str, ...]:
    kafka = settings.kafka
    dead_letters = f"{kafka.events_topic}.dlq"
    return kafka.events_topic, dead_letters, kafka.alerts_topic, kafka.votes_topic, kafka.feed_gaps_topic


# --- shares of the CPU ----------------------------------------------------------------------------------------------------


class CpuShare:
    """CPU seconds of some functions, and of the whole block; a function that another of them calls counts once.

    Example:
        >>> with CpuShare((spectral, "forecast")) as cpu:
        ...     stream.process(lines, now)
        >>> cpu.inside / cpu.total
        0.004
    """

    def __init__(self, *functions: tuple[Any, str]) -> None:
        """`functions`: modules or classes, each with the name of a function in it."""
        self.functions, self.inside, self.total, self._depth = functions, 0.0, 0.0, 0

    def __enter__(self) -> CpuShare:
        self._before = [getattr(owner, name) for owner, name in self.functions]
        for (owner, name), function in zip(self.functions, self._before, strict=True):
            setattr(owner, name, self._timed(function))
        self._start = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.total = time.process_time() - self._start
        for (owner, name), function in zip(self.functions, self._before, strict=True):
            setattr(owner, name, function)

    def _timed(self, function: Any) -> Any:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.process_time()
            self._depth += 1
            try:
                return function(*arguments, **named)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.inside += time.process_time() - start

        return timed


class StreamCpu:
    """The number of events of a stream in memory, and its CPU."""

    def __init__(self, events: int, cpu: CpuShare) -> None:
        self.events, self.cpu = events, cpu


@cache
def _stream_cpu() -> StreamCpu:
    """Learn some days and stream those that follow, a day sent at once."""
    settings = Settings()
    with (
        tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as name,
        organisation_files(PRINCIPALS, DAYS) as days,
    ):
        folder = Path(name)
        publish_bank(days[:LEARNED], folder / "bank")
        later = [(_next_day_end(file), _lines(file, settings)) for file in days[LEARNED:]]
        with MemoryStream.opened(folder) as stream:
            with CpuShare((ActivitySeries, "_forecast"), (spectral, "forecast")) as cpu:
                for end, lines in later:
                    stream.process(lines, end)
            return StreamCpu(int(stream.service.metrics.figures()["events"]), cpu)


def _next_day_end(file: str) -> datetime:
    """Return the end of the day after that of a simulated file `2026-01-05.jsonl.gz`, into which its records may reach."""
    return datetime.fromisoformat(Path(file).name[:10]).replace(tzinfo=UTC) + timedelta(days=2)


def _lines(file: str, settings: Settings) -> list[bytes]:
    return [line for records in read_sources([file], settings.reading) for line in records.lines]


@benchmark("stream in memory, without a client, a core second", "events/core s", "no other", None)
def memory_stream_pace() -> tuple[float, float]:
    """Count a stream's CPU from messages to the store, once it has started."""
    done = _stream_cpu()
    return done.events / done.cpu.total, 1.0


@benchmark(
    "stream in memory, CPU of its spectral forecasts", "ms", "2 % of the stream's CPU", 1, at_most=True
)
def forecast_share() -> tuple[float, float]:
    """Time what makes forecasts, of activity and of feeds: the windows of counts, their transforms and spreads."""
    cpu = _stream_cpu().cpu
    return 1000 * cpu.inside, cpu.inside / cpu.total / MAX_FORECAST_SHARE
