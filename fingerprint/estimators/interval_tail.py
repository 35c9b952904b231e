"""Interval tail: the sum of the other surprises in the interval of an unusual event -> nats, by how rare such a sum is.

Example:
    >>> tail = fit_interval_tail(np.array([0.0, 0.0, 0.0, 12.0, 80.0], np.float32))
    >>> interval_nats(np.array([0.0, 50.0], np.float32), tail).round(1)
    array([0. , 2.8], dtype=float32)

Harmless unusual events come in bunches: a plan, a release or the trial of a tool shows hundreds of nats in an hour, and none in
the next. So the sum x of the other surprises is replaced by -log S(x), where S(x) is the share of the unusual intervals of
held-out days that have at least x:

    S(x) = share (1 + x / scale) ^ -shape      for x > 0, and 1 for 0

This is a Lomax distribution (Pareto II: Lomax, "Business failures", JASA 49, 1954) with a mass at zero. The nats grow with the
logarithm of the sum: twenty times the surprise is worth some nats more, not twenty times as many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fingerprint.compute.arrays import Floats, namespace

DEFAULT_TAIL = (0.4, 30.0, 2.0)  # share, scale in nats, shape: those of a usual organisation ...
PRIOR_INTERVALS = 100  # ... and how many unusual intervals they are worth
MIN_SHAPE, MAX_SHAPE = 0.5, 5.0
MAX_NATS = 12.0  # one unusual interval in 160,000: no history is long enough to measure rarer ones


def fit_interval_tail(others: Floats) -> Floats:
    """Return share, scale and shape (3,) of the tail, from the nats of other surprises of unusual held-out intervals (U,)."""
    from scipy import stats  # takes half a second, and only fitting needs it

    share, scale, shape = DEFAULT_TAIL
    levels = (np.arange(PRIOR_INTERVALS) + 0.5) / PRIOR_INTERVALS
    prior = np.where(levels < share, scale * ((levels / share) ** (-1 / shape) - 1), 0)
    # Sorted, so that the fit does not depend on how rows were partitioned
    values = np.sort(np.concatenate([prior, others]))
    positive = values[values > 0]
    found, _, width = stats.lomax.fit(positive, floc=0)
    shape = min(max(found, MIN_SHAPE), MAX_SHAPE)
    # The shape of a light tail grows without bound; fit the scale that belongs to the bound
    if shape != found:
        _, _, width = stats.lomax.fit(positive, f0=shape, floc=0)
    return np.array([len(positive) / len(values), max(width, 1e-3), shape], np.float32)


def interval_nats(others: Any, tail: Any) -> Any:
    """Return the nats -log S of sums of other surprises (N,): (N,). `tail` is (N, 3) or (3,)."""
    xp = namespace(others)
    share, scale, shape = tail[..., 0], tail[..., 1], tail[..., 2]
    nats = shape * xp.log1p(others / scale) - xp.log(share)
    return xp.where(others > 0, xp.minimum(nats, MAX_NATS), 0).astype(np.float32)
