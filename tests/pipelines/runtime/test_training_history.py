"""A training's history is read once for the same request, and laid out for the stages that learn it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.time_range import parse_time_range
from fingerprint.sources import arrival
from fingerprint.sources.arrival import wall_clock_ms
from fingerprint.training import pipeline
from pipelines.cli.console import no_progress
from pipelines.runtime import training_history
from pipelines.runtime.training_data import TrainingDataRequest
from tests.streaming.test_rekeying import record
from tests.support.sample_organisation import SETTINGS, write


@pytest.fixture
def request_(tmp_path: Path) -> TrainingDataRequest:
    """A request for one file of five records, one of them unreadable."""
    return TrainingDataRequest(
        [str(write(tmp_path / "day.jsonl", [*(record(n) for n in range(4)), b"{not json"]))]
    )


def test_a_history_is_read_once(tmp_path: Path, request_: TrainingDataRequest) -> None:
    work = tmp_path / "work"
    work.mkdir()
    read = training_history.read_history_once(request_, SETTINGS, work, no_progress)
    assert (read["records"], read["rejects"], len(read["reasons"])) == (5, 1, 1)
    split = json.loads((training_history.history_folder(work) / pipeline.SPLIT_FILE).read_text())
    assert split["count"] == 1
    assert len(training_history.read_dispositions(work)) == 0
    Path(request_.sources[0]).unlink()
    assert training_history.read_history_once(request_, SETTINGS, work, no_progress) == read


def test_a_history_is_read_again_when_it_is_more_than_a_day_old(
    tmp_path: Path, request_: TrainingDataRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic has the same name whatever it holds: what resumed days later was served over newer banks."""
    work, began, now = tmp_path / "work", wall_clock_ms(), [0.0]
    work.mkdir()
    monkeypatch.setattr(arrival, "wall_clock_ms", lambda: began + int(now[0] * 3_600_000))

    def records() -> int:
        read = training_history.read_history_once(request_, SETTINGS, work, no_progress)
        return int(read["records"])

    assert records() == 5
    write(Path(request_.sources[0]), [record(9)])
    found = []
    for now[0] in (23.9, 24.1, 48.0, 48.2, 24.0):  # at last the clock was set back
        found.append(records())
        write(Path(request_.sources[0]), [record(n) for n in range(len(found) + 1)])
    assert found == [5, 2, 2, 4, 5]
    (work / "read.json").unlink()
    assert records() == 6


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_history_whose_record_is_cut_off_is_read_again(
    tmp_path: Path, request_: TrainingDataRequest, cut: int
) -> None:
    """A disk that was full for a moment: every training of the next day failed on what it left."""
    work = tmp_path / "work"
    work.mkdir()
    read = training_history.read_history_once(request_, SETTINGS, work, no_progress)
    record_of_it = work / training_history.READ_FILE
    whole = record_of_it.read_bytes()
    record_of_it.write_bytes(whole[:cut])
    assert training_history.read_history_once(request_, SETTINGS, work, no_progress) == read
    assert json.loads(record_of_it.read_text())["figures"] == read


def test_only_the_same_request_has_the_same_fingerprint(request_: TrainingDataRequest) -> None:
    known = training_history.training_fingerprint(request_, SETTINGS)
    assert training_history.training_fingerprint(request_, SETTINGS) == known
    others = [replace(request_, topic="events"), replace(request_, span=parse_time_range(None, None, 3))]
    assert all(training_history.training_fingerprint(other, SETTINGS) != known for other in others)
    Path(request_.sources[0]).write_bytes(record(1))
    assert training_history.training_fingerprint(request_, SETTINGS) != known


def test_a_file_that_was_replaced_by_one_of_equal_size_is_another_training(tmp_path: Path) -> None:
    """A log, or the table of networks: an interrupted training went on with what it had read of the one before."""
    log, networks = tmp_path / "day.jsonl", tmp_path / "networks.csv"
    settings = SETTINGS.model_copy(
        update={"reading": SETTINGS.reading.model_copy(update={"networks_file": str(networks)})}
    )
    networks.write_text("10.0.0.0/8,office\n")
    log.write_bytes(record(1))
    wanted = TrainingDataRequest([str(log)])
    known = training_history.training_fingerprint(wanted, settings)
    for file, content in ((log, record(2)), (networks, b"10.0.0.0/8,guests\n")):
        before = file.read_bytes()
        assert len(content) == len(before)
        file.write_bytes(content)
        os.utime(file, (0, 0))
        changed = training_history.training_fingerprint(wanted, settings)
        assert changed != known
        known = changed


def test_another_release_does_not_go_on_with_what_this_one_left(
    tmp_path: Path, request_: TrainingDataRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It crashed on it with every attempt, until the history was a day old, or mixed stages of both."""
    assert {folder.name for folder in training_history.CODE_FOLDERS} == {"fingerprint", "pipelines"}
    module = tmp_path / "fingerprint" / "training" / "fit.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr(training_history, "CODE_FOLDERS", [tmp_path / "fingerprint"])

    def known_after(text: str) -> dict[str, object]:
        module.write_text(text)
        return training_history.training_fingerprint(request_, SETTINGS)

    before = known_after("RATE = 0.1\n")
    assert known_after("RATE = 0.1\n") == before != known_after("RATE = 0.2\n")
    module.rename(module.with_name("fitting.py"))
    assert (
        len({str(each) for each in (before, training_history.training_fingerprint(request_, SETTINGS))}) == 2
    )


def test_a_source_that_is_missing_is_named_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="no such file"):
        training_history.training_fingerprint(TrainingDataRequest([str(tmp_path / "none.json")]), SETTINGS)
