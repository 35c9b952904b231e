"""A fake of CuPy in this process' own memory, and as strict as it: for tests of code that runs where its arrays lie.

Example:
    >>> import fake_cupy
    >>> there = fake_cupy.asarray(np.arange(3))              # a copy up, said aloud
    >>> there + np.arange(3)
    TypeError: Unsupported type <class 'numpy.ndarray'>
    >>> (there + 1).get()                                    # a copy down, said aloud, and counted in `fake_cupy.moved`
    array([1, 2, 3])

What CuPy refuses is refused here: an array of NumPy among its own, being turned into one unasked, objects and texts, names and
keywords that CuPy 14.2 does not have (`cupy_api.json`). So is what CuPy allows and answers wrongly or slowly:
- integers of 64 bits in `add.at` (its atomics lack them), maxima and minima of them too;
- `add.reduceat` (differences of a running sum: exact for no float);
- `searchsorted` of unlike types (compared as C++ compares them: -1 is larger than every unsigned number);
- places out of bounds (CuPy wraps them around), and writing to the same place twice at once (any of the values may win);
- `repeat` by an array of counts, and going through a vector one by one (a wait for the device each).
`array-api-strict` (tests/estimators/test_array_api.py) knows the array API standard alone; scoring also calls `add.at`, kernels
and more that is CuPy's own.
A reduction gives an array of no dimensions; `int`, `float`, `bool` and `item` wait for the device, so they count as copies down.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import scipy.special
from fake_cupy_kernels import RawModule as RawModule  # its kernels, compiled for this processor

KNOWN = json.loads(Path(__file__).with_name("cupy_api.json").read_text())
ATOMIC = (np.int32, np.uint32, np.uint64, np.float32, np.float64)  # what `at` can do for all its ufuncs
MADE_HERE = ("array", "asarray", "asnumpy", "repeat", "lexsort", "searchsorted", "column_stack", "where")


@dataclass
class Moved:
    """How often, and how many bytes, were brought down (`get`, `tolist`, `int` ...) and up since `reset`."""

    down: int = 0
    bytes_down: int = 0
    up: int = 0
    bytes_up: int = 0

    def reset(self) -> None:
        self.down = self.bytes_down = self.up = self.bytes_up = 0


moved = Moved()


class ndarray:
    """An array that lies elsewhere."""

    __array_ufunc__ = None  # NumPy's functions do not take it
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_there",)

    def __init__(self, there: Any) -> None:
        there = np.asarray(there)
        if there.dtype.kind not in "biufc":
            raise ValueError(f"Unsupported dtype {there.dtype}")
        self._there = there

    # --- the ways down ------------------------------------------------------------------------------------------------

    def get(self) -> np.ndarray[Any, Any]:
        moved.down += 1
        moved.bytes_down += self._there.nbytes
        return self._there.copy()

    def item(self, *place: int) -> Any:
        return self.get().item(*place)

    def tolist(self) -> Any:
        return self.get().tolist()

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __bool__(self) -> bool:
        return bool(self.get())

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_function__(self, *_: Any) -> Any:
        return NotImplemented

    def __dlpack__(self, **_: Any) -> Any:
        return self._there.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self._there.__dlpack_device__()

    # --- what it is ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._there)

    def __repr__(self) -> str:
        return f"fake_cupy.{self._there!r}"

    def __iter__(self) -> Iterator[ndarray]:
        if self._there.ndim < 2:
            raise TypeError(
                "a vector elsewhere is not gone through one by one: bring it down, or use it whole"
            )
        return (self[place] for place in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if name not in KNOWN["methods"]:
            raise AttributeError(f"cupy.ndarray has no {name!r}")
        found = getattr(self._there, name)
        if callable(found):
            return _checked(KNOWN["methods"][name], f"ndarray.{name}", found)
        return ndarray(found) if isinstance(found, np.ndarray) else found

    @property
    def device(self) -> str:
        return "fake_cupy"

    def to_device(self, device: str, stream: None = None) -> Any:
        """CuPy leaves this to `array_api_compat`, as we do."""
        return self.get() if device == "cpu" else self

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return standard

    # --- places -------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> ndarray:
        return ndarray(self._there[_places(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        places, value = _places(key), _lowered(value)
        if np.ndim(value):
            _check_once(places, self._there.shape)
        with np.errstate(all="ignore"):
            self._there[places] = value


def _operator(name: str) -> Callable[..., Any]:
    plain = getattr(operator, f"__{name}__")

    def forward(self: ndarray, other: Any) -> ndarray:
        return _called(plain, self, other)

    return forward


def _reflected(name: str) -> Callable[..., Any]:
    plain = getattr(operator, f"__{name}__")

    def backward(self: ndarray, other: Any) -> ndarray:
        return _called(plain, other, self)

    return backward


def _in_place(name: str) -> Callable[..., Any]:
    plain = getattr(operator, f"__i{name}__")

    def within(self: ndarray, other: Any) -> ndarray:
        with np.errstate(all="ignore"):
            plain(self._there, _lowered(other))
        return self

    return within


def _alone(name: str) -> Callable[..., Any]:
    plain = getattr(operator, f"__{name}__")

    def alone(self: ndarray) -> ndarray:
        return _called(plain, self)

    return alone


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
):
    setattr(ndarray, f"__{_name}__", _operator(_name))
    setattr(ndarray, f"__r{_name}__", _reflected(_name))
    setattr(ndarray, f"__i{_name}__", _in_place(_name))
for _name in ("lt", "le", "eq", "ne", "gt", "ge", "matmul"):
    setattr(ndarray, f"__{_name}__", _operator(_name))
for _name in ("neg", "pos", "invert", "abs"):
    setattr(ndarray, f"__{_name}__", _alone(_name))


# --- what goes in and comes out ---------------------------------------------------------------------------------------


def _lowered(value: Any) -> Any:
    """What NumPy is given for an argument. Its own arrays are refused, however deep they lie."""
    if isinstance(value, ndarray):
        return value._there
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)(_lowered(each) for each in value)
    return value


def _raised(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return ndarray(value)
    return tuple(_raised(each) for each in value) if isinstance(value, (list, tuple)) else value


def _called(function: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """A device does not warn."""
    with np.errstate(all="ignore"):
        lowered = {name: _lowered(value) for name, value in named.items()}
        return _raised(function(*_lowered(values), **lowered))


def _places(key: Any) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(each, (list, np.ndarray)) for each in keys):
        raise TypeError(f"an array elsewhere is not indexed by what lies here: {key!r}")
    return _lowered(key)


def _check_once(places: Any, shape: tuple[int, ...]) -> None:
    """Nothing is written twice: which value stayed would be chance."""
    every = places if isinstance(places, tuple) else (places,)
    keys = [(each, size) for each, size in zip(every, shape, strict=False) if np.ndim(each)]
    if not keys or any(each is None or each is ... for each in every):
        return
    if any(each.dtype == bool for each, _ in keys):
        return
    wrapped = np.broadcast_arrays(*(each % size for each, size in keys))
    flat = np.stack([each.ravel() for each in wrapped])
    if np.unique(flat, axis=1).shape[1] != flat.shape[1]:
        raise ValueError("several values are written to one place at once: which one stays is chance")


def _checked(kind: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """With the keywords that CuPy knows, and no other kind of sorting than the stable one."""
    takes = kind.split()[1:]

    def call(*values: Any, **named: Any) -> Any:
        strange = [each for each in named if each not in takes]
        if strange and "**" not in takes:
            raise TypeError(f"cupy.{name} takes no keyword {strange[0]!r}")
        if "kind" in named and named["kind"] not in (None, "stable"):
            raise ValueError("CuPy sorts in one way, which is stable")
        if name.endswith("sort"):
            named["kind"] = "stable"
        return _called(function, *values, **named)

    return call


# --- the module -------------------------------------------------------------------------------------------------------


class ufunc:
    """One of NumPy's, with what CuPy has of its methods."""

    def __init__(self, name: str) -> None:
        self.name, self.plain = name, getattr(np, name)

    def __call__(self, *values: Any, **named: Any) -> Any:
        if set(named) - {"out", "dtype", "casting", "where"}:
            raise TypeError(f"cupy.{self.name} takes no such keyword: {sorted(named)}")
        return _called(self.plain, *values, **named)

    def at(self, array: ndarray, places: Any, values: Any = None) -> None:
        if self.name not in KNOWN["at"]:
            raise NotImplementedError(f"`cupy_{self.name}.at` is not supported yet")
        if array.dtype.type not in ATOMIC:
            raise TypeError(f"scatter_{self.name} does not support {array.dtype}")
        _places(places)  # refuses what lies here
        _called(self.plain.at, array, places, values)

    def reduce(self, array: ndarray, *values: Any, **named: Any) -> Any:
        return self._some("reduce", array, *values, **named)

    def accumulate(self, array: ndarray, *values: Any, **named: Any) -> Any:
        return self._some("accumulate", array, *values, **named)

    def _some(self, method: str, *values: Any, **named: Any) -> Any:
        if self.name not in ("add", "multiply"):
            raise NotImplementedError(f"`cupy_{self.name}.{method}` is not supported yet")
        return _called(getattr(self.plain, method), *values, **named)


def __getattr__(name: str) -> Any:
    kind = KNOWN["names"].get(name)
    if kind is None or not hasattr(np, name):
        raise AttributeError(f"module 'cupy' has no attribute {name!r}" if kind is None else name)
    if kind == "ufunc":
        return ufunc(name)
    return _checked(kind, name, getattr(np, name)) if kind.startswith("takes") else getattr(np, name)


def asarray(values: Any, dtype: Any = None, *, copy: bool | None = None) -> ndarray:
    """The way up: of an array that lies here, or what is here already."""
    if isinstance(values, ndarray):
        return values if dtype is None or values.dtype == dtype else values.astype(dtype)
    there = ndarray(np.array(values, dtype))
    moved.up += 1
    moved.bytes_up += there.nbytes
    return there


def array(values: Any, dtype: Any = None, copy: bool = True) -> ndarray:
    return asarray(values, dtype).copy()


def asnumpy(values: Any) -> np.ndarray[Any, Any]:
    return values.get() if isinstance(values, ndarray) else np.asarray(values)


def repeat(values: Any, repeats: int, axis: int | None = None) -> ndarray:
    if not isinstance(repeats, int):
        raise TypeError("an array elsewhere is repeated by one number, not by one for each")
    return _called(np.repeat, values, repeats, axis)


def lexsort(keys: ndarray) -> ndarray:
    if not isinstance(keys, ndarray):
        raise TypeError("CuPy sorts by one stacked array of keys, all of one type")
    return _called(np.lexsort, keys)


def searchsorted(a: ndarray, v: Any, side: str = "left", sorter: ndarray | None = None) -> ndarray:
    if isinstance(v, np.generic) or not isinstance(v, (ndarray, int, float)):
        raise NotImplementedError("Only python scalars or ndarrays are supported for v")
    if isinstance(v, ndarray) and v.dtype != a.dtype:
        raise TypeError(f"{v.dtype} is sought among {a.dtype}: what C++ makes of that is not what NumPy does")
    return _called(np.searchsorted, a, v, side, sorter)


def column_stack(parts: Any) -> ndarray:
    if not all(isinstance(part, ndarray) for part in parts):
        raise TypeError("Only cupy arrays can be column stacked")
    return _called(np.column_stack, parts)


def where(condition: ndarray, *values: Any) -> Any:
    if not isinstance(condition, ndarray):
        raise TypeError(f"Unsupported type {type(condition)}")
    return _called(np.where, condition, *values)


class _Fft:
    """What CuPy has of the transforms."""

    def __getattr__(self, name: str) -> Any:
        if name not in KNOWN["fft"]:
            raise AttributeError(f"module 'cupy.fft' has no attribute {name!r}")
        return _checked(KNOWN["fft"][name], f"fft.{name}", getattr(np.fft, name))


fft = _Fft()


class _Special(ModuleType):
    """What CuPy has of SciPy's special functions."""

    def __getattr__(self, name: str) -> Any:
        if name not in KNOWN["special"]:
            raise AttributeError(f"module 'cupyx.scipy.special' has no attribute {name!r}")
        return partial(_called, getattr(scipy.special, name))


sys.modules["fake_cupyx.scipy.special"] = _Special("fake_cupyx.scipy.special")  # CuPy keeps it in `cupyx`


# --- the array API, as `array_api_compat.cupy` spells it ---------------------------------------------------------------


def _placed(name: str) -> Callable[..., Any]:
    """Something that makes an array, told the device on which it is anyway."""

    def make(*values: Any, device: Any = None, **named: Any) -> Any:
        return __getattr__(name)(*values, **named)

    return make


def _take_along_axis(x: ndarray, indices: ndarray, /, *, axis: int = -1) -> ndarray:
    return _called(np.take_along_axis, x, indices, axis)


def _astype(x: ndarray, dtype: Any, /, *, copy: bool = True, device: Any = None) -> ndarray:
    return x.astype(dtype, copy=copy)


def _asarray(values: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> ndarray:
    return asarray(values, dtype)


def _clip(x: ndarray, /, min: Any = None, max: Any = None) -> ndarray:
    return x.clip(min, max)


def _sort(x: ndarray, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ndarray:
    ranked = _called(np.sort, x, axis, "stable")
    return _called(np.flip, ranked, axis) if descending else ranked


class _Standard(SimpleNamespace):
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        return __getattr__(name)


standard = _Standard(
    __name__="fake_cupy",
    fft=fft,
    concat=__getattr__("concatenate"),
    pow=__getattr__("power"),
    bool=np.bool_,
    asarray=_asarray,
    astype=_astype,
    clip=_clip,
    sort=_sort,
    take_along_axis=_take_along_axis,
    **{name: _placed(name) for name in ("arange", "empty", "full", "ones", "zeros", "linspace", "eye")},
    **{name: _placed(name) for name in ("empty_like", "full_like", "ones_like", "zeros_like")},
)
