"""Sixty-four-bit names for strings and pairs: how values, owners and ids are told apart without keeping their text.

Example:
    >>> bool(of(pd.Series(["a", "b", "a"]))[0] == of(pd.Series(["a"]))[0])
    True

Two different strings share a hash once in about 5 billion values (birthday bound at 64 bits); the text of what a
fingerprint knows is kept beside it (`bank`, words), so an alert never shows the wrong one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

MISSING = np.uint64(1)  # the hash of "there is no value", with a slot of its own
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: the increment of SplitMix64 (Steele et al. 2014)
_MIX = np.uint64(0xBF58476D1CE4E5B9)  # SplitMix64's first multiplier
_SHIFT = np.uint64(29)


def of(values: pd.Series) -> Hashes:
    """Hash a column of strings: (N,) -> (N,) uint64; missing values become MISSING.

    Each distinct string is hashed once (SipHash-like, pandas' `hash_array`), then spread over the rows.
    """
    codes, distinct = pd.factorize(values)
    hashes = np.empty(len(distinct) + 1, dtype=np.uint64)
    hashes[:-1] = pd.util.hash_array(np.asarray(distinct, dtype=object), categorize=False)
    hashes[-1] = MISSING  # factorize marks missing values with -1, the last place
    return hashes[codes]


def of_text(text: str) -> np.uint64:
    """Hash one string, as `of` does."""
    return of(pd.Series([text], dtype=object))[0]


def mix(left: Hashes | np.uint64, right: Hashes | np.uint64 | int) -> Hashes:
    """Hash of an ordered pair, element by element with broadcasting; small numbers may stand on either side.

    The left one is spread over all bits before the right one meets it, or pairs of small numbers would collide.
    """
    with np.errstate(over="ignore"):
        spread = np.asarray(left, np.uint64) * _MIX
        mixed = ((spread ^ (spread >> _SHIFT)) ^ (np.asarray(right, np.uint64) + _ODD)) * _MIX
        return (mixed ^ (mixed >> _SHIFT)) * _ODD
