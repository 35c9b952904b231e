"""A batch of events on its way from reading to judging: what detectors are given and alerts are explained from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import features, flatten, frames, hashing
from fingerprint.hashing import Hashes
from fingerprint.ledger import Ledger


@dataclass(frozen=True)
class Measured:
    """N events. `frame` has their columns, `codes` (N, F); `principal` (with its home) and `entity` (N,) are hashes;
    `interval` (N,) is the number of the event's interval and `since` (N,) of that in which the principal was first seen.
    `fingerprint` (N,) and `level` (N,) say which row of the stack judged it; `evidence` is what each detector keeps of an
    event, (N, C) each."""

    frame: pd.DataFrame
    codes: Hashes
    principal: Hashes
    entity: Hashes
    interval: NDArray[np.int32]
    since: NDArray[np.int32]
    fingerprint: NDArray[np.int32]
    level: NDArray[np.int8]
    evidence: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, which: NDArray[Any]) -> Measured:
        """The events of a mask or an index."""
        return replace(
            self,
            frame=frames.rows(self.frame, which),
            evidence={name: kept[which] for name, kept in self.evidence.items()},
            **{name: getattr(self, name)[which] for name in ARRAYS},
        )

    @property
    def owner(self) -> Hashes:
        """(N,) the entity as the ledger knows it: at the home of the principal who acted. An entity that principals share
        (granularity `service`) is counted at each of their homes by itself."""
        return hashing.at_home(self.principal, self.entity)

    @property
    def wrote(self) -> NDArray[np.bool_]:
        """Which events changed something."""
        return features.writes(self.frame)

    @property
    def failed(self) -> NDArray[np.bool_]:
        return self.frame["error_code"].notna().to_numpy(dtype=bool)


# The columns that measuring and explaining read: a frame without the others costs half as much to carry along.
READ = [
    *("event_id", "event_time", "principal", "kind", "role", "entity", "human", "session"),
    *("service", "action", "region", "recipient_account", "parameter_names", "target_account", "read_only"),
    *("error_code", "user_agent", "source_address", "identity_type", "access_key", "session_created"),
    *("mfa", "from_console"),
]
ARRAYS = tuple(field.name for field in fields(Measured) if field.name not in ("frame", "evidence"))


def prepare(events: pd.DataFrame, ledger: Ledger) -> tuple[Measured, int]:
    """Drop repeats, encode, remember: events with entities -> a batch that is not judged yet, and how many were repeats."""
    seconds = events["event_time"].astype("int64").to_numpy() // 1_000_000
    principal = hashing.homed(events["principal"])
    fresh = ledger.fresh(principal, flatten.repeat_key(events), (seconds // 86400).astype(np.int32))
    events, seconds, principal = frames.rows(events, fresh), seconds[fresh], principal[fresh]
    interval = (seconds // ledger.options.spectral.interval_seconds).astype(np.int32)
    codes = features.encode(events)
    events = events.assign(**ledger.remember(principal, interval, codes))
    features.encode_memory(codes, events)
    none = np.zeros(len(events), np.int32)
    batch = Measured(
        events,
        codes,
        principal,
        hashing.of(events["entity"]),
        interval,
        ledger.since(principal),
        none,
        none.astype(np.int8),
        {},
    )
    return batch, int((~fresh).sum())


def concat(parts: list[Measured]) -> Measured:
    """Batches one after the other; at least one."""
    return Measured(
        frame=pd.concat([part.frame for part in parts], ignore_index=True),
        evidence={
            name: np.concatenate([part.evidence[name] for part in parts]) for name in parts[0].evidence
        },
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS},
    )
