"""What events are held to, as people choose it: a port that stands on the desk's votes and on the bank that is served.

Example:
    >>> threshold = thresholds.wanted(alerts_per_day=5, quorum=2)
    >>> thresholds.foreseen(threshold, quorum=2).found          # of the attacks that analysts confirmed
    3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fingerprint.core.case import ThresholdEstimate, ThresholdOverride


class ThresholdService(Protocol):
    """A threshold is a z of the autoencoder. What is foreseen is what the last days would have shown."""

    def current(self) -> ThresholdEstimate:
        """What events are held to now."""
        ...

    def threshold_for_rate(self, alerts_per_day: float, quorum: int) -> float:
        """The lowest threshold that would have shown so many alerts a day at most."""
        ...

    def estimate(self, threshold: float, quorum: int) -> ThresholdEstimate: ...

    def estimate_curve(self, quorum: int) -> Sequence[ThresholdEstimate]:
        """Of thresholds that people may want, the lowest first."""
        ...

    def hidden_alerts(self, threshold: float, quorum: int, limit: int = 50) -> Sequence[str]:
        """Alerts of those days, by id, that are on the desk and would not have been shown: confirmed attacks first."""
        ...

    def override_history(self) -> Sequence[ThresholdOverride]:
        """Who chose what, the newest first."""
        ...

    def set_override(
        self, threshold: float | None, quorum: int | None, reason: str, by: str
    ) -> ThresholdOverride:
        """Hold events to it from now on; without both, to what the settings say. FingerprintError where it cannot be meant."""
        ...
