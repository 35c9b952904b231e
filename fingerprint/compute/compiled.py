"""Kernels that numba compiles, cached on disk, and functions that several kernels share.

Example:
    >>> @compile_kernel
    ... def total(numbers):
    ...     out = 0.0
    ...     for number in numbers:
    ...         out += number
    ...     return out

The first call on a machine compiles for some seconds. numba caches the result beside the kernel's file, or in the user's cache
folder if that is not writable. If neither is writable (a read-only container), each process compiles for itself. numba compiles
again when the kernel's own file changed, but not when constants of another file did, so constants that depend on the features are
arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Floats
from fingerprint.compute.hashing import LOW_BITS, PAIR_MIX, PAIR_ODD, PAIR_SHIFT

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_FINISH_MIX = np.uint64(0x94D049BB133111EB)
_FINISH_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_FAST = {"reassoc", "contract", "nsz"}  # sums in any order, fused products: what vector instructions need


def compile_kernel(kernel: Kernel) -> Kernel:
    """Compile a function of arrays and numbers, once for every combination of argument types."""
    return _compile_and_keep(partial(numba.njit, nogil=True, fastmath=_FAST, error_model="numpy"), kernel)


def compile_exact_kernel(kernel: Kernel) -> Kernel:
    """Compile a function so that each operation rounds as NumPy's does, for results that must be equal and not only close."""
    return _compile_and_keep(partial(numba.njit, nogil=True, error_model="numpy"), kernel)


def _compile_elementwise(signature: str) -> Callable[[Kernel], Kernel]:
    """Compile a function of numbers to a universal function of NumPy, without numba's wrapper around it."""

    def compile_signature(kernel: Kernel) -> Kernel:
        return _compile_and_keep(partial(numba.vectorize, [signature]), kernel).ufunc  # type: ignore[attr-defined]

    return compile_signature


def _compile_and_keep(compiler: Callable[..., Any], kernel: Kernel) -> Kernel:
    try:
        return cast(Kernel, compiler(cache=True)(kernel))
    except RuntimeError:  # no writable folder for the cache
        return cast(Kernel, compiler()(kernel))


@compile_kernel
def hash_one_pair(left: np.uint64, right: np.uint64) -> np.uint64:
    """Hash an ordered pair of numbers, as `hashing.hash_pair` does."""
    spread = left * PAIR_MIX
    mixed = ((spread ^ (spread >> PAIR_SHIFT)) ^ (right + PAIR_ODD)) * PAIR_MIX
    return (mixed ^ (mixed >> PAIR_SHIFT)) * PAIR_ODD


@_compile_elementwise("uint64(uint64, uint64)")
def hash_pairs(left: Any, right: Any) -> Any:
    """Hash ordered pairs, element by element with broadcasting, in one pass over the arrays."""
    return hash_one_pair(left, right)


@_compile_elementwise("uint64(uint64, uint64)")
def combine_hashes(owner: Any, value: Any) -> Any:
    """Hash pairs of owner and value in the owner's bucket, element by element with broadcasting: `hashing.combine`."""
    return owner & ~LOW_BITS | hash_one_pair(owner, value) & LOW_BITS


@_compile_elementwise("uint64(uint64)")
def finish_hashes(words: Any) -> Any:
    """Mix all bits of hashes, element by element, as the last step of pandas' `hash_array` does: SplitMix64's finisher."""
    spread = (words ^ (words >> _FINISH_SHIFTS[0])) * PAIR_MIX
    spread = (spread ^ (spread >> _FINISH_SHIFTS[1])) * _FINISH_MIX
    return spread ^ (spread >> _FINISH_SHIFTS[2])


@compile_kernel
def find_place(keys: NDArray[Any], wanted: Any) -> int:
    """Return the place of `wanted` in sorted `keys`, or where it would be: the number of smaller keys."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compile_kernel
def find_key(keys: NDArray[np.uint64], wanted: np.uint64) -> int:
    """Return the place of `wanted` in sorted `keys`, -1 if it is not there."""
    here = find_place(keys, wanted)
    return here if here < len(keys) and keys[here] == wanted else -1


@compile_kernel
def find_places(
    keys: NDArray[np.uint64], wanted: NDArray[np.uint64], place: NDArray[np.intp], found: NDArray[np.bool_]
) -> None:
    """Fill `place` (N,) with the places of `wanted` (N,) in sorted `keys`, and `found` (N,) with whether they are there."""
    for number in range(len(wanted)):
        here = find_place(keys, wanted[number])
        place[number] = here
        found[number] = here < len(keys) and keys[here] == wanted[number]


@compile_kernel
def copy_found(
    keys: NDArray[np.uint64], column: NDArray[Any], wanted: NDArray[np.uint64], out: NDArray[Any]
) -> None:
    """Copy to `out` (N,) the values of `column` (M,) at those `wanted` (N,) that are in sorted `keys` (M,)."""
    for number in range(len(wanted)):
        here = find_key(keys, wanted[number])
        if here >= 0:
            out[number] = column[here]


@compile_kernel
def number_distinct(values: NDArray[np.uint64], number: NDArray[np.intp], first: NDArray[np.intp]) -> int:
    """Assign numbers to the D distinct values by first occurrence; fill `number` (N,) and `first` place (D,); return D.

    A hash table with at least 2 N slots holds the numbers.
    """
    bits = 1
    while 1 << bits < 2 * len(values):
        bits += 1
    slots, distinct = np.full(1 << bits, -1, np.int32), 0
    for place in range(len(values)):
        slot = (values[place] * PAIR_ODD) >> np.uint64(64 - bits)
        while slots[slot] >= 0 and values[first[slots[slot]]] != values[place]:
            slot = (slot + np.uint64(1)) & np.uint64((1 << bits) - 1)
        if slots[slot] < 0:
            slots[slot], first[distinct] = distinct, place
            distinct += 1
        number[place] = slots[slot]
    return distinct


@compile_kernel
def number_marked(
    values: NDArray[np.uint64], count: int, number: NDArray[np.intp], first: NDArray[np.intp]
) -> int:
    """Assign numbers as `number_distinct` does, to values below `count`, by a table with a slot for each."""
    slots, distinct = np.full(count, -1, np.int32), 0
    for place in range(len(values)):
        value = np.int64(values[place])
        if slots[value] < 0:
            slots[value], first[distinct] = distinct, place
            distinct += 1
        number[place] = slots[value]
    return distinct


@compile_kernel
def fill_counted_order(number: NDArray[np.intp], distinct: int, order: NDArray[np.intp]) -> None:
    """Fill `order` (N,) with the stable order of numbers (N,) below `distinct`, by a counting sort."""
    start = np.zeros(distinct + 1, np.intp)
    for each in number:
        start[each + 1] += 1
    for each in range(distinct):
        start[each + 1] += start[each]
    for place in range(len(number)):
        order[start[number[place]]] = place
        start[number[place]] += 1


_HALF, _ONE = np.float32(0.5), np.float32(1)  # a literal would widen float32 to float64
_LOG2_E, _LN2, _LN2_REST = (np.float32(number) for number in (1.44269504, 0.693359375, -2.12194440e-4))
_LEAST = np.float32(-87)  # exp of less is not a normal float32
_POLYNOMIAL = tuple(
    np.float32(number)
    for number in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
)
_C5, _C4, _C3, _C2, _C1, _C0 = _POLYNOMIAL


@compile_kernel
def exp_in_place(numbers: Floats, exponents: NDArray[np.int32], powers: Floats) -> None:
    """Replace numbers (N,), none above zero, by their exp, to 3e-7. `powers` must be a float32 view of `exponents` (N,).

    The polynomial is that of Cephes (Moshier 1989, `expf`). The library's own exp computes one number at a time, this one eight.
    """
    for place in range(len(numbers)):
        number = max(numbers[place], _LEAST)
        power = np.int32(number * _LOG2_E - _HALF)
        rest = number - np.float32(power) * _LN2 - np.float32(power) * _LN2_REST
        series = ((((_C5 * rest + _C4) * rest + _C3) * rest + _C2) * rest + _C1) * rest + _C0
        numbers[place] = series * rest * rest + rest + _ONE
        exponents[place] = power
    for place in range(len(numbers)):
        exponents[place] = (exponents[place] + 127) << 23
    for place in range(len(numbers)):
        numbers[place] *= powers[place]
