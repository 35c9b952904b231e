"""An alert store goes into a file for other systems, whole, and however large it is."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import tracemalloc
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fingerprint.core.alert import Disposition
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable
from fingerprint.store import evidence, open_store
from pipelines import cli
from pipelines.commands.alert_export import export_alerts
from tests.support.alerts import NASTY, nasty, new_pipeline, stolen_session

NOW = datetime(2026, 3, 6, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An alert store with two alerts, one of them judged, and one for each nasty string."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/alerts.sqlite"
    with closing(open_store(url)) as store:
        store.alerts.save([stolen_session(), new_pipeline()])
        store.alerts.save(
            [replace(nasty(text), alert_id=f"nasty-{place:02}") for place, text in enumerate(NASTY)]
        )
        store.cases.add_disposition(
            Disposition(stolen_session().alert_id, "true_positive", "maria", "=stolen", NOW, 9)
        )
    return url


def written(url: str, format: str, folder: Path) -> bytes:
    file = folder / f"alerts.{format}"
    assert export_alerts(url, format, file) == len(NASTY) + 2
    return file.read_bytes()


@pytest.mark.parametrize("format", ["jsonl", "ecs", "ocsf"])
def test_every_alert_is_a_line_the_most_urgent_first(url, tmp_path, format):
    lines = [json.loads(line) for line in written(url, format, tmp_path).splitlines()]
    assert len(lines) == len(NASTY) + 2
    urgency = {
        "jsonl": lambda line: line["urgency"],
        "ecs": lambda line: line["event"]["risk_score"],
        "ocsf": lambda line: line["risk_score"],
    }[format]
    assert sorted(map(urgency, lines), reverse=True) == list(map(urgency, lines))


def test_json_lines_hold_records_and_decisions(url, tmp_path):
    lines = {line["alert_id"]: line for line in map(json.loads, written(url, "jsonl", tmp_path).splitlines())}
    alert = lines[stolen_session().alert_id]
    assert (alert["decision"], alert["decided"]["why"]) == ("true_positive", "=stolen")
    assert [event["raw"] for event in alert["events"]] == [event.raw for event in stolen_session().events]
    for place, text in enumerate(NASTY):
        assert lines[f"nasty-{place:02}"]["human"] == storable(text)


def test_a_spreadsheet_gets_a_row_for_each_and_no_formula(url, tmp_path):
    rows = list(csv.DictReader(io.StringIO(written(url, "csv", tmp_path).decode(), newline="")))
    assert len(rows) == len(NASTY) + 2
    judged = next(row for row in rows if row["alert_id"] == stolen_session().alert_id)
    assert (judged["decision"], judged["why"]) == ("true_positive", "'=stolen")


def test_the_command_writes_to_standard_output_or_to_a_file(url, tmp_path, monkeypatch, capfdbinary):
    def call(*arguments: object) -> bytes:
        monkeypatch.setattr(
            sys, "argv", ["fingerprint", "alerts", "export", "--database", url, *map(str, arguments)]
        )
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        return capfdbinary.readouterr().out

    shown = call("--format", "csv")
    assert call("--format", "csv", "--out", tmp_path / "x.csv").startswith(
        f"{len(NASTY) + 2} alerts".encode()
    )
    assert (tmp_path / "x.csv").read_bytes() == shown


def test_a_file_appears_whole_or_not_at_all(url, tmp_path):
    with pytest.raises(FingerprintError, match="cannot be written"):
        export_alerts(url, "csv", tmp_path / "missing" / "x.csv")
    with pytest.raises(FingerprintError, match="no database"):
        export_alerts(f"sqlite:///{tmp_path}/none.sqlite", "csv", tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_written_and_not_replaced(tmp_path, tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('one')}/alerts.sqlite"
    with closing(open_store(url)) as store:
        store.alerts.save([new_pipeline()])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # a pipe holds 64 KiB
    try:
        assert export_alerts(url, "csv", pipe) == 1
        assert os.read(reader, 1 << 16).startswith(b'"alert_id"')
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_behind_a_link_the_file_is_written_and_the_link_stays(url, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link, file = tmp_path / "x.csv", tmp_path / "elsewhere" / "y.csv"
    link.symlink_to(file)
    export_alerts(url, "csv", link)
    assert link.is_symlink()
    assert file.read_bytes() == written(url, "csv", tmp_path)
    assert list(file.parent.iterdir()) == [file]


def test_memory_does_not_grow_with_the_store(tmp_path, monkeypatch):
    """Four times the alerts take no more memory, but for their ids: their records have 9 MB more."""
    raw = json.dumps({"requestParameters": "x" * 50_000})
    event = replace(new_pipeline().events[0], raw=raw)
    peaks = []
    monkeypatch.setattr(evidence, "EXPORT_BATCH", 25)
    for count in (60, 240):
        url = f"sqlite:///{tmp_path}/{count}.sqlite"
        with closing(open_store(url)) as store:
            store.alerts.save(
                [replace(new_pipeline(), alert_id=f"{at:06}", events=(event,)) for at in range(count)]
            )
        tracemalloc.start()
        export_alerts(url, "jsonl", tmp_path / "alerts.jsonl")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (tmp_path / "alerts.jsonl").stat().st_size > count * 50_000
    assert peaks[1] < peaks[0] + 1_000_000


def test_memory_does_not_grow_with_the_records_of_an_alert(tmp_path):
    """An attacker chooses how long records are, and how many an alert has."""
    raw = json.dumps({"requestParameters": "x" * 100_000})
    one, peaks = new_pipeline().events[0], []
    for count in (60, 240):
        url = f"sqlite:///{tmp_path}/{count}.sqlite"
        events = tuple(replace(one, event_id=f"{at:06}", raw=raw) for at in range(count))
        with closing(open_store(url)) as store:
            store.alerts.save([replace(new_pipeline(), events=events)])
        tracemalloc.start()
        export_alerts(url, "jsonl", tmp_path / "alerts.jsonl")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        [alert] = map(json.loads, (tmp_path / "alerts.jsonl").read_text().splitlines())
        assert [event["raw"] for event in alert["events"]] == [raw] * count
    assert peaks[1] < 1.3 * peaks[0]
