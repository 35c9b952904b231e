"""The program `retrain`: train a bank on the events topic whenever it is due, and load the served bank into Triton."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from fingerprint.adapters import work_directory
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from pipelines.runtime.retrain_metrics import RetrainMetrics
from pipelines.runtime.retrain_service import RetrainService
from pipelines.runtime.service import running_service


def run_retrain(
    settings: Settings,
    folder: Path,
    file: Path | None = None,
    once: bool = False,
    registry: CollectorRegistry = REGISTRY,
) -> dict[str, Any]:
    """Run `fingerprint retrain` for the bank in `folder`, and return its figures. `file` is the settings file of each training.

    Raises FingerprintError while another process retrains the same bank; with `once` also if something failed.
    """
    with work_directory.work_directory(folder / "work", "retrain", parameters={}) as work:
        program = RetrainService(
            folder, settings, file, work / "tmp", RetrainMetrics(registry, settings.triton)
        )
        with running_service(settings, program.not_ready, program.not_alive, "retrain") as stop_requested:
            program.run(stop_requested, once)
    if once and (trouble := program.not_ready()):
        raise FingerprintError(trouble)
    return program.figures()


def print_retrain_summary(figures: dict[str, Any]) -> None:
    """Print the summary of `retrain` when it ends."""
    done = ", ".join(f"{count} {outcome}" for outcome, count in figures["trainings"].items() if count)
    print(f"trainings: {done or 'none'}; {figures['why']}")
    print(f"served: {figures['served'] or 'no bank yet'}")
