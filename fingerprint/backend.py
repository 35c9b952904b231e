"""Which libraries carry the tables and arrays: chosen once, with the reason.

Example:
    >>> print(choose("cpu"))
    pandas and NumPy on the CPU: asked for by the setting

What is built: the CPU road, from bytes to verdicts. A device is found and reported, so that fitting (torch)
can use it;
`flatten` has no cuDF road yet, so `tables` is pandas whatever is found.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Literal

from fingerprint.domain import FingerprintError

Choice = Literal["auto", "cpu", "cuda"]
NEEDED = ("cudf", "cupy")


@dataclass(frozen=True, slots=True)
class Backend:
    """`tables` and `arrays` are module names, `device` is `cpu` or `cuda`, `reason` says why."""

    tables: str
    arrays: str
    device: Literal["cpu", "cuda"]
    reason: str

    def __str__(self) -> str:
        where = "the CPU" if self.device == "cpu" else "a CUDA device"
        tables, arrays = {"pandas": "pandas"}[self.tables], {"numpy": "NumPy", "cupy": "CuPy"}[self.arrays]
        return f"{tables} and {arrays} on {where}: {self.reason}"


def choose(setting: Choice = "auto") -> Backend:
    """The backend for a setting. Raises FingerprintError if `cuda` is asked for and cannot be had."""
    if setting == "cpu":
        return Backend("pandas", "numpy", "cpu", "asked for by the setting")
    hindrance = _hindrance()
    if hindrance is None:
        return Backend("pandas", "cupy", "cuda", "CuPy sees a device")
    if setting == "cuda":
        raise FingerprintError(f"backend cuda was asked for, but {hindrance}; set it to auto or cpu")
    return Backend("pandas", "numpy", "cpu", hindrance)


def _hindrance() -> str | None:
    """Why there is no GPU road here; None if there is nothing in the way."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed (`pip install fingerprint[gpu]`)"
    try:
        devices = importlib.import_module("cupy").cuda.runtime.getDeviceCount()
    except Exception as error:  # the driver's own kinds of error, and there are many
        return f"CuPy finds no device ({error})"
    return None if devices else "CuPy finds no device"
