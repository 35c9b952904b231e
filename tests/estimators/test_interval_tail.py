"""The tail of what else surprises in an unusual event's interval: fitted, extended, robust."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.estimators.interval_tail import (
    DEFAULT_TAIL,
    MAX_NATS,
    PRIOR_INTERVALS,
    fit_interval_tail,
    interval_nats,
)


def lomax(count: int, share: float, scale: float, shape: float) -> np.ndarray:
    random = np.random.default_rng(7)
    values = scale * (random.uniform(size=count) ** (-1 / shape) - 1)
    return np.where(random.uniform(size=count) < share, values, 0).astype(np.float32)


@pytest.mark.parametrize(("share", "scale", "shape"), [(0.3, 12.0, 1.25), (0.45, 40.0, 2.6)])
def test_nats_are_the_log_of_how_many_intervals_hold_as_much(
    share: float, scale: float, shape: float
) -> None:
    others = lomax(5_000, share, scale, shape)
    tail = fit_interval_tail(others)
    for rank in (0.2, 0.05, 0.01, 0.002):
        at = np.quantile(others, 1 - rank).astype(np.float32)
        assert interval_nats(at[None], tail)[0] == pytest.approx(-np.log(rank), abs=0.5)


def test_a_light_tail_still_tells_much_from_little() -> None:
    """The likeliest shape of such values is infinite: the largest one is taken, with the scale that goes with it."""
    others = np.random.default_rng(7).gamma(2, 15, 5_000).astype(np.float32)
    nats = interval_nats(np.array([30, 60, 100, 150], np.float32), fit_interval_tail(others))
    assert (np.diff(nats) > 0.5).all()
    assert nats[-1] > 3  # 6.9 are true, and 0.9 were said of each of the four


def test_without_a_history_the_tail_is_that_of_a_usual_organisation() -> None:
    tail = fit_interval_tail(np.zeros(0, np.float32))
    np.testing.assert_allclose(tail, DEFAULT_TAIL, rtol=0.25)


def test_an_organisation_in_which_nothing_ever_comes_together_makes_little_of_a_default() -> None:
    alone = fit_interval_tail(np.zeros(50 * PRIOR_INTERVALS, np.float32))
    assert interval_nats(np.array([20.0], np.float32), alone)[0] > 4


def test_more_is_never_less_and_nothing_is_nothing() -> None:
    tail = fit_interval_tail(lomax(500, 0.4, 30, 2))
    nats = interval_nats(np.array([0, 0.1, 1, 10, 100, 1e3, 1e9], np.float32), tail)
    assert nats[0] == 0
    assert (np.diff(nats) >= 0).all()
    assert nats[-1] == MAX_NATS


def test_the_order_of_the_rows_changes_nothing() -> None:
    others = lomax(400, 0.4, 30, 2)
    np.testing.assert_array_equal(fit_interval_tail(others), fit_interval_tail(others[::-1]))


def test_each_event_may_have_a_tail_of_its_own() -> None:
    tails = np.array([DEFAULT_TAIL, (0.1, 1.0, 3.0)], np.float32)
    nats = interval_nats(np.array([10.0, 10.0], np.float32), tails)
    assert nats[1] > nats[0] > 0
