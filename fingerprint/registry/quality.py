"""The quality of a bank by rows held out from training: the promotion gate and comparisons of banks use it.

Example:
    >>> holdout_metrics(holdout, settings)["votes_per_day"]
    1.4
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core import settings
from fingerprint.estimators import tail_calibration
from fingerprint.features.vocabulary import Floats, Ints

QUANTILES = (0.5, 0.9, 0.99)
HOLDOUT_COLUMNS = ("loss", "count_z", "principal", "day", "window")  # what is kept of each row beside its z
TAIL_PEAKS = 20  # strongest alerts that say how fast they become fewer
MAX_STRONGEST = 400  # alerts of the days held out whose z is kept, to choose thresholds by


@dataclass(frozen=True)
class HoldoutScores:
    """Held-out rows at their finest ready level (N,).

    `loss` summed over features, `z` of the loss, `count_z` of the counts, `principal`, `day` and `window` (of alerts).
    """

    loss: Floats
    z: Floats
    count_z: Floats
    principal: Hashes
    day: Ints
    window: Ints


def holdout_metrics(holdout: HoldoutScores, options: settings.Settings) -> dict[str, Any]:
    """Return the metrics of held-out rows for a manifest.

    Quantiles of the loss (nats) and of z, principals with an autoencoder's vote a day, and the z of the strongest alerts.
    """
    days = max(len(np.unique(holdout.day)), 1)
    alerts = strongest_alerts(holdout, options.spectral.threshold)
    voted = holdout.z >= calibrated_threshold({"alerts": alerts, "days": days}, options.autoencoder)
    return {
        "rows": len(holdout.loss),
        "days": days,
        "loss": named_quantiles(holdout.loss),
        "z": named_quantiles(holdout.z),
        "votes_per_day": len(np.unique(_each(holdout.principal, holdout.day)[voted])) / days,
        "alerts": alerts,
    }


def strongest_alerts(holdout: HoldoutScores, threshold: float) -> list[float]:
    """Return the largest z of each principal's window in which the counts voted too or had no opinion, strongest first."""
    both = np.nan_to_num(holdout.count_z, nan=np.inf) >= threshold
    alert, z = _each(holdout.principal, holdout.window)[both], holdout.z[both]
    strongest = np.sort(z[tail_calibration.argmax_per_group(z, alert)])[::-1]
    return [round(float(each), 3) for each in strongest[:MAX_STRONGEST]]


def calibrated_threshold(quality: Mapping[str, Any], options: settings.Autoencoder) -> float:
    """Return the autoencoder's threshold: as set, or so that a bank's held-out days showed `alerts_per_day`.

    Between the alerts of those days the threshold lies half way; where fewer are wanted than there were, it follows the
    exponential tail of the strongest (Hill's estimator, in nats).
    """
    if options.target_alerts_per_day is None:
        return options.threshold
    nats = tail_calibration.z_to_nats(np.array(quality["alerts"], float))
    rank = options.target_alerts_per_day * quality["days"]
    if not len(nats):
        return options.threshold
    least = min(TAIL_PEAKS, len(nats)) - 1
    if rank < least:
        slope = max(float(np.mean(nats[:least] - nats[least])), 1.0)
        return float(
            tail_calibration.z_of_log_survival(
                -np.array([nats[least] + slope * np.log((least + 1) / max(rank, 1e-6))])
            )[0]
        )
    place = min(int(rank), len(nats)) - 1
    below = nats[min(place + 1, len(nats) - 1)]
    return float(tail_calibration.z_of_log_survival(-np.array([(nats[place] + below) / 2]))[0])


def named_quantiles(values: NDArray[Any], probabilities: tuple[float, ...] = QUANTILES) -> dict[str, float]:
    """Return quantiles by name, as a manifest keeps them: `{"0.5": 11.2, ...}`; nothing for no values."""
    if not len(values):
        return {}
    return {
        f"{share:g}": round(float(at), 4)
        for share, at in zip(probabilities, np.quantile(values, probabilities), strict=True)
    }


def _each(principal: Hashes, time: Ints) -> Hashes:
    return hashing.hash_pair(principal, time.astype(np.uint64))
