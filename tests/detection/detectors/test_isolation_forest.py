"""The isolation forest: fitted when it starts, from the bank's sample; always of an opinion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fingerprint.detection.detectors.isolation_forest import IsolationForestDetector
from fingerprint.detection.inference import LocalInference
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState
from tests.detection.detectors.conftest import Encode
from tests.support.stepwise_pipeline import SETTINGS


@pytest.fixture
def detector(bank: Bank, state: ScorerState) -> IsolationForestDetector:
    return IsolationForestDetector(SETTINGS, bank, state, LocalInference(bank))


def test_its_z_is_the_distance_from_the_median_of_the_sample_in_robust_deviations(
    detector: IsolationForestDetector, bank: Bank
) -> None:
    rows = bank.scorer_state["sample.fingerprint"], bank.scorer_state["sample.codes"]
    z = (detector.median - detector.forest.score_samples(detector._log_likelihoods(*rows))) / detector.scale
    assert abs(np.median(z)) < 1e-6
    assert 1.4826 * np.median(np.abs(z)) == pytest.approx(1.0, rel=1e-6)


def test_it_has_an_opinion_on_every_event_and_the_same_one_after_a_restart(
    detector: IsolationForestDetector, bank: Bank, state: ScorerState, encode: Encode, events: pd.DataFrame
) -> None:
    batch = encode(events, state)
    evidence = detector.measure(batch)
    assert (evidence.shape, evidence.dtype) == ((len(batch), 1), np.float32)
    again = IsolationForestDetector(SETTINGS, bank, state, LocalInference(bank)).measure(batch)
    np.testing.assert_array_equal(evidence, again)
    scored = replace(batch, evidence={detector.name: evidence})
    assert detector.has_opinion(scored).all()
    assert not np.isnan(detector.score(scored)).any()


def test_who_cannot_vote_any_more_lies_below_a_newcomers_threshold(
    detector: IsolationForestDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = encode(events, detector.state)
    batch = replace(batch, evidence={detector.name: detector.measure(batch)})
    may = detector.can_still_vote(batch)
    assert (detector.score(batch)[~may] < detector.threshold * detector.newcomer_share).all()


def test_what_no_value_of_which_was_ever_seen_stands_apart(
    detector: IsolationForestDetector, encode: Encode, events: pd.DataFrame
) -> None:
    batch = encode(events, detector.state)
    unseen = replace(batch, codes=np.full_like(batch.codes, 12345))
    usual, strange = (np.median(detector.measure(each)) for each in (batch, unseen))
    assert strange > usual
