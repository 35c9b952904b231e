"""Surprise of an action that follows another, compiled for the host.

Example:
    >>> fill_transition_nats(known.keys, known.count, principal, context, action, PRIORS, nats)    # nats (P,) is filled

The maths is that of `sequence.array_transition_nats`, against which tests compare it. Compiled, it is one call instead of a
dozen, which take most of the time where actions are few.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats
from fingerprint.compute.compiled import compile_exact_kernel, find_key, hash_one_pair
from fingerprint.compute.hashing import Hashes
from fingerprint.estimators import sequence


class Priors(NamedTuple):
    """The reserved codes of transition keys, and the intervals that each prior is worth.

    They are arguments, because numba does not notice that a constant of another file changed.
    """

    organisation: np.uint64
    any_context: np.uint64
    total: np.uint64
    of_organisation: np.float64
    of_principal: np.float64


PRIORS = Priors(
    sequence.ORGANISATION,
    sequence.ANY,
    sequence.TOTAL,
    np.float64(sequence.ORGANISATION_PRIOR),
    np.float64(sequence.PRINCIPAL_PRIOR),
)


@compile_exact_kernel
def counted(keys: Hashes, count: Floats, owner: np.uint64, context: np.uint64, action: np.uint64) -> float:
    """Return the number of intervals in which an owner did an action after a context."""
    here = find_key(keys, hash_one_pair(hash_one_pair(owner, context), action))
    return np.float64(count[here]) if here >= 0 else 0.0


@compile_exact_kernel
def fill_transition_nats(
    keys: Hashes,
    count: Floats,
    principal: Hashes,
    context: Hashes,
    action: Hashes,
    priors: Priors,
    nats: Floats,
) -> None:
    """Fill `nats` (P,) with -log p(action | context) of each principal, from counts (M,) at sorted keys (M,)."""
    everybody, total = priors.organisation, priors.total
    events = counted(keys, count, everybody, priors.any_context, total)
    spread = events + (counted(keys, count, everybody, total, total) + 1) / 2
    for pair in range(len(action)):
        usual = (counted(keys, count, everybody, priors.any_context, action[pair]) + 0.5) / spread
        for owner, prior in ((everybody, priors.of_organisation), (principal[pair], priors.of_principal)):
            after = counted(keys, count, owner, context[pair], action[pair])
            there = counted(keys, count, owner, context[pair], total)
            usual = (after + prior * usual) / (there + prior)
        nats[pair] = -math.log(usual)


@compile_exact_kernel
def find_least_of_each(
    which: NDArray[np.intp], nats: Floats, context: Hashes, best: NDArray[np.intp]
) -> None:
    """Fill `best` with the index of the pair with the fewest nats of each action; of equal ones, that with the smallest context.

    `which` (P,) is the action of each pair, an index of `best`, which is -1 before any pair was found.
    """
    for pair in range(len(which)):
        so_far = best[which[pair]]
        if so_far < 0 or (nats[pair], context[pair]) < (nats[so_far], context[so_far]):
            best[which[pair]] = pair
