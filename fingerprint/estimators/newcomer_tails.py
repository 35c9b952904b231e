"""Newcomer tails: how much of what others did in their first days lies in hours in which as much failed or was changed -> z.

Example:
    >>> tails = fit_newcomer_tails(count, principal, kind)      # (H, 3) events, errors, writes of hours of first days
    >>> tails.z(tails.rows(kind), count)                        # (N,), NaN where too few principals were seen to begin

A principal that has just begun has no forecast of its own, but how others began is known: the first days of each principal since
the history first saw it. Few truly begin while a history lasts (none to five in four simulated ones of 200 principals), and who
was there before looks the same in its first days: half of people's hours have at most 9 events, one in twenty 66, or 3 that
failed; of people who began it is 8, 65 and 2 (docs/explanation/experiments.md). So all count alike.

Two steps make the counts of an interval a z:

1. Each channel has a tail by kind of principal: the share of the kind's hours with at least as much. An interval's strongest
   channel is the one with the smallest share; that of all events must be EVENT_RARITY times as rare, as to read much says little.
2. That smallest share has a tail of its own by kind: the share of the kind's events that lie in such an hour. z = -Phi^-1(S).

A kind's tails are shrunk towards those of all kinds. The first step counts hours and not events, because in those of a few busy
machines lie most events, beside which no person would ever be busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats, Ints, Placement, namespace, to_device_of
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.estimators.surge_tails import log_share
from fingerprint.estimators.tail_calibration import z_of_log_survival

CHANNELS = 3  # all events of a principal in an interval, those that failed, those that changed something
EVENT_RARITY = 8.0  # times as rare must an hour be by all of its events as by one of the others
# Counts at which a channel's tail is known: each up to 11, then twenty for every tenfold; others count as the next lower one.
COUNT_KNOTS = np.unique(np.r_[0, np.geomspace(1, 1e6, 121).round()]).astype(np.float32)
NATS_STEP, NATS_KNOTS = 0.05, 301  # nats 0 ... 15 at which that of the strongest channel is
MIN_PRINCIPALS = 10  # whose first days must have been seen: fewer say of no hour that it is rare
KIND_PRIOR_HOURS = 200.0  # active hours that the tail of all kinds is worth in that of a kind
PRIOR_HOURS = 20.0  # hours that a prior tail is worth in that of all kinds
PRIOR_POWER = 0.7  # of that prior: of (1 + count) to minus this, and so exponential in nats


@dataclass(frozen=True)
class NewcomerTails:
    """Tails of first days, by kind.

    `kind` (K,) sorted hashes of kinds; `channel` (K + 1, CHANNELS, knots) log shares of each channel, `tail` (K + 1, knots) those
    of the strongest one; the last row is of all kinds. Without any row nothing was learned.
    """

    kind: Hashes
    channel: Floats
    tail: Floats

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> NewcomerTails:
        """Return those of a bank, from its arrays by name (`newcomer.*`), where `placement` puts them; none without."""
        own = mapped_arrays.part_arrays("newcomer", arrays) or no_newcomer_tails().as_arrays("")
        return cls(**{name: placement(np.asarray(own[name])) for name in TAIL_ARRAYS})

    def as_arrays(self, part: str = "newcomer.") -> Arrays:
        """Return them as arrays by name, which begins with `part`."""
        return {f"{part}{name}": getattr(self, name) for name in TAIL_ARRAYS}

    @property
    def learned(self) -> bool:
        """Return whether enough principals were seen to begin."""
        return len(self.tail) > 0

    def rows(self, kind: Hashes) -> Ints:
        """Return the tail of each kind (hashes, (N,)), that of all kinds for one that is not known."""
        place, found = find_sorted(self.kind, kind)
        out: Ints = namespace(kind).where(found, place, len(self.kind)).astype(np.int32)
        return out

    def z(self, rows: Ints, count: Floats) -> Floats:
        """Return the z of intervals by their counts (N, CHANNELS), NaN where nothing was learned."""
        if not self.learned:
            return namespace(count).full(len(count), np.nan, np.float32)
        nats = self.strongest(rows, count)
        return z_of_log_survival(log_share(self.tail, (rows,), nats, NATS_STEP).astype(np.float64))

    def strongest(self, rows: Ints, count: Floats) -> Floats:
        """Return the nats of each interval's strongest channel, (N,)."""
        xp = namespace(count)
        knots = to_device_of(COUNT_KNOTS, count)
        places = [xp.searchsorted(knots, column, side="right") - 1 for column in count.T]
        events, errors, writes = (-self.channel[rows, at, place] for at, place in enumerate(places))
        out: Floats = xp.maximum(
            xp.maximum(events - np.float32(np.log(EVENT_RARITY)), 0), xp.maximum(errors, writes)
        )
        return out


TAIL_ARRAYS = ("kind", "channel", "tail")


def no_newcomer_tails() -> NewcomerTails:
    """Return the tails of a bank that saw too few principals begin."""
    return NewcomerTails(
        np.empty(0, np.uint64),
        np.empty((0, CHANNELS, len(COUNT_KNOTS)), np.float32),
        np.empty((0, NATS_KNOTS), np.float32),
    )


def fit_newcomer_tails(count: Floats, principal: Hashes, kind: Hashes) -> NewcomerTails:
    """Return the tails of active hours of first days: counts (H, CHANNELS); principal, kind (H,)."""
    if len(np.unique(principal)) < MIN_PRINCIPALS:
        return no_newcomer_tails()
    kinds, of_kind = np.unique(kind, return_inverse=True)
    pareto = (1 + COUNT_KNOTS.astype(np.float64)) ** -PRIOR_POWER
    exponential = np.exp(-PRIOR_POWER * NATS_STEP * np.arange(NATS_KNOTS))
    hours, events = np.ones(len(count)), count[:, 0].astype(np.float64)
    places = np.searchsorted(COUNT_KNOTS, count, side="right") - 1
    channel = np.stack(
        [_log_shares(column, hours, of_kind, len(kinds), pareto) for column in places.T], axis=1
    )
    partial = NewcomerTails(kinds, channel, np.zeros((len(kinds) + 1, NATS_KNOTS), np.float32))
    nats = partial.strongest(of_kind.astype(np.int32), count)
    place = np.minimum(nats / NATS_STEP, NATS_KNOTS - 1).astype(int)
    return NewcomerTails(kinds, channel, _log_shares(place, events, of_kind, len(kinds), exponential))


def _log_shares(
    place: NDArray[np.intp],
    weight: NDArray[np.float64],
    of_kind: NDArray[np.intp],
    kinds: int,
    prior: NDArray[np.float64],
) -> Floats:
    """Return the log share that lies at each knot or behind it, of each kind and of all: (kinds + 1, knots).

    `place` (H,) is the knot of each hour, `weight` (H,) what it counts, `of_kind` (H,) its kind; `prior` (knots,) the shares that
    few hours are shrunk towards. Weights are whole numbers, so that no order of the hours makes a difference.
    """
    cells = np.bincount(of_kind * len(prior) + place, weight, kinds * len(prior)).reshape(kinds, len(prior))
    passed = cells[:, ::-1].cumsum(axis=1)[:, ::-1]
    hours = np.bincount(of_kind, minlength=kinds)[:, None]
    together = passed.sum(axis=0)
    everybody = (len(place) * together / together[0] + PRIOR_HOURS * prior) / (len(place) + PRIOR_HOURS)
    own = passed / passed[:, :1]
    shrunk = (hours * own + KIND_PRIOR_HOURS * everybody) / (hours + KIND_PRIOR_HOURS)
    return np.log(np.concatenate([shrunk, everybody[None]])).astype(np.float32)
