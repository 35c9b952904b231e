"""The rows of losses through Triton: a caller beside the server, on the same cores, against the same call in process.

The server is that of the tests (`tests/services/triton.py`), so these rows need a checkout.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fingerprint.core.ports import Losses
from fingerprint.core.settings import Triton
from fingerprint.detection import batch
from fingerprint.detection.inference import InProcess
from fingerprint.registry import bank as banks
from fingerprint.state.scorer_state import Ledger
from pipelines.bench.organisation import learned
from pipelines.bench.report import Skipped, row

TESTS = Path(__file__).parents[2] / "tests"
SIZES = (1, 256, 4096)  # rows of a call
ROWS = 40_960  # asked in all, but at most so many ...
CALLS = 200  # ... calls

_until_the_end = ExitStack()


@contextmanager
def place() -> Iterator[None]:
    """What the rows start lives as long as this block."""
    with _until_the_end:
        yield


def _rows_a_second(size: int) -> tuple[float, float]:
    """Through Triton; and how that compares."""
    far, near, asked = _seconds(size)
    return asked / sum(far), sum(near) / sum(far)


def _added_latency(size: int) -> tuple[float, float]:
    """Microseconds that the median call takes longer; and how many times as long it takes."""
    far, near, _ = _seconds(size)
    return float(np.median(far) - np.median(near)) * 1e6, float(np.median(far) / np.median(near))


for _size in SIZES:
    _what = f"{_size:,} {'rows' if _size > 1 else 'row'} a call"
    row(f"losses through Triton, {_what}", "rows/s", "the same in process", None)(
        partial(_rows_a_second, _size)
    )
    row(f"losses through Triton, {_what}, added to the median", "µs", "a call in process", None)(
        partial(_added_latency, _size)
    )


@cache
def _seconds(size: int) -> tuple[list[float], list[float], int]:
    """Of each call through Triton and in process, taken in turns; and rows in all."""
    far, near = _measurers()
    fingerprint, codes = _events()
    starts = range(0, min(ROWS, CALLS * size, len(codes)), size)
    parts = [slice(start, start + size) for start in starts]
    took: tuple[list[float], list[float]] = ([], [])
    for losses in (far, near):  # once to warm up
        losses.of(fingerprint[parts[0]], codes[parts[0]])
    for part in parts:
        for losses, seconds in zip((far, near), took, strict=True):
            start = time.perf_counter()
            losses.of(fingerprint[part], codes[part])
            seconds.append(time.perf_counter() - start)
    return *took, sum(len(codes[part]) for part in parts)


@cache
def _events() -> tuple[Any, Any]:
    """What the scorer would ask: fingerprint (N,), codes (N, F) of the days after training."""
    known = learned()
    ledger = Ledger.from_arrays(known.settings, known.bank.ledger)
    batches = [batch.prepare(events, ledger)[0] for events in known.events]
    rows = [known.bank.resolve(each.entity, each.principal, each.frame)[0] for each in batches]
    return np.concatenate(rows), np.concatenate([each.codes for each in batches])


@cache
def _measurers() -> tuple[Losses, Losses]:
    """Triton with the bank loaded, and this process. Skipped where there is no server, or nothing to ask it with."""
    from pipelines.commands.triton import run_load

    keep = _until_the_end.enter_context
    folder = Path(keep(tempfile.TemporaryDirectory(prefix="fingerprint-bench-")))
    services = _services()
    try:
        from fingerprint.adapters.triton.client import TritonLosses

        server = keep(services.Triton.started(folder / "triton"))
    except (ImportError, services.Unavailable) as reason:
        raise Skipped(str(reason)) from None
    opened = learned().bank
    banks.publish(opened, folder / "bank")
    options = Triton(
        url=server.address,
        repository=str(server.repository),
        key_file=str(server.key_file),
        seconds=60,
    )
    run_load(folder / "bank", options)
    return keep(closing(TritonLosses(opened.version, options))), InProcess(opened)


def _services() -> Any:
    sys.path.insert(0, str(TESTS))
    try:
        return importlib.import_module("services.triton")
    except ImportError:
        raise Skipped("the server of the tests is not here; run it from a checkout") from None
    finally:
        sys.path.remove(str(TESTS))
