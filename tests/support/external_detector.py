"""A detector as another package would bring it: this file, and the section `[detectors.watched_actions]` of the settings."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from fingerprint.compute.arrays import Floats
from fingerprint.detection.detectors import Detector, DetectorOptions
from fingerprint.state.event_batch import EventBatch


class WatchedActionOptions(DetectorOptions):
    """`[detectors.watched_actions]`"""

    actions: tuple[str, ...] = Field((), description="Actions that are always unusual.")


class WatchedActionDetector(Detector):
    """Votes on every event with one of the listed actions."""

    name = "watched_actions"
    label = "Watched actions"
    question = "Is it on the list?"
    Options = WatchedActionOptions

    def measure(self, batch: EventBatch) -> Floats:
        listed = batch.frame["action"].isin(self.options_from(self.settings).actions).to_numpy()
        return np.where(listed, 9.0, 0.0).astype(np.float32)[:, None]

    def score(self, batch: EventBatch) -> Floats:
        return batch.evidence[self.name][:, 0]
