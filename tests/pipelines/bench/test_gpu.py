"""The bench of the GPU pipeline: what cannot be measured says why, and costs nothing that can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from fingerprint.compute.backend import HOST_BACKEND, Backend
from pipelines.bench import gpu, gpu_estimators, gpu_pipeline
from pipelines.bench.gpu_report import (
    BEGIN,
    END,
    BenchmarkSide,
    CpuAndDevice,
    Figure,
    GpuBenchmarkRow,
    section_header,
    write_page,
    write_section,
)
from pipelines.bench.organisations import replicate_events

WHY = "no device here"
FAKE = Backend("fake_cudf", "fake_cupy", "cuda", "the fakes of cuDF and CuPy")


def measured(tmp_path: Path, device: Backend | None, *asked: str) -> dict[str, Any]:
    out = tmp_path / "figures.json"
    gpu.run_sections(gpu._parse_arguments([*asked, "--out", str(out)]), device, WHY)
    sections: dict[str, Any] = json.loads(out.read_text())
    return sections


def test_without_a_device_the_cpu_is_measured_and_the_rest_says_why(tmp_path: Path) -> None:
    sections = measured(tmp_path, None, "--only", "flatten,spectral", "--share", "0.001")
    rows = [row for section in sections.values() for row in section["rows"]]
    assert len(rows) == 12
    assert all(row["device"]["why"] == f"not yet measured: {WHY}" for row in rows)
    assert all(row["cpu"]["value"] or "row above" in row["cpu"]["why"] for row in rows)
    assert {section["device"] for section in sections.values()} == {f"none ({WHY})"}


def test_with_one_both_are_measured_and_an_aim_is_met_or_not(tmp_path: Path) -> None:
    sections = measured(tmp_path, FAKE, "--only", "flatten,spectral", "--share", "0.0001")
    rows = [row for section in sections.values() for row in section["rows"]]
    assert all(row["device"]["value"] for row in rows), [row["device"]["why"] for row in rows]
    assert [row["met"] for row in rows if row["aim"]] == [
        row["device"]["value"] <= 1 for row in rows if row["aim"]
    ]


def test_a_row_that_breaks_says_so_and_the_next_is_measured() -> None:
    def breaks(by: Backend) -> None:
        raise MemoryError("cudaErrorMemoryAllocation:\nout of memory")

    side = BenchmarkSide(HOST_BACKEND)
    assert (
        side.measure_pace(1, breaks).why
        == "not yet measured: MemoryError: cudaErrorMemoryAllocation: out of memory"
    )
    assert side.measure_pace(1, lambda by: None).value


def test_no_row_is_begun_when_the_time_is_over() -> None:
    late = BenchmarkSide(HOST_BACKEND, deadline=0)
    assert late.measure_pace(1, lambda by: None) == Figure(
        None, "not yet measured: the time for this run was over"
    )


def test_a_section_measured_again_replaces_itself_alone(tmp_path: Path) -> None:
    out, about = tmp_path / "figures.json", section_header(None, WHY, {})
    rows = [
        GpuBenchmarkRow(
            "x", "y/s", CpuAndDevice(Figure(1.0), Figure(None, f"not yet measured: {WHY}")), aim=7
        )
    ]
    write_section(out, "first", about, rows)
    write_section(out, "second", about, rows)
    every = write_section(out, "first", about, rows * 2)
    assert {name: len(section["rows"]) for name, section in every.items()} == {"first": 2, "second": 1}


def test_the_page_has_the_tables_between_its_marks_and_nothing_else_is_touched(tmp_path: Path) -> None:
    file, out = tmp_path / "page.md", tmp_path / "figures.json"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    slow = GpuBenchmarkRow(
        "slow | odd",
        "s",
        CpuAndDevice(Figure(None, "a | b"), Figure(2.5, notes={"device_mib": 7})),
        1.0,
        True,
    )
    fast = GpuBenchmarkRow("fast", "events/s", CpuAndDevice(Figure(1000.0), Figure(2e6)), 1e6)
    absent = GpuBenchmarkRow(
        "absent", "s", CpuAndDevice(Figure(1.0), Figure(None, f"not yet measured: {WHY}"))
    )
    write_page(
        file,
        write_section(out, "pipeline", section_header(None, WHY, {"numpy": "2.4"}), [slow, fast, absent]),
    )
    text = file.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| slow / odd | a / b | 2.5 s |  | at most 1 s | **no** |" in text
    assert "| fast | 1,000 events/s | 2,000,000 events/s | 2000.0 | 1,000,000 events/s | yes |" in text
    assert "| absent | 1 s | not yet measured |  |  |  |" in text


def test_an_organisation_done_again_has_other_accounts_and_the_names_that_its_bank_knows() -> None:
    account, other = "111122223333", f"{111122223333 + 7919:012d}"
    line = b'{"recipientAccountId": "111122223333", "arn": "arn:aws:iam::111122223333:user/ann"}'
    lines = gpu_pipeline.replicate_organisations([line, line], {account}, 2)
    assert [each.count(account.encode()) for each in lines] == [2, 2, 0, 0]
    assert [each.count(other.encode()) for each in lines] == [0, 0, 2, 2]
    names = {"principal": f"{account}:user/ann", "entity": "e", "role": "r", "recipient_account": account}
    some = pa.Table.from_pandas(pd.DataFrame([{"event_id": "1", **names}]))
    assert [events["principal"].tolist() for events in replicate_events(some, 2)] == [
        [f"{account}:user/ann", f"{other}:user/ann"]
    ]


def test_what_a_training_does_not_say_is_not_made_up() -> None:
    told = {"skipped": "no CUDA device"}
    for figure in (
        gpu_estimators._seconds_figure,
        gpu_estimators._models_figure,
        gpu_estimators._scoring_figure,
    ):
        assert figure(told) == Figure(None, "not yet measured: no CUDA device")


@pytest.mark.gpu
def test_a_device_is_measured(tmp_path: Path) -> None:
    from pipelines.runtime.backend import load_backend

    sections = measured(
        tmp_path, load_backend("cuda"), "--only", "flatten,spectral,pipeline", "--share", "0.02"
    )
    rows = [row for section in sections.values() for row in section["rows"]]
    assert all(row["device"]["value"] for row in rows), [row["device"]["why"] for row in rows]
