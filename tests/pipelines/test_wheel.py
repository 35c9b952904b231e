"""What ships: the wheel has the programs, neither the benches nor the generator of references, and imports none of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("pipelines/bench", "pipelines/reference")


@pytest.fixture(scope="module")
def shipped() -> set[str]:
    """The paths of the wheel."""
    return {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}


def test_the_wheel_has_programs_and_data_and_nothing_of_the_checkout(shipped: set[str]) -> None:
    for program in ("train", "score", "stream", "serve", "cli/app", "commands/alerts", "runtime/wiring"):
        assert f"pipelines/{program}.py" in shipped
    assert "fingerprint/pipeline.py" in shipped
    assert [path for path in shipped if path.startswith((*LEFT_OUT, "tests/"))] == []


@pytest.mark.parametrize("path", LEFT_OUT)
def test_the_images_are_built_without_what_the_wheel_leaves_out(path: str) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines.index(path) > lines.index("!pipelines"), "the last match decides"


def test_nothing_that_ships_imports_what_does_not(shipped: set[str]) -> None:
    imports = re.compile(r"pipelines\.(?:bench|reference)\b|from pipelines import .*\b(?:bench|reference)\b")
    sources = [ROOT / path for path in shipped if path.endswith(".py") and (ROOT / path).is_file()]
    assert len(sources) > 300
    assert [str(file) for file in sources if imports.search(file.read_text())] == []
