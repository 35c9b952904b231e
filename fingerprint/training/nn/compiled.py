"""Fit networks on a CPU, one after another, with machine code that numba compiles from this file.

Example:
    >>> nets = fit_networks(initial, base, histories, validation, rows=16, max_epochs=20)   # P networks

It is the same program as in torch (`loop`, `network`, `sampling`): the tests check that it draws the same rows and has the same
loss and the same steps. A network of 8 hidden units and the arrays of a step fit into the first cache of a core, and a network
never waits for others of a stack. So it takes less CPU than torch, and no 5 GB of libraries. Threads fit different networks at
the same time, because compiled code holds no lock.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats
from fingerprint.compute.compiled import compile_kernel, exp_in_place
from fingerprint.estimators.autoencoder import FREE_FEATURES, INVISIBLE_FEATURES
from fingerprint.training.nn import hyperparameters
from fingerprint.training.nn.hyperparameters import CHANCES_PER_WORD, int16_threshold

Slots = NDArray[np.int64]


class Networks(NamedTuple):
    """One network: `inputs` (F, K, H), `bias` (H,), `outputs` (G, H, K), float32; or P networks, with P as the first axis."""

    inputs: Floats
    bias: Floats
    outputs: Floats


class Histories(NamedTuple):
    """Histories of P fingerprints: each has `sizes` (P,) rows of `slots` (R, F) int16, from row `starts` (P,) on.

    `keys` (P,) seed their random streams.
    """

    slots: NDArray[np.int16]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    keys: NDArray[np.uint64]

    def evenly_spaced(self, rows: int) -> Slots:
        """Return `rows` rows of each history at equal distances: (P, rows, F) slots; a shorter history repeats rows."""
        place = np.arange(rows) * self.sizes[:, None] // rows
        return self.slots[self.starts[:, None] + place].astype(np.int64)


class _FitOptions(NamedTuple):
    """Hyperparameters of a fit. A share is given as a threshold of 16-bit random numbers."""

    max_epochs: int
    patience: int  # epochs without a better loss, after which a fit ends
    learning_rate: float
    swap_threshold: int
    blank_threshold: int


def fit_networks(
    nets: Networks, base: Floats, histories: Histories, validation: Slots, rows: int, max_epochs: int
) -> Networks:
    """Return P networks, each with the weights of its best epoch.

    They start from `nets`, correct the log likelihoods `base` (P, G, K), draw `rows` rows in a step, and are judged on the rows
    `validation` (P, V, F).
    """
    fitted = Networks(*(np.array(part, np.float32, order="C") for part in nets))
    options = _FitOptions(
        max_epochs,
        hyperparameters.EARLY_STOPPING_PATIENCE,
        hyperparameters.LEARNING_RATE,
        int16_threshold(hyperparameters.SWAP_SHARE),
        int16_threshold(1 - hyperparameters.BLANK_SHARE),
    )
    memory, base = _make_memory(fitted, rows, validation), np.ascontiguousarray(base)
    for place in range(len(base)):
        net = Networks(*(part[place] for part in fitted))
        _fit(net, base[place], histories, place, validation[place], memory, options)
    return fitted


def draw_rows(
    histories: Histories, fingerprint: int, step: int, rows: int, swap_share: float
) -> tuple[Slots, Slots]:
    """Return the rows of a step of one fingerprint, corrupted and unchanged: (rows, F) slots each."""
    shape = (rows, histories.slots.shape[1])
    seen, target = np.empty(shape, np.int64), np.empty(shape, np.int64)
    least = int16_threshold(1 - hyperparameters.BLANK_SHARE)
    _draw(histories, fingerprint, step, int16_threshold(swap_share), least, seen, target)
    return seen, target


def loss_and_gradients(
    net: Networks, base: Floats, seen: Slots, target: Slots, decay: float
) -> tuple[float, Networks]:
    """Return the mean loss of rows (B, F) in nats, and B times the gradients of this loss plus `decay` x squared weights."""
    scratch, gradient = _make_scratch(len(seen), net), Networks(*(np.empty_like(part) for part in net))
    _gradients(net, base, seen, target, 2 * decay * len(seen), scratch, gradient)
    return float(_loss(net, base, seen, target, scratch)), gradient


# --- compiled -------------------------------------------------------------------------------------------------------

_FREE, _INVISIBLE = FREE_FEATURES.astype(np.int64), INVISIBLE_FEATURES
_ZERO, _ONE, _TWO = (np.float32(number) for number in (0, 1, 2))  # float32 times a literal would be float64
_KEEP, _NEW = np.float32(hyperparameters.SQUARE_DECAY), np.float32(1 - hyperparameters.SQUARE_DECAY)
_MEAN_STEP, _EPSILON = np.float32(1 - hyperparameters.MEAN_DECAY), np.float32(hyperparameters.EPSILON)
_STEPS = hyperparameters.STEPS_PER_EPOCH
_MEAN_DECAY = hyperparameters.MEAN_DECAY
_SQUARE_DECAY = hyperparameters.SQUARE_DECAY
_DECAY = hyperparameters.WEIGHT_DECAY


class _Scratch(NamedTuple):
    """Memory for a step of one network, of B rows, G free features, H hidden units and K slots.

    `units` and `blame` (G, B, H), `wrong` (B, K), the `exponents` (B K,) of its exp and their bits as numbers, `powers`, the
    `total` of a row (H,).
    """

    units: Floats
    blame: Floats
    wrong: Floats
    exponents: NDArray[np.int32]
    powers: Floats
    total: Floats


class _Memory(NamedTuple):
    """Memory for the fit of one network, allocated once for all of a call: numba compiles no allocation."""

    step: _Scratch
    check: _Scratch
    seen: Slots
    target: Slots
    gradient: Networks
    mean: Networks
    square: Networks
    best: Networks


def _make_memory(nets: Networks, rows: int, validation: Slots) -> _Memory:
    one = Networks(*(part[0] for part in nets))
    seen, target = np.empty((2, rows, validation.shape[2]), np.int64)
    copies = (Networks(*(np.empty_like(part) for part in one)) for _ in range(4))
    return _Memory(_make_scratch(rows, one), _make_scratch(validation.shape[1], one), seen, target, *copies)


def _make_scratch(rows: int, net: Networks) -> _Scratch:
    frees, hidden, slots = net.outputs.shape
    units, blame = np.empty((2, frees, rows, hidden), np.float32)
    exponents = np.empty(rows * slots, np.int32)
    return _Scratch(
        units,
        blame,
        np.empty((rows, slots), np.float32),
        exponents,
        exponents.view(np.float32),
        np.empty(hidden, np.float32),
    )


@compile_kernel
def _fit(
    net: Networks,
    base: Floats,
    histories: Histories,
    fingerprint: int,
    validation: Slots,
    memory: _Memory,
    options: _FitOptions,
) -> None:
    """Fit one network in place until it stops improving, and keep the best weights; zero outputs (counts alone) compete, too."""
    best = memory.best
    _clear(memory.mean)
    _clear(memory.square)
    _copy(net, best)
    _fill(best.outputs.ravel(), _ZERO)
    best_loss = _loss(best, base, validation, validation, memory.check)
    step = epochs_without_gain = 0
    for _ in range(options.max_epochs):
        for _ in range(_STEPS):
            _draw(
                histories,
                fingerprint,
                step,
                options.swap_threshold,
                options.blank_threshold,
                memory.seen,
                memory.target,
            )
            step += 1
            _take_step(net, base, step, options.learning_rate, memory)
        loss = _loss(net, base, validation, validation, memory.check)
        epochs_without_gain += 1
        if loss < best_loss:
            best_loss, epochs_without_gain = loss, 0
            _copy(net, best)
        if epochs_without_gain >= options.patience:
            break
    _copy(best, net)


@compile_kernel
def _take_step(net: Networks, base: Floats, step: int, learning_rate: float, memory: _Memory) -> None:
    """Change one network in place by step number `step` (from 1 on) of Adam, on the drawn rows."""
    gradient, mean, square = memory.gradient, memory.mean, memory.square
    decay = 2 * _DECAY * len(memory.seen)
    _gradients(net, base, memory.seen, memory.target, decay, memory.step, gradient)
    size = np.float32(learning_rate * math.sqrt(1 - _SQUARE_DECAY**step) / (1 - _MEAN_DECAY**step))
    _adam(net.inputs.ravel(), gradient.inputs.ravel(), mean.inputs.ravel(), square.inputs.ravel(), size)
    _adam(net.bias, gradient.bias, mean.bias, square.bias, size)
    _adam(net.outputs.ravel(), gradient.outputs.ravel(), mean.outputs.ravel(), square.outputs.ravel(), size)


@compile_kernel
def _clear(net: Networks) -> None:
    _fill(net.inputs.ravel(), _ZERO)
    _fill(net.bias, _ZERO)
    _fill(net.outputs.ravel(), _ZERO)


@compile_kernel
def _copy(source: Networks, to: Networks) -> None:
    _scale(source.inputs.ravel(), _ONE, to.inputs.ravel())
    _scale(source.bias, _ONE, to.bias)
    _scale(source.outputs.ravel(), _ONE, to.outputs.ravel())


@compile_kernel
def _fill(numbers: Floats, value: np.float32) -> None:
    for place in range(len(numbers)):
        numbers[place] = value


@compile_kernel
def _scale(source: Floats, factor: np.float32, to: Floats) -> None:
    for place in range(len(source)):  # a slice would compile numba's error texts, too, which takes seconds
        to[place] = factor * source[place]


@compile_kernel
def _loss(net: Networks, base: Floats, seen: Slots, target: Slots, scratch: _Scratch) -> np.float32:
    """Return the mean cross-entropy of rows (B, F), summed over features."""
    _see(net, seen, scratch)
    total = _ZERO
    for free in range(len(base)):
        total += _reconstruct(net, base, target, free, scratch)
    return total / np.float32(len(seen))


@compile_kernel
def _gradients(
    net: Networks,
    base: Floats,
    seen: Slots,
    target: Slots,
    decay: float,
    scratch: _Scratch,
    gradient: Networks,
) -> None:
    """Fill the gradients of the summed loss of rows (B, F), and of `decay` / 2 times the squared weights."""
    rows, (frees, hidden, slots) = len(seen), net.outputs.shape
    units, blame, wrong = scratch.units, scratch.blame, scratch.wrong
    _see(net, seen, scratch)
    _scale(net.inputs.ravel(), np.float32(decay), gradient.inputs.ravel())
    _scale(net.outputs.ravel(), np.float32(decay), gradient.outputs.ravel())
    for free in range(frees):
        _reconstruct(net, base, target, free, scratch)
        for row in range(rows):
            wrong[row, target[row, _FREE[free]]] -= _ONE
            for unit in range(hidden):
                active, back = units[free, row, unit], _ZERO
                for slot in range(slots):
                    gradient.outputs[free, unit, slot] += active * wrong[row, slot]
                for slot in range(slots):
                    back += net.outputs[free, unit, slot] * wrong[row, slot]
                blame[free, row, unit] = back * (_ONE - active * active)
    _blame_inputs(seen, scratch, gradient)


@compile_kernel
def _blame_inputs(seen: Slots, scratch: _Scratch, gradient: Networks) -> None:
    """Add the gradients of the hidden units to the inputs that they saw: the sum over units, less those that did not see it."""
    blame, total = scratch.blame, scratch.total
    frees, rows, hidden = blame.shape
    _fill(gradient.bias, _ZERO)
    for row in range(rows):
        _fill(total, _ZERO)
        for free in range(frees):
            for unit in range(hidden):
                total[unit] += blame[free, row, unit]
        for unit in range(hidden):
            gradient.bias[unit] += total[unit]
        for feature in range(seen.shape[1]):
            for unit in range(hidden):
                gradient.inputs[feature, seen[row, feature], unit] += total[unit]
        for free in range(frees):
            for feature in _INVISIBLE[free]:
                if feature >= 0:
                    for unit in range(hidden):
                        gradient.inputs[feature, seen[row, feature], unit] -= blame[free, row, unit]


@compile_kernel
def _see(net: Networks, seen: Slots, scratch: _Scratch) -> None:
    """Fill the hidden units of rows (B, F): those of a free feature see all other features that do not contain it."""
    units, total = scratch.units, scratch.total
    frees, _, hidden = units.shape
    for row in range(len(seen)):
        _scale(net.bias, _ONE, total)
        for feature in range(seen.shape[1]):
            for unit in range(hidden):
                total[unit] += net.inputs[feature, seen[row, feature], unit]
        for free in range(frees):
            for unit in range(hidden):
                units[free, row, unit] = total[unit]
            for feature in _INVISIBLE[free]:
                if feature >= 0:
                    for unit in range(hidden):
                        units[free, row, unit] -= net.inputs[feature, seen[row, feature], unit]
            for unit in range(hidden):  # tanh by exp, which is faster
                units[free, row, unit] = _ONE - _TWO / (math.exp(_TWO * units[free, row, unit]) + _ONE)


@compile_kernel
def _reconstruct(net: Networks, base: Floats, target: Slots, free: int, scratch: _Scratch) -> np.float32:
    """Fill `wrong` with the probability of each slot of a free feature; return the summed loss of the target slots."""
    units, chance = scratch.units, scratch.wrong
    (rows, feature), (_, hidden, slots) = (len(target), _FREE[free]), net.outputs.shape
    loss = _ZERO
    for row in range(rows):
        for slot in range(slots):
            chance[row, slot] = base[free, slot]
        for unit in range(hidden):
            active = units[free, row, unit]
            for slot in range(slots):
                chance[row, slot] += active * net.outputs[free, unit, slot]
        most = chance[row, 0]
        for slot in range(slots):
            most = max(most, chance[row, slot])
        for slot in range(slots):
            chance[row, slot] -= most
        loss -= chance[row, target[row, feature]]
    exp_in_place(chance.ravel(), scratch.exponents, scratch.powers)
    for row in range(rows):
        total = _ZERO
        for slot in range(slots):
            total += chance[row, slot]
        loss += math.log(total)
        for slot in range(slots):
            chance[row, slot] /= total
    return loss


@compile_kernel
def _adam(part: Floats, gradient: Floats, mean: Floats, square: Floats, size: np.float32) -> None:
    for place in range(len(part)):
        slope = gradient[place]
        mean[place] += _MEAN_STEP * (slope - mean[place])
        square[place] = _KEEP * square[place] + _NEW * slope * slope
        part[place] -= size * mean[place] / (math.sqrt(square[place]) + _EPSILON)


# --- the random streams (sampling.py says more) -------------------------------------------------------------------------

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_MULTIPLIER_1, _MULTIPLIER_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@compile_kernel
def _draw(
    histories: Histories, fingerprint: int, step: int, swap: int, blank: int, seen: Slots, target: Slots
) -> None:
    """Fill the rows of a step (B, F), corrupted (`seen`) and unchanged (`target`)."""
    rows, features = target.shape
    words = 1 + (features + CHANCES_PER_WORD - 1) // CHANCES_PER_WORD
    first, count = histories.starts[fingerprint], np.uint64(histories.sizes[fingerprint])
    for row in range(rows):
        word = _random_word(histories.keys[fingerprint], (step * rows + row) * words)
        place = first + np.int64(((word >> np.uint64(32)) * count) >> np.uint64(32))
        for feature in range(features):
            target[row, feature] = histories.slots[place, feature]
    for row in range(rows):
        for feature in range(features):
            number, part = divmod(feature, CHANCES_PER_WORD)
            word = _random_word(histories.keys[fingerprint], (step * rows + row) * words + 1 + number)
            chance = np.int16(np.int64((word >> np.uint64(16 * part)) & np.uint64(0xFFFF)))
            slot = target[row - 1 if row else rows - 1, feature] if chance < swap else target[row, feature]
            seen[row, feature] = 0 if chance >= blank else slot


@compile_kernel
def _random_word(key: np.uint64, number: int) -> np.uint64:
    """Return word `number` of the stream of a key, by SplitMix64 (Steele et al. 2014)."""
    word = key + np.uint64(number + 1) * _ODD
    word = (word ^ (word >> np.uint64(30))) * _MULTIPLIER_1
    word = (word ^ (word >> np.uint64(27))) * _MULTIPLIER_2
    return word ^ (word >> np.uint64(31))
