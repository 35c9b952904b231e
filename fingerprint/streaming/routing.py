"""What arrived in the events topic: events, and what their messages say of how far time has come.

Example:
    >>> for piece in messages.read(polled, settings):
    ...     came = arrivals(polled, piece, seconds=900, now=wall_clock())
    ...     for home, rows in by_partition(polled, piece).items():
    ...         word = said(polled, piece, rows, came)
    ...         low = keeper.sources.come(word.names, word.codes, word.marks, word.arrived)

A message that `ingest` sent names its source and the source's watermark in its headers. One that somebody else keyed by
principal has no such headers: then its own partition is its source, and its event time the mark. What a header says is no
more believed than what a record says: both are bounded by the arrival of the message and by the reader's clock (`arrival`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.core.ports import Message, Partition
from fingerprint.sources import arrival
from fingerprint.sources.base import join_lines
from fingerprint.sources.decode import DecodedMessages

Longs = NDArray[np.int64]


class PartitionRows(NamedTuple):
    """The share of a piece that one partition has: numbers of its messages (M,) and rows of its events (N,)."""

    messages: Longs
    events: NDArray[np.intp]


class ArrivalTimes(NamedTuple):
    """When the messages of a piece arrived, as far as that is believed at `now` (ms): of each of its n events, `at` (n,) ms, and
    whether the event is dated more than `seconds` past it, `future` (n,)."""

    at: Longs
    is_future_dated: NDArray[np.bool_]
    tolerance_seconds: int
    now: int


class SourceWatermarks(NamedTuple):
    """What M messages say: `codes` (M,) give the source of each among `names`; `marks` and `arrived` (M,) are ms."""

    sources: list[str]
    codes: NDArray[np.intp]
    watermarks: Longs
    arrival_times: Longs


def group_by_partition(messages: Sequence[Message], piece: DecodedMessages) -> dict[Partition, PartitionRows]:
    """What of a piece lay in which partition, in the order of the log."""
    codes: dict[tuple[str, int], int] = {}
    homes = [(message.topic, message.partition) for message in messages[piece.begin : piece.end]]
    code_of = np.array([codes.setdefault(home, len(codes)) for home in homes], np.intp)
    of_event = code_of[piece.source - piece.begin]
    return {
        Partition(*home): PartitionRows(
            np.flatnonzero(code_of == code) + piece.begin, np.flatnonzero(of_event == code)
        )
        for home, code in codes.items()
    }


def read_watermarks(
    messages: Sequence[Message], piece: DecodedMessages, rows: PartitionRows, message_arrivals: ArrivalTimes
) -> SourceWatermarks:
    """What the messages of one partition say. Events that are dated past their arrival say nothing, nor do marks that are."""
    theirs = [messages[number] for number in rows.messages.tolist()]
    heads = [message.headers[:2] for message in theirs]
    sources = [_read_source(head) for head in heads]
    codes, names = pd.factorize(pd.Series(sources, dtype=object))
    own = np.array([not source for source in sources], bool)
    arrived = arrival.arrival_times_ms(_timestamps(theirs), message_arrivals.now)
    marks = np.where(
        own,
        _latest_event_times(piece, rows, message_arrivals.is_future_dated),
        _read_watermark_headers(heads),
    )
    marks[arrival.future_dated_mask(marks, arrived, message_arrivals.tolerance_seconds)] = 0
    place = f"{theirs[0].topic}/{theirs[0].partition}" if theirs else ""
    return SourceWatermarks(
        [name or place for name in names],
        codes,
        marks,
        arrived,
    )


def feed_of_source(watermarks: SourceWatermarks, partition: Partition) -> list[str]:
    """By which way each of `word.names` reached us: its source; without one the topic, because a partition of records keyed by
    principal is nobody's trail."""
    own = partition.label
    return [partition.topic if name == own else name for name in watermarks.sources]


def arrival_times(
    messages: Sequence[Message], piece: DecodedMessages, tolerance_seconds: int, now: int
) -> ArrivalTimes:
    """When the messages behind the events of a piece arrived, and which events are dated more than `seconds` past that; `now`
    is the reader's clock, ms."""
    at = arrival.arrival_times_ms(_timestamps(messages), now)[piece.source]
    return ArrivalTimes(
        at, arrival.future_dated_mask(piece.times_ms, at, tolerance_seconds), tolerance_seconds, now
    )


def raw_records(piece: DecodedMessages, events: Longs) -> Any:
    """The records behind some events (M,), as AWS wrote them, as a column beside them: bytes on the host, texts elsewhere."""
    row = piece.row[events]
    if frames.is_host_frame(piece.events):
        return np.array([*piece.lines, None], dtype=object)[row]
    text, borders = join_lines([piece.lines[each] for each in row.tolist()])
    up = frames.array_module_of(piece.events).asarray
    written = up(np.frombuffer(text, np.uint8))
    return frames.text_from_buffers(
        written, up(borders.astype(np.int32)), frames.library_of(piece.events).__name__
    )


def _timestamps(messages: Sequence[Message]) -> Longs:
    return np.array([message.timestamp for message in messages], np.int64)


def _read_source(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """`cloudtrail/3/17` -> `cloudtrail/3`; empty where there is none."""
    if not headers or headers[0][0] != "source":
        return ""
    return (headers[0][1] or b"").rpartition(b"/")[0].decode(errors="replace")


def _read_watermark_headers(headers: Sequence[Sequence[tuple[str, bytes | None]]]) -> Longs:
    """ms; 0 where a message says none."""
    texts = [(head[1][1] or b"") if len(head) > 1 and head[1][0] == "watermark" else b"" for head in headers]
    return np.array([int(text) if text.isdigit() and len(text) < 16 else 0 for text in texts], np.int64)


def _latest_event_times(
    piece: DecodedMessages, rows: PartitionRows, is_future_dated: NDArray[np.bool_]
) -> Longs:
    """The latest event time in each message (M,), ms; 0 where there is none to believe."""
    out = np.zeros(piece.end - piece.begin, np.int64)
    believed = rows.events[~is_future_dated[rows.events]]
    np.maximum.at(out, piece.source[believed] - piece.begin, piece.times_ms[believed])
    return out[rows.messages - piece.begin]
