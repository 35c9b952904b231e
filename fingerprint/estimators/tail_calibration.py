"""Tail calibration: excess (nats above the usual) -> the share of a principal's intervals with at least this excess -> z.

Example:
    >>> maxima = interval_maxima(excess, interval, owner)       # of each active interval of a principal, held-out rows
    >>> edge, slope = fit_tail(maxima.excess)
    >>> log_rate = exceedance_log_rates(maxima, edge, parent)   # (E,)
    >>> float(z_of_log_survival(log_survival(np.array([40.0]), log_rate[:1], edge, slope))[0]) > 4
    True

A z must mean the same for quiet and busy, calm and restless entities. So an excess x is replaced by S(x), the share of the
principal's active intervals whose largest excess is at least x:

    S(x) = rate exp(-(x - edge) / slope)      from the edge on
    S(x) = rate ^ (x / edge)                  below it

- `edge`: the excess, in nats, that one interval in twenty of the whole organisation passes
- `slope`: the nats by which those intervals pass it on average. The tail is exponential (peaks over a threshold, Pickands 1975,
  with shape 0), because nats are logarithms already.
- `rate`: the share of the principal's own intervals that pass the edge. It is shrunk towards the rate of its peers, and theirs
  towards that of the organisation.

Then z = -Phi^-1(S). A z of four is as rare as four standard deviations of a normal distribution: one active interval in 31,574.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from fingerprint.compute.arrays import Array, Floats, Ints, namespace, scipy_special
from fingerprint.compute.hashing import Hashes
from fingerprint.estimators.autoencoder import Baseline

TAIL_SHARE = 0.05  # share of all intervals past the edge
DEFAULT_EDGE, DEFAULT_SLOPE = 10.0, 3.0  # nats: those of a usual organisation ...
EDGE_PRIOR_INTERVALS = 200  # ... how many intervals the edge is worth ...
SLOPE_PRIOR_INTERVALS = 20  # ... and how many peaks over it the slope is worth
MIN_LOG_SHARE = -700.0  # log of about the smallest probability that a float64 holds at full precision
# Share of the peaks, the largest, whose size does not count: one principal could have set it
CENSORED_SHARE = 0.1
PARENT_PRIOR_INTERVALS = 300  # intervals that the rate of a parent is worth


class IntervalMaxima(NamedTuple):
    """Active intervals (U,) of principals: the largest `excess` of each, and the fingerprint (`owner`) that measured it."""

    excess: Floats
    owner: Ints


def interval_maxima(excess: Floats, interval: Hashes, owner: Ints) -> IntervalMaxima:
    """Return the largest excess of each interval: events (N,) -> intervals (U,).

    `interval` is a hash of principal and interval, `owner` the fingerprint of each event.
    """
    first = argmax_per_group(excess, interval)
    return IntervalMaxima(excess[first], owner[first])


def argmax_per_group(values: Floats, group: Hashes) -> NDArray[np.intp]:
    """Return the index of the highest value of each group: values, groups (N,) -> (U,), sorted by group."""
    order = np.lexsort((-values, group))
    return order[np.unique(group[order], return_index=True)[1]]


def fit_tail(excess: Floats) -> tuple[float, float]:
    """Return edge and slope of the tail in nats, from the largest excess of each interval (U,)."""
    if not len(excess):
        return DEFAULT_EDGE, DEFAULT_SLOPE
    own = float(np.quantile(excess, 1 - TAIL_SHARE))
    edge = (len(excess) * own + EDGE_PRIOR_INTERVALS * DEFAULT_EDGE) / (len(excess) + EDGE_PRIOR_INTERVALS)
    # Sorted, so that the sum does not depend on how rows were partitioned
    peaks = np.sort(excess[excess > edge] - edge)
    return edge, float(
        (peaks.sum() + SLOPE_PRIOR_INTERVALS * DEFAULT_SLOPE) / (len(peaks) + SLOPE_PRIOR_INTERVALS)
    )


def censored_slope(peaks: Any, prior: float = 0.0, prior_peaks: int = 0) -> float:
    """Return the slope of peaks (K,), each an excess over the edge, shrunk towards a prior that counts as `prior_peaks` peaks.

    The slope is their mean, except that the largest CENSORED_SHARE of the peaks count as large as the next one below them
    (maximum likelihood under type II censoring, Epstein and Sobel 1953): one account's loop, or an attacker before the next
    training, must not set the slope of all.

    >>> round(censored_slope([1.0] * 18 + [2.0, 90.0]), 2)
    1.11
    """
    ordered = np.sort(np.asarray(peaks, float))
    censored = math.ceil(CENSORED_SHARE * len(ordered)) if len(ordered) > 1 else 0
    known = ordered[: len(ordered) - censored]
    total = float(known.sum()) + (censored * float(known[-1]) if censored else 0.0)
    return (total + prior_peaks * prior) / (len(known) + prior_peaks)


def exceedance_log_rates(maxima: IntervalMaxima, edge: float, parent: Ints) -> Floats:
    """Return the log share of each fingerprint's intervals that pass the edge, shrunk towards its parent's: (E,) -> (E,).

    A fingerprint without intervals of its own has its parent's share. `parent` (E,) is -1 for none.
    """
    count, passed = (
        _accumulate_to_ancestors(np.bincount(maxima.owner, weight, len(parent)), parent)
        for weight in (None, (maxima.excess > edge).astype(float))
    )
    rate = np.full(len(parent), TAIL_SHARE)
    for level in rows_by_depth(parent):
        above = np.where(parent[level] >= 0, rate[parent[level]], TAIL_SHARE)
        rate[level] = (passed[level] + PARENT_PRIOR_INTERVALS * above) / (
            count[level] + PARENT_PRIOR_INTERVALS
        )
    return np.log(rate).astype(np.float32)


def log_survival(excess: Floats, log_rate: Floats, edge: Any, slope: Any) -> NDArray[np.float64]:
    """Return log S of an excess (N,), at most 0; the others are (N,) or scalars."""
    xp = namespace(excess)
    below = log_rate * xp.clip(excess / edge, 0, 1)
    out: NDArray[np.float64] = below - xp.maximum(excess - edge, 0) / slope
    return out


def z_of_log_survival(log_survival: NDArray[np.float64]) -> Floats:
    """Return the z that a normal variable exceeds with a given probability, from log probabilities (N,): (N,)."""
    xp = namespace(log_survival)
    logarithm = xp.minimum(log_survival, -1e-9)
    out: Floats = -(ndtri_exp(logarithm) if xp is np else _ndtri_exp(logarithm))
    return out.astype(np.float32)


def either_or_both(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the smallest of three log shares (N,): each of two, and both combined by Fisher's method.

    Fisher's method (1925) combines two independent shares: minus the log of their product is s or more with probability
    (1 + s) exp(-s).

    >>> either_or_both(np.log([0.01, 0.01]), np.log([0.01, 1.0])).round(1)
    array([-6.9, -4.6])
    """
    xp, together = namespace(one), one + other
    rarer: NDArray[np.float64] = xp.minimum(xp.minimum(one, other), together + xp.log1p(-together))
    return rarer


def _ndtri_exp(logarithm: Array) -> Array:
    """Return SciPy's `ndtri_exp` (N,), to 1e-6, by `ndtri` alone, because CuPy has no `ndtri_exp`.

    Where a float64 cannot hold the probability, z follows from the expansion of the tail,
    log Phi(-z) = -z^2 / 2 - log(z sqrt(2 pi)) - 1 / z^2, solved by repeatedly inserting z into the smaller terms.
    """
    xp, logarithm = namespace(logarithm), logarithm.astype(np.float64)  # in float32 e^-1e-9 is 1
    near = scipy_special(logarithm).ndtri(xp.exp(xp.maximum(logarithm, MIN_LOG_SHARE)))
    twice = -2 * xp.minimum(logarithm, MIN_LOG_SHARE)
    z = xp.sqrt(twice)
    for _ in range(3):
        z = xp.sqrt(twice - math.log(2 * math.pi) - 2 * xp.log(z) - 2 / (z * z))
    return xp.where(logarithm > MIN_LOG_SHARE, near, -z)


def excess_to_z(excess: Floats, baseline: Baseline, fingerprint: Ints) -> Floats:
    """Return the z of excesses (N,) at fingerprints (N,)."""
    return z_of_log_survival(
        log_survival(
            excess, baseline.rate[fingerprint], baseline.edge[fingerprint], baseline.slope[fingerprint]
        )
    )


def z_to_nats(z: Any) -> Any:
    """Return the nats of z (N,): minus the log of the probability that a normal variable exceeds it."""
    return -log_ndtr(-np.asarray(z, np.float64))


def rows_by_depth(parent: Ints) -> list[NDArray[np.intp]]:
    """Return the fingerprints at each depth below the generic one, which is first; `parent` (E,) is -1 for none."""
    depth = np.zeros(len(parent), int)
    at = parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[np.maximum(at, 0)], -1)
    return [np.flatnonzero(depth == level) for level in range(depth.max() + 1)]


def _accumulate_to_ancestors(counts: NDArray[Any], parent: Ints) -> NDArray[Any]:
    """Return the counts of each fingerprint with those of all fingerprints below it (E,)."""
    out = counts.astype(float)
    for level in reversed(rows_by_depth(parent)[1:]):
        np.add.at(out, parent[level], out[level])
    return out
