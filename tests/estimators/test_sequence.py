"""Sequences of actions: the vectorised surprise against a loop over events, what a further context may change, and the tail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fingerprint.compute import hashing
from fingerprint.estimators import sequence
from fingerprint.estimators.sequence import (
    ANY,
    CONTEXT_SECONDS,
    ORGANISATION,
    START,
    TOTAL,
    SeenActions,
    Transitions,
)

Event = tuple[int, int, int]  # principal, second, action

ACTIONS = st.lists(
    st.tuples(st.integers(10, 12), st.integers(0, 200), st.integers(20, 24)), min_size=1, max_size=30
)
COUNTS = {  # of two principals and the organisation: (owner, context, action) -> intervals
    (0, 20, 21): 40, (0, 20, 22): 10, (0, 21, 20): 30, (0, 0, 20): 60, (0, 0, 23): 1,
    (10, 20, 21): 20, (10, 21, 20): 15, (10, 0, 20): 30, (11, 20, 22): 9, (11, 0, 23): 1,
}  # fmt: skip


def seen_of(events: list[Event]) -> SeenActions:
    principal, second, action = (np.array(column) for column in zip(*events, strict=True))
    return SeenActions(principal.astype(np.uint64), second.astype(np.int64), action.astype(np.uint64))


@pytest.fixture(scope="module")
def transitions() -> Transitions:
    table: dict[int, float] = {}

    def add(owner: int, context: int | np.uint64, action: int | np.uint64, count: float) -> None:
        key = int(sequence.transition_key(np.uint64(owner), np.uint64(context), np.uint64(action)))
        table[key] = table.get(key, 0) + count

    for (owner, context, action), count in COUNTS.items():
        add(owner, context, action, count)
        add(owner, context, TOTAL, count)
        if not owner:
            add(0, ANY, action, count)
            add(0, ANY, TOTAL, count)
    add(0, TOTAL, TOTAL, len({action for owner, _, action in COUNTS if not owner}))
    keys = np.array(sorted(table), np.uint64)
    kinds, tail = sequence.fit_tails(np.array([7, 7], np.uint64), np.array([0, 30]), np.array([960.0, 40.0]))
    count = np.array([table[int(key)] for key in keys], np.float32)
    return Transitions(keys, count, np.empty(0, np.uint64), np.empty((0, 3), np.uint64), kinds, tail)


def plain_surprise(events: list[Event], event: Event) -> float:
    """The definition, one context at a time."""
    principal, second, action = event
    contexts = {
        what
        for who, when, what in events
        if who == principal
        and second - CONTEXT_SECONDS <= when <= second
        and (when, what) != (second, action)
    }

    def share(owner: int, context: int, prior: float, behind: float) -> float:
        there = sum(n for (who, before, _), n in COUNTS.items() if (who, before) == (owner, context))
        return (COUNTS.get((owner, context, action), 0) + prior * behind) / (there + prior)

    organisation = {key: n for key, n in COUNTS.items() if key[0] == 0}
    done = sum(n for (_, _, what), n in organisation.items() if what == action)
    actions = len({what for _, _, what in organisation})
    alone = (done + 0.5) / (sum(organisation.values()) + (actions + 1) / 2)
    return min(
        -math.log(share(principal, context, 5, share(0, context, 1, alone))) for context in contexts | {0}
    )


@given(ACTIONS)
def test_each_action_is_as_surprising_as_after_the_context_that_explains_it_best(
    transitions: Transitions, events: list[Event]
) -> None:
    nats, _ = sequence.surprise_of_actions(transitions, seen_of(events), seen_of(events))
    np.testing.assert_allclose(nats, [plain_surprise(events, each) for each in events], rtol=1e-5)


@given(ACTIONS, st.randoms())
def test_neither_order_nor_repeats_of_what_was_seen_change_a_surprise(
    transitions: Transitions, events: list[Event], random: object
) -> None:
    again = events * 2
    random.shuffle(again)  # type: ignore[attr-defined]
    once, more = (
        sequence.surprise_of_actions(transitions, seen_of(seen), seen_of(events)) for seen in (events, again)
    )
    np.testing.assert_array_equal(once[0], more[0])
    np.testing.assert_array_equal(once[1], more[1])


@given(ACTIONS, ACTIONS)
def test_what_comes_late_can_only_explain(
    transitions: Transitions, events: list[Event], late: list[Event]
) -> None:
    before, after = (
        sequence.surprise_of_actions(transitions, seen_of(seen), seen_of(events))[0]
        for seen in (events, events + late)
    )
    assert (after <= before).all()
    assert (before <= sequence.start_surprise(transitions, seen_of(events))).all()


def test_pairs_are_compared_in_blocks_with_the_same_result(
    transitions: Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [(10, second, 20 + second % 4) for second in range(50)]
    whole = sequence.surprise_of_actions(transitions, seen_of(events), seen_of(events))
    monkeypatch.setattr(sequence, "MAX_PAIRS", 7)
    parts = sequence.surprise_of_actions(transitions, seen_of(events), seen_of(events))
    np.testing.assert_array_equal(whole[0], parts[0])
    np.testing.assert_array_equal(whole[1], parts[1])


@given(ACTIONS)
def test_compiled_surprises_are_those_of_array_functions(
    transitions: Transitions, events: list[Event]
) -> None:
    owner, second, action = seen_of(events)
    context = np.where(second % 2, START, np.roll(action, 1))
    for pairs in ((owner, context, action), [each[:0] for each in (owner, context, action)]):
        np.testing.assert_allclose(
            sequence.transition_nats(transitions, *pairs),
            sequence.array_transition_nats(transitions, *pairs),
            rtol=2e-7,
        )


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from((0.5, 1.0, 2.0)), st.integers(0, 4)), max_size=12)
)
def test_the_compiled_least_of_each_is_that_of_array_functions(
    pairs: list[tuple[int, float, int]],
) -> None:
    own = [(which, 1.5, 9) for which in range(4)]  # as each action has a pair of its own
    which, nats, context = (np.array(column) for column in zip(*own, *pairs, strict=True))
    columns = which.astype(np.intp), nats.astype(np.float32), context.astype(np.uint64)
    found, expected = (find(4, *columns) for find in (sequence.least_of_each, sequence.array_least_of_each))
    for column in columns:
        np.testing.assert_array_equal(column[found], column[expected])


def test_no_action_is_no_surprise(transitions: Transitions) -> None:
    nothing = SeenActions(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.uint64))
    some = seen_of([(10, 5, 20)])
    assert len(sequence.surprise_of_actions(transitions, some, nothing)[0]) == 0
    nats, context = sequence.surprise_of_actions(transitions, nothing, some)
    assert len(nats) == 1
    assert context[0] == START


def test_a_transition_is_counted_once_an_interval() -> None:
    seen = seen_of([(10, 0, 20), (10, 30, 21), (10, 40, 21), (10, 3600, 20), (10, 3610, 21), (11, 0, 20)])
    principal, context, action = sequence.distinct_transitions(seen, seen.second // 3600)
    found = sorted(zip(principal.tolist(), context.tolist(), action.tolist(), strict=True))
    assert found == [(10, 0, 20), (10, 0, 20), (10, 20, 21), (10, 20, 21), (10, 21, 21), (11, 0, 20)]
    keys, count = sequence.count_transitions(ORGANISATION, context, action)
    there = dict(zip(keys.tolist(), count.tolist(), strict=True))
    for of, wanted in (((0, 20), 3), ((20, 21), 2), ((20, int(TOTAL)), 2), ((0, int(TOTAL)), 3)):
        key = sequence.transition_key(ORGANISATION, np.uint64(of[0]), np.uint64(of[1]))
        assert there[int(key)] == wanted


@given(st.lists(st.floats(0, 20), min_size=50, max_size=400), st.sampled_from([0.01, 0.05, 0.2]))
def test_at_most_the_share_that_was_asked_for_reaches_its_z(nats: list[float], share: float) -> None:
    surprise = np.array(nats, np.float32)
    kind = np.full(len(nats), 9, np.uint64)
    kinds, tail = sequence.fit_tails(kind, sequence.grid_place(surprise), np.ones(len(nats)))
    nothing = np.empty(0, np.uint64)
    known = Transitions(nothing, np.empty(0, np.float32), nothing, nothing, kinds, tail)
    z = sequence.z_of_surprise(known, surprise, kind)
    assert (z >= norm.isf(share)).mean() <= share
    stranger = sequence.z_of_surprise(known, surprise, hashing.hash_pair(kind, kind))
    assert (stranger >= norm.isf(share)).mean() <= share
    assert (np.diff(z[np.argsort(surprise)]) >= 0).all()
