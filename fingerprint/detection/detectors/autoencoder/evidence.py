"""The autoencoder's evidence: what it measured of each event, and what the events so far leave of it.

Evidence (N, F + 14) is a batch's `evidence["autoencoder"]`: each feature's surprise in nats (F); the logs of the usual calls of
three amounts, and the slopes of their tails (6); the parameters of the tails (8). The detector writes it, its score and its
explanation read it; the training measures held-out events alike.

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
# Columns of the evidence behind the features: what is usual of the event's amounts, then the tails by which it is judged.
USUAL_COLUMNS = slice(len(FEATURE_NAMES), len(FEATURE_NAMES) + len(amounts.AMOUNTS))
SLOPE_COLUMNS = slice(USUAL_COLUMNS.stop, USUAL_COLUMNS.stop + len(amounts.AMOUNTS))
FINGERPRINT_TAIL = slice(-8, -4)  # rate, edge and slope, and the share by which the threshold was moved
INTERVAL_TAIL = slice(-4, -1)
ADDED_NATS = -1  # of being a newcomer, and of what the call can do
# Nats beyond "something new": the cost of one of about ten recent novelties.
RECENT_NOVELTY_NATS = float(-np.log(0.1))
# (F,): features that show who calls, by a tool or a place, and not what is called.
IS_OF_CALLER = np.array([feature.evidence_group in ("tool", "place") for feature in encoding.FEATURES])
# Features that show what is done or with which tool, of those that are not new all the time, as resources are.
WHAT_AND_TOOL = np.flatnonzero(
    [feature.evidence_group in ("what", "tool") and feature.kind == "value" for feature in encoding.FEATURES]
)
RARE_NATS = 5.0  # of loss, from which on a learned value is rare
# Of an amount, that stay however often it came: one interval in e has them, so they add nothing to a novelty (Fisher's method).
LEAST_AMOUNT_NATS = 1.0


def feature_surprise(batch: EventBatch) -> Floats:
    """Return the surprise of each feature of events that the autoencoder measured: (N, F) nats."""
    return batch.evidence[DETECTOR_NAME][:, : len(FEATURE_NAMES)]


def carried_amount_nats(batch: EventBatch, counted: IntervalAmounts, day: int) -> tuple[Floats, Floats]:
    """Return how often each event's action was called so far, by amount, and the nats of it: (N, 3) each.

    A `day` is so many intervals. What an event does not carry is not counted for it.
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
    """Return the nats of amounts (N, 3) without those of the day before, where these reached the `alerting` nats.

    What opened an alert then, or could have, is no news when it comes again: a job that is new, and runs every night. A smaller
    amount takes nothing away, so who takes a little more each day is as strange as who takes all at once. What is left never
    falls while an interval fills.
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

    A job may begin some hours sooner or later: the largest amount of an interval within a quarter of a day of the same time. Of
    days the largest that ended before the interval's alert began: while a job runs, the calls of its last 24 hours rise.
    """
    xp, day = namespace(action), settings.spectral.intervals_per_day
    # Late records change nothing that ended so long ago, and state is kept for two days.
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
    """The values that events show of a principal, by interval: `principal` (N,), `interval` (N,), `codes` (N, F)."""

    principal: Hashes
    interval: NDArray[np.int32]
    codes: Hashes

    @classmethod
    def from_batch(cls, batch: EventBatch) -> ObservedValues:
        """Return what a batch of N events shows."""
        return cls(batch.principal, batch.interval, batch.codes)

    def take(self, rows: NDArray[np.intp]) -> ObservedValues:
        """Return the values of some rows."""
        return ObservedValues(self.principal[rows], self.interval[rows], self.codes[rows])


def discount_recent_novelty(
    loss: Floats, known: Mask, escape: Floats, observed: ObservedValues, state: ScorerState
) -> Floats:
    """Cap the loss (N, F) of values that the principal first showed after the training: a recent novelty is less of one.

    What is left is the surprise of doing *something* new, by the fingerprint's `escape` (N, F), plus that of it being this one of
    about ten recent novelties; after a day the latter alone. `known` (N, F) marks the values that the fingerprint has learned; a
    rare one is capped as well: a peer group may know what one of its principals did once. A tool or a place is no recent novelty
    before it is familiar (`state.first_calls`), unless a service made the call in the principal's name: that tries no key.
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
    """Return which events (N,) are writes with an effect that a principal with a fingerprint called without a service.

    `codes` (N, F), whether each `wrote` (N,), and the `level` (N,) that it is judged at. In training as in scoring.
    """
    direct: Mask = wrote & encoding.FEATURE_SET.is_from_address(codes)
    return direct & (level < PEER_LEVEL) & ~encoding.FEATURE_SET.had_no_effect(codes)


def shows_more_than_a_place(surprise: Floats) -> Mask:
    """Return which events (N,) surprise by what they do, or with which tool, from the surprise of their features (N, F)."""
    shown = surprise[:, to_device_of(WHAT_AND_TOOL, surprise)]
    more: Mask = namespace(surprise).any(shown >= autoencoder.RECHECK_THRESHOLD, axis=1)
    return more


def could_have_moved(codes: Hashes, level: NDArray[np.integer[Any]]) -> Mask:
    """Return which events (N,) show a place of a principal with a fingerprint: they came from an address.

    `codes` (N, F), and the `level` (N,) that each is judged at. In training as in scoring.
    """
    placed: Mask = encoding.FEATURE_SET.is_from_address(codes) & (level < PEER_LEVEL)
    return placed
