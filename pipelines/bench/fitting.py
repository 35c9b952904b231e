"""Nets fitted, and nothing else: how many a second, and how much of a device's memory, bandwidth and arithmetic that takes.

    python -m pipelines.bench.fitting --nets 2000
    python -m pipelines.bench.fitting --nets 1000000 --device cuda
    python -m pipelines.bench.fitting --nets 100000 --device cuda --replayed 0     # what graphs gain

The rows of some hundred fingerprints of a simulated organisation are learned again and again under other keys, ROUND at a time,
as a training learns one piece after the other: each net draws other numbers, and all have the sizes that such histories have.
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
from fingerprint.estimators.autoencoder import VISIBLE
from fingerprint.features.vocabulary import Vocabulary
from fingerprint.training import distinct_rows, fingerprint_index, partition_fit, pipeline, shared_priors
from fingerprint.training.dataset import Pieces
from fingerprint.training.nn import loop, trainer
from fingerprint.training.nn.batching import rows_of, slots_of
from fingerprint.training.nn.trainer import Rows, Start
from pipelines.bench import device as bench_device
from pipelines.bench.organisations import few
from pipelines.bench.report import kept
from pipelines.cli.console import silent

OUT = Path("build/bench-fitting.json")
ROUND = 50_000  # nets at a time: what they come home to takes 12 KB each of the host's memory


@dataclass(frozen=True)
class Work:
    """What a fit is given of E fingerprints, of which `ready` have nets to be fitted from `start`."""

    known: Vocabulary
    rows: Rows
    held_out: Rows
    ready: NDArray[np.intp]
    start: Start

    def again(self, times: int) -> Work:
        """The same fingerprints so many times."""
        known = replace(
            self.known,
            base=np.tile(self.known.base, (times, 1, 1)),
            codes=np.tile(self.known.codes, (times, 1, 1)),
            parent=np.zeros(times * len(self.known.parent), np.int32),
        )
        begin = np.arange(times)[:, None] * len(self.known.parent)
        rows, held_out = (_tiled(each, times) for each in (self.rows, self.held_out))
        return Work(known, rows, held_out, (begin + self.ready).ravel(), self.start)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nets", type=int, default=2_000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--replayed", type=int, help="bytes of the largest bucket that is replayed; 0: none")
    asked = parser.parse_args(argv)
    loop.REPLAYED = loop.REPLAYED if asked.replayed is None else asked.replayed
    result = measured(work(few(), Settings()), asked.nets, asked.device)
    kept(OUT, f"{asked.nets} on {asked.device}", result)
    print(json.dumps(result, indent=1))


def work(some: pa.Table, settings: Settings) -> Work:
    """One piece of a training, up to where its nets are fitted."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder:
        pipeline.split(iter([some.to_pandas()]), settings, Path(folder), len(some), silent)
        history = Pieces(Path(folder), **json.loads((Path(folder) / pipeline.SPLIT).read_text()))
        distinct_rows.collect(history, 0, settings=settings)
        fingerprint_index.leave(fingerprint_index.survey(history, settings), history)
        shared_priors.count(history, 0, settings=settings)
        shared_priors.learn(history, settings, None)
        return _of(partition_fit.Piece(history, 0, settings))


def _of(piece: partition_fit.Piece) -> Work:
    known = piece.vocabulary(piece.commons.early, piece.counts(~piece.late))
    early, late = (
        partition_fit._slots(piece, known, np.flatnonzero(which)) for which in (~piece.late, piece.late)
    )
    has_both = (early.counts[piece.ready] > 0) & (late.counts[piece.ready] > 0)
    return Work(known, early, late, piece.ready[has_both], piece.commons.start)


def _tiled(rows: Rows, times: int) -> Rows:
    begin = np.arange(times)[:, None] * rows.bounds[-1]
    return Rows(
        np.tile(rows.slots, (times, 1)),
        np.append((begin + rows.bounds[:-1]).ravel(), times * rows.bounds[-1]),
    )


def measured(some: Work, nets: int, device: str) -> dict[str, Any]:
    """Fit so many nets, all with the settings as they are."""
    options = Autoencoder(device=device)
    _fitted(some, options, 1)  # libraries set themselves up
    bench_device.forget_peak(device)
    seconds, done, passes = 0.0, 0, 0
    while done < nets:
        times = max(1, min(ROUND, nets - done) // len(some.ready))
        part = some.again(times)
        with _counted() as gone:
            started = time.monotonic()
            _fitted(part, options, 1 + done)
            seconds += time.monotonic() - started
        done, passes = done + len(part.ready), passes + sum(gone)
    steps = passes * loop.STEPS
    computed, bytes_ = step_of(some, options.hidden)
    peak = bench_device.peak(device)
    return {
        "nets": done,
        "seconds": round(seconds, 2),
        "models_a_second": round(done / seconds, 1),
        "epochs_a_net": round(passes / done, 2),
        "device_mib": bench_device.peak_mib(device),
        "share_of_bandwidth": round(steps * bytes_ / seconds / peak.bandwidth, 4) if peak else None,
        "share_of_arithmetic": round(steps * computed / seconds / peak.arithmetic, 5) if peak else None,
    }


def _fitted(some: Work, options: Autoencoder, seed: int) -> None:
    keys = np.arange(len(some.known.parent), dtype=np.uint64) + np.uint64(seed << 32)
    trainer.fit(some.known, some.rows, some.held_out, some.ready, options, start=some.start, keys=keys)


@contextmanager
def _counted() -> Iterator[list[int]]:
    """How many nets were in the stack, epoch by epoch."""
    gone: list[int] = []
    leave = loop.Run.leave

    def counting(run: loop.Run, home: loop.Home) -> None:
        gone.append(len(run.place))
        leave(run, home)

    loop.Run.leave = counting  # type: ignore[assignment, method-assign]
    try:
        yield gone
    finally:
        loop.Run.leave = leave  # type: ignore[method-assign]


def step_of(some: Work, hidden: int) -> tuple[float, float]:
    """Operations and bytes of a net's step, on average over nets."""
    codes = some.known.codes[some.ready]
    slots = slots_of(1 + (codes != 0).sum(2).max(1), codes.shape[2])
    rows = rows_of(some.rows.counts[some.ready])
    return float(operations(rows, slots, hidden).mean()), float(moved(rows, slots, hidden).mean())


def operations(rows: Any, slots: Any, hidden: int) -> Any:
    """Of a net's step with B rows and K slots, two for each multiplication of the products and its addition: F features in, G of
    them out, H hidden units. Hidden units and what is embedded 2 x 2 G F H B; logits, the outputs' gradient and the blame
    3 x 2 G K H B; the inputs' gradient 2 F K H B."""
    free, features = VISIBLE.shape
    return rows * hidden * (4 * free * features + slots * (6 * free + 2 * features))


def moved(rows: Any, slots: Any, hidden: int) -> Any:
    """Bytes of a net's step, 4 for each number read or written, each array once by every kernel that needs it: Adam reads and
    writes its N = (F + G) K H numbers 18 times (mean 3, square 2 + 4, root 2 + 2, mean x factor 2, parameter 3), the gradients
    take 4 N; then F B (2 H + K) and G B (8 H + 6 K) of what is computed on the way."""
    free, features = VISIBLE.shape
    numbers = (features + free) * slots * hidden
    return 4 * (22 * numbers + rows * (features * (2 * hidden + slots) + free * (8 * hidden + 6 * slots)))


if __name__ == "__main__":
    main()
