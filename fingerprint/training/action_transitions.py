"""Transitions: how often an action follows another in a history, and how rare a surprise is (`estimators.sequence`).

Example:
    >>> count_partition(history, 3)           # writes partitions/003/transitions: counts of early rows, and of all rows
    >>> merge_shared(history)                 # the organisation's transitions, over all partitions
    >>> calibrate_partition(history, 3)       # writes partitions/003/surprises: held-out rows, judged by early counts
    >>> assemble_transitions(history, holdout_surprises(history)).tail.shape        # kinds of principals, points of the tail
    (4, 96)

As everywhere in training, held-out rows are judged by counts of the rows before them alone; the bank then gets the counts of all
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays, Floats
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted, rank_in_run
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.estimators import sequence
from fingerprint.estimators.principal_weights import balanced_events
from fingerprint.estimators.sequence import ANY, ORGANISATION, TOTAL, Transitions
from fingerprint.estimators.tail_calibration import argmax_per_group
from fingerprint.state.action_sequence import ActionSequence
from fingerprint.training import fingerprint_index
from fingerprint.training.action_rows import ActionRows
from fingerprint.training.dataset import PartitionedDataset, make_once, write_arrays

SPLITS = ("early", "all")  # counts that judge the held-out rows, and counts that are served


# --- in each partition ------------------------------------------------------------------------------------------------


def count_partition(dataset: PartitionedDataset, partition: int) -> Path:
    """Count the transitions of a partition: those of its principals, and its part of the organisation's."""
    return make_once(
        dataset.partition_folder(partition) / "transitions", partial(_count_partition, dataset, partition)
    )


def _count_partition(dataset: PartitionedDataset, partition: int, folder: Path) -> None:
    rows = ActionRows.load(dataset.partition_folder(partition) / "rows")
    held_out = fingerprint_index.load_split(dataset).is_held_out(rows)
    arrays: Arrays = {}
    for name, which in zip(SPLITS, (rows.learned & ~held_out, rows.learned), strict=True):
        arrays |= {f"{name}.{part}": each for part, each in _count(rows.take(which)).items()}
    write_arrays(arrays, folder, "transitions")


def _count(rows: ActionRows) -> Arrays:
    """Return the counts of principals by key, and the counts from which those of the organisation follow.

    `context`, `action`, `count`: how often an action followed a context; `done.action`, `done.count`: in how many intervals of
    principals an action was called.
    """
    principal, context, action = sequence.distinct_transitions(rows.seen, rows.interval)
    keys, count = sequence.count_transitions(principal, context, action)
    pair, first, times = np.unique(hashing.hash_pair(context, action), return_index=True, return_counts=True)
    unit = interval_action_key(rows.principal, rows.interval, rows.action)
    done, done_times = np.unique(rows.action[np.unique(unit, return_index=True)[1]], return_counts=True)
    return {
        "keys": keys,
        "keys_count": count,
        "pair": pair,
        "context": context[first],
        "action": action[first],
        "count": times,
        "done.action": done,
        "done.count": done_times,
    }


def merge_shared(dataset: PartitionedDataset) -> Path:
    """Add up the organisation's transitions over all partitions."""
    return make_once(dataset.folder / "transitions", partial(_merge_shared, dataset))


def _merge_shared(dataset: PartitionedDataset, folder: Path) -> None:
    parts, arrays = dataset.arrays_of("transitions", "transitions"), {}
    for split in SPLITS:
        columns = {
            name: np.concatenate([part[f"{split}.{name}"] for part in parts])
            for name in ("pair", "context", "action", "count", "done.action", "done.count")
        }
        first, count = _summed(columns["pair"], columns["count"])
        context, action = columns["context"][first], columns["action"][first]
        keys, counted = _organisation_counts(context, action, count)
        first, times = _summed(columns["done.action"], columns["done.count"])
        done = sequence.transition_key(ORGANISATION, ANY, columns["done.action"][first])
        totals = [sequence.transition_key(ORGANISATION, each, TOTAL) for each in (ANY, TOTAL)]
        figures = np.array([times.sum(), len(times)], np.float64)
        arrays[f"{split}.keys"] = np.concatenate([keys, done, np.array(totals, np.uint64)])
        arrays[f"{split}.keys_count"] = np.concatenate([counted, times, figures])
        if split == "all":
            arrays |= _usual_actions(context, action, count)
    write_arrays(arrays, folder, "transitions")


def _summed(keys: Hashes, count: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the first place of each distinct key, in the order of keys, and the sum of its counts."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first, np.bincount(inverse, count, len(first)).astype(np.float64)


def _organisation_counts(
    context: Hashes, action: Hashes, count: NDArray[np.float64]
) -> tuple[Hashes, NDArray[np.float64]]:
    """Return the keys of the organisation's transitions (T,), followed by those of their contexts, and the counts of all."""
    contexts, inverse = np.unique(context, return_inverse=True)
    keys = [
        sequence.transition_key(ORGANISATION, context, action),
        sequence.transition_key(ORGANISATION, contexts, np.full(len(contexts), TOTAL)),
    ]
    return np.concatenate(keys), np.concatenate([count, np.bincount(inverse, count, len(contexts))])


def _usual_actions(context: Hashes, action: Hashes, count: NDArray[np.float64]) -> Arrays:
    """Return the sorted contexts (C,) and the actions that most often followed each (C, 3), 0 for none."""
    order = np.lexsort((action, -count, context))
    contexts, place = np.unique(context[order], return_inverse=True)
    rank = rank_in_run(place)
    usual = np.zeros((len(contexts), sequence.USUAL_ACTIONS), np.uint64)
    few = rank < sequence.USUAL_ACTIONS
    usual[place[few], rank[few]] = action[order][few]
    return {"contexts": contexts, "usual": usual}


def calibrate_partition(dataset: PartitionedDataset, partition: int) -> Path:
    """Measure the surprises of a partition's held-out rows, by the counts of the other rows."""
    return make_once(
        dataset.partition_folder(partition) / "surprises", partial(_calibrate_partition, dataset, partition)
    )


def _calibrate_partition(dataset: PartitionedDataset, partition: int, folder: Path) -> None:
    here = dataset.partition_folder(partition)
    rows = ActionRows.load(here / "rows")
    late = rows.take(fingerprint_index.load_split(dataset).is_held_out(rows))
    shared = mapped_arrays.open_arrays(dataset.folder / "transitions", "transitions")
    known = _counted([shared, mapped_arrays.open_arrays(here / "transitions", "transitions")], "early")
    nats, _ = sequence.surprise_of_actions(known, rows.seen, late.seen)
    people = pd.read_parquet(here / "rows" / "people.parquet").sort_values("hash")
    kinds = hashing.hash_strings(people["kind"])
    kind = kinds[find_sorted(people["hash"].to_numpy(np.uint64), late.principal)[0]]
    found = _surprises(late, kind, sequence.grid_place(nats))
    write_arrays(found._asdict(), folder, "surprises")


class HoldoutSurprises(NamedTuple):
    """Surprises of held-out actions in G groups; `events` (G,) counts the events that are equal in all other fields.

    `kind` (G,) is the hash of the principal's kind, `place` (G,) the surprise on the grid of `estimators.sequence`.
    """

    principal: Hashes
    action: Hashes
    interval: NDArray[np.int32]
    kind: Hashes
    place: NDArray[np.int64]
    events: NDArray[np.float64]

    @property
    def key(self) -> Hashes:
        """The hash of principal, interval and action (G,)."""
        return interval_action_key(self.principal, self.interval, self.action)

    @property
    def balanced(self) -> NDArray[np.float64]:
        """The weights of the groups in the tail of their kind (G,)."""
        return balanced_events(self.events, self.principal, self.kind, self.interval)

    @property
    def novelty(self) -> Hashes:
        """The hash of principal and action (G,), by which scoring remembers the ones that had the vote."""
        return hashing.combine(self.principal, self.action)

    def take(self, which: NDArray[Any]) -> HoldoutSurprises:
        """Return the groups of a mask or an index."""
        return HoldoutSurprises(*(np.asarray(column)[which] for column in self))


def _surprises(rows: ActionRows, kind: Hashes, place: NDArray[np.int64]) -> HoldoutSurprises:
    key = interval_action_key(rows.principal, rows.interval, rows.action)
    first, events = _summed(hashing.hash_pair(key, place.astype(np.uint64)), rows.events)
    some = HoldoutSurprises(rows.principal, rows.action, rows.interval, kind, place, rows.events).take(first)
    return some._replace(events=events)


def interval_action_key(principal: Hashes, interval: NDArray[np.integer[Any]], action: Hashes) -> Hashes:
    """Return the hash of each principal, interval and action, (N,)."""
    return hashing.hash_pair(hashing.hash_pair(principal, interval.astype(np.uint64)), action)


# --- together ---------------------------------------------------------------------------------------------------------


def assemble_transitions(dataset: PartitionedDataset, held: HoldoutSurprises) -> Transitions:
    """Return the transitions of a bank: the counts of all partitions, and the tails of the `held`-out surprises."""
    shared = mapped_arrays.open_arrays(dataset.folder / "transitions", "transitions")
    known = _counted([shared, *dataset.arrays_of("transitions", "transitions")], "all")
    kinds, tail = sequence.fit_tails(held.kind, held.place, held.balanced)
    return Transitions(known.keys, known.count, shared["contexts"], shared["usual"], kinds, tail)


def holdout_surprises(dataset: PartitionedDataset) -> HoldoutSurprises:
    """Return the surprises of the held-out rows of all partitions."""
    return HoldoutSurprises(**dataset.columns_of("surprises", "surprises"))


def z_by_other_days(held: HoldoutSurprises, interval_seconds: int) -> Floats:
    """Return the z of held-out actions (G,) by the tails of the other days, as future days are judged."""
    day = held.interval.astype(np.int64) * interval_seconds // DAY_SECONDS
    return sequence.z_by_other_days(held.kind, held.place, held.balanced, day)


def row_votes(
    held: HoldoutSurprises,
    z: Floats,
    rows: Mapping[str, NDArray[Any]],
    threshold: float,
    second_threshold: float,
) -> NDArray[np.bool_]:
    """Return a mask (L,) of the held-out rows that have a second vote of the sequence detector, a novelty once, as in scoring.

    `z` (G,) is that of `held`. `rows` has `principal`, `interval` and `action` of each row. `threshold` is the z from which the
    detector votes; an action that had this vote is no news later. `second_threshold` is the z of a second vote.
    """
    principal, interval, action = (rows[name] for name in ("principal", "interval", "action"))
    strongest = argmax_per_group(z, held.key)
    place, found = find_sorted(held.key[strongest], interval_action_key(principal, interval, action))
    of_row = np.full(len(interval), -np.inf)
    of_row[found] = z[strongest][place[found]]
    return _first_votes(of_row, hashing.combine(principal, action), interval, threshold, second_threshold)


def action_votes(held: HoldoutSurprises, z: Floats, threshold: float) -> NDArray[np.bool_]:
    """Return a mask (G,) of the held-out actions that have the vote by their z, a novelty once, as in scoring."""
    return _first_votes(z, held.novelty, held.interval, threshold, threshold)


def _first_votes(
    z: Floats, novelty: Hashes, interval: NDArray[np.int32], threshold: float, second_threshold: float
) -> NDArray[np.bool_]:
    """Return a mask (N,) of z from `second_threshold` on, without novelties that reached `threshold` in an earlier interval."""
    seen, strange = ActionSequence(), z >= threshold
    seen.add_votes(novelty[strange], interval[strange])
    votes: NDArray[np.bool_] = (z >= second_threshold) & ~seen.has_earlier_vote(novelty, interval)
    return votes


def _counted(parts: list[Arrays], split: str) -> Transitions:
    """Return the counts of several parts together, without tails."""
    keys, count = (
        np.concatenate([part[f"{split}.{name}"] for part in parts]) for name in ("keys", "keys_count")
    )
    order = np.argsort(keys, kind="stable")
    nothing = np.empty(0, np.uint64)
    return Transitions(
        keys[order], count[order].astype(np.float32), nothing, nothing, nothing, np.empty((0, 0), np.float32)
    )
