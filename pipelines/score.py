"""Records -> events -> scores -> verdicts -> alerts in the database. One page, read from top to bottom."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fingerprint.adapters import files
from fingerprint.adapters.address_tables import open_address_tables
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.adapters.result_files import ResultWriter
from fingerprint.analysis import threshold_what_if
from fingerprint.compute import frames
from fingerprint.compute.backend import Backend
from fingerprint.core.alert import CredentialIssue
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry import bank as banks
from fingerprint.registry import state_files
from fingerprint.registry.bank import Bank
from fingerprint.sources.active import SOURCE
from fingerprint.state.partitioning import Arrays
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from fingerprint.store import open_store
from pipelines.cli.console import Progress, rejection_reasons
from pipelines.runtime import backend as backends
from pipelines.runtime import host, wiring
from pipelines.runtime.input_check import require_events

FROM_STATE, FROM_BANK = "state", "bank"  # where a run may start
FROM_NOTHING = "empty: the input begins inside the bank's training span"


def score_sources(
    sources: list[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    database_url: str | None = None,
    out: Path | None = None,
    state_folder: Path | None = None,
) -> dict[str, Any]:
    """Score `sources` against the bank in `folder`; the figures of `score --json`."""
    started = time.monotonic()
    bank = banks.open_bank(folder, settings.bank)
    banks.check_bank_settings(bank, settings)
    backend = backends.get_backend(settings)
    bank = bank.on(backend.to_device)
    store = open_store(
        database_url or settings.database.url,
        redact=settings.database.redacted_fields,
        addresses=open_address_tables(settings.enrichment),
    )
    settings = threshold_what_if.apply_override(settings, store.thresholds.current())
    with (
        backends.open_history(settings) as history,
        ResultWriter(out, settings) as results,
        wiring.open_inference(settings.triton, bank) as losses,
    ):
        found = files.find_files(sources)
        for records in files.read_files(found, settings.reading):
            history.add_records(records)
            progress("reading records", history.records)
        require_events(history, found, may_be_empty=state_folder is not None)
        arrays, start = initial_state(bank, history, settings, state_folder)
        state = ScorerState.from_arrays(settings, arrays, backend.to_device)
        pipeline = DetectionPipeline(
            bank, PipelineState(state), settings, keep_all_events=out is not None, inference=losses
        )
        _score_history(history, pipeline, backend, store, results, progress)
        if state_folder:
            state_files.save_state(state, state_folder)
    return {
        **run_figures(pipeline),
        **_input_figures(history),
        "started_from": start,
        "bank_version": bank.version,
        "seconds": round(time.monotonic() - started, 3),
        "peak_memory_bytes": host.peak_bytes(),
    }


def _score_history(
    history: EventSpool,
    pipeline: DetectionPipeline,
    backend: Backend,
    store: Store,
    results: ResultWriter,
    progress: Progress,
) -> None:
    """Run the pipeline over a history, batch by batch, and save what comes of it."""
    for events in history.batches():
        step = pipeline.process(frames.to_device(events, backend.dataframe_library))
        save_results(step, store, results, SOURCE.find_issued_credentials(events))
        progress("scoring events", pipeline.counters.events + pipeline.counters.repeats, history.events)
    save_results(pipeline.flush(), store, results)


def _input_figures(history: EventSpool) -> dict[str, Any]:
    """Return the counters of what was read."""
    return {
        "records": history.records,
        "rejects": history.rejected,
        "skipped": history.skipped,
        "future_dated": history.future_dated,
        "reasons": rejection_reasons(history),
    }


def save_results(
    step_results: StepResult,
    store: Store,
    results: ResultWriter,
    credential_issues: Sequence[CredentialIssue] = (),
) -> None:
    """Save alerts and votes to the database, and scored events to the file."""
    store.alerts.save(step_results.alerts, step_results.votes, credential_issues)
    for frame in step_results.scored_events:
        results.write(frame)


def missing_history_warning(figures: dict[str, Any]) -> str | None:
    """Return a warning if a run began without history, so that counts could not be judged; None else."""
    if figures["started_from"] != FROM_NOTHING:
        return None
    return (
        f"scoring began without history, because the input begins inside the training span of bank {figures['bank_version']}: "
        "counts are not judged before they have warmed up. Score events after the training, or give --state; if the input "
        "does follow it, look at the bank's span (`fingerprint bank show`)"
    )


def run_figures(pipeline: DetectionPipeline) -> dict[str, Any]:
    """Return the counters of a run, for people and programs."""
    tally = pipeline.counters
    return {
        "events": tally.events,
        "duplicates": tally.repeats,
        "degraded": tally.degraded,
        "votes": tally.votes,
        "votes_alone": tally.votes_alone,
        "no_opinion": tally.no_opinion,
        "late": pipeline.state.scorer.late_events,
        "ahead": pipeline.state.scorer.unconfirmed,
        "dropped": tally.dropped_events,
        "refused": tally.over_limit_events,
        "silent_intervals": tally.silent_intervals,
        "verdicts": tally.verdicts,
        "alerts": tally.alerts,
    }


def initial_state(
    bank: Bank, history: EventSpool, settings: Settings, folder: Path | None
) -> tuple[Arrays, str]:
    """Return the state where a run starts, and its origin: the last run, the bank, or empty if the bank knows the input."""
    kept = state_files.restore_state(folder, settings) if folder else None
    if kept:
        return kept.as_arrays(), FROM_STATE
    first = history.activity_start()
    if first is not None and first < _end_of_training(bank, settings):
        return ScorerState(settings).as_arrays(), FROM_NOTHING
    return bank.scorer_state, FROM_BANK


def _end_of_training(bank: Bank, settings: Settings) -> int:
    """Return seconds since the epoch. The input may begin a little before the end of the history: records arrive late."""
    begin = int(pd.Timestamp(bank.manifest["span"][0]).timestamp())
    return max(int(bank.manifest["trained_until"]), begin + settings.spectral.interval_seconds)
