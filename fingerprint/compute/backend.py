"""Which libraries carry the tables and arrays: chosen once, with the reason.

Example:
    >>> backend = choose("cpu")
    >>> print(backend)
    pandas and NumPy on the CPU: asked for by the setting
    >>> flat = flatten(records, backend.tables)
    >>> bank = bank.on(backend.place)

Only these two places are told: reading, which makes tables of bytes, and where the arrays of bank and ledger are put. All else
follows its arguments. Where the libraries of a GPU are there and the device is not, that is `trouble`: somebody meant to have
one, and is told what to do (`device`).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from fingerprint.compute.cuda import GPU_LIBRARIES, CudaDevice, GpuUnavailable, find_device
from fingerprint.core.alert import FingerprintError

BackendChoice = Literal["auto", "cpu", "cuda"]

LIBRARY_NAMES = GPU_LIBRARIES | {"pandas": "pandas", "numpy": "NumPy"}
HOST_BATCH_BYTES = (
    64 << 20
)  # bytes of records that are read at a time on the CPU: past that nothing was gained
MAX_BATCH_BYTES = 512 << 20  # ... and on a device, where a column of text ends at 2 GB
FREE_MEMORY_DIVISOR = (
    40  # of the free memory: reading takes some twenty times a piece, for its tokens and columns
)


@dataclass(frozen=True, slots=True)
class Backend:
    """`tables` and `arrays` are module names, `device` is `cpu` or `cuda`, `reason` says why; `trouble`: it was meant to be
    otherwise, and somebody can mend that."""

    dataframe_library: str
    array_library: str
    device: Literal["cpu", "cuda"]
    reason: str
    is_misconfigured: bool = False
    device_info: CudaDevice | None = None

    def __str__(self) -> str:
        where = "the CPU" if self.device == "cpu" else "a CUDA device"
        tables, arrays = (
            LIBRARY_NAMES.get(name, name) for name in (self.dataframe_library, self.array_library)
        )
        return f"{tables} and {arrays} on {where}: {self.reason}"

    def to_device(self, array: Any) -> Any:
        """An array of the host, where this backend's arrays lie; on the host the array itself."""
        return (
            array
            if self.array_library == "numpy"
            else importlib.import_module(self.array_library).asarray(array)
        )

    @property
    def batch_bytes(self) -> int:
        """How many bytes of records are read at a time: on a device as many as its free memory has room for."""
        if self.device_info is None:
            return HOST_BATCH_BYTES
        return min(max(self.device_info.free // FREE_MEMORY_DIVISOR, 1 << 20), MAX_BATCH_BYTES)


def cpu_backend(reason: str, is_misconfigured: bool = False) -> Backend:
    """The road that is always there."""
    return Backend("pandas", "numpy", "cpu", reason, is_misconfigured)


HOST_BACKEND = cpu_backend("asked for by the setting")


@cache
def choose_backend(setting: BackendChoice = "auto") -> Backend:
    """The backend for a setting; looked for once in a process.

    FingerprintError if `cuda` is asked for and cannot be had: it says what is missing.
    """
    if setting == "cpu":
        return HOST_BACKEND
    try:
        device = find_device()
    except GpuUnavailable as hindrance:
        if setting == "cuda":
            raise FingerprintError(
                f"backend cuda was asked for, but {hindrance}; or set backend to auto or cpu"
            ) from None
        return cpu_backend(str(hindrance), hindrance.is_misconfigured)
    return Backend("cudf", "cupy", "cuda", str(device), device_info=device)
