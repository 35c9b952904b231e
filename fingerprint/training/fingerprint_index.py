"""The fingerprint index: the fingerprints of all partitions, their order, and which of them are ready.

Example:
    >>> index = build_index(dataset, settings)
    >>> index.table.loc[[0, 1], ["key", "level", "parent", "ready"]]
                key  level  parent  ready
    0     everybody      3      -1   True
    1  people admin      2       0   True

The shared fingerprints come first: the generic one, then the peer groups. Principals and their entities follow, sorted by hash
bucket. So the own fingerprints of a partition, and those of a virtual partition of an opened bank, are a range of rows. Parents
come before their children.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Ints
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.features import peer_groups
from fingerprint.training import distinct_rows
from fingerprint.training.dataset import PartitionedDataset, make_once, write_arrays, write_json
from fingerprint.training.distinct_rows import DistinctRows

HOLDOUT_SHARE = 0.25  # the last share of the history, which is held out for baselines
MIN_DAYS = 4  # fewest days of a history that is cut between days
GENERIC, PEER, PRINCIPAL, ENTITY = 3, 2, 1, 0
HISTORY_AGGREGATES = {"events": ("events", "sum"), "first": ("first", "min"), "last": ("last", "max")}


@dataclass(frozen=True)
class FingerprintIndex:
    """All fingerprints of a bank, in their order.

    - `table` (E rows): key, hash, level, parent, events, days, first, last, ready
    - `people`: hash, principal, kind, role, peer; sorted by hash
    - `words`: code, text; sorted by code
    - The first `shared_count` fingerprints are shared; those of partition n are `bounds[n]` ... `bounds[n + 1] - 1`.
    - `holdout`: the rule that holds rows out
    """

    table: pd.DataFrame
    people: pd.DataFrame
    words: pd.DataFrame
    shared_count: int
    bounds: NDArray[np.intp]
    holdout: HoldoutSplit


class MarkedRows(Protocol):
    """R rows of a history, each with a `mark`, a hash by which it is drawn, and the number of its `interval`."""

    @property
    def mark(self) -> Hashes:
        """The hash of each row (R,)."""
        ...

    @property
    def interval(self) -> Ints:
        """The number of the interval of each row (R,)."""
        ...


@dataclass(frozen=True)
class HoldoutSplit:
    """The rule that holds rows out: those from `interval` on, or, if these are all rows, the `share` with the largest marks."""

    interval: int
    share: float

    def is_held_out(self, rows: MarkedRows) -> NDArray[np.bool_]:
        """Return a mask (R,) of the rows that are held out."""
        if self.share:
            return rows.mark >= np.uint64((1 - self.share) * 2.0**64)
        return rows.interval >= self.interval


@dataclass(frozen=True)
class IndexSlice:
    """A partition's part of the index, numbered from 0: the U shared fingerprints, then those of the partition, E' in all.

    `hash`, `level`, `parent`, `ready` (E',); `first_own` is the number, in the whole index, of the first fingerprint of its own.
    """

    hash: Hashes
    level: NDArray[np.int8]
    parent: Ints
    ready: NDArray[np.bool_]
    shared_count: int
    first_own: int

    @property
    def own(self) -> slice:
        """The range of the partition's own fingerprints."""
        return slice(self.shared_count, len(self.hash))

    def to_global(self, here: Ints) -> Ints:
        """Return the numbers (N,) in the whole index of fingerprints `here` (N,) of this part."""
        return np.where(here < self.shared_count, here, here + self.first_own - self.shared_count).astype(
            np.int32
        )

    def row_owners(self, rows: DistinctRows) -> Ints:
        """Return the fingerprint of each row at each level (R, 4), the finest first."""
        out = np.zeros((len(rows), len(LEVELS)), np.int32)
        for level, keys in ((ENTITY, rows.entity), (PRINCIPAL, rows.principal)):
            at = np.flatnonzero(self.level == level)
            order = at[np.argsort(self.hash[at])]
            out[:, level] = order[find_sorted(self.hash[order], keys)[0]]
        out[:, PEER] = self.parent[out[:, PRINCIPAL]]
        return out


def load_slice(dataset: PartitionedDataset, partition: int) -> IndexSlice:
    """Return the part of the index that a partition needs, as `save_index` wrote it."""
    stack = mapped_arrays.open_arrays(dataset.folder / "stack", "stack")
    first, end = (int(at) for at in stack["bounds"][partition : partition + 2])
    shared_count = int(stack["bounds"][0])
    hashes, level, parent, ready = (
        np.concatenate([stack[name][:shared_count], stack[name][first:end]])
        for name in ("hash", "level", "parent", "ready")
    )
    here = np.where(parent < shared_count, parent, parent - first + shared_count).astype(np.int32)
    return IndexSlice(hashes, level, here, ready, shared_count, first)


def load_split(dataset: PartitionedDataset) -> HoldoutSplit:
    """Return the rule that holds rows out, as `save_index` wrote it."""
    return HoldoutSplit(**json.loads((dataset.folder / "stack" / "cut.json").read_text()))


def save_index(index: FingerprintIndex, dataset: PartitionedDataset) -> Path:
    """Write the arrays of the index that workers on a partition need, beside the partitions."""

    def write(folder: Path) -> None:
        table = index.table
        arrays = {
            "hash": table["hash"].to_numpy(np.uint64),
            "level": table["level"].to_numpy(np.int8),
            "parent": table["parent"].to_numpy(np.int32),
            "ready": table["ready"].to_numpy(bool),
            "bounds": index.bounds.astype(np.int64),
        }
        write_arrays(arrays, folder, "stack")
        write_json(folder / "cut.json", **asdict(index.holdout))

    return make_once(dataset.folder / "stack", write)


def build_index(dataset: PartitionedDataset, settings: Settings) -> FingerprintIndex:
    """Return the index of the rows and names that all partitions collected."""
    people = _principal_table(dataset)
    days = _read_tables(dataset, "days")
    groups, generic = _peer_group_rows(people, days), _generic_row(people, days)
    own = _own_rows(people, _read_tables(dataset, "entities"), groups, settings)
    table = pd.concat([generic, groups, own.drop(columns="owner")], ignore_index=True)
    options = settings.entities
    table["ready"] = (table["events"] >= options.min_ready_events) & (table["days"] >= options.min_ready_days)
    table.loc[0, "ready"] = True
    shared_count = 1 + len(groups)
    bounds = shared_count + np.searchsorted(
        dataset.partition_of(own["owner"].to_numpy(np.uint64)), np.arange(dataset.count + 1)
    )
    words = _read_tables(dataset, "words").drop_duplicates("code").sort_values("code", ignore_index=True)
    kept = people[["hash", "principal", "kind", "role", "peer"]]
    active = days.groupby("day")["hash"].size()
    split = _holdout_split(_read_tables(dataset, "intervals"), active, settings.spectral.intervals_per_day)
    return FingerprintIndex(table, kept, words, shared_count, bounds, split)


def _read_tables(dataset: PartitionedDataset, name: str) -> pd.DataFrame:
    """Return a table of all partitions, concatenated."""
    files = [dataset.partition_folder(number) / "rows" / f"{name}.parquet" for number in dataset.non_empty()]
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def _principal_table(dataset: PartitionedDataset) -> pd.DataFrame:
    people = _read_tables(dataset, "people").sort_values("hash", ignore_index=True)
    usage = _read_tables(dataset, "usage").merge(people[["hash", "principal"]], on="hash")
    people["peer"] = peer_groups.assign_peer_groups(people)
    people["peer"] = peer_groups.cluster_by_services(people, usage, distinct_rows.SEED)
    return people


def _generic_row(people: pd.DataFrame, days: pd.DataFrame) -> pd.DataFrame:
    whole = people.assign(key="everybody").groupby("key").agg(**HISTORY_AGGREGATES).reset_index()
    return _with_hash(whole.assign(days=days["day"].nunique(), level=GENERIC, parent=-1))


def _peer_group_rows(people: pd.DataFrame, days: pd.DataFrame) -> pd.DataFrame:
    """Return the peer groups, sorted by name; a day counts for a group if any member was active."""
    groups = people.groupby("peer").agg(**HISTORY_AGGREGATES)
    together = days.merge(people[["hash", "peer"]], on="hash").groupby("peer")["day"].nunique()
    table = groups.assign(days=together).sort_index().rename_axis("key").reset_index()
    return _with_hash(table.assign(level=PEER, parent=0))


def _own_rows(
    people: pd.DataFrame, entities: pd.DataFrame, groups: pd.DataFrame, settings: Settings
) -> pd.DataFrame:
    """Return principals and entities, sorted by hash bucket, in each bucket principals first."""
    of_group = 1 + groups["key"].searchsorted(people["peer"])
    principals = people.assign(
        key=people["principal"], owner=people["hash"], level=PRINCIPAL, parent=of_group
    )
    entities = entities.drop_duplicates("hash").assign(key=entities["entity"], level=ENTITY)
    own = pd.concat([principals, entities.assign(parent=-1)])[[*_COLUMNS, "owner"]]
    buckets = hashing.bucket_of(own["owner"].to_numpy(np.uint64))
    order = np.lexsort((own["hash"], -own["level"], buckets))
    own = own.iloc[order].reset_index(drop=True)
    return own.assign(parent=_parent_rows(own, 1 + len(groups), settings))


def _parent_rows(own: pd.DataFrame, before: int, settings: Settings) -> Ints:
    """Return the parents: of a principal its peer group; of an entity its principal, or the generic one if it is shared."""
    level, parent = own["level"].to_numpy(), own["parent"].to_numpy(np.int32).copy()
    at = np.flatnonzero(level == PRINCIPAL)
    hashes = own["hash"].to_numpy(np.uint64)[at]
    order = np.argsort(hashes)
    place = find_sorted(hashes[order], own["owner"].to_numpy(np.uint64)[level == ENTITY])[0]
    shared = settings.entities.granularity == "service"
    parent[level == ENTITY] = 0 if shared else before + at[order[place]]
    return parent


_COLUMNS = ("key", "hash", "level", "parent", "events", "days", "first", "last")


def _with_hash(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(hash=hashing.hash_strings(table["key"]))[list(_COLUMNS)]


def _holdout_split(intervals: pd.DataFrame, active: pd.Series, per_day: int) -> HoldoutSplit:
    """Return the rule that holds out the last HOLDOUT_SHARE of the rows, cut between intervals if there are several.

    `intervals` is the table of NameCollector, in which one busy crawler counts for few rows of a day. A weekend may have this
    share of the rows, because machines do not rest, and says nothing about how people work. So in a history of MIN_DAYS or more,
    the days held out also have this share of `active` (days,), the number of active principals on each day.

    Rows are drawn instead if the days before the cut have less than this share of `active`: one day, such as a Friday before a
    weekend, has most of such a history, and without that day nothing can be fitted.
    """
    share = HOLDOUT_SHARE
    rows = intervals.groupby("interval")["rows"].sum().sort_index()
    begin, interval = int(rows.index[0]), int(rows.index[_last_share(rows, share)])
    active = active.sort_index()
    if len(active) >= MIN_DAYS:
        first_day = _last_share(active, share)
        is_lopsided = active.iloc[:first_day].sum() < share * active.sum()
        interval = begin if is_lopsided else min(interval, int(active.index[first_day]) * per_day)
    return HoldoutSplit(interval, share if interval == begin else 0.0)


def _last_share(counts: pd.Series, share: float) -> int:
    """Return the place in counts (N,) from which on the last `share` of their sum lies, or the last place."""
    at = np.searchsorted(np.cumsum(counts.to_numpy()), int(counts.sum() * (1 - share)), side="right")
    return min(int(at), len(counts) - 1)
