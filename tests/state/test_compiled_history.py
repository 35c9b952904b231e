"""The compiled history of principals against the sums by array functions, from one part of the activity or several."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.core.settings import Settings
from fingerprint.state.scorer_state import MAX_IDLE, MAX_SOURCES, ScorerState

START = 480_000 // 24 * 24  # hours since 1970, a midnight
SLOTS, HOURS = 20, 60


@pytest.mark.parametrize("pieces", [1, 2, 40])
def test_compiled_history_is_that_of_the_array_functions(pieces: int) -> None:
    random, state = np.random.default_rng(pieces), ScorerState(Settings())
    for _ in range(pieces):
        cells = random.integers(0, SLOTS, 300) << 32 | START + random.integers(0, HOURS, 300)
        events, sources, actions = random.integers(0, 5, (3, 300)).astype(np.int32)
        state.activity.add(cells, events=events, sources=sources, actions=actions)
    slot = random.integers(0, SLOTS + 2, 500).astype(np.int32)  # two of them without activity
    # Also at midnight, and long after.
    interval = START + random.integers(-2, HOURS + 50, 500).astype(np.int32)
    latest = np.where(random.random(500) < 0.5, -1, interval - random.integers(1, 9000, 500)).astype(np.int32)
    found, wanted = (
        measure(slot, interval, latest) for measure in (state._compiled_history, state._array_history)
    )
    np.testing.assert_array_equal(found, np.array(wanted))
    assert found.dtype == np.int32
    idle, today, sources, _ = found
    assert {-1, 1, MAX_IDLE} <= {*idle.tolist()}
    assert {0, MAX_SOURCES} <= {*sources.tolist()}
    assert today.max() > 3
