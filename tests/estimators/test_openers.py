"""Openers: what a new opener of a role is worth follows what the role has met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.estimators import openers, rates
from fingerprint.estimators.openers import OpeningRows, RoleOpeners

DEPLOY, SHARED, YOUNG = (hashing.hash_string(name) for name in ("deploy", "shared", "young"))
STRANGER = hashing.hash_string("stranger")


def people(count: int) -> list[np.uint64]:
    return [hashing.hash_string(f"person {number}") for number in range(count)]


def rows_of(role: Hashes, opener: Hashes, day: NDArray[np.integer[Any]]) -> OpeningRows:
    """Return openings at noon."""
    mark, every = np.arange(len(role), dtype=np.uint64), np.ones(len(role), bool)
    return OpeningRows(mark, (24 * day + 12).astype(np.int32), every, role, opener)


def learned() -> RoleOpeners:
    """Two weeks: one pipeline opens DEPLOY every day, ten people share SHARED, YOUNG was opened once."""
    rows = [(DEPLOY, people(1)[0], day) for day in range(14)]
    rows += [(SHARED, person, day) for person in people(10) for day in (0, 5)]
    rows += [(YOUNG, people(1)[0], 13)]
    role, opener, day = (np.array(column) for column in zip(*rows, strict=True))
    return RoleOpeners.from_arrays(openers.learn_openers(rows_of(role, opener, day), 24))


def nats(role: np.uint64, opener: np.uint64) -> float:
    return float(learned().nats(np.array([role]), np.array([opener]))[0])


def test_a_new_opener_is_the_rarer_the_longer_a_role_has_met_none_and_the_fewer_of_a_shared_one() -> None:
    # e of all roles is (9 + 1) / (35 + 20); of DEPLOY 2 e / 16, of SHARED (9 + 2 e) / 22, of YOUNG 2 e / 3
    assert nats(DEPLOY, STRANGER) == pytest.approx(-np.log(20 / 55 / 16), abs=1e-5)
    assert nats(SHARED, STRANGER) == pytest.approx(-np.log((9 + 20 / 55) / 22), abs=1e-5)
    assert nats(YOUNG, STRANGER) == pytest.approx(-np.log(20 / 55 / 3), abs=1e-5)
    [added] = learned().evidence(np.array([DEPLOY]), np.array([STRANGER])).tolist()
    assert added == pytest.approx(2.0 * nats(DEPLOY, STRANGER))


def test_who_opened_a_role_before_is_worth_nothing_nor_is_a_role_that_was_not_learned() -> None:
    assert nats(DEPLOY, people(1)[0]) == nats(SHARED, people(10)[9]) == 0
    assert nats(hashing.hash_string("unheard of"), STRANGER) == 0
    assert nats(DEPLOY, people(2)[1]) > 0, "the others of another role are strangers here"


def test_often_on_one_day_is_once_and_the_order_of_rows_changes_nothing() -> None:
    role, opener = np.full(6, DEPLOY), np.array([*people(3), *people(3)])
    day = np.array([0, 0, 0, 0, 0, 0], np.int32)
    once = openers.learn_openers(rows_of(role[:3], opener[:3], day[:3]), 24)
    for how in (slice(None), slice(None, None, -1)):
        again = openers.learn_openers(rows_of(role[how], opener[how], day[how]), 24)
        for name, array in once.items():
            np.testing.assert_array_equal(array, again[name])


def test_no_role_needs_no_opener_and_a_stranger_is_worth_no_more_than_any_feature() -> None:
    nothing = RoleOpeners.from_bank({})
    assert nothing.nats(np.array([DEPLOY]), np.array([STRANGER])).tolist() == [0]
    days = np.arange(100_000, dtype=np.int32)
    rows = rows_of(np.full(len(days), DEPLOY), np.full(len(days), STRANGER), days)
    always = openers.learn_openers(rows, 24)
    assert always["nats"].tolist() == [rates.MAX_NATS]


def test_the_openers_of_a_role_are_known_by_their_hashes() -> None:
    assert sorted(learned().openers(SHARED)) == sorted(people(10))
    assert learned().openers(STRANGER).tolist() == []
