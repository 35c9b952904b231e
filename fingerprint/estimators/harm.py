"""Harm: a new action that can do much is stranger than a new list call.

Example:
    >>> share = harm_shares(["cloudtrail", "s3"], ["StopLogging", "ListBuckets"])
    >>> share
    array([0.8, 0. ], dtype=float32)
    >>> weigh_by_harm(surprise, share)                     # (N, F): the surprise of the action grows by this share of itself

How unlikely a new action is by chance cannot tell `StopLogging` from `ListBuckets`. In harmless work of the same rarity severe
and grave actions are much rarer than in attacks. So their surprise weighs more before its tail is learned, and the alert budget
goes to what matters. An action that is usual for its principal does not surprise, whatever it can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import namespace, to_device_of
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import Gravity
from fingerprint.estimators.autoencoder import RECHECK_THRESHOLD
from fingerprint.features.encoding import FEATURE_NAMES
from fingerprint.features.vocabulary import Floats
from fingerprint.sources.active import SOURCE

ACTION_COLUMN = FEATURE_NAMES.index("action")
HARM_SHARES: Mapping[Gravity, float] = {
    "none": 0.0,
    "minor": 0.0,
    "notable": 0.0,
    "grave": 0.4,
    "severe": 0.8,
}
MAX_NAMES = 16_384  # actions whose share is kept; anybody can call one that does not exist


def harm_shares(services: Iterable[object], actions: Iterable[object]) -> Floats:
    """Return the share by which the surprise of each action grows, from services and actions (N,): (N,)."""
    shares = [
        _harm_share(str(service), str(action)) for service, action in zip(services, actions, strict=True)
    ]
    return np.array(shares, np.float32)


def harm_by_code(codes: Hashes, known: Hashes, texts: NDArray[np.object_]) -> Floats:
    """Return the share of each action's code (N,), from codes `known` (W,) and their texts (W,), `service:Action`."""
    distinct, place = np.unique(codes, return_inverse=True)
    order = np.argsort(known)
    at = order[np.minimum(np.searchsorted(known[order], distinct), len(known) - 1)]
    names = [str(text).partition(":") for text in texts[at]]
    shares = harm_shares((name[0] for name in names), (name[2] for name in names))
    out: Floats = np.where(known[at] == distinct, shares, 0).astype(np.float32)[place]
    return out


def harm_of_events(codes: Hashes, events: Frame) -> Floats:
    """Return the share of events (N,) by the codes of their actions (N,); columns service and action. Each is named once."""
    _, first, place = namespace(codes).unique(codes, return_index=True, return_inverse=True)
    names = frames.to_pandas(frames.select_rows(events[["service", "action"]], first))
    out: Floats = to_device_of(harm_shares(names["service"], names["action"]), codes)[place]
    return out


def without_harm(surprise: Floats, share: Floats) -> Floats:
    """Return the surprise (N, F) of events as it was before it was weighed by `share` (N,)."""
    out = namespace(surprise).copy(surprise)
    out[:, ACTION_COLUMN] /= 1 + share * (surprise[:, ACTION_COLUMN] >= RECHECK_THRESHOLD * (1 + share))
    return out


def weigh_by_harm(surprise: Floats, share: Floats) -> Floats:
    """Return the surprise (N, F) in which that of each action has grown by a share (N,) of itself, where it is one at all."""
    out = namespace(surprise).copy(surprise)
    out[:, ACTION_COLUMN] *= 1 + share * (surprise[:, ACTION_COLUMN] >= RECHECK_THRESHOLD)
    return out


@lru_cache(MAX_NAMES)
def _harm_share(service: str, action: str) -> float:
    return HARM_SHARES[SOURCE.impact_of(service, action, "").gravity]
