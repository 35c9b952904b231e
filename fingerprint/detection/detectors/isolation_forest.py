"""The optional isolation forest: scikit-learn's IsolationForest over the log likelihoods of the features.

It is fitted at every start on the bank's sample of training rows: a forest on disk would be code, not data.

Example:
    >>> settings = Settings(voting={"detectors": ["autoencoder", "spectral", "isolation_forest"]})
    >>> build_detectors(settings, bank, state, LocalInference(bank))[-1].label
    'Isolation forest'
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats, Mask, to_device_of, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import IsolationForestSettings, Settings
from fingerprint.detection.detectors import Detector
from fingerprint.detection.ensemble import NEWCOMER_THRESHOLD_SHARE
from fingerprint.registry.bank import Bank
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.scorer_state import ScorerState

TREES = 100
SEED = 0


class IsolationForestDetector(Detector):
    """Votes on events that are isolated among the rows of the training sample.

    Evidence (N, 1): the distance of the forest's score from the sample's median, in robust standard deviations.
    """

    name = "isolation_forest"
    label = "Isolation forest"
    question = "Do its features stand apart from those of the training sample?"

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        super().__init__(settings, bank, state, inference)
        self.newcomer_share = NEWCOMER_THRESHOLD_SHARE
        # Imported here: the import takes seconds, and few programs use this detector.
        from sklearn.ensemble import IsolationForest

        table = self._log_likelihoods(
            bank.scorer_state["sample.fingerprint"], bank.scorer_state["sample.codes"]
        )
        self.forest = IsolationForest(
            n_estimators=TREES, max_samples=min(256, len(table)), random_state=SEED
        ).fit(table)
        usual = self.forest.score_samples(table)
        self.median = float(np.median(usual))
        self.scale = max(1.4826 * float(np.median(np.abs(usual - self.median))), 0.01)

    @classmethod
    def options_from(cls, settings: Settings) -> IsolationForestSettings:
        """Return the detector's section of the settings."""
        return settings.isolation_forest

    def measure(self, batch: EventBatch) -> Floats:
        """Return the anomaly score of each event, its evidence: (N, 1) robust z."""
        strange = self.median - self.forest.score_samples(
            self._log_likelihoods(batch.fingerprint, batch.codes)
        )
        evidence: Floats = to_device_of((strange / self.scale).astype(np.float32)[:, None], batch.codes)
        return evidence

    def score(self, batch: EventBatch) -> Floats:
        """Return the z of each event (N,)."""
        return batch.evidence[self.name][:, 0]

    def can_still_vote(self, batch: EventBatch, z: Floats | None = None) -> Mask:
        """Return a mask (N,) of the events that reach a newcomer's share of the threshold, the lowest that can apply."""
        return self.score(batch) >= self.threshold * self.newcomer_share

    def _log_likelihoods(self, fingerprint: NDArray[np.int32], codes: Hashes) -> Floats:
        """Return log likelihoods (N, F) on the host, where scikit-learn computes."""
        known = self.bank.vocabulary
        return to_host(
            known.look_up(to_device_of(fingerprint, known.keys), to_device_of(codes, known.keys))[0]
        )


DETECTOR = IsolationForestDetector
