"""Rarity: how unlikely the events of an alert are together, in nats of a tail probability.

Example:
    >>> alert_nats(np.array([5.0, 4.0, 1.0]), ["iam:CreateUser", "iam:CreateUser", "iam:ListUsers"])
    11.244459518993885

Each distinct action counts by its highest z of the calibrated detectors (`tail_calibration`), as nats: the most unusual action in
full, each further one with a fading weight. CALIBRATION scales the sum. So rarity means the same for every principal. A
fingerprint of peers knows less than one of the principal itself: URGENCY_CAP bounds the urgency of its alerts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import Level, z_column
from fingerprint.detection.detectors import calibrated_detectors
from fingerprint.estimators import tail_calibration
from fingerprint.state.event_batch import EventBatch

URGENCY_CAP: dict[Level, int] = {"entity": 100, "principal": 100, "peer": 85, "generic": 70}
NEXT_RARE_ACTION_WEIGHT = 0.3  # weight of each further action, relative to the more unusual one before it
MAX_ACTIONS = 10  # actions that count
# Chosen so that the strongest harmless alerts have as many nats as their most unusual events: 0.70 to 0.78 on three worlds.
CALIBRATION = 0.72


def alert_nats(z: NDArray[np.float64], actions: Sequence[str]) -> float:
    """Return how rare the events of an alert are together, in nats of a tail probability.

    `z` (N,) is each event's highest z of the calibrated detectors, -inf for no opinion; `actions` (N,) are their actions.
    """
    strongest: dict[str, float] = {}
    for action, nats in zip(actions, tail_calibration.z_to_nats(z).tolist(), strict=True):
        strongest[action] = max(nats, strongest.get(action, 0.0))
    return combined_nats(np.array(sorted(strongest.values(), reverse=True)[:MAX_ACTIONS]))


def combined_nats(nats: NDArray[np.float64]) -> float:
    """Return the nats of an alert from those of its actions (K,), the most unusual first."""
    return float(CALIBRATION * (np.nan_to_num(nats) * NEXT_RARE_ACTION_WEIGHT ** np.arange(len(nats))).sum())


def highest_calibrated_z(batch: EventBatch, frame: Frame) -> NDArray[np.float64]:
    """Return each event's highest z of the calibrated detectors (N,), -inf where none of them has an opinion."""
    columns = [z_column(name) for name in calibrated_detectors(batch.evidence)]
    z = [np.asarray(frames.column_of(frame, name), float) for name in columns] or [
        np.full(len(frame), np.nan)
    ]
    return np.nan_to_num(np.column_stack(z), nan=-np.inf, posinf=np.inf).max(axis=1)
