"""The backend of this process: chosen, given one pool of memory, proved, and said once.

Example:
    >>> backend = chosen(settings)            # the first time it says which, and why
    pandas and NumPy on the CPU: cuDF and CuPy are not installed (...)
    >>> bank = open_bank(folder).on(backend.place)

A device has to prove its reading before anything that matters is read by it (`proof`); one that fails is not used.
"""

from __future__ import annotations

import importlib
import logging
import sys
from dataclasses import asdict
from functools import cache
from typing import Any

from fingerprint.adapters import network_table
from fingerprint.adapters.event_spool import History
from fingerprint.compute import backend as backends
from fingerprint.compute.backend import Backend, Choice
from fingerprint.compute.cuda import LONGEST, Device, version
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import EVER, Span
from fingerprint.features import backend_check

PLANS = 2  # of cuFFT that are kept: there and back; each holds memory as large as what it transforms
KEPT_SHARE = 8  # of the device's memory the pool keeps so much when it is idle; what it holds beyond goes back to the driver
LIBRARIES = ("cudf", "pylibcudf", "rmm", "cupy", "torch", "pandas", "numpy", "pyarrow", "duckdb")

log = logging.getLogger("fingerprint.compute.backend")


def chosen(settings: Settings) -> Backend:
    """The backend of the settings; said on standard error the first time in this process."""
    return said_once(settings.backend)


def history(settings: Settings, span: Span = EVER) -> History:
    """An empty history that is read by the backend of the settings; whoever has people before him says which (`chosen`). What
    lies in it lies on disk, and comes back as tables of the host."""
    return History(settings, network_table.load(settings.reading.networks), span, ready(settings.backend))


@cache
def ready(setting: Choice) -> Backend:
    """The backend of a setting, proved. FingerprintError where `cuda` is asked for and not to be had, or reads otherwise."""
    found = backends.choose(setting)
    wrong = proved(found)
    if wrong is None:
        return found
    if setting == "cuda":
        raise FingerprintError(f"backend cuda was asked for, but {wrong}; or set backend to auto or cpu")
    return backends.on_cpu(wrong, trouble=True)


@cache
def proved(backend: Backend) -> str | None:
    """None where the backend reads what the CPU reads, as the CPU itself does; else one sentence. A device has its pool then."""
    if backend.tables == backends.HOST.tables:
        return None
    name = f"{backends.NAMES.get(backend.tables, backend.tables)} {version(backend.tables)}".strip()
    try:
        if backend.about:
            _share_memory(backend.about)
        wrong = backend_check.difference(backend.tables)
    except Exception as error:  # whatever a library or a driver may say: it is not fit to read here
        said = " ".join(str(error).split())[:LONGEST]
        return f"{name} does not read what the CPU reads: {type(error).__name__}: {said}"
    return f"{name} reads otherwise than the CPU: {wrong}" if wrong else None


def figures(setting: Choice, prove: bool) -> dict[str, Any]:
    """The figures of `backend --json`; to prove what there is takes a while, to see what there is does not."""
    there = backends.choose(setting)
    found = ready("auto" if prove and setting == "cuda" else setting) if prove else there
    return {
        "tables": found.tables,
        "arrays": found.arrays,
        "device": found.device,
        "reason": found.reason,
        "trouble": found.trouble,
        "about": asdict(there.about) if there.about else None,
        "piece_bytes": found.piece_bytes,
        "versions": {name: version(name) for name in LIBRARIES if version(name)},
        "proof": _proof(there) if prove else None,
    }


def _proof(there: Backend) -> dict[str, Any]:
    return {
        "tables": there.tables,
        "lines": sum(map(len, backend_check.corpora())),
        "difference": proved(there),
    }


def print_figures(said: dict[str, Any]) -> None:
    """For people."""
    where = "trouble" if said["trouble"] else "backend"
    print(f"{where}: {Backend(said['tables'], said['arrays'], said['device'], said['reason'])}")
    if about := said["about"]:
        cuda, driver = (
            f"{number // 1000}.{number % 1000 // 10}" for number in (about["cuda"], about["driver"])
        )
        print(
            f"CUDA {cuda}, the driver can {driver}; reads {said['piece_bytes'] / 2**20:,.0f} MiB of records at a time"
        )
    print(", ".join(f"{name} {number}" for name, number in said["versions"].items()))
    if said["proof"]:
        print(f"proof: {said['proof']['difference'] or _passed(**said['proof'])}")


def _passed(tables: str, lines: int, **_: Any) -> str:
    known = tables == backends.HOST.tables
    return (
        f"{tables} is what others are held to"
        if known
        else f"{lines} lines are read by {tables} as by pandas"
    )


@cache
def said_once(setting: Choice) -> Backend:
    found = ready(setting)
    print(f"{'warning: ' if found.trouble else ''}{found}", file=sys.stderr)
    return found


def log_choice(found: Backend) -> None:
    """Say it in the log, for programs that run on."""
    fields = {"tables": found.tables, "arrays": found.arrays, "device": found.device, "reason": found.reason}
    log.log(logging.WARNING if found.trouble else logging.INFO, "backend", extra={"fields": fields})


def _share_memory(device: Device) -> None:
    """One pool for cuDF and CuPy, the driver's own: whoever needs memory has it, nobody holds half a device for himself.

    torch keeps its own beside it: its statistics do not know another's, and what its graphs have recorded must stay where it
    is. It lies beside cuDF only in a training, which reads first and fits then; what reading held has gone back by then.
    """
    rmm, cupy = importlib.import_module("rmm"), importlib.import_module("cupy")
    cupy.get_default_memory_pool().free_all_blocks()  # of what was tried before
    pool = rmm.mr.CudaAsyncMemoryResource(release_threshold=device.memory // KEPT_SHARE)
    rmm.mr.set_current_device_resource(pool)
    cupy.cuda.set_allocator(importlib.import_module("rmm.allocators.cupy").rmm_cupy_allocator)
    cupy.fft.config.set_plan_cache_size(PLANS)
