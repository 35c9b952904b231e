"""What a principal did lately: the same whatever the order of records and wherever a batch is cut."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest

from fingerprint.compute import hashing
from fingerprint.core.settings import Settings
from fingerprint.features.encoding import ACTION_COLUMN, FEATURES
from fingerprint.state.scorer_state import ADDRESS_COLUMN, INACTIVE_DAYS, ScorerState

START = 480_000 // 24 * 24
COLUMNS = ("idle", "today", "sources", "actions")


def history(count: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Principals, intervals in order of time, and codes of events over three days."""
    random = np.random.default_rng(seed)
    principal = hashing.hash_pair(random.integers(0, 5, count).astype(np.uint64), 0)
    interval = np.sort(START + random.integers(0, 72, count)).astype(np.int32)
    codes = np.zeros((count, len(FEATURES)), np.uint64)
    codes[:, ACTION_COLUMN], codes[:, ADDRESS_COLUMN] = (
        random.integers(0, 30, count),
        random.integers(0, 6, count),
    )
    return principal, interval, codes


def remembered(pieces: list[np.ndarray], events: tuple[np.ndarray, ...], advance: bool = True) -> np.ndarray:
    """The memory columns (N, 4) of events fed to a scorer state piece by piece."""
    scorer_state, out = ScorerState(Settings()), np.zeros((len(events[1]), len(COLUMNS)), int)
    for piece in pieces:
        memory = scorer_state.update_history(*(part[piece] for part in events))
        out[piece] = np.column_stack([memory[name] for name in COLUMNS])
        if advance:
            scorer_state.watermark = int(events[1][piece].max()) * 3600
            scorer_state.expire()
    return out


@pytest.mark.parametrize("size", [1, 7, 100])
def test_where_a_batch_is_cut_changes_nothing(size: int) -> None:
    events = history()
    whole = remembered([np.arange(600)], events)
    cut = remembered([np.arange(start, min(start + size, 600)) for start in range(0, 600, size)], events)
    np.testing.assert_array_equal(cut, whole)


def test_records_that_come_late_within_the_allowance_change_nothing() -> None:
    events = history()
    delay = events[1] * 3600 + np.random.default_rng(1).integers(0, 600, 600)  # ten minutes at most
    order = np.argsort(delay, kind="stable")
    pieces = [order[start : start + 50] for start in range(0, 600, 50)]
    np.testing.assert_array_equal(remembered(pieces, events), remembered([np.arange(600)], events))


@pytest.mark.parametrize("pieces", [[[0, 1]], [[0], [1]], [[1], [0]]])
def test_a_principal_began_with_its_earliest_record_whichever_came_first(pieces: list[list[int]]) -> None:
    scorer_state, late = ScorerState(Settings()), START + 24
    who, interval = np.full(2, 7, np.uint64), np.array([late, late - 1], np.int32)
    for piece in pieces:
        scorer_state.update_history(
            who[piece], interval[piece], np.ones((len(piece), len(FEATURES)), np.uint64)
        )
    assert scorer_state.first_seen(who).tolist() == [late - 1, late - 1]


def test_a_record_that_comes_too_late_moves_no_beginning() -> None:
    """Forecasts were made by where it began."""
    scorer_state, who = ScorerState(Settings()), np.array([7], np.uint64)
    for interval in (START + 24, START):
        codes = np.ones((1, len(FEATURES)), np.uint64)
        scorer_state.update_history(who, np.array([interval], np.int32), codes)
    assert scorer_state.first_seen(who).tolist() == [START + 24]


@pytest.mark.parametrize("library", [np, fake_cupy])
def test_who_makes_up_values_fills_no_memory_and_the_latest_are_known(
    library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fingerprint.state.scorer_state.MAX_BUCKET_NOVELTIES", 100)
    scorer_state, noisy, calm = (
        ScorerState(Settings(), library.asarray),
        np.uint64(7 << 48),
        np.uint64(8 << 48),
    )
    names = hashing.combine(noisy, np.arange(250, dtype=np.uint64))
    other = hashing.combine(calm, np.arange(2, dtype=np.uint64))
    for hour, keys in enumerate((names[:150], other, names[150:])):
        scorer_state.novelty_age(library.asarray(keys), library.asarray(np.full(len(keys), START + hour)))
        scorer_state.watermark = (START + hour + 1) * 3600
        scorer_state.expire()
    assert len(scorer_state.novelties) == 102
    asked = np.concatenate([names[150:], other])
    assert scorer_state.novelties.has(asked).all()


def test_memory_agrees_with_counting_by_hand() -> None:
    principal, interval, codes = history()
    got = remembered([np.arange(600)], (principal, interval, codes))
    for row in range(0, 600, 37):
        mine = (principal == principal[row]) & (interval < interval[row] - 1)
        today = mine & (interval // 24 == interval[row] // 24)
        hours = interval[row] - interval[mine].max() if mine.any() else None
        idle = -1 if hours is None else int(np.log2(hours))
        assert got[row, 0] == idle
        assert got[row, 1] == np.ceil(np.log2(1 + today.sum()))
        assert got[row, 2] == min(len(set(codes[today, ADDRESS_COLUMN].tolist())), 5)
        assert got[row, 3] == np.ceil(np.log2(1 + len(set(codes[today, ACTION_COLUMN].tolist()))))


def test_a_principal_that_slept_for_weeks_is_remembered_as_such() -> None:
    scorer_state = ScorerState(Settings())
    one, codes = np.array([7], np.uint64), np.ones((1, len(FEATURES)), np.uint64)
    for hour in (0, 24 * 30):
        memory = scorer_state.update_history(one, np.array([START + hour], np.int32), codes)
        scorer_state.watermark = (START + hour) * 3600
        scorer_state.expire()
        scorer_state.watermark = (START + hour + 24 * 9) * 3600
        scorer_state.expire()
    assert memory["idle"][0] == int(np.log2(24 * 30))


@pytest.mark.parametrize("hours_before", [100, 24 * (INACTIVE_DAYS + 5)])
def test_a_record_that_comes_late_makes_no_principal_idle_for_longer(hours_before: int) -> None:
    scorer_state = ScorerState(Settings())
    one, codes = np.array([7], np.uint64), np.ones((1, len(FEATURES)), np.uint64)
    for active, now in ((0, 0), (0, 100), (-hours_before, 130), (-hours_before, 160)):
        scorer_state.update_history(one, np.array([START + active], np.int32), codes)
        scorer_state.watermark = (START + now) * 3600
        scorer_state.expire()
    idle = scorer_state.update_history(one, np.array([START + 160], np.int32), codes)["idle"]
    assert idle[0] == int(np.log2(160))


@pytest.mark.parametrize("restart", [range(0), range(19, 20), range(21)])
@pytest.mark.parametrize(("days", "idle"), [(INACTIVE_DAYS, 9), (INACTIVE_DAYS + 1, -1)])
def test_a_restart_expires_no_principal_at_another_hour(restart: range, days: int, idle: int) -> None:
    """Who was last active 35 days and some hours ago is still known until the day ends."""
    scorer_state = ScorerState(Settings())
    one, codes = np.array([7], np.uint64), np.ones((1, len(FEATURES)), np.uint64)
    scorer_state.update_history(one, np.array([START + 5], np.int32), codes)
    for day in range(days + 1):
        for hour in range(6 if day == 0 else 0, 21):
            if hour in restart:
                scorer_state = ScorerState.from_arrays(Settings(), scorer_state.as_arrays())
            scorer_state.watermark = (START + 24 * day + hour) * 3600
            scorer_state.expire()
    memory = scorer_state.update_history(one, np.array([START + 24 * days + 20], np.int32), codes)
    assert memory["idle"][0] == idle


@pytest.mark.parametrize("restart", [False, True])
def test_what_came_late_is_known_as_long_with_a_restart_as_without(restart: bool) -> None:
    """What is older than it is kept for is forgotten at the next look, an interval later, and not by a restart before."""
    scorer_state, now, old = ScorerState(Settings()), START + 24 * 60, START
    who, key, day = np.array([7 << 48], np.uint64), np.array([9], np.uint64), np.array([old // 24], np.int32)
    codes = np.ones((1, len(FEATURES)), np.uint64)

    def came_again() -> tuple[bool, int, int]:
        at = np.array([old + 5], np.int32)
        fresh = bool(scorer_state.deduplicate(who, key, day)[0])
        age = int(scorer_state.novelty_age(key, at)[0])
        return fresh, age, int(scorer_state.update_history(who, at, codes)["idle"][0])

    scorer_state.watermark = now * 3600
    scorer_state.expire()
    scorer_state.deduplicate(who, key, day)
    scorer_state.novelty_age(key, np.array([old], np.int32))
    scorer_state.update_history(who, np.array([old], np.int32), codes)
    if restart:
        scorer_state = ScorerState.from_arrays(Settings(), scorer_state.as_arrays())
    scorer_state.expire()
    assert came_again() == (False, 5, 2)
    for hours in (1, 24):  # once an interval, and principals once a day
        scorer_state.watermark = (now + hours) * 3600
        scorer_state.expire()
    assert came_again() == (True, 0, -1)


def test_a_repeat_is_known_in_its_batch_and_later_and_after_a_restart() -> None:
    scorer_state = ScorerState(Settings())
    keys, day = np.array([5, 6, 5], np.uint64), np.full(3, START // 24, np.int32)
    who = np.full(3, 7 << 48, np.uint64)
    assert scorer_state.deduplicate(who, keys, day).tolist() == [True, True, False]
    again = ScorerState.from_arrays(Settings(), scorer_state.as_arrays())
    for one in (scorer_state, again):
        assert one.deduplicate(who[:2], np.array([6, 8], np.uint64), day[:2]).tolist() == [False, True]


def test_ids_that_differ_only_where_the_home_stands_are_no_repeats() -> None:
    scorer_state, who, day = ScorerState(Settings()), np.full(1, 7 << 48, np.uint64), np.zeros(1, np.int32)
    ids = [np.array([home << 48 | 5], np.uint64) for home in (1, 2, 1)]
    assert [bool(scorer_state.deduplicate(who, each, day)[0]) for each in ids] == [True, True, False]


def test_ids_are_forgotten_past_their_horizon() -> None:
    scorer_state = ScorerState(Settings())
    scorer_state.deduplicate(
        np.zeros(1, np.uint64), np.array([5], np.uint64), np.array([START // 24], np.int32)
    )
    scorer_state.watermark = (START + 24 * 30) * 3600
    scorer_state.expire()
    assert len(scorer_state.repeats) == 0


def test_a_look_at_all_that_is_kept_is_taken_once_an_interval() -> None:
    """And not with every batch: what comes late, when it is old already, waits for the next one."""
    scorer_state, day = ScorerState(Settings()), np.array([START // 24], np.int32)
    scorer_state.watermark = (START + 24 * 30) * 3600
    for key, hours, kept in ((5, 0, 0), (6, 0, 1), (7, 0, 2), (8, 1, 0)):
        scorer_state.deduplicate(np.zeros(1, np.uint64), np.array([key], np.uint64), day)
        scorer_state.watermark += hours * 3600
        scorer_state.expire()
        assert len(scorer_state.repeats) == kept


def test_a_novelty_counts_as_seen_once_its_interval_can_no_longer_change() -> None:
    scorer_state, key = ScorerState(Settings()), np.array([9], np.uint64)
    seen = [
        bool(scorer_state.is_known_novelty(key, np.array([START + hour], np.int32))[0])
        for hour in (0, 0, 1, 2, 3)
    ]
    assert seen == [False, False, False, True, True]
