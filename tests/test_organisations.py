"""The organisations of other makers: the reader takes every record, labels are of records, a seed gives the same again."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from fingerprint.evaluation.labels import attack_labels, read_labels
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.flatten import flatten
from tests.support.organisations import hospital, records, service_provider
from tests.support.organisations.hospital_calls import parse_script
from tests.support.organisations.service_provider_calls import read_script

BUILDS = {"hospital": hospital.build, "service_provider": service_provider.build}


@dataclass(frozen=True)
class Built:
    """What a generator wrote: its figures, the lines of all days, and the labels as they are read."""

    figures: dict[str, Any]
    days: list[str]
    lines: list[bytes]
    labels: list[dict[str, Any]]


def build(name: str, seed: int) -> Built:
    with TemporaryDirectory() as folder:
        figures = BUILDS[name](seed, Path(folder), days=3, judged=2, activity=0.01)
        files = sorted(Path(folder).glob("*.jsonl.gz"))
        lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
        return Built(figures, [file.name[:10] for file in files], lines, read_labels([folder]))


@cache
def built(name: str) -> Built:
    return build(name, 1)


@pytest.mark.parametrize("name", BUILDS)
def test_the_reader_takes_every_record(name: str) -> None:
    result = flatten(split_lines(built(name).lines))
    assert result.rejects == []
    assert len(result.events) == len(built(name).lines) > 3000


@pytest.mark.parametrize("name", BUILDS)
def test_every_labelled_event_is_among_the_records_of_the_judged_days(name: str) -> None:
    made = built(name)
    when = {record["eventID"]: record["eventTime"] for record in map(json.loads, made.lines)}
    labels = attack_labels(made.labels)
    assert len(labels) == made.figures["attack_events"] > 1500
    assert all(when[event] >= made.figures["judged_from"] for event in labels["event_id"])


@pytest.mark.parametrize("name", BUILDS)
def test_sessions_are_of_many_kinds(name: str) -> None:
    made = built(name)
    assert len({label["session"] for label in made.labels}) == made.figures["sessions"] == 54
    assert len({label["kind"] for label in made.labels}) >= 12


@pytest.mark.parametrize("name", BUILDS)
def test_each_day_has_a_file(name: str) -> None:
    assert len(built(name).days) == 3 + 2
    assert built(name).figures["judged_from"] == built(name).days[3]


@pytest.mark.parametrize("name", BUILDS)
def test_a_seed_gives_the_same_again(name: str) -> None:
    assert build(name, 1) == built(name)


@pytest.mark.parametrize("read", [parse_script, read_script])
def test_what_is_no_call_is_refused(read: Any) -> None:
    with pytest.raises(ValueError, match="no call: GetObject"):
        read("s3:ListBuckets GetObject")


def test_tables_are_read_with_continued_lines_and_empty_cells() -> None:
    text = "\nweb  -  s3:GetObject\n    s3:PutObject\nworker  2\n    sqs:ReceiveMessage\n"
    rows = [["web", "", "s3:GetObject s3:PutObject"], ["worker", "2", "sqs:ReceiveMessage"]]
    assert records.read_table(text, columns=3) == rows
    with pytest.raises(ValueError, match="not 2 columns"):
        records.read_table("web  3  s3:GetObject", columns=2)


def test_the_command_line_prints_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[Any] = []

    def write(*arguments: Any) -> dict[str, Any]:
        given.extend(arguments)
        return {"records": 7}

    records.run_program(write, "text", ["5", str(tmp_path), "--judged", "2"])
    assert given == [5, tmp_path, 18, 2, 1.0]
    assert json.loads(capsys.readouterr().out) == {"records": 7}
