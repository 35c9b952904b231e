"""Speed and memory as ratios in one run: `make bench` prints the table and writes build/bench.json.

`report` defines a row. The rows of the reader are in `reading`, those of `fingerprint stream` in `stream` and `in_memory`, those
of the queue in `queue`. docs/explanation/performance.md explains how to read them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.bench.organisations import organisation_files, sample_events, trained_organisation
from pipelines.bench.report import Skipped, benchmark, fastest_interleaved, run_benchmarks

if TYPE_CHECKING:
    from fingerprint.training.nn.trainer import TrainingData

RESULTS_FILE = Path("build/bench.json")


@benchmark(
    "spectral forecasts, 1,000 series x 1,440 intervals", "series/s", "NumPy, one series at a time", None
)
def forecast_pace() -> tuple[float, float]:
    """Forecast counts of a daily rhythm; the other side uses NumPy's transforms, quantile and median on one series at a time."""
    from fingerprint.estimators import spectral

    random = np.random.default_rng(0)
    rhythm = np.clip(np.sin(np.arange(1440) * 2 * np.pi / 24), 0, None)
    series = random.poisson(random.gamma(1, 3, (1000, 1)) * rhythm).astype(np.float32)
    ours, plain = fastest_interleaved(
        lambda: spectral.forecast(series, 24, 0.9), lambda: [_plain_forecast(each) for each in series]
    )
    return len(series) / ours, plain / ours


def _plain_forecast(series: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    spectrum = np.fft.rfft(series)
    power = np.abs(spectrum) ** 2
    spectrum[1:][power[1:] < np.quantile(power[1:], 0.9)] = 0
    kept = np.maximum(np.fft.irfft(spectrum, n=len(series)), 0)
    return kept[:24], float(1.4826 * np.median(np.abs(series - kept)))


@benchmark("training, core seconds of it all", "models/core-minute", "no other", None)
def training_pace() -> tuple[float, float]:
    """Count the fingerprints that become ready in a minute of one core, from events in memory to the bank."""
    trained = trained_organisation()
    return int(trained.bank.fingerprints["ready"].sum()) / trained.core_seconds * 60, 1.0


@benchmark("fitting networks, compiled, one core", "networks/s", "the same in PyTorch", 1)
def fitting_pace() -> tuple[float, float]:
    """Fit the networks of a sample, with the default settings and one thread: by `compiled`, and by `stacked` on the CPU."""
    try:
        import torch

        from fingerprint.training.nn import stacked
    except ModuleNotFoundError:
        raise Skipped("torch is not installed: the extra `train`") from None
    from fingerprint.core.settings import Autoencoder, Settings
    from fingerprint.training.nn.trainer import CompiledFitter, fit_autoencoders
    from pipelines.bench.fitting import prepare_fit

    class OneThread(CompiledFitter):
        def __init__(self, data: TrainingData) -> None:
            super().__init__(data)
            self.threads = 1

    some = prepare_fit(sample_events(), Settings())
    arguments = (some.vocabulary, some.rows, some.held_out, some.ready, Autoencoder())
    torch.set_num_threads(1)
    compiled, in_torch = fastest_interleaved(
        lambda: fit_autoencoders(*arguments, start=some.start, make_fitter=OneThread),
        lambda: fit_autoencoders(
            *arguments,
            start=some.start,
            make_fitter=lambda data: stacked.StackedFitter(data, torch.device("cpu")),
        ),
        times=3,
    )
    return len(some.ready) / compiled, in_torch / compiled


@benchmark("scoring, prepared events to verdicts, a core second", "events/core s", "no other", None)
def scoring_pace() -> tuple[float, float]:
    """Score full batches by `Scorer.measure` and `judge_closed`."""
    events = trained_organisation().events
    start = time.process_time()
    _score_batches(events)
    return sum(map(len, events)) / (time.process_time() - start), 1.0


def _score_batches(batches: list[pd.DataFrame]) -> None:
    from fingerprint.compute import frames, hashing
    from fingerprint.detection.scorer import Scorer
    from fingerprint.state.pipeline_state import PipelineState
    from fingerprint.state.scorer_state import ScorerState

    trained = trained_organisation()
    scorer = Scorer(
        trained.bank,
        PipelineState(ScorerState.from_arrays(trained.settings, trained.bank.scorer_state)),
        trained.settings,
    )
    for events in batches:
        scorer.measure(events)
        scorer.scorer_state.observe_time(
            frames.epoch_seconds(events["event_time"]), hashing.hash_with_bucket(events["principal"])
        )
        scorer.judge_closed()
        scorer.scorer_state.expire()
    scorer.judge_closed(include_open=True)


@cache
def _score_a_million() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures of `score --json` on the first quarter of a million records, and on all; one process each."""
    from fingerprint.registry import bank_files

    with (
        organisation_files(120, 45) as days,
        tempfile.TemporaryDirectory(prefix="fingerprint-bench-") as folder,
    ):
        bank_files.publish_version(trained_organisation().bank, Path(folder) / "bank")
        quarter, whole = (_run_score(files, Path(folder)) for files in (days[: len(days) // 4], days))
    return quarter, whole


def _run_score(files: list[str], folder: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "pipelines.cli",
        "score",
        *files,
        "--json",
        "--bank",
        str(folder / "bank"),
    ]
    database = f"sqlite:///{folder}/{len(files)}.sqlite"
    done = subprocess.run([*command, "--database", database], capture_output=True, check=True, text=True)  # noqa: S603
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@benchmark("score, files to alert store, a million records", "records/s", "no other", None)
def end_to_end_pace() -> tuple[float, float]:
    """Run the whole program, start included, on 120 principals that the bank does not know."""
    _, whole = _score_a_million()
    return whole["records"] / whole["seconds"], 1.0


@benchmark(
    "score, peak memory of a million records", "MiB", "the peak of their first quarter", 1.2, at_most=True
)
def peak_memory() -> tuple[float, float]:
    """Take the resident memory of the whole process."""
    quarter, whole = _score_a_million()
    return whole["peak_memory_bytes"] / 2**20, whole["peak_memory_bytes"] / quarter["peak_memory_bytes"]


def main(argv: list[str] | None = None) -> None:
    """Run all rows, or those that `--only` names."""
    parser = argparse.ArgumentParser(description="Measure speed and memory as ratios, in one run.")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name holds this text")
    only = parser.parse_args(argv).only
    from pipelines.bench import dfencoder, in_memory, queue, reading, steps, stream, triton  # noqa: F401 - their rows after these

    with stream.stream_benchmark_scope(), triton.triton_benchmark_scope(), queue.full_store():
        run_benchmarks(RESULTS_FILE, only)
