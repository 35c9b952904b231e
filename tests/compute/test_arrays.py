"""Array functions of the host that take another way where few of many codes occur; the GPU's are in tests/detection."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.compute import arrays


@pytest.mark.parametrize(
    "count", [7, 40 * arrays.MAX_SPREAD, 10**12], ids=["dense", "at the limit", "sparse"]
)
def test_codes_that_occur_are_numbered_from_zero(count: int) -> None:
    codes = np.random.default_rng(1).integers(0, count, 40)
    number, used = arrays.renumber(codes, count)
    np.testing.assert_array_equal(used[number], codes)
    assert len(used) == number.max() + 1 == len(np.unique(codes))


@pytest.mark.parametrize("count", [5, 10**30], ids=["dense", "more than 64 bits"])
def test_each_distinct_value_has_a_place_where_it_lies(count: int) -> None:
    values = np.array([4, 2, 4, 0, 2])
    code, example = arrays.unique_examples(values, count)
    np.testing.assert_array_equal(values[example][code], values)
    assert len(example) == 3


def test_of_no_codes_none_occurs() -> None:
    number, used = arrays.renumber(np.zeros(0, np.int64), 3)
    assert (len(number), len(used)) == (0, 0)
