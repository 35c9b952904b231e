"""No principal counts more in the tails of its kind than all others of it together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.estimators.principal_weights import MIN_PRINCIPALS, balanced_events
from fingerprint.estimators.surge_tails import fit_surge_tails

KIND = np.uint64(7)


def of_one_kind(principal: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(principal, np.uint64), np.full(len(principal), KIND)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), st.integers(1, 10_000)), min_size=1, max_size=60)
)
def test_none_has_more_than_the_others_and_the_others_have_what_they_had(
    rows: list[tuple[int, int, int]],
) -> None:
    number, kind, events = np.array(rows).T
    principal, kinds = (number * 3 + kind).astype(np.uint64), kind.astype(np.uint64)
    balanced = balanced_events(events, principal, kinds)
    for each in np.unique(kinds):
        here = kinds == each
        names, of_name = np.unique(principal[here], return_inverse=True)
        before, after = (np.bincount(of_name, column[here]) for column in (events, balanced))
        largest = before.argmax()
        if len(names) < MIN_PRINCIPALS:
            np.testing.assert_array_equal(after, before)
        assert after[largest] == pytest.approx(
            min(before[largest], before.sum() - before[largest])
            if len(names) >= MIN_PRINCIPALS
            else before[largest]
        )
        np.testing.assert_array_equal(np.delete(after, largest), np.delete(before, largest))


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
