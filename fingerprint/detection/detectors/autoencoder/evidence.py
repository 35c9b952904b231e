"""The autoencoder's evidence: the measurements of each event, and the discounts of what came before.

Evidence (N, F + 14) is a batch's `evidence["autoencoder"]`: each feature's surprise in nats (F), the logs of the usual calls of
three amounts and the slopes of their tails (6), the parameters of the tails (8). The detector writes it; its score and its
explanation read it. Training measures held-out events in the same way.

Example:
    >>> feature_surprise(batch)                            # (N, F) nats
    >>> calls, nats = carried_amount_nats(batch, state.interval_amounts, day=24)        # (N, 3) each
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats, Ints, Mask, namespace, to_device_of
from fingerprint.compute.hashing import Hashes
from fingerprint.core.settings import Settings
from fingerprint.estimators import amounts, autoencoder, tail_calibration
from fingerprint.features import encoding
from fingerprint.features.encoding import ACTION_COLUMN, FEATURE_NAMES, IS_BIN
from fingerprint.registry import quality
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.interval_amounts import IntervalAmounts
from fingerprint.state.scorer_state import ScorerState

DETECTOR_NAME = "autoencoder"
# Columns of the evidence after the features: the usual amounts of the event, then the tails by which it is judged.
USUAL_COLUMNS = slice(len(FEATURE_NAMES), len(FEATURE_NAMES) + len(amounts.AMOUNTS))
SLOPE_COLUMNS = slice(USUAL_COLUMNS.stop, USUAL_COLUMNS.stop + len(amounts.AMOUNTS))
FINGERPRINT_TAIL = slice(-8, -4)  # rate, edge and slope, and the share by which the threshold was moved
INTERVAL_TAIL = slice(-4, -1)
ADDED_NATS = -1  # nats of being a newcomer and of the harm that the call can do
# Nats of one particular value among about ten recent novelties, beyond those of "something new".
RECENT_NOVELTY_NATS = float(-np.log(0.1))
# (F,): features of the caller (tool or place), not of the call.
IS_OF_CALLER = np.array([feature.evidence_group in ("tool", "place") for feature in encoding.FEATURES])
# Features of what is done or with which tool; without those that are new all the time, such as resources.
WHAT_AND_TOOL = np.flatnonzero(
    [feature.evidence_group in ("what", "tool") and feature.kind == "value" for feature in encoding.FEATURES]
)
RARE_NATS = 5.0  # a learned value is rare from this loss on
# Nats of an amount that are never discounted: one interval in e has them, so they add nothing to a novelty (Fisher's method).
LEAST_AMOUNT_NATS = 1.0


def feature_surprise(batch: EventBatch) -> Floats:
    """Return the surprise of each feature of events that the autoencoder measured: (N, F) nats."""
    return batch.evidence[DETECTOR_NAME][:, : len(FEATURE_NAMES)]


def carried_amount_nats(batch: EventBatch, counted: IntervalAmounts, day: int) -> tuple[Floats, Floats]:
    """Return how often each event's action was called so far, by amount, and the nats of these counts: (N, 3) each.

    `day` is the number of intervals in a day. An amount for which an event carries no tail (slope 0) is not counted.
    """
    evidence = batch.evidence[DETECTOR_NAME]
    slope, xp = evidence[:, SLOPE_COLUMNS], namespace(evidence)
    calls = xp.zeros(slope.shape, np.int32)
    counts = (
        (amounts.every_resource_of, 1),
        (amounts.every_resource_of, day),
        (amounts.unusual_resources_of, 1),
    )
    for amount, (code_of, intervals) in enumerate(counts):
        rows = (slope[:, amount] > 0).nonzero()[0]
        code = code_of(batch.codes[rows, ACTION_COLUMN])
        calls[rows, amount] = counted.count(batch.principal[rows], batch.interval[rows], code, intervals)
    return calls, amounts.amount_nats(calls, evidence[:, USUAL_COLUMNS], slope)


def nats_at_threshold(bank: Bank, settings: Settings) -> float:
    """Return the nats of an event that reaches the threshold of alerts."""
    threshold = quality.alert_threshold(bank.manifest["quality"], settings.alerts)
    return float(tail_calibration.z_to_nats(threshold))


def discount_recent_amounts(
    nats: Floats, batch: EventBatch, counted: IntervalAmounts, settings: Settings, alerting: float
) -> Floats:
    """Return the nats of amounts (N, 3) less those of the day before, where the latter reached the `alerting` nats.

    An amount that could open an alert the day before is no news when it comes again, such as a new job that runs every night. A
    smaller amount is not subtracted: a thief who takes a little more each day stays as strange as one who takes all at once. The
    result never falls while an interval fills.
    """
    xp = namespace(nats)
    rows = xp.any(nats > LEAST_AMOUNT_NATS, axis=1).nonzero()[0]
    if not len(rows):
        return nats
    evidence, action = batch.evidence[DETECTOR_NAME][rows], batch.codes[rows, ACTION_COLUMN]
    calls = _calls_of_day_before(counted, batch.principal[rows], batch.interval[rows], action, settings)
    before = amounts.amount_nats(calls, evidence[:, USUAL_COLUMNS], evidence[:, SLOPE_COLUMNS])
    less = nats[rows] - xp.where(before >= alerting, before, np.float32(0))
    discounted = nats.copy()
    discounted[rows] = xp.maximum(less, xp.minimum(nats[rows], np.float32(LEAST_AMOUNT_NATS)))
    return discounted


def _calls_of_day_before(
    counted: IntervalAmounts, principal: Hashes, interval: Ints, action: Hashes, settings: Settings
) -> Ints:
    """Return how often principals called actions on the day before each interval, by amount, (M, 3).

    For amounts of an interval it is the largest within a quarter of a day of the same time, because a job may begin some hours
    sooner or later. For the amount of a day it is the largest sum of 24 hours that ended before the interval's alert began,
    because the sum rises while a job runs.
    """
    xp, day = namespace(action), settings.spectral.intervals_per_day
    # Late records no longer change intervals that ended so long ago; the state keeps two days.
    ended = max(settings.alert_gap_intervals, settings.spectral.late_intervals) + 1
    ago = xp.arange(max(min(ended, day // 2), 1), 2 * day - day // 8, dtype=np.int32)
    caller, called = xp.repeat(principal, len(ago)), xp.repeat(action, len(ago))
    before = (interval[:, None] - ago).ravel()
    every, unusual = (
        counted.count(caller, before, code_of(called)).reshape(-1, len(ago))
        for code_of in (amounts.every_resource_of, amounts.unusual_resources_of)
    )
    same_time = slice(day - day // 4 - int(ago[0]), day + day // 4 - int(ago[0]) + 1)
    until = every.cumsum(axis=1)
    in_a_day = until[:, day - 1 :].copy()
    in_a_day[:, 1:] -= until[:, :-day]
    hours = (each[:, same_time].max(axis=1) for each in (every, unusual))
    calls: Ints = xp.stack([next(hours), in_a_day.max(axis=1), next(hours)], axis=1)
    return calls


class ObservedValues(NamedTuple):
    """The values that events show of their principals: `principal` (N,), `interval` (N,), `codes` (N, F)."""

    principal: Hashes
    interval: NDArray[np.int32]
    codes: Hashes

    @classmethod
    def from_batch(cls, batch: EventBatch) -> ObservedValues:
        """Return the values of a batch of N events."""
        return cls(batch.principal, batch.interval, batch.codes)

    def take(self, rows: NDArray[np.intp]) -> ObservedValues:
        """Return the values of some rows."""
        return ObservedValues(self.principal[rows], self.interval[rows], self.codes[rows])


def discount_recent_novelty(
    loss: Floats, known: Mask, escape: Floats, observed: ObservedValues, state: ScorerState
) -> Floats:
    """Return the loss (N, F) with a cap on values that the principal first showed after the training (recent novelties).

    - The cap is the surprise of *something* new (minus the fingerprint's log `escape` (N, F)) plus RECENT_NOVELTY_NATS for this
      value among about ten recent ones; after a day RECENT_NOVELTY_NATS alone.
    - `known` (N, F) marks the values that the fingerprint has learned. A rare one is capped as well: a peer group may know a
      value that one of its principals showed once.
    - A tool or a place is a recent novelty only once it is familiar (`state.first_calls`), unless a service made the call in the
      principal's name: such a call tries no stolen key.
    """
    xp = namespace(known)
    row, column = xp.nonzero((~known | (loss >= RARE_NATS)) & to_device_of(~IS_BIN, known))
    owner = hashing.combine(observed.principal[row], column.astype(np.uint64))
    value, interval = hashing.combine(owner, observed.codes[row, column]), observed.interval[row]
    is_caller = to_device_of(IS_OF_CALLER, known)[column]
    is_caller &= encoding.FEATURE_SET.is_from_address(observed.codes)[row]
    (what,), (who,) = (~is_caller).nonzero(), is_caller.nonzero()
    age = xp.empty(len(row), np.int32)
    age[what] = state.novelty_age(value[what], interval[what])
    action = observed.codes[row[who], ACTION_COLUMN]
    age[who] = state.first_calls.familiar_age(value[who], interval[who], action)
    again = age > state.series.late_intervals
    row, column, age = row[again], column[again], age[again]
    something_new = xp.where(age < state.series.intervals_per_day, -escape[row, column], 0)
    out = loss.copy()
    out[row, column] = xp.minimum(out[row, column], RECENT_NOVELTY_NATS + something_new)
    return out


def could_be_left_to_services(codes: Hashes, wrote: Mask, level: NDArray[np.integer[Any]]) -> Mask:
    """Return a mask (N,) of the writes with an effect that a principal with a fingerprint called itself, not by a service.

    `codes` (N, F), whether each event `wrote` (N,), and the `level` (N,) at which it is judged. Training and scoring both use it.
    """
    direct: Mask = wrote & encoding.FEATURE_SET.is_from_address(codes)
    return direct & (level < PEER_LEVEL) & ~encoding.FEATURE_SET.had_no_effect(codes)


def shows_more_than_a_place(surprise: Floats) -> Mask:
    """Return a mask (N,) of the events that surprise by what they do or by their tool; `surprise` (N, F) is by feature."""
    shown = surprise[:, to_device_of(WHAT_AND_TOOL, surprise)]
    more: Mask = namespace(surprise).any(shown >= autoencoder.RECHECK_THRESHOLD, axis=1)
    return more


def could_have_moved(codes: Hashes, level: NDArray[np.integer[Any]]) -> Mask:
    """Return a mask (N,) of the events that came from an address and whose principal has a fingerprint.

    `codes` (N, F), and the `level` (N,) at which each event is judged. Training and scoring both use it.
    """
    placed: Mask = encoding.FEATURE_SET.is_from_address(codes) & (level < PEER_LEVEL)
    return placed
