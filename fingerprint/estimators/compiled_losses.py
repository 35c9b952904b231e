"""Losses of events on the host, compiled, event by event: likelihoods are looked up, and nets correct them.

Example:
    >>> loss, known = compiled_losses(bank_arrays(vocabulary, weights), fingerprint, codes)    # (N, F) each

The maths is that of `autoencoder.array_losses`, against which tests compare it: losses that are only looked up are equal, those
that nets correct agree to 1e-5 nats. A call with few rows takes a fraction of the time, because it has no fixed costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import arrays
from fingerprint.compute.arrays import Floats
from fingerprint.compute.compiled import compile_kernel, exp_in_place, find_key, hash_one_pair
from fingerprint.compute.hashing import Hashes
from fingerprint.estimators import autoencoder
from fingerprint.estimators.autoencoder import FLOAT16_BITS, FLOAT16_SCALE
from fingerprint.features.encoding import CODES_WITHOUT_EVIDENCE
from fingerprint.features.vocabulary import LOG_POSSIBLE_VALUES

Places = NDArray[np.int64]


class BankArrays(NamedTuple):
    """The arrays of a bank that losses are computed from: E fingerprints, M values and P nets.

    The first six are those of `Vocabulary`, the others those of `Weights`. Nets are float16 numbers, held as their bits.
    """

    keys: Hashes
    logp: Floats
    slot: NDArray[np.int16]
    escape: Floats
    base: Floats
    parent: NDArray[np.int32]
    inputs: NDArray[np.int16]
    bias: NDArray[np.int16]
    outputs: NDArray[np.int16]
    net: NDArray[np.int32]


class LossRules(NamedTuple):
    """The constants of the loss, of F features. They are arguments of kernels, because numba does not notice changed constants.

    | field | content |
    |---|---|
    | `log_possible` | (F,) log of the number of values that a feature could have |
    | `conditional`, `conditioned_on` | (C,) each: the first contains the second; its loss is only what it adds to the second's |
    | `free` | (G,) features that nets reconstruct |
    | `invisible` | (G, M) features that each free one is not reconstructed from, padded with -1 |
    | `open` | features whose loss is at most that of a value known nowhere, plus `unseen_open_nats` |
    | `silent`, `silent_code` | (S,) each: a feature, and its code that is no evidence: loss 0 |
    | `bins` | features that are bins; the share `uniform_share` of their probability is spread over all bins |
    | `max_correction` | most nats by which a net corrects a loss |
    """

    log_possible: Floats
    conditional: Places
    conditioned_on: Places
    free: Places
    invisible: Places
    open: Places
    unseen_open_nats: np.float32
    silent: Places
    silent_code: Hashes
    bins: Places
    uniform_share: np.float32
    max_correction: np.float32


RULES = LossRules(
    log_possible=LOG_POSSIBLE_VALUES,
    conditional=autoencoder.CONDITIONAL_FEATURES,
    conditioned_on=autoencoder.CONDITIONED_ON,
    free=autoencoder.FREE_FEATURES,
    invisible=autoencoder.INVISIBLE_FEATURES,
    open=autoencoder.OPEN_FEATURES,
    unseen_open_nats=np.float32(autoencoder.UNSEEN_OPEN_VALUE_NATS),
    silent=np.array([*CODES_WITHOUT_EVIDENCE], np.int64),
    silent_code=np.array([*CODES_WITHOUT_EVIDENCE.values()], np.uint64),
    bins=autoencoder.BIN_FEATURES,
    uniform_share=np.float32(autoencoder.UNIFORM_BIN_SHARE),
    max_correction=np.float32(autoencoder.MAX_CORRECTION),
)

_ONLY_ROW = np.zeros(1, np.intp)
MIN_THREAD_ROWS = 1000  # distinct rows (some 12 ms of work) from which a thread is worth starting


def bank_arrays(vocabulary: Any, weights: Any) -> BankArrays:
    """Return the arrays of a bank on the host as one type, mapped file or memory, so that kernels are compiled only once."""
    halves = (part.view(np.int16) for part in (weights.inputs, weights.bias, weights.outputs))
    looked_up = (getattr(vocabulary, name) for name in BankArrays._fields[:6])
    return BankArrays(*map(_plain, (*looked_up, *halves, weights.row)))


def compiled_losses(bank: BankArrays, fingerprint: Any, codes: Hashes) -> tuple[Any, Any]:
    """Return the loss of each feature in nats and whether its value was known: fingerprint (N,), codes (N, F) -> 2 x (N, F)."""
    fingerprint, codes = _plain(fingerprint.astype(np.int32, copy=False)), _plain(codes)
    if len(codes) == 1:
        loss, known = np.empty(codes.shape, np.float32), np.empty(codes.shape, bool)
        _fill_losses(bank, RULES, fingerprint, codes, _ONLY_ROW, _ONLY_ROW, loss, known)
        return loss, known
    inverse, first = arrays.unique_examples(_row_hashes(fingerprint, codes))
    shape = (len(first), codes.shape[1])
    loss, known = np.empty(shape, np.float32), np.empty(shape, bool)
    order = np.argsort(fingerprint[first], kind="stable")
    _fill_side_by_side(order, partial(_fill_losses, bank, RULES, fingerprint, codes, first), loss, known)
    return loss[inverse], known[inverse]


def _fill_side_by_side(
    order: NDArray[np.intp], fill: Callable[..., None], loss: Floats, known: NDArray[np.bool_]
) -> None:
    """Fill loss and known (D, F) at the places of `order` (D,). A second thread fills half of many: kernels release the GIL."""
    middle = len(order) // 2
    if middle < MIN_THREAD_ROWS:
        fill(order, loss, known)
        return
    with ThreadPoolExecutor(max_workers=1) as thread:  # of this call alone: a fork would lose it
        half = thread.submit(fill, order[:middle], loss, known)
        fill(order[middle:], loss, known)
        half.result()


def _plain(array: Any) -> Any:
    """Return an array as a read-only one that is contiguous in memory."""
    plain = np.ascontiguousarray(array).view(np.ndarray)
    plain.flags.writeable = False
    return plain


class _Scratch(NamedTuple):
    """Memory for the loss of one row, allocated once: F features, H hidden units, K slots.

    - `slots` (F,): the slot of each value
    - `seen` (F, H): what each feature adds to the hidden units; `total` (H,): their sum, with the bias; `units` (H,): the hidden
      units of one free feature
    - `bits` (H,): weights as bits; `wide`: the same memory as numbers
    - `logits`, `chances` (K,): corrections of the slots, alone and added to `base`
    - `exponents` (K,): memory for the exp of chances; `powers`: the same memory as numbers

    These are the same for all rows of a fingerprint:

    - `output_bits` (G, K H): output weights of its net; `outputs`: the same memory as numbers
    - `usual` (G,): the log of the sum of the exp of `base`
    """

    slots: Places
    seen: Floats
    total: Floats
    units: Floats
    bits: NDArray[np.int32]
    wide: Floats
    logits: Floats
    chances: Floats
    exponents: NDArray[np.int32]
    powers: Floats
    output_bits: NDArray[np.int32]
    outputs: Floats
    usual: Floats


# --- compiled -------------------------------------------------------------------------------------------------------

_ZERO, _ONE, _TWO = (np.float32(number) for number in (0, 1, 2))  # a literal would widen float32 to float64
_BIN_SIZE = np.float32(16)
_FEATURES_OF_KEY = np.uint64(256)


@compile_kernel
def _make_scratch(bank: BankArrays) -> _Scratch:
    (_, features, _), (_, frees, slots, hidden) = bank.base.shape, bank.outputs.shape
    bits, exponents = np.empty(hidden, np.int32), np.empty(slots, np.int32)
    output_bits = np.empty((frees, slots * hidden), np.int32)
    return _Scratch(
        np.empty(features, np.int64),
        np.empty((features, hidden), np.float32),
        np.empty(hidden, np.float32),
        np.empty(hidden, np.float32),
        bits,
        bits.view(np.float32),
        np.empty(slots, np.float32),
        np.empty(slots, np.float32),
        exponents,
        exponents.view(np.float32),
        output_bits,
        output_bits.view(np.float32),
        np.empty(frees, np.float32),
    )


@compile_kernel
def _row_hashes(fingerprint: NDArray[np.int32], codes: Hashes) -> Hashes:
    """Return a hash of each row (N,), so that equal rows are measured once."""
    out = np.empty(len(codes), np.uint64)
    for row in range(len(codes)):
        hashed = np.uint64(fingerprint[row])
        for feature in range(codes.shape[1]):
            hashed = hash_one_pair(hashed, codes[row, feature])
        out[row] = hashed
    return out


@compile_kernel
def _fill_losses(
    bank: BankArrays,
    rules: LossRules,
    fingerprint: NDArray[np.int32],
    codes: Hashes,
    first: NDArray[np.intp],
    order: NDArray[np.intp],
    loss: Floats,
    known: NDArray[np.bool_],
) -> None:
    """Fill loss and known (D, F) at the places of `order`, which has rows of one fingerprint together.

    `first` (D,) are the rows of `codes` that the D places stand for.
    """
    scratch, before = _make_scratch(bank), -1
    for place in order:
        row = first[place]
        at = fingerprint[row]
        _look_up(bank, rules, at, codes, row, loss, known, place, scratch)
        for number in range(len(rules.conditional)):  # only what it adds to the feature that it contains
            feature = rules.conditional[number]
            loss[place, feature] = max(
                loss[place, feature] - loss[place, rules.conditioned_on[number]], _ZERO
            )
        if bank.net[at] >= 0:
            if at != before:
                _read_net(bank, rules, at, scratch)
                before = at
            _correct(bank, rules, at, loss, place, scratch)
        for feature in rules.open:  # at most the loss of a new value
            most = _novelty_loss(bank, at, feature) + rules.unseen_open_nats
            loss[place, feature] = min(loss[place, feature], most)
        for number in range(len(rules.silent)):
            if codes[row, rules.silent[number]] == rules.silent_code[number]:
                loss[place, rules.silent[number]] = _ZERO
        for feature in rules.bins:
            share = (_ONE - rules.uniform_share) * np.float32(math.exp(-loss[place, feature]))
            loss[place, feature] = -np.float32(math.log(share + rules.uniform_share / _BIN_SIZE))
        for feature in range(codes.shape[1]):
            loss[place, feature] = max(loss[place, feature], _ZERO)


@compile_kernel
def _look_up(
    bank: BankArrays,
    rules: LossRules,
    at: int,
    codes: Hashes,
    row: int,
    loss: Floats,
    known: NDArray[np.bool_],
    place: int,
    scratch: _Scratch,
) -> None:
    """Fill minus the log probability of each value, whether it was known, and its slot: `Vocabulary.look_up`."""
    for feature in range(codes.shape[1]):
        level, logp, found = at, _ZERO, -1
        while level >= 0:
            owner = np.uint64(level) * _FEATURES_OF_KEY + np.uint64(feature)
            key = hash_one_pair(owner, codes[row, feature])
            found = find_key(bank.keys, key)
            if found >= 0:
                logp += bank.logp[found]
                break
            logp += bank.escape[level, feature]
            level = bank.parent[level]
        if found < 0:
            logp -= rules.log_possible[feature]
        own = found >= 0 and level == at
        known[place, feature] = own
        scratch.slots[feature] = bank.slot[found] if own else 0
        loss[place, feature] = -logp


@compile_kernel
def _novelty_loss(bank: BankArrays, at: int, feature: int) -> np.float32:
    """Return the loss of any value that is known nowhere: `Vocabulary.novelty_loss`."""
    loss = _ZERO
    while at >= 0:
        loss -= bank.escape[at, feature]
        at = bank.parent[at]
    return loss


@compile_kernel
def _correct(
    bank: BankArrays, rules: LossRules, at: int, loss: Floats, place: int, scratch: _Scratch
) -> None:
    """Subtract from the loss of each free feature the nats by which the net makes its slot likelier: `autoencoder.correction`."""
    net, slots, units = bank.net[at], scratch.slots, scratch.units
    _, frees, count, hidden = bank.outputs.shape
    _see(bank, net, scratch)
    for free in range(frees):
        for unit in range(hidden):
            units[unit] = scratch.total[unit]
        for feature in rules.invisible[free]:
            if feature >= 0:
                for unit in range(hidden):
                    units[unit] -= scratch.seen[feature, unit]
        for unit in range(hidden):  # tanh computed from exp is quicker
            units[unit] = _ONE - _TWO / (np.float32(math.exp(_TWO * units[unit])) + _ONE)
        feature, weights = rules.free[free], scratch.outputs[free]
        for slot in range(count):
            logit = _ZERO
            for unit in range(hidden):
                logit += weights[slot * hidden + unit] * units[unit]
            scratch.logits[slot] = logit * FLOAT16_SCALE
            scratch.chances[slot] = scratch.logits[slot] + bank.base[at, feature, slot]
        gain = scratch.logits[slots[feature]] - _log_sum_exp(scratch) + scratch.usual[free]
        loss[place, feature] -= min(max(gain, -rules.max_correction), rules.max_correction)


@compile_kernel
def _read_net(bank: BankArrays, rules: LossRules, at: int, scratch: _Scratch) -> None:
    """Fill the part of the memory that is the same for all rows of a fingerprint."""
    net = bank.net[at]
    _, frees, count, hidden = bank.outputs.shape
    for free in range(frees):
        for slot in range(count):
            for unit in range(hidden):
                half = np.int32(bank.outputs[net, free, slot, unit])
                scratch.output_bits[free, slot * hidden + unit] = (half << 13) & FLOAT16_BITS
            scratch.chances[slot] = bank.base[at, rules.free[free], slot]
        scratch.usual[free] = _log_sum_exp(scratch)


@compile_kernel
def _see(bank: BankArrays, net: int, scratch: _Scratch) -> None:
    """Fill what each feature's slot adds to the hidden units (F, H), and their sum with the bias (H,)."""
    hidden = bank.bias.shape[1]
    for unit in range(hidden):
        scratch.bits[unit] = (np.int32(bank.bias[net, unit]) << 13) & FLOAT16_BITS
    for unit in range(hidden):
        scratch.total[unit] = scratch.wide[unit] * FLOAT16_SCALE
    for feature in range(len(scratch.slots)):
        for unit in range(hidden):
            half = np.int32(bank.inputs[net, feature, scratch.slots[feature], unit])
            scratch.bits[unit] = (half << 13) & FLOAT16_BITS
        for unit in range(hidden):
            scratch.seen[feature, unit] = scratch.wide[unit] * FLOAT16_SCALE
            scratch.total[unit] += scratch.seen[feature, unit]


@compile_kernel
def _log_sum_exp(scratch: _Scratch) -> np.float32:
    """Return the log of the sum of the exp of `chances` (K,), and overwrite them."""
    chances = scratch.chances
    most = chances[0]
    for slot in range(len(chances)):
        most = max(most, chances[slot])
    for slot in range(len(chances)):
        chances[slot] -= most
    exp_in_place(chances, scratch.exponents, scratch.powers)
    total = _ZERO
    for slot in range(len(chances)):
        total += chances[slot]
    return np.float32(math.log(total)) + most
