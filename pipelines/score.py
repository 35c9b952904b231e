"""The road: records -> events -> measured -> judged -> alerts on the desk. One page, read downhill."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fingerprint import bank as banks
from fingerprint.alerts import Explainer, Groups
from fingerprint.bank import Bank
from fingerprint.edges import files, ledgers, network_table
from fingerprint.edges.desk import open_desk
from fingerprint.edges.history import History
from fingerprint.edges.results import Results
from fingerprint.ledger import Ledger
from fingerprint.ports import Desk
from fingerprint.scoring import Judged, Scorer, votes_of
from fingerprint.settings import Settings
from pipelines.show import Progress, reasons


def score(
    sources: list[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    desk_url: str | None = None,
    out: Path | None = None,
    ledger_folder: Path | None = None,
) -> dict[str, Any]:
    """Score `sources` against the bank in `folder`; the figures of `score --json`."""
    started = time.monotonic()
    bank = banks.open_bank(folder)
    banks.check_settings(bank, settings)
    desk = open_desk(desk_url or settings.desk.url)
    with (
        History(settings, network_table.load(settings.reading.networks)) as history,
        Results(out, settings) as results,
    ):
        for records in files.read(sources, settings.reading):
            history.add(records)
            progress("reading records", history.records)
        ledger, start = _ledger(bank, history, settings, ledger_folder)
        road = Road(Scorer(bank, ledger, settings), desk, results)
        for events in history.chunks():
            road.walk(events)
            progress("scoring events", road.events + road.repeats, history.events)
        road.finish()
        if ledger_folder:
            ledgers.save(ledger, ledger_folder)
    return {
        **road.figures(),
        "records": history.records,
        "rejects": history.rejected,
        "skipped": history.skipped,
        "reasons": reasons(history),
        "started_from": start,
        "bank_version": bank.version,
        "seconds": round(time.monotonic() - started, 3),
        "peak_memory_bytes": _peak_memory(),
    }


def _peak_memory() -> int:
    """Bytes that were resident at most. Linux counts what the starting process held into ru_maxrss, so not that."""
    status = Path("/proc/self/status")
    if not status.exists():
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


def _ledger(bank: Bank, history: History, settings: Settings, folder: Path | None) -> tuple[Ledger, str]:
    """Where a run starts: at the ledger of the run before, at the bank, or empty if the bank already knows the input."""
    kept = ledgers.restore(folder, settings) if folder else None
    if kept:
        return kept, "ledger"
    first = history.first_time()
    if first is not None and first < _end_of_training(bank, settings):
        return Ledger(settings), "empty: the input begins inside the bank's training span"
    return Ledger.from_arrays(settings, bank.ledger), "bank"


def _end_of_training(bank: Bank, settings: Settings) -> int:
    """Seconds from the epoch. What follows a history may begin a little before its end: records come late."""
    begin = int(pd.Timestamp(bank.manifest["span"][0]).timestamp())
    end = int(bank.manifest["watermark"]) - settings.spectral.lateness_seconds
    return max(end, begin + settings.spectral.interval_seconds)


class Road:
    """Walks batches of events, oldest first, from measuring to the desk, and counts."""

    def __init__(self, scorer: Scorer, desk: Desk, results: Results) -> None:
        self.scorer, self.desk, self.results = scorer, desk, results
        self.groups = Groups(Explainer(scorer.bank, scorer.ledger.series, scorer.settings))
        self.events = self.repeats = self.verdicts = self.alerts = self.silences = 0
        self.votes = {detector.name: 0 for detector in scorer.detectors}
        self.no_opinion = dict(self.votes)

    def walk(self, events: pd.DataFrame) -> None:
        """Measure a batch, judge what can be judged, remember it."""
        self.repeats += self.scorer.take(events)
        self.scorer.ledger.see(events["event_time"].astype("int64").to_numpy(np.int64) // 1_000_000)
        self._keep(self.scorer.settle())
        self._keep_silences()
        self._save(before=self.scorer.ledger.closed())
        self.scorer.ledger.advance()

    def finish(self) -> None:
        """The input has ended: judge what still waits."""
        self._keep(self.scorer.settle(everything=True))
        self._save(before=None)

    def _keep(self, judged: Judged | None) -> None:
        if judged is None:
            return
        frame = judged.frame
        self.events += len(frame)
        self.verdicts += int(frame["verdict"].sum())
        for name in self.votes:
            self.votes[name] += int(frame[f"{name}_vote"].sum())
            self.no_opinion[name] += int(frame[f"{name}_z"].isna().sum())
        self.results.write(frame)
        self.groups.add(judged.batch, frame)
        self.desk.save([], votes_of(judged, self.scorer))

    def _keep_silences(self) -> None:
        silences = self.scorer.silences()
        if len(silences):
            self.silences += len(silences)
            self.desk.save([], silences)

    def _save(self, before: int | None) -> None:
        alerts = self.groups.close(before)
        if alerts:
            self.alerts += len(alerts)
            self.desk.save(alerts, [])

    def figures(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "duplicates": self.repeats,
            "votes": self.votes,
            "no_opinion": self.no_opinion,
            "late": self.scorer.ledger.late,
            "ahead": self.scorer.ledger.ahead,
            "silences": self.silences,
            "verdicts": self.verdicts,
            "alerts": self.alerts,
        }
