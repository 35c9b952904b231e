"""The list of a bank's versions, which readers make without a lock while others change the folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fingerprint.core.settings import Settings
from fingerprint.features.encoding import FEATURE_NAMES
from fingerprint.registry import catalog
from fingerprint.registry.bank_files import BANK_FORMAT, CLOCK_KEYS
from fingerprint.registry.catalog import BankListing


def test_a_version_that_is_retired_while_others_are_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / "versions" / name).mkdir(parents=True)
        (tmp_path / "versions" / name / "manifest.json").write_text("{}")
    (tmp_path / "CURRENT").write_text("b\n")
    read = catalog.read_manifest

    def read_while_a_training_retires_a(root: Path, options: Any) -> dict[str, Any]:
        shutil.rmtree(tmp_path / "versions" / "a", ignore_errors=True)
        return read(root, options)

    monkeypatch.setattr(catalog, "read_manifest", read_while_a_training_retires_a)
    [version] = BankListing(tmp_path, Settings()).versions()
    assert (version.version, version.served) == ("b", True)
    assert "cannot be read" in version.problem


def test_a_manifest_without_its_figures_is_a_problem_of_that_version_alone(tmp_path: Path) -> None:
    root = tmp_path / "versions" / "a"
    root.mkdir(parents=True)
    known = {"version": "a", "format": BANK_FORMAT, "features": [*FEATURE_NAMES], "files": {}}
    (root / "manifest.json").write_text(json.dumps(known | dict.fromkeys(CLOCK_KEYS, 0) | {"events": 3}))
    [version] = BankListing(tmp_path, Settings()).versions()
    assert version.problem == f"the manifest of bank {root} was changed: it lacks span, fingerprints, ready"
