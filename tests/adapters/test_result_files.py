"""The file of scored events says of each why it has no verdict, and takes the place of no link or pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from fingerprint.adapters.result_files import ResultWriter
from fingerprint.core.settings import Settings

EVENTS = pd.DataFrame(  # of four events: z's and votes, by detector
    {
        "autoencoder_z": [3.5, 3.5, 2.0, 0.1],
        "autoencoder_vote": [True, True, True, False],
        "spectral_z": [2.0, float("nan"), 2.0, 0.0],
        "spectral_vote": [True, False, True, False],
        "sequence_z": [0.0, 0.0, 2.5, 0.0],
        "sequence_vote": [False, False, True, False],
        "verdict": [True, False, False, False],
    }
).assign(
    **dict.fromkeys(("autoencoder_threshold", "spectral_threshold", "sequence_threshold"), 1.5),
    **dict.fromkeys(("event_id", "principal", "entity", "service", "action", "bank_version"), "x"),
    event_time=pd.Timestamp("2026-03-02", tz="UTC"),
    alert_threshold=3.2,
    alert_id=None,
    level="entity",
    newcomer=False,
    degraded=False,
)


def test_the_reason_is_the_first_thing_that_an_event_lacks(tmp_path: Path) -> None:
    with ResultWriter(tmp_path / "events.parquet", Settings()) as results:
        results.write(EVENTS)
    written = pd.read_parquet(tmp_path / "events.parquet")
    expected = [None, "no second vote", "below the alert threshold", "no vote"]
    assert written["reason"].astype(object).where(written["reason"].notna(), None).tolist() == expected
    assert "reason" not in EVENTS, "what is written belongs to others"


def test_behind_a_link_the_file_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, file = tmp_path / "x.jsonl", tmp_path / "elsewhere" / "y.jsonl"
    link.symlink_to(file)
    with ResultWriter(link, Settings()) as results:
        results.write(EVENTS)
    assert link.is_symlink()
    assert len(file.read_text().splitlines()) == len(EVENTS)
    assert list(file.parent.iterdir()) == [file]


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "x.jsonl"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # a pipe holds 64 KiB
    try:
        with ResultWriter(pipe, Settings()) as results:
            results.write(EVENTS)
        assert len(os.read(reader, 1 << 16).splitlines()) == len(EVENTS)
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
