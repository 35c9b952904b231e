"""Judged events, as small as figures need them: no text, 8 bytes a name.

Example:
    >>> judged = Judged(("autoencoder", "spectral"), window_seconds=6 * 3600)
    >>> judged.add(frame)                               # what the scorer says of a batch, as often as there is one
    >>> judged.table()[["event", "autoencoder_z", "spectral_vote"]]

With two detectors an event takes 42 bytes, so a week of 5,000 principals is about 260 MB.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import vote_column, z_column


class ScoredEventTable:
    """What every detector says of each judged event, collected batch by batch."""

    def __init__(self, detectors: Sequence[str], window_seconds: int) -> None:
        self.detectors, self.window = tuple(detectors), window_seconds
        self.parts: list[pd.DataFrame] = []

    def add(self, frame: pd.DataFrame) -> None:
        """A judged batch (`scoring.Judged.frame`)."""
        principal = hashing.hash_strings(frame["principal"])
        time = frame["event_time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
        columns = {
            "event": hashing.hash_strings(frame["event_id"]),
            "time": time,
            "principal": principal,
            "group": alert_groups(principal, time // 1_000_000, self.window),
            **{z_column(name): frame[z_column(name)].to_numpy(np.float32) for name in self.detectors},
            **{vote_column(name): frame[vote_column(name)].to_numpy(bool) for name in self.detectors},
        }
        self.parts.append(pd.DataFrame(columns))

    def to_frame(self) -> pd.DataFrame:
        """One row an event: `event`, `principal`, `group` (hashes), `time` (us from the epoch), and each detector's
        `<name>_z` (NaN for no opinion) and `<name>_vote`. The parts are let go."""
        parts, self.parts = self.parts, []
        table = pd.concat(parts, ignore_index=True)
        return table[~table.duplicated(["event", "principal"])].reset_index(drop=True)


def alert_groups(principal: Hashes, seconds: np.ndarray, window_seconds: int) -> Hashes:
    """The alert an event would belong to (N,): its principal (hashed) and its fixed window of event time."""
    return hashing.hash_pair(principal, (seconds // window_seconds).astype(np.uint64))
