"""A file is replaced whole, by one of several processes at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.registry import state_files
from fingerprint.state.scorer_state import ScorerState


def test_a_file_is_on_disk_before_it_takes_its_name_and_its_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    replace, fsync = os.replace, os.fsync

    def synced(handle: int) -> None:
        done.append(("sync", Path(os.readlink(f"/proc/self/fd/{handle}")).name))
        fsync(handle)

    def moved(staged: Path, file: Path) -> None:
        done.append(("move", staged.name))
        replace(staged, file)

    monkeypatch.setattr(os, "fsync", synced)
    private_files.replace_file(tmp_path / "file", lambda file: file.write_text("new"), publish=moved)
    staged = done[0][1]
    assert done == [("sync", staged), ("move", staged), ("sync", tmp_path.name)]
    assert ((tmp_path / "file").read_text(), (tmp_path / "file").stat().st_mode & 0o777) == ("new", 0o600)


def test_what_cannot_be_written_leaves_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")

    def fails(staged: Path) -> None:
        staged.write_text("half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        private_files.replace_file(tmp_path / "file", fails)
    with pytest.raises(FileExistsError):  # a link replaces nothing
        private_files.replace_file(tmp_path / "file", lambda file: file.write_text("new"), publish=os.link)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "old")]


def test_two_processes_with_one_number_write_under_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two containers on one volume, each of them process 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    state, names = ScorerState(Settings()), []

    def save(arrays: object, staged: Path, metadata: object) -> None:
        names.append(staged.name)
        if len(names) == 1:  # the other one saves while this one writes
            state_files.save_state(state, tmp_path)
        staged.write_bytes(b"")

    monkeypatch.setattr(state_files, "save_file", save)
    state_files.save_state(state, tmp_path)
    assert len(set(names)) == 2


def test_a_scorer_state_is_continued_by_one_run_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with state_files.locked_state(folder):
        with (
            pytest.raises(FingerprintError, match="another run continues the scorer state"),
            state_files.locked_state(folder),
        ):
            pass
        state_files.save_state(ScorerState(Settings()), folder)
    with state_files.locked_state(folder), state_files.locked_state(None):
        pass
    assert [each.name for each in folder.iterdir()] == [state_files.STATE_FILE]


def test_a_run_that_fails_at_once_leaves_no_folder_of_scorer_state(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), state_files.locked_state(tmp_path / "state"):
        raise ZeroDivisionError
    assert not (tmp_path / "state").exists()
