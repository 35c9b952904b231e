"""Rates of rare happenings: of one owner, backed off to all owners -> the nats of another one.

Example:
    >>> new, days = np.array([0, 9]), np.array([14, 20])                 # of two roles: new openers, days with an opening
    >>> rarity_nats(new, days, prior_days=2.0).round(1)
    array([3.8, 0.9], dtype=float32)

If it happened to an owner T times in n days, its rate a day is

    e = (T + W e_all) / (n + W)       W is `prior_days`: how many days of one owner the rate of all is worth
    e_all                             the rate of all owners together

which is -ln e nats, at most MAX_NATS. The prior of e_all is `all_new` times in ALL_DAYS.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats, Ints

ALL_NEW, ALL_DAYS = 1.0, 20.0
NEVER = np.iinfo(np.int32).max  # the first time of an owner that has none
MAX_NATS = 10.0  # as for any feature: what is rarer than one in twenty thousand was never seen


def rarity_nats(
    new: NDArray[Any], days: NDArray[np.integer[Any]], prior_days: float, all_new: float = ALL_NEW
) -> Floats:
    """Return the nats of another happening for each owner (P,), which had `new` (P,) of them in `days` (P,) days."""
    of_all = (new.sum() + all_new) / (days.sum() + ALL_DAYS)
    share = (new + prior_days * of_all) / (days + prior_days)
    nats: Floats = np.minimum(-np.log(np.minimum(share, 1)), MAX_NATS).astype(np.float32)
    return nats


def distinct_days(
    owner: NDArray[np.integer[Any]], day: NDArray[np.integer[Any]], owners: int
) -> NDArray[np.intp]:
    """Return the number of distinct days of each owner, (owners,), from rows (N,).

    >>> distinct_days(np.array([0, 0, 2]), np.array([5, 5, 7]), owners=3)
    array([1, 0, 1])
    """
    both = np.unique(owner.astype(np.int64) << 32 | day)
    return np.bincount(both >> 32, minlength=owners)


def first_times(owner: NDArray[np.integer[Any]], time: Ints, owners: int) -> Ints:
    """Return the earliest time of each owner, (owners,), from rows (N,); NEVER for an owner without rows.

    >>> first_times(np.array([0, 0, 2]), np.array([5, 3, 7], np.int32), owners=3)[[0, 2]]
    array([3, 7], dtype=int32)
    """
    first = np.full(owners, NEVER, np.int32)
    np.minimum.at(first, owner, time)
    return first
