"""Openers: the principals that opened each role -> the nats of an opener that is new to the role.

Example:
    >>> known = RoleOpeners.from_arrays(learn_openers(rows, 24))                # of a history, a row an opening
    >>> known.nats(role, opener)                                               # (N,)
    array([5.1, 0. ], dtype=float32)

A role that only one pipeline opens, every day, is hardly ever opened by another principal; a role that a department shares meets
new people every month. The rate at which a role met new openers says how rare one is:

    e = (T - 1 + W e_all) / (n + W)       T openers in n days on which the role was opened; W is PRIOR_DAYS
    e_all                                 the rate of all roles together

which is -ln e nats (`estimators.rates`). They add WEIGHT times as many to the event: the tails of harmless events are so long
that nats of novelty are worth less than those of a share. For a role without learned openers there are none: the role itself is
new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats, Ints
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.estimators.rates import rarity_nats

PRIOR_DAYS = 2.0  # days of a role that the rate of all roles is worth
WEIGHT = 2.0
OPENER_FEATURE = "opener of the role"  # the feature that a driver names
OPENED = " opened "  # in the driver's text, between the opener and the role


class OpeningRows(NamedTuple):
    """Rows of a history that opened a role, (N,) each: `mark`, `interval` and `learned` are as in `DistinctRows`."""

    mark: Hashes
    interval: Ints
    learned: NDArray[np.bool_]
    role: Hashes
    opener: Hashes

    def take(self, which: NDArray[Any]) -> OpeningRows:
        """Return the rows of a mask or an index."""
        return OpeningRows(*(column[which] for column in self))


def learn_openers(rows: OpeningRows, intervals_per_day: int) -> Arrays:
    """Return the openers of each role, and the nats of a new one.

    Returns `pair` (M,), sorted hashes of role and opener, with the two themselves, `pair_role` and `pair_opener` (M,); and `role`
    (K,), sorted, with the `nats` (K,) of a new opener.
    """
    role, opener, day = rows.role, rows.opener, rows.interval // intervals_per_day
    pair = hashing.hash_pair(role, opener)
    _, example = np.unique(hashing.hash_pair(pair, day.astype(np.uint64)), return_index=True)
    pairs, first = np.unique(pair, return_index=True)
    roles, of_day = np.unique(role[example], return_inverse=True)
    days = np.bincount(of_day, minlength=len(roles))
    new = np.bincount(np.searchsorted(roles, role[first]), minlength=len(roles)) - 1.0
    return {
        "pair": pairs,
        "pair_role": role[first],
        "pair_opener": opener[first],
        "role": roles,
        "nats": rarity_nats(new, days, PRIOR_DAYS),
    }


@dataclass(frozen=True)
class RoleOpeners:
    """The openers of each role in the history, as `learn_openers` returns them, on the host."""

    pair: Hashes
    pair_role: Hashes
    pair_opener: Hashes
    role: Hashes
    of_role: Floats

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> RoleOpeners:
        """Return the openers with the arrays that `learn_openers` returns."""
        return cls(*(arrays[name] for name in ("pair", "pair_role", "pair_opener", "role", "nats")))

    @classmethod
    def from_bank(cls, arrays: Mapping[str, NDArray[Any]]) -> RoleOpeners:
        """Return the openers of a bank, from its arrays by name (`opener.*`); without them no role has any."""
        return cls.from_arrays(mapped_arrays.part_arrays("opener", arrays) or _no_openers())

    def nats(self, role: Hashes, opener: Hashes) -> Floats:
        """Return the nats of openers of roles, (N,): 0 for openers that are known, and for roles without learned openers."""
        place, found = find_sorted(self.role, role)
        _, known = find_sorted(self.pair, hashing.hash_pair(role, opener))
        out = np.zeros(len(role), np.float32)
        new = found & ~known
        out[new] = self.of_role[place[new]]
        return out

    def evidence(self, role: Hashes, opener: Hashes) -> Floats:
        """Return the nats that openers of roles add to their events, (N,)."""
        return np.float32(WEIGHT) * self.nats(role, opener)

    def openers(self, role: np.uint64) -> Hashes:
        """Return the principals that opened a role in the history, (M,)."""
        return self.pair_opener[self.pair_role == role]


def _no_openers() -> Arrays:
    none = np.empty(0, np.uint64)
    return learn_openers(OpeningRows(none, np.empty(0, np.int32), none > 0, none, none), 1)
