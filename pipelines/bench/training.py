"""A hundred thousand fingerprints trained: time, memory, bytes an entity.

`make bench-long` runs it; by itself, at any size:

    python -m pipelines.bench.training --entities 2000 --processes 2
    python -m pipelines.bench.training --entities 1000000 --device cuda --processes 16   # then scored on the device, too

The history is that of `organisations`. A process of its own learns it, by the stages of `fingerprint train`: it splits the
history into partitions, `--processes` processes learn these, and it writes the bank. The kernel gives the peak memory of each
process (VmHWM) while it runs. The sum over all processes counts pages that several of them map for each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from fingerprint.adapters.system import InProcessPool
from fingerprint.compute.arrays import Placement, identity_placement, to_torch
from fingerprint.core.alert import LEVELS
from fingerprint.core.ports.worker_pool import WorkerPool
from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.core.settings import Workers as Options
from fingerprint.detection.inference import LocalInference as InProcessLosses
from fingerprint.detection.triton_model import place_networks
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files
from fingerprint.training import pipeline
from pipelines.bench.gpu_report import peak_memory_mib, peak_throughput
from pipelines.bench.organisations import replicate_events, sample_events
from pipelines.bench.report import Skipped, merge_result
from pipelines.cli import console
from pipelines.runtime.host import peak_bytes_by_process

RESULTS_FILE = Path("build/bench-training.json")
ENTITIES, MILLION = 100_000, 1_000_000
PROCESSES = 2
TARGET_BYTES_PER_ENTITY = 20 * 1000  # bytes an entity, series apart
SCORED_ROWS, SCORED_ROWS_ON_DEVICE = 100_000, 2_000_000  # rows scored
POLL = 0.5  # seconds between two readings of the used memory
SAMPLE_FILE, RESULT_FILE = "few.parquet", "done.json"


def main(argv: list[str] | None = None) -> None:
    """Measure, or learn in the process that is measured."""
    arguments = _parse_arguments(argv)
    if arguments.folder:
        run_training(Path(arguments.folder), arguments.entities, arguments.processes, arguments.device)
    else:
        run_report(arguments.entities, arguments.processes, arguments.device)


def _parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entities", type=int, default=ENTITIES)
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--folder", help=argparse.SUPPRESS)  # where the learning process finds its history
    return parser.parse_args(argv)


def run_report(entities: int, processes: int, device: str, out: Path = RESULTS_FILE) -> dict[str, Any]:
    """Measure, write the figures beside those of other sizes in `out`, print them."""
    try:
        result = measure_training(entities, processes, device)
    except Skipped as reason:
        result = {"skipped": str(reason)}
    merge_result(out, f"{entities} on {device}", result)
    Console().print(_report_table(f"{entities:,} entities, {device}, {processes} processes", result, out))
    return result


def measure_training(entities: int, processes: int, device: str) -> dict[str, Any]:
    """Return the figures of the learning process, and the peak memory of that process and its children."""
    _check_device(device)
    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        pq.write_table(sample_events(), Path(folder) / SAMPLE_FILE)
        command = [sys.executable, "-m", "pipelines.bench.training", "--folder", folder, "--device", device]
        command += ["--entities", str(entities), "--processes", str(processes)]
        process = subprocess.Popen(command)  # noqa: S603
        held: dict[int, int] = {}
        while process.poll() is None:
            for pid, most in peak_bytes_by_process(process.pid).items():
                held[pid] = max(most, held.get(pid, 0))  # a process that is just ending shows 0
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
        if process.returncode:
            raise RuntimeError(f"the training ended with {process.returncode}")
        figures: dict[str, Any] = json.loads((Path(folder) / RESULT_FILE).read_text())
    sizes = sorted(held.values(), reverse=True)
    return {**figures, "peak_mib": sum(sizes) >> 20, "peak_mib_by_process": [size >> 20 for size in sizes]}


def _check_device(device: str) -> None:
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise Skipped("no CUDA device")
    if not Path("/proc/self/status").exists():
        raise Skipped("what processes held is asked of /proc, which is not here")


# --- in the process that learns ---------------------------------------------------------------------------------------


def run_training(folder: Path, entities: int, processes: int, device: str) -> None:
    """Learn, write the bank, and score from the memory of a device if there is one; write the figures to `folder`."""
    some = pq.read_table(folder / SAMPLE_FILE)
    copies = max(1, round(entities / len(some["entity"].unique())))
    settings = Settings(autoencoder=Autoencoder(device=device))
    with console.progress_bars() as progress:
        figures = _fit_bank(some, copies, folder, settings, processes, progress)
    if device == "cuda":
        figures |= {"device_mib": peak_memory_mib(device)} if processes == 1 else {}
        figures |= measure_scoring(
            bank_files.open_bank(folder / "bank", settings.bank), device, SCORED_ROWS_ON_DEVICE
        )
    (folder / RESULT_FILE).write_text(json.dumps(figures))


def _fit_bank(
    some: pa.Table, copies: int, folder: Path, settings: Settings, processes: int, progress: console.Progress
) -> dict[str, Any]:
    started, cpu = time.monotonic(), _core_seconds()
    pipeline.partition_history(
        replicate_events(some, copies), settings, folder / "work", len(some) * copies, progress
    )
    split = time.monotonic()
    with _worker_pool(processes) as workers:
        learned = pipeline.train_partitions(folder / "work", settings, progress, workers)
    fitted = time.monotonic()
    bank_files.publish_version(learned, folder / "bank")
    written = time.monotonic()
    return {
        **_bank_counts(learned),
        **_bytes_per_entity(folder / "bank", learned),
        "seconds": round(written - started, 1),
        "seconds_by_stage": {
            "split": round(split - started, 1),
            "learn": round(fitted - split, 1),
            "write": round(written - fitted, 1),
        },
        "core_seconds": round(_core_seconds() - cpu, 1),
    }


@contextmanager
def _worker_pool(processes: int) -> Iterator[WorkerPool]:
    if processes == 1:
        yield InProcessPool()
        return
    from fingerprint.adapters.worker_pool import open_dask_pool

    with open_dask_pool(Options(scheduler="dask", processes=processes)) as workers:
        yield workers


def _core_seconds() -> float:
    """Return the core seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _bank_counts(learned: banks.Bank) -> dict[str, Any]:
    level = learned.fingerprints["level"].to_numpy()
    ready = learned.fingerprints["ready"].to_numpy(bool)
    return {
        "events": int(learned.manifest["events"]),
        "fingerprints": {name: int((level == number).sum()) for number, name in enumerate(LEVELS)},
        "ready": {name: int(ready[level == number].sum()) for number, name in enumerate(LEVELS)},
    }


def _bytes_per_entity(folder: Path, learned: banks.Bank) -> dict[str, Any]:
    """Return the bytes on disk for each entity: of weights, encoder and tables of all levels, and of the series apart."""
    files = bank_files.read_manifest(folder / "versions" / learned.version)["files"]
    series = sum(each["bytes"] for name, each in files.items() if name.startswith("scorer_state"))
    entities = max(1, int((learned.fingerprints["level"] == 0).sum()))
    whole = sum(each["bytes"] for each in files.values())
    return {"bytes_an_entity": (whole - series) // entities, "series_bytes_an_entity": series // entities}


# --- from a device's memory -------------------------------------------------------------------------------------------


def measure_scoring(bank: banks.Bank, device: str, rows: int = SCORED_ROWS) -> dict[str, Any]:
    """Return the rows a second whose losses are computed, for fingerprints in random order.

    Their share of the device's peak bandwidth and arithmetic is beside them. With CuPy bank, events and losses stay on the device
    until the end; with torch alone only the networks are on the device.
    """
    there, place = _array_library(device)
    losses = InProcessLosses(bank.on(place) if there == "cupy" else place_networks(bank, place))
    queries = _random_queries(bank, rows)
    if there == "cupy":
        queries = place(queries[0]), place(queries[1])
    losses.losses(queries[0][:1024], queries[1][:1024])  # warm
    started = time.monotonic()
    loss, _ = losses.losses(*queries)
    float(loss.sum())  # waits for the device
    seconds = time.monotonic() - started
    read = rows * bytes_read_per_row(bank) / seconds
    peak = peak_throughput(device)
    return {
        "scored_by": there,
        "scored_rows": rows,
        "scored_seconds": round(seconds, 3),
        "scored_rows_a_second": round(rows / seconds),
        "net_bytes_a_second": round(read),
        "share_of_bandwidth": round(read / peak.bandwidth, 4) if peak else None,
        "share_of_arithmetic": round(rows * operations_per_row(bank) / seconds / peak.arithmetic, 4)
        if peak
        else None,
        "scored_device_mib": _pool_memory_mib(there),
    }


def _array_library(device: str) -> tuple[str, Placement]:
    """Return the library that computes losses on a device, and the function that places arrays on it."""
    if device == "cpu":
        return "numpy", identity_placement
    try:
        import cupy  # type: ignore[import-not-found]
    except ImportError:
        return "torch", lambda array: to_torch(array).to(device)
    return "cupy", cupy.asarray


def _pool_memory_mib(there: str) -> int | None:
    """Return the MiB of a device's memory in the pool of the library: in arrays, and kept for further ones."""
    if there == "cupy":
        import cupy

        return int(cupy.get_default_memory_pool().total_bytes()) >> 20
    return peak_memory_mib("cuda" if there == "torch" else "cpu")


def operations_per_row(bank: banks.Bank) -> int:
    """Return the operations of the products of one row, 2 for a multiplication and its addition: 2 G F H + 2 G K H.

    F features are seen from G, then K slots of each, by H hidden units.
    """
    free, slots, hidden = bank.weights.outputs.shape[1:]
    features = bank.weights.inputs.shape[1]
    return int(2 * free * hidden * (features + slots))


def _random_queries(bank: banks.Bank, rows: int) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Return ready fingerprints drawn at random (N,), and for each the codes (N, F) of a random event of the training."""
    random = np.random.default_rng(0)
    codes = np.asarray(bank.scorer_state["sample.codes"])
    ready = np.flatnonzero(bank.fingerprints["ready"].to_numpy(bool))
    return random.choice(ready, rows).astype(np.int32), codes[random.integers(0, len(codes), rows)]


def bytes_read_per_row(bank: banks.Bank) -> int:
    """Return bytes of bank that a row reads at least: bias, outputs and likelihoods of its network, one slot of each input."""
    nets, slots = bank.weights, bank.weights.inputs.shape[2]
    parts = (nets.bias[0], nets.outputs[0], bank.vocabulary.base[0], nets.inputs[0])
    bias, outputs, base, inputs = (int(part.nbytes) for part in parts)
    return bias + outputs + base + inputs // int(slots)


# --- the table --------------------------------------------------------------------------------------------------------


def _report_table(title: str, result: dict[str, Any], out: Path) -> Table:
    table = Table("what", "value", title=f"{title}; written to {out}")
    for name, value in result.items():
        table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
    if "bytes_an_entity" in result:
        met = "yes" if result["bytes_an_entity"] <= TARGET_BYTES_PER_ENTITY else "no"
        table.add_row(f"bytes an entity, at most {TARGET_BYTES_PER_ENTITY:,}", met)
    return table


if __name__ == "__main__":
    main()
