"""What several quorums make of the same votes: one walk, an alert queue each.

Example:
    >>> panel = Panel(bank, ledger, settings, others=[Quorum("autoencoder, spectral", 2, explainer)])
    >>> for events in chunks:
    ...     said = panel.walk(events)                   # what the settings' own quorum says
    >>> panel.judged.table()                            # z's and votes of every event
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting import explanation
from fingerprint.alerting.explanation import Explainer
from fingerprint.alerting.grouping import AlertGroups, alert_ids
from fingerprint.core.alert import Alert, vote_column, z_column
from fingerprint.core.settings import Settings
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import detector_names
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.detection.scorer import ScoredEvents as Batch
from fingerprint.estimators import tail_calibration
from fingerprint.evaluation.event_table import ScoredEventTable
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState

ScoresAndFlags = tuple[
    NDArray[np.float64], NDArray[np.bool_]
]  # a method's score and flag of each event, (N,) each


class QuorumAlerts:
    """So many votes of some detectors, and the alerts that come of them, explained like those of the road it goes along."""

    def __init__(self, detectors: Sequence[str], votes: int, explainer: Explainer) -> None:
        self.detectors, self.votes, self.groups = tuple(detectors), votes, AlertGroups(explainer)
        self.alerts: list[Alert] = []

    def add(self, judged: Batch) -> None:
        """Take its verdicts from events that more detectors have judged."""
        verdict = quorum_verdicts(judged.frame, self.detectors, self.votes)
        ids = alert_ids(judged.frame, verdict, self.groups.explainer.settings)
        self.groups.add(replace(judged, frame=judged.frame.assign(verdict=verdict, alert_id=ids)))

    def close(self, before: int | None) -> None:
        self.alerts += self.groups.close_windows(before)

    def take_alerts(self) -> list[Alert]:
        """The alerts since the last call."""
        told, self.alerts = self.alerts, []
        return told


class MultiQuorumPipeline(DetectionPipeline):
    """A road on which every event is judged and kept small, and other quorums of the same votes are heard too: by name, the
    detectors and how many of them must vote."""

    def __init__(
        self,
        bank: Bank,
        ledger: ScorerState,
        settings: Settings,
        quorums: Mapping[str, tuple[Sequence[str], int]],
    ) -> None:
        super().__init__(bank, PipelineState(ledger), settings, keep_all_events=True)
        self.scored_events = ScoredEventTable(detector_names(settings), settings.alerts.group_window_seconds)
        self.quorums = {
            name: QuorumAlerts(*wanted, self.alert_groups.explainer) for name, wanted in quorums.items()
        }

    def _add_verdicts(self, judged: Batch | None) -> StepResult:
        if judged is not None:
            self.scored_events.add(judged.frame)
            for quorum in self.quorums.values():
                quorum.add(judged)
        return super()._add_verdicts(judged)

    def _close_alerts(self, before: int | None) -> list[Alert]:
        for quorum in self.quorums.values():
            quorum.close(before)
        return super()._close_alerts(before)


def quorum_verdicts(judged: pd.DataFrame, detectors: Sequence[str], votes: int) -> NDArray[np.bool_]:
    """Which judged events (N,) have so many votes of these detectors, or those of all who have an opinion."""
    return ensemble.verdicts(_detector_votes(judged, detectors), votes, _detector_opinions(judged, detectors))


def _detector_votes(judged: pd.DataFrame, detectors: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    return {name: judged[vote_column(name)].to_numpy(bool) for name in detectors}


def _detector_opinions(judged: pd.DataFrame, detectors: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    return ensemble.opinion_masks({name: judged[z_column(name)].to_numpy(float) for name in detectors})


# --- as methods ---------------------------------------------------------------------------------------------


def rank_by_urgency(
    judged: pd.DataFrame, detectors: Sequence[str], votes: int, urgency: pd.Series
) -> ScoresAndFlags:
    """A quorum's verdicts, ranked by the urgency of their alert (by `group`). Below them what a lower threshold of the
    autoencoder would show, by the urgency it would have: so a number of alerts a day can be asked of it as of any other."""
    verdict = quorum_verdicts(judged, detectors, votes)
    needs = ensemble.votes_needed(_detector_opinions(judged, detectors), votes)
    others = _detector_votes(judged, [name for name in detectors if name != AutoencoderDetector.name])
    lower = needs - sum(others.values(), np.zeros(len(judged), int)) <= 1
    would = np.where(
        lower,
        explanation.urgency_from_nats(
            tail_calibration.z_to_nats(_detector_z(judged, AutoencoderDetector.name))
        ),
        -np.inf,
    )
    return np.where(verdict, urgency.reindex(judged["group"]).to_numpy(float), would), verdict


def rank_by_threshold_share(judged: pd.DataFrame, thresholds: Mapping[str, float]) -> ScoresAndFlags:
    """Any vote: ranked by the best z as a share of its detector's threshold."""
    share = [_detector_z(judged, name) / at for name, at in thresholds.items()]
    return np.max(share, axis=0), quorum_verdicts(judged, list(thresholds), 1)


def rank_by_detector(judged: pd.DataFrame, detector: str) -> ScoresAndFlags:
    """One detector's votes, ranked by its z."""
    return _detector_z(judged, detector), judged[vote_column(detector)].to_numpy(bool)


def _detector_z(judged: pd.DataFrame, detector: str) -> NDArray[np.float64]:
    return np.nan_to_num(judged[z_column(detector)].to_numpy(float), nan=-np.inf)
