"""Options that several commands have, and how each says what it found."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="CloudTrail records: files, folders, globs or URLs (`s3://bucket/prefix`); .json, .jsonl, with or without .gz.",
        show_default=False,
    ),
]
BankFolder = Annotated[Path, typer.Option("--bank", help="The folder of the bank (all fingerprints).")]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="A TOML file; `FINGERPRINT_<SECTION>__<KEY>` in the environment wins over it.",
        show_default=False,
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--desk", help="Where alerts rest: an SQLAlchemy URL.", show_default="sqlite:///fingerprint.sqlite"
    ),
]
WorkersOption = Annotated[
    str | None,
    typer.Option(
        "--workers",
        help="Who does the work: `local`, `dask` (processes of this machine), `dask-cuda`, or a scheduler's address. "
        "Killed and given again, it goes on.",
        show_default="local",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print figures as JSON, for programs.")]


def exit_refused(sentence: str | None) -> None:
    """Exit status 3 with one sentence: a bank is kept, not served; a device does not read as the CPU does."""
    if sentence:
        print(f"fingerprint: {sentence}", file=sys.stderr)
        raise typer.Exit(3)


def print_result(
    figures: dict[str, Any] | list[dict[str, Any]], as_json: bool, human: Callable[[], None]
) -> None:
    """For programs as JSON, or as `human` says it."""
    if as_json:
        import json

        typer.echo(json.dumps(figures, indent=1, default=str))
    else:
        human()
