"""Every notebook runs from top to bottom in a fresh kernel, and is kept without what it printed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST = 15  # lines of a cell: what is longer belongs into the package


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first notebook leaves the sample for the others."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_it_runs_in_a_fresh_kernel_within_two_minutes(file: Path, place: Path, tmp_path: Path) -> None:
    import nbformat  # takes four seconds, in every process that collects this file
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    kernel = AsyncKernelManager(transport="ipc", ip=str(tmp_path / "kernel"))
    client = NotebookClient(notebook, km=kernel, resources={"metadata": {"path": str(FOLDER)}})
    client.execute(env={**os.environ, "NOTEBOOKS_FOLDER": str(place)})
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs), "a notebook plots"
    assert not [output["text"] for output in outputs if output.get("name") == "stderr"]


def cells_of(file: Path) -> list[dict[str, Any]]:
    """Return the cells as they are kept, without the seconds that nbformat takes to be imported."""
    cells: list[dict[str, Any]] = json.loads(file.read_text())["cells"]
    return cells


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_it_is_kept_without_outputs(file: Path) -> None:
    code = [cell for cell in cells_of(file) if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_its_cells_are_short_and_it_ends_with_a_conclusion(file: Path) -> None:
    cells = cells_of(file)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in code if len("".join(cell["source"]).splitlines()) > LONGEST] == []
    assert "".join(cells[-1]["source"]).startswith("**What to take from this.**")


def test_the_four_are_named_in_the_folders_readme() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert len(NOTEBOOKS) == 4
    assert [file.name for file in NOTEBOOKS if file.name not in readme] == []
