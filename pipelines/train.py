"""The program `train`: read a history, learn fingerprints, and serve the bank if the promotion gate passes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fingerprint.adapters import work_directory
from fingerprint.core import private_files
from fingerprint.core.ports.worker_pool import WorkerPool
from fingerprint.core.settings import Alerts, Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.registry import quality
from fingerprint.registry.bank import Bank, with_manifest_entries
from fingerprint.registry.bank_files import open_bank
from fingerprint.training import feedback, pipeline
from fingerprint.training.nn.trainer import InitialWeights
from fingerprint.training.promotion_gate import GateDecision
from fingerprint.training.readiness import readiness_forecast
from pipelines.cli.console import Progress
from pipelines.runtime import backend, promotion, training_data, training_history, wiring
from pipelines.runtime.training_data import NO_DATABASE, TrainingDataRequest


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
    """Train on `sources` and `topic` within `span`, offer the bank to the promotion gate, and return figures (`train --json`).

    `store` is the database whose flagged events are left out (see TrainingDataRequest). `allow_immature` serves a first bank even
    if no entity is ready.
    """
    request, start = TrainingDataRequest(sources, topic, span, store), _initial_weights(settings)
    promotion.require_signer(settings.bank)
    training_data.require_sources(request)
    training_data.require_feedback_store(request, settings)
    judged_by = training_data.settings_in_force(store, settings)
    # raises for missing sources, before the long part
    parameters = training_history.training_fingerprint(request, settings)
    backend.get_backend(settings)
    place = work_directory.work_root(settings.workers, folder)
    with (
        private_files.private_folder(folder),  # a problem with the folder shows before the long part
        work_directory.work_directory(place, "train", parameters) as work,
        wiring.open_worker_pool(settings.workers) as workers,
    ):
        read = training_history.read_history_once(request, settings, work, progress)
        learned = _train(read, settings, work, workers, progress, start)
        attacks = training_data.load_confirmed_attacks(store, settings)
        decision = promotion.offer_bank(learned, folder, judged_by, attacks, allow_immature)
        _remove_older_work(place, settings)
    return {
        **_gate_figures(folder, learned.version, decision),
        **read,
        **_learned_figures(learned, judged_by.alerts),
        "waiting": readiness_forecast(learned.fingerprints, settings),
    }


def _train(
    read: dict[str, Any],
    settings: Settings,
    work: Path,
    workers: WorkerPool,
    progress: Progress,
    start: InitialWeights | None,
) -> Bank:
    """Return the bank that was trained on a history, with thresholds adjusted by dispositions."""
    history, own = training_history.history_folder(work), settings.without_receivers()
    learned = pipeline.train_partitions(history, own, progress, workers, start=start)
    dispositions = training_history.read_dispositions(work)
    learned = feedback.apply_feedback(learned, dispositions, settings.training)
    left = {name: read[name] for name in ("outside", "future_dated", "ahead", "left_out", "came_back")}
    return with_manifest_entries(learned, **left)


def _remove_older_work(place: Path, settings: Settings) -> None:
    """Remove the work of earlier trainings that never ended.

    Trainings of other banks may share the folder of the settings, and resume there, so only old work is removed. In the bank's
    own folder, all other work is older than this training.
    """
    idle = work_directory.ABANDONED_SECONDS if settings.workers.work_directory else 0.0
    work_directory.remove_abandoned(place, "train", idle)


def _gate_figures(folder: Path, version: str, decision: GateDecision) -> dict[str, Any]:
    """Return the figures of the promotion gate: the bank, whether it is served, and why not."""
    return {
        "bank": str(folder),
        "version": version,
        "served": decision.passed,
        "refusal": None if decision.passed else promotion.refusal_message(folder, version, decision),
        "gate": decision.figures,
    }


def _learned_figures(learned: Bank, alerts: Alerts) -> dict[str, Any]:
    """Return the figures of what a bank learned, from its manifest; `alerts` are the settings that scorers use."""
    manifest = learned.manifest
    is_measured = alerts.threshold is None
    return {
        "events": manifest["events"],
        "duplicates": manifest["repeats"],
        "span": manifest["span"],
        "ready": manifest["ready"],
        "shifted": manifest.get("shifted", {}),
        "alert_threshold": quality.alert_threshold(manifest["quality"], alerts),
        "held_out_days": manifest["quality"]["days"] if is_measured else None,
        "alert_budget": quality.budget_a_day(manifest["quality"], alerts) if is_measured else None,
    }


def _initial_weights(settings: Settings) -> InitialWeights | None:
    """Return the generic net of the bank that the setting `warm_start_bank` names; None without one."""
    pretrained = settings.autoencoder.warm_start_bank
    return InitialWeights.from_bank(open_bank(Path(pretrained), settings.bank)) if pretrained else None
