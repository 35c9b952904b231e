"""The history of a training in its work folder: read once and split into partitions, so that an interrupted training resumes.

The history is read again if it is older than MAX_HISTORY_AGE_SECONDS, or if alerts were decided since. Otherwise a bank of old
events could replace one of newer events, and an attack that was confirmed since would be learned.

Example:
    >>> with work_directory(root, "train", training_fingerprint(request, settings)) as work:
    ...     read = read_history_once(request, settings, work, progress)
    ...     bank = pipeline.train_partitions(history_folder(work), settings)

    work/
      history/           the events by partition (`PartitionedDataset`)
      judged.parquet     the dispositions that adjust thresholds
      read.json          what was read, when, and a digest of the decisions that were known; written last
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

import fingerprint
import pipelines
from fingerprint.adapters import files
from fingerprint.core.log import get_logger
from fingerprint.core.read_ahead import read_ahead
from fingerprint.core.settings import Settings
from fingerprint.sources import arrival
from fingerprint.training import pipeline
from fingerprint.training.dataset import write_json
from pipelines.cli.console import Progress
from pipelines.runtime import backend, training_data
from pipelines.runtime.training_data import TrainingDataRequest

# A work folder belongs to one version of this code: another release does not resume it.
CODE_FOLDERS = [Path(each) for package in (fingerprint, pipelines) for each in package.__path__]
MAX_HISTORY_AGE_SECONDS = 24 * 3600  # a history that was read longer ago is read again
DISPOSITIONS_FILE, READ_FILE = "judged.parquet", "read.json"

log = get_logger("fingerprint.train")


def training_fingerprint(request: TrainingDataRequest, settings: Settings) -> dict[str, Any]:
    """Return all that shapes a training, apart from the clock and new messages: a run with the same fingerprint may resume it."""
    found = files.find_files_in_span(request.sources, request.span).files
    return {
        "code": code_digest(CODE_FOLDERS),
        "files": files.content_tags(found, filter(None, [settings.reading.networks_file])),
        "topic": request.topic,
        "span": str(request.span),
        "database": request.database,
        "settings": settings.model_dump(mode="json"),
    }


def code_digest(folders: Iterable[Path]) -> str:
    """Return a digest of the Python files of some packages: the name of each file in its package, and its content."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def history_folder(work: Path) -> Path:
    """Return the folder of the partitioned events."""
    return work / "history"


def read_dispositions(work: Path) -> pd.DataFrame:
    """Return the dispositions that were read with the history."""
    return pd.read_parquet(work / DISPOSITIONS_FILE)


def read_history_once(
    request: TrainingDataRequest, settings: Settings, work: Path, progress: Progress
) -> dict[str, Any]:
    """Read the history and split it into partitions, unless an earlier run did so shortly before; return its figures."""
    began = arrival.wall_clock_ms() // 1000  # records that arrive from now on may be missing
    decisions = training_data.decisions_digest(request, settings)
    known = _read_before(work / READ_FILE, began, decisions)
    if known is None:
        (work / READ_FILE).unlink(missing_ok=True)  # before the history that it describes is replaced
        known = _read_history(request, settings, work, progress, began)
        write_json(work / READ_FILE, began=began, decisions=decisions, figures=known)
    return known


def _read_before(file: Path, now: int, decisions: str) -> dict[str, Any] | None:
    """Return the figures of a history that an earlier run read; None if there is none, or it must be read again."""
    if not file.exists():
        return None
    if (read := _parse_record(file)) is None:
        why = "the record of it is cut off"
    elif read["decisions"] != decisions:
        why = "alerts were decided since it was read"
    elif not 0 <= now - read["began"] <= MAX_HISTORY_AGE_SECONDS:
        why = f"it was read {(now - read['began']) / 3600:.1f} hours ago"
    else:
        figures: dict[str, Any] = read["figures"]
        return figures
    log.info("an interrupted training begins again with its history", why=why)
    return None


def _parse_record(file: Path) -> dict[str, Any] | None:
    """Return what was recorded of a history; None for a file that a full disk or a loss of power cut off."""
    try:
        record: dict[str, Any] = json.loads(file.read_text())
    except ValueError:
        return None
    return record


def _read_history(
    request: TrainingDataRequest, settings: Settings, work: Path, progress: Progress, began: int
) -> dict[str, Any]:
    with backend.open_history(settings, request.span) as history:
        fetched = training_data.load_history(request, history, settings, progress)
        flagged, database = training_data.load_exclusions(request, history, settings)
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
        "database": database,
        "left_out": flagged.excluded_counts(),
        "came_back": flagged.readmitted_counts(),
        "reasons": history.rejection_reasons(),
    }
