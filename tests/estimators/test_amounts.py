"""Amounts: nats of an interval's calls by what a principal usually makes of an action."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.compute.arrays import identity_placement
from fingerprint.estimators import amounts
from fingerprint.estimators.amounts import UsualAmounts

HOST = identity_placement


def test_calls_are_summed_by_principal_interval_and_action() -> None:
    principal = np.array([1, 1, 1, 2], np.uint64)
    interval = np.array([5, 5, 6, 5], np.int32)
    action = np.array([9, 9, 9, 9], np.uint64)
    calls = amounts.interval_calls(principal, interval, action, np.array([2, 3, 4, 7], np.float32))
    assert calls.events[calls.place].tolist() == [5, 5, 4, 7]
    usual = amounts.usual_amounts(calls.of_action, calls.events)
    known = UsualAmounts.from_columns(usual)
    assert known.most(principal, action).tolist() == [5, 5, 5, 7]
    assert known.usual(principal[:1], action[:1])[0] == pytest.approx(np.sqrt((25 + 16 + 36) / 3))
    assert known.usual(np.array([3], np.uint64), action[:1])[0] == pytest.approx(amounts.PRIOR_CALLS)
    assert known.most(np.array([3], np.uint64), action[:1])[0] == 0


def test_the_tail_is_fitted_to_over_dispersed_calls() -> None:
    random = np.random.default_rng(0)
    ratio = random.exponential(0.4, 20_000)
    edge, slope = amounts.fit_amount_tail(ratio)
    assert (edge, slope) == (pytest.approx(0.4 * np.log(20), abs=0.05), pytest.approx(0.4, abs=0.03))
    assert amounts.fit_amount_tail(np.empty(0)) == (amounts.DEFAULT_EDGE, amounts.DEFAULT_SLOPE)


def test_nats_grow_with_calls_and_are_bounded() -> None:
    calls = np.array([1, 4, 9, 20, 60, 212, 10_000])
    nats = amounts.amount_nats(calls, np.log(4) + 0.8, 0.3)
    assert (np.diff(nats) >= 0).all()
    assert nats[:2].tolist() == [0, 0]
    assert 0 < nats[2] < nats[3] < nats[4] < amounts.MAX_AMOUNT_NATS
    assert nats[-1] == amounts.MAX_AMOUNT_NATS
    assert not amounts.amount_nats(calls, np.log(4) + 0.8, 0.0).any(), "a slope of 0 carries nothing"


@pytest.mark.parametrize("usual", [1.0, 6.0, 30.0])
def test_some_calls_of_a_large_amount_carry_it_and_few_of_a_usual_one(usual: float) -> None:
    known = UsualAmounts.from_columns(amounts.usual_amounts(np.empty(0, np.uint64), np.empty(0)))
    ids = np.random.default_rng(0).integers(0, 2**64, 200_000, np.uint64)
    log_usual, slope = known.carried(np.full(len(ids), usual, np.float32), ids)
    alerting = np.exp(log_usual[0] + known.slope * amounts.ALERTING_NATS / amounts.NATS_PER_SLOPE)
    assert (slope > 0).mean() * alerting == pytest.approx(amounts.CARRIERS, rel=0.1)
    again = known.carried(np.full(10, usual, np.float32), ids[:10])[1]
    np.testing.assert_array_equal(again, slope[:10])


def test_hardly_a_burst_has_no_call_that_carries_it() -> None:
    known = UsualAmounts.from_arrays({}, HOST)
    ids = np.random.default_rng(1).integers(0, 2**64, (2_000, 60), np.uint64)
    _, slope = known.carried(np.full(ids.size, amounts.PRIOR_CALLS, np.float32), ids.ravel())
    assert (slope.reshape(ids.shape) > 0).any(axis=1).mean() > 0.95


def test_a_bank_without_amounts_knows_none() -> None:
    known = UsualAmounts.from_arrays({}, HOST)
    assert known.usual(np.ones(2, np.uint64), np.ones(2, np.uint64)).tolist() == [6, 6]
