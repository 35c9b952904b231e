"""The maths of the estimators keeps to the array API standard: array-api-strict refuses everything that is not in it."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from numpy.typing import NDArray

from fingerprint.compute import order_statistics
from fingerprint.estimators import autoencoder, spectral

RANDOM = np.random.default_rng(0)
SERIES = RANDOM.poisson(3.0, (40, 7 * 24)).astype(np.float32)
SLOTS = 5


def test_what_the_standard_does_not_have_is_refused() -> None:
    with pytest.raises((AttributeError, TypeError)):
        strict.asarray(SERIES).view(np.int32)
    with pytest.raises(TypeError):
        strict.asarray(SERIES) + SERIES


def same(found: Any, wanted: NDArray[Any]) -> None:
    assert type(found).__module__.startswith("array_api_strict")
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", [0, 30, 167])
def test_order_statistics(place: int) -> None:
    same(
        order_statistics.kth_smallest(strict.asarray(SERIES), place),
        order_statistics.kth_smallest(SERIES, place),
    )
    same(order_statistics.row_median(strict.asarray(SERIES)), order_statistics.row_median(SERIES))


def test_the_strongest_frequencies_and_the_forecast() -> None:
    same(
        spectral.keep_strongest_frequencies(strict.asarray(SERIES), 0.9),
        spectral.keep_strongest_frequencies(SERIES, 0.9),
    )
    for found, wanted in zip(
        spectral.forecast(strict.asarray(SERIES), 24, 0.9, gap=3),
        spectral.forecast(SERIES, 24, 0.9, gap=3),
        strict=True,
    ):
        same(found, wanted)


def test_robust_z() -> None:
    count, expected, spread = SERIES[:, 0], SERIES[:, 1], SERIES[:, 2]
    given = [strict.asarray(each) for each in (count, expected, spread)]
    same(spectral.robust_z(*given, floor=0.1), spectral.robust_z(count, expected, spread, floor=0.1))


def test_the_gain_of_a_correction() -> None:
    """`reconstruct` is left out: its gather over three axes at once is NumPy's, CuPy's and torch's, and not in the standard."""
    logits = RANDOM.normal(size=(20, 6, SLOTS)).astype(np.float32)
    base = np.log(RANDOM.dirichlet(np.ones(SLOTS), (20, 6))).astype(np.float32)
    slot = RANDOM.integers(0, SLOTS, (20, 6))
    arrays = logits, base, slot
    same(autoencoder.gain(*map(strict.asarray, arrays)), autoencoder.gain(*arrays))
