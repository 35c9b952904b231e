"""Moves: machines that keep to their networks -> the nats of one that is seen at another.

Example:
    >>> known = SettledMachines.from_arrays(learn_moves(rows, 24), identity_placement)      # of a history
    >>> known.evidence(principal, network, new)                           # (N,) of calls from addresses, what else is new
    array([14.9, 0. ], dtype=float32)

A machine with few networks, none of them new of late, is *settled*: a server behind a gateway, a key in a data centre. Settled
machines hardly ever move, so who calls from elsewhere has stolen the credentials, unless a whole network was rebuilt. So another
network is as rare as settled machines of this organisation came to one:

    e = (T + W e_all) / (n + W)       T days with a new network, in n days on which the machine called and was settled; W is
    e_all                             PRIOR_DAYS; the same of all machines together

which is -ln e nats (`estimators.rates`). They add WEIGHT times as many to the event, if something else of it is new as well: a
gateway with a new address moves all machines behind it at once, and they do there what they always did. Where at most MAX_BEHIND
machines are at a network, no more can move together, and the network alone is enough. A network that others had used before, as a
shared gateway, has rates of its own, and more of a prior. A machine that is not settled has no nats, wherever it is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats, Ints, Placement, namespace
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import SortedTable, run_starts
from fingerprint.estimators.rates import ALL_NEW, first_times, rarity_nats

MIN_DAYS = 5  # active ones, before a machine can be settled
QUIET_DAYS = 5  # active ones since its latest network came
MAX_NETWORKS = 3
PRIOR_DAYS = 10.0  # of a machine, that what is usual of all is worth: a rebuilt network moves who never moved
MAX_BEHIND = 8  # settled machines at one network: as many alerts as its gateway may make when it moves
ALL_SHARED = 3.0  # moves to networks that others had used, that all machines together are taken to have shown before any was seen
WEIGHT = 2.0
_MOVED = hashing.hash_string("seen at another network")
RATES = ("new", "shared")


class NetworkRows(NamedTuple):
    """Uses of networks (N,) by principals that called from an address, of which some are machines.

    `mark`, `interval` and `learned` are as of `DistinctRows`; `network` is the network's code.
    """

    mark: Hashes
    interval: Ints
    learned: NDArray[np.bool_]
    principal: Hashes
    network: Hashes
    machine: NDArray[np.bool_]

    def take(self, which: NDArray[Any]) -> NetworkRows:
        """Return the rows of a mask or an index."""
        return NetworkRows(*(column[which] for column in self))


def move_code(network: Hashes) -> Hashes:
    """Return the code under which a scorer keeps when a settled machine was first seen at a network (N,)."""
    return hashing.combine(network, namespace(network).full_like(network, _MOVED))


def network_key(principal: Hashes, network: Hashes) -> Hashes:
    """Return the key of a principal and a network, in the principal's hash bucket: (N,)."""
    return hashing.combine(principal, network)


def first_uses(rows: NetworkRows) -> NDArray[np.intp]:
    """Return the places of rows (N,) that are distinct by principal, interval, network and whether they are learned."""
    at = hashing.hash_pair(network_key(rows.principal, rows.network), rows.interval.astype(np.uint64))
    _, first = np.unique(hashing.hash_pair(at, rows.learned.astype(np.uint64)), return_index=True)
    return np.sort(first)


def learn_moves(rows: NetworkRows, intervals_per_day: int) -> Arrays:
    """Return the machines that are settled after some rows, and the networks of all.

    `principal` (M,) sorted, with the nats that a network is worth which no one used before, `new` (M,), or others had,
    `shared` (M,), on how many `days` (M,) it called, and how many settled machines are `behind` (M,) its busiest network; `key`
    (K,), sorted (`network_key`), and `network` (K,) are its usual ones; `everyones` (U,), sorted, those that any principal used.
    """
    first = _first_days(rows, intervals_per_day)
    everyones, of_network = np.unique(first.network, return_inverse=True)
    shared = first_times(of_network, first.day, len(everyones))[of_network] < first.day
    machines = _machine_days(rows.take(rows.machine), intervals_per_day, first, shared)
    nats = {
        name: rarity_nats(moved, machines.days, PRIOR_DAYS, all_new)
        for name, moved, all_new in zip(RATES, machines.moved, (ALL_NEW, ALL_SHARED), strict=True)
    }
    settled = machines.settled
    principals = machines.principal[settled]
    own = np.flatnonzero(np.isin(first.principal, principals))
    key = network_key(first.principal[own], first.network[own])
    order = np.argsort(key)
    machine, at = (np.unique(each[own], return_inverse=True)[1] for each in (first.principal, first.network))
    behind = np.zeros(len(principals), np.float32)
    np.maximum.at(behind, machine, np.bincount(at)[at])
    return {
        "principal": principals,
        **{name: each[settled] for name, each in nats.items()},
        "days": machines.active[settled].astype(np.float32),
        "behind": behind,
        "key": key[order],
        "network": first.network[own][order],
        "everyones": everyones,
    }


class _FirstDays(NamedTuple):
    """Distinct principals and networks (P,), and the day on which each came first."""

    principal: Hashes
    network: Hashes
    day: Ints


def _first_days(rows: NetworkRows, intervals_per_day: int) -> _FirstDays:
    """Return when each principal used each network first."""
    _, example, pair = np.unique(
        network_key(rows.principal, rows.network), return_index=True, return_inverse=True
    )
    day = first_times(pair, rows.interval // intervals_per_day, len(example))
    return _FirstDays(rows.principal[example], rows.network[example], day)


class _MachineDays(NamedTuple):
    """M machines, sorted by `principal`: whether each is `settled` in the end, and on how many days it was `active`.

    `days` (M,) are those on which it was settled when they began, and `moved` (2, M) those of them with a network that was new
    to everyone, and with none but such as others had used.
    """

    principal: Hashes
    settled: NDArray[np.bool_]
    active: NDArray[np.intp]
    days: NDArray[np.intp]
    moved: NDArray[np.intp]


def _machine_days(
    rows: NetworkRows, intervals_per_day: int, first: _FirstDays, shared: NDArray[np.bool_]
) -> _MachineDays:
    """Return what machines showed on their active days; `first` uses (P,) of networks, and which others had `shared` before."""
    principals, owner = np.unique(rows.principal, return_inverse=True)
    day = np.unique(owner.astype(np.int64) << 32 | rows.interval // intervals_per_day)
    owner, count = day >> 32, len(principals)
    starts, active = run_starts(owner), np.bincount(owner, minlength=count)
    of_machine = np.flatnonzero(np.isin(first.principal, principals))
    use = np.searchsorted(principals, first.principal[of_machine]).astype(np.int64) << 32
    use = np.searchsorted(day, use | first.day[of_machine])
    came, came_new = (
        np.bincount(use[some], minlength=len(day)) for some in (slice(None), ~shared[of_machine])
    )
    number = np.arange(len(day)) - np.repeat(starts, active)  # of active days before
    until = np.cumsum(came) - np.repeat(
        (np.cumsum(came) - came)[starts], active
    )  # networks, with those of the day
    latest = np.maximum.accumulate(
        np.where(came > 0, np.arange(len(day)), 0)
    )  # each machine's first day has one
    ended = (number + 1 >= MIN_DAYS) & (until <= MAX_NETWORKS)
    ended &= np.arange(len(day)) + 1 - latest > QUIET_DAYS  # settled when the day is over
    began = np.zeros(len(day), bool)
    began[1:] = ended[:-1]
    began[starts] = False
    moved = [
        np.bincount(owner[began & each], minlength=count)
        for each in (came_new > 0, (came > 0) & (came_new == 0))
    ]
    return _MachineDays(
        principals,
        ended[starts + active - 1] if count else np.zeros(0, bool),
        active,
        np.bincount(owner[began], minlength=count),
        np.stack(moved),
    )


@dataclass(frozen=True)
class SettledMachines:
    """The machines that were settled in the history, their networks and everyone's, as `learn_moves` returns them."""

    machines: SortedTable
    own: SortedTable
    everyones: SortedTable

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> SettledMachines:
        """Return those of arrays by the names that `learn_moves` gives them, where `placement` puts them."""
        return cls(
            SortedTable(
                placement(arrays["principal"]),
                {name: placement(arrays[name]) for name in (*RATES, "days", "behind")},
            ),
            SortedTable(placement(arrays["key"]), {"network": placement(arrays["network"])}),
            SortedTable(placement(arrays["everyones"]), {}),
        )

    @classmethod
    def from_bank(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> SettledMachines:
        """Return those of a bank, from its arrays by name (`move.*`); none in a bank without."""
        return cls.from_arrays(mapped_arrays.part_arrays("move", arrays) or _no_moves(), placement)

    def nats(self, principal: Hashes, network: Hashes) -> Floats:
        """Return the nats of networks that principals call from, (N,); 0 of their usual ones, and of who is not settled."""
        xp = namespace(principal)
        nats: Floats = xp.zeros(len(principal), np.float32)
        rows = xp.flatnonzero(self.machines.has(principal))
        rows = rows[~self.own.has(network_key(principal[rows], network[rows]))]
        new, shared = (self.machines.get(principal[rows], name, missing=0) for name in RATES)
        nats[rows] = xp.where(self.everyones.has(network[rows]), shared, new)
        return nats

    def evidence(self, principal: Hashes, network: Hashes, new: NDArray[np.bool_]) -> Floats:
        """Return the nats that networks add to the events of principals that call from them, (N,).

        Of an event that shows nothing else that is `new` (N,), only those of a machine that few others could move with.
        """
        nats = np.float32(WEIGHT) * self.nats(principal, network)
        few: NDArray[np.bool_] = self.machines.get(principal, "behind", missing=0) <= MAX_BEHIND
        return nats * (new | few)

    def usual(self, principal: np.uint64) -> tuple[Hashes, int]:
        """Return the codes of a settled machine's networks (K,), K at most MAX_NETWORKS, and on how many days it called."""
        keys, columns = self.own.compact()
        networks = columns["network"]
        its_own = network_key(np.full(len(keys), principal, np.uint64), networks) == keys
        return networks[its_own], int(self.machines.get(np.array([principal]), "days", missing=0)[0])


def _no_moves() -> Arrays:
    none = np.empty(0, np.uint64)
    rows = NetworkRows(none, np.empty(0, np.int32), none > 0, none, none, none > 0)
    return learn_moves(rows, 1)
