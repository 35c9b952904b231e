"""Array functions for which NumPy and CuPy differ; the library of the arguments decides, not a setting.

Example:
    >>> xp = namespace(codes)                          # the module of the array: numpy or cupy
    >>> order = lexsort(interval, principal)           # on the device of the arguments
    >>> to_host(order), to_device_of(np.arange(3), codes)

Functions that both libraries have are called through `xp`. Three rules keep code good for both:

- Arrays of the two are never mixed (numbers may be).
- A reduction on a device returns an array without dimensions, and reading it (`int`, `bool`, `if`) waits for the device.
- Every kernel launch costs some microseconds, however little it does, so work on whole columns, never on one value at a time.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

# Possible codes a row; above this, hashing the codes that occur is faster than a slot for each possible one
MAX_SPREAD = 4

ANY_VALUE = 1 << 64  # above all hashes
FEW_VALUES = 1000  # that any algorithm sorts in some microseconds

Array = Any  # of NumPy, or of a library with CuPy's interface
Arrays = dict[str, NDArray[Any]]  # by name
Mask = NDArray[np.bool_]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Placement = Callable[[NDArray[Any]], Array]  # moves an array from host memory to the device that computes


def namespace(array: Array) -> Any:
    """Return the module of an array's library."""
    if type(array) is np.ndarray:  # a fast path: called a thousand times a step, nearly always with NumPy's
        return np
    return sys.modules[type(array).__module__.partition(".")[0]]


def is_on_host(array: Array) -> bool:
    """Return whether an array lies in host memory."""
    return namespace(array) is np


def to_host(array: Array) -> NDArray[Any]:
    """Return the array itself if it lies in host memory, else a copy there."""
    down: NDArray[Any] = array if is_on_host(array) else array.get()
    return down


def to_device_of(array: Array, other: Array) -> Array:
    """Return an array on the device of `other`: the array itself if it lies there, else a copy."""
    if type(array) is type(other):
        return array
    xp = namespace(other)
    if xp is np:
        return to_host(array)
    return xp.asarray(array)


def identity_placement(array: NDArray[Any]) -> Array:
    """Return the array itself: the `Placement` of a machine without a device."""
    return array


Stacked = TypeVar("Stacked")


def move_arrays(stacked: Stacked, placement: Placement, excluded: Collection[str] = ()) -> Stacked:
    """Return a dataclass of arrays with each of them, except the `excluded` names, moved by `placement`."""
    names = [field.name for field in fields(stacked) if field.name not in excluded]  # type: ignore[arg-type]
    return replace(stacked, **{name: placement(getattr(stacked, name)) for name in names})  # type: ignore[type-var]


def scipy_special(array: Array) -> Any:
    """Return the module of SciPy's special functions for an array's library; CuPy has only some of them."""
    name = namespace(array).__name__
    return importlib.import_module("scipy.special" if name == "numpy" else f"{name}x.scipy.special")


def to_torch(array: Array) -> Any:
    """Return a tensor over the same memory (DLPack), or over a copy if the array is read-only."""
    import torch  # only installed for training

    if is_on_host(array) and not array.flags.writeable:
        array = array.copy()
    return torch.from_dlpack(array)  # type: ignore[attr-defined]


def unique_inverse(values: Array) -> tuple[Array, Array]:
    """Return for each value its index among the distinct values, and these: (N,) -> (N,), (D,). Only a device sorts them."""
    if is_on_host(values):
        codes, first = _number_on_host(values)
        return codes, values[first]
    xp = namespace(values)
    if not len(values):  # saves a kernel launch
        return xp.zeros(0, xp.int64), values
    distinct, codes = xp.unique(values, return_inverse=True)
    return codes, distinct


def _number_on_host(
    values: NDArray[np.integer[Any]], count: int = ANY_VALUE
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return for each value its index among the distinct values, by first occurrence, and their first places: (N,), (D,).

    All values are below `count`.
    """
    compiled = compiled_functions()
    words = np.ascontiguousarray(values, None if values.dtype.itemsize == 8 else np.int64).view(np.uint64)
    words.flags.writeable = False  # one type for all arrays, so that the kernel is compiled once
    number, first = np.empty(len(words), np.intp), np.empty(len(words), np.intp)
    if count > MAX_SPREAD * len(words):
        return number, first[: compiled.number_distinct(words, number, first)]
    return number, first[: compiled.number_marked(words, count, number, first)]


@cache
def compiled_functions() -> Any:
    """Return the module of compiled functions, imported at the first call: numba takes half a second, often for nothing."""
    from fingerprint.compute import compiled

    return compiled


def renumber(codes: Array, count: int) -> tuple[Array, Array]:
    """Renumber codes below `count` on the host as 0 ... D - 1, by first occurrence; return the numbers (N,) and codes (D,)."""
    number, first = _number_on_host(codes, count)
    return number, codes[first]


def unique_examples(values: Array, count: int = ANY_VALUE) -> tuple[Array, Array]:
    """Return for each value its index among the distinct values, and their first places: (N,), below `count` -> (N,), (D,).

    The order of the distinct values is unspecified.
    """
    if is_on_host(values):
        return _number_on_host(values, count)
    _, example, codes = namespace(values).unique(values, return_index=True, return_inverse=True)
    return codes, example


def unique_places(values: Array) -> tuple[Array, Array, Array]:
    """Return the sorted distinct integers, the first place of each, and the index of each value among them.

    (N,) -> (D,), (D,), (N,), as `numpy.unique` with index and inverse.
    """
    if not is_on_host(values):
        distinct, first, inverse = namespace(values).unique(values, return_index=True, return_inverse=True)
        return distinct, first, inverse
    if len(values) < 2:
        none = np.zeros(len(values), np.intp)
        return values, none, none
    number, first = _number_on_host(values)
    order = np.argsort(values[first])
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    first = first[order]
    return values[first], first, rank[number]


def is_first_occurrence(values: Array) -> Array:
    """Return whether each value occurs for the first time: (N,) -> (N,)."""
    _, first = unique_examples(values)
    out = namespace(values).zeros(len(values), bool)
    out[first] = True
    return out


def stable_argsort(values: Array) -> Array:
    """Return a stable sorting order of integers: (N,) -> (N,).

    Of many integers only the distinct ones, which are far fewer, are sorted; a counting sort then places all.
    """
    if len(values) <= FEW_VALUES or not is_on_host(values):
        return namespace(values).argsort(values, kind="stable")
    _, first, number = unique_places(values)
    if len(first) == len(values):
        return first
    order = np.empty(len(values), np.intp)
    compiled_functions().fill_counted_order(number, len(first), order)
    return order


def lexsort(minor: Array, major: Array) -> Array:
    """Return the stable order by `major`, ties by `minor`: (N,), (N,) -> (N,). Their types may differ."""
    xp = namespace(major)
    if xp is np and (len(major) <= FEW_VALUES or not {minor.dtype.kind, major.dtype.kind} <= {*"iu"}):
        return np.lexsort((minor, major))
    order = stable_argsort(minor)
    return order[stable_argsort(major[order])]


def segment_sums(column: Array, starts: Array) -> Array:
    """Return the sum of each run of values: column (N,), the starts of the runs (R,), the first 0 -> (R,).

    A device adds in float64, in any order, so counts and sums of two values are exact. CuPy's own `add.reduceat` would return
    differences of a running sum.
    """
    xp = namespace(column)
    if xp is np:
        return np.add.reduceat(column, starts, dtype=column.dtype)
    first = xp.zeros(len(column), xp.int32)
    first[starts] = 1
    run = xp.cumsum(first, dtype=xp.int64) - 1
    return xp.bincount(run, column.astype(xp.float64), len(starts)).astype(column.dtype)


def segment_ids(lengths: Array) -> Array:
    """Return the index of each run, repeated by its length: (R,) -> (sum of lengths,). `[2, 0, 1]` -> `[0, 0, 2]`."""
    xp = namespace(lengths)
    if xp is np:
        return np.repeat(np.arange(len(lengths)), lengths)
    ends = xp.cumsum(lengths, dtype=xp.int64)
    return xp.searchsorted(ends, xp.arange(int(ends[-1]) if len(ends) else 0), side="right")


def occurrence_index(names: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each name how many equal ones come before it, on the host: (N,) -> (N,)."""
    order, out = np.argsort(names, kind="stable"), np.empty(len(names), np.intp)
    ordered = names[order]
    out[order] = np.arange(len(names)) - np.searchsorted(ordered, ordered)
    return out
