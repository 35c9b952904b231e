"""Surge tails: a z says which share of a principal's harmless events lie in an interval that surges as much."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.compute.arrays import identity_placement
from fingerprint.estimators import surge_tails
from fingerprint.estimators.surge_tails import SurgeTails, fit_surge_tails

PERSON, ROLE, ROOT = np.uint64(1), np.uint64(2), np.uint64(3)


def over_dispersed(rows: int = 6000) -> tuple[np.ndarray, ...]:
    """Rows of people, whose intervals hold bursts, and of roles, whose do not: surges, events, principal, kind, interval."""
    random = np.random.default_rng(0)
    principal = random.integers(10, 30, rows).astype(np.uint64)
    kind = np.where(principal < 20, PERSON, ROLE)
    events = np.where(kind == PERSON, random.lognormal(1, 1.5, rows).round() + 1, 5).astype(np.float32)
    scale = np.where(kind == PERSON, 1.5, 0.2)[:, None]
    surge = random.exponential(scale, (rows, surge_tails.CHANNELS)).astype(np.float32)
    surge[:, 5] = np.log1p(events) / 2
    surge[random.random(surge.shape) < 0.3] = np.nan
    return surge, events, principal, kind, random.integers(0, 400, rows).astype(np.int32)


def test_at_most_a_twentieth_of_the_held_out_events_of_every_kind_have_a_vote() -> None:
    surge, events, principal, kind, interval = over_dispersed()
    tails = fit_surge_tails(surge, events, principal, kind, interval)
    voted = tails.z(tails.rows(principal, kind), surge) >= 1.645
    for each in (PERSON, ROLE):
        share = events[voted & (kind == each)].sum() / events[kind == each].sum()
        assert 0.005 < share <= 0.06


def test_a_larger_surge_never_has_a_smaller_z() -> None:
    rows = over_dispersed()
    tails = fit_surge_tails(*rows)
    surge = np.full((200, surge_tails.CHANNELS), np.nan, np.float32)
    surge[:, 3] = np.linspace(0, 30, 200)
    for principal, kind in ((15, PERSON), (25, ROLE), (99, ROLE), (99, ROOT)):
        who = tails.rows(np.full(200, principal, np.uint64), np.full(200, kind, np.uint64))
        z = tails.z(who, surge)
        assert (np.diff(z) >= 0).all()
        assert z[-1] > z[100] > z[0]


def test_the_strongest_channel_is_the_rarest_of_those_that_have_a_surge() -> None:
    rows = over_dispersed(500)
    surge, _, principal, kind, _ = rows
    tails = fit_surge_tails(*rows)
    tail = tails.rows(principal, kind)
    alone = [
        tails.nats(tail, np.full(len(tail), channel), surge[:, channel])
        for channel in range(surge_tails.CHANNELS)
    ]
    np.testing.assert_array_equal(tails.strongest(tail, surge), np.maximum.reduce(alone))
    by_hand = [-float(tails.channel[tails.kind_of[tail[row]], 5, 4]) for row in range(len(tail))]
    at_a_knot = np.full(len(tail), 4 * surge_tails.SURGE_STEP, np.float32)
    np.testing.assert_array_equal(tails.nats(tail, np.full(len(tail), 5), at_a_knot), np.float32(by_hand))


def test_an_event_without_any_surge_has_no_opinion() -> None:
    tails = fit_surge_tails(*over_dispersed())
    surge = np.full((2, surge_tails.CHANNELS), np.nan, np.float32)
    surge[0, 0] = 1.0
    z = tails.z(np.zeros(2, np.int32), surge)
    assert np.isnan(z).tolist() == [False, True]


def test_who_is_not_known_has_the_tail_of_the_kind_and_an_unknown_kind_that_of_everybody() -> None:
    tails = fit_surge_tails(*over_dispersed())
    principal = np.array([15, 99, 99], np.uint64)
    rows = tails.rows(principal, np.array([PERSON, ROLE, ROOT]))
    assert tails.key[rows[0]] == 15
    assert rows[1:].tolist() == [len(tails.key) + 1, len(tails.tail) - 1]


def test_they_come_back_from_a_bank() -> None:
    tails = fit_surge_tails(*over_dispersed())
    again = SurgeTails.from_arrays(tails.as_arrays(), identity_placement)
    for name in surge_tails.TAIL_ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(tails, name))
    none = SurgeTails.from_arrays({}, identity_placement)
    assert np.isfinite(none.z(np.zeros(1, np.int32), np.ones((1, surge_tails.CHANNELS), np.float32))).all()


def one_odd_day(days: int) -> tuple[np.ndarray, ...]:
    """People's rows of some days: the first of them had a surge on the first day, of half of its events."""
    principal = np.repeat(np.arange(10, 20, dtype=np.uint64), 100 * days)
    day = np.tile(np.repeat(np.arange(days, dtype=np.int32), 100), 10)
    interval = day * 24 + np.tile(np.arange(100, dtype=np.int32) % 24, 10 * days)
    surge = np.full((len(day), surge_tails.CHANNELS), np.nan, np.float32)
    surge[:, 5] = np.random.default_rng(1).exponential(0.2, len(day))
    surge[(principal == 10) & (day == 0) & (interval % 2 == 0), 5] = 4
    return surge, np.ones(len(day), np.float32), principal, np.full(len(day), PERSON), interval, day


def test_a_surge_is_stranger_by_the_other_days_than_by_tails_that_it_is_part_of() -> None:
    *rows, day = one_odd_day(4)
    tails, odd = fit_surge_tails(*rows), rows[0][:, 5] == 4
    own, others = tails.z(tails.rows(*rows[2:4]), rows[0]), surge_tails.z_by_other_days(*rows, day)
    assert (others[odd] > own[odd] + 0.1).all()
    assert np.median(np.abs(others[~odd] - own[~odd])) < 0.1


def test_a_single_day_is_measured_by_its_own_tails() -> None:
    *rows, day = one_odd_day(1)
    tails = fit_surge_tails(*rows)
    own = tails.z(tails.rows(*rows[2:4]), rows[0])
    np.testing.assert_array_equal(surge_tails.z_by_other_days(*rows, day), own)


@pytest.mark.parametrize("burst", [6.0, 60.0])
def test_a_surge_is_measured_in_bursts(burst: float) -> None:
    one = np.ones(1, np.float32)
    surge = surge_tails.log_surge(10 * one + burst, 10 * one, one, burst * one)
    assert surge[0] == pytest.approx(np.log1p(surge_tails.SURGE_UNITS))
    assert np.isnan(surge_tails.log_surge(one, one * np.nan, one * np.nan, one))[0]
