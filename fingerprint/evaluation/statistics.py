"""How sure a figure is: 95 % intervals of shares, and of what differs from organisation to organisation.

Example:
    >>> of_share(11, 12)
    [0.6461, 0.9851]
    >>> of_mean([0.8, 0.9, 0.7])
    [0.5516, 1.0484]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

CONFIDENCE_LEVEL = 0.95
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
    """Wilson's interval of found / there (Wilson 1927); None of nothing."""
    if not total:
        return None
    low, high = stats.binomtest(found, total).proportion_ci(CONFIDENCE_LEVEL, method="wilson")
    return [round(float(low), 4), round(float(high), 4)]


def student_interval(values: Sequence[float]) -> ConfidenceInterval | None:
    """Student's interval of a mean, one value a seed; None of fewer than two. It may reach beyond what a figure can be."""
    if len(values) < 2:
        return None
    reach = (
        stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, len(values) - 1)
        * np.std(values, ddof=1)
        / np.sqrt(len(values))
    )
    return [round(float(np.mean(values) - reach), 4), round(float(np.mean(values) + reach), 4)]


def confidence_intervals(pooled: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The intervals of one method's figures: recalls from the sessions of all seeds together, means over the seeds."""
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


HIGHEST_PREFIX = "highest_"


def pool_figures(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of like shape, entry by entry. What only some have is pooled over those; None if nobody."""
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
