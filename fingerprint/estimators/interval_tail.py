"""Interval tail: what else surprises in the interval of an unusual event, weighed by how rarely as much does.

Example:
    >>> tail = fit_interval_tail(np.array([0.0, 0.0, 0.0, 12.0, 80.0], np.float32))
    >>> interval_nats(np.array([0.0, 50.0], np.float32), tail).round(1)
    array([0. , 2.8], dtype=float32)

Harmless unusual events come in bunches: a plan, a release or the trial of a tool shows hundreds of nats in an hour, and none in
the next. So the sum of the other surprises x is expressed by the share of the unusual intervals of held-out days that hold at
least as much:

    S(x) = share (1 + x / scale) ^ -shape      for x > 0, and 1 for 0

a Lomax distribution (Pareto II: Lomax, "Business failures", JASA 49, 1954) beside a mass at zero, and the weight is -log S(x). It
grows with the logarithm of the sum: twenty times the surprise is worth some nats more, not twenty times as many.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fingerprint.compute.arrays import Floats, namespace

DEFAULT_TAIL = (0.4, 30.0, 2.0)  # share, scale in nats, shape: of a usual organisation ...
PRIOR_INTERVALS = 100  # ... and how many unusual intervals it is worth
MIN_SHAPE, MAX_SHAPE = 0.5, 5.0
MAX_NATS = 12.0  # one unusual interval in 160,000: beyond that no history has a measure


def fit_interval_tail(others: Floats) -> Floats:
    """Return share, scale and shape (3,) of the tail, from the other surprise of each unusual held-out interval (U,), nats."""
    from scipy import stats  # half a second of CPU, which only who fits has to pay

    share, scale, shape = DEFAULT_TAIL
    levels = (np.arange(PRIOR_INTERVALS) + 0.5) / PRIOR_INTERVALS
    prior = np.where(levels < share, scale * ((levels / share) ** (-1 / shape) - 1), 0)
    values = np.sort(np.concatenate([prior, others]))  # in one order, whichever partition they came from
    positive = values[values > 0]
    found, _, width = stats.lomax.fit(positive, floc=0)
    shape = min(max(found, MIN_SHAPE), MAX_SHAPE)
    if shape != found:  # a light tail has no largest shape, and the scale of one is none of another
        _, _, width = stats.lomax.fit(positive, f0=shape, floc=0)
    return np.array([len(positive) / len(values), max(width, 1e-3), shape], np.float32)


def interval_nats(others: Any, tail: Any) -> Any:
    """Return minus the log of the share of unusual intervals with as much other surprise: (N,) -> (N,); tail (N, 3) or (3,)."""
    xp = namespace(others)
    share, scale, shape = tail[..., 0], tail[..., 1], tail[..., 2]
    nats = shape * xp.log1p(others / scale) - xp.log(share)
    return xp.where(others > 0, xp.minimum(nats, MAX_NATS), 0).astype(np.float32)
