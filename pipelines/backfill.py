"""`score` over months with several workers: events are partitioned by principal, workers score the parts, one process saves.

The answers are those of `score` (docs/explanation/performance.md). An interrupted run resumes when it is
repeated: finished parts are not scored again.

Example:
    >>> backfill(["s3://trail/AWSLogs/"], Path("bank"), settings, progress, state_folder=Path("state"))
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

from fingerprint.adapters import files, result_files, work_directory
from fingerprint.adapters.address_tables import open_address_tables
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.adapters.files import SourceFile
from fingerprint.adapters.result_files import ResultWriter
from fingerprint.analysis import threshold_what_if
from fingerprint.compute import hashing
from fingerprint.core.ports import WorkerPool
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.registry import bank as banks
from fingerprint.registry import state_files
from fingerprint.registry.bank import Bank
from fingerprint.sources.active import SOURCE
from fingerprint.state.scorer_state import ScorerState
from fingerprint.store import open_store
from fingerprint.streaming.partitioned_replay import ReplayClock
from fingerprint.training.dataset import write_partitions
from pipelines.cli.console import Progress, rejection_reasons
from pipelines.runtime import backend, backfill_worker, host, wiring
from pipelines.runtime.backfill_worker import BackfillPlan
from pipelines.runtime.input_check import require_events
from pipelines.score import FROM_STATE, initial_state

PLAN_FORMAT = 3  # of what lies in the work folder
PARTS_PER_WORKER = 4  # if the settings do not say: the last parts under way leave little idle
RESULT_SHAPING_SECTIONS = {
    *("reading", "entities", "autoencoder", "spectral", "sequence", "isolation_forest"),
    *("detectors", "voting", "alerts"),
}
READ_COUNTERS = ("records", "rejects", "skipped", "future_dated", "reasons", "started_from")


def backfill(
    sources: list[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    database_url: str | None = None,
    out: Path | None = None,
    state_folder: Path | None = None,
) -> dict[str, Any]:
    """Score `sources` against the bank in `folder` with the workers of the settings; the figures of `score --json`."""
    started = time.monotonic()
    bank = banks.open_bank(folder, settings.bank)
    banks.check_bank_settings(bank, settings)
    backend.get_backend(settings)
    store = open_store(
        database_url or settings.database.url,
        redact=settings.database.redacted_fields,
        addresses=open_address_tables(settings.enrichment),
    )
    found = files.find_files(sources)
    settings = threshold_what_if.apply_override(settings, store.thresholds.current())
    about = _plan_fingerprint(found, bank, settings, state_folder, every_event=out is not None)
    root = work_directory.work_root(settings.workers, folder)
    with (
        work_directory.work_directory(root, "score", about) as place,
        ResultWriter(out, settings) as results,
        wiring.open_worker_pool(settings.workers) as workers,
    ):
        plan = BackfillPlan(
            place,
            folder.absolute(),
            bank.version,
            settings.without_receivers(),
            bool(out),
            bool(state_folder),
        )
        plan, read = _partition_once(plan, found, bank, workers.parallelism, state_folder, store, progress)
        total = _score_parts(plan, read, workers, store, progress)
        _write(plan, results)
        if state_folder:
            merged = backfill_worker.merge_states(plan, total["late"], read["clock"])
            state_files.save_state(merged, state_folder)
    return {
        **total,
        **{name: read[name] for name in READ_COUNTERS},
        "parts": plan.parts,
        "bank_version": bank.version,
        "seconds": round(time.monotonic() - started, 3),
        "peak_memory_bytes": host.peak_bytes(),
    }


def _score_parts(
    plan: BackfillPlan, read: dict[str, Any], workers: WorkerPool, store: Store, progress: Progress
) -> dict[str, Any]:
    """Score each part on a worker, save its alerts and votes, and return the sum of the figures."""
    total: dict[str, Any] = read["figures"]
    score = partial(backfill_worker.score_partition, plan)
    for part, own in workers.map_unordered(score, range(plan.parts)):
        _save_to_store(plan.results_folder(part), store)
        total = _add_counts(total, own)
        progress("scoring events", total["events"] + total["duplicates"], read["events"])
    return total


# --- before: the input, cut by principal ----- --------------------------------------------------------------------------


def _plan_fingerprint(
    found: Sequence[SourceFile], bank: Bank, settings: Settings, scorer_state: Path | None, every_event: bool
) -> dict[str, Any]:
    """Return everything that shapes the answers: a run with the same fingerprint resumes the same work."""
    kept = [
        str(file)
        for file in [scorer_state and scorer_state / state_files.STATE_FILE]
        if file and file.exists()
    ]
    beside = files.find_files([*kept, *filter(None, [settings.reading.networks_file])])
    return {
        "format": PLAN_FORMAT,
        "files": [[file.path, file.content_tag] for file in [*found, *beside]],
        "bank": bank.version,
        "keeps_state": scorer_state is not None,
        "every_event": every_event,
        "settings": settings.model_dump(mode="json", include=RESULT_SHAPING_SECTIONS),
        "min_vote_score": settings.database.min_vote_score,
        "held_to": threshold_what_if.describe_threshold(settings, None),
    }


def _partition_once(
    plan: BackfillPlan,
    found: Sequence[SourceFile],
    bank: Bank,
    workers: int,
    scorer_state: Path | None,
    store: Store,
    progress: Progress,
) -> tuple[BackfillPlan, dict[str, Any]]:
    """Read the files and cut their events into parts, unless a run before did: the plan with its parts, and what was read."""
    if not plan.read_file.exists():
        count = plan.settings.workers.backfill_parts or min(
            PARTS_PER_WORKER * workers, hashing.VIRTUAL_PARTITIONS
        )
        figures = _partition_events(replace(plan, parts=count), found, bank, scorer_state, store, progress)
        staged = plan.read_file.with_suffix(".new")
        staged.write_text(json.dumps(figures))
        staged.replace(plan.read_file)
    read: dict[str, Any] = json.loads(plan.read_file.read_text())
    return replace(plan, parts=read["parts"], started_from=read["started_from"]), read


def _partition_events(
    plan: BackfillPlan,
    found: Sequence[SourceFile],
    bank: Bank,
    scorer_state: Path | None,
    store: Store,
    progress: Progress,
) -> dict[str, Any]:
    """Read the files, cut their events by principal into the plan's parts, and return what was read."""
    settings = plan.settings
    with backend.open_history(settings) as history:
        for records in files.read_files(found, settings.reading):
            history.add_records(records)
            progress("reading records", history.records)
        require_events(history, found, may_be_empty=scorer_state is not None)
        arrays, started_from = initial_state(bank, history, settings, scorer_state)
        clock = ScorerState.from_arrays(settings, {"clock": arrays["clock"]})
        steps = ReplayClock(clock)
        _write_parts(plan, history, steps, store, progress)
    if started_from == FROM_STATE:
        backfill_worker.write_initial_states(plan, arrays)
    return {
        "parts": plan.parts,
        "watermarks": steps.watermarks,
        "clock": steps.clock.as_array().tolist(),
        "started_from": started_from,
        "events": history.events,
        "records": history.records,
        "rejects": history.rejected,
        "skipped": history.skipped,
        "future_dated": history.future_dated,
        "reasons": rejection_reasons(history),
        "figures": {"late": clock.late_events, "ahead": steps.clock.unconfirmed},
    }


def _write_parts(
    plan: BackfillPlan, history: EventSpool, steps: ReplayClock, store: Store, progress: Progress
) -> None:
    """Write the events of a history into the plan's parts, and save the credentials that they issued."""
    done = 0

    def on_written(events: pd.DataFrame) -> None:
        nonlocal done
        done += len(events)
        store.alerts.save(credential_issues=SOURCE.find_issued_credentials(events))
        pa.default_memory_pool().release_unused()  # what was freed in small pieces stays with the process else
        progress("cutting by principal", done, history.events)

    assigned = map(steps.assign_step, history.batches())
    write_partitions(assigned, plan.history.folder, plan.parts, on_written, dropped_columns=())


# --- after: the results of the parts, merged ---------------------------------------------------------------------------


def _save_to_store(results: Path, store: Store) -> None:
    for alerts, votes in result_files.read_alerts_and_votes(results):
        store.alerts.save(alerts, votes)


def _write(plan: BackfillPlan, results: ResultWriter) -> None:
    """Write every event, part by part."""
    if plan.every_event:
        for part in range(plan.parts):
            for frame in result_files.read_scored_events(plan.results_folder(part)):
                results.write(frame)


def _add_counts(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the sums of figures by name, and of votes by detector."""
    return one | {
        name: _add_counts(one.get(name, {}), value) if isinstance(value, dict) else one.get(name, 0) + value
        for name, value in other.items()
    }
