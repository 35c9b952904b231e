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

from fingerprint.compute.cuda import NEEDED, Device, Hindrance, working
from fingerprint.core.alert import FingerprintError

Choice = Literal["auto", "cpu", "cuda"]

NAMES = NEEDED | {"pandas": "pandas", "numpy": "NumPy"}
HOST_PIECE = 64 << 20  # bytes of records that are read at a time on the CPU: past that nothing was gained
MOST_PIECE = 512 << 20  # ... and on a device, where a column of text ends at 2 GB
PIECE_SHARE = 40  # of the free memory: reading takes some twenty times a piece, for its tokens and columns


@dataclass(frozen=True, slots=True)
class Backend:
    """`tables` and `arrays` are module names, `device` is `cpu` or `cuda`, `reason` says why; `trouble`: it was meant to be
    otherwise, and somebody can mend that."""

    tables: str
    arrays: str
    device: Literal["cpu", "cuda"]
    reason: str
    trouble: bool = False
    about: Device | None = None

    def __str__(self) -> str:
        where = "the CPU" if self.device == "cpu" else "a CUDA device"
        tables, arrays = (NAMES.get(name, name) for name in (self.tables, self.arrays))
        return f"{tables} and {arrays} on {where}: {self.reason}"

    def place(self, array: Any) -> Any:
        """An array of the host, where this backend's arrays lie; on the host the array itself."""
        return array if self.arrays == "numpy" else importlib.import_module(self.arrays).asarray(array)

    @property
    def piece_bytes(self) -> int:
        """How many bytes of records are read at a time: on a device as many as its free memory has room for."""
        if self.about is None:
            return HOST_PIECE
        return min(max(self.about.free // PIECE_SHARE, 1 << 20), MOST_PIECE)


def on_cpu(reason: str, trouble: bool = False) -> Backend:
    """The road that is always there."""
    return Backend("pandas", "numpy", "cpu", reason, trouble)


HOST = on_cpu("asked for by the setting")


@cache
def choose(setting: Choice = "auto") -> Backend:
    """The backend for a setting; looked for once in a process.

    FingerprintError if `cuda` is asked for and cannot be had: it says what is missing.
    """
    if setting == "cpu":
        return HOST
    try:
        device = working()
    except Hindrance as hindrance:
        if setting == "cuda":
            raise FingerprintError(
                f"backend cuda was asked for, but {hindrance}; or set backend to auto or cpu"
            ) from None
        return on_cpu(str(hindrance), hindrance.trouble)
    return Backend("cudf", "cupy", "cuda", str(device), about=device)
