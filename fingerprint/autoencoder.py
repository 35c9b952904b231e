"""Did it do what it usually does? Many autoencoders as one stacked tensor program: loss per feature, and z.

Example:
    >>> loss = losses(vocabulary, weights, fingerprint, codes)       # (N, F) nats
    >>> z, surprise = judge(loss, baseline, fingerprint, strongest=3)

Each fingerprint has a masked autoencoder with one hidden layer. Every feature is reconstructed from the others: the
hidden layer sums the embeddings of the other features' values, and its output *corrects* the counted likelihood of each
slot (a softmax over log p + correction). An untrained net corrects nothing, so what is served is never worse than the
counts by construction, and a value nobody reconstructs keeps the likelihood its prior gives it. Fitting needs torch
(`fitting`); this needs an array library only, and is written over the namespace of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from fingerprint import hashing
from fingerprint.features import GIVEN
from fingerprint.vocabulary import Floats, Ints, Vocabulary

Array = Any

FREE = np.flatnonzero(GIVEN < 0)  # (G,) features that are reconstructed; the others are judged given one of these
# (G, F): what a feature is reconstructed from: not from itself, nor from what contains it (parameters name the action)
VISIBLE = ((np.arange(len(GIVEN)) != FREE[:, None]) & (GIVEN != FREE[:, None])).astype(np.float32)
LIMIT = 4.0  # nats: a net is badly calibrated for what it has hardly seen, so it may correct the counts only so far
CHUNK = 1024  # rows whose weights are gathered at a time: 1024 x 13 x 24 x 8 x 4 B = 10 MB


@dataclass(frozen=True, slots=True)
class Weights:
    """P stacked nets with H hidden units: `inputs` (P, F, K, H), `bias` (P, H), `outputs` (P, G, K, H).

    `row` (E,) is the net of each fingerprint, -1 where the history was too thin for one.
    """

    inputs: Array
    bias: Array
    outputs: Array
    row: Ints


@dataclass(frozen=True, slots=True)
class Baseline:
    """What losses are usual, from held-out rows: `center` (E, F) per feature; `middle`, `scale` (E,) of the combined."""

    center: Floats
    middle: Floats
    scale: Floats


def losses(vocabulary: Vocabulary, weights: Weights, fingerprint: Ints, codes: hashing.Hashes) -> tuple[Floats, NDArray[np.bool_]]:
    """Loss of each feature in nats and whether its value was known: fingerprint (N,), codes (N, F) -> 2 x (N, F).

    Rows that are alike are measured once: what machines do repeats itself.
    """
    alike = fingerprint.astype(np.uint64)
    for column in codes.T:
        alike = hashing.mix(alike, column)
    _, first, inverse = np.unique(alike, return_index=True, return_inverse=True)
    logp, slot, known = vocabulary.look_up(fingerprint[first], codes[first])
    loss = -logp
    given = GIVEN >= 0
    loss[:, given] = np.maximum(loss[:, given] - loss[:, GIVEN[given]], 0)  # what it adds to the feature it contains
    loss[:, FREE] -= correction(weights, vocabulary.base, fingerprint[first], slot)
    return np.maximum(loss, 0)[inverse], known[inverse]


def correction(weights: Weights, base: Floats, fingerprint: Ints, slot: NDArray[np.int16]) -> Floats:
    """log p(slot | the other features) - log p(slot): fingerprint (N,), slot (N, F) -> (N, G), zero without a net."""
    out = np.zeros((len(fingerprint), len(FREE)), np.float32)
    netted = np.flatnonzero(weights.row[fingerprint] >= 0)
    for start in range(0, len(netted), CHUNK):
        rows = netted[start : start + CHUNK]
        net = weights.row[fingerprint[rows]]
        logits = reconstruct(weights.inputs, weights.bias, weights.outputs, net, slot[rows])
        out[rows] = gain(logits, base[fingerprint[rows]][:, FREE], slot[rows][:, FREE])
    return np.clip(out, -LIMIT, LIMIT)


def reconstruct(inputs: Array, bias: Array, outputs: Array, net: Array, slot: Array) -> Array:
    """Corrections of all slots of all free features, each seen from the other features: -> (N, G, K)."""
    xp = array_namespace(inputs)
    features = xp.arange(slot.shape[1])
    seen = inputs[net[:, None], features, slot]  # (N, F, H)
    visible = xp.asarray(VISIBLE, dtype=seen.dtype)
    hidden = xp.tanh(xp.matmul(visible, seen) + bias[net][:, None, :])  # (N, G, H)
    return xp.matmul(outputs[net], hidden[..., None])[..., 0]


def gain(logits: Array, base: Array, slot: Array) -> Array:
    """How much likelier the corrected softmax makes each slot than the counts do: (N, G, K), (N, G, K), (N, G) -> (N, G)."""
    xp = array_namespace(logits)
    taken = xp.take_along_axis(logits, xp.astype(slot, xp.int64)[..., None], axis=-1)[..., 0]
    return taken - _logsumexp(logits + base) + _logsumexp(base)


def _logsumexp(values: Array) -> Array:
    xp = array_namespace(values)
    top = xp.max(values, axis=-1, keepdims=True)
    return xp.log(xp.sum(xp.exp(values - top), axis=-1)) + top[..., 0]


def judge(loss: Floats, baseline: Baseline, fingerprint: Ints, strongest: int) -> tuple[Floats, Floats]:
    """z of each event (N,), and the surprise of each feature in nats above its usual loss (N, F).

    One strange feature is enough: the `strongest` surprises are summed, and the sum is standardised against the
    fingerprint's own held-out sums (published threshold: four).
    """
    surprise = np.maximum(loss - baseline.center[fingerprint], 0)
    combined = combine(surprise, strongest)
    return (combined - baseline.middle[fingerprint]) / baseline.scale[fingerprint], surprise


def combine(surprise: Floats, strongest: int) -> Floats:
    top = np.partition(surprise, surprise.shape[1] - strongest, axis=1)[:, -strongest:]
    return top.sum(1)


# --- baselines ------------------------------------------------------------------------------------------------------

LEAST_SCALE = 1.0  # nats: a fingerprint whose losses never varied must not win every time
PRIOR_ROWS = 30  # held-out rows that the parent's baseline is worth


def baseline_of(loss: Floats, fingerprint: Ints, parent: Ints, strongest: int) -> Baseline:
    """Baselines from held-out rows: loss (N, F) of rows measured at `fingerprint` (N,); thin ones lean on their parent.

    Centers are medians; the scale is the larger of 1.4826 x MAD and the distance from median to the 90th percentile in
    standard deviations, because what matters is how far *above* the usual a loss wanders.
    """
    size, features = len(parent), loss.shape[1]
    order = np.argsort(fingerprint, kind="stable")
    bounds = np.searchsorted(fingerprint[order], np.arange(size + 1))
    center = np.zeros((size, features), np.float32)
    for feature in range(features):
        center[:, feature] = _leaning(_quantile(loss[order, feature], bounds, 0.5), bounds, parent)
    combined = combine(np.maximum(loss - center[fingerprint], 0), strongest)[order]
    middle = _leaning(_quantile(combined, bounds, 0.5), bounds, parent)
    away = np.abs(combined - np.repeat(middle, np.diff(bounds)))
    scale = np.maximum(
        1.4826 * _quantile(away, bounds, 0.5), (_quantile(combined, bounds, 0.9) - middle) / 1.2816
    )
    return Baseline(center, middle, np.maximum(_leaning(scale, bounds, parent), LEAST_SCALE))


def _quantile(values: Floats, bounds: NDArray[np.intp], q: float) -> Floats:
    """The q-quantile of each group; `values` (N,) are grouped by `bounds` (E + 1,). Zero for an empty group."""
    group = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    ranked = values[np.lexsort((values, group))]
    count = np.diff(bounds)
    place = bounds[:-1] + np.maximum(np.ceil(q * count).astype(int) - 1, 0)
    return np.where(count > 0, ranked[np.minimum(place, max(len(ranked) - 1, 0))], 0).astype(np.float32)


def _leaning(own: Floats, bounds: NDArray[np.intp], parent: Ints) -> Floats:
    """Shrink each fingerprint's figure towards its parent's, parents before children (`parent` < own index)."""
    rows = np.diff(bounds)
    out = own.copy()
    for level in _depths(parent)[1:]:
        share = rows[level] / (rows[level] + PRIOR_ROWS)
        out[level] = share * own[level] + (1 - share) * out[parent[level]]
    return out


def _depths(parent: Ints) -> list[NDArray[np.intp]]:
    """Fingerprints by their distance from the generic one, nearest first."""
    depth = np.zeros(len(parent), int)
    at = parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[np.maximum(at, 0)], -1)
    return [np.flatnonzero(depth == level) for level in range(depth.max() + 1)]
