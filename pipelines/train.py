"""Records -> bank: read a history, learn fingerprints, serve the bank if the promotion gate passes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fingerprint.adapters import files, work_directory
from fingerprint.core import private_files
from fingerprint.core.alert import LEVELS
from fingerprint.core.ports import WorkerPool
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.registry.bank import Bank, open_bank, with_manifest_entries
from fingerprint.sources import arrival
from fingerprint.training import feedback, pipeline
from fingerprint.training.nn.trainer import InitialWeights
from pipelines.cli.console import Progress, rejection_reasons
from pipelines.runtime import backend, promotion, training_data, wiring
from pipelines.runtime.training_data import NO_DATABASE, TrainingDataRequest

WORK_FORMAT = 5  # of what lies in the work folder
HISTORY_FOLDER, DISPOSITIONS_FILE = "history", "judged.parquet"


def train_bank(
    sources: Sequence[str],
    folder: Path,
    settings: Settings,
    progress: Progress,
    *,
    topic: str | None = None,
    span: TimeRange = ALL_TIME,
    store: str | None = NO_DATABASE,
    allow_immature: bool = False,
) -> dict[str, Any]:
    """Train on `sources` and `topic` within `span`, without the events that `store` says to leave out (see TrainingDataRequest).

    Offer the bank to the promotion gate of `folder`; return the figures of `train --json`. `allow_immature` serves a first bank
    without a ready entity.
    """
    wanted, start = TrainingDataRequest(sources, topic, span, store), _initial_weights(settings)
    promotion.require_signer(settings.bank)
    training_data.require_sources(wanted)
    training_data.require_feedback_store(wanted, settings)
    parameters = _training_fingerprint(wanted, settings)  # names missing sources before anything else
    backend.get_backend(settings)
    place = work_directory.work_root(settings.workers, folder)
    with (
        private_files.private_folder(folder),  # before the long part, not after it
        work_directory.work_directory(place, "train", parameters) as work,
        wiring.open_worker_pool(settings.workers) as workers,
    ):
        read = _read_history(wanted, settings, work, progress)
        learned = _train(read, settings, work, workers, progress, start)
        attacks = training_data.load_confirmed_attacks(wanted.database, settings)
        decision = promotion.offer_bank(learned, folder, settings, attacks, allow_immature)
    return {
        "bank": str(folder),
        "version": learned.version,
        "served": decision.passed,
        "refusal": None if decision.passed else promotion.refusal_message(learned.version, decision),
        "gate": decision.figures,
        **read,
        "events": learned.manifest["events"],
        "duplicates": learned.manifest["repeats"],
        "span": learned.manifest["span"],
        "ready": learned.manifest["ready"],
        "shifted": learned.manifest.get("shifted", {}),
        "waiting": dict(readiness_forecast(learned.fingerprints, settings)),
    }


def _train(
    read: dict[str, Any],
    settings: Settings,
    work: Path,
    workers: WorkerPool,
    progress: Progress,
    start: InitialWeights | None,
) -> Bank:
    """Return the bank of a history that was read, with thresholds adjusted by dispositions."""
    history, own = work / HISTORY_FOLDER, settings.without_receivers()
    learned = pipeline.train_partitions(history, own, progress, workers, start=start)
    dispositions = pd.read_parquet(work / DISPOSITIONS_FILE)
    learned = feedback.apply_feedback(learned, dispositions, settings.training)
    left = {name: read[name] for name in ("outside", "future_dated", "ahead", "left_out", "came_back")}
    return with_manifest_entries(learned, **left)


def _initial_weights(settings: Settings) -> InitialWeights | None:
    """Return the generic net of the bank that the setting names."""
    pretrained = settings.autoencoder.warm_start_bank
    return InitialWeights.from_bank(open_bank(Path(pretrained), settings.bank)) if pretrained else None


def _training_fingerprint(request: TrainingDataRequest, settings: Settings) -> dict[str, Any]:
    """Return everything that shapes a training: a run with the same fingerprint resumes an interrupted one."""
    found = files.find_files_in_span(request.sources, request.span).files
    return {
        "format": WORK_FORMAT,
        "files": [(file.path, file.size) for file in found],
        "topic": request.topic,
        "span": str(request.span),
        "database": request.database,
        "settings": settings.model_dump(mode="json"),
    }


def _read_history(
    request: TrainingDataRequest, settings: Settings, work: Path, progress: Progress
) -> dict[str, Any]:
    """Read what is wanted and lay it out in pieces, unless that was done before; its figures."""
    done = work / "read.json"
    if not done.exists():
        began = arrival.wall_clock_ms() // 1000  # what arrives from now on may not be read any more
        with backend.open_history(settings, request.span) as history:
            fetched = training_data.load_history(request, history, settings, progress)
            flagged, asked = training_data.load_exclusions(request, history, settings)
            training_data.load_dispositions(request, history, settings).to_parquet(work / DISPOSITIONS_FILE)
            chunks = flagged.filter(history.batches())
            newest = history.activity_end()
            end = int(newest.timestamp()) if newest else None
            pipeline.partition_history(
                chunks, settings, work / HISTORY_FOLDER, history.events, progress, began, end
            )
        figures = {
            "records": history.records,
            "rejects": history.rejected,
            "skipped": history.skipped,
            "outside": history.outside_span,
            "future_dated": history.future_dated,
            "ahead": history.after_end,
            **fetched,
            "database": asked,
            "left_out": flagged.excluded_counts(),
            "came_back": flagged.readmitted_counts(),
            "reasons": rejection_reasons(history),
        }
        done.write_text(json.dumps(figures))
    known: dict[str, Any] = json.loads(done.read_text())
    return known


def readiness_forecast(fingerprints: pd.DataFrame, settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield how many entities are not ready, what they fall back to, and when they will be ready at the present pace."""
    entities = fingerprints[(fingerprints["level"] == 0) & ~fingerprints["ready"]]
    yield "entities", len(entities)
    at = entities["parent"].to_numpy()
    ready, parents = fingerprints["ready"].to_numpy(), fingerprints["parent"].to_numpy()
    for _ in LEVELS:
        at = np.where(ready[at], at, parents[at])
    level = fingerprints["level"].to_numpy()[at]
    yield "fall_back_to", {LEVELS[number]: int((level == number).sum()) for number in (1, 2, 3)}
    yield "ready_in_days", _pace_by_entity(entities, settings)


def _pace_by_entity(entities: pd.DataFrame, settings: Settings) -> dict[str, int]:
    options = settings.entities
    seen = (entities["last"] - entities["first"] + 1) * settings.spectral.interval_seconds / 86400
    span = seen.clip(lower=1)
    days = pd.concat(
        [
            (options.min_ready_events - entities["events"]) / (entities["events"] / span),
            (options.min_ready_days - entities["days"]) / (entities["days"] / span),
        ],
        axis=1,
    ).max(axis=1)
    bins = pd.cut(
        days, [float("-inf"), 1, 7, 30, float("inf")], labels=["a day", "a week", "a month", "later"]
    )
    return {str(name): int(count) for name, count in bins.value_counts(sort=False).items()}
