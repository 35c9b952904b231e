"""The program `score`: records -> events -> scores -> verdicts -> alerts in the database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.adapters.result_files import ResultWriter
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import CredentialIssue
from fingerprint.core.ports.store import Store
from fingerprint.core.read_ahead import read_ahead
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.detection.batch import FRAME_COLUMNS
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry import state_files
from fingerprint.registry.initial_state import initial_state
from fingerprint.sources.active import SOURCE
from fingerprint.state.coded_events import CodedEvents, code_events
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from pipelines.cli.console import Progress
from pipelines.runtime import backend as backends
from pipelines.runtime import wiring
from pipelines.runtime.input_check import find_input, require_events, unread_objects
from pipelines.runtime.scoring_run import open_run

# The columns that scoring reads, and the key that a call issued, by which credentials are followed.
SCORED_COLUMNS = (*FRAME_COLUMNS, "issued_key")


def score_sources(
    sources: list[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    database_url: str | None = None,
    out: Path | None = None,
    state_folder: Path | None = None,
    span: TimeRange = ALL_TIME,
) -> dict[str, Any]:
    """Score the events of `sources` within `span` against the bank in `folder`; return the figures of `score --json`."""
    run = open_run(folder, settings, database_url)
    settings, to_device = run.settings, run.backend.to_device
    bank = run.bank.on(to_device)
    with (
        state_files.locked_state(state_folder),
        backends.open_history(settings, span, SCORED_COLUMNS) as history,
        ResultWriter(out, settings) as results,
        wiring.open_inference(settings.triton, bank) as losses,
    ):
        may_be_empty = state_folder is not None
        found = find_input(sources, span, may_be_empty)
        history.add_batches(files.read_files(found.files, settings.reading), progress)
        require_events(history, found.files, may_be_empty)
        arrays, start = initial_state(bank, history.activity_start(), settings, state_folder)
        state = ScorerState.from_arrays(settings, arrays, to_device)
        pipeline = DetectionPipeline(
            bank, PipelineState(state), settings, keep_all_events=out is not None, inference=losses
        )
        _score_history(history, pipeline, run.store, results, progress)
        if state_folder:
            state_files.save_state(state, state_folder)
    return {
        **pipeline.figures(),
        **history.figures(),
        **unread_objects(found),
        "started_from": start,
        **run.figures(),
    }


def _score_history(
    history: EventSpool,
    pipeline: DetectionPipeline,
    store: Store,
    results: ResultWriter,
    progress: Progress,
) -> None:
    """Run the pipeline over a history, batch by batch, and save its results.

    Three batches are in memory: while the results of one are saved, the next is scored, and the one after it is prepared.
    """
    prepared = read_ahead(map(_prepare, history.batches_to_score()))
    scored = ((pipeline.process(events), credentials) for events, credentials in prepared)
    for step_results, credentials in read_ahead(scored):
        save_results(step_results, store, results, credentials)
        progress("scoring events", pipeline.counters.events + pipeline.counters.repeats, history.events)
    save_results(pipeline.flush(), store, results)


def _prepare(events: Frame) -> tuple[CodedEvents, list[CredentialIssue]]:
    """Return the work on a batch that needs no state: its events as codes, and the credentials that they issued."""
    return code_events(events), SOURCE.find_issued_credentials(events)


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
