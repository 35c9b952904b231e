"""Amounts: nats of an hour's and a day's calls by what a principal usually makes of an action."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from fingerprint.compute.arrays import identity_placement
from fingerprint.estimators import amounts
from fingerprint.estimators.amounts import UsualAmounts
from fingerprint.features.encoding import FEATURE_NAMES

HOST = identity_placement
PRIORS = [amounts.PRIOR_CALLS, amounts.PRIOR_CALLS_A_DAY, amounts.PRIOR_UNUSUAL_CALLS]


def test_calls_are_summed_by_principal_interval_and_action() -> None:
    principal = np.array([1, 1, 1, 2], np.uint64)
    interval = np.array([5, 5, 6, 5], np.int32)
    action = np.array([9, 9, 9, 9], np.uint64)
    calls = amounts.interval_calls(principal, interval, action, np.array([2, 3, 4, 7], np.float32))
    first, _, _, second = amounts.action_key(principal, action).tolist()
    summed = zip(calls.of_action.tolist(), calls.events.tolist(), strict=True)
    assert sorted(summed) == sorted([(first, 5), (first, 4), (second, 7)])
    known = UsualAmounts.from_columns(
        amounts.usual_by_window((calls.of_action, calls.events), (calls.of_action[:1], np.array([9.0])))
    )
    assert known.most(principal, action)[:, 0].tolist() == [5, 5, 5, 7]
    assert known.usual(principal[:1], action[:1])[0, 0] == pytest.approx(np.sqrt((25 + 16 + 36) / 3))
    stranger = np.array([3], np.uint64)
    assert known.usual(stranger, action[:1])[0].tolist() == PRIORS
    assert known.most(stranger, action[:1])[0].tolist() == [0, 0, 0]
    assert known.is_new(np.array([1, 3], np.uint64), action[:2]).tolist() == [False, True]


def test_a_day_is_the_intervals_that_end_with_one() -> None:
    random = np.random.default_rng(0)
    principal, action = (random.integers(0, 3, 400).astype(np.uint64) for _ in range(2))
    interval = random.integers(1000, 1100, 400).astype(np.int32)
    events = random.integers(0, 9, 400).astype(np.float32)
    for length in (1, 24):
        wanted = [
            events[(principal == p) & (action == a) & (interval <= at) & (interval > at - length)].sum()
            for p, a, at in zip(principal, action, interval, strict=True)
        ]
        assert amounts.calls_of_last_day(principal, interval, action, events, length).tolist() == wanted


def test_a_resource_is_unusual_where_its_surprise_is_and_calls_on_it_are_counted_apart() -> None:
    surprise = np.zeros((3, len(FEATURE_NAMES)), np.float32)
    surprise[1, FEATURE_NAMES.index("resource")] = amounts.UNUSUAL_RESOURCE_NATS
    surprise[2, FEATURE_NAMES.index("program")] = 10
    assert amounts.has_unusual_resource(surprise).tolist() == [False, True, False]
    action = np.array([7, 8, 7], np.uint64)
    apart = amounts.unusual_resources_of(action)
    assert apart[0] == apart[2]
    assert len({*action.tolist(), *apart.tolist()}) == 4


def test_the_tail_is_fitted_to_over_dispersed_calls() -> None:
    random = np.random.default_rng(0)
    ratio = random.exponential(0.4, 20_000)
    edge, slope = amounts.fit_amount_tail(ratio)
    assert (edge, slope) == (pytest.approx(0.4 * np.log(20), abs=0.05), pytest.approx(0.4, abs=0.03))
    assert amounts.fit_amount_tail(np.empty(0)) == (amounts.DEFAULT_EDGE, amounts.DEFAULT_SLOPE)


def test_one_day_of_one_principal_moves_the_tail_of_all_by_as_much_whatever_its_size() -> None:
    ratio = np.random.default_rng(2).exponential(0.4, 900)
    calm = amounts.fit_amount_tail(ratio)
    busy, crawl = (amounts.fit_amount_tail(np.append(ratio, large)) for large in (4.0, 12.0))
    assert busy == crawl
    assert busy.slope == pytest.approx(calm.slope, rel=0.05)


def test_nats_say_how_rare_a_day_is() -> None:
    """Of days whose largest ratios have an exponential tail, as many reach a z as the normal distribution says."""
    random = np.random.default_rng(1)
    ratio = random.exponential(0.4, (200_000, 2))
    tails = [amounts.fit_amount_tail(each) for each in ratio.T]
    nats = amounts.nats_of_log_ratios(np.column_stack([ratio[:, 0], np.full(len(ratio), -5.0)]), tails)
    for least in (2.0, 2.6, 3.2):
        share = NormalDist().cdf(-least)
        assert (nats >= -np.log(share)).mean() == pytest.approx(share, rel=0.15)


def test_a_tail_of_intervals_says_how_rare_an_hour_is() -> None:
    """Of days of ten hours whose log ratios have an exponential tail, as many hours reach a z as the normal distribution says."""
    ratio = np.random.default_rng(3).exponential(0.4, (100_000, 10))
    of_days = amounts.fit_amount_tail(ratio.max(axis=1))
    tail = amounts.tail_of_intervals(of_days, ratio.size, len(ratio))
    assert tail == (pytest.approx(0.4 * np.log(20), abs=0.03), of_days.slope)
    nats = amounts.nats_of_log_ratios(ratio.reshape(-1, 1).astype(np.float32), [tail])
    for least in (2.0, 2.6, 3.2):
        share = NormalDist().cdf(-least)
        assert (nats >= -np.log(share)).mean() == pytest.approx(share, rel=0.15)


def test_few_days_say_little_of_how_many_hours_a_day_has() -> None:
    of_days = amounts.AmountTail(2.0, 0.5)
    none, few, many = (amounts.tail_of_intervals(of_days, 24 * days, days) for days in (0, 10, 100_000))
    assert none.edge == pytest.approx(2.0 - 0.5 * np.log(amounts.DEFAULT_INTERVALS))
    assert few.edge == pytest.approx(none.edge, abs=0.05)
    assert many.edge == pytest.approx(2.0 - 0.5 * np.log(24), abs=0.01)


def test_fewer_calls_than_what_one_day_in_twenty_has_are_no_evidence_wherever_that_lies() -> None:
    """Hardly a day has calls on unusual resources: the edge of that tail is below the log ratio of one call to what is usual."""
    none = np.log(1 / amounts.PRIOR_UNUSUAL_CALLS)
    rare = amounts.fit_amount_tail(np.full(2_000, none))
    assert rare.edge < 0
    nats = amounts.nats_of_log_ratios(
        np.array([[-3.0, -3.0, none], [-3.0, -3.0, 0.0]]), [*amounts.NO_TAILS[:2], rare]
    )
    assert nats[0] == 0
    assert nats[1] > 2.9


@pytest.mark.parametrize(("slope", "lost"), [(0.25, 0), (0.48, 0), (0.65, 2.46), (0.9, 4), (3.0, 4)])
def test_all_amounts_are_worth_less_where_large_ones_are_usual(slope: float, lost: float) -> None:
    """By the hour's tail: a bulk read is 25 times the usual calls of an hour, and loops of people are as large."""
    tails = [amounts.AmountTail(0.5, slope), amounts.AmountTail(0.2, 0.3), amounts.AmountTail(0.2, 0.3)]
    ratio = np.log([[1000.0, 8.0, 3.0], [4.0, 1000.0, 3.0]]).astype(np.float32)
    before, after = (
        amounts.nats_of_log_ratios(ratio, each) for each in (tails, amounts.discount_common_amounts(tails))
    )
    assert before - after == pytest.approx(lost, abs=0.01)


def test_a_discount_grows_with_what_a_large_amount_lacks() -> None:
    tails = [[amounts.AmountTail(0.5, slope)] * 3 for slope in np.linspace(0.3, 1.2, 40)]
    moved = [(amounts.discount_common_amounts(each)[1].edge - each[1].edge) / each[1].slope for each in tails]
    assert moved[0] == 0
    assert moved[-1] == pytest.approx(amounts.MAX_DISCOUNT)
    assert (np.diff(moved) >= -1e-9).all()


def test_nats_grow_with_calls_and_are_bounded() -> None:
    calls = np.array([1, 4, 9, 20, 60, 212, 10_000, 10**9])
    nats = amounts.amount_nats(calls, np.log(4) + 0.8, 0.3)
    assert (np.diff(nats) >= 0).all()
    assert nats[:2].tolist() == [0, 0]
    assert amounts.EDGE_NATS < nats[2] < nats[3] < nats[4] < amounts.MAX_AMOUNT_NATS
    assert nats[-1] == amounts.MAX_AMOUNT_NATS
    assert not amounts.amount_nats(calls, np.log(4) + 0.8, 0.0).any(), "a slope of 0 carries nothing"


@pytest.mark.parametrize("usual", [2.0, 6.0, 30.0])
def test_some_calls_of_a_large_amount_carry_it_and_few_of_a_usual_one(usual: float) -> None:
    known = UsualAmounts.from_arrays({}, HOST)
    ids = np.random.default_rng(0).integers(0, 2**64, 200_000, np.uint64)
    log_usual, slope = known.carried(np.full((len(ids), 3), usual, np.float32), ids)
    beyond = amounts.ALERTING_NATS - amounts.EDGE_NATS
    for window, tail in enumerate(known.tails):
        alerting = np.exp(log_usual[0, window] + tail.slope * beyond)
        assert (slope[:, window] > 0).mean() * alerting == pytest.approx(amounts.CARRIERS, rel=0.1)
    again = known.carried(np.full((10, 3), usual, np.float32), ids[:10])[1]
    np.testing.assert_array_equal(again, slope[:10])


@pytest.mark.parametrize("beyond", [0.0, 1.0])
def test_of_the_calls_that_make_an_amount_the_same_share_is_told_as_carries_it(beyond: float) -> None:
    known = UsualAmounts.from_arrays({}, HOST)
    ids = np.random.default_rng(2).integers(0, 2**64, 200_000, np.uint64)
    usual = 40.0
    _, slope = known.carried(np.full((len(ids), 3), usual, np.float32), ids)
    tail = known.tails[0]
    ratio = tail.edge + tail.slope * (amounts.ALERTING_NATS - amounts.EDGE_NATS) + beyond
    told = amounts.carrying_share(
        np.array([[ratio, -3.0, -3.0]]), np.array([usual * np.exp(ratio)]), known.tails
    )
    assert told[0] == pytest.approx((slope[:, 0] > 0).mean(), rel=0.1)


def test_hardly_a_burst_has_no_call_that_carries_it() -> None:
    known = UsualAmounts.from_arrays({}, HOST)
    ids = np.random.default_rng(1).integers(0, 2**64, (2_000, 60), np.uint64)
    usual = np.full((ids.size, 3), amounts.PRIOR_CALLS, np.float32)
    _, slope = known.carried(usual, ids.ravel())
    assert (slope[:, 0].reshape(ids.shape) > 0).any(axis=1).mean() > 0.95


def test_a_bank_without_amounts_knows_none() -> None:
    known = UsualAmounts.from_arrays({}, HOST)
    assert known.usual(np.ones(2, np.uint64), np.ones(2, np.uint64)).tolist() == [PRIORS, PRIORS]


def test_an_action_that_is_named_as_the_text_of_another_one_has_no_amount_of_that() -> None:
    text = amounts.amount_text(2_006, "s3:Get calls of s3:List", "an hour")
    assert amounts.read_amount_text(text, "s3:Get calls of s3:List") == ("2,006", "an hour")
    assert amounts.read_amount_text(text, "s3:List") is None


def test_the_most_that_was_learned_is_said_to_be_that_of_the_history() -> None:
    """After it there may have been more: "at most 3 before" was wrong where 21 came four days earlier."""
    assert amounts.most_text(1_234) == "at most 1,234 in the history"
    assert amounts.most_text_with_span(amounts.most_text(0), "a day") == "none in a day in the history"
    assert amounts.most_text_with_span("at most 3 in the history", "an hour").startswith(
        "at most 3 in an hour "
    )
