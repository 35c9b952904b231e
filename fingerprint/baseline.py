"""What is usual of losses, from rows that were not fitted: each fingerprint's center and middle, and one scale for all.

Example:
    >>> centers = center_of(loss, fingerprint, parent)                       # (E, F) the usual loss of each feature
    >>> middles = middle_of(loss, fingerprint, parent, centers, options)     # (E,) the usual surprise in all
    >>> excess, day = reach_of(rows, centers, middles, options, per_day=24)  # how far each row lies above it
    >>> scale_of(excess, day, options)
    6.1

A fingerprint with few rows leans on its parent's figures. Where the parents were measured elsewhere (a training goes piece by
piece), their figures are given as `above`: fingerprints from len(above) on are then those that are still open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fingerprint import hashing, settings
from fingerprint.autoencoder import Baseline, combine, excess, surprises
from fingerprint.company import Company
from fingerprint.vocabulary import Floats, Ints

PRIOR_SCALE = 5.0  # nats: the scale of a usual organisation ...
PRIOR_DAYS = (
    30  # ... and how many held-out principal-days it is worth: a history of an hour says nothing of its own
)
PRIOR_ROWS = 30  # held-out rows that the parent's baseline is worth


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Rows that were not fitted: `loss` (N, F) as measured at `fingerprint` (N,), the finest that is ready, with their
    `principal`, `interval` and `codes` (N, F)."""

    loss: Floats
    fingerprint: Ints
    principal: hashing.Hashes
    interval: Ints
    codes: hashing.Hashes


def center_of(loss: Floats, fingerprint: Ints, parent: Ints, above: Floats | None = None) -> Floats:
    """The usual loss of each feature: loss (N, F) at fingerprint (N,), parent (E,), above (U, F) -> (E, F)."""
    order, bounds = _grouped(fingerprint, len(parent))
    columns = [
        _leaning(_medians(column[order], bounds), bounds, parent, None if above is None else above[:, place])
        for place, column in enumerate(loss.T)
    ]
    return np.column_stack(columns).astype(np.float32)


def middle_of(
    loss: Floats,
    fingerprint: Ints,
    parent: Ints,
    center: Floats,
    options: settings.Autoencoder,
    above: Floats | None = None,
) -> Floats:
    """The usual surprise, features combined: loss (N, F) at fingerprint (N,), parent (E,), above (U,) -> (E,)."""
    order, bounds = _grouped(fingerprint, len(parent))
    combined = combine(_surprises(loss, fingerprint, center), options.strongest)
    return _leaning(_medians(combined[order], bounds), bounds, parent, above)


def reach_of(
    rows: HeldOut, center: Floats, middle: Floats, options: settings.Autoencoder, per_day: int
) -> tuple[Floats, hashing.Hashes]:
    """How far each row lies above what is usual, the company it keeps credited (N,), and its principal-day (N,).

    `per_day` intervals are a day. All rows of a principal must be there: they are each other's company.
    """
    surprise = _surprises(rows.loss, rows.fingerprint, center)
    company = Company()
    company.add(rows.principal, rows.interval, rows.codes, surprise)
    together = company.of(rows.principal, rows.interval)
    day = hashing.mix(rows.principal, (rows.interval // per_day).astype(np.uint64))
    return excess(surprise, together, middle[rows.fingerprint], options), day


def scale_of(above: Floats, day: hashing.Hashes, options: settings.Autoencoder) -> float:
    """One scale for all, because only then does a z mean the same for everybody (a restless entity's own scale would hide
    an attack on it): the threshold is passed on a share `calm` of all principal-days at most. above, day (N,)."""
    days = len(np.unique(day))
    reach = calmest(above, day, options.calm)
    return (days * reach / options.threshold + PRIOR_DAYS * PRIOR_SCALE) / (days + PRIOR_DAYS)


def calmest(above: Floats, unit: hashing.Hashes, calm: float) -> float:
    """The excess that is passed in a share `calm` of all units (principal-days) at most: above, unit (N,)."""
    if not len(unit):
        return 0.0
    order = np.lexsort((-above, unit))
    _, first = np.unique(unit[order], return_index=True)
    return float(np.quantile(above[order][first], 1 - calm, method="higher"))


def of(rows: HeldOut, parent: Ints, options: settings.Autoencoder, per_day: int) -> Baseline:
    """Everything at once, where all rows are at hand and each is measured at one fingerprint."""
    center = center_of(rows.loss, rows.fingerprint, parent)
    middle = middle_of(rows.loss, rows.fingerprint, parent, center, options)
    scale = scale_of(*reach_of(rows, center, middle, options, per_day), options)
    return Baseline(center, middle, np.full(len(parent), scale, np.float32))


def _surprises(loss: Floats, fingerprint: Ints, center: Floats) -> Floats:
    nothing = np.zeros(len(center), np.float32)
    return surprises(loss, Baseline(center, nothing, nothing), fingerprint)


def _grouped(fingerprint: Ints, size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The order in which rows lie by fingerprint, and the bounds (size + 1,) of each one's."""
    order = np.argsort(fingerprint, kind="stable")
    return order, np.searchsorted(fingerprint[order], np.arange(size + 1))


def _medians(values: Floats, bounds: NDArray[np.intp]) -> Floats:
    """The median of each group; `values` (N,) are grouped by `bounds` (E + 1,). Zero for an empty group."""
    if not len(values):
        return np.zeros(len(bounds) - 1, np.float32)
    group = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    ranked = values[np.lexsort((values, group))]
    count = np.diff(bounds)
    place = bounds[:-1] + np.maximum(count - 1, 0) // 2
    return np.where(count > 0, ranked[np.minimum(place, len(ranked) - 1)], 0).astype(np.float32)


def _leaning(own: Floats, bounds: NDArray[np.intp], parent: Ints, above: Floats | None = None) -> Floats:
    """Shrink each fingerprint's figure towards its parent's, parents before children (`parent` < own index)."""
    rows, out, known = np.diff(bounds), own.copy(), 0
    if above is not None:
        out[: len(above)], known = above, len(above)
    for level in _depths(parent)[1:]:
        level = level[level >= known]
        share = rows[level] / (rows[level] + PRIOR_ROWS)
        out[level] = share * own[level] + (1 - share) * out[parent[level]]
    return out


def _depths(parent: Ints) -> list[NDArray[np.intp]]:
    """Fingerprints by their distance from the generic one, nearest first."""
    depth = np.zeros(len(parent), int)
    at = parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[np.maximum(at, 0)], -1)
    return [np.flatnonzero(depth == level) for level in range(depth.max() + 1)]
