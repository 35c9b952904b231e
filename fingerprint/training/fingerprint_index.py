"""What the pieces met -> the stack: which fingerprints there are, in which order, and who may speak for itself.

Example:
    >>> stack = survey(history, settings)
    >>> stack.table.loc[[0, 1], ["key", "level", "parent", "ready"]]
                key  level  parent  ready
    0     everybody      3      -1   True
    1  people admin      2       0   True

First what principals share (the generic fingerprint, then the peer groups), then home by home the principals and their
entities: a piece's own fingerprints are a range of rows, and so are those of a virtual partition when a bank is opened.
Parents come before their children.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find
from fingerprint.core.alert import LEVELS
from fingerprint.core.settings import Settings
from fingerprint.features import peer_groups
from fingerprint.training import dataset
from fingerprint.training.dataset import Pieces
from fingerprint.training.distinct_rows import SHARD, Rows

Ints = NDArray[np.int32]
GENERIC, PEER, PRINCIPAL, ENTITY = 3, 2, 1, 0


@dataclass(frozen=True)
class Stack:
    """`table` (E rows): key, hash, level, parent, events, days, first, last, ready; `people`: hash, principal, kind, role, peer,
    in the order of their hashes; `words`: code, text, in the order of their codes. The first `commons` fingerprints are shared;
    those of piece n are `bounds[n]` ... `bounds[n + 1] - 1`. Rows of intervals from `cut` on are held out."""

    table: pd.DataFrame
    people: pd.DataFrame
    words: pd.DataFrame
    commons: int
    bounds: NDArray[np.intp]
    cut: Cut


@dataclass(frozen=True)
class Cut:
    """Which rows are held out: those of intervals from `interval` on, and where that were all, those with a mark in the last
    `share` of all marks."""

    interval: int
    share: float

    def late(self, rows: Rows) -> NDArray[np.bool_]:
        if self.share:
            return rows.mark >= np.uint64((1 - self.share) * 2.0**64)
        return rows.interval >= self.interval


@dataclass(frozen=True)
class Part:
    """A piece's part of the stack, numbered for itself: the commons (U), then its own (E' in all); `first` is the number that
    the first of its own has in the whole stack. `hash`, `level`, `parent`, `ready` (E',)."""

    hash: Hashes
    level: NDArray[np.int8]
    parent: Ints
    ready: NDArray[np.bool_]
    commons: int
    first: int

    @property
    def own(self) -> slice:
        return slice(self.commons, len(self.hash))

    def everywhere(self, here: Ints) -> Ints:
        """Numbers in the whole stack of fingerprints of this part: (N,) -> (N,)."""
        return np.where(here < self.commons, here, here + self.first - self.commons).astype(np.int32)

    def owners(self, rows: Rows) -> Ints:
        """The fingerprint of each row at each level, finest first: (R, 4)."""
        out = np.zeros((len(rows), len(LEVELS)), np.int32)
        for level, keys in ((ENTITY, rows.entity), (PRINCIPAL, rows.principal)):
            at = np.flatnonzero(self.level == level)
            order = at[np.argsort(self.hash[at])]
            out[:, level] = order[find(self.hash[order], keys)[0]]
        out[:, PEER] = self.parent[out[:, PRINCIPAL]]
        return out


def part(history: Pieces, number: int) -> Part:
    """What piece `number` needs of the stack that `leave` left."""
    stack = mapped_arrays.opened(history.folder / "stack", "stack")
    first, end = (int(at) for at in stack["bounds"][number : number + 2])
    commons = int(stack["bounds"][0])
    hashes, level, parent, ready = (
        np.concatenate([stack[name][:commons], stack[name][first:end]])
        for name in ("hash", "level", "parent", "ready")
    )
    here = np.where(parent < commons, parent, parent - first + commons).astype(np.int32)
    return Part(hashes, level, here, ready, commons, first)


def cut(history: Pieces) -> Cut:
    """Which rows are held out, as `leave` left it."""
    return Cut(**json.loads((history.folder / "stack" / "cut.json").read_text()))


def leave(stack: Stack, history: Pieces) -> Path:
    """Put beside the pieces what whoever works on one needs of the stack."""

    def write(folder: Path) -> None:
        table = stack.table
        arrays = {
            "hash": table["hash"].to_numpy(np.uint64),
            "level": table["level"].to_numpy(np.int8),
            "parent": table["parent"].to_numpy(np.int32),
            "ready": table["ready"].to_numpy(bool),
            "bounds": stack.bounds.astype(np.int64),
        }
        mapped_arrays.write(arrays, folder, "stack", SHARD)
        dataset.note(folder / "cut.json", **asdict(stack.cut))

    return dataset.once(history.folder / "stack", write)


def survey(history: Pieces, settings: Settings) -> Stack:
    """The stack of all that the pieces collected."""
    people = _people(history, settings)
    groups = _groups(people, _tables(history, "days"))
    everybody = _everybody(people, _tables(history, "days"))
    own = _own(people, _tables(history, "entities"), groups, settings)
    table = pd.concat([everybody, groups, own.drop(columns="home")], ignore_index=True)
    options = settings.entities
    table["ready"] = (table["events"] >= options.ready_events) & (table["days"] >= options.ready_days)
    table.loc[0, "ready"] = True
    commons = 1 + len(groups)
    bounds = commons + np.searchsorted(
        history.of(own["home"].to_numpy(np.uint64)), np.arange(history.count + 1)
    )
    words = _tables(history, "words").drop_duplicates("code").sort_values("code", ignore_index=True)
    kept = people[["hash", "principal", "kind", "role", "peer"]]
    return Stack(table, kept, words, commons, bounds, _cut(_tables(history, "intervals"), settings))


def _tables(history: Pieces, name: str) -> pd.DataFrame:
    """One table of all pieces."""
    files = [history.piece(number) / "rows" / f"{name}.parquet" for number in history.filled()]
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def _people(history: Pieces, settings: Settings) -> pd.DataFrame:
    people = _tables(history, "people").sort_values("hash", ignore_index=True)
    usage = _tables(history, "usage").merge(people[["hash", "principal"]], on="hash")
    people["peer"] = peer_groups.peer_groups(people)
    people["peer"] = peer_groups.by_services(people, usage, settings.autoencoder.seed)
    return people


HISTORY = {"events": ("events", "sum"), "first": ("first", "min"), "last": ("last", "max")}


def _everybody(people: pd.DataFrame, days: pd.DataFrame) -> pd.DataFrame:
    whole = people.assign(key="everybody").groupby("key").agg(**HISTORY).reset_index()
    return _named(whole.assign(days=days["day"].nunique(), level=GENERIC, parent=-1))


def _groups(people: pd.DataFrame, days: pd.DataFrame) -> pd.DataFrame:
    """The peer groups by name; a day on which one member did something is a day of the group's."""
    groups = people.groupby("peer").agg(**HISTORY)
    together = days.merge(people[["hash", "peer"]], on="hash").groupby("peer")["day"].nunique()
    table = groups.assign(days=together).sort_index().rename_axis("key").reset_index()
    return _named(table.assign(level=PEER, parent=0))


def _own(
    people: pd.DataFrame, entities: pd.DataFrame, groups: pd.DataFrame, settings: Settings
) -> pd.DataFrame:
    """Principals and entities, home by home; `home` (of the principal) says to which piece each belongs."""
    of_group = 1 + groups["key"].searchsorted(people["peer"])
    principals = people.assign(key=people["principal"], home=people["hash"], level=PRINCIPAL, parent=of_group)
    entities = entities.drop_duplicates("hash").assign(
        key=entities["entity"], home=entities["owner"], level=ENTITY
    )
    own = pd.concat([principals, entities.assign(parent=-1)])[[*_COLUMNS, "home"]]
    homes = hashing.homes(own["home"].to_numpy(np.uint64))
    order = np.lexsort((own["hash"], -own["level"], homes))
    own = own.iloc[order].reset_index(drop=True)
    return own.assign(parent=_parents(own, 1 + len(groups), settings))


def _parents(own: pd.DataFrame, before: int, settings: Settings) -> Ints:
    """A principal's parent is its group; an entity's is its principal, or everybody where principals share it."""
    level, parent = own["level"].to_numpy(), own["parent"].to_numpy(np.int32).copy()
    at = np.flatnonzero(level == PRINCIPAL)
    hashes = own["hash"].to_numpy(np.uint64)[at]
    order = np.argsort(hashes)
    place = find(hashes[order], own["home"].to_numpy(np.uint64)[level == ENTITY])[0]
    shared = settings.entities.granularity == "service"
    parent[level == ENTITY] = 0 if shared else before + at[order[place]]
    return parent


_COLUMNS = ("key", "hash", "level", "parent", "events", "days", "first", "last")


def _named(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(hash=hashing.of(table["key"]))[list(_COLUMNS)]


def _cut(intervals: pd.DataFrame, settings: Settings) -> Cut:
    """The last share of the rows, cut between intervals where there are several."""
    share = settings.autoencoder.held_out
    rows = intervals.groupby("interval")["rows"].sum().sort_index()
    total = int(rows.sum())
    at = int(np.searchsorted(np.cumsum(rows.to_numpy()), int(total * (1 - share)), side="right"))
    interval = int(rows.index[min(at, len(rows) - 1)])
    return Cut(interval, share if interval == rows.index[0] else 0.0)
