"""Hyperparameters of both ways of fitting a network (`compiled`, `loop`): one recipe, whatever computes it.

Example:
    >>> hyperparameters.LEARNING_RATE
    0.02

The optimiser is Adam (Kingma and Ba 2015), the corruption swaps inputs between rows and blanks a few.
"""

from __future__ import annotations

HIDDEN_UNITS = 8  # of a net
LEARNING_RATE = 0.02  # of Adam
MEAN_DECAY = 0.9  # of Adam's running mean of gradients
SQUARE_DECAY = 0.999  # of Adam's running mean of their squares
EPSILON = 1e-8  # keeps Adam from dividing by zero
WEIGHT_DECAY = 1e-3
SWAP_SHARE = 0.15  # of inputs that are swapped for another row's while training
BLANK_SHARE = 0.03  # of inputs blanked to "never seen"
STEPS_PER_EPOCH = 8
EARLY_STOPPING_PATIENCE = 2  # epochs without improvement on held-out rows, after which a net stops
VALIDATION_ROWS = 32  # rows held out that say whether an epoch was an improvement
CHANCES_PER_WORD = 4  # numbers of 16 bits in a random word: fine enough for shares of a few hundredths


def int16_threshold(share: float) -> int:
    """Return the number below which a share of all numbers of 16 bits lie."""
    return round(share * (1 << 16)) - (1 << 15)
