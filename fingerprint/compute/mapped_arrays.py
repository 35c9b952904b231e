"""Arrays on disk in shards of bounded size, each mapped back into memory as one array.

Example:
    >>> write_arrays({"bias": bias, "inputs": inputs}, folder, "stack", shard_bytes=256 << 20)
    >>> sorted(file.name for file in folder.iterdir())
    ['stack.inputs.00000.safetensors', 'stack.inputs.00001.safetensors', 'stack.safetensors']
    >>> open_arrays(folder, "stack")["inputs"].shape == inputs.shape        # nothing has been read of it yet
    True

Every file is plain safetensors. All arrays that fit into a shard lie in `<stem>.safetensors`; larger ones are split between rows
of their first axis. Shards begin, and all but the last end, at a multiple of ALIGNMENT bytes, so that they can be mapped side by
side into one range of addresses, and looking up a few rows reads only their pages. Processes that open the same bank share its
pages. They are mapped copy-on-write: a process that writes gets a page of its own.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from math import gcd, prod
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import Arrays

# Bytes of the largest memory page in use (4 KiB on x86, 16 on Apple's, 64 on some ARM and POWER kernels)
ALIGNMENT = 1 << 16
MAX_HEADER_BYTES = 100_000_000  # the limit of the format
DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{kind}{8 * size}": np.dtype(f"{kind.lower()}{size}") for kind in "IU" for size in (1, 2, 4, 8)},
    "F16": np.dtype("f2"),
    "F32": np.dtype("f4"),
    "F64": np.dtype("f8"),
    "BOOL": np.dtype("?"),
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class ArraySpan(NamedTuple):
    """The place of an array, or of some of its rows, in a file: `offset` bytes into `file`, a descriptor."""

    file: int
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The size of the array in bytes."""
        return prod(self.shape) * self.dtype.itemsize


# --- writing --------------------------------------------------------------------------------------------------------


def part_arrays(part: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names are `part.name`, by `name`."""
    return {
        name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")
    }


def write_arrays(arrays: Mapping[str, NDArray[Any]], folder: Path, stem: str, shard_bytes: int) -> None:
    """Write arrays by name; contiguous ones are not copied. Raises OSError if the folder cannot be written."""
    small = {name: array for name, array in arrays.items() if array.nbytes <= shard_bytes}
    _save(small, folder / f"{stem}.safetensors")
    for name in arrays.keys() - small.keys():
        for number, rows in enumerate(_split_rows(arrays[name], shard_bytes)):
            _save({name: rows}, folder / f"{stem}.{name}.{number:05}.safetensors", ALIGNMENT)


def _split_rows(array: NDArray[Any], shard_bytes: int) -> Iterator[NDArray[Any]]:
    """Yield slices of rows of about `shard_bytes`, a multiple of ALIGNMENT bytes except the last."""
    row = max(1, array.nbytes // len(array))
    step = ALIGNMENT // gcd(row, ALIGNMENT)
    rows = max(step, shard_bytes // row // step * step)
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def _save(arrays: Mapping[str, NDArray[Any]], file: Path, align: int = 8) -> None:
    """Write one safetensors file, the widest types first, so that each array begins at a multiple of its item size."""
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header, place = {}, 0
    for name in order:
        array = arrays[name]
        span = [place, place := place + array.nbytes]
        header[name] = {"dtype": DTYPE_NAMES[array.dtype], "shape": array.shape, "data_offsets": span}
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % align)  # the format allows blanks at the end of a header
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            stream.write(np.ascontiguousarray(arrays[name]).data)


# --- opening --------------------------------------------------------------------------------------------------------


def open_arrays(folder: Path, stem: str) -> Arrays:
    """Return all arrays of a stem by name, mapped.

    Raises ValueError with the name of a file that is not safetensors, and OSError.
    """
    files = [folder / f"{stem}.safetensors", *sorted(folder.glob(f"{stem}.*.[0-9]*.safetensors"))]
    with ExitStack() as streams:
        found = [streams.enter_context(file.open("rb")) for file in files]
        return map_arrays({Path(each.name).name: each.fileno() for each in found}, stem)


def map_arrays(files: Mapping[str, int], stem: str) -> Arrays:
    """Return the arrays of a stem by name, from descriptors of open files by file name, which may be closed afterwards.

    Files of other stems are ignored. Raises ValueError with the name of a file that is not safetensors, and OSError.
    """
    file_of_stem = re.compile(rf"{re.escape(stem)}(\..+\.\d+)?\.safetensors")
    spans: dict[str, list[ArraySpan]] = {}
    for name in sorted(filter(file_of_stem.fullmatch, files)):
        for array, span in _spans(name, files[name]):
            spans.setdefault(array, []).append(span)
    whole = {parts[0].file for parts in spans.values() if len(parts) == 1}
    pages = {file: _pages(file) for file in whole}
    return {name: _map_array(name, parts, pages) for name, parts in spans.items()}


def _spans(name: str, file: int) -> Iterator[tuple[str, ArraySpan]]:
    size, length = os.fstat(file).st_size, int.from_bytes(os.pread(file, 8, 0), "little")
    if length > min(MAX_HEADER_BYTES, size - 8):
        raise ValueError(f"{name} is cut off")
    try:
        header = json.loads(os.pread(file, length, 8))
        header.pop("__metadata__", None)
        for array, each in header.items():
            yield array, _span(file, each, 8 + length, size)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is no safetensors: {error}") from None


def _span(file: int, each: dict[str, Any], data: int, size: int) -> ArraySpan:
    begin, end = map(index, each["data_offsets"])
    span = ArraySpan(file, data + begin, DTYPES[each["dtype"]], tuple(map(index, each["shape"])))
    if min(begin, *span.shape, 0) < 0 or end - begin != span.bytes or data + end > size:
        raise ValueError("an array lies outside of it")
    return span


def _map_array(name: str, parts: list[ArraySpan], pages: Mapping[int, mmap.mmap]) -> NDArray[Any]:
    first = parts[0]
    if len(parts) == 1:
        return _view(pages[first.file], first)
    if any((part.dtype, part.shape[1:]) != (first.dtype, first.shape[1:]) for part in parts):
        raise ValueError(f"the shards of {name} do not fit together")
    if any(part.offset % ALIGNMENT for part in parts) or any(part.bytes % ALIGNMENT for part in parts[:-1]):
        # written by another program
        return np.concatenate([_view(_pages(part.file), part) for part in parts])
    return _map_contiguously(parts)


def _pages(file: int) -> mmap.mmap:
    return mmap.mmap(file, 0, access=mmap.ACCESS_COPY)


def _view(pages: mmap.mmap, span: ArraySpan) -> NDArray[Any]:
    return np.frombuffer(pages, span.dtype, prod(span.shape), span.offset).reshape(span.shape)


def _map_contiguously(parts: list[ArraySpan]) -> NDArray[Any]:
    """Return one array over all shards.

    Reserves a range of addresses and maps the shards over it. The range is freed with the array.
    """
    pages = mmap.mmap(-1, sum(part.bytes for part in parts), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    place = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for part in parts:
        _map_shard(part, place)
        place += part.bytes
    shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
    return np.frombuffer(pages, parts[0].dtype, prod(shape)).reshape(shape)


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_FIXED = 0x10  # MAP_FIXED, which Python's mmap lacks; it is the same on Linux, macOS and the BSDs


def _map_shard(part: ArraySpan, address: int) -> None:
    """Map a shard at an address of the reserved range."""
    access, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _FIXED
    if _LIBC.mmap(address, part.bytes, access, how, part.file, part.offset) != address:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
