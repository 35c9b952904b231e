"""Find a CUDA device that works, or explain in one sentence why there is none and what to do.

Example:
    >>> find_device()
    CudaDevice(name='NVIDIA H100 80GB HBM3', capability=(9, 0), cuda=13020, driver=13020, memory=84929740800, free=84430618624)

A device works if it can allocate memory, run a kernel that is compiled at run time, and return the right sum. Drivers raise many
kinds of errors; each becomes a `GpuUnavailable` with the driver's message and a remedy.
"""

from __future__ import annotations

import ctypes
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
# By major version of CUDA: the compute capability and driver that cuDF 26.10 needs
MINIMUM_VERSIONS = {12: ((7, 0), 535), 13: ((7, 5), 580)}
VISIBILITY_HINT = "see that `nvidia-smi` shows one, and that CUDA_VISIBLE_DEVICES does not hide it"
MAX_ERROR_LENGTH = 300  # characters of a driver's message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A device as the driver describes it; memory in bytes.

    `cuda` is the CUDA version that CuPy was built for, `driver` the newest one that the driver supports: 13020 for 13.2.
    """

    name: str
    capability: tuple[int, int]
    cuda: int
    driver: int
    memory: int
    free: int

    def __str__(self) -> str:
        major, minor = self.capability
        memory = f"{self.free / 2**30:.1f} of {self.memory / 2**30:.1f} GiB free"
        return f"{self.name} (compute capability {major}.{minor}), {memory}"


class GpuUnavailable(Exception):
    """The reason why no GPU is used; `is_misconfigured` if one was meant to be used, and an operator can make it work."""

    def __init__(self, reason: str, is_misconfigured: bool = True) -> None:
        super().__init__(reason)
        self.is_misconfigured = is_misconfigured


def find_device() -> CudaDevice:
    """Return the device that CuPy uses. Raises GpuUnavailable unless it computes correctly and cuDF can be imported."""
    _check_installed()
    device = _check_device()
    _check_dataframes()  # last, because importing cuDF takes seconds
    return device


def has_driver() -> bool:
    """Return whether NVIDIA's driver can be loaded. Without it there is no device, which torch takes two seconds to find out."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def library_version(name: str) -> str:
    """Return the version of an installed library by its module (`cudf` is cudf-cu13 or cudf-cu12); empty if not installed."""
    return next((importlib.metadata.version(each) for each in _distributions().get(name, ())), "")


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Return installed distributions by module; cached, because it takes half a second."""
    return importlib.metadata.packages_distributions()


def _check_installed() -> None:
    """Raise GpuUnavailable unless both libraries are installed. One of them alone is a misconfiguration."""
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
    properties, (free, memory) = runtime.getDeviceProperties(runtime.getDevice()), runtime.memGetInfo()
    name = properties["name"].decode(errors="replace")
    capability = (int(properties["major"]), int(properties["minor"]))
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
    """Allocate memory, compile and run a kernel over it, and check its result."""
    numbers = cupy.arange(1000, dtype=cupy.int64)
    if int((numbers * numbers).sum()) != 332_833_500:
        raise ArithmeticError("the squares below a thousand add up to something else there")


def _query_driver(cupy: Any, what: str, query: Callable[[], T]) -> T:
    """Return what `query` returns; any error of the driver becomes GpuUnavailable."""
    try:
        return query()
    except Exception as error:
        raise GpuUnavailable(f"CuPy finds {what}: {_one_line(error)}; {_advice(cupy, str(error))}") from None


def _advice(cupy: Any, error: str) -> str:
    """Return the remedy for an error of the driver."""
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
    """Return the remedy for a driver that is too old, or missing, which is reported as version 0."""
    runtime = cupy.cuda.runtime
    has, major = int(runtime.driverGetVersion()), int(runtime.runtimeGetVersion()) // 1000
    _, needs = MINIMUM_VERSIONS.get(major, MINIMUM_VERSIONS[13])
    if not has:
        return f"there is no NVIDIA driver here: CUDA {major} needs {needs} or newer, a container the NVIDIA Container Toolkit"
    other = ", or the extra `gpu-cu12`" if major != 12 and has >= 12000 else ""
    return f"the driver is for CUDA {has // 1000}.{has % 1000 // 10}: CUDA {major} needs driver {needs} or newer{other}"


# --- cuDF, and pandas beside it ---------------------------------------------------------------------------------------


def _check_dataframes() -> None:
    if (requirement := _wanted_pandas()) is not None:
        there = f"pandas {library_version('pandas')} is installed"
        raise GpuUnavailable(
            f"cuDF {library_version('cudf')} wants {requirement}, and {there}: install them together ({INSTALL_HINT})"
        )
    _import_library("cudf")


def _wanted_pandas() -> str | None:
    """Return cuDF's requirement of pandas if the installed pandas is too new for it, else None."""
    for distribution in _distributions().get("cudf", ()):
        for requirement in importlib.metadata.requires(distribution) or ():
            below = re.match(r"pandas\b[^;]*<\s*(\d+)\.(\d+)[^;]*$", requirement)
            if below and _version_tuple(library_version("pandas")) >= (int(below[1]), int(below[2])):
                return requirement
    return None


def _version_tuple(text: str) -> tuple[int, ...]:
    """Return major and minor of a version: `3.0.6` -> (3, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _import_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a damaged installation can raise anything
        beside = " beside ".join(f"{each} {library_version(each)}" for each in (name, "pandas", "numpy"))
        raise GpuUnavailable(
            f"{beside} cannot be imported: {_one_line(error)}; install it again ({INSTALL_HINT})"
        ) from None


def _one_line(error: Exception) -> str:
    """Return the message of an error on one line, cut at MAX_ERROR_LENGTH characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_ERROR_LENGTH else f"{text[:MAX_ERROR_LENGTH]} ..."
