"""Event batch: encoded events with their principals, intervals and fingerprints; the input of the detectors.

Example:
    >>> batch, repeats = encode_batch(events, state)
    >>> batch.codes.shape, batch.principal.shape
    ((1830, 18), (1830,))
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import namespace, to_device_of
from fingerprint.compute.hashing import Hashes
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.features import encoding
from fingerprint.state.coded_events import CodedEvents, code_events
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.scorer_state import ScorerState

# Columns that measuring and explaining read: without the others a frame takes half the memory.
FRAME_COLUMNS = [
    "event_id",
    "event_time",
    "principal",
    "kind",
    "role",
    "entity",
    "human",
    "session",
    "service",
    "action",
    "region",
    "recipient_account",
    "parameter_names",
    "target_account",
    "read_only",
    "resource",
    "error_code",
    "user_agent",
    "source_address",
    "identity_type",
    "access_key",
    "session_created",
    "mfa",
    "from_console",
    "vpc_endpoint_account",
]


KEY_COLUMN = "dedup_key"  # column of a batch's frame: a hash of each event's id, on the device of the events


def encode_batch(events: frames.Frame | CodedEvents, state: ScorerState) -> tuple[EventBatch, int]:
    """Drop repeats, encode events with entities and update the history of principals; return the batch and the repeats' number.

    Arrays are placed on the device of the state.
    """
    place = partial(to_device_of, other=state.series.owner)
    coded = code_events(events)
    fresh = state.deduplicate(
        place(coded.principal), place(coded.key), place((coded.seconds // DAY_SECONDS).astype(np.int32))
    )
    coded = coded.take(fresh)
    principal, interval = place(coded.principal), place(_intervals(coded, state))
    frame, codes = _encode_features(coded, principal, interval, state)
    none = namespace(codes).zeros(len(frame), np.int32)
    batch = EventBatch(
        frame,
        codes,
        principal,
        place(coded.entity),
        interval,
        state.first_seen(principal),
        none,
        none.astype(np.int8),
        {},
    )
    return batch, len(fresh) - len(batch)


def _intervals(coded: CodedEvents, state: ScorerState) -> NDArray[np.int32]:
    intervals: NDArray[np.int32] = (coded.seconds // state.options.spectral.interval_seconds).astype(np.int32)
    return intervals


def _encode_features(
    coded: CodedEvents, principal: Hashes, interval: NDArray[np.int32], state: ScorerState
) -> tuple[frames.Frame, Hashes]:
    """Return events with KEY_COLUMN and the history columns of their principals, and the codes of all features (N, F)."""
    codes = coded.codes.copy()
    history = state.update_history(principal, interval, to_device_of(codes, principal))
    columns = {KEY_COLUMN: coded.key} | {name: to_device_of(each, codes) for name, each in history.items()}
    events = frames.with_columns(coded.frame, columns)
    encoding.FEATURE_SET.encode_stateful(codes, events)
    return events, to_device_of(codes, principal)
