"""Event batch: encoded events with their principals, intervals and fingerprints; the input of the detectors.

Example:
    >>> batch, repeats = encode_batch(events, state)
    >>> batch.codes.shape, batch.principal.shape
    ((1830, 14), (1830,))
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import namespace, to_device_of, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.features import encoding
from fingerprint.sources import flatten
from fingerprint.state.scorer_state import ScorerState


@dataclass(frozen=True)
class EventBatch:
    """N events, on the host or on a device.

    `frame` has their columns, `codes` (N, F) their features; `principal` (with its hash bucket) and `entity` (N,) are hashes.
    `interval` (N,) is the number of the event's interval, `first_seen` (N,) of that in which the principal was first seen.
    `fingerprint` (N,) and `level` (N,) name the row of the stack that judges it; `evidence` maps each detector to what it keeps
    of the events, (N, C).
    """

    frame: frames.Frame
    codes: Hashes
    principal: Hashes
    entity: Hashes
    interval: NDArray[np.int32]
    first_seen: NDArray[np.int32]
    fingerprint: NDArray[np.int32]
    level: NDArray[np.int8]
    evidence: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, rows: NDArray[Any]) -> EventBatch:
        """Return the events of a mask or an index, on the host: few are taken, to be pending or to be explained."""
        rows = to_device_of(rows, self.codes)
        return replace(
            self,
            frame=frames.to_pandas(frames.select_rows(self.frame, rows)),
            evidence={name: to_host(kept[rows]) for name, kept in self.evidence.items()},
            **{name: to_host(getattr(self, name)[rows]) for name in ARRAY_FIELDS},
        )

    @property
    def owner(self) -> Hashes:
        """Return the entity's hash in the principal's bucket (N,), the key of its series.

        An entity that principals share (granularity `service`) has a series in the bucket of each.
        """
        return hashing.rebucket(self.principal, self.entity)

    @property
    def is_write(self) -> NDArray[np.bool_]:
        """Return which events changed something (N,)."""
        wrote: NDArray[np.bool_] = to_device_of(encoding.is_write(self.frame), self.codes)
        return wrote

    @property
    def is_error(self) -> NDArray[np.bool_]:
        """Return which events failed (N,)."""
        failed: NDArray[np.bool_] = to_device_of(self.frame["error_code"].notna().values, self.codes)
        return failed


# The columns that measuring and explaining read: a frame without the others costs half as much to carry along.
FRAME_COLUMNS = [
    *("event_id", "event_time", "principal", "kind", "role", "entity", "human", "session"),
    *("service", "action", "region", "recipient_account", "parameter_names", "target_account", "read_only"),
    *("error_code", "user_agent", "source_address", "identity_type", "access_key", "session_created"),
    *("mfa", "from_console"),
]
ARRAY_FIELDS = tuple(field.name for field in fields(EventBatch) if field.name not in ("frame", "evidence"))


def encode_batch(events: frames.Frame, state: ScorerState) -> tuple[EventBatch, int]:
    """Drop repeats, encode events with entities and update their principals' history; return the batch and the number of repeats.

    Arrays are placed where the state is, which is where the events are if these are on a device.
    """
    place = partial(to_device_of, other=state.series.owner)
    seconds = place(frames.epoch_seconds(events["event_time"]))
    principal = place(hashing.hash_with_bucket(events["principal"]))
    fresh = state.deduplicate(
        principal, place(flatten.dedup_key(events)), (seconds // 86400).astype(np.int32)
    )
    events, seconds, principal = frames.select_rows(events, fresh), seconds[fresh], principal[fresh]
    interval = (seconds // state.options.spectral.interval_seconds).astype(np.int32)
    events, codes = _encode_features(events, principal, interval, state)
    none = namespace(codes).zeros(len(events), np.int32)
    batch = EventBatch(
        events,
        codes,
        principal,
        place(hashing.hash_strings(events["entity"])),
        interval,
        state.first_seen(principal),
        none,
        none.astype(np.int8),
        {},
    )
    return batch, int((~fresh).sum())


def _encode_features(
    events: frames.Frame, principal: Hashes, interval: NDArray[np.int32], state: ScorerState
) -> tuple[frames.Frame, Hashes]:
    """Return events with the history columns of their principals, and the codes of all their features (N, F)."""
    codes = encoding.encode_events(events)
    history = state.update_history(principal, interval, to_device_of(codes, principal))
    events = events.assign(**{name: to_device_of(column, codes) for name, column in history.items()})
    encoding.encode_stateful_features(codes, events)
    return events, to_device_of(codes, principal)


def concat_batches(parts: list[EventBatch]) -> EventBatch:
    """Return batches of the host as one; at least one is needed."""
    return EventBatch(
        frame=pd.concat([part.frame for part in parts], ignore_index=True),
        evidence={
            name: np.concatenate([part.evidence[name] for part in parts]) for name in parts[0].evidence
        },
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAY_FIELDS},
    )
