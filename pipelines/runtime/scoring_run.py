"""One run of `score`, in one process or several: its bank, settings, store and backend, and its own figures.

Example:
    >>> run = open_run(Path("bank"), settings, "sqlite:///alerts.db")
    >>> run.figures()
    {'bank_version': '2026-01-26-7d760c6e', 'trained_until': '2026-01-25T23:49:08', 'seconds': 0.5, 'peak_memory_bytes': ...}
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

from fingerprint.analysis import threshold_what_if
from fingerprint.compute.backend import Backend
from fingerprint.core.settings import Settings
from fingerprint.registry.bank import Bank, check_bank_settings
from fingerprint.registry.bank_files import open_bank
from fingerprint.registry.initial_state import trained_until
from fingerprint.store import SqlStore
from pipelines.runtime import backend, host, wiring


class ScoringRun(NamedTuple):
    """The bank, the settings with the current threshold override, the alert store and the backend of a run, and its start."""

    bank: Bank
    settings: Settings
    store: SqlStore
    backend: Backend
    started: float

    def figures(self) -> dict[str, Any]:
        """Return the figures of the run itself until now."""
        return {
            "bank_version": self.bank.version,
            "trained_until": trained_until(self.bank, self.settings),
            "seconds": round(time.monotonic() - self.started, 3),
            "peak_memory_bytes": host.peak_bytes(),
        }


def open_run(folder: Path, settings: Settings, database_url: str | None) -> ScoringRun:
    """Open the bank, the backend and the store of a run. Raises FingerprintError for a bank or a store that cannot be used."""
    started = time.monotonic()
    bank = open_bank(folder, settings.bank)
    check_bank_settings(bank, settings)
    to_use = backend.get_backend(settings)
    store = wiring.open_scoring_store(settings, database_url)
    in_force = threshold_what_if.apply_override(settings, store.thresholds.current())
    return ScoringRun(bank, in_force, store, to_use, started)
