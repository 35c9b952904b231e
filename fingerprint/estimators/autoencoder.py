"""Many autoencoders as one stacked tensor program: the loss of each feature, and the surprise of an event.

Example:
    >>> loss, known = feature_losses(vocabulary, weights, fingerprint, codes)      # (N, F) nats
    >>> surprise = surprise_per_feature(loss, baseline.center, fingerprint)        # (N, F) nats above the usual loss
    >>> nats = event_nats(surprise, interval_surprise, from_usual_place)
    >>> nats.excess(baseline.interval_tail[fingerprint])                           # (N,) nats; tail_calibration makes a z

Each fingerprint has a masked autoencoder with one hidden layer. Every feature is reconstructed from the others: the
hidden layer sums the embeddings of the other features' values, and its output *corrects* the counted likelihood of each
slot (a softmax over log p + correction). An untrained net corrects nothing, so what is served is never worse than the
counts by construction, and a value that no net reconstructs keeps the likelihood of its prior. Training is in
`training.nn`; this module needs an array library only, and is written over the namespace of its arguments.

Weights are stored in half precision: a net is gathered at 2 bytes a weight and widened before anything is computed. Memory
bandwidth is the bound, at half an operation a byte, so products in half precision would gain nothing, and would cost a
thousandth of a nat.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_namespace, to_device
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Array, Floats, Ints, Placement, move_arrays, namespace, to_device_of
from fingerprint.estimators import interval_tail
from fingerprint.features.encoding import (
    CODES_WITHOUT_EVIDENCE,
    DAY_COUNTS,
    EVIDENCE_GROUP_FEATURES,
    EVIDENCE_GROUPS,
    FEATURE_WEIGHTS,
    GIVEN_FEATURE,
    IS_BIN,
    IS_OPEN,
)
from fingerprint.features.vocabulary import Vocabulary

LossFunction = Callable[[Ints, hashing.Hashes], tuple[Floats, NDArray[np.bool_]]]

# (G,) features that nets reconstruct; each other feature is judged given one of these
FREE_FEATURES = np.flatnonzero(GIVEN_FEATURE < 0)
CONDITIONAL_FEATURES = np.flatnonzero(GIVEN_FEATURE >= 0)  # (F - G,) the other features ...
CONDITIONED_ON = GIVEN_FEATURE[CONDITIONAL_FEATURES]  # ... and the feature that each of them is judged given
BIN_FEATURES = np.flatnonzero(IS_BIN)
OPEN_FEATURES = np.flatnonzero(IS_OPEN)
# (G, F): features that a free one is reconstructed from: not itself, nor one that contains it (parameters name the action)
VISIBLE_MASK = (
    (np.arange(len(GIVEN_FEATURE)) != FREE_FEATURES[:, None]) & (FREE_FEATURES[:, None] != GIVEN_FEATURE)
).astype(np.float32)


def _invisible_features() -> NDArray[np.int64]:
    hidden = [np.flatnonzero(row == 0) for row in VISIBLE_MASK]
    table = np.full((len(hidden), max(map(len, hidden))), -1)
    for row, features in zip(table, hidden, strict=True):
        row[: len(features)] = features
    return table


# (G, M): features that a free one is not reconstructed from, padded with -1
INVISIBLE_FEATURES = _invisible_features()
# (number of groups, M): the features of each evidence group, padded with its last feature
EVIDENCE_GROUP_TABLE = np.array(
    [
        np.pad(features, (0, max(map(len, EVIDENCE_GROUP_FEATURES)) - len(features)), mode="edge")
        for features in EVIDENCE_GROUP_FEATURES
    ]
)
# Nats by which a net may correct the counts: it is badly calibrated for what it has hardly seen
MAX_CORRECTION = 4.0
# Share of the probability of bins that is spread evenly over all 16 or so, so that a neighbouring bin is never impossible.
UNIFORM_BIN_SHARE = 0.1
CONTEXT_THRESHOLD = 8.0  # nats an event must surprise by itself before the surprise of its interval counts
# Nats: a smaller surprise does not count for its interval, and is not compared with the principal as a whole.
RECHECK_THRESHOLD = 2.0
REMOTE_PLACE_THRESHOLD = 7.0  # nats of surprise from which a place is not one of the principal's own
# Nats that are added to an event from a remote place while the principal is also active from a usual one.
SIMULTANEOUS_PLACES_NATS = 5.0
NEWCOMER_DAYS = 2  # days from the first event of a principal in which it is a newcomer ...
# ... and in which this adds nats: on the second day it was half the nats of alerts that repeated the first day's.
NEWS_DAYS = 1
PLACE_GROUP = EVIDENCE_GROUPS.index("place")
# Nats of the value itself, beside those of a new value coming at all, of an open feature: one of about ten.
UNSEEN_OPEN_VALUE_NATS = 2.3
# Most nats that one feature may surprise by: what is rarer than one in twenty thousand was never seen.
MAX_FEATURE_SURPRISE = 10.0
# Bytes of weights gathered at a time, so that a CPU's cache holds them: those of 292 rows, at 14 x 24 x 8 x 4 B
CPU_CHUNK_BYTES = 3 << 20
DEVICE_CHUNK_BYTES = 192 << 20  # the same on a device: enough to keep a GPU busy
FLOAT16_MAX = float(np.finfo(np.float16).max)  # weights are kept in half precision
FLOAT16_BITS = np.int32(-0x70002000)  # bits of a float32 that a float16 shifted by 13 bits fills: 1 + 5 + 10
# Two to the difference of the exponents' biases, float32's and float16's
FLOAT16_SCALE = np.float32(2.0 ** (127 - 15))


@dataclass(frozen=True, slots=True)
class Weights:
    """P stacked nets with H hidden units: `inputs` (P, F, K, H), `bias` (P, H), `outputs` (P, G, K, H), in half precision.

    `row` (E,) is the net of each fingerprint, -1 where the history was too thin for one.
    """

    inputs: Array
    bias: Array
    outputs: Array
    row: Ints

    def on(self, placement: Placement) -> Weights:
        """Return them with their arrays on another device."""
        return move_arrays(self, placement)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The usual losses of each fingerprint, from held-out rows.

    - `center` (E, F): the usual loss of each feature
    - `rate`, `edge`, `slope` (E,): the tail of the excess of events (`tail_calibration`); `rate` is the logarithm of its rate,
      under the name that it has in the bank
    - `interval_tail` (E, 3): the tail of the other surprises in the interval of an unusual event (`estimators.interval_tail`)
    - `newcomer` (E,): nats that are added for being a newcomer
    """

    center: Floats
    rate: Floats
    edge: Floats
    slope: Floats
    interval_tail: Floats
    newcomer: Floats

    def on(self, placement: Placement) -> Baseline:
        """Return it with its arrays on another device."""
        return move_arrays(self, placement)


def feature_losses(
    vocabulary: Vocabulary, weights: Weights, fingerprint: Ints, codes: hashing.Hashes
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the loss of each feature in nats and whether its value was known: fingerprint (N,), codes (N, F) -> 2 x (N, F).

    Equal rows are computed once, because machines repeat themselves. Losses are computed on the device of `codes` and the
    vocabulary; nets may be on another. The code for the host is compiled.
    """
    return make_loss_function(vocabulary, weights)(fingerprint, codes)


def make_loss_function(vocabulary: Vocabulary, weights: Weights) -> LossFunction:
    """Return `feature_losses` of one bank. Its arrays are prepared once, which takes longer than to measure a few events."""
    on_host = isinstance(vocabulary.keys, np.ndarray) and isinstance(weights.inputs, np.ndarray)
    if not on_host or weights.inputs.dtype != np.float16:
        return partial(array_losses, vocabulary, weights)
    from fingerprint.estimators import (
        compiled_losses,  # numba takes half a second, and most commands measure nothing
    )

    return partial(compiled_losses.compiled_losses, compiled_losses.bank_arrays(vocabulary, weights))


def array_losses(
    vocabulary: Vocabulary, weights: Weights, fingerprint: Ints, codes: hashing.Hashes
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the losses of `feature_losses`, computed with any array library."""
    xp = namespace(codes)
    alike = fingerprint.astype(np.uint64)
    for column in codes.T:
        alike = hashing.hash_pair(alike, column)
    _, first, inverse = xp.unique(alike, return_index=True, return_inverse=True)
    logp, slot, known = vocabulary.look_up(fingerprint[first], codes[first])
    loss = -logp
    adds, to, free, bins = (
        to_device_of(places, codes)
        for places in (CONDITIONAL_FEATURES, CONDITIONED_ON, FREE_FEATURES, BIN_FEATURES)
    )
    loss[:, adds] = xp.maximum(loss[:, adds] - loss[:, to], 0)  # what it adds to the feature it contains
    loss[:, free] -= correction(weights, vocabulary.base, fingerprint[first], slot)
    for feature in OPEN_FEATURES.tolist():  # never more than what something new is
        most = vocabulary.novelty_loss(fingerprint[first], feature) + UNSEEN_OPEN_VALUE_NATS
        loss[:, feature] = xp.minimum(loss[:, feature], most)
    for feature, silent in CODES_WITHOUT_EVIDENCE.items():
        loss[codes[first, feature] == silent, feature] = 0
    loss[:, bins] = -xp.log((1 - UNIFORM_BIN_SHARE) * xp.exp(-loss[:, bins]) + UNIFORM_BIN_SHARE / 16)
    return xp.maximum(loss, 0)[inverse], known[inverse]


def correction(weights: Weights, base: Floats, fingerprint: Ints, slot: NDArray[np.int16]) -> Floats:
    """Return log p(slot | the other features) - log p(slot): fingerprint (N,), slot (N, F) -> (N, G), zero without a net.

    Corrections are computed on the device of the nets and `base`, and returned on that of `slot`.
    """
    xp, here = array_namespace(weights.inputs), namespace(slot)
    place = device(weights.inputs)
    out = here.zeros((len(fingerprint), len(FREE_FEATURES)), np.float32)
    net_of = weights.row[fingerprint]
    netted = here.flatnonzero(net_of >= 0)
    if len(netted) > 1:  # rows of one net read it one after the other
        netted = netted[here.argsort(net_of[netted], kind="stable")]
    most = CPU_CHUNK_BYTES if is_numpy_namespace(xp) else DEVICE_CHUNK_BYTES
    step = max(1, most // (4 * math.prod(weights.outputs.shape[1:])))
    for start in range(0, len(netted), step):
        rows = netted[start : start + step]
        net, at, slots, free = (
            xp.asarray(index.astype(np.int64), device=place)
            for index in (net_of[rows], fingerprint[rows], slot[rows], FREE_FEATURES)
        )
        logits = reconstruct(weights.inputs, weights.bias, weights.outputs, net, slots)
        out[rows] = _match_location(out, gain(logits, base[at][:, free], slots[:, free]))
    return here.clip(out, -MAX_CORRECTION, MAX_CORRECTION)


def _match_location(out: Array, found: Array) -> Array:
    """Return an array on the host if `out` is of another library."""
    return found if isinstance(found, type(out)) else to_device(found, "cpu")


def reconstruct(inputs: Array, bias: Array, outputs: Array, net: Array, slot: Array) -> Array:
    """Return the corrections of all slots of all free features, each from the other features: (N, G, K)."""
    xp = array_namespace(inputs)
    features = xp.arange(slot.shape[1], device=device(inputs))
    seen = widen_half(inputs[net[:, None], features, slot])  # (N, F, H)
    visible = xp.asarray(VISIBLE_MASK, dtype=seen.dtype, device=device(inputs))
    hidden = xp.tanh(xp.matmul(visible, seen) + bias[net][:, None, :])  # (N, G, H)
    return xp.matmul(widen_half(outputs[net]), hidden[..., None])[..., 0]


def widen_half(half: Array) -> Array:
    """Return finite half-precision numbers as float32, exactly; float32 is returned unchanged.

    NumPy's own conversion takes 1.6 ns a number, this one 0.2 ns: it shifts the bits to where float32 has its exponent and
    fraction, and multiplies by two to the difference of the exponents' biases.
    """
    if not isinstance(half, np.ndarray) or half.dtype != np.float16:
        xp = array_namespace(half)
        return xp.astype(half, xp.float32, copy=False)
    bits = half.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= FLOAT16_BITS
    wide = bits.view(np.float32)
    wide *= FLOAT16_SCALE
    return wide


def gain(logits: Array, base: Array, slot: Array) -> Array:
    """Return the log of how much likelier the corrected softmax makes each slot than the counts alone, (N, G).

    `logits` and `base` are (N, G, K), `slot` is (N, G).
    """
    xp = array_namespace(logits)
    taken = xp.take_along_axis(logits, xp.astype(slot, xp.int64)[..., None], axis=-1)[..., 0]
    return taken - _logsumexp(logits + base) + _logsumexp(base)


def _logsumexp(values: Array) -> Array:
    xp = array_namespace(values)
    top = xp.max(values, axis=-1, keepdims=True)
    return xp.log(xp.sum(xp.exp(values - top), axis=-1)) + top[..., 0]


def surprise_per_feature(loss: Floats, center: Floats, fingerprint: Ints) -> Floats:
    """Return the surprise of each feature (N, F): weighted nats above its usual loss, at most MAX_FEATURE_SURPRISE.

    The counts of a day's new actions and sources surprise at most as much as the counted features of the event itself. Otherwise
    usual calls would surprise for the rest of a day that had an attack, or an hour of trying things.
    """
    xp = namespace(loss)
    surprise: Floats = xp.clip(
        (loss - center[fingerprint]) * to_device_of(FEATURE_WEIGHTS, loss), 0, MAX_FEATURE_SURPRISE
    )
    for count, counted in DAY_COUNTS:
        brought = surprise[:, to_device_of(counted, surprise)].max(axis=1)
        surprise[:, count] = xp.minimum(surprise[:, count], brought)
    return surprise


def novel_to_principal(
    surprise: Floats, principal_row: Ints, measure_at_principal: Callable[[NDArray[np.intp]], Floats]
) -> Floats:
    """Return the smaller of two surprises (N, F): at the entity, and at its principal as a whole.

    A tool that a principal uses every day is no news at a service where it had not used it. Only rows with a surprise of at least
    RECHECK_THRESHOLD are compared. `principal_row` (N,) is the fingerprint of the principal, -1 for none; `measure_at_principal`
    takes indices of rows (M,) and returns their surprise there (M, F).
    """
    rows = ((surprise >= RECHECK_THRESHOLD).any(axis=1) & (principal_row >= 0)).nonzero()[0]
    if len(rows):
        surprise = surprise.copy()
        surprise[rows] = namespace(surprise).minimum(surprise[rows], measure_at_principal(rows))
    return surprise


def group_surprise(surprise: Floats) -> Floats:
    """Return the strongest surprise of each evidence group: (N, F) -> (N, number of groups).

    One fact counts once: a new action also has new parameters, a new tool a new version.
    """
    strongest: Floats = surprise[:, to_device_of(EVIDENCE_GROUP_TABLE, surprise)].max(axis=2)
    return strongest


def total_surprise(surprise: Floats) -> Floats:
    """Return the surprise of events by themselves, the sum over evidence groups: (N, F) -> (N,)."""
    return group_surprise(surprise).sum(axis=1)


def place_surprise(surprise: Floats) -> Floats:
    """Return the surprise of the place that events come from: (N, F) -> (N,)."""
    out: Floats = surprise[:, to_device_of(EVIDENCE_GROUP_FEATURES[PLACE_GROUP], surprise)].max(axis=1)
    return out


def needs_interval_context(surprise: Floats) -> NDArray[np.bool_]:
    """Return whether each event (N,) is so unusual by itself that the other surprises of its interval count."""
    return total_surprise(surprise) >= CONTEXT_THRESHOLD


def is_newcomer(since: Any, interval: Ints, intervals_per_day: int) -> NDArray[np.bool_]:
    """Return whether each principal was first seen (`since`) less than NEWCOMER_DAYS before `interval`: intervals (N,)."""
    newcomer: NDArray[np.bool_] = interval - since < NEWCOMER_DAYS * intervals_per_day
    return newcomer


def has_just_come(since: Any, interval: Ints, intervals_per_day: int) -> NDArray[np.bool_]:
    """Return whether each principal was first seen (`since`) less than NEWS_DAYS before `interval`: intervals (N,)."""
    news: NDArray[np.bool_] = interval - since < NEWS_DAYS * intervals_per_day
    return news


class EventNats(NamedTuple):
    """The nats of events, (N,) each.

    - `own`: the surprise of the event by itself
    - `apart`: added for an event from a remote place while the principal is active from a usual one
    - `others`: the sum of the other surprises of the principal in the interval; `interval_tail` turns it into nats to add
    - `harm`: added for what a new action can do (`estimators.harm`)
    """

    own: Floats
    apart: Floats
    others: Floats
    harm: Floats | float = 0.0

    def excess(self, tail: Floats) -> Floats:
        """Return the nats by which events lie above what is usual (N,); `tail` is (N, 3) or (3,) (`interval_tail`).

        Only an event that is unusual by itself (CONTEXT_THRESHOLD) is credited with the interval's other surprises. They count by
        how rare their sum is beside unusual events of held-out intervals, not by the sum itself: a plan, a release or the trial
        of a tool brings hundreds of nats at once.
        """
        beside = self.apart + interval_tail.interval_nats(self.others, tail)
        out: Floats = self.own + beside * (self.own >= CONTEXT_THRESHOLD) + self.harm
        return out


def event_nats(surprise: Floats, interval_surprise: Floats, from_usual_place: NDArray[np.bool_]) -> EventNats:
    """Return the nats of events from their surprise (N, F) and the nats of all surprises in their interval (N,).

    `from_usual_place` (N,) says whether the principal was active from a usual place in the interval, which makes an event from a
    remote place stranger.
    """
    strongest = group_surprise(surprise)
    own = strongest.sum(axis=1)
    remote = strongest[:, PLACE_GROUP] >= REMOTE_PLACE_THRESHOLD
    return EventNats(
        own,
        SIMULTANEOUS_PLACES_NATS * (from_usual_place & remote).astype(np.float32),
        namespace(own).maximum(interval_surprise - own, 0),
    )
