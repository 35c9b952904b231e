"""Load: what all that a principal usually does shows together, by a plain loop; one thing more is no load."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from fingerprint.estimators.load import UsualLoad, usual_load

History = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def history(actions: int, days: int = 10, calls: float = 40) -> History:
    """Return a day's calls of principal 7: of action 1 on all days, of action 2 on all but one, and so on."""
    day, action = (each.ravel() for each in np.meshgrid(np.arange(days), np.arange(1, actions + 1)))
    some = day >= action - 1
    day, action = day[some], action[some]
    return (
        np.full(len(day), 7, np.uint64),
        day.astype(np.int32),
        action.astype(np.uint64),
        np.full(len(day), calls),
    )


def load_of(rows: History, calls: dict[int, float], principal: int = 7) -> float:
    """Return the load on a day with so many calls of each action."""
    known = UsualLoad.from_arrays(usual_load(*rows))
    asked = np.array([principal], np.uint64), np.array([240], np.int32)
    return float(
        known.log_ratio(*asked, lambda _p, _i, a: np.array([calls.get(int(each), 0) for each in a]))[0]
    )


def test_a_principal_that_does_everything_four_times_as_often_has_the_log_of_four_about() -> None:
    rows = history(5)
    assert load_of(rows, dict.fromkeys(range(1, 6), 160)) == pytest.approx(np.log(4), abs=0.06)
    assert load_of(rows, dict.fromkeys(range(1, 6), 10)) == 0, "a quiet day makes nothing stranger"


@pytest.mark.parametrize(
    ("actions", "risen", "busy"), [(5, 2, False), (5, 3, True), (3, 2, False), (3, 3, True), (2, 2, False)]
)
def test_a_load_is_what_three_usual_actions_show(actions: int, risen: int, busy: bool) -> None:
    calls = dict.fromkeys(range(1, actions + 1), 40.0) | dict.fromkeys(range(1, risen + 1), 4_000.0)
    assert (load_of(history(actions), calls) > 4) == busy
    assert load_of(history(actions), calls, principal=8) == 0, "nothing is known of another principal"


def test_usual_actions_are_those_of_most_days() -> None:
    """What was called a million times on one day says less about a day than what is called on each."""
    rows = history(6)
    once = np.array([7], np.uint64), np.array([3], np.int32), np.array([99], np.uint64), np.array([1e6])
    known = usual_load(*(np.concatenate(pair) for pair in zip(rows, once, strict=True)))
    assert known["action"].tolist() == [[1, 2, 3, 4, 5]]


def test_no_history_is_no_load() -> None:
    nothing = tuple(column[:0] for column in history(3))
    assert load_of(nothing, {}) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_plain_loop_finds_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 600
    principal, action = (random.integers(1, high, count).astype(np.uint64) for high in (9, 8))
    day = random.integers(0, 12, count).astype(np.int32)
    calls = random.integers(0, 50, count).astype(np.float64)
    today = {(p, a): int(random.integers(0, 400)) for p in range(9) for a in range(8)}
    known = UsualLoad.from_arrays(usual_load(principal, day, action, calls))
    asked = np.arange(1, 9, dtype=np.uint64).repeat(2)
    found = known.log_ratio(
        asked,
        np.arange(len(asked), dtype=np.int32) % 2,
        lambda p, _i, a: np.array([today[each] for each in zip(p.tolist(), a.tolist(), strict=True)]),
    )
    assert found.tolist() == pytest.approx(
        [plain_load(int(each), principal, day, action, calls, today) for each in asked]
    )
    assert len(set(found.tolist())) > 3


def plain_load(one: int, *columns: object) -> float:
    """Return the load of a principal: count, sort, take the third."""
    principal, day, action, calls, today = columns
    by_day: Counter[tuple[int, int]] = Counter()
    for p, d, a, n in zip(principal, day, action, calls, strict=True):  # type: ignore[call-overload]
        if p == one and n:
            by_day[int(a), int(d)] += int(n)
    days = defaultdict(list)
    for (a, _), n in by_day.items():
        days[a].append(n)
    most = sorted(days, key=lambda a: (-len(days[a]), -sum(n * n for n in days[a]), a))[:5]
    usual = {a: np.sqrt((sum(n * n for n in days[a]) + 144) / (len(days[a]) + 1)) for a in most}
    ratios = sorted((np.log(max(today[one, a], 0.5) / usual[a]) for a in most), reverse=True)  # type: ignore[index]
    return max(float(ratios[2]), 0) if len(ratios) >= 3 else 0
