"""Several quorums over the same votes: one run of the pipeline, an alert queue each.

Example:
    >>> panel = MultiQuorumPipeline(bank, state, settings, {"both": (("autoencoder", "spectral"), 2)})
    >>> for events in chunks:
    ...     result = panel.process(events)              # of the settings' own quorum
    >>> panel.scored_events.to_frame()                  # z's and votes of every event
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting import impact, rarity
from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.grouping import AlertGroups
from fingerprint.analysis import leads
from fingerprint.compute import frames
from fingerprint.core.alert import Alert, AlertSpan, vote_column
from fingerprint.core.settings import Settings
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import calibrated_detectors, detector_names
from fingerprint.detection.scored_votes import (
    alert_reach,
    calm_newcomer_rows,
    detector_z,
    opinions_by_history,
    others_agree,
)
from fingerprint.detection.scorer import ScoredEvents as Batch
from fingerprint.estimators import tail_calibration
from fingerprint.evaluation.ablations import AblationScorer, variant_names
from fingerprint.evaluation.event_table import WINDOW_SECONDS, ScoredEventTable
from fingerprint.pipeline import DetectionPipeline, JudgedEvents
from fingerprint.registry import quality
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState

# a method's score and flag of each event, (N,) each
ScoresAndFlags = tuple[NDArray[np.float64], NDArray[np.bool_]]
Role = Literal["queue", "detector", "left out", "term", "peer"]


class Method(NamedTuple):
    """A method's `score` and `flagged` of each event, (N,) each, and where it stands in the table.

    A queue of the product's, a detector alone, a quorum with one left out, a detector with a term left out, or a peer.
    """

    score: NDArray[np.float64]
    flagged: NDArray[np.bool_]
    role: Role = "peer"


BELOW_ALERTS = 1_000.0  # more than an urgency and a z together: a lead ranks below every alert
OWN_VERDICT, REACH = "verdict", "reach"  # columns by the pipeline's own quorum


def verdict_column(quorum: str) -> str:
    """Return the column of the verdicts of a quorum by its name."""
    return f"verdict {quorum}"


class QuorumAlerts:
    """A number of votes of some detectors, and the alerts they make, explained as those of the pipeline are."""

    def __init__(self, detectors: Sequence[str], votes: int, explainer: Explainer) -> None:
        self.detectors, self.votes, self.groups = tuple(detectors), votes, AlertGroups(explainer)
        figures = explainer.bank.manifest["quality"]
        self.threshold = quality.alert_threshold(figures, explainer.settings.alerts)
        self.alerts: list[Alert] = []

    def add(self, judged: Batch) -> NDArray[np.bool_]:
        """Add scored events, with the verdicts of this quorum, which are returned (N,)."""
        votes, opinions = (of(judged.frame, self.detectors) for of in (_detector_votes, opinions_by_history))
        calm = calm_newcomer_rows(judged.frame, self.detectors)
        agreed = others_agree(judged.frame, self.detectors, opinions, self.votes)
        lower = ensemble.strong_vote_threshold(self.threshold)
        share = ensemble.threshold_share(opinions, judged.batch.level, calm)
        least = np.where(agreed, lower, self.threshold) * share
        opening = {
            name: detector_z(judged.frame, name) >= least.astype(np.float32)
            for name in calibrated_detectors(self.detectors)
        }
        verdict = ensemble.opening_verdicts(votes, self.votes, opinions, opening)
        table = frames.with_columns(judged.table, {"verdict": verdict})
        self.groups.add(replace(judged, table=table))
        return verdict

    def close(self, before: int | None) -> None:
        """Close the alerts that no event of interval `before` or later can join, all of them if None."""
        self.alerts += self.groups.close(before)

    def take_alerts(self) -> list[Alert]:
        """Return the alerts since the last call."""
        alerts, self.alerts = self.alerts, []
        return alerts


class MultiQuorumPipeline(DetectionPipeline):
    """A pipeline that keeps every scored event in compact form, and counts other quorums of the same votes besides.

    `quorums` names them: the detectors, and how many of them must vote.
    """

    def __init__(
        self,
        bank: Bank,
        state: ScorerState,
        settings: Settings,
        quorums: Mapping[str, tuple[Sequence[str], int]],
        terms: bool = False,
    ) -> None:
        """`terms`: score each event once more with each term of a detector left out (`evaluation.ablations`)."""
        super().__init__(bank, PipelineState(state), settings, keep_all_events=True)
        if terms:
            self.scorer = AblationScorer(bank, self.state, settings)
        self.scored_events = ScoredEventTable(
            detector_names(settings), WINDOW_SECONDS, list(variant_names(settings)) if terms else ()
        )
        self.quorums = {
            name: QuorumAlerts(*votes, self.alert_groups.explainer) for name, votes in quorums.items()
        }

    def _add_verdicts(self, judged: Batch | None) -> JudgedEvents:
        if judged is not None:
            verdicts = {verdict_column(name): quorum.add(judged) for name, quorum in self.quorums.items()}
            own = {OWN_VERDICT: judged.frame["verdict"].to_numpy(bool), REACH: judged.reach}
            self.scored_events.add(judged.frame, {**own, **verdicts})
        return super()._add_verdicts(judged)

    def _close_alerts(self, before: int | None) -> list[Alert]:
        for quorum in self.quorums.values():
            quorum.close(before)
        return super()._close_alerts(before)


def quorum_verdicts(judged: pd.DataFrame, detectors: Sequence[str], votes: int) -> NDArray[np.bool_]:
    """Return which scored events (N,) have `votes` votes of these detectors, or those of all that have an opinion."""
    return ensemble.verdicts(
        _detector_votes(judged, detectors), votes, opinions_by_history(judged, detectors)
    )


def _detector_votes(judged: pd.DataFrame, detectors: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    return {name: judged[vote_column(name)].to_numpy(bool) for name in detectors}


# --- as methods ---------------------------------------------------------------------------------------------


def rank_by_urgency(
    judged: pd.DataFrame, detectors: Sequence[str], votes: int, urgency: pd.Series
) -> ScoresAndFlags:
    """Return a quorum's verdicts in the windows of an alert, ranked by its urgency (by `group`).

    Below them comes what a lower threshold of alerts would show, by the urgency it would have: so a number of alerts a
    day can be asked of the quorum as of any other method.
    """
    own = urgency.reindex(judged["group"]).to_numpy(float)
    verdict = quorum_verdicts(judged, detectors, votes) & ~np.isnan(own)
    reach = alert_reach(judged, detectors, votes)
    nats = rarity.CALIBRATION * tail_calibration.z_to_nats(reach)
    would = np.where(reach > -np.inf, impact.urgency_from_nats(nats), -np.inf)
    return np.where(verdict, own, would), verdict


def rank_with_leads(
    judged: pd.DataFrame,
    served: ScoresAndFlags,
    alerts: Sequence[Alert],
    settings: Settings,
) -> ScoresAndFlags:
    """Return the served queue, and below all its alerts the leads beside them by their reach, which are not flagged.

    Leads are those of the product (`analysis.leads`), by the reach that it stores with votes.
    """
    score, flagged = served
    reach = judged[REACH].to_numpy(float)
    seconds = settings.spectral.interval_seconds
    interval = (judged["time"].to_numpy() // 1_000_000 // seconds).astype(np.int32)
    events = pd.DataFrame({"principal": judged["principal"].to_numpy(), "interval": interval, "reach": reach})
    spans = [AlertSpan(each.principal, each.first_event_time, each.last_event_time) for each in alerts]
    groups = leads.lead_groups(events, leads.alert_intervals(spans, seconds), settings)
    is_lead = events.index.isin(groups.index) & ~flagged
    return np.where(is_lead, reach - BELOW_ALERTS, score), flagged


def rank_as_served(
    judged: pd.DataFrame,
    detectors: Sequence[str],
    votes: int,
    urgency: pd.Series,
    column: str | None = None,
) -> ScoresAndFlags:
    """Return a quorum's verdicts in the windows of an alert, ranked by its urgency (by `group`); nothing else is ever shown.

    `column` of `judged` says which events opened an alert; without it, those with the votes that a verdict needs count.
    """
    own = urgency.reindex(judged["group"]).to_numpy(float)
    opened = judged[column].to_numpy(bool) if column else quorum_verdicts(judged, detectors, votes)
    verdict = opened & ~np.isnan(own)
    return np.where(verdict, own, -np.inf), verdict


def rank_by_combined_evidence(judged: pd.DataFrame, detectors: Sequence[str], shown: int) -> ScoresAndFlags:
    """Return all events ranked by the evidence of all detectors together; the `shown` best are flagged.

    A z of one detector is no z of another, so each counts by minus the logarithm of the share of scored events with as high a z;
    no opinion counts nothing. No threshold, no quorum and no label is used.
    """
    evidence = np.zeros(len(judged))
    for name in detectors:
        z = detector_z(judged, name)
        above = len(z) - np.searchsorted(np.sort(z), z)  # events with as high a z, itself among them
        evidence += np.where(np.isfinite(z), -np.log(above / max(len(z), 1)), 0.0)
    return evidence, flag_strongest(evidence, shown)


def rank_by_variant(judged: pd.DataFrame, variant: str, shown: int) -> ScoresAndFlags:
    """Return all events ranked by the z of a detector with a term left out; the `shown` best are flagged.

    Its votes are as many as those of the whole detector, because the threshold was learned with all terms.
    """
    z = detector_z(judged, variant)
    return z, flag_strongest(z, shown)


def flag_strongest(score: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """Return which events (N,) are the `count` with the highest score, and those with as high a one as the last."""
    finite = np.sort(score[np.isfinite(score)])[::-1]
    if not count or not len(finite):
        return np.zeros(len(score), bool)
    flagged: NDArray[np.bool_] = score >= finite[min(count, len(finite)) - 1]
    return flagged


def rank_by_threshold_share(judged: pd.DataFrame, thresholds: Mapping[str, float]) -> ScoresAndFlags:
    """Return the events with any vote, ranked by the best z as a share of its detector's threshold."""
    share = [detector_z(judged, name) / at for name, at in thresholds.items()]
    return np.max(share, axis=0), quorum_verdicts(judged, list(thresholds), 1)


def rank_by_detector(judged: pd.DataFrame, detector: str) -> ScoresAndFlags:
    """Return one detector's votes, ranked by its z."""
    return detector_z(judged, detector), judged[vote_column(detector)].to_numpy(bool)
