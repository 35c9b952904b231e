"""Machine code from Python: kept where it can be, and an exponential as exact as the library's."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.compute import compiled


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compiled.numba.njit

    def no_folder(*args: object, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")
        return compiler(*args, **options)

    monkeypatch.setattr(compiled.numba, "njit", no_folder)
    assert compiled.compile_kernel(lambda number: number + 1)(2) == 3


def test_the_exponential_is_exact_to_single_precision_and_nothing_for_what_is_far_below() -> None:
    numbers = np.linspace(-86, 0, 10_000, dtype=np.float32)
    found, exponents = np.append(numbers, np.float32(-np.inf)), np.empty(10_001, np.int32)
    compiled.exp_in_place(found, exponents, exponents.view(np.float32))
    np.testing.assert_allclose(found[:-1], np.exp(numbers.astype(np.float64)), rtol=3e-7)
    assert 0 <= found[-1] < 1e-37
