"""Folds of held-out days: each day is judged by tails of the other days, because tails that include it make it look usual.

Example:
    >>> [(left_out.tolist(), others.tolist()) for left_out, others in day_folds(np.array([3, 3, 4]))]
    [([True, True, False], [False, False, True]), ([False, False, True], [True, True, False])]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_FOLDS = 7  # groups of held-out days that are left out in turn


def day_folds(day: NDArray[Any]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield two masks of rows (N,) for each fold: the rows that are judged, and the rows of other days that judge them.

    More than MAX_FOLDS days are put into that many groups, which are left out in turn. A single day is judged by itself.
    """
    days, of_day = np.unique(day, return_inverse=True)
    fold = of_day % MAX_FOLDS
    for number in range(min(len(days), MAX_FOLDS)):
        left_out = fold == number
        yield left_out, ~left_out if len(days) > 1 else left_out
