"""How good a bank is, by rows that were not fitted: what the gate and whoever compares two banks go by.

Example:
    >>> figures(held_out, baseline, options, per_day=24)["votes_per_day"]
    1.4
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint import autoencoder, hashing, settings
from fingerprint.autoencoder import Baseline, HeldOut
from fingerprint.company import Company

QUANTILES = (0.5, 0.9, 0.99)


def figures(held: HeldOut, baseline: Baseline, options: settings.Autoencoder, per_day: int) -> dict[str, Any]:
    """Of the held-out rows at their finest ready level: quantiles of the loss (nats) and of z, principals with a vote a day.

    `per_day` intervals are a day.
    """
    at = np.flatnonzero(held.finest)
    principal, interval, fingerprint = held.principal[at], held.interval[at], held.fingerprint[at]
    surprise = autoencoder.surprises(held.loss[at], baseline, fingerprint)
    company = Company()
    company.add(principal, interval, held.codes[at], surprise)
    z = autoencoder.z(surprise, company.of(principal, interval), baseline, fingerprint, options)
    day = interval // per_day
    voted = z >= options.threshold
    days = len(np.unique(day))
    principal_days = len(np.unique(hashing.mix(principal[voted], day[voted].astype(np.uint64))))
    return {
        "middle": float(np.median(baseline.middle)),
        "scale": float(np.median(baseline.scale)),
        "rows": len(at),
        "days": days,
        "loss": quantiles(held.loss[at].sum(1)),
        "z": quantiles(z),
        "votes_per_day": principal_days / max(days, 1),
    }


def quantiles(values: NDArray[Any], which: tuple[float, ...] = QUANTILES) -> dict[str, float]:
    """By name, as a manifest keeps them: `{"0.5": 11.2, ...}`; nothing for no values."""
    if not len(values):
        return {}
    return {
        f"{share:g}": round(float(at), 4) for share, at in zip(which, np.quantile(values, which), strict=True)
    }
