"""Newcomer tails: a z says how much of first days lies in hours in which as much failed or was changed."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest

from fingerprint.compute.arrays import identity_placement
from fingerprint.estimators import newcomer_tails
from fingerprint.estimators.newcomer_tails import NewcomerTails, fit_newcomer_tails

PERSON, ROLE, ROOT = (np.uint64(number) for number in (1, 2, 3))
EVENTS, ERRORS, WRITES = range(newcomer_tails.CHANNELS)


def first_days(hours: int = 4000, principals: int = 40) -> tuple[np.ndarray, ...]:
    """Hours of people, who err and change little, and of roles, which change much: counts, principal, kind."""
    random = np.random.default_rng(0)
    principal = random.integers(10, 10 + principals, hours).astype(np.uint64)
    kind = np.where(principal % np.uint64(2), PERSON, ROLE)
    events = random.lognormal(2, 1, hours).round() + 1
    errors = random.binomial(1, 0.2, hours) * random.geometric(0.5, hours)
    writes = random.poisson(np.where(kind == PERSON, 1, 20))
    count = np.stack([events, np.minimum(errors, events), np.minimum(writes, events)], axis=1)
    return count.astype(np.float32), principal, kind


def z_of(tails: NewcomerTails, kind: np.uint64, *count: float) -> float:
    return float(tails.z(tails.rows(np.array([kind])), np.array([count], np.float32))[0])


def test_a_twentieth_of_the_events_of_every_kind_have_a_vote() -> None:
    count, principal, kind = first_days()
    tails = fit_newcomer_tails(count, principal, kind)
    voted = tails.z(tails.rows(kind), count) >= 1.645
    for each in (PERSON, ROLE):
        mine, events = kind == each, count[:, EVENTS]
        assert 0.02 < events[mine & voted].sum() / events[mine].sum() <= 0.07


@pytest.mark.parametrize("channel", range(newcomer_tails.CHANNELS))
def test_more_never_has_a_smaller_z(channel: int) -> None:
    tails = fit_newcomer_tails(*first_days())
    count = np.full((400, newcomer_tails.CHANNELS), [5, 0, 0], np.float32)
    count[:, channel] = np.arange(400) ** 3
    for kind in (PERSON, ROLE, ROOT):
        z = tails.z(tails.rows(np.full(400, kind)), count)
        assert (np.diff(z) >= 0).all()
        assert z[-1] > 3 > 0 > z[0]


def test_an_hour_of_failures_is_stranger_than_one_of_as_many_reads() -> None:
    tails = fit_newcomer_tails(*first_days())
    assert z_of(tails, PERSON, 40, 30, 0) > 2 > z_of(tails, PERSON, 40, 0, 0)
    assert z_of(tails, PERSON, 5, 0, 0) < -0.8416, "a short look is a usual beginning"
    assert z_of(tails, PERSON, 100_000, 0, 0) > 2, "but not a bulk of reads"


def test_what_is_usual_of_a_kind_is_strange_of_another_and_an_unknown_kind_is_judged_by_all() -> None:
    tails = fit_newcomer_tails(*first_days())
    person, role, other = (z_of(tails, kind, 60, 0, 25) for kind in (PERSON, ROLE, ROOT))
    assert person > other > role
    assert tails.rows(np.array([ROOT])).tolist() == [2]


def test_too_few_principals_teach_nothing() -> None:
    count, principal, kind = first_days(principals=newcomer_tails.MIN_PRINCIPALS - 1)
    tails = fit_newcomer_tails(count, principal, kind)
    assert not tails.learned
    assert np.isnan(tails.z(tails.rows(kind), count)).all()
    assert fit_newcomer_tails(*first_days(principals=newcomer_tails.MIN_PRINCIPALS)).learned


def test_the_order_of_hours_makes_no_difference() -> None:
    columns = first_days()
    order = np.random.default_rng(1).permutation(len(columns[0]))
    whole, mixed = fit_newcomer_tails(*columns), fit_newcomer_tails(*(column[order] for column in columns))
    for name in newcomer_tails.TAIL_ARRAYS:
        np.testing.assert_array_equal(getattr(mixed, name), getattr(whole, name))


def test_they_come_back_from_a_bank() -> None:
    tails = fit_newcomer_tails(*first_days())
    again = NewcomerTails.from_arrays(tails.as_arrays(), identity_placement)
    for name in newcomer_tails.TAIL_ARRAYS:
        np.testing.assert_array_equal(getattr(again, name), getattr(tails, name))
    assert not NewcomerTails.from_arrays({}, identity_placement).learned


def test_arrays_elsewhere_have_the_same_z() -> None:
    count, principal, kind = first_days()
    tails = fit_newcomer_tails(count, principal, kind)
    far = NewcomerTails.from_arrays(tails.as_arrays(), fake_cupy.asarray)
    z = far.z(far.rows(fake_cupy.asarray(kind)), fake_cupy.asarray(count))
    np.testing.assert_allclose(z.get(), tails.z(tails.rows(kind), count), atol=1e-4)
