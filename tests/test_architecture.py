"""Packages import one way, as the contracts in pyproject.toml say, and the architecture page names the files to change."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_imports_keep_the_contracts() -> None:
    """In a process of its own: the linter configures logging, and would silence the loggers of all tests after this one."""
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr


def where_to_change() -> list[tuple[str, str]]:
    """Return each change of the page's table with the text that says where."""
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    table = page.split("## Where do I change ...")[1].split("\n## ")[0]
    return re.findall(r"^\| (.+) \| (.+) \|$", table, re.MULTILINE)[1:]


def names_with_place(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, place) of what is written "`name`, `name` in `place/`"; a place alone has an empty name."""
    for names, place in re.findall(r"((?:`[^`/]+`(?:, | and )?)+ in )?`([^`]*/[^`]*)`", text):
        yield from ((name, place) for name in re.findall(r"`([^`]+)`", names) or [""])


def is_in_place(name: str, place: str) -> bool:
    """Return whether the place exists, and is the folder of the file `name` or the file that defines or writes `name`."""
    path = ROOT / place if place.startswith("pipelines/") else ROOT / "fingerprint" / place
    if place.endswith("/"):
        return path.is_dir() and (path / name).exists()
    begins = rf"^(?:class |def )?{re.escape(name)}\b" if path.suffix == ".py" else rf"\b{re.escape(name)}\b"
    return path.is_file() and bool(re.search(begins, path.read_text(), re.MULTILINE))


@pytest.mark.parametrize(("change", "text"), where_to_change(), ids=lambda each: each[:30])
def test_files_to_change_exist_and_hold_what_the_page_says(change: str, text: str) -> None:
    found = list(names_with_place(text))
    assert {part for pair in found for part in pair if part} == set(re.findall(r"`([^`]+)`", text))
    assert [pair for pair in found if not is_in_place(*pair)] == []


@pytest.mark.parametrize(
    ("name", "place"),
    [("", "web/nowhere.html"), ("COLUMNS", "web/templates/queue/queue.html"), ("kafka_python.py", "web/")],
)
def test_a_wrong_place_is_noticed(name: str, place: str) -> None:
    assert not is_in_place(name, place)
