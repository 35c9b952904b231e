"""Array functions of the host that take another way where few of many codes occur; the GPU's are in tests/detection."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

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


NUMBERS = st.sampled_from((np.uint64, np.int64, np.int32)).flatmap(
    lambda kind: hnp.arrays(kind, st.integers(0, 60), elements=st.integers(0, 30))
)


@given(NUMBERS, st.booleans())
def test_many_are_sorted_as_few_are(values: NDArray[Any], many: bool) -> None:
    values = values if values.dtype.kind == "u" else values - 15
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "FEW_VALUES", 0 if many else 1000)
        order, first = arrays.stable_argsort(values), arrays.is_first_occurrence(values)
        by_both, distinct = arrays.lexsort(values % 3, values), arrays.unique_places(values)
    np.testing.assert_array_equal(order, values.argsort(kind="stable"))
    np.testing.assert_array_equal(by_both, np.lexsort((values % 3, values)))
    for found, expected in zip(
        distinct, np.unique(values, return_index=True, return_inverse=True), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.flatnonzero(first), np.sort(distinct[1]))


@given(NUMBERS)
def test_marked_numbers_are_told_apart_as_hashed_ones(values: NDArray[Any]) -> None:
    marked, hashed = arrays.unique_examples(values, 31), arrays.unique_examples(values)
    for found, expected in zip(marked, hashed, strict=True):
        np.testing.assert_array_equal(found, expected)


@given(NUMBERS | hnp.arrays(np.uint64, 300, elements=st.integers(0, 2**64 - 1)))
def test_numbers_are_told_apart_as_pandas_does(values: NDArray[Any]) -> None:
    code, distinct = arrays.unique_inverse(values)
    expected, first = pd.factorize(values)
    np.testing.assert_array_equal(code, expected)
    np.testing.assert_array_equal(distinct, first)
    assert distinct.dtype == values.dtype
