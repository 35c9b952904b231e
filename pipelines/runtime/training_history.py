"""The history of a training in its work folder: read once and laid out in partitions, so that an interrupted training resumes.

Example:
    >>> with work_directory(root, "train", training_fingerprint(request, settings)) as work:
    ...     read = read_history_once(request, settings, work, progress)
    ...     bank = pipeline.train_partitions(history_folder(work), settings)

    work/
      history/           the events by partition (`PartitionedDataset`)
      judged.parquet     the dispositions that adjust thresholds
      read.json          what was read; written last
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.adapters import files
from fingerprint.core.read_ahead import read_ahead
from fingerprint.core.settings import Settings
from fingerprint.sources import arrival
from fingerprint.training import pipeline
from pipelines.cli.console import Progress
from pipelines.runtime import backend, training_data
from pipelines.runtime.training_data import TrainingDataRequest

WORK_FORMAT = 5  # of what lies in the work folder
DISPOSITIONS_FILE, READ_FILE = "judged.parquet", "read.json"


def training_fingerprint(request: TrainingDataRequest, settings: Settings) -> dict[str, Any]:
    """Return everything that shapes a training: a run with the same fingerprint resumes an interrupted one."""
    found = files.find_files_in_span(request.sources, request.span).files
    return {
        "format": WORK_FORMAT,
        "files": [(file.path, file.size) for file in found],
        "topic": request.topic,
        "span": str(request.span),
        "database": request.database,
        "settings": settings.model_dump(mode="json"),
    }


def history_folder(work: Path) -> Path:
    """Return the folder of the partitioned events."""
    return work / "history"


def read_dispositions(work: Path) -> pd.DataFrame:
    """Return the dispositions that were read with the history."""
    return pd.read_parquet(work / DISPOSITIONS_FILE)


def read_history_once(
    request: TrainingDataRequest, settings: Settings, work: Path, progress: Progress
) -> dict[str, Any]:
    """Read what is wanted and lay it out in partitions, unless that was done before; its figures."""
    done = work / READ_FILE
    if not done.exists():
        done.write_text(json.dumps(_read_history(request, settings, work, progress)))
    known: dict[str, Any] = json.loads(done.read_text())
    return known


def _read_history(
    request: TrainingDataRequest, settings: Settings, work: Path, progress: Progress
) -> dict[str, Any]:
    began = arrival.wall_clock_ms() // 1000  # what arrives from now on may not be read any more
    with backend.open_history(settings, request.span) as history:
        fetched = training_data.load_history(request, history, settings, progress)
        flagged, asked = training_data.load_exclusions(request, history, settings)
        training_data.load_dispositions(request, history, settings).to_parquet(work / DISPOSITIONS_FILE)
        newest = history.activity_end()
        pipeline.partition_history(
            flagged.mark(read_ahead(history.batches())),
            settings,
            history_folder(work),
            history.events,
            progress,
            arrived_until=began,
            end=int(newest.timestamp()) if newest else None,
        )
    return {
        "records": history.records,
        "rejects": history.rejected,
        "skipped": history.skipped,
        "outside": history.outside_span,
        "future_dated": history.future_dated,
        "ahead": history.after_end,
        **fetched,
        "database": asked,
        "left_out": flagged.excluded_counts(),
        "came_back": flagged.readmitted_counts(),
        "reasons": history.rejection_reasons(),
    }
