"""The k-th smallest value of every row: by sorting where that is cheap, by bisection on a device.

Example:
    >>> kth_smallest(np.array([[3.0, 1.0, 2.0]], np.float32), 1)
    array([[2.]], dtype=float32)

A device sorts the rows of a matrix slowly (CuPy sorts pairs of row and value, all rows together), and a full sort is not needed.
Non-negative floats have the same order as their bits read as integers. So the result is found bit by bit, from the top: a bit
belongs to it if at most k values of the row are smaller than the bits found so far with this one. That is 31 passes of comparing
and counting for float32, 63 for float64. The result is exact: it is the value of the row that sorting finds.

On a CPU, whose cache holds the rows, sorting is faster: the passes take ten times as long with 504 values a row, and twice as
long with 1,440. The array API standard has no view of a float's bits, so a library without `view` sorts, too.
"""

from __future__ import annotations

from array_api_compat import array_namespace, is_numpy_namespace

from fingerprint.compute.arrays import Array


def kth_smallest(values: Array, k: int) -> Array:
    """Return the value at place `k` (from 0) of each sorted row: (S, W), none below zero, none NaN -> (S, 1)."""
    if _is_sorted_cheaply(values):
        return array_namespace(values).sort(values, axis=-1, stable=False)[:, k : k + 1]
    return _bisected(values, k)


def row_median(values: Array) -> Array:
    """Return the median of each row, the mean of the middle two if W is even: (S, W), none below zero, none NaN -> (S,)."""
    below, above = (values.shape[-1] - 1) // 2, values.shape[-1] // 2
    if _is_sorted_cheaply(values):
        ranked = array_namespace(values).sort(values, axis=-1, stable=False)
        return (ranked[:, below] + ranked[:, above]) / 2
    lower = _bisected(values, below)
    upper = lower if above == below else _value_at_or_above(values, lower, above)
    return ((lower + upper) / 2)[:, 0]


def _is_sorted_cheaply(values: Array) -> bool:
    return is_numpy_namespace(array_namespace(values)) or not hasattr(values, "view")


def _bisected(values: Array, place: int) -> Array:
    """Return the value at a place of each row, found bit by bit from the top. Each pass reads all values once."""
    xp = array_namespace(values)
    whole = {4: xp.int32, 8: xp.int64}[values.dtype.itemsize]
    bits = values.view(whole)
    found = xp.zeros((values.shape[0], 1), dtype=whole)
    for bit in reversed(range(8 * values.dtype.itemsize - 1)):  # without the topmost, the sign
        tried = found | (1 << bit)
        found = xp.where(_count(bits < tried) <= place, tried, found)
    return found.view(values.dtype)


def _value_at_or_above(values: Array, lower: Array, place: int) -> Array:
    """Return the value at `place`, given the value before it, `lower` (S, 1): an equal one, or the least above it."""
    xp = array_namespace(values)
    never = xp.asarray(float("inf"), dtype=values.dtype)
    above = xp.min(xp.where(values > lower, values, never), axis=-1, keepdims=True)
    return xp.where(_count(values <= lower) > place, lower, above)


def _count(which: Array) -> Array:
    return array_namespace(which).sum(which, axis=-1, keepdims=True)
