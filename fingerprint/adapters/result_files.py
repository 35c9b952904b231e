"""Results of scoring as files: scored events for `--out`, and a spool of alerts and votes until the store has them.

Example:
    >>> with ResultWriter(Path("events.parquet"), settings) as results:
    ...     results.write(scored_events)
    >>> with StepResultSpool(folder, settings, every_event=True) as spool:
    ...     for result in results_of_steps:
    ...         spool.write(result)
    >>> for alerts, votes in read_alerts_and_votes(folder):
    ...     store.alerts.save(alerts, votes)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from errno import EISDIR
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fingerprint.adapters.output_files import staged_output
from fingerprint.analysis.event_explanation import missing_verdict_reasons
from fingerprint.core.alert import (
    ALERT_THRESHOLD_COLUMN,
    NEWCOMER_COLUMN,
    VOTE_COLUMNS,
    Alert,
    threshold_column,
    vote_column,
    z_column,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import detector_names
from fingerprint.detection.votes import empty_votes
from fingerprint.pipeline import StepResult

SUFFIXES = (".parquet", ".jsonl")


class ResultWriter:
    """Scored events in a file, one row an event: Parquet or JSON lines, by the file's name.

    Columns: event_id, event_time, principal, entity, service, action, `<detector>_z` (null for no opinion), `<detector>_vote` and
    `<detector>_threshold`, alert_threshold (the z that opens an alert), verdict, reason (for no verdict; null with a verdict),
    alert_id (null without an alert), level, newcomer (compared with the first events of other principals), degraded,
    bank_version. Without a file nothing is written; a run that fails leaves an existing file unchanged.
    """

    def __init__(self, file: Path | None, settings: Settings) -> None:
        self.file, self.schema = file, _schema(settings)
        self.detectors = detector_names(settings)
        self.parquet: pq.ParquetWriter | None = None
        self.text_file: TextIO | None = None
        self.opened = ExitStack()
        if file and file.suffix not in SUFFIXES:
            raise FingerprintError(f"--out {file}: name a file that ends in {' or '.join(SUFFIXES)}")

    def __enter__(self) -> ResultWriter:
        try:
            if self.file:
                self._open(self.file)
        except OSError as error:
            raise FingerprintError(f"--out {self.file}: {error.strerror or error}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.opened.__exit__(kind, error, trace)

    def _open(self, out: Path) -> None:
        if out.is_dir():
            raise IsADirectoryError(EISDIR, "is a folder")
        with ExitStack() as opened:
            file = opened.enter_context(staged_output(out))
            file.parent.mkdir(parents=True, exist_ok=True)
            if out.suffix == ".parquet":
                self.parquet = opened.enter_context(pq.ParquetWriter(file, self.schema, compression="zstd"))
            else:
                self.text_file = opened.enter_context(file.open("w", encoding="utf-8"))
            self.opened = opened.pop_all()

    def write(self, frame: pd.DataFrame) -> None:
        """Append scored events."""
        if not self.file:
            return
        if "reason" not in frame:
            frame = frame.assign(reason=missing_verdict_reasons(frame, self.detectors))
        if self.parquet:
            table: Any = pa.Table.from_pandas(
                frame[self.schema.names], schema=self.schema, preserve_index=False
            )
            self.parquet.write_table(table)
        elif self.text_file:
            lines = frame[self.schema.names].to_json(
                orient="records", lines=True, date_format="iso", date_unit="us"
            )
            self.text_file.write(lines)


def _schema(settings: Settings) -> pa.Schema:
    detectors = detector_names(settings)
    return pa.schema(
        [
            ("event_id", pa.string()),
            ("event_time", pa.timestamp("us", tz="UTC")),
            ("principal", pa.string()),
            *((name, pa.string()) for name in ("entity", "service", "action")),
            *((z_column(name), pa.float32()) for name in detectors),
            *((vote_column(name), pa.bool_()) for name in detectors),
            *((threshold_column(name), pa.float32()) for name in detectors),
            (ALERT_THRESHOLD_COLUMN, pa.float32()),
            ("verdict", pa.bool_()),
            ("reason", pa.string()),
            ("alert_id", pa.string()),
            ("level", pa.string()),
            (NEWCOMER_COLUMN, pa.bool_()),
            ("degraded", pa.bool_()),
            ("bank_version", pa.string()),
        ]
    )


BATCH_ROWS = 10_000  # votes of one batch
_ALERT_SCHEMA = pa.schema([("alert", pa.large_binary())])  # MessagePack: JSON has no NaN, and curves have
_VOTE_TYPES = {
    "event_time": pa.timestamp("us", tz="UTC"),
    "z": pa.float64(),
    "threshold": pa.float64(),
    "vote": pa.bool_(),
    "alone": pa.bool_(),
    "reach": pa.float64(),
}
_VOTE_SCHEMA = pa.schema([(name, _VOTE_TYPES.get(name, pa.large_string())) for name in VOTE_COLUMNS])


class StepResultSpool:
    """A folder with `alerts.parquet`, `votes.parquet` and, if every event was asked for, `events.parquet`."""

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
        """Append the result of one step."""
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
    """Yield alerts and votes, some at a time, each in the order in which they were written."""
    for batch in pq.ParquetFile(folder / "alerts.parquet").iter_batches(100):
        yield (
            [msgspec.msgpack.decode(packed, type=Alert) for packed in batch["alert"].to_pylist()],
            empty_votes(),
        )
    for batch in pq.ParquetFile(folder / "votes.parquet").iter_batches(BATCH_ROWS):
        yield [], batch.to_pandas()


def read_scored_events(folder: Path) -> Iterator[pd.DataFrame]:
    """Yield every scored event in tables for `ResultWriter.write`."""
    for batch in pq.ParquetFile(folder / "events.parquet").iter_batches(BATCH_ROWS):
        yield batch.to_pandas()
