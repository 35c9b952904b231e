"""What events are held to: foreseen by the desk's votes and the served bank's known attacks, chosen at the desk.

Example:
    >>> thresholds = Foreseeing(desk, Path("bank"), settings, SystemClock())
    >>> thresholds.foreseen(thresholds.wanted(5, quorum=2), quorum=2).alerts_per_day
    4.8
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np

from fingerprint.analysis import threshold_preview
from fingerprint.analysis.threshold_preview import Past
from fingerprint.analysis.threshold_what_if import Tuning
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import Foreseen, Tuned
from fingerprint.core.ports import Clock
from fingerprint.core.settings import Settings
from fingerprint.features.vocabulary import Floats
from fingerprint.registry import bank as banks
from fingerprint.registry import quality, versions
from fingerprint.store.alerts import SqlDesk
from fingerprint.store.threshold_overrides import HIGHEST
from fingerprint.training import attack_injection

DAYS = 14  # of history that is asked
FRESH_SECONDS = 60  # for so long the same votes are asked again
QUORUMS = (1, 2)  # of the autoencoder and the spectral detector
POINTS = 40  # of a curve
TOP = 8.0  # the highest threshold of a curve: one active interval in 10^15


class Foreseeing:
    """A `ports_thresholds.Thresholds`. What is read for it is kept for a minute: a page asks several times."""

    def __init__(
        self, desk: SqlDesk, folder: Path | None, settings: Settings, clock: Clock, days: float = DAYS
    ):
        self.desk, self.folder, self.settings, self.clock, self.days = desk, folder, settings, clock, days
        self._past: Past | None = None
        self._read_at = clock.now()
        self._known: tuple[str, Floats] | None = None  # of a bank's version

    def holds(self) -> Foreseen:
        held = threshold_preview.applied(self.settings, self.desk.tuned())
        return self.foreseen(self._threshold(held), held.voting.quorum)

    def wanted(self, alerts_per_day: float, quorum: int) -> float:
        lowest = self.settings.desk.vote_floor  # below it votes are not kept
        return float(np.clip(self._tuning(quorum).threshold_for(alerts_per_day), lowest, HIGHEST))

    def foreseen(self, threshold: float, quorum: int) -> Foreseen:
        return threshold_preview.foreseen(self._tuning(quorum), threshold, quorum, self.known())

    def curve(self, quorum: int) -> Sequence[Foreseen]:
        thresholds = np.linspace(self.settings.desk.vote_floor, TOP, POINTS)
        tuning, known = self._tuning(quorum), self.known()
        return [threshold_preview.foreseen(tuning, float(each), quorum, known) for each in thresholds]

    def lost(self, threshold: float, quorum: int, limit: int = 50) -> Sequence[str]:
        reach, past = self._tuning(quorum).alerts, self.past()
        shown = set(reach.index[reach >= threshold].astype(str))
        there = [alert_id for alert_id in past.there if alert_id not in shown]
        return sorted(there, key=lambda each: (each not in past.confirmed, -reach.get(each, 0.0), each))[
            :limit
        ]

    def chosen(self) -> Sequence[Tuned]:
        return self.desk.tunings()

    def choose(self, threshold: float | None, quorum: int | None, why: str, by: str) -> Tuned:
        now = self.clock.now()
        wanted = Tuned(0, now, by, why, threshold, quorum, threshold is None and quorum is None)
        threshold_preview.applied(
            self.settings, wanted
        )  # refused here, rather than by every program that reads it
        return self.desk.tune(now, by, why, threshold, quorum)

    # --- what it rests on ---------------------------------------------------------------------------------------------

    def past(self) -> Past:
        """The votes of the last days that the desk has seen."""
        now = self.clock.now()
        if self._past is None or now - self._read_at > timedelta(seconds=FRESH_SECONDS):
            newest = self.desk.newest_vote() or now
            since = newest - timedelta(days=self.days)
            there = self.desk.alerts_since(since)
            self._past = Past.of(self.desk.votes(since=since), self.desk.standing(), self.settings, there)
            self._read_at = now
        return self._past

    def known(self) -> Floats | None:
        """The z of known attacks, tried as principals of the bank that is served; None without one."""
        if self.folder is None or not versions.served(self.folder):
            return None
        version = versions.current(self.folder)
        if self._known is None or self._known[0] != version:
            bank = banks.open_bank(self.folder, self.settings.bank, version)
            attacks = attack_injection.of_bank(bank, self.settings)
            self._known = version, attack_injection.strangest(bank, attacks, self.settings.autoencoder)
        return self._known[1]

    def _threshold(self, held: Settings) -> float:
        """As it is set, or by the bank's held-out days where alerts a day are."""
        if held.autoencoder.alerts_per_day is None or not (self.folder and versions.served(self.folder)):
            return held.autoencoder.threshold
        place = versions.place(self.folder, versions.current(self.folder))
        return quality.threshold_of(banks.manifest_of(place, self.settings.bank)["quality"], held.autoencoder)

    def _tuning(self, quorum: int) -> Tuning:
        if quorum not in QUORUMS:
            raise FingerprintError(f"one of two votes can be foreseen, and both: a quorum of {quorum} cannot")
        return self.past().of_quorum(quorum)
