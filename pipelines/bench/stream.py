"""The rows of `fingerprint stream`, on a real broker: how fast, how late, and how two share the work.

Broker, producers and scorers are processes on the same cores. A rate counts from joining the group to the last message
that is dealt with; the bare consumer's counts the same, and does nothing with what it gets.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from fingerprint.core.settings import Settings
from fingerprint.registry import bank
from fingerprint.training import pipeline
from pipelines.bench import delay
from pipelines.bench.broker import Topics, broker, figures
from pipelines.bench.organisation import events_of, organisation
from pipelines.bench.report import Skipped, row

LEARNED, DAYS = 7, 11  # days of 100 principals who do twice as much as usual
ATTACKS = 40
RUNS = 2  # of which the faster one counts
AIM = 30_000.0  # events a second through one scorer

_until_the_end = ExitStack()


@contextmanager
def place() -> Iterator[None]:
    """What the rows start lives as long as this block."""
    with _until_the_end:
        yield


@cache
def _topics() -> tuple[Topics, list[str]]:
    """The stream of some days that follow what the bank has learned, on a broker; and those days' files."""
    keep = _until_the_end.enter_context
    folder = Path(keep(tempfile.TemporaryDirectory(prefix="fingerprint-bench-")))
    address = keep(broker(folder / "broker"))
    days = keep(organisation(100, DAYS, scale=2, attacks=ATTACKS))
    settings = Settings()
    bank.publish(pipeline.train(events_of(days[:LEARNED], settings), settings), folder / "bank")
    topics = Topics(address, "rates", folder / "bank", folder).create()
    figures(topics.send(days[LEARNED:]))
    return topics, days[LEARNED:]


@cache
def _no_broker() -> str:
    """Why there is none; empty if there is one."""
    try:
        _topics()
    except Skipped as reason:
        return str(reason)
    return ""


def _ready() -> tuple[Topics, list[str]]:
    if _no_broker():
        raise Skipped(_no_broker())
    return _topics()


@cache
def _rates(client: str) -> tuple[float, float]:
    """Events a second through one scorer, and through the client alone; in turns, the faster ones."""
    topics, _ = _ready()
    turns = [(_scored(topics, client, run), _consumed(topics, client, run)) for run in range(RUNS)]
    scored, consumed = np.max(turns, axis=0).tolist()
    return scored, consumed


def _scored(topics: Topics, client: str, run: int, scorers: int = 1) -> float:
    """Through scorers that start together: all messages by the time of the slowest."""
    group = f"{client}-{scorers}-{run}"
    started = [topics.score("--once", client=client, group=group) for _ in range(scorers)]
    done = [figures(each) for each in started]
    return float(_count() / max(each["seconds"] for each in done))


def _consumed(topics: Topics, client: str, run: int) -> float:
    start = time.monotonic()
    for _ in topics.read("events", client, f"bare-{client}-{run}"):
        last = time.monotonic()
    return _count() / (last - start)


@cache
def _count() -> int:
    topics, _ = _ready()
    return sum(len(messages) for messages in topics.read("events", "confluent", "count"))


@row("stream, topic to votes, kafka-python", "events/s", "the same client alone", 0.5)
def through_kafka_python() -> tuple[float, float]:
    """One scorer, the default client."""
    scored, consumed = _rates("kafka-python")
    return scored, scored / consumed


@row("stream, topic to votes, confluent", "events/s", "the same client alone", 0.5)
def through_confluent() -> tuple[float, float]:
    """One scorer, the other client."""
    scored, consumed = _rates("confluent")
    return scored, scored / consumed


@row("stream, the faster of the two", "events/s", f"{AIM:,.0f} events/s", 1)
def through_one() -> tuple[float, float]:
    """One scorer against what is aimed at."""
    scored = max(_rates(client)[0] for client in ("kafka-python", "confluent"))
    return scored, scored / AIM


@row("stream, two scorers on these cores", "events/s", "one scorer", None)
def through_two() -> tuple[float, float]:
    """Two members of one group, started together."""
    topics, _ = _ready()
    scored = max(_scored(topics, "kafka-python", run, scorers=2) for run in range(RUNS))
    return scored, scored / _rates("kafka-python")[0]


@cache
def _delays() -> delay.Delays:
    topics, files = _ready()
    return delay.measure(topics, files, _rates("kafka-python")[0] / 2)


@row("stream, produced to alert told, median at half the rate", "ms", "its 99th percentile", None)
def usual_delay() -> tuple[float, float]:
    """See `bench_delay`."""
    return _delays().median * 1000, _delays().median / _delays().most


@row("stream, produced to alert told, 99th percentile", "ms", "2 seconds", 1, at_most=True)
def long_delay() -> tuple[float, float]:
    """See `bench_delay`."""
    return _delays().most * 1000, _delays().most / 2
