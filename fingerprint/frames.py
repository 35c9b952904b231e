"""Rows of a table of events. A table has some fifty columns and each costs, so rows are only taken where some are left out.

Example:
    >>> rows(pd.DataFrame({"service": ["s3", "ec2"]}, index=[7, 9]), np.array([False, True])).to_dict("list")
    {'service': ['ec2']}
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def rows(frame: pd.DataFrame, which: NDArray[Any]) -> pd.DataFrame:
    """The rows of a mask (N,) or at places (M,), numbered from 0; where none is left out, the table itself."""
    numbered = pd.RangeIndex(len(frame))
    if which.dtype == bool:
        if which.all() and frame.index.equals(numbered):
            return frame
        which = np.flatnonzero(which)
    out = frame.take(which) if len(which) else frame.iloc[:0]
    out.index = numbered[: len(which)]  # `reset_index` would copy every column
    return out
