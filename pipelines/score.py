"""The road: records -> events -> measured -> judged -> alerts on the desk. One page, read downhill."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import History
from fingerprint.adapters.result_files import Results
from fingerprint.analysis import threshold_preview
from fingerprint.compute import frames
from fingerprint.core.alert import Hop
from fingerprint.core.ports import Desk
from fingerprint.core.settings import Settings
from fingerprint.pipeline import Road, Said
from fingerprint.registry import bank as banks
from fingerprint.registry import state_files
from fingerprint.registry.bank import Bank
from fingerprint.sources.cloudtrail import credential_chain
from fingerprint.state.partitioning import Arrays
from fingerprint.state.scorer_state import Ledger
from fingerprint.store.alerts import open_desk
from pipelines.cli.console import Progress, reasons
from pipelines.runtime import backend as backends
from pipelines.runtime import memory, wiring

LEDGER, BANK = "ledger", "bank"  # where a run may start
EMPTY = "empty: the input begins inside the bank's training span"


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
    bank = banks.open_bank(folder, settings.bank)
    banks.check_settings(bank, settings)
    backend = backends.chosen(settings)
    bank = bank.on(backend.place)
    desk = open_desk(desk_url or settings.desk.url, redact=settings.desk.redact)
    settings = threshold_preview.applied(settings, desk.tuned())
    with (
        backends.history(settings) as history,
        Results(out, settings) as results,
        wiring.losses(settings.triton, bank) as losses,
    ):
        for records in files.read(sources, settings.reading):
            history.add(records)
            progress("reading records", history.records)
        arrays, start = start_of(bank, history, settings, ledger_folder)
        ledger = Ledger.from_arrays(settings, arrays, backend.place)
        road = Road(bank, ledger, settings, every_event=out is not None, losses=losses)
        for events in history.chunks():
            keep(
                road.walk(frames.lifted(events, backend.tables)),
                desk,
                results,
                credential_chain.issued(events),
            )
            progress("scoring events", road.tally.events + road.tally.repeats, history.events)
        keep(road.finish(), desk, results)
        if ledger_folder:
            state_files.save(ledger, ledger_folder)
    return {
        **figures(road),
        "records": history.records,
        "rejects": history.rejected,
        "skipped": history.skipped,
        "future_dated": history.future,
        "reasons": reasons(history),
        "started_from": start,
        "bank_version": bank.version,
        "seconds": round(time.monotonic() - started, 3),
        "peak_memory_bytes": memory.peak(),
    }


def keep(said: Said, desk: Desk, results: Results, hops: Sequence[Hop] = ()) -> None:
    """To the desk, and to the file of all events."""
    desk.save(said.alerts, said.votes, hops)
    for frame in said.judged:
        results.write(frame)


def doubt(figures: dict[str, Any]) -> str | None:
    """A sentence where a run may have judged nothing that matters: it began without any past, so there were no counts to compare
    with; None where it did not."""
    if figures["started_from"] != EMPTY:
        return None
    return (
        f"scoring began without a past, because the input begins inside the training span of bank {figures['bank_version']}: "
        "counts are not judged before they have warmed up. Score what follows the training, or give --ledger; if the input "
        "does follow it, look at the bank's span (`fingerprint bank show`)"
    )


def figures(road: Road) -> dict[str, Any]:
    """What went by, for people and programs."""
    tally = road.tally
    return {
        "events": tally.events,
        "duplicates": tally.repeats,
        "degraded": tally.degraded,
        "votes": tally.votes,
        "no_opinion": tally.no_opinion,
        "late": road.ledger.late,
        "ahead": road.ledger.ahead,
        "dropped": road.scorer.dropped,
        "refused": road.scorer.refused,
        "silences": tally.silences,
        "verdicts": tally.verdicts,
        "alerts": tally.alerts,
    }


def start_of(bank: Bank, history: History, settings: Settings, folder: Path | None) -> tuple[Arrays, str]:
    """Where a run starts: at the ledger of the run before, at the bank, or empty if the bank already knows the input."""
    kept = state_files.restore(folder, settings) if folder else None
    if kept:
        return kept.as_arrays(), LEDGER
    first = history.begins()
    if first is not None and first < _end_of_training(bank, settings):
        return Ledger(settings).as_arrays(), EMPTY
    return bank.ledger, BANK


def _end_of_training(bank: Bank, settings: Settings) -> int:
    """Seconds from the epoch. What follows a history may begin a little before its end: records come late."""
    begin = int(pd.Timestamp(bank.manifest["span"][0]).timestamp())
    return max(int(bank.manifest["learned_upto"]), begin + settings.spectral.interval_seconds)
