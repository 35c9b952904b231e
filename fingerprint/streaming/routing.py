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
from fingerprint.sources.cloudtrail.envelopes import joined
from fingerprint.sources.decode import Piece

Longs = NDArray[np.int64]


class Rows(NamedTuple):
    """The share of a piece that one partition has: numbers of its messages (M,) and rows of its events (N,)."""

    messages: Longs
    events: NDArray[np.intp]


class Arrival(NamedTuple):
    """When the messages of a piece arrived, as far as that is believed at `now` (ms): of each of its n events, `at` (n,) ms, and
    whether the event is dated more than `seconds` past it, `future` (n,)."""

    at: Longs
    future: NDArray[np.bool_]
    seconds: int
    now: int


class Word(NamedTuple):
    """What M messages say: `codes` (M,) give the source of each among `names`; `marks` and `arrived` (M,) are ms."""

    names: list[str]
    codes: NDArray[np.intp]
    marks: Longs
    arrived: Longs


def by_partition(messages: Sequence[Message], piece: Piece) -> dict[Partition, Rows]:
    """What of a piece lay in which partition, in the order of the log."""
    codes: dict[tuple[str, int], int] = {}
    homes = [(message.topic, message.partition) for message in messages[piece.begin : piece.end]]
    code_of = np.array([codes.setdefault(home, len(codes)) for home in homes], np.intp)
    of_event = code_of[piece.source - piece.begin]
    return {
        Partition(*home): Rows(
            np.flatnonzero(code_of == code) + piece.begin, np.flatnonzero(of_event == code)
        )
        for home, code in codes.items()
    }


def said(messages: Sequence[Message], piece: Piece, rows: Rows, came: Arrival) -> Word:
    """What the messages of one partition say. Events that are dated past their arrival say nothing, nor do marks that are."""
    theirs = [messages[number] for number in rows.messages.tolist()]
    heads = [message.headers[:2] for message in theirs]
    sources = [_source(head) for head in heads]
    codes, names = pd.factorize(pd.Series(sources, dtype=object))
    own = np.array([not source for source in sources], bool)
    arrived = arrival.arrived(_timestamps(theirs), came.now)
    marks = np.where(own, _latest(piece, rows, came.future), _marks(heads))
    marks[arrival.future_dated(marks, arrived, came.seconds)] = 0
    place = f"{theirs[0].topic}/{theirs[0].partition}" if theirs else ""
    return Word(
        [name or place for name in names],
        codes,
        marks,
        arrived,
    )


def ways(word: Word, home: Partition) -> list[str]:
    """By which way each of `word.names` reached us: its source; without one the topic, because a partition of records keyed by
    principal is nobody's trail."""
    own = home.place
    return [home.topic if name == own else name for name in word.names]


def arrivals(messages: Sequence[Message], piece: Piece, seconds: int, now: int) -> Arrival:
    """When the messages behind the events of a piece arrived, and which events are dated more than `seconds` past that; `now`
    is the reader's clock, ms."""
    at = arrival.arrived(_timestamps(messages), now)[piece.source]
    return Arrival(at, arrival.future_dated(piece.at, at, seconds), seconds, now)


def records(piece: Piece, which: Longs) -> Any:
    """The records behind some events (M,), as AWS wrote them, as a column beside them: bytes on the host, texts elsewhere."""
    row = piece.row[which]
    if frames.at_home(piece.events):
        return np.array([*piece.lines, None], dtype=object)[row]
    text, borders = joined([piece.lines[each] for each in row.tolist()])
    up = frames.namespace(piece.events).asarray
    written = up(np.frombuffer(text, np.uint8))
    return frames.strings(written, up(borders.astype(np.int32)), frames.library(piece.events).__name__)


def _timestamps(messages: Sequence[Message]) -> Longs:
    return np.array([message.timestamp for message in messages], np.int64)


def _source(head: Sequence[tuple[str, bytes | None]]) -> str:
    """`cloudtrail/3/17` -> `cloudtrail/3`; empty where there is none."""
    if not head or head[0][0] != "source":
        return ""
    return (head[0][1] or b"").rpartition(b"/")[0].decode(errors="replace")


def _marks(heads: Sequence[Sequence[tuple[str, bytes | None]]]) -> Longs:
    """ms; 0 where a message says none."""
    texts = [(head[1][1] or b"") if len(head) > 1 and head[1][0] == "watermark" else b"" for head in heads]
    return np.array([int(text) if text.isdigit() and len(text) < 16 else 0 for text in texts], np.int64)


def _latest(piece: Piece, rows: Rows, future: NDArray[np.bool_]) -> Longs:
    """The latest event time in each message (M,), ms; 0 where there is none to believe."""
    out = np.zeros(piece.end - piece.begin, np.int64)
    believed = rows.events[~future[rows.events]]
    np.maximum.at(out, piece.source[believed] - piece.begin, piece.at[believed])
    return out[rows.messages - piece.begin]
