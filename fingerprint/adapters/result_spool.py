"""What a road said, in a folder until it is put on the desk: alerts, votes, and every judged event if that was asked for.

Example:
    >>> with SaidFiles(folder, settings, every_event=True) as files:
    ...     for said in road_walked:
    ...         files.write(said)
    >>> for alerts, votes in told(folder):
    ...     store.alerts.save(alerts, votes)
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

from fingerprint.adapters.result_files import ResultWriter
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import VOTE_COLUMNS, empty_votes
from fingerprint.pipeline import StepResult

BATCH_ROWS = 10_000  # votes that are handed on at a time
_ALERT_SCHEMA = pa.schema([("alert", pa.large_binary())])  # MessagePack: JSON has no NaN, and curves have
_VOTE_TYPES = {
    "event_time": pa.timestamp("us", tz="UTC"),
    "z": pa.float64(),
    "threshold": pa.float64(),
    "vote": pa.bool_(),
    "alone": pa.bool_(),
}
_VOTE_SCHEMA = pa.schema([(name, _VOTE_TYPES.get(name, pa.large_string())) for name in VOTE_COLUMNS])


class StepResultSpool:
    """`alerts.parquet`, `votes.parquet` and, if every event was asked for, `events.parquet` of a folder."""

    def __init__(self, folder: Path, settings: Settings, every_event: bool) -> None:
        self.folder, self.exit_stack = folder, ExitStack()
        self.events = ResultWriter(folder / "events.parquet" if every_event else None, settings)

    def __enter__(self) -> StepResultSpool:
        self.alerts = self.exit_stack.enter_context(
            pq.ParquetWriter(self.folder / "alerts.parquet", _ALERT_SCHEMA)
        )
        self.votes = self.exit_stack.enter_context(
            pq.ParquetWriter(self.folder / "votes.parquet", _VOTE_SCHEMA)
        )
        self.exit_stack.enter_context(self.events)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exit_stack.__exit__(kind, error, trace)

    def write(self, result: StepResult) -> None:
        """Append what one step said."""
        if result.alerts:
            packed = [msgspec.msgpack.encode(alert) for alert in result.alerts]
            self.alerts.write_table(pa.table([pa.array(packed, pa.large_binary())], schema=_ALERT_SCHEMA))
        if len(result.votes):
            self.votes.write_table(
                pa.Table.from_pandas(result.votes, schema=_VOTE_SCHEMA, preserve_index=False)
            )
        for frame in result.scored_events:
            self.events.write(frame)


def read_alerts_and_votes(folder: Path) -> Iterator[tuple[list[Alert], pd.DataFrame]]:
    """Alerts and votes, some at a time, each in the order in which they were said."""
    for batch in pq.ParquetFile(folder / "alerts.parquet").iter_batches(100):
        yield (
            [msgspec.msgpack.decode(packed, type=Alert) for packed in batch["alert"].to_pylist()],
            empty_votes(),
        )
    for batch in pq.ParquetFile(folder / "votes.parquet").iter_batches(BATCH_ROWS):
        yield [], batch.to_pandas()


def read_scored_events(folder: Path) -> Iterator[pd.DataFrame]:
    """Every judged event, as `Results` takes it."""
    for batch in pq.ParquetFile(folder / "events.parquet").iter_batches(BATCH_ROWS):
        yield batch.to_pandas()
