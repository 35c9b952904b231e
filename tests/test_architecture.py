"""Packages import one way, as the contracts in pyproject.toml say (`[tool.importlinter]`, run by `make lint` too)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_imports_keep_the_contracts() -> None:
    """In a process of its own: the linter configures logging, and would silence the loggers of all tests after this one."""
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
