"""How far time has come, when many partitions say so at once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from fingerprint.state import watermarks
from fingerprint.state.watermarks import WatermarkTracker

HOUR = 3_600_000
NOON = 1_767_225_600_000


def come(sources: WatermarkTracker, rows: Sequence[tuple[str, int, int]]) -> list[int]:
    """Rows of source, mark and arrival, the latter two in ms after noon (0: unknown mark) -> low marks after noon."""
    names = sorted({name for name, _, _ in rows})
    codes = np.array([names.index(name) for name, _, _ in rows])
    marks = np.array([mark and mark + NOON for _, mark, _ in rows], np.int64)
    low = sources.advance(names, codes, marks, np.array([arrival + NOON for _, _, arrival in rows], np.int64))
    return [int(each) and int(each) - NOON for each in low]


def slowly(rows: Sequence[tuple[str, int, int]], expected: int, idle: int) -> list[int]:
    """The plain version: one message after the other."""
    marks: dict[str, int] = {}
    heard: dict[str, int] = {}
    out, low, latest = [], 0, 0
    for name, mark, arrival in rows:
        latest = max(latest, arrival)
        marks[name], heard[name] = max(marks.get(name, 0), mark), latest
        known = [marks[each] for each in marks if marks[each] and latest - heard[each] <= idle]
        if known and not (len(heard) < expected and latest - rows[0][2] <= idle):
            low = max(low, min(known))
        out.append(low)
    return out


def test_the_least_of_all_sources_counts_and_it_never_goes_back() -> None:
    sources = WatermarkTracker(expected=2)
    rows = [("a", 10, 1), ("b", 5, 2), ("b", 20, 3), ("a", 12, 4), ("b", 3, 5)]
    assert come(sources, rows) == [0, 5, 10, 12, 12]


def test_a_source_that_has_not_spoken_yet_is_waited_for_but_not_for_ever() -> None:
    sources = WatermarkTracker(expected=3, idle_seconds=60)
    rows = [("a", 10, 1), ("b", 8, 30_000), ("a", 40, 60_000), ("a", 50, 60_002)]
    assert come(sources, rows) == [0, 0, 0, 8]


def test_a_source_that_falls_silent_is_left_behind_and_heard_again_when_it_speaks() -> None:
    sources = WatermarkTracker(expected=2, idle_seconds=60)
    rows = [
        ("a", 10, 0),
        ("b", 5, 1),
        ("a", 90, 60_000),
        ("a", 95, 61_000),
        ("b", 96, 61_500),
        ("a", 99, 62_000),
    ]
    assert come(sources, rows) == [0, 5, 5, 95, 95, 96]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_it_agrees_with_going_message_by_message_wherever_it_is_cut(
    seed: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fingerprint.state.watermarks.MAX_MATRIX_CELLS", 64)
    random = np.random.default_rng(seed)
    clock = np.cumsum(random.exponential(8_000, 200)).astype(int) + 1
    names = random.choice(["a", "b", "c", "d"], 200, p=[0.5, 0.3, 0.17, 0.03])
    lag = {"a": 0, "b": 9_000, "c": -5_000, "d": 700_000}
    rows = [
        (
            str(name),
            max(int(now - lag[str(name)] + random.integers(0, 4_000)), 0),
            int(now - random.integers(0, 900)),
        )
        for name, now in zip(names, clock, strict=True)
    ]
    rows[0] = (rows[0][0], rows[0][1], int(clock[0]))
    sources, got = WatermarkTracker(expected=4, idle_seconds=60), []
    for start in range(0, len(rows), size):
        got += come(sources, rows[start : start + size])
        facts = json.loads(json.dumps(sources.as_metadata()))
        sources = WatermarkTracker.from_metadata(facts, 4, 60)
    assert got == slowly(rows, 4, 60_000)


def test_when_nothing_comes_at_all_time_goes_on_at_the_pace_of_the_clock() -> None:
    sources = WatermarkTracker(expected=1, idle_seconds=60)
    come(sources, [("a", 10, 1_000)])
    assert sources.advance_clock(NOON + 61_000) - NOON == 10, "it may still come"
    assert sources.advance_clock(NOON + 61_000 + HOUR) - NOON == 10 + HOUR
    assert come(sources, [("a", 20, HOUR + 70_000)]) == [10 + HOUR], "what time has done is not undone"


def test_before_the_first_message_no_time_passes() -> None:
    assert WatermarkTracker().advance_clock(NOON) == 0


def test_made_up_sources_are_bounded_and_a_slow_source_is_waited_for_all_the_same() -> None:
    """A producer to the events topic names 1,500 new sources in each message, with long names."""
    sources = WatermarkTracker(expected=2, idle_seconds=60)
    come(sources, [("slow", 5, 1), ("fast", 10, 2)])
    for poll in range(1, 13):  # twice as long as a source stays without being heard
        now = poll * 10_000
        rows = [(f"{poll} {n} {'x' * 1000}", now, now + n) for n in range(1_500)]
        assert set(come(sources, [*rows, ("slow", 5 + poll, now + 1_600)])) <= {5 + poll - 1, 5 + poll}
        assert len(sources.places) <= watermarks.MAX_SOURCES + 1
        sources = WatermarkTracker.from_metadata(json.loads(json.dumps(sources.as_metadata())), 2, 60)
    assert len(json.dumps(sources.as_metadata())) < 1_000 * 600


def test_once_made_up_sources_are_idle_a_new_source_is_waited_for_again() -> None:
    sources = WatermarkTracker(expected=1, idle_seconds=60)
    come(sources, [(f"made up {n}", 10, n) for n in range(2_000)])
    assert watermarks.OTHER_SOURCES in sources.places
    later = 120_000
    assert come(sources, [("new", 40, later), ("other", 90, later), ("new", 50, later)]) == [40, 40, 50]
    furthest = 1
    assert len(sources.places) == 2 + furthest


def test_the_sources_that_are_forgotten_do_not_stop_the_clock() -> None:
    sources = WatermarkTracker(expected=1, idle_seconds=60)
    come(sources, [("furthest", 10_000, 1)])
    come(sources, [(f"without a mark {n}", 0, HOUR) for n in range(2_000)])
    assert sources.advance_clock(NOON + HOUR + 61_000) - NOON == 10_000 + 1_000


def test_two_long_names_that_begin_alike_are_two_sources() -> None:
    sources = WatermarkTracker(expected=2)
    long = "x" * 1_000
    assert come(sources, [(f"{long}/0", 5, 1), (f"{long}/1", 9, 2)]) == [0, 5]
    sources.forget(f"{long}/0")
    assert [len(name) for name in sources.places] == [500]
