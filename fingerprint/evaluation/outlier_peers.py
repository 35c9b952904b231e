"""Peers off the shelf: outlier detectors on one table, the log frequencies of what every record says.

Example:
    >>> score = isolation_forest(past, now)                     # (len(now),), high is strange
    >>> score = ecod(past, now)                                 # needs PyOD

Both are given counts that learn (what was done up to the hour before counts as seen): it helps them. They are fitted on
the held-out end of the past as measured by the rest of it, so that they have met novelties, and on a sample of that.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from fingerprint.compute import hashing
from fingerprint.evaluation.alert_counting import RECORDED_COLUMNS, Floats, log_frequencies
from fingerprint.evaluation.event_table import EventTable
from fingerprint.evaluation.ranking import Scores, split_holdout

TREES, MAX_SAMPLE, SEED = 100, 50_000, 0
USUAL = np.log(1 / 50)  # what happens once in fifty is no outlier, however common it is


def isolation_forest(past: EventTable, now: EventTable) -> Scores:
    """IsolationForest (Liu, Ting, Zhou 2008; scikit-learn) over all recorded features' log frequencies."""
    forest = IsolationForest(n_estimators=TREES, random_state=SEED).fit(_training_table(past))
    table = _test_table(past, now)
    first, inverse = _unique_rows(table)
    strange: Scores = -forest.score_samples(table[first])
    return strange[inverse]


def ecod(past: EventTable, now: EventTable) -> Scores:
    """ECOD (Li et al. 2022; PyOD) over the same table: the sum of the features' log tail probabilities.

    Its tails are two: by itself it also calls strange what is unusually common, so frequencies are cut at one in fifty.
    PyOD measures the tails on the fitted rows and the judged ones together.
    """
    from pyod.models.ecod import ECOD

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a feature that is usual everywhere has no skewness
        fitted = ECOD().fit(np.minimum(_training_table(past), USUAL))
        strange: Scores = fitted.decision_function(np.minimum(_test_table(past, now), USUAL))
    return strange


def _training_table(past: EventTable) -> Floats:
    """At most SAMPLE rows of the held-out end of the past, as the rest of it knows them."""
    older, newer = split_holdout(past)
    some = np.random.default_rng(SEED).permutation(len(newer))[:MAX_SAMPLE]
    return log_frequencies(older, newer, RECORDED_COLUMNS, online=True)[some]


def _test_table(past: EventTable, now: EventTable) -> Floats:
    return log_frequencies(past, now, RECORDED_COLUMNS, online=True)


def _unique_rows(table: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first of each kind of row (D,), and each row's kind (N,): what is the same to the bit is scored once."""
    key = np.zeros(len(table), np.uint64)
    for column in np.ascontiguousarray(table.T).view(np.uint64):
        key = hashing.hash_pair(key, column)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse
