"""Files, folders and S3 -> topic, at a chosen rate: for demonstrations, backtests and backfills."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.system import SystemClock
from fingerprint.core.alert import Reject
from fingerprint.core.ports import Clock, Producer
from fingerprint.core.settings import Settings
from fingerprint.sources.base import RecordBatch
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.streaming.backpressure import RetryingProducer
from fingerprint.streaming.event_messages import OutgoingMessage
from fingerprint.streaming.replay_rate import ReplayRate
from pipelines.cli.console import Progress
from pipelines.runtime import wiring

TICK_SECONDS = 0.05  # seconds: records due within one are sent together
MAX_REASONS = 1000


def run_replay(
    sources: list[str],
    topic: str | None,
    settings: Settings,
    progress: Progress,
    rate: float | None = None,
    speed: float | None = None,
    keyed: bool = False,
) -> dict[str, Any]:
    """Run `fingerprint replay` and return its figures."""
    pace = ReplayRate(rate, speed)
    files.find_files(sources)  # says what is missing before a broker is asked
    with wiring.producing(settings.kafka) as producer:
        return replay_records(
            sources,
            topic or settings.kafka.raw_topic,
            producer,
            settings,
            SystemClock(),
            progress,
            pace,
            keyed,
        )


def replay_records(
    sources: list[str],
    topic: str,
    producer: Producer,
    settings: Settings,
    clock: Clock,
    progress: Progress,
    pace: ReplayRate,
    keyed: bool = False,
) -> dict[str, Any]:
    """Send the records of `sources` to `topic` in the order of the files; return the figures of `replay --json`.

    `keyed` messages have the principal as their key, so the scorer can read the topic directly. Unreadable records are counted.
    """
    of = files.total_size(files.find_files(sources))
    replaying = _RecordReplayer(topic, producer, clock, pace, settings.kafka.delivery_timeout_seconds)
    read = 0

    def stored(count: int) -> None:
        nonlocal read
        read += count
        progress("replaying bytes", read, of)

    for records in files.read_sources(sources, settings.reading, stored):
        replaying.send(records, settings, keyed)
    producer.flush()
    return replaying.figures()


class _RecordReplayer:
    """Sender of batches of records when they are due, with counters."""

    def __init__(
        self, topic: str, producer: Producer, clock: Clock, pace: ReplayRate, patience: float
    ) -> None:
        self.sender = RetryingProducer(producer, patience)
        self.topic, self.producer, self.clock, self.pace = topic, producer, clock, pace
        self.started = clock.now()
        self.records = self.bytes = self.skipped = 0
        self.rejects: list[Reject] = []
        self.rejected = 0

    def send(self, records: RecordBatch, settings: Settings, keyed: bool) -> None:
        flat = flatten(records)
        self._count(flat.rejects, flat.skipped)
        rows = flat.events["row"].tolist()
        keys = _partition_keys(flat.events, settings) if keyed else [None] * len(rows)
        due = self.pace.due_seconds(_milliseconds(flat.events["event_time"]))
        for begin, end in _group_by_tick(due):
            self._wait_until_due(due[begin])
            for number in range(begin, end):
                self.sender.send(self.topic, OutgoingMessage(records.lines[rows[number]], keys[number], ()))
            self.bytes += sum(len(records.lines[row]) for row in rows[begin:end])
        self.records += len(rows)

    def _wait_until_due(self, due: float) -> None:
        """Flush what was sent, and wait."""
        early = due - (self.clock.now() - self.started).total_seconds()
        if early > 0:
            self.producer.flush()
            self.clock.sleep(due - (self.clock.now() - self.started).total_seconds())

    def _count(self, rejects: list[Reject], skipped: int) -> None:
        self.rejected += sum(each.count for each in rejects)
        self.skipped += skipped
        self.rejects += rejects[: max(0, MAX_REASONS - len(self.rejects))]

    def figures(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "records": self.records,
            "bytes": self.bytes,
            "skipped": self.skipped,
            "rejects": self.rejected,
            "reasons": [f"{each.source} {each.position}: {each.reason}" for each in self.rejects],
            "seconds": round((self.clock.now() - self.started).total_seconds(), 3),
        }


def _partition_keys(events: pd.DataFrame, settings: Settings) -> list[bytes | None]:
    codes, principals = pd.factorize(add_entity_columns(events, settings.entities)["principal"])
    keys = [str(principal).encode() for principal in principals]
    return [keys[code] for code in codes.tolist()]


def _milliseconds(times: pd.Series) -> np.ndarray:
    return times.astype("datetime64[ms, UTC]").astype(np.int64).to_numpy()


def _group_by_tick(due: np.ndarray) -> list[tuple[int, int]]:
    """Return first and last + 1 of the records that are due within TICK_SECONDS of one another."""
    borders = np.flatnonzero(np.diff(np.floor(due / TICK_SECONDS))) + 1
    edges = [0, *borders.tolist(), len(due)]
    return [(begin, end) for begin, end in pairwise(edges) if end > begin]
