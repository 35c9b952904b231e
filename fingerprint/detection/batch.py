"""A batch of events on its way from reading to judging: what detectors are given and alerts are explained from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import host, like, namespace
from fingerprint.compute.hashing import Hashes
from fingerprint.features import encoding
from fingerprint.sources import flatten
from fingerprint.state.scorer_state import Ledger


@dataclass(frozen=True)
class Measured:
    """N events, on the host or on a device. `frame` has their columns, `codes` (N, F); `principal` (with its home) and
    `entity` (N,) are hashes; `interval` (N,) is the number of the event's interval and `since` (N,) of that in which the
    principal was first seen.
    `fingerprint` (N,) and `level` (N,) say which row of the stack judged it; `evidence` is what each detector keeps of an
    event, (N, C) each."""

    frame: frames.Frame
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
        """The events of a mask or an index, on the host: few are taken, to wait for a verdict or to be explained."""
        which = like(which, self.codes)
        return replace(
            self,
            frame=frames.host(frames.rows(self.frame, which)),
            evidence={name: host(kept[which]) for name, kept in self.evidence.items()},
            **{name: host(getattr(self, name)[which]) for name in ARRAYS},
        )

    @property
    def owner(self) -> Hashes:
        """(N,) the entity as the ledger knows it: at the home of the principal who acted. An entity that principals share
        (granularity `service`) is counted at each of their homes by itself."""
        return hashing.at_home(self.principal, self.entity)

    @property
    def wrote(self) -> NDArray[np.bool_]:
        """Which events changed something."""
        wrote: NDArray[np.bool_] = like(encoding.writes(self.frame), self.codes)
        return wrote

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Which events were refused or went wrong."""
        failed: NDArray[np.bool_] = like(self.frame["error_code"].notna().values, self.codes)
        return failed


# The columns that measuring and explaining read: a frame without the others costs half as much to carry along.
READ = [
    *("event_id", "event_time", "principal", "kind", "role", "entity", "human", "session"),
    *("service", "action", "region", "recipient_account", "parameter_names", "target_account", "read_only"),
    *("error_code", "user_agent", "source_address", "identity_type", "access_key", "session_created"),
    *("mfa", "from_console"),
]
ARRAYS = tuple(field.name for field in fields(Measured) if field.name not in ("frame", "evidence"))


def prepare(events: frames.Frame, ledger: Ledger) -> tuple[Measured, int]:
    """Drop repeats, encode, remember: events with entities -> a batch that is not judged yet, and how many were repeats.

    Arrays go to where the ledger lies, which is where the events lie if these are on a device.
    """
    place = partial(like, other=ledger.series.owner)
    seconds = place(frames.seconds(events["event_time"]))
    principal = place(hashing.homed(events["principal"]))
    fresh = ledger.fresh(principal, place(flatten.repeat_key(events)), (seconds // 86400).astype(np.int32))
    events, seconds, principal = frames.rows(events, fresh), seconds[fresh], principal[fresh]
    interval = (seconds // ledger.options.spectral.interval_seconds).astype(np.int32)
    events, codes = _encoded(events, principal, interval, ledger)
    none = namespace(codes).zeros(len(events), np.int32)
    batch = Measured(
        events,
        codes,
        principal,
        place(hashing.of(events["entity"])),
        interval,
        ledger.since(principal),
        none,
        none.astype(np.int8),
        {},
    )
    return batch, int((~fresh).sum())


def _encoded(
    events: frames.Frame, principal: Hashes, interval: NDArray[np.int32], ledger: Ledger
) -> tuple[frames.Frame, Hashes]:
    """Events with what the ledger remembers of their principals, and the codes of all their features (N, F)."""
    codes = encoding.encode(events)
    memory = ledger.remember(principal, interval, like(codes, principal))
    events = events.assign(**{name: like(column, codes) for name, column in memory.items()})
    encoding.encode_memory(codes, events)
    return events, like(codes, principal)


def concat(parts: list[Measured]) -> Measured:
    """Batches of the host one after the other; at least one."""
    return Measured(
        frame=pd.concat([part.frame for part in parts], ignore_index=True),
        evidence={
            name: np.concatenate([part.evidence[name] for part in parts]) for name in parts[0].evidence
        },
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS},
    )
