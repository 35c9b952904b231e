"""What ships: the wheel has the programs and none of the benches, and nothing that ships imports them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shipped() -> set[str]:
    """The paths of the wheel."""
    return {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}


def test_the_wheel_has_programs_and_data_but_no_bench(shipped: set[str]) -> None:
    for program in ("train", "score", "stream", "serve", "cli/app", "commands/alerts", "runtime/wiring"):
        assert f"pipelines/{program}.py" in shipped
    assert "fingerprint/pipeline.py" in shipped
    assert [path for path in shipped if path.startswith(("pipelines/bench", "tests/"))] == []


def test_the_images_are_built_without_the_benches() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines.index("pipelines/bench") > lines.index("!pipelines"), "the last match decides"


def test_nothing_that_ships_imports_a_bench(shipped: set[str]) -> None:
    imports = re.compile(r"pipelines\.bench|from pipelines import .*\bbench\b")
    sources = [ROOT / path for path in shipped if path.endswith(".py") and (ROOT / path).is_file()]
    assert len(sources) > 300
    assert [str(file) for file in sources if imports.search(file.read_text())] == []
