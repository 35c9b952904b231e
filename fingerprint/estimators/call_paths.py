"""Call paths: writes that only services called for a principal -> the nats of its first direct call of one.

Example:
    >>> known = KnownPaths.from_arrays(learn_call_paths(rows, day), placement)     # of a history
    >>> known.evidence(principal, action)                                # (N,) of writes called directly
    array([14.2, 0. ], dtype=float32)

A pipeline lets CloudFormation change its functions, and never changes one itself; a thief with its credentials does. A person
now and then repairs directly what CloudFormation deployed in their name. So a first direct call is as rare as its principal
makes them:

    e = (T + W e_all) / (n + W)       T: days with a first direct call of a write that services had called before
                                      n: days on which services called writes for the principal; W is PRIOR_DAYS
    e_all                             the rate of all principals together

which is -ln e nats (`estimators.rates`). They add WEIGHT times as many to the event. PRIOR_DAYS is small, because some principals
repair by hand every week, and most never do.
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
from fingerprint.compute.sorted_table import SortedTable
from fingerprint.estimators.amounts import action_key
from fingerprint.estimators.rates import NEVER, distinct_days, first_times, rarity_nats

PRIOR_DAYS = 1.0  # days of a principal that the rate of all principals is worth
WEIGHT = 2.5
CALL_PATH_FEATURE = "call path"  # the feature that a driver names
ONLY_BY = "only by "  # in the driver's expected value, before the service that called the action
_DIRECT = hashing.hash_string("called directly")


class PathRows(NamedTuple):
    """Rows of a history (N,): writes that services called for a principal, and its own `direct` calls of the same writes.

    `mark`, `interval` and `learned` are as in `DistinctRows`; `network` is the code of the network, which names a service.
    """

    mark: Hashes
    interval: Ints
    learned: NDArray[np.bool_]
    principal: Hashes
    action: Hashes
    network: Hashes
    direct: NDArray[np.bool_]

    def take(self, which: NDArray[Any]) -> PathRows:
        """Return the rows of a mask or an index."""
        return PathRows(*(column[which] for column in self))


def left_to_services(
    principal: Hashes, action: Hashes, wrote: NDArray[np.bool_], direct: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return the indices of rows (N,) that are writes which services called for a principal, or its own calls of the same.

    Principals that never call anything directly are left out: a role of a service says nothing about those that might.
    """
    key = action_key(principal, action)
    served = wrote & ~direct & np.isin(principal, np.unique(principal[direct]))
    return np.flatnonzero(wrote & np.isin(key, np.unique(key[served])))


def novelty_code(action: Hashes) -> Hashes:
    """Return the codes (N,) under which a scorer keeps the time of the first direct call of each action."""
    return hashing.combine(action, namespace(action).full_like(action, _DIRECT))


def learn_call_paths(rows: PathRows, intervals_per_day: int) -> Arrays:
    """Return the writes that only services called for each principal, M pairs of principal and action.

    Returns `key` (M,), sorted (`amounts.action_key`); `nats` (M,) of a first direct call; `days` (M,), the number of days on
    which a service called it; and `service` (M,), the code of the service's network.
    """
    keys, example, pair = np.unique(
        action_key(rows.principal, rows.action), return_index=True, return_inverse=True
    )
    served_first, direct_first = (
        first_times(pair[rows.direct == direct], rows.interval[rows.direct == direct], len(keys))
        for direct in (False, True)
    )
    _, principal = np.unique(rows.principal[example], return_inverse=True)
    day, served = rows.interval // intervals_per_day, ~rows.direct
    came_later = (served_first < direct_first) & (direct_first < NEVER)
    nats = rarity_nats(
        distinct_days(principal[came_later], direct_first[came_later] // intervals_per_day, len(keys)),
        distinct_days(principal[pair[served]], day[served], len(keys)),
        PRIOR_DAYS,
    )
    service = np.zeros(len(keys), np.uint64)
    service[pair[served]] = rows.network[served]
    days = distinct_days(pair[served], day[served], len(keys)).astype(np.float32)
    only = direct_first == NEVER
    return {"key": keys[only], "nats": nats[principal][only], "days": days[only], "service": service[only]}


@dataclass(frozen=True)
class KnownPaths:
    """The writes that only services called for each principal, as `learn_call_paths` returns them."""

    table: SortedTable

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> KnownPaths:
        """Return the paths that `learn_call_paths` found, on the device of `placement`."""
        columns = {name: placement(arrays[name]) for name in ("nats", "days", "service")}
        return cls(SortedTable(placement(arrays["key"]), columns))

    @classmethod
    def from_bank(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> KnownPaths:
        """Return the paths of a bank, from its arrays by name (`path.*`); none in a bank without such arrays."""
        return cls.from_arrays(mapped_arrays.part_arrays("path", arrays) or _no_paths(), placement)

    def nats(self, principal: Hashes, action: Hashes) -> Floats:
        """Return the nats of direct calls of actions (N,): 0 unless services, and only they, called them in the history."""
        nats: Floats = self.table.get(action_key(principal, action), "nats", missing=0)
        return nats

    def evidence(self, principal: Hashes, action: Hashes) -> Floats:
        """Return the nats that direct calls of actions add to their events, (N,)."""
        return np.float32(WEIGHT) * self.nats(principal, action)

    def usual(self, principal: Hashes, action: Hashes) -> tuple[Hashes, Floats]:
        """Return the code of the service that called each action for its principal, and the number of days: (N,) each."""
        key = action_key(principal, action)
        return self.table.get(key, "service", missing=0), self.table.get(key, "days", missing=0)


def _no_paths() -> Arrays:
    none = np.empty(0, np.uint64)
    rows = PathRows(none, np.empty(0, np.int32), none > 0, none, none, none, none > 0)
    return learn_call_paths(rows, 1)
