"""The judgement of events: detectors' z-scores -> thresholds, votes and verdicts, as `ensemble` says.

Example:
    >>> judge = EventJudge(detectors, alert_threshold=4.0, quorum=2)
    >>> judge.decide(batch, {"autoencoder": z, "spectral": series_z}).verdict
    array([ True, False])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats
from fingerprint.core.alert import (
    ALERT_THRESHOLD_COLUMN,
    LEVELS,
    NEWCOMER_COLUMN,
    threshold_column,
    vote_column,
    z_column,
)
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import Detector
from fingerprint.state.event_batch import EventBatch

LEAST_LEAD_Z = ensemble.MIN_REACH * ensemble.NEWCOMER_THRESHOLD_SHARE  # of a newcomer's event


class Judgement(NamedTuple):
    """The decision on N events: `thresholds` and `votes` by detector, `verdict` and `newcomer`, (N,) each.

    `alert_threshold` (N,) is the z that opens an alert, `reach` (N,) the highest threshold of alerts at which the event opens
    one, NaN without one. `newcomer` marks events that a detector compared with how others began.
    """

    thresholds: Mapping[str, NDArray[Any]]
    alert_threshold: NDArray[np.float64]
    votes: Mapping[str, NDArray[np.bool_]]
    verdict: NDArray[np.bool_]
    newcomer: NDArray[np.bool_]
    reach: NDArray[np.float64]

    def columns(self, z: Mapping[str, NDArray[Any]], level: NDArray[np.int8]) -> dict[str, NDArray[Any]]:
        """Return the columns of judged events (N,): z, vote and threshold of each detector, verdict, level and newcomer."""
        columns: dict[str, NDArray[Any]] = {z_column(name): each for name, each in z.items()}
        columns |= {vote_column(name): each for name, each in self.votes.items()}
        columns |= {threshold_column(name): each for name, each in self.thresholds.items()}
        columns |= {"verdict": self.verdict, "level": np.array(LEVELS, dtype=object)[level]}
        return columns | {
            ALERT_THRESHOLD_COLUMN: self.alert_threshold,
            NEWCOMER_COLUMN: self.newcomer,
        }


class EventJudge:
    """Judges measured events by the listed detectors and their thresholds. It keeps no state of the events."""

    def __init__(self, detectors: Sequence[Detector], alert_threshold: float, quorum: int) -> None:
        self.detectors, self.alert_threshold, self.quorum = detectors, alert_threshold, quorum
        self.strong_vote_threshold = ensemble.strong_vote_threshold(alert_threshold)

    def decide(self, batch: EventBatch, z: Mapping[str, NDArray[Any]], is_final: bool = True) -> Judgement:
        """Return votes and verdicts from the z of each detector, (N,) each, by the rules of `detection.ensemble`.

        Unless the judgement `is_final`, no event has a reach: more detectors may still vote for it.
        """
        by_newcomers = self.by_newcomers(batch)
        opinions = ensemble.opinion_masks(z) | {
            each.name: has_opinion(each, batch) for each in self.detectors if each.final_when_closed
        }
        opinions = ensemble.without_newcomers(opinions, by_newcomers)
        calm = self._began_calmly(z, by_newcomers)
        agreed = self._others_agree(z, opinions)
        share = ensemble.threshold_share(opinions, batch.level, calm)
        alert_threshold = np.where(agreed, self.strong_vote_threshold, self.alert_threshold) * share
        opening = {
            each.name: ensemble.reaches_threshold(z[each.name], alert_threshold)
            for each in self.detectors
            if each.calibrated
        }
        thresholds = self._vote_thresholds(opening, by_newcomers, opinions, batch.level)
        for name in opening:  # a z that opens an alert is also a vote
            agreed_threshold = np.minimum(thresholds[name], alert_threshold)
            thresholds[name] = np.where(agreed, agreed_threshold, thresholds[name])
        votes = {name: ensemble.reaches_threshold(z[name], least) for name, least in thresholds.items()}
        verdict = ensemble.opening_verdicts(votes, self.quorum, opinions, opening)
        newcomer = reduce(or_, by_newcomers.values(), np.zeros(len(batch), bool))
        reach = self._reach(z, share, opinions, agreed) if is_final else np.full(len(batch), np.nan)
        return Judgement(thresholds, alert_threshold, votes, verdict, newcomer, reach)

    def _vote_thresholds(
        self,
        opening: ensemble.VoteMasks,
        by_newcomers: ensemble.VoteMasks,
        opinions: ensemble.VoteMasks,
        level: NDArray[np.int8],
    ) -> dict[str, NDArray[np.float64]]:
        """Return the z (N,) from which each detector votes: it is lower beside a detector that is `opening` an alert."""
        beside = reduce(or_, opening.values(), np.False_)
        share = ensemble.threshold_share(opinions, level)
        return {
            each.name: np.where(beside, each.second_threshold, each.threshold)
            * np.where(by_newcomers.get(each.name, False), 1.0, share)
            for each in self.detectors
        }

    def _reach(
        self,
        z: Mapping[str, NDArray[Any]],
        share: NDArray[np.float64],
        opinions: ensemble.VoteMasks,
        agreed: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return the highest threshold of alerts at which each event (N,) opens an alert, NaN below MIN_REACH.

        An event that reaches less may not have been pending, so how the others would have voted is not known.
        """
        reach = np.full(len(agreed), np.nan)
        calibrated = [each.name for each in self.detectors if each.calibrated]
        rows = np.flatnonzero(agreed | self._may_be_lead(z))
        if not len(rows) or not calibrated:
            return reach
        some, known = ({name: each[rows] for name, each in of_all.items()} for of_all in (z, opinions))
        second = self._suffice(some, known)
        strongest = np.fmax.reduce([some[name] for name in calibrated]) / share[rows]
        found = ensemble.alert_reach(strongest, second, agreed[rows])
        reach[rows] = np.where(found >= ensemble.MIN_REACH, found, np.nan)
        return reach

    def _suffice(self, z: Mapping[str, NDArray[Any]], opinions: ensemble.VoteMasks) -> NDArray[np.bool_]:
        """Return which events (N,) lack no vote but that of the strongest calibrated z, if second votes count."""
        strongest = np.fmax.reduce([z[each.name] for each in self.detectors if each.calibrated])
        others = {
            each.name: (z[each.name] >= each.second_threshold)
            & ((z[each.name] < strongest) | (not each.calibrated))
            for each in self.detectors
        }
        return ensemble.suffice_beside_calibrated(others, opinions, self.quorum)

    def _others_agree(self, z: Mapping[str, NDArray[Any]], opinions: ensemble.VoteMasks) -> NDArray[np.bool_]:
        """Return a mask (N,) of the events on which the uncalibrated detectors agree, at least one of them strongly."""
        others = [each for each in self.detectors if not each.calibrated]
        votes = {each.name: z[each.name] >= each.second_threshold for each in others}
        strong = {each.name: z[each.name] >= each.strong_vote_z for each in others}
        return ensemble.agree_strongly(votes, strong, opinions, self.quorum)

    def by_newcomers(self, batch: EventBatch) -> dict[str, NDArray[np.bool_]]:
        """Return by detector a mask (N,) of the events that it compares with how others began, for detectors that do so."""
        judging = (each for each in self.detectors if each.calm_newcomer_z > -math.inf)
        return {each.name: each.judges_newcomer(batch) & batch.has_evidence(each.name) for each in judging}

    def _began_calmly(
        self, z: Mapping[str, NDArray[Any]], by_newcomers: Mapping[str, NDArray[np.bool_]]
    ) -> NDArray[np.bool_] | None:
        """Return a mask (N,) of the events in a calm beginning; None if no detector compares with how others began."""
        calm = [
            by_newcomers[each.name] & (z[each.name] < each.calm_newcomer_z)
            for each in self.detectors
            if each.name in by_newcomers
        ]
        return reduce(or_, calm) if calm else None

    def can_reach_quorum(self, batch: EventBatch, z: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Return a mask (N,) of the events that may still get a verdict, a later vote or a reach.

        `z` (N,) is by event detector.
        """
        may = {each.name: each.can_still_vote(batch, z.get(each.name)) for each in self.detectors}
        later = [
            may[each.name] & each.has_opinion(batch)
            for each in self.detectors
            if each.final_when_closed or each.strong_vote_z < math.inf
        ]
        strong = reduce(or_, (may[each.name] for each in self.detectors if each.calibrated), np.False_)
        for each in self.detectors:
            if each.second_threshold < each.threshold:
                may[each.name] = may[each.name] | strong
        return reduce(or_, later, ensemble.verdicts(may, self.quorum) | self._may_be_lead(z))

    def _may_be_lead(self, z: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Return a mask (N,) of the events whose z of a calibrated detector is enough for a lead, if the others vote as well."""
        calibrated = [z[each.name] for each in self.detectors if each.calibrated and each.name in z]
        none: Any = np.False_
        return reduce(or_, (each >= np.float32(LEAST_LEAD_Z) for each in calibrated), none)

    def least_open_threshold(self) -> float:
        """Return the lowest z that may open an alert while an interval is open."""
        of_newcomers = self.alert_threshold * ensemble.NEWCOMER_THRESHOLD_SHARE
        early = any(each.strong_vote_z < math.inf and not each.final_when_closed for each in self.detectors)
        return min(of_newcomers, self.strong_vote_threshold) if early else of_newcomers


def score_measured(detector: Detector, batch: EventBatch) -> Floats:
    """Return a detector's z of events (N,); NaN for events that were measured before the detector was listed."""
    if batch.has_all_evidence(detector.name):
        return detector.score(batch)
    measured = batch.has_evidence(detector.name)
    z = np.full(len(batch), np.nan, np.float32)
    if measured.any():
        z[measured] = detector.score(batch.take(measured))
    return z


def has_opinion(detector: Detector, batch: EventBatch) -> NDArray[np.bool_]:
    """Return a mask (N,) of the events on which a detector has an opinion."""
    return detector.has_opinion(batch) & batch.has_evidence(detector.name)
