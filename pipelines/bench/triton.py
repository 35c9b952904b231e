"""The rows of losses through Triton: calls to a server on the same cores, against the same calls in process.

The server is that of the tests (`tests/support/services/triton.py`), so these rows need a checkout.
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

from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Triton
from fingerprint.detection import batch
from fingerprint.detection.inference import LocalInference
from fingerprint.registry import bank_files
from fingerprint.state.scorer_state import ScorerState
from pipelines.bench.organisations import trained_organisation
from pipelines.bench.report import Skipped, benchmark

CHECKOUT = Path(__file__).parents[2]
BATCH_SIZES = (1, 256, 4096)  # rows of a call
ROWS = 40_960  # in all calls together
CALLS = 200  # at most

_exit_stack = ExitStack()


@contextmanager
def triton_benchmark_scope() -> Iterator[None]:
    """Keep the server of the rows alive while the block runs."""
    with _exit_stack:
        yield


def _rows_per_second(size: int) -> tuple[float, float]:
    """Return rows a second through Triton, and the ratio to rows a second in process."""
    far, near, rows = _call_seconds(size)
    return rows / sum(far), sum(near) / sum(far)


def _added_latency(size: int) -> tuple[float, float]:
    """Return how many microseconds longer the median call takes through Triton, and the ratio to the call in process."""
    far, near, _ = _call_seconds(size)
    return float(np.median(far) - np.median(near)) * 1e6, float(np.median(far) / np.median(near))


for _size in BATCH_SIZES:
    _what = f"{_size:,} {'rows' if _size > 1 else 'row'} a call"
    benchmark(f"losses through Triton, {_what}", "rows/s", "the same in process", None)(
        partial(_rows_per_second, _size)
    )
    benchmark(f"losses through Triton, {_what}, added to the median", "µs", "a call in process", None)(
        partial(_added_latency, _size)
    )


@cache
def _call_seconds(size: int) -> tuple[list[float], list[float], int]:
    """Return the seconds of each call through Triton and in process, which take turns, and the rows of all calls."""
    far, near = _inference_pair()
    fingerprint, codes = _query_events()
    starts = range(0, min(ROWS, CALLS * size, len(codes)), size)
    parts = [slice(start, start + size) for start in starts]
    took: tuple[list[float], list[float]] = ([], [])
    for losses in (far, near):  # once to warm up
        losses.losses(fingerprint[parts[0]], codes[parts[0]])
    for part in parts:
        for losses, seconds in zip((far, near), took, strict=True):
            start = time.perf_counter()
            losses.losses(fingerprint[part], codes[part])
            seconds.append(time.perf_counter() - start)
    return *took, sum(len(codes[part]) for part in parts)


@cache
def _query_events() -> tuple[Any, Any]:
    """Return the queries of a scorer for the days after training: fingerprint (N,) and codes (N, F)."""
    trained = trained_organisation()
    state = ScorerState.from_arrays(trained.settings, trained.bank.scorer_state)
    batches = [batch.encode_batch(events, state)[0] for events in trained.events]
    rows = [trained.bank.resolve(each.entity, each.principal, each.frame)[0] for each in batches]
    return np.concatenate(rows), np.concatenate([each.codes for each in batches])


@cache
def _inference_pair() -> tuple[Inference, Inference]:
    """Return inference by Triton with the bank loaded, and by this process.

    Raises Skipped if there is no server or no client.
    """
    from pipelines.commands.triton import load_into_server

    keep = _exit_stack.enter_context
    folder = Path(keep(tempfile.TemporaryDirectory(prefix="fingerprint-bench-")))
    services = _service_module()
    try:
        from fingerprint.adapters.triton.client import TritonInference

        server = keep(services.Triton.started(folder / "triton"))
    except (ImportError, services.Unavailable) as reason:
        raise Skipped(str(reason)) from None
    opened = trained_organisation().bank
    bank_files.publish_version(opened, folder / "bank")
    options = Triton(
        url=server.address,
        model_repository=str(server.repository),
        control_key_file=str(server.key_file),
        timeout_seconds=60,
    )
    load_into_server(folder / "bank", options)
    return keep(closing(TritonInference(opened.version, options))), LocalInference(opened)


def _service_module() -> Any:
    sys.path.insert(0, str(CHECKOUT))
    try:
        return importlib.import_module("tests.support.services.triton")
    except ImportError:
        raise Skipped("the server of the tests is not here; run it from a checkout") from None
    finally:
        sys.path.remove(str(CHECKOUT))
