"""Delivery of records: minutes late, out of order, some of them twice, and the last of a day in the next day's file.

Measured on public data sets: records are 0 to 10 minutes late, median 3.2, 99 % within 9.0; in the order of delivery, 61 to 90
% are older than a record before them; repeats are equal byte for byte, up to 1,200 lines apart, in another file.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.simulation.api_calls import CallerSession, Calls
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.record_writer import render_records, to_uuids

MAX_DELAY_SECONDS = 600.0  # seconds
DUPLICATE_SHARE = 0.02  # share of records that come twice
FILE_SECONDS = 30  # seconds of calls in one delivery file; four files are filled in turn
CHUNK_RECORDS = 20_000  # records rendered at a time

Arrival = tuple[float, str]  # seconds since the day's midnight, JSON line


@dataclass
class LogDelivery:
    """Turns days of calls into lines in the order of arrival; lines that arrive after midnight wait for the next day."""

    organisation: Organisation
    ends_at_midnight: bool = False  # nothing happens after the midnight that ends the last day
    pending: list[Arrival] = field(default_factory=list)
    duplicates: int = 0

    def end_of_activity(self, day: int) -> float:
        """Return the end of all activity, in seconds since the midnight of `day`; infinity if there is none."""
        return DAY_SECONDS * (self.organisation.days - day) if self.ends_at_midnight else math.inf

    def deliver_day(
        self, day: int, calls: Calls, sessions: Sequence[CallerSession]
    ) -> tuple[list[str], Iterator[str]]:
        """Return the rows' event ids, and the lines of this day's file. The last day's file has all remaining lines."""
        rng = np.random.default_rng((self.organisation.seed, 9, day))
        raw = np.frombuffer(rng.bytes(32 * len(calls)), np.uint8).reshape(-1, 32)
        rows, arrival = _arrivals(calls, rng)
        happens = calls.time < self.end_of_activity(day)
        rows, arrival = rows[happens[rows]], arrival[happens[rows]]
        self.duplicates += len(rows) - int(happens.sum())
        last = day == self.organisation.days - 1
        today = len(rows) if last else int(np.searchsorted(arrival, DAY_SECONDS))
        midnight = np.datetime64(self.organisation.date(day).isoformat(), "s")
        stream = _DayRecords(self.organisation, calls, sessions, raw, midnight)
        waited = self.pending
        self.pending = [(at - DAY_SECONDS, line) for at, line in stream.render(rows[today:], arrival[today:])]
        merged = heapq.merge(
            waited, stream.render(rows[:today], arrival[:today]), key=lambda arrived: arrived[0]
        )
        return to_uuids(raw[:, :16]), (line for _, line in merged)


@dataclass
class _DayRecords:
    organisation: Organisation
    calls: Calls
    sessions: Sequence[CallerSession]
    raw: NDArray[np.uint8]  # (rows, 32): event id, request id
    midnight: np.datetime64

    def render(self, rows: NDArray[np.intp], arrival: NDArray[np.float64]) -> Iterator[Arrival]:
        forms = self.organisation.library.templates
        for first in range(0, len(rows), CHUNK_RECORDS):
            some = rows[first : first + CHUNK_RECORDS]
            event, request = to_uuids(self.raw[some, :16]), to_uuids(self.raw[some, 16:])
            written = render_records(
                self.calls.take(some), self.sessions, forms, self.midnight, event, request
            )
            yield from zip(arrival[first : first + CHUNK_RECORDS].tolist(), written, strict=True)


def _arrivals(calls: Calls, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return row numbers in the order of arrival, repeats included, and the time of each arrival."""
    arrival = calls.time + delivery_delays(calls, rng)
    again = np.flatnonzero(rng.random(len(calls)) < DUPLICATE_SHARE)
    later = arrival[again] + rng.exponential(np.where(rng.random(len(again)) < 0.9, 120.0, 2400.0))
    rows = np.concatenate([np.arange(len(calls)), again])
    arrival = np.concatenate([arrival, later])
    order = np.argsort(arrival, kind="stable")
    return rows[order], arrival[order]


def delivery_delays(calls: Calls, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return seconds from call to arrival: beta(1.55, 2.95) of ten minutes, the same for all calls of one delivery file."""
    table = MAX_DELAY_SECONDS * rng.beta(1.55, 2.95, (4, 4 * DAY_SECONDS // FILE_SECONDS))
    batch = np.minimum(calls.time / FILE_SECONDS, table.shape[1] - 1).astype(np.intp)
    late: NDArray[np.float64] = table[calls.form & 3, batch]
    return late
