"""The backend of this process: chosen by the settings, verified, with one memory pool, and announced once.

A device is used only if it reads some records exactly like the CPU (`verify_backend`).

Example:
    >>> backend = get_backend(settings)
    pandas and NumPy on the CPU: cuDF and CuPy are not installed (...)
    >>> bank = open_bank(folder).on(backend.to_device)
"""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from fingerprint.adapters import network_table
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import backend as backends
from fingerprint.compute.backend import Backend, BackendChoice
from fingerprint.compute.cuda import MAX_ERROR_LENGTH, CudaDevice, library_version
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.sources import backend_check
from fingerprint.sources.active import SOURCE

MAX_FFT_PLANS = 2  # cuFFT plans that are kept, one a direction; each holds as much memory as its input
POOL_SHARE = 8  # an idle pool keeps at most 1/8 of the device's memory; the rest goes back to the driver
LIBRARIES = ("cudf", "pylibcudf", "rmm", "cupy", "torch", "pandas", "numpy", "pyarrow", "duckdb")

log = get_logger("fingerprint.compute.backend")


def get_backend(settings: Settings) -> Backend:
    """Return the backend of the settings; announce it on standard error the first time in this process."""
    return load_backend_and_announce(settings.backend)


def open_history(
    settings: Settings, span: TimeRange = ALL_TIME, columns: Sequence[str] | None = None
) -> EventSpool:
    """Return an empty history on disk, which is read by the backend of the settings; with all columns, or with `columns`."""
    return EventSpool(
        settings,
        network_table.load_networks(settings.reading.networks_file),
        span,
        load_backend(settings.backend),
        columns=columns,
    )


@cache
def load_backend(setting: BackendChoice) -> Backend:
    """Return the verified backend of a setting. Raises FingerprintError if `cuda` is set, but missing or reads differently."""
    found = backends.choose_backend(setting)
    difference = verify_backend(found)
    if difference is None:
        return found
    if setting == "cuda":
        raise FingerprintError(f"backend cuda was asked for, but {difference}; or set backend to auto or cpu")
    return backends.cpu_backend(difference, is_misconfigured=True)


@cache
def verify_backend(backend: Backend) -> str | None:
    """Return None if the backend reads like the CPU, else the sentence on the difference. A device gets its memory pool here."""
    if backend.dataframe_library == backends.HOST_BACKEND.dataframe_library:
        return None
    library = backend.dataframe_library
    name = f"{backends.LIBRARY_NAMES.get(library, library)} {library_version(library)}".strip()
    try:
        if backend.device_info:
            _configure_memory_pool(backend.device_info)
        difference = backend_check.first_difference(backend.dataframe_library)
    except Exception as error:  # any error of a library or a driver: the device cannot read here
        reason = " ".join(str(error).split())[:MAX_ERROR_LENGTH]
        return f"{name} does not read what the CPU reads: {type(error).__name__}: {reason}"
    return f"{name} reads otherwise than the CPU: {difference}" if difference else None


def backend_report(setting: BackendChoice, prove: bool) -> dict[str, Any]:
    """Return the figures of `backend --json`; with `prove` the backend and the CPU read the same records, which takes a while."""
    there = backends.choose_backend(setting)
    found = load_backend("auto" if prove and setting == "cuda" else setting) if prove else there
    return {
        "tables": found.dataframe_library,
        "arrays": found.array_library,
        "device": found.device,
        "reason": found.reason,
        "trouble": found.is_misconfigured,
        "about": asdict(there.device_info) if there.device_info else None,
        "piece_bytes": found.batch_bytes,
        "versions": {name: library_version(name) for name in LIBRARIES if library_version(name)},
        "proof": _verification_report(there) if prove else None,
    }


def _verification_report(there: Backend) -> dict[str, Any]:
    return {
        "tables": there.dataframe_library,
        "lines": sum(map(len, SOURCE.check_batches())),
        "difference": verify_backend(there),
    }


def print_backend_report(report: dict[str, Any]) -> None:
    """Print the report for people."""
    where = "trouble" if report["trouble"] else "backend"
    print(f"{where}: {Backend(report['tables'], report['arrays'], report['device'], report['reason'])}")
    if about := report["about"]:
        cuda, driver = (
            f"{number // 1000}.{number % 1000 // 10}" for number in (about["cuda"], about["driver"])
        )
        print(
            f"CUDA {cuda}, the driver can {driver}; reads {report['piece_bytes'] / 2**20:,.0f} MiB of records at a time"
        )
    print(", ".join(f"{name} {number}" for name, number in report["versions"].items()))
    if report["proof"]:
        print(f"proof: {report['proof']['difference'] or _passed(**report['proof'])}")


def _passed(tables: str, lines: int, **_: Any) -> str:
    known = tables == backends.HOST_BACKEND.dataframe_library
    return (
        f"{tables} is what others are held to"
        if known
        else f"{lines} lines are read by {tables} as by pandas"
    )


@cache
def load_backend_and_announce(setting: BackendChoice) -> Backend:
    """Choose the backend, and print on stderr which it is, or why it is not the one of the settings."""
    found = load_backend(setting)
    print(f"{'warning: ' if found.is_misconfigured else ''}{found}", file=sys.stderr)
    return found


def log_backend(found: Backend) -> None:
    """Log the backend, for services."""
    fields = {
        "tables": found.dataframe_library,
        "arrays": found.array_library,
        "device": found.device,
        "reason": found.reason,
    }
    log.log(logging.WARNING if found.is_misconfigured else logging.INFO, "backend", **fields)


def _configure_memory_pool(device: CudaDevice) -> None:
    """Set up one memory pool, the driver's own, for cuDF and CuPy, so that neither of them holds half of the device.

    torch keeps a pool of its own: its statistics do not cover other pools, and memory that CUDA graphs use must not move. Only
    training uses torch beside cuDF. It reads first and fits afterwards, when the memory of the reading has been returned.
    """
    rmm, cupy = importlib.import_module("rmm"), importlib.import_module("cupy")
    cupy.get_default_memory_pool().free_all_blocks()  # of earlier tries of the device
    pool = rmm.mr.CudaAsyncMemoryResource(release_threshold=device.memory // POOL_SHARE)
    rmm.mr.set_current_device_resource(pool)
    cupy.cuda.set_allocator(importlib.import_module("rmm.allocators.cupy").rmm_cupy_allocator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # CuPy calls it experimental, but has no other
        cupy.fft.config.set_plan_cache_size(MAX_FFT_PLANS)
