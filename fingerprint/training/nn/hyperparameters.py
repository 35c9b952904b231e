"""Hyperparameters of fitting a network, shared by both implementations (`compiled`, `loop`).

Example:
    >>> hyperparameters.LEARNING_RATE
    0.02

The optimiser is Adam (Kingma and Ba 2015). The corruption of denoising swaps inputs between rows and blanks a few.
"""

from __future__ import annotations

HIDDEN_UNITS = 8  # of a network
LEARNING_RATE = 0.02  # of Adam
MEAN_DECAY = 0.9  # of Adam's running mean of gradients
SQUARE_DECAY = 0.999  # of Adam's running mean of squared gradients
EPSILON = 1e-8  # keeps Adam from dividing by zero
WEIGHT_DECAY = 1e-3
SWAP_SHARE = 0.15  # share of inputs that are replaced by those of another row during training
BLANK_SHARE = 0.03  # share of inputs that are blanked to "never seen"
STEPS_PER_EPOCH = 8
EARLY_STOPPING_PATIENCE = 2  # a network stops after so many epochs without a better loss on held-out rows
VALIDATION_ROWS = 32  # held-out rows that measure the loss of an epoch
CHANCES_PER_WORD = 4  # 16-bit numbers in a random word: precise enough for shares of a few hundredths


def int16_threshold(share: float) -> int:
    """Return the 16-bit number below which this share of all 16-bit numbers lies."""
    return round(share * (1 << 16)) - (1 << 15)
