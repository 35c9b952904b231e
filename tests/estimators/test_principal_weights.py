"""No principal counts more in the tails of its kind than all others of it together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.estimators.principal_weights import (
    INTERVAL_SHARE,
    MIN_INTERVAL_EVENTS,
    MIN_PRINCIPALS,
    balanced_events,
)
from fingerprint.estimators.surge_tails import fit_surge_tails

KIND = np.uint64(7)


def of_one_kind(principal: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(principal, np.uint64), np.full(len(principal), KIND)


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 2), st.integers(0, 3), st.integers(1, 10_000)),
        min_size=1,
        max_size=60,
    )
)
def test_none_has_more_than_the_others_and_no_interval_more_than_a_share_of_theirs(
    rows: list[tuple[int, int, int, int]],
) -> None:
    number, kind, interval, events = np.array(rows).T
    principal, kinds = (number * 3 + kind).astype(np.uint64), kind.astype(np.uint64)
    balanced = balanced_events(events, principal, kinds, interval)
    assert (balanced <= events * (1 + 1e-9)).all()
    for each in np.unique(kinds):
        here = kinds == each
        names = np.unique(principal[here])
        if len(names) < MIN_PRINCIPALS:
            np.testing.assert_array_equal(balanced[here], events[here])
            continue
        for name in names:
            mine, others = here & (principal == name), here & (principal != name)
            assert balanced[mine].sum() <= balanced[others].sum() * (1 + 1e-9)
            for hour in np.unique(interval[mine]):
                cell = mine & (interval == hour)
                most = max(INTERVAL_SHARE * events[others].sum(), MIN_INTERVAL_EVENTS)
                assert balanced[cell].sum() <= most * (1 + 1e-9)


def test_who_has_little_keeps_what_it_has() -> None:
    principal, kind = of_one_kind(list(range(60)))
    events = np.append(np.full(59, 100.0), 10_000.0)
    balanced = balanced_events(events, principal, kind, np.zeros(60, int))
    np.testing.assert_array_equal(balanced[:-1], events[:-1])
    assert balanced[-1] == pytest.approx(INTERVAL_SHARE * 5_900)


def test_one_hour_of_one_account_does_not_make_surges_usual_for_its_kind() -> None:
    """Fifty principals of ten events an hour; one of them makes 5,000 in a single hour, as a loop does, or an attacker."""
    random = np.random.default_rng(5)
    hours, usual = np.tile(np.arange(60), 50), np.repeat(np.arange(1, 51), 60)
    principal, kind = of_one_kind([*usual, 1])
    surge = np.append(random.exponential(0.6, len(hours)), 9.0).astype(np.float32)[:, None]
    z = []
    for loop in (0.0, 5_000.0, 500_000.0):
        events = np.append(np.full(len(hours), 10.0), loop)
        tails = fit_surge_tails(surge, events, principal, kind, np.append(hours, 70))
        newcomer = tails.rows(np.array([12345], np.uint64), kind[:1])
        z.append(float(tails.z(newcomer, np.array([[3.0]], np.float32))[0]))
    assert z[0] > z[1] == pytest.approx(z[2], abs=1e-3), "however large, it counts the same"
    assert z[1] > 1.9, "a vote as before"


@pytest.mark.parametrize(("scale", "least", "most"), [(0.0, 1.8, 2.2), (2.5, 0.6, 1.8)])
def test_one_account_of_a_thousand_events_an_hour_leaves_the_kind_to_the_others(
    scale: float, least: float, most: float
) -> None:
    """Twenty principals of ten events an hour; beside them one that makes 98 % of all events, steady or restless.

    A newcomer's surge of 2 has a z of 1.83 by the twenty alone; by the shares of all events 3.2 and 0.1.
    """
    random = np.random.default_rng(3)
    hours, usual = np.tile(np.arange(400), 20), np.repeat(np.arange(1, 21), 400)
    surge = np.append(random.exponential(0.6, len(hours)), scale * random.exponential(1, 400))
    principal, kind = of_one_kind([*usual, *[99] * 400])
    events = np.append(np.full(len(hours), 10.0), np.full(400, 10_000.0))
    interval = np.append(hours, np.arange(400))
    tails = fit_surge_tails(surge.astype(np.float32)[:, None], events, principal, kind, interval)
    newcomer = tails.rows(np.array([12345], np.uint64), kind[:1])
    assert least < float(tails.z(newcomer, np.array([[2.0]], np.float32))[0]) < most
