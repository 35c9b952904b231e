"""The road of `score` over months, walked by many: events are cut by principal, each worker walks its part, one desk hears all.

Example:
    >>> backfill(["s3://trail/AWSLogs/"], Path("bank"), settings, progress, ledger_folder=Path("ledger"))

It says what `score` says (docs/scale.md). Killed and given again, it goes on: parts that were walked are not walked again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from fingerprint.adapters import files, result_spool, work_directory
from fingerprint.adapters.files import File
from fingerprint.adapters.result_files import Results
from fingerprint.analysis import threshold_preview
from fingerprint.compute import hashing
from fingerprint.core.ports import Desk
from fingerprint.core.settings import Settings
from fingerprint.partitioned_replay import Steps
from fingerprint.registry import bank as banks
from fingerprint.registry import state_files
from fingerprint.registry.bank import Bank
from fingerprint.sources.cloudtrail import credential_chain
from fingerprint.state.scorer_state import Ledger
from fingerprint.store.alerts import open_desk
from fingerprint.training.dataset import split
from pipelines import backfill_worker
from pipelines.backfill_worker import Plan
from pipelines.cli.console import Progress, reasons
from pipelines.runtime import backend, memory, wiring
from pipelines.score import LEDGER, start_of

FORMAT = 2  # of what lies in the work folder
EACH = 4  # parts for each worker, if the settings do not say: the last ones under way leave little idle
SHAPING = {"reading", "entities", "autoencoder", "spectral", "forest", "voting", "alerts"}
READ = ("records", "rejects", "skipped", "future_dated", "reasons", "started_from")


def backfill(
    sources: list[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    desk_url: str | None = None,
    out: Path | None = None,
    ledger_folder: Path | None = None,
) -> dict[str, Any]:
    """Score `sources` against the bank in `folder` with the workers of the settings; the figures of `score --json`."""
    started = time.monotonic()
    bank = banks.open_bank(folder, settings.bank)
    banks.check_settings(bank, settings)
    backend.chosen(settings)
    desk, found = open_desk(desk_url or settings.desk.url, redact=settings.desk.redact), files.find(sources)
    settings = threshold_preview.applied(settings, desk.tuned())
    about = _about(found, bank, settings, ledger_folder, every_event=out is not None)
    with (
        work_directory.entered(work_directory.of(settings.workers, folder), "score", about) as place,
        Results(out, settings) as results,
        wiring.workers(settings.workers) as workers,
    ):
        plan = Plan(
            place, folder.absolute(), bank.version, settings.for_workers(), bool(out), bool(ledger_folder)
        )
        plan, read = _cut_once(plan, found, bank, workers.count, ledger_folder, desk, progress)
        total = read["figures"]
        for part, own in workers.each(partial(backfill_worker.walk_part, plan), range(plan.parts)):
            _tell(plan.said(part), desk)
            total = _added(total, own)
            progress("scoring events", total["events"] + total["duplicates"], read["events"])
        _write(plan, results)
        if ledger_folder:
            state_files.save(backfill_worker.ledger_of_all(plan, total["late"], read["clock"]), ledger_folder)
    return {
        **total,
        **{name: read[name] for name in READ},
        "parts": plan.parts,
        "bank_version": bank.version,
        "seconds": round(time.monotonic() - started, 3),
        "peak_memory_bytes": memory.peak(),
    }


# --- before: what there is, cut by principal --------------------------------------------------------------------------


def _about(
    found: Sequence[File], bank: Bank, settings: Settings, ledger: Path | None, every_event: bool
) -> dict[str, Any]:
    """All that shapes what is said: another run of which this is the same does the same work."""
    kept = [str(file) for file in [ledger and ledger / state_files.FILE] if file and file.exists()]
    beside = files.find([*kept, *filter(None, [settings.reading.networks])])
    return {
        "format": FORMAT,
        "files": [[file.path, file.stamp] for file in [*found, *beside]],
        "bank": bank.version,
        "keeps_ledger": ledger is not None,
        "every_event": every_event,
        "settings": settings.model_dump(mode="json", include=SHAPING),
        "vote_floor": settings.desk.vote_floor,
        "held_to": threshold_preview.said(settings, None),
    }


def _cut_once(
    plan: Plan,
    found: Sequence[File],
    bank: Bank,
    workers: int,
    ledger: Path | None,
    desk: Desk,
    progress: Progress,
) -> tuple[Plan, dict[str, Any]]:
    """Read the files and cut their events into parts, unless a run before did: the plan with its parts, and what was read."""
    if not plan.read.exists():
        count = plan.settings.workers.parts or min(EACH * workers, hashing.VIRTUAL_PARTITIONS)
        figures = _cut(replace(plan, parts=count), found, bank, ledger, desk, progress)
        staged = plan.read.with_suffix(".new")
        staged.write_text(json.dumps(figures))
        staged.replace(plan.read)
    read: dict[str, Any] = json.loads(plan.read.read_text())
    return replace(plan, parts=read["parts"], started_from=read["started_from"]), read


def _cut(
    plan: Plan, found: Sequence[File], bank: Bank, ledger: Path | None, desk: Desk, progress: Progress
) -> dict[str, Any]:
    settings = plan.settings
    with backend.history(settings) as history:
        for records in files.read_found(found, settings.reading):
            history.add(records)
            progress("reading records", history.records)
        arrays, started_from = start_of(bank, history, settings, ledger)
        clock = Ledger.from_arrays(settings, {"clock": arrays["clock"]})
        steps, done = Steps(clock), 0

        def cut(events: pd.DataFrame) -> None:
            nonlocal done
            done += len(events)
            desk.save(hops=credential_chain.issued(events))
            pa.default_memory_pool().release_unused()  # what was freed in small pieces stays with the process else
            progress("cutting by principal", done, history.events)

        split(map(steps.mark, history.chunks()), plan.history.folder, plan.parts, cut, without=())
    if started_from == LEDGER:
        backfill_worker.leave_starts(plan, arrays)
    return {
        "parts": plan.parts,
        "watermarks": steps.watermarks,
        "clock": steps.clock.as_array().tolist(),
        "started_from": started_from,
        "events": history.events,
        "records": history.records,
        "rejects": history.rejected,
        "skipped": history.skipped,
        "future_dated": history.future,
        "reasons": reasons(history),
        "figures": {"late": clock.late, "ahead": steps.clock.ahead},
    }


# --- after: what the parts said, put together -------------------------------------------------------------------------


def _tell(said: Path, desk: Desk) -> None:
    for alerts, votes in result_spool.told(said):
        desk.save(alerts, votes)


def _write(plan: Plan, results: Results) -> None:
    """Every event, part by part."""
    if plan.every_event:
        for part in range(plan.parts):
            for frame in result_spool.judged(plan.said(part)):
                results.write(frame)


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Figures by name, those of votes by detector."""
    return one | {
        name: _added(one.get(name, {}), value) if isinstance(value, dict) else one.get(name, 0) + value
        for name, value in other.items()
    }
