"""How good a bank is, by rows that were not fitted: what the gate and whoever compares two banks go by.

Example:
    >>> figures(loss, z, principal_day, day, options)["votes_per_day"]
    1.4
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint import settings
from fingerprint.hashing import Hashes
from fingerprint.vocabulary import Floats, Ints

QUANTILES = (0.5, 0.9, 0.99)


def figures(
    loss: Floats, z: Floats, unit: Hashes, day: Ints, options: settings.Autoencoder
) -> dict[str, Any]:
    """Of the held-out rows at their finest ready level: quantiles of the loss (nats) and of z, principals with a vote a day.

    `loss` (N,), summed over features, `z`, `unit` (the principal-day) and `day` (N,).
    """
    days, voted = len(np.unique(day)), z >= options.threshold
    return {
        "rows": len(loss),
        "days": days,
        "loss": quantiles(loss),
        "z": quantiles(z),
        "votes_per_day": len(np.unique(unit[voted])) / max(days, 1),
    }


def quantiles(values: NDArray[Any], which: tuple[float, ...] = QUANTILES) -> dict[str, float]:
    """By name, as a manifest keeps them: `{"0.5": 11.2, ...}`; nothing for no values."""
    if not len(values):
        return {}
    return {
        f"{share:g}": round(float(at), 4) for share, at in zip(which, np.quantile(values, which), strict=True)
    }
