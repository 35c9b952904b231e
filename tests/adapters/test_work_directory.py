"""A folder for work that takes long: what runs that were killed left goes, and what a run uses stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fingerprint.adapters.work_directory import ABANDONED_SECONDS, remove_abandoned, work_directory


def killed(root: Path, name: str, idle_seconds: float = 0) -> Path:
    """Leave the folder of a run that was killed, so long ago."""
    folder = root / name
    (folder / "history").mkdir(parents=True)
    (folder / "lock").touch()
    then = time.time() - idle_seconds
    os.utime(folder, (then, then))
    return folder


def test_what_killed_runs_left_is_removed_and_what_others_use_stays(tmp_path: Path) -> None:
    left, other = killed(tmp_path, "train-1"), killed(tmp_path, "score-1")
    with (
        work_directory(tmp_path, "train", {"run": 1}) as mine,
        work_directory(tmp_path, "train", {"run": 2}) as theirs,
    ):
        remove_abandoned(tmp_path, "train", 0)
        assert not left.exists()
        assert all(each.exists() for each in (other, mine, theirs))
    assert [each.name for each in tmp_path.iterdir()] == [other.name]


@pytest.mark.parametrize(
    ("idle_seconds", "stays"), [(ABANDONED_SECONDS - 60, True), (ABANDONED_SECONDS + 60, False)]
)
def test_where_runs_share_a_folder_what_may_still_be_resumed_stays(
    tmp_path: Path, idle_seconds: float, stays: bool
) -> None:
    left = killed(tmp_path, "train-1", idle_seconds)
    remove_abandoned(tmp_path, "train")
    assert left.exists() == stays


def test_without_a_folder_there_is_nothing_to_remove(tmp_path: Path) -> None:
    remove_abandoned(tmp_path / "none", "train")
    killed(tmp_path / "work", "train-1")
    remove_abandoned(tmp_path / "work", "train", 0)
    assert not (tmp_path / "work").exists(), "it was the last"
