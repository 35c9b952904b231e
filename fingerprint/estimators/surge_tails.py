"""Surge tails: the share of a principal's harmless events that lie in intervals with at least as large a surge -> z.

Example:
    >>> surge = log_surge(count, expected, spread, burst)               # (N, C), NaN where an event was not counted
    >>> tails = fit_surge_tails(surge, events, principal, kind, interval)   # of held-out rows
    >>> tails.z(tails.rows(principal, kind), surge)                     # (N,)

Counts are over-dispersed, so a residual in robust standard deviations says little: of people who sign in, nineteen events in
twenty lie in an interval with a z above four. Three steps make it a share of events:

1. The residual is divided by the largest of the forecast's spread, the Poisson root of the expected count, and the `burst` of the
   series: the root mean square of its residuals in the intervals of the history that had any (`amounts.usual_amounts`).
2. Each channel has a tail by kind of principal: S_c(x) is the share of all the kind's held-out events that were counted in an
   interval of this channel with at least this surge. An event's strongest channel is the one with the smallest share.
3. That smallest share has a tail of its own: S, the share of the principal's events with such a share or a smaller one. It is
   shrunk towards the tail of the kind, and that towards the tail of all principals. z = -Phi^-1(S).

Shares are of events, not of intervals: an analyst is shown events, and bursts hold most of them. In the tails of a kind no
principal counts more than all others together (`principal_weights`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats, Ints, Placement, namespace
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.estimators import spectral
from fingerprint.estimators.day_folds import day_folds
from fingerprint.estimators.principal_weights import balanced_events
from fingerprint.estimators.tail_calibration import z_of_log_survival

SURGE_STEP, SURGE_KNOTS = 0.25, 49  # log surges 0 ... 12 at which a channel's tail is known
NATS_STEP, NATS_KNOTS = 0.25, 61  # nats 0 ... 15 at which a principal's tail is known
SURGE_UNITS = 4.0  # a surge of one burst is log(1 + SURGE_UNITS)
PRIOR_EVENTS = 200.0  # events that the prior is worth in the tail of all principals
PRIOR_SLOPE = 0.7  # of that prior, which is an exponential tail
KIND_PRIOR_INTERVALS = 200.0  # active intervals that the tail of all is worth in that of a kind ...
PRINCIPAL_PRIOR_INTERVALS = 150.0  # ... and that the tail of a kind is worth in that of a principal
LAST_SLOPE = 1.0  # by which the log share falls beyond the last knot

Numbers = NDArray[Any]  # integers or floats of any width


def log_surge(count: Floats, expected: Floats, spread: Floats, burst: Floats) -> Floats:
    """Return the log surge log(1 + SURGE_UNITS x residual / scale) of counts (...,); NaN where there is no forecast yet.

    The scale is the largest of spread, burst and the Poisson root of the expected count.
    """
    xp = namespace(count)
    scale = xp.maximum(xp.maximum(spread, burst), xp.sqrt(expected + spectral.COUNT_FLOOR))
    out: Floats = xp.log1p(SURGE_UNITS * xp.maximum(count - expected, 0) / scale).astype(np.float32)
    return out


def log_share(tails: Floats, which: tuple[Ints, ...], value: Floats, step: float) -> Floats:
    """Return the log share (N,) of tails at values (N,), interpolated between the knots; 0 for NaN.

    `tails` (..., knots) has its knots at 0, step, 2 step ...; `which` has an index array (N,) for each axis before the last.
    """
    xp, last = namespace(tails), tails.shape[-1] - 1
    place = xp.where(xp.isnan(value), 0, value) / step
    below = xp.clip(xp.floor(place).astype(np.int64), 0, last - 1)
    left, right = tails[(*which, below)], tails[(*which, below + 1)]
    part = place - below
    inside = left + (right - left) * xp.minimum(part, 1)
    behind = LAST_SLOPE * step * xp.maximum(place - last, 0)
    out: Floats = xp.where(xp.isnan(value), 0, inside - behind).astype(np.float32)
    return out


@dataclass(frozen=True)
class SurgeTails:
    """Tails of surges, by kind and by principal.

    - `key` (P,): sorted hashes of principals
    - `kind` (K,): sorted hashes of kinds
    - `kind_of` (P + K + 1,): the kind of each row of `tail`, K for the last
    - `tail` (P + K + 1, knots): log shares of the strongest channel, of the principals, the kinds, and all principals together
    - `channel` (K + 1, C, knots): log shares of each channel, of the kinds, and all principals together
    """

    key: Hashes
    kind: Hashes
    kind_of: Ints
    tail: Floats
    channel: Floats

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], placement: Placement) -> SurgeTails:
        """Return the tails of a bank from its arrays by name (`surge.*`), on the device of `placement`; else the prior."""
        own = mapped_arrays.part_arrays("surge", arrays)
        if not own:
            return empty_surge_tails(placement)
        return cls(**{name: placement(np.asarray(array)) for name, array in own.items()})

    def as_arrays(self) -> Arrays:
        """Return the arrays by name."""
        return {f"surge.{name}": getattr(self, name) for name in TAIL_ARRAYS}

    def rows(self, principal: Hashes, kind: Hashes) -> Ints:
        """Return the row of each principal's tail, from hashes of principals and kinds (N,): (N,).

        An unknown principal has the row of its kind, or that of all principals if the kind is unknown too.
        """
        xp = namespace(principal)
        place, found = find_sorted(self.key, principal)
        of_kind, known = find_sorted(self.kind, kind)
        other = xp.where(known, len(self.key) + of_kind, len(self.tail) - 1)
        out: Ints = xp.where(found, place, other).astype(np.int32)
        return out

    def nats(self, rows: Ints, channel: Ints, surge: Floats) -> Floats:
        """Return minus the log share of surges (N,) in channels (N,), 0 for NaN."""
        return -log_share(self.channel, (self.kind_of[rows], channel), surge, SURGE_STEP)

    def z_of_nats(self, rows: Ints, nats: Floats) -> Floats:
        """Return the z of the strongest channel's nats (N,)."""
        return z_of_log_survival(log_share(self.tail, (rows,), nats, NATS_STEP).astype(np.float64))

    def z(self, rows: Ints, surge: Floats) -> Floats:
        """Return the z of surges (N, C), NaN where no channel has one."""
        xp = namespace(surge)
        z = self.z_of_nats(rows, self.strongest(rows, surge))
        out: Floats = xp.where(xp.isnan(surge).all(axis=1), np.nan, z).astype(np.float32)
        return out

    def strongest(self, rows: Ints, surge: Floats) -> Floats:
        """Return the nats of each row's strongest channel, (N,)."""
        xp = namespace(surge)
        row, channel = xp.nonzero(~xp.isnan(surge))
        each = xp.zeros(surge.shape, np.float32)
        each[row, channel] = self.nats(rows[row], channel, surge[row, channel])
        out: Floats = each.max(axis=1)
        return out


TAIL_ARRAYS = ("key", "kind", "kind_of", "tail", "channel")
CHANNELS = 9


def empty_surge_tails(placement: Placement) -> SurgeTails:
    """Return the tails of a bank without held-out rows: the prior, for all principals."""
    none = np.empty(0, np.uint64)
    channel = np.broadcast_to(_prior(SURGE_STEP, SURGE_KNOTS), (1, CHANNELS, SURGE_KNOTS))
    tail = _prior(NATS_STEP, NATS_KNOTS)[None]
    arrays = (none, none, np.zeros(1, np.int32), tail.astype(np.float32), channel.astype(np.float32))
    return SurgeTails(*(placement(np.ascontiguousarray(each)) for each in arrays))


def fit_surge_tails(
    surge: Floats, events: Floats, principal: Hashes, kind: Hashes, interval: Numbers
) -> SurgeTails:
    """Return the tails of held-out rows: surge (N, C), NaN where not counted; the other columns are (N,).

    A row stands for `events` events. Rows without a surge in any channel are left out.
    """
    known = ~np.isnan(surge).all(axis=1)
    surge, events, interval = surge[known], events[known], interval[known]
    principal, kind = principal[known], kind[known]
    events = balanced_events(events, principal, kind, interval).astype(np.float32)
    kinds, of_kind = np.unique(kind, return_inverse=True)
    keys, first, of_key = np.unique(principal, return_index=True, return_inverse=True)
    kind_of_key = of_kind[first]
    kind_of = np.concatenate([kind_of_key, np.arange(len(kinds)), [len(kinds)]]).astype(np.int32)
    active = _active_intervals(of_key, interval, len(keys))
    by_kind = np.bincount(kind_of_key, active, len(kinds))
    channel = np.stack(
        [_with_everybody(column, events, of_kind, by_kind, SURGE_STEP, SURGE_KNOTS) for column in surge.T],
        axis=1,
    )
    partial = SurgeTails(
        keys,
        kinds,
        kind_of,
        np.zeros((len(kind_of), NATS_KNOTS), np.float32),
        np.log(channel).astype(np.float32),
    )
    nats = partial.strongest(of_key.astype(np.int32), surge)
    above = _with_everybody(nats, events, of_kind, by_kind, NATS_STEP, NATS_KNOTS)
    own = _exceedance(nats, events, of_key, len(keys), NATS_STEP, NATS_KNOTS)
    weight = (active / (active + PRINCIPAL_PRIOR_INTERVALS))[:, None]
    shares = np.concatenate([weight * own + (1 - weight) * above[kind_of_key], above])
    return SurgeTails(keys, kinds, kind_of, np.log(shares).astype(np.float32), partial.channel)


def z_by_other_days(
    surge: Floats, events: Floats, principal: Hashes, kind: Hashes, interval: Numbers, day: Numbers
) -> Floats:
    """Return the z of held-out rows (N,), each by the tails of the other days: columns as in `fit_surge_tails`, day (N,).

    Tails that include a surge make it look usual, most of all a principal's own tail where few days are held out. A single day is
    judged by its own tails.
    """
    columns: tuple[Numbers, ...] = (surge, events, principal, kind, interval)
    out = np.empty(len(surge), np.float32)
    for left_out, others in day_folds(day):
        tails = fit_surge_tails(*(column[others] for column in columns))
        out[left_out] = tails.z(tails.rows(principal[left_out], kind[left_out]), surge[left_out])
    return out


def _active_intervals(of_key: Numbers, interval: Numbers, count: int) -> Numbers:
    cells = np.unique(of_key.astype(np.int64) << 32 | interval.astype(np.int64))
    return np.bincount(cells >> 32, minlength=count).astype(np.float64)


def _with_everybody(
    value: Floats, events: Floats, group: Numbers, active: Numbers, step: float, knots: int
) -> Numbers:
    """Return the shares of each kind, shrunk towards those of all principals, which come last: (K + 1, knots)."""
    everybody = _exceedance(value, events, np.zeros(len(value), int), 1, step, knots)[0]
    total = float(events.sum())
    everybody = (total * everybody + PRIOR_EVENTS * np.exp(_prior(step, knots))) / (total + PRIOR_EVENTS)
    own = _exceedance(value, events, group, len(active), step, knots)
    weight = (active / (active + KIND_PRIOR_INTERVALS))[:, None]
    return np.concatenate([weight * own + (1 - weight) * everybody, everybody[None]])


def _exceedance(
    value: Floats, events: Floats, group: Numbers, count: int, step: float, knots: int
) -> Numbers:
    """Return the share of each group's events that reach each knot: (count, knots). A value of NaN reaches none."""
    place = np.clip(np.floor(np.nan_to_num(value, nan=0) / step).astype(int), 0, knots - 1)
    here = ~np.isnan(value)
    cells = np.bincount(group[here] * knots + place[here], events[here], count * knots)
    passed = cells.reshape(count, knots)[:, ::-1].cumsum(axis=1)[:, ::-1]
    total = np.bincount(group, events, count)
    shares: Numbers = passed / np.maximum(total, 1e-9)[:, None]
    return shares


def _prior(step: float, knots: int) -> Numbers:
    """Return the log shares of an exponential tail at the knots."""
    return -PRIOR_SLOPE * step * np.arange(knots)
