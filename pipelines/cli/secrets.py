"""Commands about the secrets of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.options import Json, print_result

secrets_app = typer.Typer(help="The secrets of a deployment, each in a file.")


@secrets_app.callback()
def describe_group() -> None:
    """The secrets of a deployment, each in a file."""


@secrets_app.command("make")
def secrets_make(
    folder: Annotated[Path, typer.Argument(help="Where they lie: a volume that only services see.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Which ones.", show_default="database-password and triton-control"
        ),
    ] = None,
    anew: Annotated[
        list[str] | None,
        typer.Option(
            "--anew",
            metavar="NAME",
            help="Give this one a new value; the old one stays beside it as NAME.old. May be given again.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write the secrets that are missing: 32 random bytes each, never shown, never overwritten.

    May be run at every start. Each file is there whole or not at all, and readable by its owner alone (mode 0400); database-password
    and grafana-admin by the group too (0440), which PostgreSQL and Grafana are given. FOLDER/NAME as a name puts a file into a
    folder that can be mounted by itself. How a secret is changed: docs/operate.md.
    """
    from pipelines.commands.secrets import DEFAULT_NAMES, create_secrets, print_secrets, rotate_secrets

    done = create_secrets(folder, names or ([] if anew else DEFAULT_NAMES)) + rotate_secrets(
        folder, anew or []
    )
    print_result([dict(row) for row in done], json, lambda: print_secrets(done))
