"""Sampling of rows from histories, with an independent stream of random numbers for each fingerprint.

Example:
    >>> corrupted, target = history.sample(step=0, rows=32, swap_share=0.15)     # 2 x (P, F, 32) slots
    >>> validation = history.evenly_spaced(32)                                   # (P, F, 32), the same every time

The numbers come from SplitMix64 (Steele et al. 2014): the n-th number of a stream is a hash of its key and n. So they need no
state, are the same on every device, and do not depend on other fingerprints in the stack.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fingerprint.training.nn.hyperparameters import BLANK_SHARE, CHANCES_PER_WORD, int16_threshold

Tensor = torch.Tensor

_ODD = -0x61C8864680B583EB  # 2^64 / golden ratio as a signed number
_MULTIPLIERS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Histories of P fingerprints.

    Each has the rows `first` ... `first + count - 1` (P,) of `slots` (R, F) int16; `key` (P,) seeds its random stream.
    """

    slots: Tensor
    first: Tensor
    count: Tensor
    key: Tensor

    def take(self, which: Tensor) -> TrainingRows:
        """Return the histories of some fingerprints."""
        return TrainingRows(self.slots, self.first[which], self.count[which], self.key[which])

    def evenly_spaced(self, rows: int) -> Tensor:
        """Return `rows` rows of each history at equal distances: (P, F, rows) slots; a shorter history repeats rows."""
        place = torch.arange(rows, device=self.key.device) * self.count[:, None] // rows
        return _rows_last(self.slots[self.first[:, None] + place])

    def sample(self, step: int | Tensor, rows: int, swap_share: float) -> tuple[Tensor, Tensor]:
        """Return rows drawn with replacement, corrupted and unchanged: (P, F, rows) slots each.

        In the corrupted rows, a share `swap_share` of the inputs comes from another row and a few are blanked; the network learns
        to restore them. `step` may be a tensor without axes on the device, so that a captured graph can count it.
        """
        features = self.slots.shape[1]
        words = self._random_words(step, rows, 1 + -(-features // CHANCES_PER_WORD))
        place = (_logical_shift_right(words[..., 0], 32) * self.count[:, None]) >> 32
        clean = self.slots[self.first[:, None] + place]  # (P, rows, F)
        chance = words[..., 1:].contiguous().view(torch.int16)[..., :features]  # -2^15 ... 2^15 - 1
        seen = torch.where(chance < int16_threshold(swap_share), clean.roll(1, dims=1), clean)
        return _rows_last(seen.masked_fill_(chance >= int16_threshold(1 - BLANK_SHARE), 0)), _rows_last(clean)

    def _random_words(self, step: int | Tensor, rows: int, words: int) -> Tensor:
        """Return random words of 64 bits: (P, rows, words)."""
        count = torch.arange(1, rows * words + 1, device=self.key.device).view(1, rows, words)
        return splitmix(self.key[:, None, None] + (count + step * rows * words) * _ODD)


def splitmix(state: Tensor) -> Tensor:
    """Return SplitMix64's output for a state (64 bits as int64), computed in place."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        state ^= _logical_shift_right(state, shift)
        state *= multiplier
    state ^= _logical_shift_right(state, 31)
    return state


def _logical_shift_right(words: Tensor, bits: int) -> Tensor:
    """Return words shifted to the right and filled with zeros: the shift of int64 would copy the sign."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _rows_last(slots: Tensor) -> Tensor:
    """Return slots (P, rows, F) int16 as (P, F, rows) int64."""
    return slots.mT.to(torch.int64, memory_format=torch.contiguous_format)
