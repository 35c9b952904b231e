"""Records -> a trial: the beginning of a history is learned, its end judged as `fingerprint score` would have, every z kept.

Example:
    >>> tried = trial(["logs/"], Path("build/trial"), load(), show.silent)
    >>> len(tried.alerts) / tried.days
    2.4

It says what a bank would have shown on days that it did not learn: what thresholds are chosen by, and what notebooks look at.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.adapters.event_spool import EventSpool
from fingerprint.adapters.result_files import ResultWriter
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import TimeRange
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry import bank as banks
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from fingerprint.store import open_store
from fingerprint.training import pipeline
from pipelines.cli.console import Progress
from pipelines.evaluation.backtest_result import (
    ABOUT_FILE,
    BANK_FOLDER,
    DATABASE_FILE,
    EVENTS_FILE,
    Backtest,
    database_url,
    open_backtest,
    read_history,
)
from pipelines.score import save_results

DAY_SECONDS = 86_400  # seconds
MIN_SECONDS_FOR_MIDNIGHT_CUT = 4 * DAY_SECONDS  # a span so long is cut at midnight


def run_backtest(
    sources: Sequence[str], folder: Path, settings: Settings, progress: Progress, training_share: float = 0.75
) -> Backtest:
    """Learn the share `learned` of the span of `sources`, judge what follows, and leave all of it in `folder`, anew.

    FingerprintError where one of the two parts has no events.
    """
    _clear_folder(folder)
    with read_history(sources, settings, progress=progress) as history:
        cut = _split_time(history, training_share)
        bank = pipeline.train(_events_between(history, None, cut), settings, progress, history.events)
        banks.publish_version(bank, folder / BANK_FOLDER)
        _score_chunks(bank, _events_between(history, cut, None), folder, settings, progress)
        about = {"sources": list(sources), **_describe_backtest(history, cut)}
    (folder / ABOUT_FILE).write_text(json.dumps(about, indent=1))  # the last: what is there is whole
    return open_backtest(folder, settings)


def _clear_folder(folder: Path) -> None:
    """Make room for a trial; what else lies in the folder stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (ABOUT_FILE, EVENTS_FILE, DATABASE_FILE):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / BANK_FOLDER, ignore_errors=True)


def _split_time(history: EventSpool, training_share: float) -> int:
    """Seconds from the epoch after the share `learned` of the span; at midnight (UTC) where the span is days."""
    first, last = history.earliest_event_time(), history.activity_end()
    if first is None or last is None:
        raise FingerprintError(
            "there is no event in the sources: name files or folders of CloudTrail records"
        )
    span = int(last.timestamp()) - first
    cut = first + span * training_share
    cut = round(cut / DAY_SECONDS) * DAY_SECONDS if span >= MIN_SECONDS_FOR_MIDNIGHT_CUT else round(cut)
    if not first < cut <= last.timestamp():
        raise FingerprintError(f"{span:,} seconds of records are too few for a trial: give some days of them")
    return cut


def _events_between(history: EventSpool, since: int | None, until: int | None) -> Iterator[pd.DataFrame]:
    """The events from `since` on and before `until`, seconds from the epoch, oldest first."""
    begin, end = (None if at is None else datetime.fromtimestamp(at, UTC) for at in (since, until))
    span = TimeRange(begin, end)
    for events in history.batches():
        inside = span.contains(events["event_time"])
        if inside.any():
            yield events[inside].reset_index(drop=True)


def _score_chunks(
    bank: Bank, chunks: Iterable[pd.DataFrame], folder: Path, settings: Settings, progress: Progress
) -> None:
    """Walk the road from the bank's own ledger on."""
    desk = open_store(database_url(folder))
    road = DetectionPipeline(
        bank,
        PipelineState(ScorerState.from_arrays(settings, bank.scorer_state)),
        settings,
        keep_all_events=True,
    )
    with ResultWriter(folder / EVENTS_FILE, settings) as results:
        for events in chunks:
            save_results(road.process(events), desk, results)
            progress("scoring events", road.counters.events + road.counters.repeats)
        save_results(road.flush(), desk, results)
    desk.close()


def _describe_backtest(history: EventSpool, cut: int) -> dict[str, Any]:
    last = history.activity_end()
    return {
        "begin": history.earliest_event_time(),
        "cut": cut,
        "end": int(last.timestamp()) if last else cut,
        "records": history.records,
        "events": history.events,
        "rejected": history.rejected,
        "skipped": history.skipped,
        "rejects": [asdict(reject) for reject in history.rejects],
    }
