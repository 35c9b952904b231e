"""Moves: another network of a machine is the rarer, the longer the machines of the organisation kept to theirs."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.compute import hashing
from fingerprint.compute.arrays import identity_placement
from fingerprint.estimators import moves, rates
from fingerprint.estimators.moves import NetworkRows, SettledMachines, first_uses

SERVER, MOVER, RUNNER, YOUNG, PERSON = (
    hashing.hash_string(name) for name in ("server", "mover", "runner", "young", "person")
)
HOME, GATEWAY, OFFICE, HOSTER = (
    hashing.hash_string(name) for name in ("home", "gateway", "office", "hoster")
)
DAYS = 15

Row = tuple[np.uint64, np.uint64, int, bool]  # principal, network, hour, whether it is a machine


def rows_of(rows: list[Row]) -> NetworkRows:
    principal, network, hour, machine = (np.array(column) for column in zip(*rows, strict=True))
    mark, learned = np.arange(len(rows), dtype=np.uint64), np.ones(len(rows), bool)
    return NetworkRows(mark, hour.astype(np.int32), learned, principal, network, machine)


def history() -> list[Row]:
    """Fifteen days: a server and a mover at one network, which the mover leaves once; a runner at another each day."""
    rows: list[Row] = [(SERVER, HOME, 24 * day, True) for day in range(DAYS)]
    rows += [(MOVER, HOME if day < 8 else GATEWAY, 24 * day, True) for day in range(DAYS)]
    rows += [(RUNNER, np.uint64(1000 + day), 24 * day, True) for day in range(DAYS)]
    rows += [(YOUNG, HOME, 24 * day, True) for day in range(DAYS - 4, DAYS)]
    rows += [(PERSON, OFFICE, 24 * day, False) for day in range(DAYS)]
    return rows


def known(rows: list[Row]) -> SettledMachines:
    return SettledMachines.from_arrays(moves.learn_moves(rows_of(rows), 24), identity_placement)


def nats(principal: np.uint64, network: np.uint64, rows: list[Row] | None = None) -> float:
    return float(known(rows or history()).nats(np.array([principal]), np.array([network]))[0])


def test_another_network_is_the_rarer_the_more_days_a_machine_was_settled_without_one() -> None:
    # settled after five quiet days since its first: the server on days 6 to 14; the mover on 6 to 8 and, moved on 8, on 14
    of_all = (1 + 1) / (9 + 4 + 20)
    assert nats(SERVER, HOSTER) == pytest.approx(-np.log(10 * of_all / (9 + 10)), abs=1e-5)
    assert nats(MOVER, HOSTER) == pytest.approx(-np.log((1 + 10 * of_all) / (4 + 10)), abs=1e-5)
    [added] = known(history()).evidence(np.array([SERVER]), np.array([HOSTER]), np.array([False])).tolist()
    assert added == pytest.approx(moves.WEIGHT * nats(SERVER, HOSTER))


def test_its_usual_networks_and_any_of_who_is_not_settled_are_worth_nothing() -> None:
    assert nats(SERVER, HOME) == nats(MOVER, HOME) == nats(MOVER, GATEWAY) == 0
    assert nats(RUNNER, HOSTER) == 0, "another network every day"
    assert nats(YOUNG, HOSTER) == 0, "four days are no habit"
    assert nats(PERSON, HOSTER) == 0, "no machine"
    assert nats(hashing.hash_string("unheard of"), HOSTER) == 0


def test_a_network_that_others_use_is_worth_less_than_one_that_no_one_does() -> None:
    assert 0 < nats(SERVER, GATEWAY) == nats(SERVER, OFFICE) < nats(SERVER, HOSTER)
    # the mover was the first at the gateway: no move to a network that others had used
    of_all = 3 / (9 + 4 + 20)
    assert nats(SERVER, GATEWAY) == pytest.approx(-np.log(10 * of_all / (9 + 10)), abs=1e-5)


def test_machines_that_move_together_make_other_networks_less_rare() -> None:
    fleet = [hashing.hash_string(f"server {number}") for number in range(20)]
    still = [(each, HOME, 24 * day, True) for each in fleet for day in range(DAYS)]
    rebuilt = [(each, HOME if day < 8 else GATEWAY, 24 * day, True) for each in fleet for day in range(DAYS)]
    assert nats(SERVER, HOSTER, still + history()) > nats(SERVER, HOSTER, rebuilt + history()) + 2


def test_of_many_behind_one_gateway_a_network_counts_only_with_something_else_that_is_new() -> None:
    """The gateway may have a new address: then all are elsewhere at once, and nothing else of them is new."""
    for count, alone in ((moves.MAX_BEHIND, True), (moves.MAX_BEHIND + 1, False)):
        fleet = [hashing.hash_string(f"server {number}") for number in range(count)]
        rows: list[Row] = [(each, HOME, 24 * day, True) for each in fleet for day in range(DAYS)]
        rows += [(PERSON, HOME, 24 * day, False) for day in range(DAYS)]
        usual, added, more = (
            known(rows).evidence(np.array(fleet), np.full(count, network), np.full(count, new)) > 0
            for network, new in ((HOME, True), (HOSTER, False), (HOSTER, True))
        )
        assert (usual.any(), added.all(), added.any(), more.all()) == (False, alone, alone, True)


def test_who_moved_of_late_is_not_settled() -> None:
    for day, settled in ((9, True), (10, False)):
        moved: list[Row] = [(SERVER, HOME if each < day else OFFICE, 24 * each, True) for each in range(DAYS)]
        assert (nats(SERVER, HOSTER, moved) > 0) == settled


def test_the_order_of_rows_and_repeats_change_nothing() -> None:
    once = moves.learn_moves(rows_of(history()), 24)
    for rows in (history()[::-1], history() * 2):
        again = moves.learn_moves(rows_of(rows), 24)
        for name, array in once.items():
            np.testing.assert_array_equal(array, again[name])
    assert len(first_uses(rows_of(history() * 2))) == len(history())


def test_the_usual_networks_of_a_machine_are_known_with_its_days() -> None:
    networks, days = known(history()).usual(MOVER)
    assert (sorted(networks.tolist()), days) == (sorted([HOME, GATEWAY]), DAYS)


def test_no_history_knows_no_machine_and_a_move_is_worth_no_more_than_any_feature() -> None:
    nothing = SettledMachines.from_bank({}, identity_placement)
    assert nothing.nats(np.array([SERVER]), np.array([HOSTER])).tolist() == [0]
    always: list[Row] = [(SERVER, HOME, 24 * day, True) for day in range(30_000)]
    assert nats(SERVER, HOSTER, always) == rates.MAX_NATS
