"""A CUDA device that works, or one sentence why there is none and what to do.

Example:
    >>> working()
    Device(name='NVIDIA H100 80GB HBM3', capability=(9, 0), cuda=13020, driver=13020, memory=84929740800, free=84430618624)

It is believed when it has done something: an allocation, a kernel made on the spot, the sum brought back. What the driver says
comes in a hundred kinds of error; each becomes a `Hindrance` with the sentence of the driver and a way out.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from fingerprint.core.extras import how_to_install

GPU_LIBRARIES = {"cudf": "cuDF", "cupy": "CuPy"}
INSTALL_HINT = f"{how_to_install('gpu')}, for a driver of CUDA 12 `.[gpu-cu12]`"
MINIMUM_VERSIONS = {
    12: ((7, 0), 535),
    13: ((7, 5), 580),
}  # by CUDA: compute capability and driver that cuDF 26.10 needs
VISIBILITY_HINT = "see that `nvidia-smi` shows one, and that CUDA_VISIBLE_DEVICES does not hide it"
MAX_ERROR_LENGTH = 300  # characters of a driver's sentence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """What the driver says of it. `cuda`: what CuPy was built for, `driver`: what the driver can, 13020 for 13.2; memory in
    bytes."""

    name: str
    capability: tuple[int, int]
    cuda: int
    driver: int
    memory: int
    free: int

    def __str__(self) -> str:
        major, minor = self.capability
        room = f"{self.free / 2**30:.1f} of {self.memory / 2**30:.1f} GiB free"
        return f"{self.name} (compute capability {major}.{minor}), {room}"


class GpuUnavailable(Exception):
    """Why there is no GPU road here. `trouble`: somebody meant to have one, and can mend it."""

    def __init__(self, reason: str, is_misconfigured: bool = True) -> None:
        super().__init__(reason)
        self.is_misconfigured = is_misconfigured


def find_device() -> CudaDevice:
    """The device that CuPy uses, when it has shown that it works, and cuDF beside it; else a Hindrance."""
    _check_installed()
    device = _check_device()
    _check_dataframes()  # the last: importing it takes seconds
    return device


def library_version(name: str) -> str:
    """Of an installed library, by its module: `cudf` is the distribution cudf-cu13 or cudf-cu12. '' where there is none."""
    return next((importlib.metadata.version(each) for each in _distributions().get(name, ())), "")


@cache
def _distributions() -> Mapping[str, list[str]]:
    """By module; looking costs half a second."""
    return importlib.metadata.packages_distributions()


def _check_installed() -> None:
    """Neither is installed: nobody wants a device. One of them is: somebody does."""
    missing = [name for name in GPU_LIBRARIES if importlib.util.find_spec(name) is None]
    if len(missing) == len(GPU_LIBRARIES):
        raise GpuUnavailable(f"cuDF and CuPy are not installed ({INSTALL_HINT})", is_misconfigured=False)
    if missing:
        [lacking], [there] = missing, GPU_LIBRARIES.keys() - {*missing}
        raise GpuUnavailable(
            f"{GPU_LIBRARIES[there]} is installed without {GPU_LIBRARIES[lacking]}, and both are needed ({INSTALL_HINT})"
        )


# --- CuPy and the device ----------------------------------------------------------------------------------------------


def _check_device() -> CudaDevice:
    cupy = _import_library("cupy")
    device = _query_driver(cupy, "no device", lambda: _describe_device(cupy))
    _check_minimum_versions(device)
    _query_driver(cupy, f"{device.name}, which does not compute", lambda: _run_test_kernel(cupy))
    return device


def _describe_device(cupy: Any) -> CudaDevice:
    runtime = cupy.cuda.runtime
    if not runtime.getDeviceCount():
        raise RuntimeError("NoDevice: the driver counts none")
    said, (free, memory) = runtime.getDeviceProperties(runtime.getDevice()), runtime.memGetInfo()
    name, capability = said["name"].decode(errors="replace"), (int(said["major"]), int(said["minor"]))
    return CudaDevice(name, capability, runtime.runtimeGetVersion(), runtime.driverGetVersion(), memory, free)


def _check_minimum_versions(device: CudaDevice) -> None:
    major = device.cuda // 1000
    oldest, _ = MINIMUM_VERSIONS.get(major, MINIMUM_VERSIONS[13])
    if device.capability < oldest:
        has, wants = (f"{pair[0]}.{pair[1]}" for pair in (device.capability, oldest))
        other = (
            ", the one for CUDA 12 7.0"
            if major != 12 and device.capability >= MINIMUM_VERSIONS[12][0]
            else ""
        )
        raise GpuUnavailable(
            f"{device.name} has compute capability {has}, and cuDF for CUDA {major} needs {wants}{other}"
        )


def _run_test_kernel(cupy: Any) -> None:
    """A kernel that is compiled here, over memory that is allocated here."""
    numbers = cupy.arange(1000, dtype=cupy.int64)
    if int((numbers * numbers).sum()) != 332_833_500:
        raise ArithmeticError("the squares below a thousand add up to something else there")


def _query_driver(cupy: Any, what: str, query: Callable[[], T]) -> T:
    """What the driver answers; its errors are of kinds of its own."""
    try:
        return query()
    except Exception as error:
        raise GpuUnavailable(f"CuPy finds {what}: {_one_line(error)}; {_advice(cupy, str(error))}") from None


def _advice(cupy: Any, error: str) -> str:
    """What can be done about an error of the driver."""
    if "InsufficientDriver" in error:
        return _driver_advice(cupy)
    if "NoDevice" in error or "InvalidDevice" in error:
        return VISIBILITY_HINT
    if "MemoryAllocation" in error or "OutOfMemory" in error or "out of memory" in error.lower():
        return "its memory is taken: `nvidia-smi` says by whom"
    if any(part in error.lower() for part in ("nvrtc", "libcu", "header")):
        return f"a part of the CUDA toolkit is missing: install it again ({INSTALL_HINT})"
    return "see what `nvidia-smi` and the kernel's log (`dmesg`) say of it"


def _driver_advice(cupy: Any) -> str:
    """The driver is too old, or there is none: it says 0 then."""
    runtime = cupy.cuda.runtime
    has, major = int(runtime.driverGetVersion()), int(runtime.runtimeGetVersion()) // 1000
    _, needs = MINIMUM_VERSIONS.get(major, MINIMUM_VERSIONS[13])
    if not has:
        return f"there is no NVIDIA driver here: CUDA {major} needs {needs} or newer, a container the NVIDIA Container Toolkit"
    other = ", or the extra `gpu-cu12`" if major != 12 and has >= 12000 else ""
    return f"the driver is for CUDA {has // 1000}.{has % 1000 // 10}: CUDA {major} needs driver {needs} or newer{other}"


# --- cuDF, and pandas beside it ---------------------------------------------------------------------------------------


def _check_dataframes() -> None:
    if (wanted := _wanted_pandas()) is not None:
        there = f"pandas {library_version('pandas')} is installed"
        raise GpuUnavailable(
            f"cuDF {library_version('cudf')} wants {wanted}, and {there}: install them together ({INSTALL_HINT})"
        )
    _import_library("cudf")


def _wanted_pandas() -> str | None:
    """cuDF and pandas are made for each other: what cuDF says that it wants, where the pandas that is here is newer."""
    for distribution in _distributions().get("cudf", ()):
        for wanted in importlib.metadata.requires(distribution) or ():
            below = re.match(r"pandas\b[^;]*<\s*(\d+)\.(\d+)[^;]*$", wanted)
            if below and _version_tuple(library_version("pandas")) >= (int(below[1]), int(below[2])):
                return wanted
    return None


def _version_tuple(text: str) -> tuple[int, ...]:
    """`3.0.6` -> (3, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _import_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a damaged installation has many ways to say so
        beside = " beside ".join(f"{each} {library_version(each)}" for each in (name, "pandas", "numpy"))
        raise GpuUnavailable(
            f"{beside} cannot be imported: {_one_line(error)}; install it again ({INSTALL_HINT})"
        ) from None


def _one_line(error: Exception) -> str:
    """What an error says, on one line and not endless."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_ERROR_LENGTH else f"{text[:MAX_ERROR_LENGTH]} ..."
