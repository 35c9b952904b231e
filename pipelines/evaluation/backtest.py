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

from fingerprint.adapters.event_spool import History
from fingerprint.adapters.result_files import Results
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import Span
from fingerprint.pipeline import Road
from fingerprint.registry import bank as banks
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import Ledger
from fingerprint.store.alerts import open_desk
from fingerprint.training import pipeline
from pipelines.cli.console import Progress
from pipelines.evaluation.backtest_result import ABOUT, BANK, DESK, EVENTS, Tried, desk_url, opened, read
from pipelines.score import keep

DAY = 86_400  # seconds
WHOLE_DAYS = 4 * DAY  # a span so long is cut at midnight


def trial(
    sources: Sequence[str], folder: Path, settings: Settings, progress: Progress, learned: float = 0.75
) -> Tried:
    """Learn the share `learned` of the span of `sources`, judge what follows, and leave all of it in `folder`, anew.

    FingerprintError where one of the two parts has no events.
    """
    _cleared(folder)
    with read(sources, settings, progress=progress) as history:
        cut = _cut(history, learned)
        bank = pipeline.train(_part(history, None, cut), settings, progress, history.events)
        banks.publish(bank, folder / BANK)
        _judge(bank, _part(history, cut, None), folder, settings, progress)
        about = {"sources": list(sources), **_about(history, cut)}
    (folder / ABOUT).write_text(json.dumps(about, indent=1))  # the last: what is there is whole
    return opened(folder, settings)


def _cleared(folder: Path) -> None:
    """Make room for a trial; what else lies in the folder stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (ABOUT, EVENTS, DESK):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / BANK, ignore_errors=True)


def _cut(history: History, learned: float) -> int:
    """Seconds from the epoch after the share `learned` of the span; at midnight (UTC) where the span is days."""
    first, last = history.first_time(), history.last_time()
    if first is None or last is None:
        raise FingerprintError(
            "there is no event in the sources: name files or folders of CloudTrail records"
        )
    span = int(last.timestamp()) - first
    cut = first + span * learned
    cut = round(cut / DAY) * DAY if span >= WHOLE_DAYS else round(cut)
    if not first < cut <= last.timestamp():
        raise FingerprintError(f"{span:,} seconds of records are too few for a trial: give some days of them")
    return cut


def _part(history: History, since: int | None, until: int | None) -> Iterator[pd.DataFrame]:
    """The events from `since` on and before `until`, seconds from the epoch, oldest first."""
    begin, end = (None if at is None else datetime.fromtimestamp(at, UTC) for at in (since, until))
    span = Span(begin, end)
    for events in history.chunks():
        inside = span.holds(events["event_time"])
        if inside.any():
            yield events[inside].reset_index(drop=True)


def _judge(
    bank: Bank, chunks: Iterable[pd.DataFrame], folder: Path, settings: Settings, progress: Progress
) -> None:
    """Walk the road from the bank's own ledger on."""
    desk = open_desk(desk_url(folder))
    road = Road(bank, Ledger.from_arrays(settings, bank.ledger), settings, every_event=True)
    with Results(folder / EVENTS, settings) as results:
        for events in chunks:
            keep(road.walk(events), desk, results)
            progress("scoring events", road.tally.events + road.tally.repeats)
        keep(road.finish(), desk, results)
    desk.close()


def _about(history: History, cut: int) -> dict[str, Any]:
    last = history.last_time()
    return {
        "begin": history.first_time(),
        "cut": cut,
        "end": int(last.timestamp()) if last else cut,
        "records": history.records,
        "events": history.events,
        "rejected": history.rejected,
        "skipped": history.skipped,
        "rejects": [asdict(reject) for reject in history.rejects],
    }
