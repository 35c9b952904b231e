"""The rows of `fingerprint ingest` and `stream` on a real broker: rates, delays, and two scorers that share the work.

Broker, producers and scorers are processes on the same cores. A rate counts from joining the group to the last processed message.
The rate of the bare consumer counts the same, but it does nothing with the messages.

A delay is the time from the production of an event to the publication of its alert. A paced producer sends a stream with attacks,
and `fingerprint stream` scores it, both as processes of their own. For each publication of an alert, the delay is the broker's
time of the alert minus the producer's time of the newest event in it that was not published before. A publication without new
events is not counted. The event that opened an alert may not be in it (one that only adds to the count of an interval is in no
alert). Then the delay is measured from an earlier event, which can only make it longer. Both times are those of the messages, by
one clock.
"""

from __future__ import annotations

import json
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fingerprint.adapters.system import SystemClock
from fingerprint.core.ports.message_stream import Message
from pipelines.bench.broker import (
    BenchmarkStream,
    free_port,
    process_figures,
    running_broker,
    scored_events,
    wait_until_ready,
)
from pipelines.bench.organisations import organisation_files, publish_bank
from pipelines.bench.report import Skipped, benchmark

LEARNED, DAYS = 7, 11  # days of 100 principals who do twice as much as usual
ATTACKS = 40
RUNS = 2  # the faster one counts
TARGET_EVENTS_PER_SECOND = 30_000.0  # events a second through one scorer
TARGET_EVENTS_PER_CORE_SECOND = 25_000.0  # plain JSON, in polls of the default size
TARGET_COLUMNAR_PER_SECOND = 40_000.0  # events a second by the clock, in columnar messages of `ingest`
TARGET_COLUMNAR_PER_CORE_SECOND = 50_000.0
RAW_RATE = 10_000.0  # records a second into the raw topic, for delays through `ingest`
TARGET_RAW_DELAY_SECONDS = 1.5  # 99th percentile
TARGET_INGESTED_PER_CORE_SECOND = 60_000.0  # records, one a message
IDLE_SECONDS = 3.0  # time after the last record in which the last alerts are published

_exit_stack = ExitStack()
_EVENT_ID = re.compile(rb'"eventID":\s*"([^"]*)"')


# --- delays -------------------------------------------------------------------------------------------------------


class Delays(NamedTuple):
    """Delays in seconds; `alerts` is the number of publications."""

    median: float
    p99: float  # the 99th percentile
    alerts: int


def measure_delays(topics: BenchmarkStream, files: list[str], rate: float, raw: bool = False) -> Delays:
    """Send the records of files to a ready scorer, `rate` a second; with `raw` one a message, through `ingest`."""
    name = "raw-delays" if raw else "delays"
    stream = BenchmarkStream(topics.address, name, topics.bank, topics.folder).create()
    ports = [free_port(), free_port()]
    programs = [stream.score(client="confluent" if raw else "kafka-python", group=name, port=ports[0])]
    if raw:
        programs.append(stream.start("ingest", client="confluent", group=f"{name}-ingest", port=ports[1]))
    for port, program in zip(ports, programs, strict=False):
        wait_until_ready(port, program)
    process_figures(stream.send_raw(files, rate) if raw else stream.send(files, rate))
    SystemClock().sleep(IDLE_SECONDS)
    for program in reversed(programs):
        program.send_signal(signal.SIGTERM)
        process_figures(program)
    produced: dict[str, int] = {}
    for messages in stream.read("raw" if raw else "events", "confluent", "produced"):
        for message in messages:
            if found := _EVENT_ID.search(message.value or b""):
                produced.setdefault(found[1].decode(), message.timestamp)  # a repeat makes nothing
    alerts = [message for messages in stream.read("alerts", "confluent", "published") for message in messages]
    seconds = alert_delays(alerts, produced)
    return Delays(float(np.median(seconds)), float(np.quantile(seconds, 0.99)), len(seconds))


def alert_delays(alert_messages: list[Message], produced: dict[str, int]) -> list[float]:
    """Return the delay in seconds of each publication with new events.

    `alert_messages` are in the order of the topic; `produced` has the time of production in ms, by event id.
    """
    before: dict[str, set[str]] = {}
    out = []
    for message in alert_messages:
        alert = json.loads(message.value or b"")
        known = before.setdefault(alert["alert_id"], set())
        news = {event["event_id"] for event in alert["events"]} - known
        known |= news
        if news:
            out.append((message.timestamp - max(produced[each] for each in news)) / 1000)
    return out


class Rates(NamedTuple):
    """Events a second and events a core second through one scorer, and events a second through the client alone."""

    scored: float
    scored_per_core: float
    consumed: float


# --- rates --------------------------------------------------------------------------------------------------------


@contextmanager
def stream_benchmark_scope() -> Iterator[None]:
    """Keep the broker and the topics of the rows alive while the block runs."""
    with _exit_stack:
        yield


@cache
def _stream_topics() -> tuple[BenchmarkStream, list[str]]:
    """Return a stream on a broker with the days after those that the bank learned, and the files of these days."""
    keep = _exit_stack.enter_context
    folder = Path(keep(tempfile.TemporaryDirectory(prefix="fingerprint-bench-")))
    address = keep(running_broker(folder / "broker"))
    days = keep(organisation_files(100, DAYS, scale=2, attacks=ATTACKS))
    publish_bank(days[:LEARNED], folder / "bank")
    topics = BenchmarkStream(address, "rates", folder / "bank", folder).create()
    process_figures(topics.send(days[LEARNED:]))
    return topics, days[LEARNED:]


@cache
def _broker_unavailable_reason() -> str:
    """Return why there is no broker; empty if there is one."""
    try:
        _stream_topics()
    except Skipped as reason:
        return str(reason)
    return ""


def _require_topics() -> tuple[BenchmarkStream, list[str]]:
    if _broker_unavailable_reason():
        raise Skipped(_broker_unavailable_reason())
    return _stream_topics()


@cache
def _measure_rates(client: str) -> Rates:
    """Return the rates of one client; scoring and bare reading take turns, and the fastest runs count."""
    topics, _ = _require_topics()
    turns = [
        (*_scoring_rates(topics, client, run), _consumption_rate(topics, client, run)) for run in range(RUNS)
    ]
    return Rates(*np.max(turns, axis=0).tolist())


def _scoring_rates(topics: BenchmarkStream, client: str, run: int, scorers: int = 1) -> tuple[float, float]:
    """Return events a second and a core second through scorers that start together; the time is that of the slowest."""
    group = f"{client}-{scorers}-{run}"
    started = [topics.score("--once", client=client, group=group) for _ in range(scorers)]
    done = [process_figures(each) for each in started]
    seconds, core_seconds = max(each["seconds"] for each in done), sum(each["cpu_seconds"] for each in done)
    return _message_count() / seconds, _message_count() / core_seconds


def _consumption_rate(topics: BenchmarkStream, client: str, run: int) -> float:
    start = time.monotonic()
    for _ in topics.read("events", client, f"bare-{client}-{run}"):
        last = time.monotonic()
    return _message_count() / (last - start)


@cache
def _message_count() -> int:
    topics, _ = _require_topics()
    return sum(len(messages) for messages in topics.read("events", "confluent", "count"))


@benchmark("stream, topic to votes, kafka-python", "events/s", "the same client alone", 0.5)
def kafka_python_pace() -> tuple[float, float]:
    """Run one scorer with the default client."""
    rates = _measure_rates("kafka-python")
    return rates.scored, rates.scored / rates.consumed


@benchmark("stream, topic to votes, confluent", "events/s", "the same client alone", 0.5)
def confluent_pace() -> tuple[float, float]:
    """Run one scorer with the other client."""
    rates = _measure_rates("confluent")
    return rates.scored, rates.scored / rates.consumed


@benchmark("stream, the faster of the two", "events/s", f"{TARGET_EVENTS_PER_SECOND:,.0f} events/s", 1)
def one_scorer_pace() -> tuple[float, float]:
    """Compare one scorer with the target."""
    scored = max(_measure_rates(client).scored for client in ("kafka-python", "confluent"))
    return scored, scored / TARGET_EVENTS_PER_SECOND


@benchmark(
    "stream, topic to votes, a core second of the scorer, its start included",
    "events/core s",
    f"{TARGET_EVENTS_PER_CORE_SECOND:,.0f} events/core s",
    1,
)
def one_core_pace() -> tuple[float, float]:
    """Count the CPU of the scorer itself, without broker and producer."""
    scored = max(_measure_rates(client).scored_per_core for client in ("kafka-python", "confluent"))
    return scored, scored / TARGET_EVENTS_PER_CORE_SECOND


@benchmark(
    "stream, CPU of a scorer of 16 partitions, its start included",
    "s",
    "the same messages in 4 partitions",
    2,
    at_most=True,
)
def many_partitions_cost() -> tuple[float, float]:
    """Score the same messages from topics of 16 and of 4 partitions, in polls of the default size."""
    many, few = _scoring_cpu(16), _scoring_cpu(4)
    return many, many / few


@benchmark(
    "stream, CPU of a scorer of one partition, its start included",
    "s",
    "the same messages in 4 partitions",
    None,
)
def one_partition_cost() -> tuple[float, float]:
    """Score the same messages from topics of one and of 4 partitions, in polls of the default size."""
    one, few = _scoring_cpu(1), _scoring_cpu(4)
    return one, one / few


@cache
def _scoring_cpu(partitions: int) -> float:
    """Return the CPU seconds of one scorer on a topic of `partitions` partitions, the least of RUNS."""
    base, files = _require_topics()
    name = f"over-{partitions}"
    topics = BenchmarkStream(base.address, name, base.bank, base.folder, partitions).create()
    process_figures(topics.send(files))
    groups = [f"{name}-{run}" for run in range(RUNS)]
    return min(
        float(process_figures(topics.score("--once", client="confluent", group=group))["cpu_seconds"])
        for group in groups
    )


class IngestRates(NamedTuple):
    """Records a core second of `ingest`, with its start and without it."""

    with_start: float
    once_started: float


@cache
def _ingest_rates() -> IngestRates:
    """Return the rates of `ingest` on a raw topic, one record a message: the best of runs with either client, without the broker.

    The cost of its start is the least of runs with the same client on an empty topic.
    """
    base, files = _require_topics()
    raw = BenchmarkStream(base.address, "ingested", base.bank, base.folder).create()
    empty = BenchmarkStream(base.address, "nothing-to-ingest", base.bank, base.folder).create()
    process_figures(raw.send_raw(files))
    best = []
    for client in ("kafka-python", "confluent"):
        starts, done = (
            [process_figures(each.ingest(client, f"{client}-{run}")) for run in range(RUNS)]
            for each in (empty, raw)
        )
        start = min(each["cpu_seconds"] for each in starts)
        fastest = min(done, key=lambda each: each["cpu_seconds"] / each["records"])
        seconds = fastest["cpu_seconds"]
        best.append([fastest["records"] / each for each in (seconds, seconds - start)])
    return IngestRates(*np.max(best, axis=0).tolist())


@benchmark(
    "ingest, raw topic to events topic, a core second, its start included",
    "records/core s",
    f"{TARGET_INGESTED_PER_CORE_SECOND:,.0f} records/core s",
    None,
)
def ingest_pace() -> tuple[float, float]:
    """Count the CPU of a program that reads one topic to its end."""
    pace = _ingest_rates().with_start
    return pace, pace / TARGET_INGESTED_PER_CORE_SECOND


@benchmark(
    "ingest, raw topic to events topic, a core second once it has started",
    "records/core s",
    f"{TARGET_INGESTED_PER_CORE_SECOND:,.0f} records/core s",
    1,
)
def started_ingest_pace() -> tuple[float, float]:
    """Count the CPU of `ingest` without its start, which a service has only once."""
    pace = _ingest_rates().once_started
    return pace, pace / TARGET_INGESTED_PER_CORE_SECOND


class ColumnarRates(NamedTuple):
    """Events of columnar messages through one scorer: a second, a core second, and a core second without its start.

    `records_per_started_core`: events a core second without its start, for the same records one a message.
    """

    scored: float
    scored_per_core: float
    scored_per_started_core: float
    records_per_started_core: float


@cache
def _columnar_rates() -> ColumnarRates:
    """Return the best of a scorer's runs with either client; the cost of its start is that of a run on an empty topic.

    The raw topic has one partition: with several, the one whose event time ends first would hold back the last events.
    """
    base, files = _require_topics()
    topics = BenchmarkStream(base.address, "columns", base.bank, base.folder, raw_partitions=1).create()
    empty = BenchmarkStream(base.address, "nothing", base.bank, base.folder).create()
    topics.send_ingested(files)
    turns = []
    for run, client in enumerate(("kafka-python", "confluent") * RUNS):
        start, one_by_one, done = (
            process_figures(each.score("--once", client=client, group=f"columns-{each.name}-{run}"))
            for each in (empty, base, topics)
        )
        scored, cpu = scored_events(done), start["cpu_seconds"]
        seconds = (
            done["seconds"],
            done["cpu_seconds"],
            done["cpu_seconds"] - cpu,
            one_by_one["cpu_seconds"] - cpu,
        )
        turns.append([scored / each for each in seconds])
    return ColumnarRates(*np.max(turns, axis=0).tolist())


@benchmark(
    "stream, from ingest's columns to votes", "events/s", f"{TARGET_COLUMNAR_PER_SECOND:,.0f} events/s", 1
)
def columnar_pace() -> tuple[float, float]:
    """Compare one scorer of columnar messages with the target, by the clock."""
    scored = _columnar_rates().scored
    return scored, scored / TARGET_COLUMNAR_PER_SECOND


@benchmark(
    "stream, from ingest's columns to votes, a core second of the scorer, its start included",
    "events/core s",
    f"{TARGET_COLUMNAR_PER_CORE_SECOND:,.0f} events/core s",
    None,
)
def columnar_core_pace() -> tuple[float, float]:
    """Count the CPU of a scorer of columnar messages."""
    scored = _columnar_rates().scored_per_core
    return scored, scored / TARGET_COLUMNAR_PER_CORE_SECOND


@benchmark(
    "stream, from ingest's columns to votes, a core second of the scorer once it has started",
    "events/core s",
    f"{TARGET_COLUMNAR_PER_CORE_SECOND:,.0f} events/core s",
    1,
)
def started_columnar_core_pace() -> tuple[float, float]:
    """Count the CPU of the scorer without its start, which a service has only once."""
    scored = _columnar_rates().scored_per_started_core
    return scored, scored / TARGET_COLUMNAR_PER_CORE_SECOND


@benchmark(
    "stream, a core second of a scorer of ingest's columns once it has started",
    "events/core s",
    "the same records one a message",
    None,
)
def columns_against_records() -> tuple[float, float]:
    """Compare columnar messages with single records, for a scorer."""
    rates = _columnar_rates()
    return rates.scored_per_started_core, rates.scored_per_started_core / rates.records_per_started_core


@benchmark("stream, a core second of two scorers, their starts included", "events/core s", "one scorer", None)
def two_scorers_pace() -> tuple[float, float]:
    """Count the CPU of two scorers of one group that start together; two cores are too few to compare their time by the clock."""
    topics, _ = _require_topics()
    scored = max(_scoring_rates(topics, "kafka-python", run, scorers=2)[1] for run in range(RUNS))
    return scored, scored / _measure_rates("kafka-python").scored_per_core


@cache
def _measured_delays() -> Delays:
    topics, files = _require_topics()
    return measure_delays(topics, files, _measure_rates("kafka-python").scored / 2)


@benchmark("stream, produced to alert published, median at half the rate", "ms", "its 99th percentile", None)
def median_delay() -> tuple[float, float]:
    """Take the median of `measure_delays`."""
    return _measured_delays().median * 1000, _measured_delays().median / _measured_delays().p99


@benchmark("stream, produced to alert published, 99th percentile", "ms", "2 seconds", 1, at_most=True)
def p99_delay() -> tuple[float, float]:
    """Take the 99th percentile of `measure_delays`."""
    return _measured_delays().p99 * 1000, _measured_delays().p99 / 2


@cache
def _raw_delays() -> Delays:
    topics, files = _require_topics()
    return measure_delays(topics, files, RAW_RATE, raw=True)


@benchmark(
    "raw topic to alert published, at 10,000 records/s, publications counted", "alerts", "no other", None
)
def raw_publications() -> tuple[float, float]:
    """Count the publications from which the delays through `ingest` are measured."""
    return _raw_delays().alerts, 1.0


@benchmark(
    "raw topic to alert published, at 10,000 records/s, 99th percentile",
    "ms",
    f"{TARGET_RAW_DELAY_SECONDS} seconds",
    1,
    at_most=True,
)
def raw_p99_delay() -> tuple[float, float]:
    """Take the 99th percentile of the delays through `ingest`."""
    return _raw_delays().p99 * 1000, _raw_delays().p99 / TARGET_RAW_DELAY_SECONDS
