"""The dataframe and array libraries of a process, chosen once, with the reason for the choice.

Example:
    >>> backend = choose_backend("cpu")
    >>> print(backend)
    pandas and NumPy on the CPU: asked for by the setting
    >>> flat = flatten(records, backend.dataframe_library)
    >>> bank = bank.on(backend.to_device)

Only two places need a backend: reading, which makes tables from bytes, and the placement of the arrays of bank and scorer state.
All other code uses the libraries of its arguments. A machine that has GPU libraries but no working device is misconfigured; the
reason then says what to do (`cuda`).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from fingerprint.compute.cuda import GPU_LIBRARIES, CudaDevice, GpuUnavailable, find_device
from fingerprint.core.errors import FingerprintError

BackendChoice = Literal["auto", "cpu", "cuda"]

LIBRARY_NAMES = GPU_LIBRARIES | {"pandas": "pandas", "numpy": "NumPy"}
# Bytes of records that are read at a time on the CPU; more was not faster ...
HOST_BATCH_BYTES = 64 << 20
MAX_BATCH_BYTES = 512 << 20  # ... and at most on a device, where a text column holds at most 2 GB
# A batch may take this part of the free memory: reading needs some twenty times its bytes, for tokens and columns.
FREE_MEMORY_DIVISOR = 40


@dataclass(frozen=True, slots=True)
class Backend:
    """A choice of libraries: module names of dataframes and arrays, the device, and the reason.

    `is_misconfigured` is true if a GPU was meant to be used, and an operator can make it work.
    """

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
        """Return a host array on the device of this backend; for NumPy the array itself."""
        return (
            array
            if self.array_library == "numpy"
            else importlib.import_module(self.array_library).asarray(array)
        )

    @property
    def batch_bytes(self) -> int:
        """The bytes of records that are read at a time; on a device, as many as fit into its free memory."""
        if self.device_info is None:
            return HOST_BATCH_BYTES
        return min(max(self.device_info.free // FREE_MEMORY_DIVISOR, 1 << 20), MAX_BATCH_BYTES)


def cpu_backend(reason: str, is_misconfigured: bool = False) -> Backend:
    """Return the backend of pandas and NumPy, which every installation has."""
    return Backend("pandas", "numpy", "cpu", reason, is_misconfigured)


HOST_BACKEND = cpu_backend("asked for by the setting")


@cache
def choose_backend(setting: BackendChoice = "auto") -> Backend:
    """Return the backend for a setting, determined once in a process.

    Raises FingerprintError that says what is missing if the setting is `cuda` and no device works.
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
