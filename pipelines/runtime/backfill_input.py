"""The input of a backfill: files that are read once, and whose events are split by principal into parts for the workers.

Example:
    >>> plan, read = partition_once(plan, files.find_files(sources), bank, workers.parallelism, None, store, progress)
    >>> plan.parts, read["events"]
    (8, 1204311)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.adapters.files import SourceFile
from fingerprint.compute import hashing
from fingerprint.core.ports.store import Store
from fingerprint.core.read_ahead import read_ahead
from fingerprint.registry.bank import Bank
from fingerprint.registry.initial_state import FROM_STATE, initial_state
from fingerprint.sources.active import SOURCE
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming.partitioned_replay import ReplayClock
from fingerprint.training.dataset import write_partitions
from pipelines.cli.console import Progress
from pipelines.runtime import backend, backfill_worker
from pipelines.runtime.backfill_plan import BackfillPlan
from pipelines.runtime.input_check import require_events

PARTS_PER_WORKER = 4  # if the settings do not say; with small parts, workers wait little for the last one


def partition_once(
    plan: BackfillPlan,
    found: Sequence[SourceFile],
    bank: Bank,
    workers: int,
    state_folder: Path | None,
    store: Store,
    progress: Progress,
) -> tuple[BackfillPlan, dict[str, Any]]:
    """Read the files and split their events into parts, unless an earlier run did; return the plan with its parts and figures."""
    if not plan.read_file.exists():
        count = plan.settings.workers.backfill_parts or min(
            PARTS_PER_WORKER * workers, hashing.VIRTUAL_PARTITIONS
        )
        figures = _partition_events(replace(plan, parts=count), found, bank, state_folder, store, progress)
        staged = plan.read_file.with_suffix(".new")
        staged.write_text(json.dumps(figures))
        staged.replace(plan.read_file)
    read: dict[str, Any] = json.loads(plan.read_file.read_text())
    return replace(plan, parts=read["parts"], started_from=read["started_from"]), read


def _partition_events(
    plan: BackfillPlan,
    found: Sequence[SourceFile],
    bank: Bank,
    state_folder: Path | None,
    store: Store,
    progress: Progress,
) -> dict[str, Any]:
    """Read the files, split their events by principal into the parts of the plan, and return the figures of the reading."""
    settings = plan.settings
    with backend.open_history(settings, plan.span) as history:
        history.add_batches(files.read_files(found, settings.reading), progress)
        require_events(history, found, may_be_empty=state_folder is not None)
        arrays, started_from = initial_state(bank, history.activity_start(), settings, state_folder)
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
        **history.figures(),
        "figures": {"late": clock.late_events, "ahead": steps.clock.unconfirmed},
    }


def _write_parts(
    plan: BackfillPlan, history: EventSpool, steps: ReplayClock, store: Store, progress: Progress
) -> None:
    """Write the events of a history into the parts of the plan, and save the credentials that the events issued."""
    done = 0

    def on_written(events: pd.DataFrame) -> None:
        nonlocal done
        done += len(events)
        store.alerts.save(credential_issues=SOURCE.find_issued_credentials(events))
        pa.default_memory_pool().release_unused()  # else memory that was freed in small pieces stays with the process
        progress("cutting by principal", done, history.events)

    assigned = map(steps.assign_step, read_ahead(history.batches()))
    write_partitions(assigned, plan.history.folder, plan.parts, on_written, dropped_columns=())
