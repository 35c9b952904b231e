"""Moves: machines that keep to their networks -> the nats of one that is seen at another.

Example:
    >>> known = SettledMachines.from_arrays(learn_moves(rows, 24), identity_placement)      # of a history
    >>> known.evidence(principal, network, new)                           # (N,) of calls from addresses, what else is new
    array([14.9, 0. ], dtype=float32)

A machine with few networks, none of them new of late, is *settled*: a server behind a gateway, a key in a data centre. Settled
machines hardly ever move. A call from elsewhere means that the credentials were stolen, or that a whole network was rebuilt. The
rate at which settled machines of the organisation came to a new network says how rare one is:

    e = (T + W e_all) / (n + W)       T: days with a new network; W is PRIOR_DAYS
                                      n: days on which the machine called and was settled
    e_all                             the rate of all machines together

which is -ln e nats (`estimators.rates`). They add WEIGHT times as many to the event, but only if something else of it is new as
well: a gateway with a new address moves all machines behind it at once, and they do there what they always did. Where at most
MAX_BEHIND machines share a network, few can move together, and the network alone is enough. Networks that others had used before,
such as a shared gateway, have rates of their own and a larger prior. A machine that is not settled has no nats, wherever it is
seen.
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

MIN_DAYS = 5  # active days of a machine before it can be settled
QUIET_DAYS = 5  # active days since its latest network came
MAX_NETWORKS = 3
# Days of a machine that the rate of all is worth: a rebuilt network moves machines that never moved
PRIOR_DAYS = 10.0
# Settled machines at one network, which bounds the alerts that a gateway can make when it moves
MAX_BEHIND = 8
# Prior number of moves of all machines together to networks that others had used (`rates.ALL_DAYS`)
ALL_SHARED = 3.0
WEIGHT = 2.0
_MOVED = hashing.hash_string("seen at another network")
RATES = ("new", "shared")


class NetworkRows(NamedTuple):
    """Uses of networks (N,) by principals that called from an address; `machine` says which principals are machines.

    `mark`, `interval` and `learned` are as in `DistinctRows`; `network` is the code of the network.
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
    """Return the codes (N,) under which a scorer keeps the time when a settled machine was first seen at each network."""
    return hashing.combine(network, namespace(network).full_like(network, _MOVED))


def network_key(principal: Hashes, network: Hashes) -> Hashes:
    """Return the key of a principal and a network, in the principal's hash bucket: (N,)."""
    return hashing.combine(principal, network)


def first_uses(rows: NetworkRows) -> NDArray[np.intp]:
    """Return one index for each distinct principal, interval, network and `learned` of the rows (N,), in order."""
    at = hashing.hash_pair(network_key(rows.principal, rows.network), rows.interval.astype(np.uint64))
    _, first = np.unique(hashing.hash_pair(at, rows.learned.astype(np.uint64)), return_index=True)
    return np.sort(first)


def learn_moves(rows: NetworkRows, intervals_per_day: int) -> Arrays:
    """Return the machines that are settled at the end of the history, and the networks of all principals.

    - `principal` (M,): the settled machines, sorted
    - `new`, `shared` (M,): nats of a network that no one used before, and of one that others had used
    - `days` (M,): the number of days on which the machine called
    - `behind` (M,): the number of settled machines at its busiest network
    - `key` (K,), sorted (`network_key`), and `network` (K,): the usual networks of settled machines
    - `everyones` (U,), sorted: the networks that any principal used
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
    """Distinct pairs of principal and network (P,), and the day of the first use of each."""

    principal: Hashes
    network: Hashes
    day: Ints


def _first_days(rows: NetworkRows, intervals_per_day: int) -> _FirstDays:
    """Return the first day on which each principal used each of its networks."""
    _, example, pair = np.unique(
        network_key(rows.principal, rows.network), return_index=True, return_inverse=True
    )
    day = first_times(pair, rows.interval // intervals_per_day, len(example))
    return _FirstDays(rows.principal[example], rows.network[example], day)


class _MachineDays(NamedTuple):
    """M machines, sorted by `principal`: whether each is `settled` at the end, and the number of its `active` days.

    `days` (M,) counts the days that it began as a settled machine. `moved` (2, M) counts the days of these with a new network:
    first those with one that is new to everyone, then those where others had used all of the new ones.
    """

    principal: Hashes
    settled: NDArray[np.bool_]
    active: NDArray[np.intp]
    days: NDArray[np.intp]
    moved: NDArray[np.intp]


def _machine_days(
    rows: NetworkRows, intervals_per_day: int, first: _FirstDays, shared: NDArray[np.bool_]
) -> _MachineDays:
    """Return the days of each machine, from its `rows`, the `first` uses of networks (P,), and whether others had used them."""
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
    number = np.arange(len(day)) - np.repeat(starts, active)  # active days before this one
    until = np.cumsum(came) - np.repeat(
        (np.cumsum(came) - came)[starts], active
    )  # networks so far, with those of the day
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
        """Return the machines that `learn_moves` found, on the device of `placement`."""
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
        """Return the machines of a bank, from its arrays by name (`move.*`); none in a bank without such arrays."""
        return cls.from_arrays(mapped_arrays.part_arrays("move", arrays) or _no_moves(), placement)

    def nats(self, principal: Hashes, network: Hashes) -> Floats:
        """Return the nats of networks that principals call from (N,): 0 for usual networks and machines that are not settled."""
        xp = namespace(principal)
        nats: Floats = xp.zeros(len(principal), np.float32)
        rows = xp.flatnonzero(self.machines.has(principal))
        rows = rows[~self.own.has(network_key(principal[rows], network[rows]))]
        new, shared = (self.machines.get(principal[rows], name, missing=0) for name in RATES)
        nats[rows] = xp.where(self.everyones.has(network[rows]), shared, new)
        return nats

    def evidence(self, principal: Hashes, network: Hashes, new: NDArray[np.bool_]) -> Floats:
        """Return the nats that networks add to the events of principals that call from them, (N,).

        An event that shows nothing else that is `new` (N,) adds nats only if few machines share the machine's networks.
        """
        nats = np.float32(WEIGHT) * self.nats(principal, network)
        few: NDArray[np.bool_] = self.machines.get(principal, "behind", missing=0) <= MAX_BEHIND
        return nats * (new | few)

    def usual(self, principal: np.uint64) -> tuple[Hashes, int]:
        """Return the codes of a settled machine's networks (K,), at most MAX_NETWORKS, and the number of days it called on."""
        keys, columns = self.own.compact()
        networks = columns["network"]
        its_own = network_key(np.full(len(keys), principal, np.uint64), networks) == keys
        return networks[its_own], int(self.machines.get(np.array([principal]), "days", missing=0)[0])


def _no_moves() -> Arrays:
    none = np.empty(0, np.uint64)
    rows = NetworkRows(none, np.empty(0, np.int32), none > 0, none, none, none > 0)
    return learn_moves(rows, 1)
