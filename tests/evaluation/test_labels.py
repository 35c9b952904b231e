"""Labels: which events are an attack's, and where what is learned ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.core.errors import FingerprintError
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.evaluation.labels import (
    attack_labels,
    choose_split_time,
    join_labels,
    read_labels,
)


def judged(*ids: str) -> pd.DataFrame:
    """Judged events with these ids, a second apart."""
    names = hashing.hash_strings(pd.Series(ids, dtype=object))
    none = np.zeros(len(ids), np.uint64)
    time = np.arange(len(ids)) * 1_000_000
    return pd.DataFrame({"event": names, "time": time, "principal": none, "group": none})


def attacks(*ids: str) -> pd.DataFrame:
    return attack_labels({"event_id": name, "session": "s", "strength": "quiet"} for name in ids)


def test_setting_an_attack_up_is_not_attacking() -> None:
    lines = [
        {"eventID": "1", "label": "attack_setup", "technique": "t", "run": "r"},
        {"eventID": "2", "label": "attack", "technique": "t", "run": "r"},
        {"event_id": "3", "session": "s", "strength": "mimic"},
    ]
    assert attack_labels(lines).to_numpy().tolist() == [["2", "t r", "real"], ["3", "s", "mimic"]]


def test_events_that_no_label_names_belong_to_no_session() -> None:
    events = join_labels(judged("0", "1", "2"), attacks("1", "elsewhere"))
    assert events["session"].astype(object).where(events["session"].notna(), None).tolist() == [
        None,
        "s",
        None,
    ]
    assert events["strength"].notna().tolist() == [False, True, False]
    assert join_labels(judged("0"), attacks())["session"].isna().all()


def times(*seconds: int) -> NDArray[np.int64]:
    return np.array(seconds, np.int64)


def test_three_quarters_of_the_days_are_learned() -> None:
    assert choose_split_time(600, 28 * DAY_SECONDS - 3000, times(27 * DAY_SECONDS)) == 21 * DAY_SECONDS


def test_a_first_attack_in_the_second_half_ends_what_is_learned() -> None:
    assert choose_split_time(0, 90, times(60, 80)) == 60


def test_an_attack_in_the_first_half_stays_in_what_is_learned() -> None:
    assert choose_split_time(0, 100, times(20, 90)) == 75


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
