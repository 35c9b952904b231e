"""Routing of polled messages of the events topic: rows by partition, arrival times, and the watermarks in headers.

Example:
    >>> for decoded in decode_messages(polled, settings):
    ...     arrival = arrival_times(polled, decoded, now=wall_clock_ms())
    ...     for partition, rows in group_by_partition(polled, decoded).items():
    ...         marks = read_watermarks(polled, decoded, rows, arrival)
    ...         low = tracker.advance(marks.sources, marks.codes, marks.watermarks, marks.arrival_times)

A message that `ingest` sent has its source and the source's watermark in its headers, a columnar message in its rows. A message
that another program keyed by principal has neither: its own partition is then its source, and its event time the watermark.
Headers and rows are trusted no more than records: their times are bounded by the arrival of the message and by the reader's
clock (`arrival`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import Longs
from fingerprint.core.ports.message_stream import Message, Partition
from fingerprint.sources import arrival
from fingerprint.sources.columnar import EventOrigins
from fingerprint.sources.decode import DecodedMessages
from fingerprint.sources.joined_lines import join_lines


class PartitionRows(NamedTuple):
    """One partition's share of decoded messages: indices of its messages (M,) and rows of its events (N,)."""

    messages: Longs
    events: NDArray[np.intp]


class ArrivalTimes(NamedTuple):
    """Arrival of the n events of decoded messages, bounded by the reader's clock `now` (ms).

    `at` (n,) is in ms. `is_future_dated` (n,) marks events that are dated after it by more than clocks may differ.
    """

    at: Longs
    is_future_dated: NDArray[np.bool_]
    now: int


class SourceWatermarks(NamedTuple):
    """M watermarks: of messages, or of each event of columnar messages.

    `codes` (M,) are places in `sources`; `watermarks` and `arrival_times` (M,) are in ms. `of_event` (N,) is the place, among the
    M, of the watermark that came with each event.
    """

    sources: list[str]
    codes: NDArray[np.intp]
    watermarks: Longs
    arrival_times: Longs
    of_event: NDArray[np.intp]


def group_by_partition(
    messages: Sequence[Message], decoded: DecodedMessages
) -> dict[Partition, PartitionRows]:
    """Return the share of each partition in decoded messages, in the order of the log."""
    codes: dict[tuple[str, int], int] = {}
    places = [(message.topic, message.partition) for message in messages[decoded.begin : decoded.end]]
    code_of = np.array([codes.setdefault(place, len(codes)) for place in places], np.intp)
    of_event = code_of[decoded.source - decoded.begin]
    return {
        Partition(*place): PartitionRows(
            np.flatnonzero(code_of == code) + decoded.begin, np.flatnonzero(of_event == code)
        )
        for place, code in codes.items()
    }


def read_watermarks(
    messages: Sequence[Message], decoded: DecodedMessages, rows: PartitionRows, message_arrivals: ArrivalTimes
) -> SourceWatermarks:
    """Return the watermarks of one partition's messages; 0 for a watermark or an event that is dated after its arrival."""
    if decoded.origins:
        return _event_watermarks(decoded.origins, rows, message_arrivals)
    own_messages = [messages[number] for number in rows.messages.tolist()]
    heads = [message.headers[:2] for message in own_messages]
    sources = [_read_source(head) for head in heads]
    codes, names = pd.factorize(pd.Series(sources, dtype=object))
    without_header = np.array([not source for source in sources], bool)
    arrived = arrival.arrival_times_ms(_timestamps(own_messages), message_arrivals.now)
    marks = np.where(
        without_header,
        _latest_event_times(decoded, rows, message_arrivals.is_future_dated),
        _read_watermark_headers(heads),
    )
    marks[arrival.future_dated_mask(marks, arrived)] = 0
    place = own_messages[0].source_partition.label if own_messages else ""
    of_event = np.searchsorted(rows.messages, decoded.source[rows.events])
    return SourceWatermarks([name or place for name in names], codes, marks, arrived, of_event)


def _event_watermarks(origins: EventOrigins, rows: PartitionRows, arrivals: ArrivalTimes) -> SourceWatermarks:
    """Return the watermarks of one partition's events in columnar messages, which have one in each row."""
    arrived = arrivals.at[rows.events]
    marks = origins.watermarks[rows.events]
    marks = np.where(arrival.future_dated_mask(marks, arrived), 0, marks)
    used, codes = np.unique(origins.source[rows.events], return_inverse=True)
    return SourceWatermarks(
        [origins.sources[each] for each in used.tolist()], codes, marks, arrived, np.arange(len(rows.events))
    )


def feed_of_source(watermarks: SourceWatermarks, partition: Partition) -> list[str]:
    """Return the feed of each of `watermarks.sources`: the source itself, or the topic for messages without a source.

    A partition of records that are keyed by principal is no feed.
    """
    own = partition.label
    return [partition.topic if name == own else name for name in watermarks.sources]


def arrival_times(messages: Sequence[Message], decoded: DecodedMessages, now: int) -> ArrivalTimes:
    """Return the arrival times of the messages behind decoded events, and the events that are future-dated.

    `now` is the reader's clock, ms.
    """
    at = arrival.arrival_times_ms(_timestamps(messages), now)[decoded.source]
    return ArrivalTimes(at, arrival.future_dated_mask(decoded.times_ms, at), now)


def raw_records(decoded: DecodedMessages) -> Any:
    """Return the records behind the events (N,), as AWS wrote them: bytes on the host, texts on a device."""
    if frames.is_host_frame(decoded.events):
        return np.array([*decoded.lines, None], dtype=object)[decoded.row]
    text, borders = join_lines([decoded.lines[each] for each in decoded.row.tolist()])
    to_device = frames.array_module_of(decoded.events).asarray
    written = to_device(np.frombuffer(text, np.uint8))
    return frames.text_from_buffers(
        written, to_device(borders.astype(np.int32)), frames.library_of(decoded.events).__name__
    )


def _timestamps(messages: Sequence[Message]) -> Longs:
    return np.array([message.timestamp for message in messages], np.int64)


def _read_source(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """Return the source of a message: `cloudtrail/3/17` -> `cloudtrail/3`; empty without one."""
    if not headers or headers[0][0] != "source":
        return ""
    return (headers[0][1] or b"").rpartition(b"/")[0].decode(errors="replace")


def _read_watermark_headers(headers: Sequence[Sequence[tuple[str, bytes | None]]]) -> Longs:
    """Return the watermark in each message's headers, ms; 0 without one."""
    texts = [(head[1][1] or b"") if len(head) > 1 and head[1][0] == "watermark" else b"" for head in headers]
    return np.array([int(text) if text.isdigit() and len(text) < 16 else 0 for text in texts], np.int64)


def _latest_event_times(
    decoded: DecodedMessages, rows: PartitionRows, is_future_dated: NDArray[np.bool_]
) -> Longs:
    """Return the latest event time in each message (M,), in ms, without future-dated events; 0 for none."""
    out = np.zeros(decoded.end - decoded.begin, np.int64)
    believed = rows.events[~is_future_dated[rows.events]]
    np.maximum.at(out, decoded.source[believed] - decoded.begin, decoded.times_ms[believed])
    return out[rows.messages - decoded.begin]
