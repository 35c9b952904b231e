"""Machine code from Python: kept where it can be, and an exponential as exact as the library's."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.compute import compiled, hashing
from fingerprint.compute.sorted_table import find_sorted, search_sorted


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = compiled.numba.njit

    def no_folder(*args: object, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")
        return compiler(*args, **options)

    monkeypatch.setattr(compiled.numba, "njit", no_folder)
    assert compiled.compile_kernel(lambda number: number + 1)(2) == 3


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_compiled_hashes_of_pairs_are_those_of_the_array_functions(size: int) -> None:
    left, right = np.random.default_rng(size).integers(0, 2**64, (2, size), dtype=np.uint64)
    one = np.uint64(2**64 - 1)
    for pair in ((left, right), (left, one), (one, right), (left[:, None], right[None, :3]), (one, one)):
        np.testing.assert_array_equal(hashing.hash_pair(*pair), hashing.mix_pairs(*pair))
        in_bucket = hashing.rebucket(pair[0], hashing.mix_pairs(*pair))
        np.testing.assert_array_equal(hashing.combine(*pair), in_bucket)


@pytest.mark.parametrize("kind", [np.uint64, np.int64])
@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_compiled_places_are_those_of_the_array_functions(size: int, kind: type) -> None:
    random, (least, most) = np.random.default_rng(size), (np.iinfo(kind).min, np.iinfo(kind).max)
    keys = np.unique(random.integers(least, most, size, kind))
    wanted = np.concatenate([keys, random.integers(least, most, 50, kind), np.array([least, most], kind)])
    for found, right in zip(find_sorted(keys, wanted), search_sorted(keys, wanted), strict=True):
        np.testing.assert_array_equal(found, right)


def test_the_exponential_is_exact_to_single_precision_and_nothing_for_what_is_far_below() -> None:
    numbers = np.linspace(-86, 0, 10_000, dtype=np.float32)
    found, exponents = np.append(numbers, np.float32(-np.inf)), np.empty(10_001, np.int32)
    compiled.exp_in_place(found, exponents, exponents.view(np.float32))
    np.testing.assert_allclose(found[:-1], np.exp(numbers.astype(np.float64)), rtol=3e-7)
    assert 0 <= found[-1] < 1e-37
