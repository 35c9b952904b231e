"""Options and arguments that several modules of commands share, as annotated types; all others are beside their commands.

Example:
    >>> def alerts_list(database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False) -> None: ...
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="CloudTrail records: files, folders, globs or URLs (`s3://bucket/prefix`); .json, .jsonl, with or without .gz.",
        show_default=False,
    ),
]
BankFolder = Annotated[
    Path,
    typer.Option(
        "--bank", envvar="FINGERPRINT_BANK_FOLDER", help="The folder of the bank (all fingerprints)."
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        envvar="FINGERPRINT_SETTINGS_FILE",
        help="A TOML file; `FINGERPRINT_<SECTION>__<KEY>` in the environment overrides it.",
        show_default=False,
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="The database that holds alerts: an SQLAlchemy URL.",
        show_default="sqlite:///fingerprint.sqlite",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Why = Annotated[str, typer.Option("--why", metavar="REASON", help="The reason, for later readers.")]
SimulatePrincipals = Annotated[int, typer.Option(min=1, help="People, machines and services.")]
Host = Annotated[str | None, typer.Option(help="Where to listen.", show_default="127.0.0.1")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes a free one.", show_default="8080")]
