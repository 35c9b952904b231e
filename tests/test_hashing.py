"""Names of 64 bits: stable, and different where what they name is different."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fingerprint import hashing


def test_pairs_of_small_numbers_do_not_collide() -> None:
    left, right = (grid.ravel().astype(np.uint64) for grid in np.meshgrid(np.arange(1500), np.arange(1500)))
    assert len(np.unique(hashing.mix(left, right))) == 1500 * 1500


def test_a_pair_is_not_its_reverse() -> None:
    assert hashing.mix(np.uint64(3), np.uint64(5)) != hashing.mix(np.uint64(5), np.uint64(3))


def test_missing_has_a_name_of_its_own_and_strings_keep_theirs() -> None:
    hashes = hashing.of(pd.Series(["a", None, "b", "a"]))
    assert hashes[0] == hashes[3] != hashes[2]
    assert hashes[1] == hashing.MISSING
    assert hashing.of_text("a") == hashes[0]
    assert hashing.of(pd.Series(["x", "a"], dtype=object))[1] == hashes[0]
