"""From which bank slow drift is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from fingerprint.registry.versions import VersionDecision
from pipelines.runtime import promotion
from tests.registry.test_versions import bank_folder, served


def test_drift_is_measured_from_a_bank_that_was_served_also_after_refused_trainings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [f"refused-{number}" for number in range(5)]
    served(bank_folder(tmp_path, "a", "b", "c", *refused), "a", "b", "c")
    for version in refused:
        versions.append_decision(tmp_path, version, VersionDecision("refused", "2026-01-01", "maria", "why"))
    monkeypatch.setattr(promotion.bank_files, "open_bank", lambda *args, **more: args[2])
    champion: Any = SimpleNamespace(version="c")
    assert promotion._drift_reference(tmp_path, "new", champion, Settings()) == "a"
