"""Distinct rows of a partition's events, and the names of principals, entities and values in them.

Example:
    >>> collect_rows(dataset, 3, settings)                          # writes partitions/003/rows
    >>> rows = DistinctRows.load(dataset.partition_folder(3) / "rows")       # mapped: nothing has been read yet
    >>> early = rows.take(~late).to_event_batch()

A row is a distinct (entity, interval, codes) with the number of events it stands for: a call that a loop makes ten thousand times
in an hour is one row. Rows are sorted by interval and mark, a hash of the row. So neither the cut into chunks nor the number of
partitions changes the rows, their order, or which of them a sample draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing, mapped_arrays
from fingerprint.compute.dictionary import DictionaryEncoded
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import rank_in_run
from fingerprint.core.people import names_person
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import encode_batch
from fingerprint.estimators.call_paths import PathRows, left_to_services
from fingerprint.estimators.moves import NetworkRows, first_uses
from fingerprint.estimators.openers import OpeningRows
from fingerprint.features import encoding
from fingerprint.features.encoding import ACTION_COLUMN
from fingerprint.features.feature_set import OpenedRoles
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.partitioning import LEARNED_TABLES
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training.action_rows import ActionRows
from fingerprint.training.dataset import (
    PartitionedDataset,
    make_once,
    require_folder,
    write_arrays,
    write_json,
)
from fingerprint.training.exclusions import is_learned

SEED = 0  # of random choices in training
# Kinds of principals that can be machines: one of these is a machine if no record names a person behind it.
MACHINE_KINDS = frozenset({"role", "user", "federated", "account"})
# Rows of one entity and day that count where rows of several entities are learned together
MAX_ROWS_PER_DAY = 400


@dataclass(frozen=True, slots=True)
class DistinctRows:
    """R distinct rows.

    - `mark` (R,): a hash of the row; `codes` (R, F); `events` (R,): the number of events that it stands for
    - `learned` (R,): whether habits are learned from it (`exclusions`)
    - `role`, `opener` (R,): the role that was opened and its opener, 0 for none
    - `principal`, `entity`, `interval`, `since` (first seen), `wrote`, `failed` (R,): as in `EventBatch`
    """

    mark: Hashes
    codes: Hashes
    principal: Hashes
    entity: Hashes
    interval: NDArray[np.int32]
    since: NDArray[np.int32]
    events: NDArray[np.float32]
    wrote: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    learned: NDArray[np.bool_]
    role: Hashes
    opener: Hashes

    def __len__(self) -> int:
        return len(self.mark)

    @classmethod
    def from_batch(cls, batch: EventBatch, learned: NDArray[np.bool_], opened: OpenedRoles) -> DistinctRows:
        """Return the distinct rows of a batch, sorted by interval and mark; `learned` (N,) and `opened` are of its events."""
        mark = hashing.hash_pair(
            hashing.hash_pair(batch.principal, batch.entity), batch.interval.astype(np.uint64)
        )
        for column in batch.codes.T:
            mark = hashing.hash_pair(mark, column)
        role, opener = (np.zeros(len(batch), np.uint64) for _ in range(2))
        role[opened.rows], opener[opened.rows] = opened.role, opened.opener
        mark = np.where(role != 0, hashing.hash_pair(mark, role), mark)
        mark = np.where(learned, mark, ~mark)
        rows = cls(
            mark,
            batch.codes,
            batch.principal,
            batch.entity,
            batch.interval,
            batch.first_seen,
            np.ones(len(batch), np.float32),
            batch.is_write,
            batch.is_error,
            learned,
            role,
            opener,
        )
        return rows.deduplicated()

    @classmethod
    def concatenate(cls, parts: list[DistinctRows]) -> DistinctRows:
        """Return the distinct rows of several sets of rows."""
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ROW_COLUMNS}
        return cls(**columns).deduplicated()

    @classmethod
    def load(cls, folder: Path) -> DistinctRows:
        """Return the rows in a folder, mapped from their files."""
        return cls(**mapped_arrays.open_arrays(folder, "rows"))

    def deduplicated(self) -> DistinctRows:
        """Return each distinct row once, with the events of its repeats added up."""
        order = np.lexsort((self.mark, self.interval))
        first = np.flatnonzero(np.diff(self.mark[order], prepend=~self.mark[order[:1]]))
        columns = {name: getattr(self, name)[order[first]] for name in ROW_COLUMNS}
        columns["events"] = np.add.reduceat(self.events[order], first)
        return DistinctRows(**columns)

    def take(self, which: NDArray[Any]) -> DistinctRows:
        """Return the rows of a mask or an index."""
        return DistinctRows(**{name: getattr(self, name)[which] for name in ROW_COLUMNS})

    def to_event_batch(self, fingerprint: NDArray[np.int32] | None = None) -> EventBatch:
        """Return the rows as a batch of events, without text."""
        generic = np.zeros(len(self), np.int32)
        frame = pd.DataFrame(
            {
                "action": "",
                "read_only": ~self.wrote,
                "error_code": pd.Series(self.failed).map({True: "failed", False: None}),
            }
        )
        return EventBatch(
            frame,
            self.codes,
            self.principal,
            self.entity,
            self.interval,
            self.since,
            generic if fingerprint is None else fingerprint,
            generic.astype(np.int8),
            {},
        )


ROW_COLUMNS = tuple(each.name for each in fields(DistinctRows))


def cap_per_day(rows: DistinctRows, places: NDArray[np.intp], intervals_per_day: int) -> NDArray[np.intp]:
    """Return at most MAX_ROWS_PER_DAY of the `places` (K,) for each entity and day: a busy day does not outweigh others."""
    number = (rows.interval[places] // intervals_per_day).astype(np.uint64)
    day = hashing.hash_pair(rows.entity[places], number)
    return places[sample_per_owner(day, rows.mark[places], MAX_ROWS_PER_DAY, SEED)]


def sample_per_owner(owner: NDArray[Any], mark: Hashes, limit: int, seed: int = 0) -> NDArray[np.intp]:
    """Return the sorted places of at most `limit` rows of each owner; `owner` and `mark` are (R,).

    The mark draws the rows, so the rows of one owner do not depend on those of others.
    """
    drawn = hashing.hash_pair(mark, np.uint64(seed))
    order = np.lexsort((drawn, owner))
    return np.sort(order[rank_in_run(owner[order]) < limit])


# --- collecting -------------------------------------------------------------------------------------------------------


def collect_rows(dataset: PartitionedDataset, partition: int, settings: Settings) -> Path:
    """Read a partition once, oldest events first, and write its rows, its names and the history of the scorer state."""
    require_folder(dataset.partition_folder(partition))
    return make_once(
        dataset.partition_folder(partition) / "rows",
        lambda folder: _collect_rows(dataset, partition, settings, folder),
    )


def _collect_rows(dataset: PartitionedDataset, number: int, settings: Settings, folder: Path) -> None:
    state, names, repeats, total = ScorerState(settings), NameCollector(), 0, 0
    parts, actions, people = [], [], np.empty(0, np.uint64)
    for batch, repeated in _batches(dataset, number, settings, state):
        repeats, total = repeats + repeated, total + len(batch)
        if len(batch):
            opened = encoding.FEATURE_SET.opened_roles(batch.codes, batch.frame)
            names.add(batch, opened)
            people = np.union1d(people, _people(batch))
            learned = is_learned(batch.frame)
            parts.append(DistinctRows.from_batch(batch, learned, opened))
            seconds = frames.epoch_seconds(batch.frame["event_time"])
            actions.append(ActionRows.from_batch(batch, seconds, learned))
            state.sequence.add(actions[-1].seen)
    rows = DistinctRows.concatenate(parts)
    write_arrays({name: getattr(rows, name) for name in ROW_COLUMNS}, folder, "rows")
    openings = np.flatnonzero(rows.role)
    write_arrays({name: getattr(rows, name)[openings] for name in OpeningRows._fields}, folder, "openings")
    write_arrays(_path_rows(rows)._asdict(), folder, "paths")
    write_arrays(_network_rows(rows, people)._asdict(), folder, "networks")
    ActionRows.concatenate(actions).save(folder)
    write_arrays(state.as_arrays(LEARNED_TABLES), folder, "scorer_state")
    for name, table in names.to_tables(rows, settings.spectral.intervals_per_day).items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
    write_json(folder / "counts.json", events=total, repeats=repeats)


def _path_rows(rows: DistinctRows) -> PathRows:
    """Return the rows of write actions that services called for their principals, also those that the principals called."""
    direct, action = encoding.FEATURE_SET.is_from_address(rows.codes), rows.codes[:, ACTION_COLUMN]
    network = encoding.FEATURE_SET.networks(rows.codes)
    every = PathRows(rows.mark, rows.interval, rows.learned, rows.principal, action, network, direct)
    return every.take(left_to_services(rows.principal, action, rows.wrote, direct))


def _people(batch: EventBatch) -> Hashes:
    """Return the principals of a batch that are no machines: by their kind, or because a record shows a person behind them."""
    who = ["kind", "human", "from_console", "mfa"]
    code, distinct = DictionaryEncoded(frames.select_columns(batch.frame, who)).combined_column(who)
    of_person = np.array([_is_persons(*values) for values in distinct], bool)
    return np.unique(batch.principal[of_person[code]])


def _is_persons(kind: str, human: str | None, from_console: bool | None, mfa: bool | None) -> bool:
    """Return whether a record shows a person: by its kind, a name, the console, or a second factor."""
    return kind not in MACHINE_KINDS or names_person(human or "") or bool(from_console) or bool(mfa)


def _network_rows(rows: DistinctRows, people: Hashes) -> NetworkRows:
    """Return the first uses of networks by principals; all principals but `people` are machines."""
    some = np.flatnonzero(encoding.FEATURE_SET.is_from_address(rows.codes))
    network, principal = encoding.FEATURE_SET.networks(rows.codes)[some], rows.principal[some]
    machine = ~np.isin(principal, people)
    uses = NetworkRows(rows.mark[some], rows.interval[some], rows.learned[some], principal, network, machine)
    return uses.take(first_uses(uses))


def _batches(
    dataset: PartitionedDataset, number: int, settings: Settings, state: ScorerState
) -> Iterator[tuple[EventBatch, int]]:
    seconds = settings.spectral.interval_seconds
    for events in dataset.read_chunks(number, settings.reading.batch_records):
        batch, repeats = encode_batch(events, state)
        yield batch, repeats
        if len(batch):
            state.observe_time(batch.interval.astype(np.int64) * seconds, batch.principal)
            state.expire()


@dataclass
class NameCollector:
    """The texts of principals, entities and values, each from its first occurrence."""

    people: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"hash": np.empty(0, np.uint64)}))
    entities: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame({"hash": np.empty(0, np.uint64)}).assign(
            owner=np.empty(0, np.uint64)  # typed: a hash that became a float would be another hash
        )
    )
    words: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"code": np.empty(0, np.uint64)}))

    def add(self, batch: EventBatch, opened: OpenedRoles) -> None:
        """Add the texts of new principals, entities, values and openers in a batch."""
        frame = frames.to_pandas(batch.frame)
        self.people = _append_new(self.people, batch.principal, frame, ["principal", "kind", "role"])
        entities = frame.assign(owner=batch.principal)
        self.entities = _append_new(self.entities, batch.entity, entities, ["entity", "owner"])
        self._add_openers(opened)
        for place, feature in enumerate(encoding.FEATURES):
            code, first = np.unique(batch.codes[:, place], return_index=True)
            new = ~np.isin(code, self.words["code"].to_numpy())
            if new.any():
                texts = encoding.FEATURE_SET.texts_of(feature, frame.iloc[first[new]])
                self._append_words(code[new], texts)

    def _add_openers(self, opened: OpenedRoles) -> None:
        code, first = np.unique(opened.opener, return_index=True)
        new = ~np.isin(code, self.words["code"].to_numpy())
        if new.any():
            self._append_words(
                code[new], np.array([opened.texts[at][1] for at in first[new].tolist()], object)
            )

    def _append_words(self, code: Hashes, texts: NDArray[np.object_]) -> None:
        text = pd.Series(texts, dtype="str").fillna("(none)")
        fresh = pd.DataFrame({"code": code, "text": text.to_numpy()})
        self.words = pd.concat([self.words, fresh], ignore_index=True)

    def to_tables(self, rows: DistinctRows, per_day: int) -> dict[str, pd.DataFrame]:
        """Return tables about the rows, by name.

        - `people`, `entities`: texts with the history of each; `words`: the texts of codes
        - `usage`: events by principal and service; `days`: days on which each principal was active
        - `intervals`: number of rows by interval, with at most MAX_ROWS_PER_DAY of one entity and day
        """
        day = rows.interval // per_day
        counted = rows.interval[cap_per_day(rows, np.arange(len(rows)), per_day)]
        return {
            "people": self.people.merge(_owner_history(rows.principal, rows, day), on="hash"),
            "entities": self.entities.merge(_owner_history(rows.entity, rows, day), on="hash"),
            "words": self.words,
            "usage": self._usage(rows),
            "days": pd.DataFrame({"hash": rows.principal, "day": day}).drop_duplicates(),
            "intervals": pd.Series(counted, name="interval")
            .value_counts(sort=False)
            .rename("rows")
            .reset_index(),
        }

    def _usage(self, rows: DistinctRows) -> pd.DataFrame:
        table = pd.DataFrame(
            {"hash": rows.principal, "code": rows.codes[:, ACTION_COLUMN], "events": rows.events}
        )
        by_action = (
            table.groupby(["hash", "code"], as_index=False)["events"].sum().merge(self.words, on="code")
        )
        service = by_action["text"].str.split(":").str[0]
        return by_action.assign(service=service).groupby(["hash", "service"], as_index=False)["events"].sum()


def _append_new(table: pd.DataFrame, hashes: Hashes, frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    distinct, first = np.unique(hashes, return_index=True)
    new = ~np.isin(distinct, table["hash"].to_numpy())
    rows = frame.iloc[first[new]][columns].astype({name: "str" for name in columns if name != "owner"})
    return pd.concat([table, rows.assign(hash=distinct[new])], ignore_index=True)


def _owner_history(owner: Hashes, rows: DistinctRows, day: NDArray[np.int32]) -> pd.DataFrame:
    """Return the learned events and days of each owner, and its first and last interval."""
    table = pd.DataFrame(
        {
            "hash": owner,
            "events": rows.events * rows.learned,
            "interval": rows.interval,
            "day": pd.Series(day).where(rows.learned),
        }
    )
    return (
        table.groupby("hash")
        .agg(
            events=("events", "sum"),
            days=("day", "nunique"),
            first=("interval", "min"),
            last=("interval", "max"),
        )
        .reset_index()
    )
