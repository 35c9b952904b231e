"""What a row of the GPU's bench is: the same work on the CPU and on a device, in one run; a figure, or why there is none.

Example:
    >>> cpu, device = Side(HOST), Side(None, "no CUDA device")
    >>> Row("forecasts", "series/s", Both(cpu.pace(10_000, run), device.pace(10_000, run)), aim=1e6)

A figure that cannot be had costs no other: whatever goes wrong is its reason. Rows of a section are written as one, with the
date, the device and the command that measured them, so that sections may be measured on different days.
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
from pipelines.bench.report import kept

BEGIN, END = "<!-- figures: make bench-gpu writes what follows -->", "<!-- end of figures -->"
NEVER = "not yet measured"
LOOK = 0.01  # seconds between two looks at how much of a device's memory is held


@dataclass(frozen=True)
class Figure:
    """A value, or why there is none; and what else was seen while it was measured."""

    value: float | None
    why: str = ""
    notes: dict[str, Any] = field(default_factory=dict)


class Both(NamedTuple):
    """Of the CPU and of a device."""

    cpu: Figure
    device: Figure


@dataclass(frozen=True)
class Row:
    """`aim` is the least value that the device is to have, or the greatest if `at_most`."""

    what: str
    unit: str
    figures: Both
    aim: float | None = None
    at_most: bool = False

    @property
    def met(self) -> bool | None:
        value = self.figures.device.value
        if self.aim is None or value is None:
            return None
        return value <= self.aim if self.at_most else value >= self.aim


@dataclass(frozen=True)
class Side:
    """Where something is measured: by a backend, if there is one; `deadline` is when no new row is begun."""

    by: Backend | None
    why: str = ""
    deadline: float = float("inf")

    def figure(self, run: Callable[[Backend], Figure]) -> Figure:
        """What `run` measures here; why not, where it cannot be."""
        if self.by is None:
            return Figure(None, f"{NEVER}: {self.why}")
        if time.monotonic() > self.deadline:
            return Figure(None, f"{NEVER}: the time for this run was over")
        try:
            return run(self.by)
        except Exception as error:  # whatever a library or a driver may say: the other rows are measured
            said = " ".join(str(error).split())[:300]
            return Figure(None, f"{NEVER}: {type(error).__name__}: {said}")

    def pace(self, number: int, run: Callable[[Backend], Any], times: int = 3) -> Figure:
        """So many things a second, by the fastest of some runs after a first one that is not counted."""
        return self.figure(lambda by: _pace(number, lambda: run(by), by, times))


def _pace(number: int, run: Callable[[], Any], by: Backend, times: int) -> Figure:
    with held(by) as notes:
        run()
        best, core = min(seconds(run, by) for _ in range(times))
    return Figure(number / best, notes=notes | {"s": round(best, 4), "core_s": round(core, 4)})


def seconds(run: Callable[[], Any], by: Backend) -> tuple[float, float]:
    """How long it takes until its work is done, and how much of it the CPU works: other work on the machine changes the first
    far more than the second. A device is asked to finish before and after."""
    wait(by)
    start, core = time.perf_counter(), time.process_time()
    run()
    wait(by)
    return time.perf_counter() - start, time.process_time() - core


def wait(by: Backend) -> None:
    """Until a device has done all that it was given."""
    if (cuda := _cuda(by)) is not None:
        cuda.Device().synchronize()


def _cuda(by: Backend) -> Any:
    return None if by.arrays == "numpy" else getattr(importlib.import_module(by.arrays), "cuda", None)


class held:
    """Gives notes in which, at the end, is the most of a device's memory that was held at once, by whomever (MiB)."""

    def __init__(self, by: Backend) -> None:
        self.cuda, self.over, self.most, self.notes = _cuda(by), Event(), 0, dict[str, Any]()

    def __enter__(self) -> dict[str, Any]:
        self.thread = Thread(target=self._look, daemon=True)
        if self.cuda is not None:
            self.thread.start()
        return self.notes

    def _look(self) -> None:
        while True:
            free, whole = self.cuda.runtime.memGetInfo()
            self.most = max(self.most, whole - free)
            if self.over.wait(LOOK):
                return

    def __exit__(self, *_: object) -> None:
        if self.cuda is not None:
            self.over.set()
            self.thread.join()
            self.notes["device_mib"] = self.most >> 20


# --- what is written ------------------------------------------------------------------------------------------------------


def header(by: Backend | None, why: str, versions: dict[str, str]) -> dict[str, Any]:
    """Of a section: when, by what command, on what."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join(["python -m pipelines.bench.gpu", *sys.argv[1:]]),
        "device": str(by.about) if by and by.about else f"none ({why})",
        "cpu": _processor(),
        "load": round(os.getloadavg()[0], 1),
        "versions": versions,
    }


def _processor() -> str:
    """What the kernel calls it, and how many of them there are."""
    try:
        about = Path("/proc/cpuinfo").read_text()
    except OSError:
        about = ""
    names = [line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else 'a processor'}"


def write(out: Path, section: str, about: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Puts a section in the place of what it was before; the others stay. Returns all."""
    return kept(out, section, {**about, "rows": [_plain(each) for each in rows]})


def _plain(row: Row) -> dict[str, Any]:
    figures = {name: asdict(figure) for name, figure in row.figures._asdict().items()}
    return {
        "what": row.what,
        "unit": row.unit,
        **figures,
        "aim": row.aim,
        "at_most": row.at_most,
        "met": row.met,
    }


def page(file: Path, sections: dict[str, Any]) -> None:
    """Writes the tables between the two marks of a page."""
    text = file.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(_tables(sections))
    file.write_text(f"{before}{BEGIN}\n\n{tables}\n{END}{after}")


def _tables(sections: dict[str, Any]) -> Iterator[str]:
    for name, section in sections.items():
        yield f"**{name}**, {section['date']}, `{section['command']}`"
        yield f"CPU: {section['cpu']}, load {section['load']} at the start. Device: {section['device']}."
        yield f"{_versions(section['versions'])}."
        yield ""
        yield "| what | CPU | device | ratio | aim | met |"
        yield "|---|---|---|---|---|---|"
        general = section["device"].removeprefix("none (").removesuffix(")")
        yield from (_line(each, general) for each in section["rows"])
        yield ""


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _line(row: dict[str, Any], general: str) -> str:
    """`general` is why there is no device: said above the table, it need not be said in each of its rows."""
    cpu, device = (_cell(row[side], row["unit"]).replace(f": {general}", "") for side in ("cpu", "device"))
    values = row["cpu"]["value"], row["device"]["value"]
    ratio = f"{values[1] / values[0]:.1f}" if values[0] and values[1] else ""
    bound = "at most " if row["at_most"] else ""
    aim = "" if row["aim"] is None else f"{bound}{_said(row['aim'])} {row['unit']}"
    met = {True: "yes", False: "**no**", None: ""}[row["met"]]
    return f"| {row['what'].replace('|', '/')} | {cpu} | {device} | {ratio} | {aim} | {met} |"


def _cell(figure: dict[str, Any], unit: str) -> str:
    if figure["value"] is None:
        return str(figure["why"]).replace("|", "/")
    notes = ", ".join(f"{name.replace('_', ' ')} {_said(value)}" for name, value in figure["notes"].items())
    return f"{_said(figure['value'])} {unit}" + (f" ({notes})" if notes else "")


def _said(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
