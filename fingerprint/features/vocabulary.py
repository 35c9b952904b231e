"""Vocabulary: the values that each fingerprint has seen, how often, and the likelihood of any value, seen or not.

Example:
    >>> vocabulary = build_vocabulary(presences, parent, slots=24)
    >>> logp, slot, known = vocabulary.look_up(np.array([5]), codes[:1])     # fingerprint 5, codes (1, F)

A fingerprint reserves a share e of its probability for values that it has not seen, and leaves it to its parent (entity ->
principal -> peer group -> generic) to distribute. There, values that the fingerprint knows are left out ("exclusion" in Cleary
and Witten 1984); otherwise a value that is new at every level would pay for its novelty at every level:

    p(x) = (1 - e) count(x) / n                               x was seen here
    p(x) = e p_parent(x) / (1 - sum of p_parent(known here))  x was not
    e    = (T + W e_parent) / (n + T + W)                     T distinct values in n presences (Witten and Bell 1991), W is
                                                              PARENT_WEIGHT: a fingerprint with few presences takes its parent's e

At generic, which has no parent, a value that was not seen is one of POSSIBLE_VALUES. Bins run out, so known bins are left out
there too. Names do not: an organisation that has shown ten thousand buckets has not shown all of them, and another is still new.

Counts are presences, not events: distinct intervals at an entity or principal, distinct principal-days in a peer group,
distinct principals in the organisation (the continuation counts of Kneser and Ney 1995). Volume is the concern of the spectral
detector; here a loop of a million calls must not drown the other usual values. Only for an entity or principal that is not ready
every event counts, because a few minutes have one interval, and thirty calls of one tool say more than one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats, Ints, Placement, move_arrays, namespace, to_device_of, to_host
from fingerprint.compute.sorted_table import find_sorted, rank_in_run
from fingerprint.features.encoding import GIVEN_FEATURE, IS_BIN

VOCABULARY_SIZE = 24  # values of a feature that a fingerprint keeps in slots of its own

# (F,) the number of possible bins, or of unseen names (operations, networks, ...), however many names were seen
POSSIBLE_VALUES = np.where(IS_BIN, 32.0, 10_000.0)
LOG_POSSIBLE_VALUES = np.log(POSSIBLE_VALUES).astype(np.float32)
# (F,) log share that a value seen at generic takes from unseen values there: a bin its own place, a name nothing
LOG_ROOT_SHARE = np.where(IS_BIN, -np.log(POSSIBLE_VALUES), -np.inf)
MIN_UNKNOWN_SHARE = 1e-3  # least share of the parent's probability that is left for unknown values
PARENT_WEIGHT = 5.0  # W: presences that the parent's e is worth
# New values are usual where at least so many came, and about every other presence was the first of its value (T = n / 2) ...
USUAL_NOVELTY_VALUES = 5
USUAL_NOVELTY_SHARE = 1 / 3  # ... which makes e as large as this


@dataclass(frozen=True, slots=True)
class PresenceCounts:
    """Counts of one level, (M,) each: fingerprint, feature, code of a value, and the number of units that show the value."""

    fingerprint: Ints
    feature: NDArray[np.int16]
    code: hashing.Hashes
    count: Floats


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """M known values of E fingerprints with F features, K slots each, as arrays without strings.

    - `keys` (M,): sorted hashes of (fingerprint, feature, code)
    - `logp`, `count`, `slot` (M,): log probability, presences and slot of each value
    - `escape` (E, F): log of the factor by which the parent's probability of an unseen value is multiplied,
      e / (1 - sum of p_parent(known here))
    - `base` (E, F, K): log probability of each slot; slot 0 stands for all values without one
    - `codes` (E, F, K): the value of each slot
    - `total` (E, F): all presences
    - `parent` (E,): -1 at generic
    """

    keys: hashing.Hashes
    logp: Floats
    count: Floats
    slot: NDArray[np.int16]
    escape: Floats
    base: Floats
    codes: hashing.Hashes
    total: Floats
    parent: Ints

    def on(self, placement: Placement) -> Vocabulary:
        """Return the vocabulary with its arrays moved by `placement`, except `codes`, which explain and never score."""
        return move_arrays(self, placement, excluded=("codes",))

    def look_up(
        self, fingerprint: Ints, codes: hashing.Hashes
    ) -> tuple[Floats, NDArray[np.int16], NDArray[np.bool_]]:
        """Return log probability, slot and whether it is known here, of each value: fingerprint (N,), codes (N, F) -> 3 x (N, F).

        A value that a fingerprint does not know is looked up at its parent, and so on. Known nowhere, it is one of
        POSSIBLE_VALUES.
        """
        xp = namespace(codes)
        possible = to_device_of(LOG_POSSIBLE_VALUES, codes)
        logp = xp.zeros(codes.shape, np.float32)
        slot = xp.zeros(codes.shape, np.int16)
        known = xp.zeros(codes.shape, bool)
        row, column = (index.ravel() for index in xp.indices(codes.shape))
        at = xp.repeat(fingerprint, codes.shape[1])
        first = True
        while len(row):
            place, found = find_sorted(self.keys, vocabulary_key(at, column, codes[row, column]))
            hit, miss = (row[found], column[found]), ~found
            logp[hit] += self.logp[place[found]]
            if first:
                slot[hit], known[hit], first = self.slot[place[found]], True, False
            row, column, at = row[miss], column[miss], at[miss]
            logp[row, column] += self.escape[at, column]
            at = self.parent[at]
            rootless = at < 0
            logp[row[rootless], column[rootless]] -= possible[column[rootless]]
            row, column, at = row[~rootless], column[~rootless], at[~rootless]
        return logp, slot, known

    def find_own(
        self, fingerprint: Ints, feature: int, code: hashing.Hashes
    ) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        """Return the slots of one feature's values at the fingerprints themselves, and whether they are known: (N,) each."""
        place, known = find_sorted(self.keys, vocabulary_key(fingerprint, feature, code))
        slot = namespace(code).zeros(len(code), np.int16)
        slot[known] = self.slot[place[known]]
        return slot, known

    def novelty_loss(self, fingerprint: Ints, feature: int) -> Floats:
        """Return the loss in nats of the fact that *some* value known nowhere comes: fingerprint (N,) -> (N,).

        It is minus the log of the product of the shares that all levels leave for unknown values, so it is small where new values
        come often.
        """
        xp = namespace(self.escape)
        loss, at = xp.zeros(len(fingerprint), np.float32), fingerprint
        open_ = xp.arange(len(fingerprint))
        while len(open_):
            loss[open_] -= self.escape[at, feature]
            at = self.parent[at]
            open_, at = open_[at >= 0], at[at >= 0]
        return loss

    def observed_share(self, fingerprint: Ints, codes: hashing.Hashes) -> Floats:
        """Return the presences of a value as a share of all presences at the fingerprint itself: (N, F), 0 if never seen."""
        total = to_host(self.total[to_device_of(to_host(fingerprint), self.total)])
        return (self.observed_count(fingerprint, codes) / np.maximum(total, 1)).astype(np.float32)

    def observed_count(self, fingerprint: Ints, codes: hashing.Hashes) -> Floats:
        """Return the presences of a value at the fingerprint itself: (N, F); at the generic one these are principals.

        It is for explaining alerts, so N is small and the result is on the host, wherever the counts lie.
        """
        owner, codes = to_host(fingerprint), to_host(codes)
        feature = np.broadcast_to(np.arange(codes.shape[1]), codes.shape).ravel()
        count = self.count_of(np.repeat(owner, codes.shape[1]), feature, codes.ravel())
        return count.reshape(codes.shape)

    def count_of(self, fingerprint: Any, feature: Any, code: hashing.Hashes) -> Floats:
        """Return the presences of values `code` (N,), on the host; fingerprint and feature are numbers or (N,)."""
        keys = vocabulary_key(fingerprint, feature, code)
        place, found = find_sorted(self.keys, to_device_of(keys, self.keys))
        count = np.zeros(len(code), np.float32)
        count[to_host(found)] = to_host(self.count[place[found]])
        return count

    def novelty_is_usual(self, fingerprint: Ints) -> NDArray[np.bool_]:
        """Return whether new values of each feature are usual at the fingerprints themselves: (N,) -> (N, F).

        For example, a CI job on hosted runners comes from a new address range all the time. The share e is computed from the
        commonest value, which has the probability (1 - e) count / n. The result is for explaining alerts, and on the host.
        """
        at, of_event = np.unique(to_host(fingerprint), return_inverse=True)
        distinct, commonest = (self.codes[at, :, 1:] != 0).sum(axis=2), self.codes[at, :, 1]
        feature = np.broadcast_to(np.arange(commonest.shape[1]), commonest.shape)
        keys = vocabulary_key(np.repeat(at, commonest.shape[1]), feature.ravel(), commonest.ravel())
        place, found = find_sorted(self.keys, to_device_of(keys, self.keys))
        total = to_host(self.total[to_device_of(at, self.total)]).ravel()
        share = to_host(self.count[place]) / np.maximum(total, 1)
        left = 1 - np.exp(to_host(self.logp[place])) / np.maximum(share, 1e-9)
        usual = to_host(found) & (left >= USUAL_NOVELTY_SHARE)
        of_fingerprint = usual.reshape(commonest.shape) & (distinct >= USUAL_NOVELTY_VALUES)
        return of_fingerprint[of_event]


def vocabulary_key(fingerprint: Any, feature: Any, code: hashing.Hashes) -> hashing.Hashes:
    """Return the key of a feature's value at a fingerprint."""
    return hashing.hash_pair(_as_uint64(fingerprint) * np.uint64(256) + _as_uint64(feature), code)


def _as_uint64(number: Any) -> Any:
    return number.astype(np.uint64) if hasattr(number, "astype") else np.uint64(number)


def count_presences(fingerprint: Ints, unit: NDArray[Any], codes: hashing.Hashes) -> PresenceCounts:
    """Count the distinct units (intervals, days, principals) in which each value was present.

    Rows have `fingerprint` (R,), `unit` (R,) and `codes` (R, F). A unit counts once, however often it has the value.
    """
    parts = [
        _presences_of(fingerprint, unit, codes[:, feature], feature) for feature in range(codes.shape[1])
    ]
    return _of_all_features(parts)


def count_events(fingerprint: Ints, events: Floats, codes: hashing.Hashes) -> PresenceCounts:
    """Count the events that show each value. Rows have `fingerprint` and `events` (R,), and `codes` (R, F)."""
    parts = []
    for feature in range(codes.shape[1]):
        keys = vocabulary_key(fingerprint, feature, codes[:, feature])
        _, example, value = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.bincount(value, events, len(example))
        parts.append((fingerprint[example], np.full(len(example), feature), codes[example, feature], counts))
    return _of_all_features(parts)


def _of_all_features(parts: Sequence[tuple[Any, ...]]) -> PresenceCounts:
    """Return one table from parts by feature: owners, features, values and counts."""
    owners, features, values, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return PresenceCounts(
        owners.astype(np.int32), features.astype(np.int16), values, counts.astype(np.float32)
    )


def concatenate_presences(parts: Sequence[PresenceCounts]) -> PresenceCounts:
    """Return the counts of parts of the same level, which have no fingerprints in common."""
    return PresenceCounts(
        *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(PresenceCounts))
    )


def usual_losses(
    known: Vocabulary, counted: PresenceCounts, of_parent: Floats, rows: NDArray[np.intp]
) -> Floats:
    """Return the median loss of future values, estimated from the counts of some fingerprints: rows (M,), sorted -> (M, F).

    Where at least half of the presences repeat a value, it is the loss of the median repeat (`_median_repeats`). Otherwise it is
    that of a new value, by the usual losses `of_parent` (M, F). For a feature that is judged given another one it is the
    difference to that one's.
    """
    at = _median_repeats(counted, rows)
    keys = vocabulary_key(counted.fingerprint[at], counted.feature[at], counted.code[at])
    place = np.searchsorted(known.keys, keys)
    out = of_parent - known.escape[rows]
    out[np.searchsorted(rows, counted.fingerprint[at]), counted.feature[at]] = -known.logp[place]
    given = np.flatnonzero(GIVEN_FEATURE >= 0)
    out[:, given] -= out[:, GIVEN_FEATURE[given]]
    return np.maximum(out, 0).astype(np.float32)


def _median_repeats(counted: PresenceCounts, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the indices of the counts of the values that median presences repeat, one for each fingerprint (M,) and feature.

    The first presence of a value was new, the others repeated it. Adding up the repeats of values, the commonest first, the
    median value is that at which they reach half of all presences. There is none if most presences were new.
    """
    selected = np.flatnonzero(np.isin(counted.fingerprint, rows))
    owner, feature = counted.fingerprint[selected].astype(np.int64), counted.feature[selected]
    order = np.lexsort((counted.code[selected], -counted.count[selected], feature, owner))
    some, group = selected[order], (owner * 256 + feature)[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    size = np.diff(starts, append=len(group))
    count, repeated = counted.count[some].astype(np.float64), np.cumsum(counted.count[some] - 1.0)
    before = np.repeat(np.concatenate([[0.0], repeated])[starts], size)
    total = np.repeat(np.add.reduceat(count, starts), size) if len(starts) else count
    half = np.flatnonzero(repeated - before >= total / 2)
    half = half[np.unique(group[half], return_index=True)[1]]  # the first of each
    repeats: NDArray[np.intp] = some[half]
    return repeats


def _presences_of(
    fingerprint: Ints, unit: NDArray[Any], code: hashing.Hashes, feature: int
) -> tuple[Any, ...]:
    value = vocabulary_key(fingerprint, feature, code)
    _, one_per_unit = np.unique(hashing.hash_pair(value, unit.astype(np.uint64)), return_index=True)
    _, example, counts = np.unique(value[one_per_unit], return_index=True, return_counts=True)
    example = one_per_unit[example]
    return fingerprint[example], np.full(len(example), feature), code[example], counts


def merge_presences(parts: Sequence[PresenceCounts]) -> PresenceCounts:
    """Return the sums of counts of the same level, sorted by key. The parts count different units."""
    every = concatenate_presences(parts)
    keys = vocabulary_key(every.fingerprint, every.feature, every.code)
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]]))
    first = order[starts]
    total = np.add.reduceat(every.count[order], starts) if len(starts) else every.count
    return PresenceCounts(every.fingerprint[first], every.feature[first], every.code[first], total)


def build_vocabulary(levels: Sequence[PresenceCounts], parent: Ints, slots: int) -> Vocabulary:
    """Return a vocabulary from presences of all levels, generic first, because likelihoods of a level use those before it."""
    shape = (len(parent), len(POSSIBLE_VALUES))
    total, curiosity = np.zeros(shape, np.float32), np.ones(shape)
    known = _empty(parent, np.zeros(shape, np.float32))
    for level in levels:
        known = _with_level(known, level, total, curiosity, slots)
    return _with_slots(known, levels, total, slots)


def _empty(parent: Ints, escape: Floats) -> Vocabulary:
    none, codes = np.empty(0, np.float32), np.empty((0, 0, 0), np.uint64)
    return Vocabulary(codes.ravel(), none, none, none.astype(np.int16), escape, none, codes, escape, parent)


def _with_level(
    known: Vocabulary, level: PresenceCounts, total: Floats, curiosity: NDArray[np.float64], slots: int
) -> Vocabulary:
    """Return the vocabulary with a level added, and fill `total` (presences) and `curiosity` (e), (E, F), in place."""
    at = (level.fingerprint, level.feature)
    inherited = _inherited(known, level)
    distinct, excluded = np.zeros(total.shape), np.zeros(total.shape)
    np.add.at(total, at, level.count)
    np.add.at(distinct, at, 1)
    np.add.at(excluded, at, inherited)
    rows = np.unique(level.fingerprint)
    above = np.where(known.parent[rows, None] >= 0, curiosity[known.parent[rows]], 1.0)
    curiosity[rows] = (distinct[rows] + PARENT_WEIGHT * above) / (
        total[rows] + distinct[rows] + PARENT_WEIGHT
    )
    escape = known.escape.copy()
    escape[rows] = np.log(curiosity[rows] / np.maximum(1 - excluded[rows], MIN_UNKNOWN_SHARE))
    logp = np.log((1 - curiosity[at]) * level.count / total[at]).astype(np.float32)
    keys = np.concatenate([known.keys, vocabulary_key(level.fingerprint, level.feature, level.code)])
    order = np.argsort(keys)
    return Vocabulary(
        keys[order],
        np.concatenate([known.logp, logp])[order],
        np.concatenate([known.count, level.count])[order],
        np.concatenate([known.slot, _slots_by_count(level, slots)])[order],
        escape,
        known.base,
        known.codes,
        known.total,
        known.parent,
    )


def _inherited(known: Vocabulary, level: PresenceCounts) -> NDArray[np.float64]:
    """Return the likelihood of each value at the parents, (M,), which is excluded there for values not seen here."""
    at, out = known.parent[level.fingerprint], np.zeros(len(level.code))
    open_ = np.arange(len(level.code))
    while len(open_):
        feature = level.feature[open_]
        here = at[open_]
        rootless = here < 0
        out[open_[rootless]] += LOG_ROOT_SHARE[feature[rootless]]
        open_, feature, here = open_[~rootless], feature[~rootless], here[~rootless]
        place, found = find_sorted(known.keys, vocabulary_key(here, feature, level.code[open_]))
        out[open_[found]] += known.logp[place[found]]
        open_, feature, here = open_[~found], feature[~found], here[~found]
        out[open_] += known.escape[here, feature]
        at[open_] = known.parent[here]
    return np.exp(out)


def _slots_by_count(level: PresenceCounts, slots: int) -> NDArray[np.int16]:
    """Return slots (M,): 1 ... slots - 1 for the values of a feature with the most presences, ties by code; 0 for others."""
    order = np.lexsort((level.code, -level.count, level.feature, level.fingerprint))
    owner = level.fingerprint[order].astype(np.int64) * 256 + level.feature[order]
    rank, out = rank_in_run(owner), np.zeros(len(order), np.int16)
    out[order] = np.where(rank < slots - 1, rank + 1, 0)
    return out


def _with_slots(known: Vocabulary, levels: Sequence[PresenceCounts], total: Floats, slots: int) -> Vocabulary:
    shape = (*total.shape, slots)
    base, codes = np.full(shape, 1e-9, np.float64), np.zeros(shape, np.uint64)
    for level in levels:
        place, _ = find_sorted(known.keys, vocabulary_key(level.fingerprint, level.feature, level.code))
        kept = known.slot[place] > 0
        where = (level.fingerprint[kept], level.feature[kept], known.slot[place][kept])
        base[where], codes[where] = np.exp(known.logp[place][kept]), level.code[kept]
    base[..., 0] = np.maximum(1 - base[..., 1:].sum(-1), 1e-4)
    return Vocabulary(
        known.keys,
        known.logp,
        known.count,
        known.slot,
        known.escape,
        np.log(base).astype(np.float32),
        codes,
        total,
        known.parent,
    )
