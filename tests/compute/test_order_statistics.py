"""The k-th smallest of every row: what bisection finds is what sorting finds, to the last bit."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from numpy.typing import NDArray

from fingerprint.compute import order_statistics


def rows(width: int, dtype: str = "float32") -> NDArray[np.floating]:
    """Sixty rows: of noise, of few values many times, of nothing, and of the least and greatest that floats can say."""
    random = np.random.default_rng(width)
    noise, few = random.exponential(size=(20, width)), random.poisson(0.3, (20, width))
    scales = 10.0 ** random.uniform(-44, 38, (18, width))
    return np.concatenate([noise, few, scales, np.zeros((1, width)), np.full((1, width), 7)]).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 2, 7, 48, 337])
def test_bisection_finds_the_very_value_that_sorting_finds(width: int, dtype: str) -> None:
    values = rows(width, dtype)
    for place in {0, width // 3, width // 2, width - 1}:
        sorted_ = order_statistics.kth_smallest(values, place)
        np.testing.assert_array_equal(sorted_[:, 0], np.sort(values, axis=1)[:, place])
        np.testing.assert_array_equal(
            order_statistics.kth_smallest(fake_cupy.asarray(values), place).get(), sorted_
        )


@pytest.mark.parametrize("width", [1, 2, 7, 48, 337])
def test_the_median_is_that_of_numpy_wherever_the_rows_lie(width: int) -> None:
    values = rows(width)
    with np.errstate(over="ignore"):  # the mean of two floats that are each almost the greatest
        wanted = order_statistics.row_median(values)
        np.testing.assert_array_equal(wanted, np.median(values, axis=1))
    np.testing.assert_array_equal(order_statistics.row_median(fake_cupy.asarray(values)).get(), wanted)


def test_torch_bisects_too() -> None:
    torch = pytest.importorskip("torch")
    values = rows(48)
    np.testing.assert_array_equal(
        order_statistics.kth_smallest(torch.asarray(values), 30).numpy(),
        order_statistics.kth_smallest(values, 30),
    )
    np.testing.assert_array_equal(
        order_statistics.row_median(torch.asarray(values)).numpy(), order_statistics.row_median(values)
    )
