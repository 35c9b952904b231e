"""Networks fitted, and nothing else: how many a second, and how much of a device's memory, bandwidth and arithmetic that takes.

    python -m pipelines.bench.fitting --nets 2000
    python -m pipelines.bench.fitting --nets 1000000 --device cuda
    python -m pipelines.bench.fitting --nets 100000 --device cuda --replayed 0     # what graphs gain

The rows of some hundred fingerprints of a simulated organisation are learned repeatedly under other keys,
FINGERPRINTS_PER_PARTITION at a time, as a training learns one partition after the other. Each network draws other random numbers,
and all have realistic sizes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.estimators.autoencoder import VISIBLE_MASK
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.training import distinct_rows, fingerprint_index, partition_fit, pipeline, shared_priors
from fingerprint.training.dataset import PartitionedDataset
from fingerprint.training.nn import hyperparameters, loop, trainer
from fingerprint.training.nn.batching import fitted_slots, rows_per_step
from fingerprint.training.nn.trainer import InitialWeights, SlotRows
from fingerprint.training.partition_context import PartitionContext
from pipelines.bench.gpu_report import peak_memory_mib, peak_throughput, reset_peak_memory
from pipelines.bench.organisations import sample_events
from pipelines.bench.report import merge_result
from pipelines.cli.console import no_progress

RESULTS_FILE = Path("build/bench-fitting.json")
FINGERPRINTS_PER_PARTITION = 50_000  # nets at a time; the result of each takes 12 KB of the host's memory


@dataclass(frozen=True)
class FitInput:
    """Input of a fit of E fingerprints; those at `ready` have networks, which are fitted from the weights `start`."""

    vocabulary: Vocabulary
    rows: SlotRows
    held_out: SlotRows
    ready: NDArray[np.intp]
    start: InitialWeights

    def repeated(self, times: int) -> FitInput:
        """Return the same fingerprints `times` times."""
        known = replace(
            self.vocabulary,
            base=np.tile(self.vocabulary.base, (times, 1, 1)),
            codes=np.tile(self.vocabulary.codes, (times, 1, 1)),
            parent=np.zeros(times * len(self.vocabulary.parent), np.int32),
        )
        begin = np.arange(times)[:, None] * len(self.vocabulary.parent)
        rows, held_out = (_repeat_rows(each, times) for each in (self.rows, self.held_out))
        return FitInput(known, rows, held_out, (begin + self.ready).ravel(), self.start)


def main(argv: list[str] | None = None) -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nets", type=int, default=2_000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--replayed", type=int, help="bytes of the largest bucket that is replayed; 0: none")
    arguments = parser.parse_args(argv)
    loop.MAX_GRAPH_BYTES = loop.MAX_GRAPH_BYTES if arguments.replayed is None else arguments.replayed
    result = measure_fit(prepare_fit(sample_events(), Settings()), arguments.nets, arguments.device)
    merge_result(RESULTS_FILE, f"{arguments.nets} on {arguments.device}", result)
    print(json.dumps(result, indent=1))


def prepare_fit(some: pa.Table, settings: Settings) -> FitInput:
    """Run one partition of a training up to the fit of its nets, and return the input of that fit."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        pipeline.partition_history(iter([some.to_pandas()]), settings, Path(folder), len(some), no_progress)
        history = PartitionedDataset(
            Path(folder), **json.loads((Path(folder) / pipeline.SPLIT_FILE).read_text())
        )
        distinct_rows.collect_rows(history, 0, settings=settings)
        fingerprint_index.save_index(fingerprint_index.build_index(history, settings), history)
        shared_priors.count_shared(history, 0, settings=settings)
        shared_priors.fit_shared(history, settings, None)
        return _fit_input(PartitionContext(history, 0, settings))


def _fit_input(context: PartitionContext) -> FitInput:
    known = context.build_vocabulary(
        context.priors.training_counts, context.count_presences(~context.held_out, context.ready_before)
    )
    early, late = (
        partition_fit._slot_rows(context, known, np.flatnonzero(which))
        for which in (~context.held_out, context.held_out)
    )
    has_both = (early.counts[context.ready] > 0) & (late.counts[context.ready] > 0)
    return FitInput(known, early, late, context.ready[has_both], context.priors.initial_weights)


def _repeat_rows(rows: SlotRows, times: int) -> SlotRows:
    begin = np.arange(times)[:, None] * rows.bounds[-1]
    return SlotRows(
        np.tile(rows.slots, (times, 1)),
        np.append((begin + rows.bounds[:-1]).ravel(), times * rows.bounds[-1]),
    )


def measure_fit(some: FitInput, nets: int, device: str) -> dict[str, Any]:
    """Fit `nets` nets with the default settings, and return the figures."""
    options = Autoencoder(device=device)
    _fit(some, options, 1)  # warm-up of the libraries
    reset_peak_memory(device)
    seconds, done, passes = 0.0, 0, 0
    while done < nets:
        times = max(1, min(FINGERPRINTS_PER_PARTITION, nets - done) // len(some.ready))
        part = some.repeated(times)
        with _count_nets_per_epoch() as gone:
            started = time.monotonic()
            _fit(part, options, 1 + done)
            seconds += time.monotonic() - started
        done, passes = done + len(part.ready), passes + sum(gone)
    steps = passes * hyperparameters.STEPS_PER_EPOCH
    computed, bytes_ = step_cost(some, hyperparameters.HIDDEN_UNITS)
    peak = peak_throughput(device)
    return {
        "nets": done,
        "seconds": round(seconds, 2),
        "models_a_second": round(done / seconds, 1),
        "epochs_a_net": round(passes / done, 2) if passes else None,  # compiled nets are not watched
        "device_mib": peak_memory_mib(device),
        "share_of_bandwidth": round(steps * bytes_ / seconds / peak.bandwidth, 4) if peak else None,
        "share_of_arithmetic": round(steps * computed / seconds / peak.arithmetic, 5) if peak else None,
    }


def _fit(some: FitInput, options: Autoencoder, seed: int) -> None:
    keys = np.arange(len(some.vocabulary.parent), dtype=np.uint64) + np.uint64(seed << 32)
    trainer.fit_autoencoders(
        some.vocabulary, some.rows, some.held_out, some.ready, options, start=some.start, keys=keys
    )


@contextmanager
def _count_nets_per_epoch() -> Iterator[list[int]]:
    """Yield a list that gets the number of nets in the stack at each epoch."""
    gone: list[int] = []
    leave = loop.TrainingLoop.retire_finished

    def counting(run: loop.TrainingLoop, on_finished: loop.OnFinished) -> None:
        gone.append(len(run.positions))
        leave(run, on_finished)

    loop.TrainingLoop.retire_finished = counting  # type: ignore[assignment, method-assign]
    try:
        yield gone
    finally:
        loop.TrainingLoop.retire_finished = leave  # type: ignore[method-assign]


def step_cost(some: FitInput, hidden: int) -> tuple[float, float]:
    """Return operations and bytes of a network's step, on average over networks."""
    codes = some.vocabulary.codes[some.ready]
    slots = fitted_slots(1 + (codes != 0).sum(2).max(1), codes.shape[2])
    rows = rows_per_step(some.rows.counts[some.ready])
    return float(operations_per_step(rows, slots, hidden).mean()), float(
        bytes_per_step(rows, slots, hidden).mean()
    )


def operations_per_step(rows: Any, slots: Any, hidden: int) -> Any:
    """Return the operations of a network's step with B rows and K slots.

    Each multiplication of the products and its addition are two: F features in, G of them out, H hidden units. Hidden units and
    what is embedded 2 x 2 G F H B; logits, the outputs' gradient and the blame 3 x 2 G K H B; the inputs' gradient 2 F K H B.
    """
    free, features = VISIBLE_MASK.shape
    return rows * hidden * (4 * free * features + slots * (6 * free + 2 * features))


def bytes_per_step(rows: Any, slots: Any, hidden: int) -> Any:
    """Return the bytes of a network's step, 4 for each number read or written, each array once by every kernel that needs it.

    Adam reads and writes its N = (F + G) K H numbers 18 times (mean 3, square 2 + 4, root 2 + 2, mean x factor 2, parameter 3),
    the gradients take 4 N; then F B (2 H + K) and G B (8 H + 6 K) of what is computed on the way.
    """
    free, features = VISIBLE_MASK.shape
    numbers = (features + free) * slots * hidden
    return 4 * (22 * numbers + rows * (features * (2 * hidden + slots) + free * (8 * hidden + 6 * slots)))


if __name__ == "__main__":
    main()
