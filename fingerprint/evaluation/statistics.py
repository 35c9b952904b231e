"""Confidence intervals (95 %) of figures, and figures of several organisations pooled into one.

Example:
    >>> wilson_interval(11, 12)
    [0.6461, 0.9851]
    >>> student_interval([0.8, 0.9, 0.7])
    [0.5516, 1.0484]
    >>> pool_figures([{"found": 3, "recall": 0.5}, {"found": 4, "recall": 0.7}])
    {'found': 7, 'recall': 0.6}

Shares have Wilson's interval (Wilson 1927), means over seeds have Student's.
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


def wilson_interval(found: int, total: int) -> ConfidenceInterval | None:
    """Return Wilson's interval of found / total; None if the total is 0."""
    if not total:
        return None
    return [round(limit, 4) for limit in overview.wilson_interval(found, total)]


def student_interval(values: Sequence[float]) -> ConfidenceInterval | None:
    """Return Student's interval of a mean, one value a seed; None of fewer than two. It may leave the figure's own range."""
    if len(values) < 2:
        return None
    # stats.t.interval gives NaN where all values agree: a standard error of 0 is a fact here, no mistake
    reach = stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, len(values) - 1) * stats.sem(values)
    return [round(float(np.mean(values) - reach), 4), round(float(np.mean(values) + reach), 4)]


def confidence_intervals(pooled: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the intervals of one method: recalls from the sessions of all seeds together, means over the seeds.

    `pooled` holds the figures of all seeds (`pool_figures` of `parts`), each as `metrics.compute_metrics` returns them.
    """
    return {
        **_recall_intervals(pooled),
        "by_strength": {name: _recall_intervals(part) for name, part in pooled["by_strength"].items()},
        **{
            " ".join(path): student_interval([_figure_at(part, path) for part in parts])
            for path in MEAN_FIGURES
        },
    }


def _recall_intervals(counts: Mapping[str, Any]) -> dict[str, Any]:
    there = counts["sessions"]
    return {
        "recall": wilson_interval(counts["found"], there),
        "recall_at": {budget: wilson_interval(found, there) for budget, found in counts["found_at"].items()},
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
