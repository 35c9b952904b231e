"""One part of a backfill: score the events of some principals by the clock of all parts, and write the results to files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fingerprint.adapters.result_files import StepResultSpool
from fingerprint.compute.arrays import Arrays
from fingerprint.compute.backend import Backend
from fingerprint.core import settings
from fingerprint.pipeline import DetectionPipeline
from fingerprint.registry import bank_files, state_files
from fingerprint.registry.bank import Bank
from fingerprint.registry.initial_state import FROM_BANK, FROM_STATE
from fingerprint.state import partitioning
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming.partitioned_replay import replay_partition
from fingerprint.training.dataset import make_once, require_folder
from pipelines.runtime import backend as backends
from pipelines.runtime import wiring
from pipelines.runtime.backfill_plan import BackfillPlan


def score_partition(plan: BackfillPlan, part: int) -> dict[str, Any]:
    """Score a part unless it is scored already, and return its figures. Two workers may score the same part at once."""
    require_folder(plan.folder)
    results = make_once(plan.results_folder(part), partial(_score_partition, plan, part))
    known: dict[str, Any] = json.loads((results / "figures.json").read_text())
    return known


def _score_partition(plan: BackfillPlan, part: int, folder: Path) -> None:
    backend = backends.get_backend(plan.settings)  # of this worker, which may have a device of its own
    bank = _open_bank(plan.bank, plan.settings.bank, plan.version).on(backend.to_device)
    state, most = _initial_state(plan, bank, part, backend), plan.settings.reading.batch_records
    late, watermarks = state.late_events, json.loads(plan.read_file.read_text())["watermarks"]
    with (
        wiring.open_inference(plan.settings.triton, bank) as losses,
        StepResultSpool(folder, plan.settings, plan.every_event) as files,
    ):
        pipeline = DetectionPipeline(
            bank, PipelineState(state), plan.settings, plan.every_event, inference=losses
        )
        for results in replay_partition(
            pipeline, plan.history.read_chunks(part, most), watermarks, most, backend.dataframe_library
        ):
            files.write(results)
    if plan.keeps_state:
        state_files.save_state(state, folder)
    own = pipeline.figures() | {
        "late": state.late_events - late,
        "ahead": 0,
    }  # `read.json` has the other figures
    (folder / "figures.json").write_text(json.dumps(own))


@cache
def _open_bank(folder: Path, options: settings.Bank, version: str) -> Bank:
    """Return a bank; each process verifies and maps it once."""
    return bank_files.open_bank(folder, options, version)


def _initial_state(plan: BackfillPlan, bank: Bank, part: int, backend: Backend) -> ScorerState:
    if plan.started_from == FROM_BANK:
        own = partitioning.select_buckets(bank.scorer_state, plan.bucket_mask(part))
        return ScorerState.from_arrays(plan.settings, own, backend.to_device)
    if plan.started_from == FROM_STATE and (
        kept := state_files.restore_state(plan.initial_state_folder(part), plan.settings)
    ):
        return ScorerState.from_arrays(plan.settings, kept.as_arrays(), backend.to_device)
    return ScorerState(plan.settings, placement=backend.to_device)


def write_initial_states(plan: BackfillPlan, whole: Arrays) -> None:
    """Split the scorer state of an earlier run into one for each part."""
    for part in range(plan.parts):
        own = partitioning.select_buckets(whole, plan.bucket_mask(part))
        state_files.save_state(ScorerState.from_arrays(plan.settings, own), plan.initial_state_folder(part))


def merge_states(plan: BackfillPlan, late: int, clock: Sequence[int]) -> ScorerState:
    """Return the merged scorer states of all parts; `clock` is the clock of all parts (`ReplayClock`)."""
    whole = ScorerState(plan.settings)
    for part in range(plan.parts):
        arrays = state_files.read_state_arrays(plan.results_folder(part))
        if part == 0:
            whole = ScorerState.from_arrays(plan.settings, arrays)
        else:
            whole.merge(arrays)
    whole.late_events = late
    whole.clock.restore(np.array(clock, np.int64))
    return whole
