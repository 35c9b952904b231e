"""Sequences of actions: how likely an action is after those just before it, backed off from the principal to the organisation.

Example:
    >>> nats, best = surprise_of_actions(transitions, seen, wanted)     # (N,) each: surprise, and the context that explains it
    >>> z = z_of_surprise(transitions, nats, kind)                      # (N,)

A context of an action is another action of the same principal in the CONTEXT_SECONDS before it. Records have whole seconds, so
actions in the same second count as contexts of each other. An action without any context begins a session: its context is START,
which is also a candidate for every other action. With n(c, a) the number of intervals in which action a was seen after context c:

    p(a | c)  = (n(principal, c, a) + 5 P(a | c)) / (n(principal, c) + 5)
    P(a | c)  = (n(c, a) + P(a)) / (n(c) + 1)                                 in the organisation
    P(a)      = (n(a) + 1/2) / (n + (actions + 1) / 2)
    surprise  = min over contexts c of -log p(a | c)                          the context that explains it best

So a further context, which may arrive late, can only lower a surprise. A z is the normal quantile of the share of harmless
held-out events of the same kind of principal with at least that surprise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute.arrays import (
    Floats,
    Longs,
    Placement,
    is_on_host,
    lexsort,
    move_arrays,
    namespace,
    scipy_special,
    to_host,
    unique_examples,
    unique_places,
)
from fingerprint.compute.hashing import Hashes, hash_pair
from fingerprint.compute.sorted_table import expand_ranges, find_sorted
from fingerprint.estimators.day_folds import day_folds

CONTEXT_SECONDS = 60  # of event time before an action, in which other actions are its contexts
PRINCIPAL_PRIOR, ORGANISATION_PRIOR = 5.0, 1.0  # intervals that the prior of a frequency is worth
ORGANISATION = np.uint64(0)  # the owner of what all principals did
START = np.uint64(0)  # the context of an action that begins a session
ANY = np.uint64(2**64 - 1)  # any context
TOTAL = np.uint64(2**64 - 2)  # in place of an action or context: the count of a context, or of all actions
MAX_PAIRS = 1 << 20  # pairs of action and context that are compared at a time
USUAL_ACTIONS = 3  # how many of the actions that usually follow a context an explanation names
GRID_STEP, GRID_SIZE = 0.25, 96  # nats between two points of a tail, and their number
# In an explanation, follows an action whose best context is START.
FIRST_TEXT = "judged as first after a minute's pause"
ALL_KINDS = np.uint64(0)  # the tail of principals whose kind was never seen
KIND_PRIOR_EVENTS = 200  # events that the tail of all kinds is worth in that of one kind


@dataclass(frozen=True, slots=True)
class Transitions:
    """The counts of transitions of a bank, and the tails of surprise.

    - `keys` (M,), sorted (`transition_key`), and `count` (M,): how often each was counted, of principals and of the organisation
    - `contexts` (C,), sorted, and `usual` (C, 3): the actions that most often followed each in the organisation, 0 for none
    - `kinds` (K,), sorted hashes of kinds of principals, and `tail` (K, 96): the share of harmless held-out events with at least
      the surprise of each point of the grid
    """

    keys: Hashes
    count: Floats
    contexts: Hashes
    usual: Hashes
    kinds: Hashes
    tail: Floats

    def on(self, placement: Placement) -> Transitions:
        """Return them with their arrays on another device."""
        return move_arrays(self, placement)


class SeenActions(NamedTuple):
    """Distinct actions of principals by second: `principal`, `second` and `action`, (R,) each, in any order."""

    principal: Hashes
    second: Longs
    action: Hashes

    def take(self, which: NDArray[Any] | slice) -> SeenActions:
        """Return the rows of a mask, an index or a range."""
        return SeenActions(self.principal[which], self.second[which], self.action[which])


def transition_key(
    owner: Hashes | np.uint64, context: Hashes | np.uint64, action: Hashes | np.uint64
) -> Hashes:
    """Return the key under which an action after a context is counted, element by element with broadcasting."""
    return hash_pair(hash_pair(owner, context), action)


# --- contexts ---------------------------------------------------------------------------------------------------------


class Contexts(NamedTuple):
    """Ranges of S seen actions, sorted by principal and second, that hold the contexts of N actions.

    - `action`, `cell` (S,): the seen actions, and a number of each that grows with principal and second
    - `own_action`, `own_cell` (N,): the same of the actions whose contexts these are
    - `first`, `end` (N,): the range of seen actions that holds the contexts
    """

    action: Hashes
    cell: Longs
    own_action: Hashes
    own_cell: Longs
    first: NDArray[np.intp]
    end: NDArray[np.intp]

    def pairs(self, rows: slice) -> tuple[NDArray[np.intp], Hashes]:
        """Return pairs of an action, counted from `rows.start`, and one of its contexts: (P,) each.

        A context that occurs in several seconds is returned for each of them. An action's own row is not its context.
        """
        which, at = expand_ranges(self.first[rows], self.end[rows])
        action, cell = self.own_action[rows][which], self.own_cell[rows][which]
        other = (self.action[at] != action) | (self.cell[at] != cell)
        return which[other], self.action[at][other]

    def blocks(self) -> Iterator[slice]:
        """Yield ranges of actions with at most MAX_PAIRS pairs; an action that alone has more is a range of its own."""
        ends = to_host(self.end - self.first).cumsum()
        start = 0
        while start < len(ends):
            most = int(ends[start - 1]) + MAX_PAIRS if start else MAX_PAIRS
            stop = max(int(np.searchsorted(ends, most, side="right")), start + 1)
            yield slice(start, stop)
            start = stop


def find_contexts(seen: SeenActions, wanted: SeenActions) -> Contexts:
    """Return the contexts of the actions `wanted` (N,) among `seen` (S,)."""
    xp = namespace(wanted.principal)
    who, _, rank = unique_places(wanted.principal)
    if len(who):
        near = (seen.second >= wanted.second.min() - CONTEXT_SECONDS) & (seen.second <= wanted.second.max())
        seen = seen.take(near)
    place, known = find_sorted(who, seen.principal)
    seen, place = seen.take(known), place[known]
    order = lexsort(seen.action, _cell(place, seen.second))
    cell, own = _cell(place, seen.second)[order], _cell(rank, wanted.second)
    first, end = xp.searchsorted(cell, own - CONTEXT_SECONDS), xp.searchsorted(cell, own, side="right")
    return Contexts(seen.action[order], cell, wanted.action, own, first, end)


def _cell(place: NDArray[Any], second: Longs) -> Longs:
    return place.astype(np.int64) << 34 | second  # seconds since 1970 need no more bits until the year 2514


# --- surprise ---------------------------------------------------------------------------------------------------------


def surprise_of_actions(
    transitions: Transitions, seen: SeenActions, wanted: SeenActions
) -> tuple[Floats, Hashes]:
    """Return the surprise of the `wanted` actions in nats, and the context in `seen` (S,) that explains each best: (N,)."""
    xp, contexts = namespace(wanted.principal), find_contexts(seen, wanted)
    parts = [
        _least_surprise(transitions, wanted.take(rows), *contexts.pairs(rows)) for rows in contexts.blocks()
    ]
    if not parts:
        return xp.zeros(0, np.float32), xp.zeros(0, np.uint64)
    nats, best = zip(*parts, strict=True)
    return xp.concatenate(nats), xp.concatenate(best)


def _least_surprise(
    transitions: Transitions, wanted: SeenActions, which: NDArray[np.intp], context: Hashes
) -> tuple[Floats, Hashes]:
    """Return the surprise of each action after the best of its contexts, ties by context: (N,) each.

    `which` (P,) and `context` (P,) are pairs of `Contexts`. Equal pairs are computed once.
    """
    xp = namespace(context)
    which = xp.concatenate([xp.arange(len(wanted.action)), which])
    context = xp.concatenate([xp.full(len(wanted.action), START, np.uint64), context])
    principal, action = wanted.principal[which], wanted.action[which]
    number, some = unique_examples(transition_key(principal, context, action))
    nats = transition_nats(transitions, principal[some], context[some], action[some])[number]
    best = least_of_each(len(wanted.action), which, nats, context)
    return nats[best], context[best]


def least_of_each(count: int, which: NDArray[np.intp], nats: Floats, context: Hashes) -> NDArray[np.intp]:
    """Return the index of the pair with the fewest nats of each action, ties by context: (P,) -> (count,).

    `which` (P,) is the action of each pair, a number below `count`.
    """
    if not is_on_host(nats):
        return array_least_of_each(count, which, nats, context)
    best = np.full(count, -1)
    _compiled().find_least_of_each(which, nats, context, best)
    return best


def array_least_of_each(
    count: int, which: NDArray[np.intp], nats: Floats, context: Hashes
) -> NDArray[np.intp]:
    """Return the result of `least_of_each`, computed with any array library."""
    xp, order = namespace(nats), lexsort(context, nats)
    order = order[xp.argsort(which[order], kind="stable")]
    least: NDArray[np.intp] = order[xp.searchsorted(which[order], xp.arange(count))]
    return least


def start_surprise(transitions: Transitions, wanted: SeenActions) -> Floats:
    """Return the surprise of actions as the first of a session (N,), which no further context can exceed."""
    xp = namespace(wanted.principal)
    start = xp.full(len(wanted.action), START, np.uint64)
    number, places = unique_examples(transition_key(wanted.principal, start, wanted.action))
    some = wanted.take(places)
    nats: Floats = transition_nats(transitions, some.principal, start[places], some.action)[number]
    return nats


def transition_nats(transitions: Transitions, principal: Hashes, context: Hashes, action: Hashes) -> Floats:
    """Return -log p(action | context) of each principal: (P,) -> (P,) nats."""
    if not is_on_host(transitions.keys):
        return array_transition_nats(transitions, principal, context, action)
    compiled, nats = _compiled(), np.empty(len(action), np.float32)
    compiled.fill_transition_nats(
        transitions.keys, transitions.count, principal, context, action, compiled.PRIORS, nats
    )
    return nats


@cache
def _compiled() -> Any:
    from fingerprint.estimators import compiled_transitions  # numba takes half a second

    return compiled_transitions


def array_transition_nats(
    transitions: Transitions, principal: Hashes, context: Hashes, action: Hashes
) -> Floats:
    """Return the result of `transition_nats`, computed with any array library."""
    xp = namespace(action)
    alone = _counts(transitions, transition_key(ORGANISATION, ANY, action))
    total = float(_counts(transitions, _one(xp, transition_key(ORGANISATION, ANY, TOTAL)))[0])
    actions = float(_counts(transitions, _one(xp, transition_key(ORGANISATION, TOTAL, TOTAL)))[0])
    usual = (alone + 0.5) / (total + (actions + 1) / 2)
    for owner, prior in ((ORGANISATION, ORGANISATION_PRIOR), (principal, PRINCIPAL_PRIOR)):
        after = _counts(transitions, transition_key(owner, context, action))
        there = _counts(transitions, transition_key(owner, context, TOTAL))
        usual = (after + prior * usual) / (there + prior)
    nats: Floats = (-xp.log(usual)).astype(np.float32)
    return nats


def count_of(
    transitions: Transitions, owner: np.uint64, context: np.uint64, action: np.uint64
) -> tuple[float, float]:
    """Return the numbers of intervals in which an owner did an action after a context, and in which it had that context."""
    after, there = counts_after(transitions, owner, context, np.array([action, TOTAL], np.uint64))
    return float(after), float(there)


def counts_after(
    transitions: Transitions, owner: np.uint64, context: np.uint64, actions: Hashes
) -> NDArray[np.float64]:
    """Return the number of intervals in which an owner did each action after a context, (A,)."""
    return _counts(transitions, transition_key(owner, context, actions))


def _counts(transitions: Transitions, keys: Hashes) -> NDArray[np.float64]:
    """Return how often each key was counted (P,), 0 for never."""
    xp = namespace(keys)
    place, found = find_sorted(transitions.keys, keys)
    out: NDArray[np.float64] = xp.zeros(len(keys), np.float64)
    out[found] = transitions.count[place[found]]
    return out


def _one(xp: Any, key: Any) -> Hashes:
    """Return a key as an array (1,) of the library `xp`."""
    one: Hashes = xp.full(1, key, np.uint64)
    return one


# --- the tail ---------------------------------------------------------------------------------------------------------


def grid_place(nats: Floats) -> NDArray[np.int64]:
    """Return the last point of the grid that each surprise (N,) reaches."""
    place: NDArray[np.int64] = (nats / GRID_STEP).astype(np.int64).clip(0, GRID_SIZE - 1)
    return place


def z_of_surprise(transitions: Transitions, nats: Floats, kind: Hashes) -> Floats:
    """Return the normal quantile of the share of harmless events with at least such a surprise: nats, kind (N,) -> z (N,).

    A kind without a tail of its own is judged by that of all kinds.
    """
    return z_of_places(transitions, grid_place(nats), kind)


def z_of_places(transitions: Transitions, place: NDArray[np.int64], kind: Hashes) -> Floats:
    """Return the z of surprises by their place on the grid: place, kind (N,) -> (N,)."""
    return _tail_z(transitions.kinds, transitions.tail, place, kind)


def z_by_other_days(
    kind: Hashes, place: NDArray[np.int64], events: NDArray[np.float64], day: NDArray[np.integer[Any]]
) -> Floats:
    """Return the z of held-out events, each by the tails of the other days: groups (G,) as in `fit_tails`, and their day.

    A single day is judged by its own tails.
    """
    out = np.empty(len(kind), np.float32)
    for left_out, others in day_folds(day):
        kinds, tail = fit_tails(kind[others], place[others], events[others])
        out[left_out] = _tail_z(kinds, tail, place[left_out], kind[left_out])
    return out


def _tail_z(kinds: Hashes, tail: Floats, place: NDArray[np.int64], kind: Hashes) -> Floats:
    xp = namespace(place)
    of_kind, known = find_sorted(kinds, kind)
    row = xp.where(known, of_kind, xp.searchsorted(kinds, _one(xp, ALL_KINDS))[0])
    share = tail[row, place].astype(np.float64)
    z: Floats = -scipy_special(share).ndtri(xp.minimum(share, 1 - 1e-9))
    return z.astype(np.float32)


def fit_tails(kind: Hashes, place: NDArray[np.int64], events: NDArray[np.float64]) -> tuple[Hashes, Floats]:
    """Return the kinds, sorted, and the tail of each: (K,), (K, 96).

    The harmless held-out events come in groups (G,): each has a `kind`, a `place` on the grid, and a number of `events`. The tail
    of a kind is shrunk towards that of all kinds, which counts one event more than there was, at the highest point.
    """
    kinds = np.unique(np.append(kind, ALL_KINDS))
    counted = np.zeros((len(kinds), GRID_SIZE))
    np.add.at(counted, (np.searchsorted(kinds, kind), place), events)
    everything = counted.sum(0)
    whole = (_at_least(everything) + 1) / (everything.sum() + 1)
    own = (_at_least(counted) + KIND_PRIOR_EVENTS * whole) / (
        counted.sum(1, keepdims=True) + KIND_PRIOR_EVENTS
    )
    own[kinds == ALL_KINDS] = whole
    return kinds, own.astype(np.float32)


def _at_least(counted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the number of events at each point of the grid or above: (..., 96) -> (..., 96)."""
    above: NDArray[np.float64] = counted[..., ::-1].cumsum(-1)[..., ::-1]
    return above


# --- counting ---------------------------------------------------------------------------------------------------------


def distinct_transitions(
    seen: SeenActions, interval: NDArray[np.integer[Any]]
) -> tuple[Hashes, Hashes, Hashes]:
    """Return principal, context and action of the distinct transitions of each principal and interval, from (S,): (T,) each.

    An action without any context begins a session.
    """
    contexts, parts = find_contexts(seen, seen), []
    for rows in contexts.blocks():
        which, context = contexts.pairs(rows)
        begins = np.ones(rows.stop - rows.start, bool)
        begins[which] = False
        which = np.concatenate([np.flatnonzero(begins), which]) + rows.start
        context = np.concatenate([np.full(int(begins.sum()), START), context])
        principal, action = seen.principal[which], seen.action[which]
        unit = hash_pair(transition_key(principal, context, action), interval[which].astype(np.uint64))
        once = np.unique(unit, return_index=True)[1]
        parts.append((unit[once], principal[once], context[once], action[once]))
    unit, principal, context, action = (
        np.concatenate([np.empty(0, np.uint64), *(part[at] for part in parts)]) for at in range(4)
    )
    once = np.unique(unit, return_index=True)[1]
    return principal[once], context[once], action[once]


def count_transitions(
    owner: Hashes | np.uint64, context: Hashes, action: Hashes
) -> tuple[Hashes, NDArray[np.float64]]:
    """Return the sorted keys of transitions (T,) and of their contexts (action TOTAL), and how often each occurs."""
    both = [action, np.full(len(action), TOTAL)]
    keys = np.concatenate([transition_key(owner, context, each) for each in both])
    distinct, counts = np.unique(keys, return_counts=True)
    return distinct, counts.astype(np.float64)
