"""Machine code from Python: what numba compiles, kept on disk, and functions that several kernels share.

Example:
    >>> @compile_kernel
    ... def total(numbers):
    ...     out = 0.0
    ...     for number in numbers:
    ...         out += number
    ...     return out

The first call on a machine compiles for some seconds. numba keeps the result beside the kernel's file, or in the user's cache
folder where this one is not writable; where neither is (a read-only container), each process compiles for itself. It looks
whether the kernel's own file changed, not at what the kernel uses of others: so what depends on the features is an argument.
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
    """Compile a function of arrays and numbers, for every combination of types that it is called with."""
    return _compile_and_keep(partial(numba.njit, nogil=True, fastmath=_FAST, error_model="numpy"), kernel)


def compile_exact_kernel(kernel: Kernel) -> Kernel:
    """Compile such a function so that each operation rounds as NumPy's does: where equal results are told from others."""
    return _compile_and_keep(partial(numba.njit, nogil=True, error_model="numpy"), kernel)


def _compile_elementwise(signature: str) -> Callable[[Kernel], Kernel]:
    """Compile a function of numbers as one of arrays: a universal function of NumPy, without numba's wrapper of it."""

    def compile_signature(kernel: Kernel) -> Kernel:
        return _compile_and_keep(partial(numba.vectorize, [signature]), kernel).ufunc  # type: ignore[attr-defined]

    return compile_signature


def _compile_and_keep(compiler: Callable[..., Any], kernel: Kernel) -> Kernel:
    try:
        return cast(Kernel, compiler(cache=True)(kernel))
    except RuntimeError:  # no folder to keep it in
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
    """Hash what an owner has, element by element with broadcasting, in the owner's bucket: `hashing.combine`."""
    return owner & ~LOW_BITS | hash_one_pair(owner, value) & LOW_BITS


@_compile_elementwise("uint64(uint64)")
def finish_hashes(words: Any) -> Any:
    """Spread hashes over all bits, element by element, as pandas' `hash_array` does in the end: SplitMix64's finish."""
    spread = (words ^ (words >> _FINISH_SHIFTS[0])) * PAIR_MIX
    spread = (spread ^ (spread >> _FINISH_SHIFTS[1])) * _FINISH_MIX
    return spread ^ (spread >> _FINISH_SHIFTS[2])


@compile_kernel
def find_place(keys: NDArray[Any], wanted: Any) -> int:
    """Return how many of sorted `keys` are less than `wanted`: the place where it is, or would be."""
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
    """Return the place of `wanted` in sorted `keys`, -1 where it is not there."""
    here = find_place(keys, wanted)
    return here if here < len(keys) and keys[here] == wanted else -1


@compile_kernel
def find_places(
    keys: NDArray[np.uint64], wanted: NDArray[np.uint64], place: NDArray[np.intp], found: NDArray[np.bool_]
) -> None:
    """Fill the places of `wanted` (N,) in sorted `keys`, and which of them are really there."""
    for number in range(len(wanted)):
        here = find_place(keys, wanted[number])
        place[number] = here
        found[number] = here < len(keys) and keys[here] == wanted[number]


@compile_kernel
def copy_found(
    keys: NDArray[np.uint64], column: NDArray[Any], wanted: NDArray[np.uint64], out: NDArray[Any]
) -> None:
    """Copy into `out` (N,) the column (M,) at those of `wanted` (N,) that are in sorted `keys` (M,)."""
    for number in range(len(wanted)):
        here = find_key(keys, wanted[number])
        if here >= 0:
            out[number] = column[here]


@compile_kernel
def number_distinct(values: NDArray[np.uint64], number: NDArray[np.intp], first: NDArray[np.intp]) -> int:
    """Fill the number of each value (N,), by the order in which they first come, and that place of each (D,); return D.

    They are told apart by a hash table of twice as many slots at least, which has the numbers.
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
    """Do what `number_distinct` does with values below `count`, by a table with a slot for each."""
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
    """Fill the order of numbers (N,) below `distinct`, equal ones in the order in which they lie: a counting sort."""
    start = np.zeros(distinct + 1, np.intp)
    for each in number:
        start[each + 1] += 1
    for each in range(distinct):
        start[each + 1] += start[each]
    for place in range(len(number)):
        order[start[number[place]]] = place
        start[number[place]] += 1


_HALF, _ONE = np.float32(0.5), np.float32(1)  # float32 times a literal would be float64
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
    """Take exp of numbers (N,) that are not above zero, in place, to 3e-7; `powers` are the bits of `exponents` (N,).

    The polynomial is Cephes' (Moshier 1989, `expf`): the library's own function takes one number at a time, this one eight.
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
