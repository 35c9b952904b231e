"""Rows of the GPU's bench: the same work on the CPU and on a device in one run, each with a figure or the reason for none.

Example:
    >>> cpu, device = BenchmarkSide(HOST_BACKEND), BenchmarkSide(None, "no CUDA device")
    >>> figures = CpuAndDevice(cpu.measure_pace(10_000, run), device.measure_pace(10_000, run))
    >>> GpuBenchmarkRow("forecasts", "series/s", figures, aim=1e6).is_met       # None: there is no device

If a figure cannot be measured, the error is its reason, and the other figures are still measured. The rows of a section are
written together, with their date, device and command, so sections may be measured on different days.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from fingerprint.compute.backend import Backend
from pipelines.bench.report import merge_result

BEGIN, END = "<!-- figures: make bench-gpu writes what follows -->", "<!-- end of figures -->"
NOT_MEASURED = "not yet measured"
POLL_SECONDS = 0.01  # between two readings of the used memory of a device
# float32 units of a multiprocessor, by compute capability (CUDA C++ programming guide, "arithmetic instructions"): 64 on
# Volta, Turing and A100, else 128
FP32_UNITS_PER_SM = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}


@dataclass(frozen=True)
class Figure:
    """A value, or the reason why there is none, with notes from its measurement."""

    value: float | None
    why: str = ""
    notes: dict[str, Any] = field(default_factory=dict)


class CpuAndDevice(NamedTuple):
    """The figures of the CPU and of a device."""

    cpu: Figure
    device: Figure


@dataclass(frozen=True)
class GpuBenchmarkRow:
    """A row of the table. `aim` is the least value that the device should reach, or the greatest if `at_most`."""

    what: str
    unit: str
    figures: CpuAndDevice
    aim: float | None = None
    at_most: bool = False

    @property
    def is_met(self) -> bool | None:
        """True if the device meets the aim; None without an aim or a figure."""
        value = self.figures.device.value
        if self.aim is None or value is None:
            return None
        return value <= self.aim if self.at_most else value >= self.aim


@dataclass(frozen=True)
class BenchmarkSide:
    """One side of the comparison: a backend, or the reason for none. No new row begins after `deadline`."""

    backend: Backend | None
    unavailable_reason: str = ""
    deadline: float = float("inf")

    def figure(self, run: Callable[[Backend], Figure]) -> Figure:
        """Return what `run` measures here, or why it cannot be measured."""
        if self.backend is None:
            return Figure(None, f"{NOT_MEASURED}: {self.unavailable_reason}")
        if time.monotonic() > self.deadline:
            return Figure(None, f"{NOT_MEASURED}: the time for this run was over")
        try:
            return run(self.backend)
        except Exception as error:  # any error of a library or a driver must not stop the other rows
            reason = " ".join(str(error).split())[:300]
            return Figure(None, f"{NOT_MEASURED}: {type(error).__name__}: {reason}")

    def measure_pace(self, number: int, run: Callable[[Backend], Any], times: int = 3) -> Figure:
        """Return the pace of `number` things a second, by the fastest of some runs after a warm-up."""
        return self.figure(lambda by: _measure_pace(number, lambda: run(by), by, times))


def _measure_pace(number: int, run: Callable[[], Any], by: Backend, times: int) -> Figure:
    with PeakDeviceMemory(by) as notes:
        run()
        best, core = min(time_run(run, by) for _ in range(times))
    return Figure(number / best, notes=notes | {"s": round(best, 4), "core_s": round(core, 4)})


def time_run(run: Callable[[], Any], backend: Backend) -> tuple[float, float]:
    """Return the seconds and the core seconds of a run; other work on the machine changes the first far more.

    A device is synchronised before and after.
    """
    synchronize(backend)
    start, core = time.perf_counter(), time.process_time()
    run()
    synchronize(backend)
    return time.perf_counter() - start, time.process_time() - core


def synchronize(backend: Backend) -> None:
    """Wait until a device has finished all its work."""
    if (cuda := _cuda_module(backend)) is not None:
        cuda.Device().synchronize()


def _cuda_module(by: Backend) -> Any:
    return (
        None
        if by.array_library == "numpy"
        else getattr(importlib.import_module(by.array_library), "cuda", None)
    )


class PeakDeviceMemory:
    """A context manager whose notes have, at its end, the peak of a device's memory (MiB) that all processes used together."""

    def __init__(self, backend: Backend) -> None:
        self.cuda = _cuda_module(backend)
        self.finished = Event()
        self.peak_bytes = 0
        self.notes = dict[str, Any]()

    def __enter__(self) -> dict[str, Any]:
        self.thread = Thread(target=self._poll, daemon=True)
        if self.cuda is not None:
            self.thread.start()
        return self.notes

    def _poll(self) -> None:
        while True:
            free, whole = self.cuda.runtime.memGetInfo()
            self.peak_bytes = max(self.peak_bytes, whole - free)
            if self.finished.wait(POLL_SECONDS):
                return

    def __exit__(self, *_: object) -> None:
        if self.cuda is not None:
            self.finished.set()
            self.thread.join()
            self.notes["device_mib"] = self.peak_bytes >> 20


# --- what is written ------------------------------------------------------------------------------------------------------


def section_header(backend: Backend | None, why: str, versions: dict[str, str]) -> dict[str, Any]:
    """Return date, command and machine of a section."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join(["python -m pipelines.bench.gpu", *sys.argv[1:]]),
        "device": str(backend.device_info) if backend and backend.device_info else f"none ({why})",
        "cpu": _describe_processor(),
        "load": round(os.getloadavg()[0], 1),
        "versions": versions,
    }


def _describe_processor() -> str:
    """Return the number of processors, and their name in the kernel."""
    try:
        about = Path("/proc/cpuinfo").read_text()
    except OSError:
        about = ""
    names = [line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else 'a processor'}"


def write_section(
    out: Path, section: str, about: dict[str, Any], rows: Sequence[GpuBenchmarkRow]
) -> dict[str, Any]:
    """Write a section in place of its earlier version; other sections stay. Return all sections."""
    return merge_result(out, section, {**about, "rows": [_row_as_json(each) for each in rows]})


def _row_as_json(row: GpuBenchmarkRow) -> dict[str, Any]:
    figures = {name: asdict(figure) for name, figure in row.figures._asdict().items()}
    return {
        "what": row.what,
        "unit": row.unit,
        **figures,
        "aim": row.aim,
        "at_most": row.at_most,
        "met": row.is_met,
    }


def write_page(file: Path, sections: dict[str, Any]) -> None:
    """Write the tables between the two marks of a page; only the file of `write_section` has the notes of figures."""
    text = file.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(_section_tables(sections))
    file.write_text(f"{before}{BEGIN}\n\n{tables}\n{END}{after}")


def _section_tables(sections: dict[str, Any]) -> Iterator[str]:
    machine = ""
    for name, section in sections.items():
        yield f"**{name}**, {section['date']}, load {section['load']} at the start, `{section['command']}`"
        yield ""
        if machine != (
            machine
            := f"CPU: {section['cpu']}. Device: {section['device']}. {_versions(section['versions'])}."
        ):
            yield machine
            yield ""
        if all(row["device"]["value"] is None for row in section["rows"]):
            yield "| what | CPU | aim of a device |"
            yield "|---|---|---|"
            yield from (_cpu_line(each) for each in section["rows"])
            yield ""
            continue
        yield "| what | CPU | device | ratio | aim | met |"
        yield "|---|---|---|---|---|---|"
        general = section["device"].removeprefix("none (").removesuffix(")")
        yield from (_table_line(each, general) for each in section["rows"])
        yield ""


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _table_line(row: dict[str, Any], general: str) -> str:
    """Return a row of a table with both sides.

    `general` is the reason why there is no device. It stands above the table, so it is left out of each row.
    """
    cpu, device = (
        _format_cell(row[side], row["unit"]).replace(f": {general}", "") for side in ("cpu", "device")
    )
    values = row["cpu"]["value"], row["device"]["value"]
    ratio = f"{values[1] / values[0]:.1f}" if values[0] and values[1] else ""
    aim = _format_aim(row)
    met = {True: "yes", False: "**no**", None: ""}[row["met"]]
    return f"| {row['what'].replace('|', '/')} | {cpu} | {device} | {ratio} | {aim} | {met} |"


def _cpu_line(row: dict[str, Any]) -> str:
    """Return the row of a table without columns of a device; the line above the table says that there was none."""
    return (
        f"| {row['what'].replace('|', '/')} | {_format_cell(row['cpu'], row['unit'])} | {_format_aim(row)} |"
    )


def _format_aim(row: dict[str, Any]) -> str:
    bound = "at most " if row["at_most"] else ""
    return "" if row["aim"] is None else f"{bound}{_format_value(row['aim'])} {row['unit']}"


def _format_cell(figure: dict[str, Any], unit: str) -> str:
    if figure["value"] is None:
        return str(figure["why"]).replace("|", "/")
    return f"{_format_value(figure['value'])} {unit}"


def _format_value(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# --- what a device could do at most ---------------------------------------------------------------------------------


class PeakThroughput(NamedTuple):
    """The peak throughput of a device, by the facts of its driver.

    `bandwidth` is in bytes of memory a second, `arithmetic` in float32 operations a second; a multiplication and its addition are
    two.
    """

    bandwidth: float
    arithmetic: float


def peak_throughput(device: str) -> PeakThroughput | None:
    """Return the peak throughput of a device; None on a CPU, or if the driver does not give the facts."""
    if device != "cuda":
        return None
    import torch

    about = torch.cuda.get_device_properties(0)
    names = ("memory_clock_rate", "memory_bus_width", "clock_rate", "multi_processor_count")
    memory_khz, bits, khz, count = (getattr(about, name, None) for name in names)
    if not (memory_khz and bits and khz and count):
        return None
    units = FP32_UNITS_PER_SM.get((about.major, about.minor), 128)
    # the memory transfers on both edges of its clock, hence the factor 2
    return PeakThroughput(2 * memory_khz * 1000 * bits / 8, 2 * khz * 1000 * units * count)


def reset_peak_memory(device: str) -> None:
    """Start to measure the peak memory of torch again."""
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()


def peak_memory_mib(device: str) -> int | None:
    """Return the peak memory in MiB that torch held of the device since `reset_peak_memory`; None on a CPU."""
    if device != "cuda":
        return None
    import torch

    return torch.cuda.max_memory_reserved() >> 20
