"""Records are due at the pace that was asked for, wherever batches are cut."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.streaming.replay_rate import ReplayRate


def test_batches_follow_one_another_in_time() -> None:
    whole = ReplayRate(speed=2).due_seconds(np.array([0, 5000, 1000, 9000]))
    cut = ReplayRate(speed=2)
    assert (
        [*cut.due_seconds(np.array([0, 5000])), *cut.due_seconds(np.array([1000, 9000]))]
        == whole.tolist()
        == [0, 2.5, 2.5, 4.5]
    )


@pytest.mark.parametrize(
    "answers", [{"rate": 1, "speed": 1}, {"rate": 0}, {"speed": -2}, {"rate": float("nan")}]
)
def test_a_pace_that_makes_no_sense_is_one_sentence(answers: dict[str, float]) -> None:
    with pytest.raises(FingerprintError, match="--rate and --speed"):
        ReplayRate(**answers)
