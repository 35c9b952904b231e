"""The registry of detectors: what each declares, and that no other module spells their names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from fingerprint.core.alert import vote_column, z_column
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import (
    available_detectors,
    calibrated_detectors,
    detector_names,
    interval_detectors,
    load_detector,
)

ROOT = Path(__file__).parents[3]
BUILT_IN = ("autoencoder", "isolation_forest", "sequence", "spectral")
# A checkpoint has a sequence number.
CHECKPOINT_MODULES = ("fingerprint/adapters/checkpoints/manifest.py", "pipelines/commands/checkpoints.py")
OTHER_WORDS = {path: {"sequence"} for path in CHECKPOINT_MODULES}
# Their names are also those of sections of the settings, and of a benchmark.
SECTIONS = {"fingerprint/registry/bank.py", "fingerprint/analysis/fingerprints.py", "pipelines/bench/gpu.py"}
SECTIONS |= {"fingerprint/analysis/principal_profile.py", "pipelines/runtime/backfill_plan.py"}


def test_every_module_of_the_package_is_a_detector_of_its_name() -> None:
    assert tuple(sorted(available_detectors())) == BUILT_IN
    for name in BUILT_IN:
        assert load_detector(name).name == name
        assert load_detector(name).label


def test_the_default_detectors_are_two_of_events_and_one_of_intervals() -> None:
    names = detector_names(Settings())
    assert names == ("autoencoder", "spectral", "sequence")
    assert interval_detectors(names) == ("spectral",)
    assert calibrated_detectors(names) == ("autoencoder",), "urgency is made of its z"
    assert interval_detectors(["spectral", "gone_since"]) == ("spectral",)


def strings_of(file: Path) -> Iterator[str]:
    """The texts in a module's code; those in docstrings stand in longer ones."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("package", ["fingerprint", "pipelines"])
def test_no_other_module_spells_a_detectors_name_or_columns(package: str) -> None:
    columns = {column(name) for name in BUILT_IN for column in (z_column, vote_column)}
    found = []
    for file in sorted((ROOT / package).rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if "/core/settings/" in path or "/detection/detectors/" in path:
            continue
        spelled = columns if path in SECTIONS else columns | set(BUILT_IN) - OTHER_WORDS.get(path, set())
        found += [f"{path}: {text}" for text in strings_of(file) if text in spelled]
    assert not found
