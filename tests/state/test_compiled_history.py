"""The compiled history of principals against the sums by array functions, from one part of the activity or several."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.core.settings import Settings
from fingerprint.state.scorer_state import ScorerState

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
    last = START + random.integers(-2, HOURS + 5, 500)
    first = np.minimum(
        last // 24 * 24, last + random.integers(-3, 3, 500)
    )  # now and then nothing lies between
    keys = [slot.astype(np.int64) << 32 | interval for interval in (first, last)]
    found, wanted = state._compiled_history(slot, *keys), state._array_history(slot, *keys)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])
    assert 0 < (found[1] < 0).mean() < 1
