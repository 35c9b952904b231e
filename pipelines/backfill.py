"""A backfill: `score` over months of records with several workers.

Events are partitioned by principal, workers score the parts, and one process saves the results. The answers are those of `score`
(docs/explanation/performance.md). An interrupted run resumes when it is repeated: finished parts are not scored again.

Example:
    >>> backfill(["s3://trail/AWSLogs/"], Path("bank"), settings, progress, state_folder=Path("state"))
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from fingerprint.adapters import result_files, work_directory
from fingerprint.adapters.result_files import ResultWriter
from fingerprint.core.ports.store import Store
from fingerprint.core.ports.worker_pool import WorkerPool
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.registry import state_files
from pipelines.cli.console import Progress
from pipelines.runtime import backfill_worker, wiring
from pipelines.runtime.backfill_input import partition_once
from pipelines.runtime.backfill_plan import BackfillPlan, plan_fingerprint
from pipelines.runtime.input_check import find_input, unread_objects
from pipelines.runtime.scoring_run import ScoringRun, open_run

READ_COUNTERS = ("records", "rejects", "skipped", "future_dated", "outside", "reasons", "started_from")


def backfill(
    sources: list[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    database_url: str | None = None,
    out: Path | None = None,
    state_folder: Path | None = None,
    span: TimeRange = ALL_TIME,
) -> dict[str, Any]:
    """Score the events of `sources` within `span` against the bank in `folder`, with the workers of the settings.

    Returns the figures of `score --json`.
    """
    run = open_run(folder, settings, database_url)
    found = find_input(sources, span, may_be_empty=state_folder is not None)
    root = work_directory.work_root(run.settings.workers, folder)
    # called below while the state, which it reads, is locked
    parameters = partial(
        plan_fingerprint, found.files, run.bank, run.settings, state_folder, out is not None, span
    )
    with (
        state_files.locked_state(state_folder),
        work_directory.work_directory(root, "score", parameters()) as place,
        ResultWriter(out, run.settings) as results,
        wiring.open_worker_pool(run.settings.workers) as workers,
    ):
        plan = _new_plan(place, folder, run, out is not None, state_folder is not None, span)
        plan, read = partition_once(
            plan, found.files, run.bank, workers.parallelism, state_folder, run.store, progress
        )
        total = _score_parts(plan, read, workers, run.store, progress)
        _write(plan, results)
        if state_folder:
            merged = backfill_worker.merge_states(plan, total["late"], read["clock"])
            state_files.save_state(merged, state_folder)
    counted = {name: read[name] for name in READ_COUNTERS}
    return {**total, **counted, "parts": plan.parts, **unread_objects(found), **run.figures()}


def _new_plan(
    place: Path, folder: Path, run: ScoringRun, every_event: bool, keeps_state: bool, span: TimeRange
) -> BackfillPlan:
    """Return the plan of a backfill in the work folder `place` against the bank in `folder`, before its input is partitioned."""
    return BackfillPlan(
        place,
        folder.absolute(),
        run.bank.version,
        run.settings.without_receivers(),
        every_event=every_event,
        keeps_state=keeps_state,
        span=span,
    )


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


def _save_to_store(results: Path, store: Store) -> None:
    for alerts, votes in result_files.read_alerts_and_votes(results):
        store.alerts.save(alerts, votes)


def _write(plan: BackfillPlan, results: ResultWriter) -> None:
    """Write all scored events, part by part, if the plan keeps them."""
    if plan.every_event:
        for part in range(plan.parts):
            for frame in result_files.read_scored_events(plan.results_folder(part)):
                results.write(frame)


def _add_counts(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the sums of two sets of figures, by name; nested figures (votes by detector) are added, too."""
    return one | {
        name: _add_counts(one.get(name, {}), value) if isinstance(value, dict) else one.get(name, 0) + value
        for name, value in other.items()
    }
