"""A message or a docstring that names a command names one that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from pipelines.cli.app import app

ROOT = Path(__file__).parents[3]
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
NAMED = re.compile(r"`fingerprint ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")


@pytest.mark.parametrize("folder", ["fingerprint", "pipelines", "deploy"])
def test_every_command_that_a_text_names_exists(folder: str) -> None:
    files = [
        each
        for each in sorted((ROOT / folder).rglob("*"))
        if each.suffix in {".py", ".html", ".yaml", ".yml"}
    ]
    named = [(file, *match.groups()) for file in files for match in NAMED.finditer(file.read_text())]
    assert named
    unknown = []
    for file, name, sub in named:
        group = getattr(COMMANDS.get(name), "commands", {})
        if name not in COMMANDS or (group and sub and sub not in group):
            unknown.append(f"{file.relative_to(ROOT)}: {name} {sub or ''}")
    assert unknown == []
