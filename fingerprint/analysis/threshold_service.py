"""What events are held to, as people choose it: a port that stands on the desk's votes and on the bank that is served.

Example:
    >>> threshold = thresholds.wanted(alerts_per_day=5, quorum=2)
    >>> thresholds.foreseen(threshold, quorum=2).found          # of the attacks that analysts confirmed
    3
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import numpy as np

from fingerprint.analysis import threshold_what_if
from fingerprint.analysis.threshold_what_if import ThresholdWhatIf, VoteHistory
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import MAX_THRESHOLD, ThresholdEstimate, ThresholdOverride
from fingerprint.core.ports import Clock
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.features.vocabulary import Floats
from fingerprint.registry import bank as banks
from fingerprint.registry import quality, versions
from fingerprint.training import attack_injection

HISTORY_DAYS = 14  # of history that is asked
CACHE_SECONDS = 60  # for so long the same votes are asked again
QUORUMS = (1, 2)  # of the autoencoder and the spectral detector
CURVE_POINTS = 40  # of a curve
MAX_CURVE_THRESHOLD = 8.0  # the highest threshold of a curve: one active interval in 10^15


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


class ThresholdForecast:
    """A `ports_thresholds.Thresholds`. What is read for it is kept for a minute: a page asks several times."""

    def __init__(
        self,
        store: Store,
        folder: Path | None,
        settings: Settings,
        clock: Clock,
        days: float = HISTORY_DAYS,
    ):
        self.store, self.folder, self.settings, self.clock, self.days = store, folder, settings, clock, days
        self._recent_votes: VoteHistory | None = None
        self._read_at = clock.now()
        self._known_attack_scores: tuple[str, Floats] | None = None  # of a bank's version

    def current(self) -> ThresholdEstimate:
        held = threshold_what_if.apply_override(self.settings, self.store.thresholds.current())
        return self.estimate(self._effective_threshold(held), held.voting.quorum)

    def threshold_for_rate(self, alerts_per_day: float, quorum: int) -> float:
        lowest = self.settings.database.min_vote_score  # below it votes are not kept
        return float(np.clip(self._what_if(quorum).threshold_for(alerts_per_day), lowest, MAX_THRESHOLD))

    def estimate(self, threshold: float, quorum: int) -> ThresholdEstimate:
        return threshold_what_if.estimate_threshold(
            self._what_if(quorum), threshold, quorum, self.known_attack_scores()
        )

    def estimate_curve(self, quorum: int) -> Sequence[ThresholdEstimate]:
        thresholds = np.linspace(self.settings.database.min_vote_score, MAX_CURVE_THRESHOLD, CURVE_POINTS)
        tuning, known = self._what_if(quorum), self.known_attack_scores()
        return [
            threshold_what_if.estimate_threshold(tuning, float(each), quorum, known) for each in thresholds
        ]

    def hidden_alerts(self, threshold: float, quorum: int, limit: int = 50) -> Sequence[str]:
        reach, past = self._what_if(quorum).alert_reach, self.recent_votes()
        shown = set(reach.index[reach >= threshold].astype(str))
        there = [alert_id for alert_id in past.stored_alerts if alert_id not in shown]
        return sorted(there, key=lambda each: (each not in past.confirmed, -reach.get(each, 0.0), each))[
            :limit
        ]

    def override_history(self) -> Sequence[ThresholdOverride]:
        return self.store.thresholds.history()

    def set_override(
        self, threshold: float | None, quorum: int | None, reason: str, by: str
    ) -> ThresholdOverride:
        now = self.clock.now()
        wanted = ThresholdOverride(
            0, now, by, reason, threshold, quorum, threshold is None and quorum is None
        )
        threshold_what_if.apply_override(
            self.settings, wanted
        )  # refused here, rather than by every program that reads it
        return self.store.thresholds.override(now, by, reason, threshold, quorum)

    # --- what it rests on ---------------------------------------------------------------------------------------------

    def recent_votes(self) -> VoteHistory:
        """The votes of the last days that the desk has seen."""
        now = self.clock.now()
        if self._recent_votes is None or now - self._read_at > timedelta(seconds=CACHE_SECONDS):
            newest = self.store.votes.newest_time() or now
            since = newest - timedelta(days=self.days)
            there = self.store.alerts.ids_since(since)
            self._recent_votes = VoteHistory.from_votes(
                self.store.votes.read(since=since), self.store.cases.current_decisions(), self.settings, there
            )
            self._read_at = now
        return self._recent_votes

    def known_attack_scores(self) -> Floats | None:
        """The z of known attacks, tried as principals of the bank that is served; None without one."""
        if self.folder is None or not versions.served_version(self.folder):
            return None
        version = versions.require_served_version(self.folder)
        if self._known_attack_scores is None or self._known_attack_scores[0] != version:
            bank = banks.open_bank(self.folder, self.settings.bank, version)
            attacks = attack_injection.inject_known_attacks(bank, self.settings)
            self._known_attack_scores = (
                version,
                attack_injection.attack_scores(bank, attacks, self.settings.autoencoder),
            )
        return self._known_attack_scores[1]

    def _effective_threshold(self, held: Settings) -> float:
        """As it is set, or by the bank's held-out days where alerts a day are."""
        if held.autoencoder.target_alerts_per_day is None or not (
            self.folder and versions.served_version(self.folder)
        ):
            return held.autoencoder.threshold
        place = versions.version_folder(self.folder, versions.require_served_version(self.folder))
        return quality.calibrated_threshold(
            banks.read_manifest(place, self.settings.bank)["quality"], held.autoencoder
        )

    def _what_if(self, quorum: int) -> ThresholdWhatIf:
        if quorum not in QUORUMS:
            raise FingerprintError(f"one of two votes can be foreseen, and both: a quorum of {quorum} cannot")
        return self.recent_votes().what_if(quorum)
