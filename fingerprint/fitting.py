"""Fit many autoencoders at once in torch; the only module that imports it.

Example:
    >>> weights = fit(vocabulary, rows, held_out, ready, settings.autoencoder)

Denoising by swapping: a share of a row's inputs is replaced by the same features of another row of the same fingerprint,
and a few are blanked to "never seen", so that a net reconstructs what belongs together instead of copying. The generic
net is fitted first; all others start from its weights, value by value, and stop early one by one: each keeps the weights
of the epoch in which its held-out rows were reconstructed best, the start (no correction) included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fingerprint import settings
from fingerprint.autoencoder import FREE, VISIBLE, Weights
from fingerprint.domain import FingerprintError
from fingerprint.tables import find
from fingerprint.vocabulary import Floats, Ints, Vocabulary

try:
    import torch
    from torch.nn.functional import cross_entropy, embedding
except ImportError:
    raise FingerprintError(
        "learning needs torch, scoring does not: `pip install 'fingerprint[train]'`"
    ) from None

BATCH = 32  # rows of every fingerprint in a step
STEPS = 8  # steps in an epoch
GROUP = 1024  # fingerprints fitted together
BLANK = 0.03  # share of inputs blanked to "never seen"
DECAY = 1e-3


@dataclass(frozen=True, slots=True)
class Rows:
    """Slots (R, F) of rows sorted by fingerprint; `bounds` (E + 1,) cuts them by fingerprint."""

    slots: NDArray[np.int16]
    bounds: NDArray[np.intp]

    @classmethod
    def of(cls, fingerprint: Ints, slots: NDArray[np.int16], size: int) -> Rows:
        order = np.argsort(fingerprint, kind="stable")
        return cls(slots[order], np.searchsorted(fingerprint[order], np.arange(size + 1)))


@dataclass(frozen=True, slots=True)
class Start:
    """The net that others start from: one of Weights, over the slots `codes` (1, F, K)."""

    net: Weights
    codes: NDArray[np.uint64]


def fit(
    vocabulary: Vocabulary,
    rows: Rows,
    held_out: Rows,
    ready: NDArray[np.intp],
    options: settings.Autoencoder,
    advance: Callable[[int], None] = lambda done: None,
    start: Start | None = None,
    keys: NDArray[np.uint64] | None = None,
) -> Weights:
    """Nets for the fingerprints `ready` (P,). Calls `advance` with nets done.

    The generic one (0), if it is among them, is fitted first, and the others start from it; else all start from `start`.
    """
    torch.manual_seed(options.seed)
    shape = (len(ready), len(VISIBLE[0]), vocabulary.base.shape[2], options.hidden)
    stack = Weights(
        np.zeros(shape, np.float32),
        np.zeros((shape[0], options.hidden), np.float32),
        np.zeros((shape[0], len(FREE), *shape[2:]), np.float32),
        _rows_of(ready, len(vocabulary.parent)),
    )
    if not len(ready) or not options.epochs:
        return stack
    start = start or Start(
        Weights(*_fresh(shape[1:], options.seed), np.zeros(1, np.int32)), vocabulary.codes[:1]
    )
    for group in _groups(ready):
        places = stack.row[group]
        fitted = _fit_group(vocabulary, rows, held_out, group, start, options)
        stack.inputs[places], stack.bias[places], stack.outputs[places] = fitted
        if group[0] == 0:
            one = Weights(stack.inputs[:1], stack.bias[:1], stack.outputs[:1], np.zeros(1, np.int32))
            start = Start(one, vocabulary.codes[:1])
        advance(len(group))
    return stack


def _rows_of(ready: NDArray[np.intp], size: int) -> Ints:
    row = np.full(size, -1, np.int32)
    row[ready] = np.arange(len(ready))
    return row


def _groups(ready: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The generic fingerprint alone, then the others together."""
    others = ready[ready != 0]
    groups = [ready[ready == 0], *(others[at : at + GROUP] for at in range(0, len(others), GROUP))]
    return [group for group in groups if len(group)]


def _fresh(shape: tuple[int, ...], seed: int) -> tuple[Floats, Floats, Floats]:
    random = np.random.default_rng(seed)
    inputs = random.normal(0, 0.5, (1, *shape)).astype(np.float32)
    return inputs, np.zeros((1, shape[-1]), np.float32), np.zeros((1, len(FREE), *shape[1:]), np.float32)


def _fit_group(
    vocabulary: Vocabulary,
    rows: Rows,
    held_out: Rows,
    group: NDArray[np.intp],
    start: Start,
    options: settings.Autoencoder,
) -> tuple[Floats, Floats, Floats]:
    parameters = [torch.from_numpy(part).requires_grad_() for part in _started(vocabulary, group, start)]
    base = torch.from_numpy(vocabulary.base[group][:, FREE])
    optimiser = _Adam(parameters, options.learning_rate)
    random = torch.Generator().manual_seed(options.seed)
    check = _sample(held_out, group, random)
    best = [part.detach().clone() for part in parameters]
    best[2].zero_()
    least = _loss(best, base, check, check).detach()
    for _ in range(options.epochs):
        for _ in range(STEPS):
            clean = _sample(rows, group, random)
            loss = _loss(parameters, base, _corrupt(clean, options.swap, random), clean).sum()
            loss = loss + DECAY * sum((part**2).sum() for part in parameters[::2])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        with torch.no_grad():
            now = _loss(parameters, base, check, check)
            better = now < least
            least = torch.where(better, now, least)
            for kept, part in zip(best, parameters, strict=True):
                kept[better] = part[better]
    return best[0].numpy(), best[1].numpy(), best[2].numpy()


def _sample(rows: Rows, group: NDArray[np.intp], random: torch.Generator) -> torch.Tensor:
    """BATCH rows of each fingerprint, with replacement: (P, BATCH, F); an empty history gives rows of slot 0."""
    first, last = (torch.from_numpy(rows.bounds[group + step].astype(np.int64)) for step in (0, 1))
    drawn = torch.rand(len(group), BATCH, generator=random, dtype=torch.float64)
    place = first[:, None] + (drawn * (last - first)[:, None]).long()
    slots = torch.from_numpy(rows.slots.astype(np.int64))
    if not len(slots):
        return torch.zeros(len(group), BATCH, len(VISIBLE[0]), dtype=torch.int64)
    return torch.where((last > first)[:, None, None], slots[place.clamp(max=len(slots) - 1)], 0)


def _corrupt(clean: torch.Tensor, swap: float, random: torch.Generator) -> torch.Tensor:
    drawn = torch.rand(clean.shape, generator=random)
    swapped = torch.where(drawn < swap, clean.roll(1, dims=1), clean)
    return torch.where(drawn > 1 - BLANK, 0, swapped)


def _loss(
    parameters: list[torch.Tensor], base: torch.Tensor, seen: torch.Tensor, wanted: torch.Tensor
) -> torch.Tensor:
    """Mean cross-entropy of each fingerprint's rows, summed over features: -> (P,). Slots (P, B, F)."""
    inputs, bias, outputs = parameters
    features, slots = inputs.shape[1:3]
    place = (torch.arange(len(inputs))[:, None, None] * features + torch.arange(features)) * slots + seen
    embedded = embedding(place, inputs.flatten(0, 2))  # (P, B, F, H)
    hidden = torch.tanh(torch.from_numpy(VISIBLE) @ embedded + bias[:, None, None, :])  # (P, B, G, H)
    logits = torch.einsum("pbgh,pgkh->pbgk", hidden, outputs) + base[:, None]
    free = wanted[..., torch.from_numpy(FREE)]
    each = cross_entropy(logits.flatten(0, 2), free.flatten(), reduction="none")
    return each.view(free.shape).sum(-1).mean(-1)


class _Adam:
    """Kingma and Ba 2015, with their constants; torch's own spends seconds on importing a compiler."""

    def __init__(self, parameters: list[torch.Tensor], rate: float) -> None:
        self.parameters, self.rate, self.steps = parameters, rate, 0
        self.means = [(torch.zeros_like(part), torch.zeros_like(part)) for part in parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters against their gradients, and clear those."""
        self.steps += 1
        for part, (mean, square) in zip(self.parameters, self.means, strict=True):
            assert part.grad is not None  # noqa: S101 - `backward` ran
            mean.lerp_(part.grad, 0.1)
            square.mul_(0.999).addcmul_(part.grad, part.grad, value=0.001)
            root = (square / (1 - 0.999**self.steps)).sqrt_().add_(1e-8)
            part.addcdiv_(mean, root, value=-self.rate / (1 - 0.9**self.steps))
            part.grad = None


def _started(vocabulary: Vocabulary, group: NDArray[np.intp], start: Start) -> tuple[Floats, Floats, Floats]:
    """The weights of the start, moved value by value to the slots that the values have in each fingerprint."""
    moved = move(start.net, start.codes, vocabulary.codes[group], np.zeros(len(group), int))
    return moved.inputs, moved.bias, moved.outputs


def move(
    weights: Weights, old: NDArray[np.uint64], new: NDArray[np.uint64], source: NDArray[np.intp]
) -> Weights:
    """Nets whose vocabularies changed: each slot takes the weights its value had, zeros where it had none.

    `old` (P, F, K) and `new` (Q, F, K) are the codes of the slots before and after; `source` (Q,) the net each comes from.
    """
    features, slots = new.shape[1:]
    owner = np.arange(features, dtype=np.uint64)[None, :, None]
    inputs = np.zeros((*new.shape, weights.inputs.shape[-1]), np.float32)
    outputs = np.zeros((len(new), len(FREE), slots, weights.inputs.shape[-1]), np.float32)
    for net in np.unique(source):
        takers = np.flatnonzero(source == net)
        keys = (old[net] ^ (owner[0] << np.uint64(58))).ravel()
        order = np.argsort(keys)
        place, found = find(keys[order], (new[takers] ^ (owner << np.uint64(58))).ravel())
        slot = np.where(found, order[np.minimum(place, len(order) - 1)] % slots, 0).reshape(
            len(takers), features, slots
        )
        found = found.reshape(slot.shape) & (new[takers] != 0)
        found[..., 0], slot[..., 0] = True, 0
        row = np.arange(features)[None, :, None]
        inputs[takers] = np.where(found[..., None], weights.inputs[net][row, slot], 0)
        outputs[takers] = np.where(
            found[:, FREE, :, None], weights.outputs[net][row[:, : len(FREE)], slot[:, FREE]], 0
        )
    return Weights(inputs, weights.bias[source], outputs, weights.row)
