"""Packages import one way, as the contracts in pyproject.toml say (`[tool.importlinter]`, run by `make lint` too)."""

from __future__ import annotations

from importlinter.cli import lint_imports


def test_imports_keep_the_contracts() -> None:
    assert lint_imports(config_filename="pyproject.toml", no_cache=True) == 0
