"""Kernels on the fake of CuPy: the same source, compiled by g++ and run on the CPU, as `cupy.RawModule` would on a device.

Example:
    >>> RawModule(code=source("siphash")).get_function("siphash")((1,), (128,), (np.int64(2), text, borders, out))

Like CuPy it checks nothing of what it is given but that it lies elsewhere and is contiguous: C reads the memory as it will.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.services.debian_packages import Unavailable
from tests.support.services.requirement import needed

KEPT = Path(tempfile.gettempdir()) / f"fingerprint-kernels-{os.getuid()}"
FLAGS = ("-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unused-function")


class RawModule:
    """The functions in a text of C, compiled when the first is asked for."""

    def __init__(self, *, code: str, options: tuple[str, ...] = ()) -> None:
        with needed():
            made = _compiled(code, tuple(option.replace("--", "-") for option in options))
        self.library = ctypes.CDLL(str(made))

    def get_function(self, name: str) -> Callable[..., None]:
        function = getattr(self.library, name)
        function.restype = None

        def launch(grid: tuple[int, ...], block: tuple[int, ...], values: tuple[Any, ...]) -> None:
            function(*map(_passed, values))

        return launch


def _passed(value: Any) -> Any:
    if isinstance(value, np.int64):
        return ctypes.c_longlong(int(value))
    there = value._there  # an array that lies here is refused, as on a device
    if not there.flags.c_contiguous:
        raise ValueError("a kernel takes contiguous arrays")
    return ctypes.c_void_p(there.ctypes.data)


def _compiled(code: str, options: tuple[str, ...]) -> Path:
    """The shared object for a text: made once, by whichever process comes first."""
    if shutil.which("g++") is None:
        raise Unavailable("g++ is not installed: kernels are compiled by it, where there is no device")
    KEPT.mkdir(mode=0o700, exist_ok=True)
    flags = (*FLAGS, *options)
    made = KEPT / f"{hashlib.sha256(repr((code, flags)).encode()).hexdigest()[:32]}.so"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            text, fresh = Path(folder) / "kernel.cc", Path(folder) / "kernel.so"
            text.write_text(code)
            subprocess.run(["g++", *flags, "-o", fresh, text], check=True)  # noqa: S603, S607
            fresh.rename(made)
    return made
