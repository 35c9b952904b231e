"""Every notebook runs from top to bottom in a fresh kernel, and is kept without what it printed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from fingerprint.core.time_range import format_instant, parse_time_range

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


def run_cell(name: str, begins: str, **names: Any) -> dict[str, Any]:
    """Run one code cell of a notebook, known by how it begins, with these names; return all of them."""
    cells = ("".join(cell["source"]) for cell in cells_of(FOLDER / name) if cell["cell_type"] == "code")
    exec(next(source for source in cells if source.startswith(begins)), names)  # noqa: S102
    return names


@pytest.mark.parametrize("cut", ["2026-01-29T00:00:00", "2026-01-29T13:07:41"])
def test_the_commands_to_go_on_with_cut_where_the_backtest_did_and_keep_its_budget(
    capsys: pytest.CaptureFixture[str], cut: str
) -> None:
    """Of 600 principals in the history most came and went: the budget counts 200."""
    bank = SimpleNamespace(manifest={"quality": {"principals": 200}}, people=range(600))
    backtest = SimpleNamespace(bank=bank, split_time=pd.Timestamp(cut, tz="UTC"))
    run_cell(
        "04_your_own_data.ipynb",
        "principals = ",
        backtest=backtest,
        ALERTS_A_DAY=3.0,
        format_instant=format_instant,
    )
    printed = capsys.readouterr().out
    assert "BUDGET_PER_100_PRINCIPALS=1.50" in printed
    spans = [parse_time_range(**{option: at}) for option, at in re.findall(r"--(since|until) (\S+)", printed)]
    assert [each.until or each.since for each in spans] == [backtest.split_time] * 2


def test_the_first_offers_entities_that_did_something_harmless_in_the_scored_weeks() -> None:
    keys = [f"1:role/AWSReservedSSO_{name}" for name in ("away", "robbed", "usual")]
    known = pd.DataFrame({"key": keys, "level": "entity", "net": True, "events": 9, "days": 3})
    known = known.assign(first=pd.Timestamp("2026-01-01"), last=pd.Timestamp("2026-01-09"))
    scored = pd.DataFrame({"entity": keys[1:], "session": ["attack", None]})
    shown = run_cell(
        "01_look_at_a_fingerprint.ipynb",
        "scored = ",
        known=known,
        sample=SimpleNamespace(scored_events=scored),
    )
    assert shown["entities"]["key"].tolist() == [keys[2]]
