"""The judgement of events: how far an event reaches, compared with verdicts at one threshold of alerts after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fingerprint.detection import ensemble
from fingerprint.detection.detectors import Detector
from fingerprint.detection.detectors.sequence import SequenceDetector
from fingerprint.detection.detectors.spectral import SpectralDetector
from fingerprint.detection.event_judge import EventJudge, Judgement
from fingerprint.registry.bank import PEER_LEVEL
from fingerprint.registry.quality import LEAST_THRESHOLD

EVENTS = 3_000
CLOSE = 1e-3  # of a threshold: a z is a float32, and a threshold is not


@dataclass
class JudgingDetector:
    """What a judge reads of a detector, with the z of all events given."""

    name: str
    threshold: float
    calibrated: bool = False
    second_vote_z: float = math.inf
    strong_vote_z: float = math.inf
    calm_newcomer_z: float = -math.inf
    final_when_closed: bool = False
    newcomers: Any = field(default=None)

    def __post_init__(self) -> None:
        self.second_threshold = min(self.threshold, self.second_vote_z)

    @classmethod
    def like(cls, kind: type[Detector], newcomers: Any = None) -> JudgingDetector:
        """Return a detector that votes from 1.7 on, with the other thresholds of a kind."""
        others = ("second_vote_z", "strong_vote_z", "calm_newcomer_z")
        return cls(kind.name, 1.7, newcomers=newcomers, **{each: getattr(kind, each) for each in others})

    def judges_newcomer(self, _: object) -> Any:
        return self.newcomers

    def can_still_vote(self, batch: Batch, _: object = None) -> NDArray[np.bool_]:
        return np.zeros(len(batch), bool)

    def has_opinion(self, batch: Batch) -> NDArray[np.bool_]:
        return np.ones(len(batch), bool)


@dataclass
class Batch:
    """What a judge reads of a batch of events."""

    level: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.level)

    def has_evidence(self, _: str) -> NDArray[np.bool_]:
        return np.ones(len(self), bool)


@dataclass
class Events:
    """Events of principals on every level, some of them newcomers that only the autoencoder and how others began judge."""

    seed: int = 0

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        self.level = random.integers(0, PEER_LEVEL + 2, EVENTS).astype(np.int8)
        self.newcomers = (self.level >= PEER_LEVEL) & (random.random(EVENTS) < 0.7)
        stranger = self.level >= PEER_LEVEL
        spectral, sequence = random.normal(0.5, 1.5, (2, EVENTS))
        spectral[stranger & ~self.newcomers] = np.nan
        spectral[random.random(EVENTS) < 0.1] = np.nan
        z = {
            "autoencoder": random.normal(2.5, 1.2, EVENTS),
            "spectral": spectral,
            "sequence": np.where(stranger, np.nan, sequence),
        }
        self.newcomers &= ~np.isnan(spectral)
        self.z = {name: each.astype(np.float32) for name, each in z.items()}

    def judged(
        self, alert_threshold: float, quorum: int, own_threshold: float = LEAST_THRESHOLD
    ) -> Judgement:
        """Judge the events as a scorer would whose budget sets this threshold of alerts."""
        detectors = [
            JudgingDetector("autoencoder", min(own_threshold, alert_threshold), calibrated=True),
            JudgingDetector.like(SpectralDetector, newcomers=self.newcomers),
            JudgingDetector.like(SequenceDetector),
        ]
        return EventJudge(detectors, alert_threshold, quorum).decide(Batch(self.level), self.z)  # type: ignore[arg-type]


@pytest.mark.parametrize("quorum", [1, 2, 3])
def test_an_event_opens_an_alert_at_each_threshold_that_it_reaches_and_at_no_other(quorum: int) -> None:
    """Second and strong votes, newcomers and calm beginnings among them."""
    events = Events()
    reach = events.judged(3.2, quorum).reach
    for threshold in (ensemble.MIN_REACH, 2.2, 2.4, 2.9, 3.2, 3.7, 4.5):
        verdict = events.judged(threshold, quorum).verdict
        close = np.abs(reach - threshold) < CLOSE
        np.testing.assert_array_equal((reach >= threshold) | close, verdict | close)
    assert 0.02 < (reach >= 3.2).mean() < 0.5


def test_an_event_reaches_as_far_where_a_second_calibrated_detector_votes_for_it() -> None:
    """A detector of another package may be calibrated, too: the stronger z opens the alert, and the other is a vote."""
    z = Events().z
    z = {"autoencoder": z["autoencoder"], "another": z["autoencoder"][::-1].copy(), "spectral": z["spectral"]}
    batch: Any = Batch(np.zeros(EVENTS, np.int8))

    def judged(threshold: float) -> Judgement:
        detectors = [JudgingDetector(name, ensemble.MIN_REACH, name != "spectral") for name in z]
        return EventJudge(detectors, threshold, 2).decide(batch, z)  # type: ignore[arg-type]

    reach = judged(3.2).reach
    for threshold in (ensemble.MIN_REACH, 2.4, 3.2, 4.5):
        close = np.abs(reach - threshold) < CLOSE
        np.testing.assert_array_equal((reach >= threshold) | close, judged(threshold).verdict | close)


def test_a_second_vote_says_how_far_an_event_reaches() -> None:
    """It is no vote by itself, so the store does not have it."""
    events = Events()
    reach, z = events.judged(3.2, 2).reach, events.z
    usual = (events.level < PEER_LEVEL) & (z["autoencoder"] >= 2.5)
    loudest = np.fmax(z["spectral"], z["sequence"])
    second = usual & (loudest >= ensemble.SECOND_VOTE_THRESHOLD) & (loudest < 1.6)
    agreed = (np.fmin(z["spectral"], z["sequence"]) >= ensemble.SECOND_VOTE_THRESHOLD) & ~np.isnan(
        z["spectral"]
    )
    np.testing.assert_allclose(reach[second & ~agreed], z["autoencoder"][second & ~agreed])
    below = usual & (loudest < ensemble.SECOND_VOTE_THRESHOLD)
    assert second.sum() > 100 < below.sum()
    assert np.isnan(reach[below]).all(), "no verdict at any threshold"


def test_an_event_reaches_as_far_whatever_the_autoencoder_votes_for_itself() -> None:
    """With a lower threshold of alerts it would vote for more."""
    events = Events()
    low, high = (events.judged(3.2, 2, own_threshold).reach for own_threshold in (LEAST_THRESHOLD, 3.0))
    np.testing.assert_array_equal(low, high)
    assert ((low >= ensemble.MIN_REACH) | np.isnan(low)).all()
    assert (low < 3.0).sum() > 100


def test_an_event_that_may_be_a_lead_waits_for_the_votes_of_the_others() -> None:
    """Also one that the autoencoder, which knows its z already, does not vote for; else it is judged when it is measured."""
    detectors = [JudgingDetector("autoencoder", 2.2, calibrated=True), JudgingDetector("spectral", 1.7)]
    z = np.array([1.4, ensemble.MIN_REACH * ensemble.NEWCOMER_THRESHOLD_SHARE, 2.1, 3.0], np.float32)
    judge = EventJudge(detectors, 3.2, 2)  # type: ignore[arg-type]
    batch: Any = Batch(np.zeros(len(z), np.int8))
    assert judge.can_reach_quorum(batch, {"autoencoder": z}).tolist() == [False, True, True, True]


def test_without_a_calibrated_detector_no_threshold_is_reached() -> None:
    detectors = [JudgingDetector("spectral", 1.7), JudgingDetector("sequence", 1.7)]
    z = {name: np.full(EVENTS, 5.0, np.float32) for name in ("spectral", "sequence")}
    batch = Batch(np.zeros(EVENTS, np.int8))
    judged = EventJudge(detectors, 3.2, 2).decide(batch, z)  # type: ignore[arg-type]
    assert judged.verdict.all()
    assert np.isnan(judged.reach).all()
