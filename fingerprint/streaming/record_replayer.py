"""Record replayer: send records of files to a topic when they are due, and count them.

Example:
    >>> replayer = RecordReplayer("raw", producer, SystemClock(), ReplayRate(speed=60), patience=120)
    >>> for records in files.read_sources(["records/"], settings.reading):
    ...     replayer.send(records, settings, keyed=False)
    >>> producer.flush()
    >>> replayer.figures()["records"]
    96138
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.core.alert import Reject
from fingerprint.core.ports.clock import Clock
from fingerprint.core.ports.message_stream import Producer
from fingerprint.core.settings import Settings
from fingerprint.sources.base import RecordBatch
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.streaming.backpressure import RetryingProducer
from fingerprint.streaming.event_messages import OutgoingMessage
from fingerprint.streaming.replay_rate import ReplayRate

TICK_SECONDS = 0.05  # seconds: records due within one are sent together
MAX_REASONS = 1000  # rejects that are shown in full; further ones are only counted


class RecordReplayer:
    """Sends batches of records when they are due, and counts them.

    `patience` is the number of seconds for which the producer may be full.
    """

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
        """Send the records that are events, each when it is due; `keyed` ones have the principal as their key."""
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
        """Flush sent messages, and wait until the time `due`."""
        early = due - (self.clock.now() - self.started).total_seconds()
        if early > 0:
            self.producer.flush()
            self.clock.sleep(due - (self.clock.now() - self.started).total_seconds())

    def _count(self, rejects: list[Reject], skipped: int) -> None:
        self.rejected += sum(each.count for each in rejects)
        self.skipped += skipped
        self.rejects += rejects[: max(0, MAX_REASONS - len(self.rejects))]

    def figures(self) -> dict[str, Any]:
        """Return the figures of `replay --json`."""
        return {
            "topic": self.topic,
            "records": self.records,
            "bytes": self.bytes,
            "skipped": self.skipped,
            "rejects": self.rejected,
            "reasons": [str(each) for each in self.rejects],
            "seconds": round((self.clock.now() - self.started).total_seconds(), 3),
        }


def _partition_keys(events: pd.DataFrame, settings: Settings) -> list[bytes | None]:
    codes, principals = pd.factorize(add_entity_columns(events, settings.entities)["principal"])
    keys = [str(principal).encode() for principal in principals]
    return [keys[code] for code in codes.tolist()]


def _milliseconds(times: pd.Series) -> NDArray[np.int64]:
    return np.asarray(times.astype("datetime64[ms, UTC]").astype("int64"), np.int64)


def _group_by_tick(due: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return first and last + 1 of the records that are due within TICK_SECONDS of one another."""
    borders = np.flatnonzero(np.diff(np.floor(due / TICK_SECONDS))) + 1
    edges = [0, *borders.tolist(), len(due)]
    return [(begin, end) for begin, end in pairwise(edges) if end > begin]
