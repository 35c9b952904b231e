"""What a road said, in a folder until it is put on the desk: alerts, votes, and every judged event if that was asked for.

Example:
    >>> with SaidFiles(folder, settings, every_event=True) as files:
    ...     for said in road_walked:
    ...         files.write(said)
    >>> for alerts, votes in told(folder):
    ...     desk.save(alerts, votes)
    >>> for frame in judged(folder):
    ...     results.write(frame)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fingerprint.adapters.result_files import Results
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import VOTE, no_votes
from fingerprint.pipeline import Said

ROWS = 10_000  # votes that are handed on at a time
_ALERTS = pa.schema([("alert", pa.large_binary())])  # MessagePack: JSON has no NaN, and curves have
_TYPES = {
    "event_time": pa.timestamp("us", tz="UTC"),
    "z": pa.float64(),
    "threshold": pa.float64(),
    "vote": pa.bool_(),
    "alone": pa.bool_(),
}
_VOTES = pa.schema([(name, _TYPES.get(name, pa.large_string())) for name in VOTE])


class SaidFiles:
    """`alerts.parquet`, `votes.parquet` and, if every event was asked for, `events.parquet` of a folder."""

    def __init__(self, folder: Path, settings: Settings, every_event: bool) -> None:
        self.folder, self.open = folder, ExitStack()
        self.events = Results(folder / "events.parquet" if every_event else None, settings)

    def __enter__(self) -> SaidFiles:
        self.alerts = self.open.enter_context(pq.ParquetWriter(self.folder / "alerts.parquet", _ALERTS))
        self.votes = self.open.enter_context(pq.ParquetWriter(self.folder / "votes.parquet", _VOTES))
        self.open.enter_context(self.events)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open.__exit__(kind, error, trace)

    def write(self, said: Said) -> None:
        """Append what one step said."""
        if said.alerts:
            packed = [msgspec.msgpack.encode(alert) for alert in said.alerts]
            self.alerts.write_table(pa.table([pa.array(packed, pa.large_binary())], schema=_ALERTS))
        if len(said.votes):
            self.votes.write_table(pa.Table.from_pandas(said.votes, schema=_VOTES, preserve_index=False))
        for frame in said.judged:
            self.events.write(frame)


def told(folder: Path) -> Iterator[tuple[list[Alert], pd.DataFrame]]:
    """Alerts and votes, some at a time, each in the order in which they were said."""
    for batch in pq.ParquetFile(folder / "alerts.parquet").iter_batches(100):
        yield (
            [msgspec.msgpack.decode(packed, type=Alert) for packed in batch["alert"].to_pylist()],
            no_votes(),
        )
    for batch in pq.ParquetFile(folder / "votes.parquet").iter_batches(ROWS):
        yield [], batch.to_pandas()


def judged(folder: Path) -> Iterator[pd.DataFrame]:
    """Every judged event, as `Results` takes it."""
    for batch in pq.ParquetFile(folder / "events.parquet").iter_batches(ROWS):
        yield batch.to_pandas()
