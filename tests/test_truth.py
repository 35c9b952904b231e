"""Labels: which events are an attack's, and where what is learned ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fingerprint.domain import FingerprintError
from fingerprint.edges.labels import read_labels
from fingerprint.evaluation.rows import Rows
from fingerprint.evaluation.truth import labelled, truth, where_to_split

DAY = 86400


def rows_at(*seconds: int) -> Rows:
    at = np.array(seconds, np.int64)
    frame = pd.DataFrame(
        {
            "event_id": [str(place) for place in range(len(at))],
            "event_time": pd.to_datetime(at, unit="s", utc=True),
            "principal": "p",
        }
    )
    none = np.zeros(len(at), np.uint64)
    return Rows(frame, none[:, None], none, at, none)


def attacks(*ids: str) -> pd.DataFrame:
    return truth({"event_id": name, "session": "s", "strength": "quiet"} for name in ids)


def test_setting_an_attack_up_is_not_attacking() -> None:
    lines = [
        {"eventID": "1", "label": "attack_setup", "technique": "t", "run": "r"},
        {"eventID": "2", "label": "attack", "technique": "t", "run": "r"},
        {"event_id": "3", "session": "s", "strength": "mimic"},
    ]
    assert truth(lines).to_numpy().tolist() == [["2", "t r", "real"], ["3", "s", "mimic"]]


def test_events_that_no_label_names_belong_to_no_session() -> None:
    events = labelled(rows_at(0, 10, 20), attacks("1", "elsewhere"))
    assert events["session"].notna().tolist() == [False, True, False]


def test_three_quarters_of_the_days_are_learned() -> None:
    rows = rows_at(*range(600, 28 * DAY, 3600))
    last = str(len(rows) - 1)
    assert where_to_split(rows, attacks(last)) == 21 * DAY


def test_a_first_attack_in_the_second_half_ends_what_is_learned() -> None:
    assert where_to_split(rows_at(*range(0, 100, 10)), attacks("6", "8")) == 60


def test_an_attack_in_the_first_half_stays_in_what_is_learned() -> None:
    assert where_to_split(rows_at(*range(0, 101, 10)), attacks("2", "9")) == 75


def test_labels_lie_beside_the_records_plain_or_compressed(tmp_path: Path) -> None:
    line = json.dumps({"event_id": "1"})
    (tmp_path / "labels.jsonl").write_text(line + "\n\n")
    other = tmp_path / "real"
    other.mkdir()
    (other / "labels.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    assert read_labels([str(tmp_path), str(other / "x.jsonl.gz")]) == [{"event_id": "1"}] * 2


@pytest.mark.parametrize("text", ["[1]\n", "{\n", '"x"\n'])
def test_labels_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.jsonl").write_text(text)
    with pytest.raises(FingerprintError, match=r"labels\.jsonl"):
        read_labels([str(tmp_path)])


def test_records_without_labels_cannot_be_evaluated(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="needs to know the attacks"):
        read_labels([str(tmp_path)])
