"""The README names what there is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TREE = README.split("## The tree")[1]


def test_every_module_stands_in_the_tree() -> None:
    modules = [
        *(ROOT / "fingerprint").glob("*.py"),
        *(ROOT / "fingerprint" / "edges").glob("*.py"),
        *(ROOT / "fingerprint" / "web").glob("*.py"),
        *(ROOT / "pipelines").glob("*.py"),
    ]
    missing = [file.name for file in modules if file.name != "__init__.py" and file.name not in TREE]
    assert not missing


def test_the_tree_names_nothing_that_is_not_there() -> None:
    here = {file.name for file in ROOT.rglob("*.py") if ".venv" not in file.parts}
    named = {word.strip("(),:;") for word in TREE.split() if word.strip("(),:;").endswith(".py")}
    assert {name.rsplit("/", 1)[-1] for name in named} <= here


@pytest.mark.parametrize("command", ["make demo", "make test", "fingerprint train", "fingerprint score"])
def test_the_commands_are_named(command: str) -> None:
    assert command in README


def test_every_extra_is_named() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [name for name in extras if f"`{name}`" not in README] == []


def test_every_linked_file_exists() -> None:
    links = [part.split(")")[0] for part in README.split("](")[1:]]
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
