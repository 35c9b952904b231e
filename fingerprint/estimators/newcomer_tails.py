"""Newcomer tails: how rare the counts of a newcomer's interval are among the first days of other principals -> z.

Example:
    >>> tails = fit_newcomer_tails(count, principal, kind)      # (H, 3) events, errors, writes of hours of first days
    >>> tails.z(tails.rows(kind), count)                        # (N,), NaN where too few principals were seen to begin

A principal that has just begun has no forecast of its own, but the history shows how others began: it has the first days of each
principal, counted from when the history first saw it. Few principals truly begin within a history (none to five in four simulated
histories of 200 principals). Those that were there before it look the same in their first days: half of people's hours have at
most 9 events, one in twenty has 66, or 3 that failed; for people who truly began, these are 8, 65 and 2
(docs/explanation/experiments.md). So all principals count alike.

Two steps turn the counts of an interval into a z:

1. Each channel has a tail by kind of principal: the share of the kind's hours with at least this count. The interval's strongest
   channel is the one with the smallest share. The channel of all events must be EVENT_RARITY times as rare as the others to be
   the strongest, because reading much says little.
2. That smallest share has a tail of its own by kind: S, the share of the kind's events that lie in hours with such a share or a
   smaller one. z = -Phi^-1(S).

The tails of a kind are shrunk towards those of all kinds. The first step counts hours and not events: most events lie in the
hours of a few busy machines, and no hour of a person would be busy beside those.
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
EVENT_RARITY = 8.0  # how many times as rare an hour must be by all of its events as by another channel
# Counts at which a channel's tail is known: each up to 11, then twenty for every tenfold; others count as the next lower one.
COUNT_KNOTS = np.unique(np.r_[0, np.geomspace(1, 1e6, 121).round()]).astype(np.float32)
NATS_STEP, NATS_KNOTS = 0.05, 301  # nats 0 ... 15 at which the tail of the strongest channel is known
MIN_PRINCIPALS = 10  # principals whose first days must have been seen; fewer cannot say that an hour is rare
KIND_PRIOR_HOURS = 200.0  # active hours that the tail of all kinds is worth in that of a kind
PRIOR_HOURS = 20.0  # hours that a prior tail is worth in that of all kinds
PRIOR_POWER = 0.7  # of that prior: its shares are (1 + count) ^ -PRIOR_POWER, and so exponential in nats


@dataclass(frozen=True)
class NewcomerTails:
    """Tails of first days, by kind of principal.

    `kind` (K,) are the sorted hashes of kinds, `channel` (K + 1, CHANNELS, knots) the log shares of each channel, and `tail`
    (K + 1, knots) those of the strongest channel. The last row is for all kinds. Without rows nothing was learned.
    """

    kind: Hashes
    channel: Floats
    tail: Floats

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> NewcomerTails:
        """Return the tails of a bank from its arrays by name (`newcomer.*`), on the device of `placement`; none without them."""
        own = mapped_arrays.part_arrays("newcomer", arrays) or no_newcomer_tails().as_arrays("")
        return cls(**{name: placement(np.asarray(own[name])) for name in TAIL_ARRAYS})

    def as_arrays(self, part: str = "newcomer.") -> Arrays:
        """Return the arrays by name; names begin with `part`."""
        return {f"{part}{name}": getattr(self, name) for name in TAIL_ARRAYS}

    @property
    def learned(self) -> bool:
        """Return whether enough principals were seen to begin."""
        return len(self.tail) > 0

    def rows(self, kind: Hashes) -> Ints:
        """Return the row of each kind's tail, from hashes of kinds (N,): (N,). An unknown kind has that of all kinds."""
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
    """Return the log of the share at or above each knot, of each kind and last of all kinds: (kinds + 1, knots).

    `place` (H,) is the knot of each hour, `weight` (H,) what it counts, `of_kind` (H,) its kind; `prior` (knots,) are the shares
    that few hours are shrunk towards. Weights are whole numbers, so sums do not depend on the order of the hours.
    """
    cells = np.bincount(of_kind * len(prior) + place, weight, kinds * len(prior)).reshape(kinds, len(prior))
    passed = cells[:, ::-1].cumsum(axis=1)[:, ::-1]
    hours = np.bincount(of_kind, minlength=kinds)[:, None]
    together = passed.sum(axis=0)
    everybody = (len(place) * together / together[0] + PRIOR_HOURS * prior) / (len(place) + PRIOR_HOURS)
    own = passed / passed[:, :1]
    shrunk = (hours * own + KIND_PRIOR_HOURS * everybody) / (hours + KIND_PRIOR_HOURS)
    return np.log(np.concatenate([shrunk, everybody[None]])).astype(np.float32)
