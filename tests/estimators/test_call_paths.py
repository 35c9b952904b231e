"""Call paths: what a first direct call is worth follows how often its principal made one."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.compute import hashing
from fingerprint.compute.arrays import identity_placement
from fingerprint.estimators import call_paths, rates
from fingerprint.estimators.call_paths import KnownPaths, PathRows

PIPELINE, REPAIRER, YOUNG = (hashing.hash_string(name) for name in ("pipeline", "repairer", "young"))
UPDATE, ATTACH, TAG = (hashing.hash_string(name) for name in ("lambda:Update", "iam:Attach", "ec2:Tag"))
STACKS, HOME = hashing.hash_string("cloudformation.amazonaws.com"), hashing.hash_string("81.2.0.0/16")
DAYS = 14

Row = tuple[np.uint64, np.uint64, int, bool]  # principal, action, hour, called directly


def rows_of(rows: list[Row]) -> PathRows:
    principal, action, hour, direct = (np.array(column) for column in zip(*rows, strict=True))
    network = np.where(direct, HOME, STACKS)
    mark, learned = np.arange(len(rows), dtype=np.uint64), np.ones(len(rows), bool)
    return PathRows(mark, hour.astype(np.int32), learned, principal, action, network, direct)


def history() -> list[Row]:
    """Two weeks: both let a service update every day; one of them attaches directly in the second week, what a service did."""
    rows = [(who, UPDATE, 24 * day, False) for who in (PIPELINE, REPAIRER) for day in range(DAYS)]
    rows += [(REPAIRER, ATTACH, 24 * day, False) for day in range(DAYS)]
    rows += [(REPAIRER, ATTACH, 24 * 9 + hour, True) for hour in (3, 30)]
    rows += [(YOUNG, UPDATE, 24 * 13, False), (PIPELINE, TAG, 5, True), (PIPELINE, TAG, 40, False)]
    return rows


def known(rows: list[Row]) -> KnownPaths:
    return KnownPaths.from_arrays(call_paths.learn_call_paths(rows_of(rows), 24), identity_placement)


def nats(principal: np.uint64, action: np.uint64, rows: list[Row] | None = None) -> float:
    return float(known(rows or history()).nats(np.array([principal]), np.array([action]))[0])


def test_a_direct_call_is_the_rarer_the_more_days_a_principal_made_no_new_one() -> None:
    # e of all is (1 + 1) / (14 + 14 + 1 + 20); the pipeline has none in 14 days, the repairer one, the young one none in one
    of_all = 2 / 49
    assert nats(PIPELINE, UPDATE) == pytest.approx(-np.log(of_all / 15), abs=1e-5)
    assert nats(REPAIRER, UPDATE) == pytest.approx(-np.log((1 + of_all) / 15), abs=1e-5)
    assert nats(YOUNG, UPDATE) == pytest.approx(-np.log(of_all / 2), abs=1e-5)
    [added] = known(history()).evidence(np.array([PIPELINE]), np.array([UPDATE])).tolist()
    assert added == pytest.approx(2.5 * nats(PIPELINE, UPDATE))


def test_what_it_called_directly_or_no_service_called_is_worth_nothing() -> None:
    assert nats(REPAIRER, ATTACH) == 0, "called directly since"
    assert nats(PIPELINE, TAG) == 0, "called directly before"
    assert nats(PIPELINE, ATTACH) == nats(hashing.hash_string("unheard of"), UPDATE) == 0


def test_what_it_called_directly_before_a_service_did_is_no_new_direct_call() -> None:
    before = [(PIPELINE, UPDATE, 24 * day, False) for day in range(DAYS)]
    for direct, expected in ((200, 2), (0, 1)):
        rows = [*before, (PIPELINE, ATTACH, 100, False), (PIPELINE, ATTACH, direct, True)]
        new = expected - 1
        assert nats(PIPELINE, UPDATE, rows) == pytest.approx(-np.log((new + expected / 34) / 15), abs=1e-5)


def test_the_order_of_rows_and_repeats_change_nothing() -> None:
    once = call_paths.learn_call_paths(rows_of(history()), 24)
    for rows in (history()[::-1], history() * 2):
        again = call_paths.learn_call_paths(rows_of(rows), 24)
        for name, array in once.items():
            np.testing.assert_array_equal(array, again[name])
    assert (np.diff(once["key"].astype(np.float64)) > 0).all()


def test_the_service_that_called_is_known_with_its_days() -> None:
    service, days = known(history()).usual(np.array([PIPELINE, PIPELINE]), np.array([UPDATE, TAG]))
    assert (service.tolist(), days.tolist()) == ([STACKS, 0], [DAYS, 0])


def test_no_history_knows_no_path_and_a_direct_call_is_worth_no_more_than_any_feature() -> None:
    nothing = KnownPaths.from_bank({}, identity_placement)
    assert nothing.nats(np.array([PIPELINE]), np.array([UPDATE])).tolist() == [0]
    always = [(PIPELINE, UPDATE, 24 * day, False) for day in range(30_000)]
    assert nats(PIPELINE, UPDATE, always) == rates.MAX_NATS


def test_writes_that_a_service_called_are_taken_with_the_own_calls_of_those_who_call_at_all() -> None:
    rows = [
        (PIPELINE, UPDATE, True, False),
        (PIPELINE, UPDATE, True, True),
        (PIPELINE, TAG, True, True),  # no service called it
        (PIPELINE, ATTACH, False, False),  # a read
        (YOUNG, UPDATE, True, False),  # of a role that calls nothing itself
    ]
    principal, action, wrote, direct = (np.array(column) for column in zip(*rows, strict=True))
    assert call_paths.left_to_services(principal, action, wrote, direct).tolist() == [0, 1]
