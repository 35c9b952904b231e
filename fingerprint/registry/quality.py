"""The quality of a bank on rows held out from training, for the promotion gate and for comparing banks.

Example:
    >>> holdout_metrics(holdout, settings)["votes_per_day"]
    1.4
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats, Ints
from fingerprint.compute.hashing import Hashes
from fingerprint.core import settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.estimators import tail_calibration
from fingerprint.state import alert_runs

QUANTILES = (0.5, 0.9, 0.99)
VOTE_SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)  # shares whose z a bank keeps
HOLDOUT_COLUMNS = ("loss", "principal", "day", "interval")  # columns of a row beside z and votes
TAIL_PEAKS = 20  # strongest alerts, to which the tail is fitted
BUDGET_CONFIDENCE = 0.9  # probability that days to come keep the alert budget, given the few held-out days
# Alerts of ordinary work in days to come for each one in the held-out days: the bank grows old, and events that a whole
# organisation has once a week are rare in a few days. Measured in simulated worlds (docs/explanation/experiments.md).
FUTURE_ALERTS = 1.5
SMALLEST_COUNT = 1e-6  # a lower bound of counts of alerts, for their logarithms
MAX_STRONGEST = 5_000  # alerts of the held-out days whose z is kept, to choose thresholds by
# Active hours of a principal a day (a working day), for the budget where no day was held out to count alerts on
ACTIVE_HOURS = 8
DEFAULT_THRESHOLD = 3.2  # of a bank whose held-out days showed no alert
# One harmless event in twenty reaches this z, so it is not rare, however few alerts there were.
LEAST_THRESHOLD = -NormalDist().inv_cdf(0.05)
LOSSES_PER_PRINCIPAL = 50  # held-out losses of a principal that a bank keeps, evenly spaced quantiles: 800 B
# Rows that count in full: a principal that crawls has more than all others
MAX_ROWS_PER_PRINCIPAL_DAY = 1_000
MIN_PRINCIPALS = 100  # a smaller organisation has the alert budget of this many principals, without a margin


@dataclass(frozen=True)
class HoldoutScores:
    """Held-out rows at their finest ready level (N,).

    - `loss`: the sum over features, in nats
    - `z`: divided by the share of a threshold that is enough for the row, which is less for a newcomer
    - `principal`, `day`, `interval`
    - `alert_z`: the highest alert threshold at which the row opens an alert, given the votes of the other detectors; minus
      infinity where a vote of the autoencoder would make no verdict
    - `usual_days`: how many usual days of the organisation the rows are worth, 0 for a history of less than a day; if None, the
      days that they span
    - `person`: a hash of the person behind each principal, the same for all roles of one person; if None, each principal is a
      person of its own
    """

    loss: Floats
    z: Floats
    principal: Hashes
    day: Ints
    interval: Ints
    alert_z: Floats
    usual_days: float | None = None
    person: Hashes | None = None


def holdout_metrics(holdout: HoldoutScores, options: settings.Settings) -> dict[str, Any]:
    """Return the metrics of held-out rows for a manifest.

    They are the quantiles of the loss (nats) and of z, the z that each of VOTE_SHARES of the rows reaches, the number of
    principals a day that reach the alert threshold, and the z of the strongest alerts.
    """
    weight = _row_weights(holdout)
    figures: dict[str, Any] = {
        "rows": len(holdout.loss),
        "days": _days(holdout, options.spectral.interval_seconds),
        "principals": count_principals(
            holdout.principal if holdout.person is None else holdout.person, holdout.day
        ),
        "loss": named_quantiles(holdout.loss, weight=weight),
        "z": named_quantiles(holdout.z, weight=weight),
        "vote_z": {
            str(share): round(float(_quantiles(holdout.z, 1 - share, weight)), 4)
            for share in VOTE_SHARES
            if len(holdout.z)
        },
        "alerts": strongest_alerts(holdout, options),
    }
    strong = holdout.z >= alert_threshold(figures, options.alerts)
    votes = len(np.unique(_each(holdout.principal, holdout.day)[strong]))
    return {**figures, "votes_per_day": votes / max(figures["days"], 1)}


def losses_by_principal(holdout: HoldoutScores) -> dict[str, NDArray[Any]]:
    """Return the losses that a bank keeps of each principal: `principal`, `loss` and `weight` (M,), sorted by principal and loss.

    A principal with many rows has LOSSES_PER_PRINCIPAL quantiles of them. The weights of a principal sum to those of its rows.
    """
    order = np.lexsort((holdout.loss, holdout.principal))
    weight = _row_weights(holdout)
    counted = np.ones(len(order)) if weight is None else weight[order]
    principal, start, rows = np.unique(holdout.principal[order], return_index=True, return_counts=True)
    kept = np.minimum(rows, LOSSES_PER_PRINCIPAL)
    of = np.repeat(np.arange(len(kept)), kept)
    place = np.arange(len(of)) - np.repeat(np.cumsum(kept) - kept, kept)
    at = start[of] + ((place + 0.5) * rows[of] / kept[of]).astype(np.int64)
    total = np.add.reduceat(counted, start) if len(start) else counted
    return {
        "principal": principal[of],
        "loss": holdout.loss[order][at],
        "weight": (total / kept)[of].astype(np.float32),
    }


def count_principals(principal: Hashes, day: Ints) -> int:
    """Return the number of principals of rows (N,) for the alert budget; pass persons to count each once.

    Counts each principal that is there on two days or more. Of those of a single day it counts only the average of a day, because
    principals that are made for one run or one visitor would raise the budget with every further day.
    """
    _, first = np.unique(_each(principal, day), return_index=True)
    _, days = np.unique(principal[first], return_counts=True)
    passing = int((days == 1).sum())
    return len(days) - passing + math.ceil(passing / max(len(np.unique(day)), 1))


def strongest_alerts(holdout: HoldoutScores, options: settings.Settings) -> list[float]:
    """Return the largest z of each alert, strongest first, of the rows for which a vote of the autoencoder makes a verdict."""
    both = holdout.alert_z > -np.inf
    principal, interval, z = holdout.principal[both], holdout.interval[both], holdout.alert_z[both]
    peaks = alert_runs.alert_peaks(principal, interval, z, options.alert_gap_intervals, MAX_STRONGEST)
    return [round(float(each), 3) for each in z[peaks]]


def vote_threshold(quality: Mapping[str, Any], share: float) -> float:
    """Return the z that a share of a bank's held-out rows reached, interpolated between the shares that are kept."""
    kept = {float(name): z for name, z in quality["vote_z"].items()}
    if not kept:
        return DEFAULT_THRESHOLD
    shares = np.array(sorted(kept))
    return float(np.interp(np.log(share), np.log(shares), [kept[each] for each in shares]))


def alert_threshold(quality: Mapping[str, Any], options: settings.Alerts) -> float:
    """Return the z that opens an alert: the threshold that is set, or one by which days to come keep the alert budget.

    The held-out days may show fewer alerts than the budget allows, because days to come have more of them (FUTURE_ALERTS), and
    because counts of a few days are uncertain (`_certain_count`, with BUDGET_CONFIDENCE). The threshold lies half way between the
    last alert that is allowed and the next one. If fewer than the strongest TAIL_PEAKS are allowed, it follows the exponential
    tail of these (Hill's estimator, in nats).

    A history of less than a day has no held-out day. Then the threshold is the z that the budget's share of active hours reaches,
    with ACTIVE_HOURS a day of each principal.

    The threshold is at least LEAST_THRESHOLD, because the held-out days of a few principals may have only alerts that are hardly
    unusual.
    """
    return (
        max(_budget_threshold(quality, options), LEAST_THRESHOLD)
        if options.threshold is None
        else options.threshold
    )


def budget_a_day(quality: Mapping[str, Any], options: settings.Alerts) -> float:
    """Return the false alerts a day that the alert budget allows for the held-out principals, at least MIN_PRINCIPALS of them."""
    return _budget_of(max(quality["principals"], MIN_PRINCIPALS), options)


def _budget_of(principals: int, options: settings.Alerts) -> float:
    return options.budget_per_100_principals * principals / 100


def _budget_threshold(quality: Mapping[str, Any], options: settings.Alerts) -> float:
    """Return the threshold of `alert_threshold` that follows from the budget, without its lower bound."""
    if not quality["days"]:
        share = options.budget_per_100_principals / (100 * ACTIVE_HOURS)
        return -NormalDist().inv_cdf(min(share, 0.5))
    nats = tail_calibration.z_to_nats(np.array(quality["alerts"], float))
    if not len(nats):
        return DEFAULT_THRESHOLD
    least = min(TAIL_PEAKS, len(nats)) - 1
    smallest, allowed = (
        _budget_of(principals, options) * quality["days"]
        for principals in (MIN_PRINCIPALS, quality["principals"])
    )
    rank = max(_certain_count(allowed / FUTURE_ALERTS, least + 1), smallest)
    if rank < max(least, 1):
        slope = max(tail_calibration.censored_slope(nats[:least] - nats[least]), 1.0) if least else 1.0
        return float(
            tail_calibration.z_of_log_survival(
                -np.array([nats[least] + slope * np.log((least + 1) / max(rank, SMALLEST_COUNT))])
            )[0]
        )
    place = min(int(rank), len(nats)) - 1
    below = nats[min(place + 1, len(nats) - 1)]
    return float(tail_calibration.z_of_log_survival(-np.array([(nats[place] + below) / 2]))[0])


def _certain_count(allowed: float, peaks: int) -> float:
    """Return how many alerts the held-out days may show so that as many days to come show at most `allowed`.

    A count of n alerts has the uncertainty of a Poisson process. A count that Hill's estimator extrapolates from the n strongest
    has also that of the slope of their tail. Together the logarithm of the count has a standard error of

        1 / sqrt(n) * sqrt(1 + ln(n / allowed)^2)       n = max(peaks, allowed)

    >>> round(_certain_count(6.4, 20), 1), round(_certain_count(70, 20), 1)
    (4.1, 60.1)
    """
    counted = max(peaks, allowed)
    error = math.sqrt((1 + math.log(counted / max(allowed, SMALLEST_COUNT)) ** 2) / counted)
    return allowed * math.exp(-NormalDist().inv_cdf(BUDGET_CONFIDENCE) * error)


def named_quantiles(values: NDArray[Any], weight: NDArray[np.float64] | None = None) -> dict[str, float]:
    """Return the QUANTILES by name in the form of a manifest, `{"0.5": 11.2, ...}`; empty without values.

    `weight` (N,) says how much each value counts; without it, all count alike.
    """
    if not len(values):
        return {}
    return {
        f"{share:g}": round(float(at), 4)
        for share, at in zip(QUANTILES, _quantiles(values, QUANTILES, weight), strict=True)
    }


def _quantiles(values: NDArray[Any], probabilities: Any, weight: NDArray[np.float64] | None) -> Any:
    if weight is None:
        return np.quantile(values, probabilities)
    return np.quantile(values, probabilities, weights=weight, method="inverted_cdf")


def _row_weights(holdout: HoldoutScores) -> NDArray[np.float64] | None:
    """Return how much each row counts (N,), None if all count alike.

    The rows of one principal and day together count at most MAX_ROWS_PER_PRINCIPAL_DAY.
    """
    _, day, rows = np.unique(_each(holdout.principal, holdout.day), return_inverse=True, return_counts=True)
    if not len(rows) or rows.max() <= MAX_ROWS_PER_PRINCIPAL_DAY:
        return None
    weight: NDArray[np.float64] = np.minimum(1, MAX_ROWS_PER_PRINCIPAL_DAY / rows)[day]
    return weight


def _days(holdout: HoldoutScores, seconds: int) -> float:
    """Return how many days the held-out rows are worth (a fraction counts), at least 1; 0 for a history of less than a day."""
    if holdout.usual_days == 0:
        return 0.0
    if holdout.usual_days is not None:
        return round(max(holdout.usual_days, 1.0), 3)
    span = int(np.ptp(holdout.interval)) + 1 if len(holdout.interval) else 0
    return round(max(span * seconds / DAY_SECONDS, 1.0), 3)


def _each(principal: Hashes, time: Ints) -> Hashes:
    return hashing.hash_pair(principal, time.astype(np.uint64))
