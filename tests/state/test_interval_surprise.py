"""What else surprised in an event's interval: each distinct surprise counts once, whatever the order and the cut."""

from __future__ import annotations

import numpy as np
import pytest

from fingerprint.compute import hashing
from fingerprint.estimators.autoencoder import RECHECK_THRESHOLD
from fingerprint.features.encoding import FEATURE_NAMES, FEATURES
from fingerprint.state.interval_surprise import COUNTED_FEATURES, IntervalSurprise

F = len(FEATURES)


def events(count: int = 300) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(0)
    surprise = (random.random((count, F)) * 10).astype(np.float32)
    return (
        random.integers(0, 4, count).astype(np.uint64),
        random.integers(100, 104, count).astype(np.int32),
        random.integers(0, 5, (count, F)).astype(np.uint64),
        surprise,
    )


def by_hand(
    principal: np.ndarray, interval: np.ndarray, codes: np.ndarray, surprise: np.ndarray
) -> list[float]:
    most: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
    for row in range(len(principal)):
        values = most.setdefault((int(principal[row]), int(interval[row])), {})
        for feature in np.flatnonzero((surprise[row] >= RECHECK_THRESHOLD) & COUNTED_FEATURES):
            key = (int(feature), int(codes[row, feature]))
            values[key] = max(values.get(key, 0.0), float(surprise[row, feature]))
    return [sum(most[int(who), int(when)].values()) for who, when in zip(principal, interval, strict=True)]


@pytest.mark.parametrize("size", [1, 13, 300])
def test_each_distinct_value_counts_once_by_its_largest_surprise(size: int) -> None:
    parts = events()
    together = IntervalSurprise()
    for start in range(0, 300, size):
        together.add(*(part[start : start + size] for part in parts))
    np.testing.assert_allclose(together.total(parts[0], parts[1]), by_hand(*parts), rtol=1e-4)


def test_order_changes_nothing() -> None:
    parts = events()
    shuffled = np.random.default_rng(1).permutation(300)
    forward, backward = IntervalSurprise(), IntervalSurprise()
    forward.add(*parts)
    for row in shuffled:
        backward.add(*(part[row : row + 1] for part in parts))
    np.testing.assert_array_equal(forward.total(*parts[:2]), backward.total(*parts[:2]))


def test_what_is_over_is_forgotten() -> None:
    together, parts = IntervalSurprise(), events()
    together.add(*parts)
    together.expire(104)
    assert len(together.values) == len(together.sums) == len(together.usual_place) == 0


def test_who_works_from_a_usual_place_is_at_home_in_that_interval_and_in_no_other() -> None:
    together, usual, far = IntervalSurprise(), np.zeros((1, F), np.float32), np.zeros((1, F), np.float32)
    far[0, FEATURE_NAMES.index("network")] = 9.0
    codes, who = np.arange(F, dtype=np.uint64)[None], np.array([7], np.uint64)
    together.add(who, np.array([100], np.int32), codes, far)
    assert not together.from_usual_place(who, np.array([100], np.int32))[0]
    together.add(who, np.array([100], np.int32), codes, usual)
    assert together.from_usual_place(who, np.array([100], np.int32))[0]
    assert not together.from_usual_place(who, np.array([101], np.int32))[0]
    assert not together.from_usual_place(np.array([8], np.uint64), np.array([100], np.int32))[0]


def test_a_service_that_calls_for_a_principal_is_at_no_place_of_its_own() -> None:
    """KMS decrypts for a reader, wherever the reader is."""
    together, usual = IntervalSurprise(), np.zeros((1, F), np.float32)
    who, when, places = np.array([7], np.uint64), np.array([100], np.int32), ("network", "address")
    for name, at_home in (("AWS Internal", False), ("kms.amazonaws.com", False), ("private", True)):
        codes, together = np.ones((1, F), np.uint64), IntervalSurprise()
        codes[0, [FEATURE_NAMES.index(place) for place in places]] = hashing.hash_string(name)
        together.add(who, when, codes, usual)
        assert together.from_usual_place(who, when)[0] == at_home, name
