"""Events of a piece -> its rows: what was done, told apart once, and the names of all that was met.

Example:
    >>> collect(pieces, 3, settings)                          # leaves pieces/003/rows
    >>> rows = Rows.opened(pieces.piece(3) / "rows")          # mapped: nothing has been read of it yet
    >>> early = rows.batch(~late)

A row is a distinct (entity, interval, codes) with how many events it stands for: what a loop does ten thousand times in an
hour is one row of it. Rows lie in the order of interval and mark, and the mark is a hash of the row: so neither where a
chunk is cut nor how many pieces there are changes which rows there are, their order, or which of them are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.hashing import Hashes
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import Measured, prepare
from fingerprint.features import encoding
from fingerprint.state.scorer_state import Ledger
from fingerprint.training import dataset
from fingerprint.training.dataset import Pieces

ACTION = encoding.NAMES.index("action")
MEMORY = ("principals", "activity", "firsts")  # parts of the ledger that reading leaves behind
SHARD = 1 << 30  # bytes of an array in one file


@dataclass(frozen=True, slots=True)
class Rows:
    """R distinct rows: `mark` (R,) tells them apart, `codes` (R, F), `events` (R,) each stands for; the others, (R,) each,
    are what `Measured` says of an event."""

    mark: Hashes
    codes: Hashes
    principal: Hashes
    entity: Hashes
    interval: NDArray[np.int32]
    since: NDArray[np.int32]
    events: NDArray[np.float32]
    wrote: NDArray[np.bool_]
    failed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.mark)

    @classmethod
    def of(cls, batch: Measured) -> Rows:
        """The distinct rows of a batch, in the order of interval and mark."""
        mark = hashing.mix(hashing.mix(batch.principal, batch.entity), batch.interval.astype(np.uint64))
        for column in batch.codes.T:
            mark = hashing.mix(mark, column)
        rows = cls(
            mark,
            batch.codes,
            batch.principal,
            batch.entity,
            batch.interval,
            batch.since,
            np.ones(len(batch), np.float32),
            batch.wrote,
            batch.failed,
        )
        return rows.merged()

    @classmethod
    def together(cls, parts: list[Rows]) -> Rows:
        """The rows of several batches, told apart anew."""
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
        return cls(**columns).merged()

    @classmethod
    def opened(cls, folder: Path) -> Rows:
        return cls(**mapped_arrays.opened(folder, "rows"))

    def merged(self) -> Rows:
        order = np.lexsort((self.mark, self.interval))
        first = np.flatnonzero(np.diff(self.mark[order], prepend=~self.mark[order[:1]]))
        columns = {name: getattr(self, name)[order[first]] for name in COLUMNS}
        columns["events"] = np.add.reduceat(self.events[order], first)
        return Rows(**columns)

    def take(self, which: NDArray[Any]) -> Rows:
        """The rows of a mask or an index."""
        return Rows(**{name: getattr(self, name)[which] for name in COLUMNS})

    def batch(self, fingerprint: NDArray[np.int32] | None = None) -> Measured:
        """The rows as a batch of events, without text."""
        nobody = np.zeros(len(self), np.int32)
        frame = pd.DataFrame(
            {
                "action": "",
                "read_only": ~self.wrote,
                "error_code": pd.Series(self.failed).map({True: "failed", False: None}),
            }
        )
        return Measured(
            frame,
            self.codes,
            self.principal,
            self.entity,
            self.interval,
            self.since,
            nobody if fingerprint is None else fingerprint,
            nobody.astype(np.int8),
            {},
        )


COLUMNS = tuple(each.name for each in fields(Rows))


def lowest(owner: NDArray[Any], mark: Hashes, most: int, seed: int = 0) -> NDArray[np.intp]:
    """Draw at most `most` rows of each owner, the same ones whatever else is there: owner, mark (R,) -> places, rising."""
    drawn = hashing.mix(mark, np.uint64(seed))
    order = np.lexsort((drawn, owner))
    starts = np.flatnonzero(np.r_[True, np.diff(owner[order]) != 0]) if len(owner) else np.empty(0, int)
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return np.sort(order[rank < most])


# --- collecting -------------------------------------------------------------------------------------------------------


def collect(history: Pieces, number: int, settings: Settings) -> Path:
    """Read a piece once, in the order of time, and leave its rows, names and the ledger's memory beside it.

    FingerprintError where the piece cannot be seen.
    """
    dataset.seen(history.piece(number))
    return dataset.once(
        history.piece(number) / "rows", lambda folder: _collect(history, number, settings, folder)
    )


def _collect(history: Pieces, number: int, settings: Settings, folder: Path) -> None:
    ledger, names, parts, repeats, total = Ledger(settings), Names(), [], 0, 0
    for batch, repeated in _batches(history, number, settings, ledger):
        repeats, total = repeats + repeated, total + len(batch)
        if len(batch):
            names.see(batch)
            parts.append(Rows.of(batch))
    rows = Rows.together(parts)
    mapped_arrays.write({name: getattr(rows, name) for name in COLUMNS}, folder, "rows", SHARD)
    mapped_arrays.write(ledger.as_arrays(MEMORY), folder, "ledger", SHARD)
    per_day = 86400 // settings.spectral.interval_seconds
    for name, table in names.tables(rows, per_day).items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
    dataset.note(folder / "counts.json", events=total, repeats=repeats)


def _batches(
    history: Pieces, number: int, settings: Settings, ledger: Ledger
) -> Iterator[tuple[Measured, int]]:
    seconds = settings.spectral.interval_seconds
    for events in history.chunks(number, settings.reading.batch_records):
        batch, repeats = prepare(events, ledger)
        yield batch, repeats
        if len(batch):
            ledger.see(batch.interval.astype(np.int64) * seconds, batch.principal)
            ledger.advance()


@dataclass
class Names:
    """The text of principals, entities and values, each kept when it is met first."""

    people: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"hash": np.empty(0, np.uint64)}))
    entities: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame({"hash": np.empty(0, np.uint64)}).assign(
            owner=np.empty(0, np.uint64)  # typed: a hash that became a float would name a neighbour
        )
    )
    words: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"code": np.empty(0, np.uint64)}))

    def see(self, batch: Measured) -> None:
        frame = batch.frame
        self.people = _fresh(self.people, batch.principal, frame, ["principal", "kind", "role"])
        entities = frame.assign(owner=batch.principal)
        self.entities = _fresh(self.entities, batch.entity, entities, ["entity", "owner"])
        for place, feature in enumerate(encoding.FEATURES):
            code, first = np.unique(batch.codes[:, place], return_index=True)
            new = ~np.isin(code, self.words["code"].to_numpy())
            if new.any():
                texts = feature.texts(frame.iloc[first[new]])
                text = pd.Series(texts, dtype="str").fillna("(none)")
                fresh = pd.DataFrame({"code": code[new], "text": text.to_numpy()})
                self.words = pd.concat([self.words, fresh], ignore_index=True)

    def tables(self, rows: Rows, per_day: int) -> dict[str, pd.DataFrame]:
        """What is known of everybody; `usage`: events by principal and service; `days`: on which days who did something;
        `intervals`: rows by interval."""
        day = rows.interval // per_day
        return {
            "people": self.people.merge(_history(rows.principal, rows, day), on="hash"),
            "entities": self.entities.merge(_history(rows.entity, rows, day), on="hash"),
            "words": self.words,
            "usage": self._usage(rows),
            "days": pd.DataFrame({"hash": rows.principal, "day": day}).drop_duplicates(),
            "intervals": pd.Series(rows.interval, name="interval")
            .value_counts(sort=False)
            .rename("rows")
            .reset_index(),
        }

    def _usage(self, rows: Rows) -> pd.DataFrame:
        table = pd.DataFrame({"hash": rows.principal, "code": rows.codes[:, ACTION], "events": rows.events})
        by_action = (
            table.groupby(["hash", "code"], as_index=False)["events"].sum().merge(self.words, on="code")
        )
        service = by_action["text"].str.split(":").str[0]
        return by_action.assign(service=service).groupby(["hash", "service"], as_index=False)["events"].sum()


def _fresh(table: pd.DataFrame, hashes: Hashes, frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    distinct, first = np.unique(hashes, return_index=True)
    new = ~np.isin(distinct, table["hash"].to_numpy())
    rows = frame.iloc[first[new]][columns].astype({name: "str" for name in columns if name != "owner"})
    return pd.concat([table, rows.assign(hash=distinct[new])], ignore_index=True)


def _history(owner: Hashes, rows: Rows, day: NDArray[np.int32]) -> pd.DataFrame:
    """Events, days, first and last interval of each owner."""
    table = pd.DataFrame({"hash": owner, "events": rows.events, "interval": rows.interval, "day": day})
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
