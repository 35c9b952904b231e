"""Baselines: the usual losses of each fingerprint, and how rare it is to exceed them, from rows that were not fitted.

Example:
    >>> center = baseline_centers(loss, fingerprint, parent)       # (E, F) usual loss of each feature
    >>> surprise = holdout_surprise(rows, center)                  # (N, F) nats by which each row exceeds it
    >>> nats = holdout_nats(rows, surprise)                        # the terms of each row's score
    >>> usual, excess = fit_tails(center, nats, newcomer, is_news, rows.principal_interval, rows.fingerprint, parent)
    >>> usual.rate                                                 # log: how rare an excess is (`tail_calibration`)

The figures of a fingerprint with few rows are shrunk towards those of its parent. Training goes partition by partition: if the
parents were measured before, their figures are given as `shared_centers`, and only the fingerprints after them are computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats, Ints
from fingerprint.estimators import autoencoder, interval_tail, tail_calibration
from fingerprint.estimators.autoencoder import CONTEXT_THRESHOLD, Baseline, EventNats, surprise_per_feature
from fingerprint.estimators.tail_calibration import rows_by_depth
from fingerprint.state.interval_surprise import IntervalSurprise

PRIOR_ROWS = 30  # weight of the parent's baseline, in held-out rows
NEWCOMER_SHARE = 0.01  # prior share of newcomers' intervals among active intervals ...
NEWCOMER_PRIOR_INTERVALS = 200  # ... and its weight, in active intervals


@dataclass(frozen=True, slots=True)
class HoldoutLosses:
    """Losses of rows that were not fitted.

    - `loss` (N, F): at `fingerprint` (N,), the finest that is ready.
    - `principal_loss` (N, F): at `principal_fingerprint` (N,), the whole principal where `fingerprint` is one of its entities.
    - `principal`, `interval` (N,), `codes` (N, F).
    - `harm` (N,): the nats of what a new action can do.
    """

    loss: Floats
    fingerprint: Ints
    principal_loss: Floats
    principal_fingerprint: Ints
    principal: hashing.Hashes
    interval: Ints
    codes: hashing.Hashes
    harm: Floats

    @property
    def principal_interval(self) -> hashing.Hashes:
        """The principal's interval of each row (N,)."""
        return hashing.in_interval(self.principal, self.interval)


def baseline_centers(
    loss: Floats, fingerprint: Ints, parent: Ints, shared_centers: Floats | None = None
) -> Floats:
    """Return the usual loss of each fingerprint and feature (E, F): the median of its rows, shrunk towards its parent.

    `loss` (N, F) is at `fingerprint` (N,), `parent` (E,), `shared_centers` (U, F) are those of the first U fingerprints.
    """
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


def holdout_surprise(rows: HoldoutLosses, center: Floats) -> Floats:
    """Return the surprise of each row's features (N, F), as the autoencoder detector computes it."""
    return autoencoder.novel_to_principal(
        surprise_per_feature(rows.loss, center, rows.fingerprint),
        rows.principal_fingerprint,
        lambda odd: surprise_per_feature(rows.principal_loss[odd], center, rows.principal_fingerprint[odd]),
    )


def holdout_nats(rows: HoldoutLosses, surprise: Floats) -> EventNats:
    """Return the nats of each row (N,) from its surprise (N, F) and from what else surprised in its interval.

    `rows` must have all rows of a principal, because they make up its interval surprise.
    """
    together = IntervalSurprise()
    together.add(rows.principal, rows.interval, rows.codes, surprise)
    where = (rows.principal, rows.interval)
    nats = autoencoder.event_nats(surprise, together.total(*where), together.from_usual_place(*where))
    return nats._replace(harm=rows.harm)


def fit_tails(
    center: Floats,
    nats: EventNats,
    newcomer: NDArray[np.bool_] | None,
    is_news: NDArray[np.bool_],
    principal_interval: hashing.Hashes,
    owner: Ints,
    parent: Ints,
) -> tuple[Baseline, Floats]:
    """Return the baselines of all fingerprints, and the excess of each held-out row (N,).

    `center` (E, F) and `parent` (E,) are of fingerprints. The others are of rows (N,): `nats`; `newcomer`, whether the principal
    was one (None if the history is too short to tell); `is_news`, whether that counts for the row; `principal_interval`, the hash
    of principal and interval; `owner`, the fingerprint.
    """
    odd = nats.own >= CONTEXT_THRESHOLD
    beside = tail_calibration.interval_maxima(nats.others[odd], principal_interval[odd], owner[odd]).excess
    tail = interval_tail.fit_interval_tail(beside)
    new = np.zeros(len(owner), bool) if newcomer is None else newcomer & is_news
    worth = 0.0 if newcomer is None else newcomer_nats(newcomer, principal_interval)
    excess: Floats = (nats.excess(tail) + worth * new).astype(np.float32)
    hours = tail_calibration.interval_maxima(excess, principal_interval, owner)
    edge, slope = tail_calibration.fit_tail(hours.excess)
    log_rate = tail_calibration.exceedance_log_rates(hours, edge, parent)
    edges, slopes, worths = (np.full(len(parent), value, np.float32) for value in (edge, slope, worth))
    return Baseline(center, log_rate, edges, slopes, np.tile(tail, (len(parent), 1)), worths), excess


def newcomer_nats(newcomer: NDArray[np.bool_], principal_interval: hashing.Hashes) -> float:
    """Return minus the log of the share of newcomers' intervals among active intervals, from the held-out rows (N,).

    Where principals come and go every day, a new one is no news; where one comes in a month, its first hours are news.
    """
    active, first = np.unique(principal_interval, return_index=True)
    share = (newcomer[first].sum() + NEWCOMER_PRIOR_INTERVALS * NEWCOMER_SHARE) / (
        len(active) + NEWCOMER_PRIOR_INTERVALS
    )
    return float(-np.log(share))


def _group_by_fingerprint(fingerprint: Ints, size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of rows by fingerprint, and the bounds (size + 1,) of each fingerprint's rows in it."""
    order = np.argsort(fingerprint, kind="stable")
    return order, np.searchsorted(fingerprint[order], np.arange(size + 1))


def _medians(values: Floats, bounds: NDArray[np.intp]) -> Floats:
    """Return the lower median of each group of `values` (N,), which `bounds` (E + 1,) separate; zero for an empty group."""
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
    """Return each fingerprint's figure (E,), shrunk towards its parent's; parents stand before children in `parent` (E,).

    `above` (U,) are the final figures of the first U fingerprints, if they are known.
    """
    rows, out, known = np.diff(bounds), own.copy(), 0
    if above is not None:
        out[: len(above)], known = above, len(above)
    for level in rows_by_depth(parent)[1:]:
        level = level[level >= known]
        share = rows[level] / (rows[level] + PRIOR_ROWS)
        out[level] = share * own[level] + (1 - share) * out[parent[level]]
    return out
