"""What several quorums make of the same votes: one walk, an alert queue each.

Example:
    >>> panel = Panel(bank, ledger, settings, others=[Quorum("autoencoder, spectral", 2, explainer)])
    >>> for events in chunks:
    ...     said = panel.walk(events)                   # what the settings' own quorum says
    >>> panel.judged.table()                            # z's and votes of every event
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting import explanation
from fingerprint.alerting.explanation import Explainer, Groups
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Settings
from fingerprint.detection import ensemble
from fingerprint.detection.scorer import Judged as Batch
from fingerprint.detection.scorer import alert_ids
from fingerprint.estimators import tail_calibration
from fingerprint.evaluation.scored_events import Judged
from fingerprint.pipeline import Road, Said
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import Ledger

Shown = tuple[NDArray[np.float64], NDArray[np.bool_]]  # a method's score and flag of each event, (N,) each


class Quorum:
    """So many votes of some detectors, and the alerts that come of them, explained like those of the road it goes along."""

    def __init__(self, detectors: Sequence[str], votes: int, by: Explainer) -> None:
        self.detectors, self.votes, self.groups = tuple(detectors), votes, Groups(by)
        self.told: list[Alert] = []

    def add(self, judged: Batch) -> None:
        """Take its verdicts from events that more detectors have judged."""
        verdict = verdicts(judged.frame, self.detectors, self.votes)
        ids = alert_ids(judged.frame, verdict, self.groups.by.settings)
        self.groups.add(judged.batch, judged.frame.assign(verdict=verdict, alert_id=ids))

    def close(self, before: int | None) -> None:
        self.told += self.groups.close(before)

    def take(self) -> list[Alert]:
        """The alerts since the last call."""
        told, self.told = self.told, []
        return told


class Panel(Road):
    """A road on which every event is judged and kept small, and other quorums of the same votes are heard too: by name, the
    detectors and how many of them must vote."""

    def __init__(
        self, bank: Bank, ledger: Ledger, settings: Settings, others: Mapping[str, tuple[Sequence[str], int]]
    ) -> None:
        super().__init__(bank, ledger, settings, every_event=True)
        self.judged = Judged(settings.voting.detectors, settings.alerts.window_seconds)
        self.others = {name: Quorum(*wanted, self.groups.by) for name, wanted in others.items()}

    def _kept(self, judged: Batch | None) -> Said:
        if judged is not None:
            self.judged.add(judged.frame)
            for quorum in self.others.values():
                quorum.add(judged)
        return super()._kept(judged)

    def _over(self, before: int | None) -> list[Alert]:
        for quorum in self.others.values():
            quorum.close(before)
        return super()._over(before)


def verdicts(judged: pd.DataFrame, detectors: Sequence[str], votes: int) -> NDArray[np.bool_]:
    """Which judged events (N,) have so many votes of these detectors, or those of all who have an opinion."""
    return ensemble.verdicts(_votes(judged, detectors), votes, _opinions(judged, detectors))


def _votes(judged: pd.DataFrame, detectors: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    return {name: judged[f"{name}_vote"].to_numpy(bool) for name in detectors}


def _opinions(judged: pd.DataFrame, detectors: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    return ensemble.opinions({name: judged[f"{name}_z"].to_numpy(float) for name in detectors})


# --- as methods ---------------------------------------------------------------------------------------------


def by_urgency(judged: pd.DataFrame, detectors: Sequence[str], votes: int, urgency: pd.Series) -> Shown:
    """A quorum's verdicts, ranked by the urgency of their alert (by `group`). Below them what a lower threshold of the
    autoencoder would show, by the urgency it would have: so a number of alerts a day can be asked of it as of any other."""
    verdict = verdicts(judged, detectors, votes)
    needs = ensemble.needed(_opinions(judged, detectors), votes)
    others = _votes(judged, [name for name in detectors if name != "autoencoder"])
    lower = needs - sum(others.values(), np.zeros(len(judged), int)) <= 1
    would = np.where(lower, explanation.urgency(tail_calibration.nats(_z(judged, "autoencoder"))), -np.inf)
    return np.where(verdict, urgency.reindex(judged["group"]).to_numpy(float), would), verdict


def by_share(judged: pd.DataFrame, thresholds: Mapping[str, float]) -> Shown:
    """Any vote: ranked by the best z as a share of its detector's threshold."""
    share = [_z(judged, name) / at for name, at in thresholds.items()]
    return np.max(share, axis=0), verdicts(judged, list(thresholds), 1)


def alone(judged: pd.DataFrame, detector: str) -> Shown:
    """One detector's votes, ranked by its z."""
    return _z(judged, detector), judged[f"{detector}_vote"].to_numpy(bool)


def _z(judged: pd.DataFrame, detector: str) -> NDArray[np.float64]:
    return np.nan_to_num(judged[f"{detector}_z"].to_numpy(float), nan=-np.inf)
