"""Steps that were done stay done for the same simulation; another one, or a file of something else, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.simulation.live_progress import ProgressFile

SMALL = {"principals": 12, "days": 4, "seed": 58}


def test_a_step_that_was_recorded_is_known_after_a_restart(tmp_path: Path) -> None:
    steps = ProgressFile(tmp_path, SMALL)
    assert "until" not in steps
    steps.record("until", "2026-03-18")
    steps.record("past", 3000)
    again = ProgressFile(tmp_path, SMALL)
    assert "past" in again
    assert "rest" not in again
    assert again.figures() == {"folder": str(tmp_path), **SMALL, "until": "2026-03-18", "past": 3000}
    assert [file.name for file in tmp_path.iterdir()] == ["progress.json"], "nothing half written is left"


def test_another_simulation_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    ProgressFile(tmp_path, SMALL).record("until", "2026-03-18")
    with pytest.raises(FingerprintError, match=r"another live simulation \(--principals 12, .* --seed 58\)"):
        ProgressFile(tmp_path, SMALL | {"seed": 59})


@pytest.mark.parametrize("text", ["{", "[]", "12"])
def test_a_file_of_something_else_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "progress.json").write_text(text)
    with pytest.raises(FingerprintError, match="is no progress file of a live simulation: remove"):
        ProgressFile(tmp_path, SMALL)
