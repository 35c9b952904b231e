"""Backtest: learn the beginning of a history, score its end like `fingerprint score`, and keep every z.

Example:
    >>> backtest = run_backtest(["logs/"], Path("build/backtest"), load_settings(), console.no_progress)
    >>> len(backtest.alerts) / backtest.scored_days
    2.4
    >>> backtest.scored_events[["event_time", "principal", "autoencoder_z", "spectral_z", "verdict"]]
    >>> sample = load_sample()
    >>> int(sample.scored_events["session"].nunique())      # attack sessions, all in the last of the four weeks
    12

A backtest shows what a bank would have flagged on days that it did not learn; people set thresholds by it, and notebooks show it.

The sample of the notebooks is a backtest of a small simulated organisation, made in some seconds: two weeks are learned and two
are scored, the second of them with attacks. It is made once in the folder of the environment variable NOTEBOOKS_FOLDER, and
opened there afterwards. Without that variable each process makes its own.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.adapters.result_files import ResultWriter
from fingerprint.compute import frames
from fingerprint.core.alert import Alert
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, DAY_SECONDS, TimeRange
from fingerprint.evaluation.labels import attack_labels, read_labels
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry import bank_files
from fingerprint.registry.bank import Bank
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from fingerprint.store import open_store
from pipelines.cli import console
from pipelines.cli.console import Progress
from pipelines.runtime import backend
from pipelines.score import save_results

ABOUT_FILE, BANK_FOLDER = "backtest.json", "bank"
EVENTS_FILE, DATABASE_FILE = "events.parquet", "alerts.sqlite"
MIN_SECONDS_FOR_MIDNIGHT_SPLIT = 4 * DAY_SECONDS  # a shorter history may be split at any second

SAMPLE_PRINCIPALS, SAMPLE_DAYS, SAMPLE_SEED, SAMPLE_ATTACKS, SAMPLE_SCALE = 20, 28, 5, 12, 0.4
SAMPLE_TRAINING_SHARE = 0.5  # of the days; attacks are in the last quarter
FOLDER_VARIABLE = "NOTEBOOKS_FOLDER"


@dataclass(frozen=True)
class Backtest:
    """A finished backtest in its folder.

    `about` has the `sources` and settings of the backtest, the number of records, and three times in seconds from the epoch:
    `begin`, `cut` and `end`.
    """

    folder: Path
    settings: Settings
    about: dict[str, Any]

    @property
    def sources(self) -> list[str]:
        """Files, folders and addresses that were read."""
        return list(self.about["sources"])

    @property
    def split_time(self) -> pd.Timestamp:
        """Time at which training ends and scoring begins."""
        return pd.Timestamp(self.about["cut"], unit="s", tz="UTC")

    @property
    def scored_days(self) -> float:
        """Length of the scored part in days, an hour at least."""
        return float(max(self.about["end"] - self.about["cut"], 3600)) / DAY_SECONDS

    @cached_property
    def bank(self) -> Bank:
        """The bank that was trained."""
        return bank_files.open_bank(self.folder / BANK_FOLDER, self.settings.bank)

    @cached_property
    def scored_events(self) -> pd.DataFrame:
        """One row for each event after the split, oldest first, with the columns of `fingerprint score --out`."""
        return pd.read_parquet(self.folder / EVENTS_FILE).drop_duplicates("event_id", ignore_index=True)

    @cached_property
    def alerts(self) -> list[Alert]:
        """Alerts, the most urgent first."""
        with closing(open_store(database_url(self.folder), create=False)) as store:
            return store.alerts.by_urgency()

    @property
    def rejects(self) -> pd.DataFrame:
        """The first thousand records that could not be read: source, position, reason."""
        return pd.DataFrame(self.about["rejects"], columns=["source", "position", "reason"])

    def events_of(self, principal: str) -> pd.DataFrame:
        """Return the events of one principal after the split, as they were read, oldest first.

        Raises FingerprintError if there are none.
        """
        with read_history(
            self.sources, self.settings, TimeRange(since=self.split_time.to_pydatetime())
        ) as history:
            of_principal = [events[events["principal"] == principal] for events in history.batches()]
        if not any(map(len, of_principal)):
            raise FingerprintError(f"{principal!r} did nothing from {self.split_time:%Y-%m-%d %H:%M} on")
        return pd.concat(of_principal, ignore_index=True)


def open_backtest(folder: Path, settings: Settings) -> Backtest:
    """Open a backtest that was made before. Raises FingerprintError if none was finished in the folder."""
    if not (folder / ABOUT_FILE).exists():
        raise FingerprintError(
            f"there is no finished backtest in {folder}: make it with pipelines.evaluation.backtest.run_backtest"
        )
    return Backtest(folder, settings, json.loads((folder / ABOUT_FILE).read_text()))


def read_history(
    sources: Sequence[str],
    settings: Settings,
    span: TimeRange = ALL_TIME,
    progress: Progress = console.no_progress,
) -> EventSpool:
    """Return the records of `sources` within `span` as a history, for a `with` statement."""
    history = backend.open_history(settings, span)
    history.add_batches(files.read_sources(list(sources), settings.reading), progress)
    return history


def database_url(folder: Path) -> str:
    """Return the URL of a backtest's alert store."""
    return f"sqlite:///{folder / DATABASE_FILE}"


def run_backtest(
    sources: Sequence[str], folder: Path, settings: Settings, progress: Progress, training_share: float = 0.75
) -> Backtest:
    """Learn the first `training_share` of the span of `sources`, score the rest, and write the results to `folder`.

    An earlier backtest in the folder is replaced. Raises FingerprintError if one of the two parts has no events.
    """
    from fingerprint.training import pipeline  # takes a second, which opening a backtest does not need

    _clear_folder(folder)
    with read_history(sources, settings, progress=progress) as history:
        cut = _split_time(history, training_share)
        bank = pipeline.train(events_between(history, None, cut), settings, progress, history.events)
        bank_files.publish_version(bank, folder / BANK_FOLDER)
        _score_chunks(bank, events_between(history, cut, None), folder, settings, progress)
        about = {"sources": list(sources), **_describe_backtest(history, cut)}
    (folder / ABOUT_FILE).write_text(json.dumps(about, indent=1))  # written last: it marks a whole backtest
    return open_backtest(folder, settings)


def _clear_folder(folder: Path) -> None:
    """Remove an earlier backtest; other files in the folder stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (ABOUT_FILE, EVENTS_FILE, DATABASE_FILE):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / BANK_FOLDER, ignore_errors=True)


def _split_time(history: EventSpool, training_share: float) -> int:
    """Return the time (seconds from the epoch) after `training_share` of the span, rounded to midnight (UTC) for long spans."""
    first, last = history.earliest_event_time(), history.activity_end()
    if first is None or last is None:
        raise FingerprintError(
            "there is no event in the sources: name files or folders of CloudTrail records"
        )
    span = int(last.timestamp()) - first
    cut = first + span * training_share
    cut = round(cut / DAY_SECONDS) * DAY_SECONDS if span >= MIN_SECONDS_FOR_MIDNIGHT_SPLIT else round(cut)
    if not first < cut <= last.timestamp():
        raise FingerprintError(
            f"{span:,} seconds of records are too few for a backtest: give some days of them"
        )
    return cut


def events_between(history: EventSpool, start: int | None, end: int | None) -> Iterator[pd.DataFrame]:
    """Yield the events of a history from `start` up to `end` (exclusive), both in seconds from the epoch, oldest first."""
    for events in history.batches():
        seconds = frames.epoch_seconds(events["event_time"])
        inside = (seconds >= (start or 0)) & (seconds < (end or np.inf))
        if inside.any():
            yield events[inside].reset_index(drop=True)


def _score_chunks(
    bank: Bank, chunks: Iterable[pd.DataFrame], folder: Path, settings: Settings, progress: Progress
) -> None:
    """Run the pipeline over chunks, from the scorer state of the bank, and save the results in the folder."""
    state = PipelineState(ScorerState.from_arrays(settings, bank.scorer_state))
    detection = DetectionPipeline(bank, state, settings, keep_all_events=True)
    with (
        closing(open_store(database_url(folder))) as store,
        ResultWriter(folder / EVENTS_FILE, settings) as results,
    ):
        for events in chunks:
            save_results(detection.process(events), store, results)
            progress("scoring events", detection.counters.events + detection.counters.repeats)
        save_results(detection.flush(), store, results)


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


# --- the notebooks' sample -----------------------------------------------------------------------------------


class NotebookSample(Backtest):
    """A backtest with labels: scored events have `session` and `strength` of their attack, missing for harmless ones."""

    @cached_property
    def scored_events(self) -> pd.DataFrame:
        """Scored events with `session` and `strength`."""
        labels = attack_labels(read_labels(self.sources))[["event_id", "session", "strength"]]
        return super().scored_events.merge(labels, on="event_id", how="left", validate="1:1")

    @property
    def quiet_and_attacked_weeks(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Scored events of the ordinary week, and of the week with the attacks."""
        late = self.scored_events["event_time"] >= self.split_time + pd.Timedelta(
            days=SAMPLE_DAYS * SAMPLE_TRAINING_SHARE / 2
        )
        return self.scored_events[~late], self.scored_events[late]


def load_sample() -> NotebookSample:
    """Return the sample; the first call makes it."""
    folder, settings = sample_folder() / "backtest", Settings()
    if not (folder / ABOUT_FILE).exists():
        run_backtest([str(records_folder())], folder, settings, console.no_progress, SAMPLE_TRAINING_SHARE)
    made = open_backtest(folder, settings)
    return NotebookSample(made.folder, made.settings, made.about)


def records_folder() -> Path:
    """Return the folder with the CloudTrail records of the sample, one file a day, and labels.jsonl."""
    folder, done = sample_folder() / "records", sample_folder() / "simulated"
    if not done.exists():
        from pipelines.simulate import simulate_organisation

        simulate_organisation(
            SAMPLE_PRINCIPALS, SAMPLE_DAYS, SAMPLE_SEED, folder, SAMPLE_ATTACKS, scale=SAMPLE_SCALE
        )
        done.touch()
    return folder


def sample_folder() -> Path:
    """Return the folder of the sample, where notebooks also write other files."""
    named = os.environ.get(FOLDER_VARIABLE)
    folder = Path(named) if named else Path(_temporary_folder().name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def _temporary_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="fingerprint-notebooks-")
