"""A history in partitions: each has all events of some principals, is learned by itself, and is on disk between two stages.

Example:
    >>> write_partitions(chunks, folder, 16, on_chunk)        # events, oldest first, to Parquet by principal
    >>> history = PartitionedDataset(folder, 16, watermark, arrived_until)
    >>> history.partition_folder(3)
    PosixPath('work/partitions/003')
    >>> make_once(history.partition_folder(3) / "rows", collect)       # the result of a stage is there whole, or not at all

    work/
      split.json                 number of partitions, and the time at which the history ended
      partitions/003/events.parquet  the events of every 16th part of the virtual partitions, in the order of time
      partitions/003/<stage>/        the result of a stage of the training

A partition is a range of virtual partitions (`hashing`), so arrays sorted by a principal's hash have a range for each partition.
A worker needs only the folder and a partition's number. A worker that dies leaves nothing that another takes for finished.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import Arrays
from fingerprint.compute.hashing import VIRTUAL_PARTITIONS, Hashes
from fingerprint.core.errors import FingerprintError

SHARD_BYTES = 1 << 30  # bytes of an array in one file
ROWS_PER_WRITE = 1 << 13  # events of a partition that are written at a time
DROPPED_COLUMNS = ("raw", "row")  # columns that no stage reads


@dataclass(frozen=True)
class PartitionedDataset:
    """A history that was split into partitions.

    `count` is the number of partitions, a power of two; `watermark` the end of the history, in seconds since 1970; records that
    arrived after `arrived_until` (seconds since 1970) cannot be in it.
    """

    folder: Path
    count: int
    watermark: int = 0
    arrived_until: int = 0

    def partition_folder(self, number: int) -> Path:
        """Return the folder of a partition."""
        return self.folder / "partitions" / f"{number:03}"

    def partition_of(self, principal: Hashes) -> hashing.Hashes:
        """Return the partition of each principal (N,), by its hash bucket."""
        return (principal >> np.uint64(56)) * np.uint64(self.count) >> np.uint64(8)

    def read_chunks(self, number: int, max_rows: int) -> Iterator[pd.DataFrame]:
        """Yield the events of a partition, oldest first, at most `max_rows` at a time; nothing if it has none."""
        file = self.partition_folder(number) / "events.parquet"
        if file.exists():
            for batch in pq.ParquetFile(file).iter_batches(max_rows):
                yield pa.Table.from_batches([batch]).to_pandas()

    def non_empty(self) -> list[int]:
        """Return the numbers of the partitions that have events, ascending."""
        return [n for n in range(self.count) if (self.partition_folder(n) / "events.parquet").exists()]

    def arrays_of(self, stage: str, stem: str) -> list[Arrays]:
        """Return the arrays that a stage wrote under a stem, for each partition that has events, mapped from their files."""
        folders = [self.partition_folder(number) / stage for number in self.non_empty()]
        return [mapped_arrays.open_arrays(folder, stem) for folder in folders]

    def columns_of(self, stage: str, stem: str) -> Arrays:
        """Return the arrays that a stage wrote under a stem, concatenated over all partitions, in memory."""
        parts = self.arrays_of(stage, stem)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def take_rows(parts: Sequence[NDArray[Any]], places: NDArray[np.intp]) -> NDArray[Any]:
    """Return the rows `places` (K,), ascending, of the concatenation of `parts`, of which nothing else is read.

    >>> take_rows([np.array([10, 11]), np.array([], int), np.array([12, 13])], np.array([1, 2]))
    array([11, 12])
    """
    bounds = np.cumsum([0, *map(len, parts)])
    ends = np.searchsorted(places, bounds)
    taken = [
        part[places[first:end] - start]
        for part, start, first, end in zip(parts, bounds[:-1], ends[:-1], ends[1:], strict=True)
    ]
    return np.concatenate(taken)


def partition_count(events: int, max_events: int) -> int:
    """Return the number of partitions, a power of two, at which a partition has about `max_events` of the events."""
    count = 1
    while count * max_events < events and count < VIRTUAL_PARTITIONS:
        count *= 2
    return count


def require_folder(folder: Path) -> None:
    """Raise FingerprintError if a worker does not find the folder of the training."""
    if not folder.is_dir():
        raise FingerprintError(
            f"a worker does not see {folder}: name a folder in workers.work_directory that all of them see"
        )


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Let `make` fill a folder, unless it exists. Two workers that do it at once do not disturb each other."""
    if folder.exists():
        return folder
    staged = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    staged.mkdir(parents=True)
    try:
        make(staged)
        staged.rename(folder)
    except OSError:
        if not folder.exists():  # else another worker was faster, with the same result
            raise
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return folder


# --- splitting --------------------------------------------------------------------------------------------------------


@dataclass
class _PartitionWriter:
    """One Parquet file that grows: tables wait until they have ROWS_PER_WRITE rows."""

    file: Path
    pending: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    parquet: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        self.pending.append(table)
        self.rows += len(table)
        if self.rows >= ROWS_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        if self.pending:
            table = pa.concat_tables(self.pending)
            if self.parquet is None:
                self.parquet = pq.ParquetWriter(self.file, table.schema, compression="lz4")
            self.parquet.write_table(table)
        self.pending, self.rows = [], 0

    def close(self) -> None:
        self.flush()
        if self.parquet is not None:
            self.parquet.close()


def write_partitions(
    chunks: Iterable[pd.DataFrame],
    folder: Path,
    count: int,
    on_chunk: Callable[[pd.DataFrame], None],
    dropped_columns: Sequence[str] = DROPPED_COLUMNS,
) -> None:
    """Write a history as `count` partitions, one file each, and call `on_chunk` with every chunk.

    A folder that exists is removed first. `dropped_columns` are left out.
    """
    dataset = PartitionedDataset(folder, count)
    shutil.rmtree(folder, ignore_errors=True)
    writers = [
        _PartitionWriter(dataset.partition_folder(number) / "events.parquet") for number in range(count)
    ]
    for writer in writers:
        writer.file.parent.mkdir(parents=True)
    schema: pa.Schema | None = None
    for events in chunks:
        on_chunk(events)
        kept = events.drop(columns=[name for name in dropped_columns if name in events])
        schema = schema or _schema(kept)
        table = pa.Table.from_pandas(kept, schema=schema, preserve_index=False)
        number = dataset.partition_of(hashing.hash_with_bucket(events["principal"])).astype(np.int64)
        for partition in np.unique(number):
            writers[partition].add(table.filter(pa.array(number == partition)) if count > 1 else table)
    for writer in writers:
        writer.close()


def _schema(events: pd.DataFrame) -> pa.Schema:
    """Return the schema of the first events; a column that has no value in them is taken as text."""
    schema = pa.Schema.from_pandas(events, preserve_index=False)
    for place, each in enumerate(schema):
        if pa.types.is_null(each.type):
            schema = schema.set(place, each.with_type(pa.large_string()))
    return schema


# --- files beside the partitions ------------------------------------------------------------------------------------


def write_arrays(arrays: Mapping[str, NDArray[Any]], folder: Path, stem: str) -> None:
    """Write arrays by name into the folder of a stage."""
    mapped_arrays.write_arrays(arrays, folder, stem, SHARD_BYTES)


def write_json(file: Path, **figures: object) -> None:
    """Write figures as one JSON object."""
    file.write_text(json.dumps(figures))
