"""Benchmark of the pipeline on a GPU against the CPU, on the same records; docs/how-to/gpu.md has the figures.

`make bench-gpu` runs it; or by itself:

    python -m pipelines.bench.gpu --page docs/how-to/gpu.md
    python -m pipelines.bench.gpu --only flatten,spectral
    python -m pipelines.bench.gpu --only training --entities 1000000

Without a device only the CPU is measured, and each figure of the device is replaced by the reason. The rows of training are those
of `pipelines.bench.training` and `fitting`, in processes of their own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.compute.cuda import library_version
from pipelines.bench.gpu_estimators import forecast_rows, training_rows
from pipelines.bench.gpu_pipeline import pipeline_rows, reading_rows
from pipelines.bench.gpu_report import (
    BenchmarkSide,
    GpuBenchmarkRow,
    section_header,
    write_page,
    write_section,
)
from pipelines.runtime import backend

OUT, PAGE = Path("docs/gpu-figures.json"), Path("docs/how-to/gpu.md")
TIME_LIMIT_SECONDS = 500  # no row begins later: a lent machine allows ten minutes for a command

Section = Callable[[BenchmarkSide, BenchmarkSide, argparse.Namespace], Iterator[GpuBenchmarkRow]]
SECTIONS: dict[str, Section] = {
    "flatten": reading_rows,
    "spectral": forecast_rows,
    "pipeline": pipeline_rows,
    "training": training_rows,
}


def main(argv: list[str] | None = None) -> None:
    """Measure the sections of the options."""
    options = _parse_arguments(argv)
    found = backend.load_backend("auto")
    run_sections(options, found if found.device == "cuda" else None, found.reason)


def _parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by comma (default: all)")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help="write the tables into this page")
    parser.add_argument(
        "--seconds", type=float, default=TIME_LIMIT_SECONDS, help="after which no row is begun"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the sizes: a look at all of it takes less"
    )
    parser.add_argument("--entities", help="fingerprints that are trained, by comma (default: 10000)")
    options = parser.parse_args(argv)
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(SECTIONS):
        parser.error(f"no section {sorted(unknown)[0]!r} (known: {', '.join(SECTIONS)})")
    return options


def run_sections(options: argparse.Namespace, device: Backend | None, why: str) -> dict[str, Any]:
    """Measure sections one after the other; a section is written again after each of its rows."""
    deadline = time.monotonic() + options.seconds
    cpu, other = BenchmarkSide(HOST_BACKEND, "", deadline), BenchmarkSide(device, why, deadline)
    about = section_header(
        device, why, {name: library_version(name) for name in backend.LIBRARIES if library_version(name)}
    )
    every: dict[str, Any] = {}
    for name in options.only:
        rows: list[GpuBenchmarkRow] = []
        for each in SECTIONS[name](cpu, other, options):
            rows.append(each)
            every = write_section(options.out, name, about, rows)
            Console().print(f"{name}: {each.what}: {_describe_row(each)}", markup=False, highlight=False)
        if options.page and every:
            write_page(options.page, every)
    return every


def _describe_row(row: GpuBenchmarkRow) -> str:
    sides = row.figures._asdict().items()
    return "; ".join(
        f"{name} {figure.value:,.1f} {row.unit} {figure.notes}"
        if figure.value is not None
        else f"{name} {figure.why}"
        for name, figure in sides
    )


if __name__ == "__main__":
    main()
