"""Confidence intervals (95 %) of figures, and figures of several organisations pooled into one.

Example:
    >>> share_interval(11, 12)
    [0.6461, 0.9851]
    >>> student_interval([0.8, 0.9, 0.7])
    [0.5516, 1.0484]
    >>> pool_figures([{"found": 3, "recall": 0.5}, {"found": 4, "recall": 0.7}])
    {'found': 7, 'recall': 0.6}

Shares have Wilson's interval (Wilson 1927), means over seeds have Student's. Sessions of one organisation share a bank and a
threshold, so those of several count as fewer where organisations differ by more than chance (Rao and Scott 1992).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from fingerprint.core import overview

CONFIDENCE_LEVEL = 0.95
HIGHEST_PREFIX = "highest_"  # of names of figures that are maxima
ConfidenceInterval = list[float]

MEAN_FIGURES = (  # figures of an organisation of which the mean over seeds has an interval
    ("alerts_per_day",),
    ("false_alerts_per_day",),
    ("false_alerts_per_day_per_100_principals",),
    ("per_event", "precision"),
    ("per_event", "recall"),
    ("per_event", "average_precision"),
    ("per_session", "precision"),
    ("per_session", "average_precision"),
)


def share_interval(found: float, total: float) -> ConfidenceInterval | None:
    """Return Wilson's interval of found / total; None if the total is 0."""
    if not total:
        return None
    return [round(limit, 4) for limit in overview.wilson_interval(found, total)]


def clustered_interval(found: Sequence[int], totals: Sequence[int]) -> ConfidenceInterval | None:
    """Return Wilson's interval of a share that is counted in K organisations: (K,) found of (K,) totals; None of no total.

    The total is divided by the design effect: the share's variance over organisations by that of single draws, one at least.

    >>> clustered_interval([9, 9, 9], [10, 10, 10]), clustered_interval([10, 10, 7], [10, 10, 10])
    ([0.7438, 0.9654], [0.5773, 0.9834])
    """
    organisations, total = len(totals), sum(totals)
    if not total:
        return None
    share, effective = sum(found) / total, float(total)
    if 0 < share < 1 and organisations > 1:
        residuals = np.asarray(found) - share * np.asarray(totals)
        between = float(np.sum(residuals**2)) * organisations / (organisations - 1) / total**2
        effective /= max(between / (share * (1 - share) / total), 1.0)
    return share_interval(share * effective, effective)


def student_interval(values: Sequence[float]) -> ConfidenceInterval | None:
    """Return Student's interval of a mean, one value a seed; None of fewer than two. It may leave the figure's own range."""
    if len(values) < 2:
        return None
    # stats.t.interval gives NaN where all values agree: a standard error of 0 is a fact here, no mistake
    reach = stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, len(values) - 1) * stats.sem(values)
    return [round(float(np.mean(values) - reach), 4), round(float(np.mean(values) + reach), 4)]


def confidence_intervals(pooled: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the intervals of one method: recalls from the sessions of all seeds, by seed; means over the seeds.

    `pooled` holds the figures of all seeds (`pool_figures` of `parts`), each as `metrics.compute_metrics` returns them.
    """
    return {
        **_recall_intervals(parts),
        "by_strength": {
            name: _recall_intervals(
                [part["by_strength"][name] for part in parts if name in part["by_strength"]]
            )
            for name in pooled["by_strength"]
        },
        **{
            " ".join(path): student_interval([_figure_at(part, path) for part in parts])
            for path in MEAN_FIGURES
        },
    }


def _recall_intervals(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    there = [part["sessions"] for part in parts]
    return {
        "recall": clustered_interval([part["found"] for part in parts], there),
        "recall_at": {
            budget: clustered_interval([part["found_at"][budget] for part in parts], there)
            for budget in parts[0]["found_at"]
        },
    }


def _figure_at(figures: Mapping[str, Any], path: Sequence[str]) -> float:
    value: Any = figures
    for name in path:
        value = value[name]
    return float(value)


# --- several organisations as one --------------------------------------------------------------------------


def pool_figures(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Pool figures of like shape, entry by entry.

    Counts are added, ratios and times averaged, of what is `highest_...` the highest is kept, lists (curves) stand side by
    side. What only some parts have is pooled over those; it is None if no part has it.
    """
    names = list(dict.fromkeys(name for part in parts for name in part))
    return {
        name: _pool_values(name, [part[name] for part in parts if part.get(name) is not None])
        for name in names
    }


def _pool_values(name: str, values: list[Any]) -> Any:
    if not values:
        return None
    if name.startswith(HIGHEST_PREFIX):
        return max(values)
    if isinstance(values[0], dict):
        return pool_figures(values)
    if isinstance(values[0], str):
        return values[0]
    if isinstance(values[0], list):
        return values
    if isinstance(values[0], int):
        return sum(values)
    return round(sum(values) / len(values), 4)
