"""Tables of events for evaluation: what peers are given (`EventTable`), and what our detectors scored (`ScoredEventTable`).

Example:
    >>> table = build_event_table(history.batches(), window_seconds=6 * 3600)
    >>> past, now = table.split(cut)                    # cut: seconds from the epoch
    >>> len(past) + len(now) == len(table)
    True
    >>> scored = ScoredEventTable(("autoencoder", "spectral"), window_seconds=6 * 3600)
    >>> scored.add(batch.frame)                         # a batch of the scorer, as often as there is one
    >>> scored.to_frame()[["event", "autoencoder_z", "spectral_vote"]]

Scored events hold no text, 8 bytes a name: with two detectors an event takes 42 bytes, a week of 5,000 principals
about 260 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import NEWCOMER_COLUMN, vote_column, z_column
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.scored_votes import newcomer_rows
from fingerprint.features import encoding
from fingerprint.sources import flatten

Seconds = NDArray[np.int64]

HOUR_SECONDS = 3600
WINDOW_SECONDS = 6 * HOUR_SECONDS  # in which what a method shows of a principal counts as one alert


@dataclass(frozen=True)
class EventTable:
    """N events in the order of time.

    `frame` has event_id, event_time and principal; `codes` (N, F) are those of `features.encoding.FEATURE_SET.encode`;
    `principal` (N,) hashes; `seconds` (N,) from the epoch; `group` (N,) is the hash of principal and window.
    """

    frame: pd.DataFrame
    codes: Hashes
    principal: Hashes
    seconds: Seconds
    group: Hashes

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def hours(self) -> Seconds:
        """Hours from the epoch: (N,)."""
        return self.seconds // HOUR_SECONDS

    @property
    def span_days(self) -> float:
        """Length of the span in days, at least an hour's worth."""
        return (
            max(float(self.seconds[-1] - self.seconds[0]), HOUR_SECONDS) / DAY_SECONDS
            if len(self)
            else HOUR_SECONDS / DAY_SECONDS
        )

    def take(self, which: NDArray[np.bool_]) -> EventTable:
        """Return the events of a mask."""
        frame = self.frame[which].reset_index(drop=True)
        return EventTable(
            frame, self.codes[which], self.principal[which], self.seconds[which], self.group[which]
        )

    def split(self, cut: int) -> tuple[EventTable, EventTable]:
        """Return the events before `cut`, and those from then on."""
        return self.take(self.seconds < cut), self.take(self.seconds >= cut)


def build_event_table(chunks: Iterable[pd.DataFrame], window_seconds: int) -> EventTable:
    """Return the table of a history given as chunks of events with entities, oldest first; repeats are dropped.

    The group of an event is its principal and its fixed window of event time: what an alert is made of.
    """
    frames, codes, keys = [], [], []
    for events in chunks:
        frames.append(events[["event_id", "event_time", "principal"]])
        codes.append(encoding.FEATURE_SET.encode(events))
        keys.append(flatten.dedup_key(events))
    once = np.sort(np.unique(np.concatenate(keys), return_index=True)[1])
    frame = pd.concat(frames, ignore_index=True).iloc[once].reset_index(drop=True)
    principal = hashing.hash_strings(frame["principal"])
    seconds = (frame["event_time"].astype("int64").to_numpy() // 1_000_000).astype(np.int64)
    group = hashing.hash_pair(principal, (seconds // window_seconds).astype(np.uint64))
    return EventTable(frame, np.concatenate(codes)[once], principal, seconds, group)


NO_COLUMNS: Mapping[str, np.ndarray] = {}


class ScoredEventTable:
    """A table of every detector's scores of each event, collected batch by batch."""

    def __init__(self, detectors: Sequence[str], window_seconds: int, variants: Sequence[str] = ()) -> None:
        """`variants` have a z and no vote (`evaluation.ablations`)."""
        self.detectors, self.window, self.variants = tuple(detectors), window_seconds, tuple(variants)
        self.parts: list[pd.DataFrame] = []

    def add(self, frame: pd.DataFrame, more: Mapping[str, np.ndarray] = NO_COLUMNS) -> None:
        """Add a scored batch (`detection.scorer.ScoredEvents.frame`), and `more` columns of its events by name, (N,) each."""
        principal = hashing.hash_strings(frame["principal"])
        time = frame["event_time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
        columns = {
            "event": hashing.hash_strings(frame["event_id"]),
            "time": time,
            "principal": principal,
            "group": alert_groups(principal, time // 1_000_000, self.window),
            **{
                z_column(name): frame[z_column(name)].to_numpy(np.float32)
                for name in (*self.detectors, *self.variants)
            },
            **{vote_column(name): frame[vote_column(name)].to_numpy(bool) for name in self.detectors},
            NEWCOMER_COLUMN: newcomer_rows(frame),
            **more,
        }
        self.parts.append(pd.DataFrame(columns))

    def to_frame(self) -> pd.DataFrame:
        """Return one row an event, and forget the batches.

        Columns: `event`, `principal`, `group` (hashes), `time` (us from the epoch), each detector's `<name>_z` (NaN for no
        opinion) and `<name>_vote`, of variants the z, `newcomer`, whether it was judged by how others began, and what `add` was
        given beside.
        """
        parts, self.parts = self.parts, []
        table = pd.concat(parts, ignore_index=True)
        return table[~table.duplicated(["event", "principal"])].reset_index(drop=True)


def alert_groups(principal: Hashes, seconds: np.ndarray, window_seconds: int) -> Hashes:
    """Return the alert each event would belong to (N,): its principal (hashed) and its fixed window of event time."""
    return hashing.hash_pair(principal, (seconds // window_seconds).astype(np.uint64))
