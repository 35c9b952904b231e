"""What principals did last: a set by second that expires, and can be cut by hash bucket and mended."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.compute import hashing
from fingerprint.core.settings import Settings
from fingerprint.estimators.sequence import SeenActions
from fingerprint.state import partitioning
from fingerprint.state.action_sequence import ActionSequence
from fingerprint.state.scorer_state import SEQUENCE_INTERVALS, ScorerState

PEOPLE = hashing.hash_with_bucket(pd.Series([f"1:user/{number}" for number in range(8)]))
ROWS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 20), st.integers(0, 3)), min_size=1, max_size=40)


def done(rows: list[tuple[int, int, int]]) -> SeenActions:
    who, second, action = (np.array(column) for column in zip(*rows, strict=True))
    return SeenActions(PEOPLE[who], second.astype(np.int64), action.astype(np.uint64))


def kept(sequence: ActionSequence) -> set[tuple[int, int, int]]:
    return set(zip(*(column.tolist() for column in sequence.seen(PEOPLE)), strict=True))


@given(ROWS, st.integers(0, 40))
def test_the_order_and_the_cut_of_what_was_done_change_nothing(
    rows: list[tuple[int, int, int]], cut: int
) -> None:
    whole, parts = ActionSequence(), ActionSequence()
    whole.add(done(rows))
    for some in (rows[cut:], rows[:cut], rows[:1]):
        if some:
            parts.add(done(some))
    assert kept(whole) == kept(parts) == set(zip(*(each.tolist() for each in done(rows)), strict=True))
    assert len(whole.actions) == len(set(rows))


@given(ROWS, st.sets(st.integers(0, 7), min_size=1))
def test_of_some_principals_all_is_seen_and_of_other_buckets_nothing(
    rows: list[tuple[int, int, int]], who: set[int]
) -> None:
    sequence = ActionSequence()
    for row in rows:
        sequence.add(done([row]))
    asked = PEOPLE[np.repeat([*who], 2)]
    found = set(zip(*(column.tolist() for column in sequence.seen(asked)), strict=True))
    buckets = hashing.bucket_of(asked)
    assert found == {
        each for each in kept(sequence) if hashing.bucket_of(np.array([each[0]], np.uint64))[0] in buckets
    }
    assert {name for name, _, _ in found} >= {PEOPLE[row[0]] for row in rows if row[0] in who}


def test_what_is_old_is_dropped() -> None:
    sequence = ActionSequence()
    sequence.add(done([(1, 10, 0), (1, 11, 0)]))
    sequence.expire(11, 0)
    assert {second for _, second, _ in kept(sequence)} == {11}


@given(ROWS)
def test_a_vote_is_known_from_the_next_interval_on_in_whatever_order_votes_come(
    rows: list[tuple[int, int, int]],
) -> None:
    forward, backward = ActionSequence(), ActionSequence()
    keys = np.array([who * 10 + action for who, _, action in rows], np.uint64)
    interval = np.array([second for _, second, _ in rows], np.int32)
    forward.add_votes(keys, interval)
    for place in np.argsort(-interval):
        backward.add_votes(keys[[place]], interval[[place]])
    for key in np.unique(keys):
        first = interval[keys == key].min()
        for sequence in (forward, backward):
            asked = np.array([first - 1, first, first + 1], np.int32)
            assert sequence.has_earlier_vote(np.full(3, key), asked).tolist() == [False, False, True]


@given(ROWS, st.integers(0, 99))
def test_it_is_saved_cut_by_bucket_and_mended(rows: list[tuple[int, int, int]], seed: int) -> None:
    state = ScorerState(Settings())
    state.sequence.add(done(rows))
    whole = state.as_arrays()
    homes = np.random.default_rng(seed).random(hashing.BUCKETS) < 0.5
    mine = ScorerState.from_arrays(Settings(), partitioning.select_buckets(whole, homes))
    assert {who for who, _, _ in kept(mine.sequence)} == {
        who for who, _, _ in kept(state.sequence) if homes[hashing.bucket_of(np.array([who], np.uint64))[0]]
    }
    mine.merge(partitioning.select_buckets(whole, ~homes))
    assert kept(mine.sequence) == kept(state.sequence)


def test_open_intervals_and_the_last_closed_ones_are_kept() -> None:
    state = ScorerState(Settings())
    state.watermark = 100 * 3600
    first = (state.first_open_interval() - SEQUENCE_INTERVALS) * 3600
    state.sequence.add(done([(1, first, 0), (1, first - 1, 0)]))
    state.expire()
    assert {second for _, second, _ in kept(state.sequence)} == {first}
