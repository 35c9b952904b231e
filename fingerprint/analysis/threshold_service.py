"""Threshold service: estimates for thresholds, from the votes in the alert store and the served bank, and the override in force.

Example:
    >>> thresholds = ThresholdForecast(store, Path("bank"), settings, SystemClock())
    >>> threshold = thresholds.threshold_for_rate(alerts_per_day=5, quorum=2)
    >>> thresholds.estimate(threshold, quorum=2).alerts_per_day
    4.8
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import numpy as np

from fingerprint.analysis import threshold_what_if
from fingerprint.analysis.threshold_what_if import ThresholdWhatIf, VoteHistory
from fingerprint.compute.arrays import Floats
from fingerprint.core.case import MAX_THRESHOLD, ThresholdEstimate, ThresholdOverride
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.clock import Clock
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.registry import bank_files, quality, versions
from fingerprint.training import attack_injection

HISTORY_DAYS = 14  # days of votes behind an estimate
CACHE_SECONDS = 60  # votes are read again after so long
CURVE_POINTS = 40  # of a curve
MAX_CURVE_THRESHOLD = 8.0  # the highest threshold of a curve: one active interval in 10^15
_BEFORE_ALL_OVERRIDES = datetime.fromtimestamp(0, UTC)


class ThresholdService(Protocol):
    """Estimates for thresholds, and the choice of one. A threshold is a z of the autoencoder.

    An estimate says how many alerts a threshold would have shown in the last days.
    """

    @property
    def detector_count(self) -> int:
        """Return the number of detectors that vote: the largest quorum."""
        ...

    def current(self) -> ThresholdEstimate:
        """Return the estimate for the threshold and quorum in force."""
        ...

    def known_threshold(self) -> float | None:
        """Return the z that opens an alert now; None where a budget sets it and no bank says which z that is."""
        ...

    def threshold_for_rate(self, alerts_per_day: float, quorum: int) -> float:
        """Return the lowest threshold that would have shown at most so many alerts a day."""
        ...

    def estimate(self, threshold: float, quorum: int) -> ThresholdEstimate:
        """Return the estimate for a threshold and a quorum."""
        ...

    def estimate_rate(self, alerts_per_day: float, quorum: int) -> ThresholdEstimate:
        """Return the estimate for the threshold of a number of alerts a day, and in `unmet` why it cannot be met."""
        ...

    def estimate_curve(self, quorum: int) -> Sequence[ThresholdEstimate]:
        """Return estimates for the thresholds that people may want, the lowest first."""
        ...

    def hidden_alerts(self, threshold: float, quorum: int, limit: int = 50) -> Sequence[str]:
        """Return ids of stored alerts of those days that would not have been shown, confirmed attacks first."""
        ...

    def override_history(self) -> Sequence[ThresholdOverride]:
        """Return who chose which threshold, the newest first."""
        ...

    def set_override(
        self,
        threshold: float | None,
        quorum: int | None,
        reason: str,
        by: str,
        alerts_per_day: float | None = None,
    ) -> ThresholdOverride:
        """Override threshold and quorum from now on; without both, return to the configured ones.

        `alerts_per_day` is a budget that the threshold must keep; without a threshold, one is found for it. Raise
        FingerprintError if the budget cannot be kept, or if threshold and quorum do not fit the settings.
        """
        ...


class ThresholdForecast:
    """A `ThresholdService` over the alert store and a bank folder.

    Votes are cached for CACHE_SECONDS, because a page needs them several times.
    """

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

    @property
    def detector_count(self) -> int:
        """Return the number of detectors that vote: the largest quorum."""
        return len(self.settings.voting.detectors)

    def current(self) -> ThresholdEstimate:
        """Return the estimate for the threshold and quorum in force."""
        settings = self._settings_in_force()
        return self.estimate(self._effective_threshold(settings), settings.voting.quorum)

    def known_threshold(self) -> float | None:
        """Return the z that opens an alert now; None where a budget sets it and no bank says which z that is."""
        settings = self._settings_in_force()
        is_known = settings.alerts.threshold is not None or self._served_version() is not None
        return self._effective_threshold(settings) if is_known else None

    def threshold_for_rate(self, alerts_per_day: float, quorum: int) -> float:
        """Return the lowest threshold that would have shown at most so many alerts a day, within the votes that are kept."""
        lowest = self.settings.database.min_vote_score  # votes below it are not stored
        return float(np.clip(self._what_if(quorum).threshold_for(alerts_per_day), lowest, MAX_THRESHOLD))

    def estimate(self, threshold: float, quorum: int) -> ThresholdEstimate:
        """Return the estimate for a threshold and a quorum; `note` says if it lies below the votes that are kept."""
        estimate = threshold_what_if.estimate_threshold(
            self._what_if(quorum), threshold, quorum, self.known_attack_scores()
        )
        return threshold_what_if.with_floor_note(estimate, self.settings.database.min_vote_score)

    def estimate_rate(self, alerts_per_day: float, quorum: int) -> ThresholdEstimate:
        """Return the estimate for the threshold of a number of alerts a day, and in `unmet` why it cannot be met."""
        return self._judge(
            self.estimate(self.threshold_for_rate(alerts_per_day, quorum), quorum), alerts_per_day
        )

    def _judge(self, estimate: ThresholdEstimate, alerts_per_day: float) -> ThresholdEstimate:
        lowest = self.settings.database.min_vote_score
        return threshold_what_if.judge_budget(estimate, alerts_per_day, self.detector_count, lowest)

    def estimate_curve(self, quorum: int) -> Sequence[ThresholdEstimate]:
        """Return CURVE_POINTS estimates from the floor of kept votes to MAX_CURVE_THRESHOLD."""
        thresholds = np.linspace(self.settings.database.min_vote_score, MAX_CURVE_THRESHOLD, CURVE_POINTS)
        tuning, known = self._what_if(quorum), self.known_attack_scores()
        return [
            threshold_what_if.estimate_threshold(tuning, float(each), quorum, known) for each in thresholds
        ]

    def hidden_alerts(self, threshold: float, quorum: int, limit: int = 50) -> Sequence[str]:
        """Return ids of stored alerts that would not have been shown: confirmed attacks first, then the strongest."""
        reach, past = self._what_if(quorum).stored_reach, self.recent_votes()
        shown = set(reach.index[reach >= threshold].astype(str))
        there = [alert_id for alert_id in past.stored_alerts if alert_id not in shown]
        return sorted(there, key=lambda each: (each not in past.confirmed, -reach.get(each, 0.0), each))[
            :limit
        ]

    def override_history(self) -> Sequence[ThresholdOverride]:
        """Return who chose which threshold, the newest first."""
        return self.store.thresholds.history()

    def set_override(
        self,
        threshold: float | None,
        quorum: int | None,
        reason: str,
        by: str,
        alerts_per_day: float | None = None,
        may_hide_all: bool = True,
    ) -> ThresholdOverride:
        """Store an override. Raise FingerprintError, and store nothing, if it is refused.

        Refused are:
        - threshold and quorum that do not fit the settings: otherwise every program that reads the override would refuse it
        - an alert budget that cannot be met
        - unless it `may_hide_all`, a threshold or quorum that would have shown none of the alerts of the last days
        """
        if alerts_per_day is not None:
            quorum = quorum or self.current().quorum
            threshold = threshold or round(self.threshold_for_rate(alerts_per_day, quorum), 3)
            if unmet := self._judge(self.estimate(threshold, quorum), alerts_per_day).unmet:
                raise FingerprintError(unmet)
        now = self.clock.now()
        override = ThresholdOverride(
            0, now, by, reason, threshold, quorum, threshold is None and quorum is None
        )
        # Refused here, rather than by every program that reads it.
        settings = threshold_what_if.apply_override(self.settings, override)
        if not (override.cleared or may_hide_all):
            self._refuse_to_hide_all(settings.alerts.threshold, settings.voting.quorum)
        return self.store.thresholds.override(now, by, reason, threshold, quorum)

    def stored_alerts_per_day(self) -> float:
        """Return the number of stored alerts a day, in the last days."""
        past = self.recent_votes()
        return len(past.stored_alerts) / past.days

    def _refuse_to_hide_all(self, threshold: float | None, quorum: int) -> None:
        """Raise FingerprintError if the last days had alerts and would have shown none. A threshold of None is the budget's."""
        least = quality.LEAST_THRESHOLD if threshold is None else threshold
        if self.stored_alerts_per_day() and not self.estimate(least, quorum).alerts_per_day:
            what = "" if threshold is None else f"a threshold of {threshold:g} with "
            raise FingerprintError(
                f"{what}{quorum} votes would have shown no alert of the last {self.days:g} days, and "
                f"there were {len(self.recent_votes().stored_alerts):,}: give --force if that is meant"
            )

    # --- what it rests on ---------------------------------------------------------------------------------------------

    def recent_votes(self) -> VoteHistory:
        """Return the votes of the last days in the alert store."""
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
        """Return the z of known attacks in the name of the served bank's principals; None without a bank."""
        if self.folder is None or not versions.served_version(self.folder):
            return None
        version = versions.require_served_version(self.folder)
        if self._known_attack_scores is None or self._known_attack_scores[0] != version:
            bank = bank_files.open_bank(self.folder, self.settings.bank, version)
            attacks = attack_injection.inject_known_attacks(bank, self.settings)
            self._known_attack_scores = (
                version,
                attack_injection.attack_scores(bank, attacks),
            )
        return self._known_attack_scores[1]

    def _settings_in_force(self) -> Settings:
        return threshold_what_if.apply_override(self.settings, self.store.thresholds.current())

    def _served_version(self) -> str | None:
        return versions.served_version(self.folder) if self.folder else None

    def _effective_threshold(self, settings: Settings) -> float:
        """Return the configured threshold, or the one that the bank's held-out days give for the alert budget."""
        if settings.alerts.threshold is not None:
            return settings.alerts.threshold
        if not (self.folder and self._served_version()):
            return quality.DEFAULT_THRESHOLD
        place = versions.version_folder(self.folder, versions.require_served_version(self.folder))
        return quality.alert_threshold(
            bank_files.read_manifest(place, self.settings.bank)["quality"], settings.alerts
        )

    def _what_if(self, quorum: int) -> ThresholdWhatIf:
        if not 1 <= quorum <= self.detector_count:
            raise FingerprintError(
                f"alerts can be estimated for a quorum of 1 to {self.detector_count} votes, not of {quorum}"
            )
        return self.recent_votes().what_if(quorum, self._in_force_since(quorum))

    def _in_force_since(self, quorum: int) -> datetime | None:
        """Return the time since when a quorum has been in force without a break; None if another one is."""
        configured, since = self.settings.voting.quorum, None
        for override in self.store.thresholds.history():  # the newest first
            if (override.quorum or configured) != quorum:
                return since
            since = override.at
        return _BEFORE_ALL_OVERRIDES if quorum == configured else since
