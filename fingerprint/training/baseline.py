"""The usual losses of each fingerprint and how rare it is to exceed them, from rows that were not fitted.

Example:
    >>> center = baseline_centers(loss, fingerprint, parent)       # (E, F) the usual loss of each feature
    >>> excess = holdout_excess(rows, center, options)             # (N,) nats by which each row exceeds it in all
    >>> fit_baseline(rows, parent, options).rate                   # how rare that is (`tail_calibration`)

A fingerprint with few rows leans on its parent's figures. Where the parents were measured elsewhere (training goes partition by
partition), their figures are given as `shared_centers`: fingerprints from len(shared_centers) on are then computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.core import settings
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.estimators.autoencoder import Baseline, surprise_per_feature
from fingerprint.estimators.tail_calibration import rows_by_depth
from fingerprint.features.vocabulary import Floats, Ints
from fingerprint.state.interval_surprise import IntervalSurprise

PRIOR_ROWS = 30  # held-out rows that the parent's baseline is worth


@dataclass(frozen=True, slots=True)
class HoldoutLosses:
    """Losses of rows that were not fitted.

    `loss` (N, F) is measured at `fingerprint` (N,), the finest that is ready; `principal_loss` (N, F) at `principal_fingerprint`
    (N,), the principal as a whole where the finest is one of its entities; with `principal`, `interval` and `codes` (N, F).
    """

    loss: Floats
    fingerprint: Ints
    principal_loss: Floats
    principal_fingerprint: Ints
    principal: hashing.Hashes
    interval: Ints
    codes: hashing.Hashes

    @property
    def principal_interval(self) -> hashing.Hashes:
        """The principal's interval of each row (N,)."""
        return hashing.combine(self.principal, self.interval.astype(np.uint64))


def baseline_centers(
    loss: Floats, fingerprint: Ints, parent: Ints, shared_centers: Floats | None = None
) -> Floats:
    """Return the usual loss of each feature: loss (N, F) at fingerprint (N,), parent (E,), shared_centers (U, F) -> (E, F)."""
    order, bounds = _group_by_fingerprint(fingerprint, len(parent))
    columns = [
        _shrink_to_parent(
            _medians(column[order], bounds),
            bounds,
            parent,
            None if shared_centers is None else shared_centers[:, place],
        )
        for place, column in enumerate(loss.T)
    ]
    return np.column_stack(columns).astype(np.float32)


def holdout_excess(rows: HoldoutLosses, center: Floats, options: settings.Autoencoder) -> Floats:
    """Return the excess of each row above what is usual (N,), with interval surprise credited as in scoring (`detectors`).

    All rows of a principal must be there: they make up its interval surprise.
    """
    surprise = surprise_per_feature(rows.loss, center, rows.fingerprint)
    surprise = autoencoder.novel_to_principal(
        surprise,
        rows.principal_fingerprint,
        lambda odd: surprise_per_feature(rows.principal_loss[odd], center, rows.principal_fingerprint[odd]),
    )
    company = IntervalSurprise()
    company.add(rows.principal, rows.interval, rows.codes, surprise)
    where = (rows.principal, rows.interval)
    return autoencoder.excess_nats(surprise, company.total(*where), company.from_usual_place(*where), options)


def fit_baseline(rows: HoldoutLosses, parent: Ints, options: settings.Autoencoder) -> Baseline:
    """Return the baseline in one step, where all rows are at hand and each is measured at one fingerprint."""
    center = baseline_centers(rows.loss, rows.fingerprint, parent)
    hours = tail_calibration.interval_maxima(
        holdout_excess(rows, center, options), rows.principal_interval, rows.fingerprint
    )
    return fit_tails(center, hours, parent)


def fit_tails(center: Floats, hours: tail_calibration.IntervalMaxima, parent: Ints) -> Baseline:
    """Return the baselines of all fingerprints from their centers (E, F) and the strangest events of active intervals."""
    edge, slope = tail_calibration.fit_tail(hours.excess)
    alike = (np.full(len(parent), value, np.float32) for value in (edge, slope))
    return Baseline(center, tail_calibration.exceedance_log_rates(hours, edge, parent), *alike)


def _group_by_fingerprint(fingerprint: Ints, size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of rows by fingerprint, and the bounds (size + 1,) of each one's."""
    order = np.argsort(fingerprint, kind="stable")
    return order, np.searchsorted(fingerprint[order], np.arange(size + 1))


def _medians(values: Floats, bounds: NDArray[np.intp]) -> Floats:
    """Return the median of each group of `values` (N,), cut by `bounds` (E + 1,); zero for an empty group."""
    if not len(values):
        return np.zeros(len(bounds) - 1, np.float32)
    group = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    ranked = values[np.lexsort((values, group))]
    count = np.diff(bounds)
    place = bounds[:-1] + np.maximum(count - 1, 0) // 2
    return np.where(count > 0, ranked[np.minimum(place, len(ranked) - 1)], 0).astype(np.float32)


def _shrink_to_parent(
    own: Floats, bounds: NDArray[np.intp], parent: Ints, above: Floats | None = None
) -> Floats:
    """Shrink each fingerprint's figure towards its parent's, parents before children (`parent` < own index)."""
    rows, out, known = np.diff(bounds), own.copy(), 0
    if above is not None:
        out[: len(above)], known = above, len(above)
    for level in rows_by_depth(parent)[1:]:
        level = level[level >= known]
        share = rows[level] / (rows[level] + PRIOR_ROWS)
        out[level] = share * own[level] + (1 - share) * out[parent[level]]
    return out
