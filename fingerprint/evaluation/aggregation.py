"""Figures of several organisations as one: counts are added, ratios and times are averaged, of what is `highest_...` the
highest is kept, and lists (curves) stand side by side.

Example:
    >>> pool([{"found": 3, "recall": 0.5}, {"found": 4, "recall": 0.7}])
    {'found': 7, 'recall': 0.6}
"""

from __future__ import annotations

from typing import Any

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
