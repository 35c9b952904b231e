"""Commands about the secrets of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.common import print_result
from pipelines.cli.options import Json

secrets_app = typer.Typer(help="The secrets of a deployment, each in a file.")


@secrets_app.callback()
def describe_group() -> None:
    """Create the secrets of a deployment, each in a file."""


SecretsFolder = Annotated[
    Path, typer.Argument(help="The folder of the secrets: a volume that only services mount.")
]
SecretNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="The names of the secrets.",
        show_default="database-password and triton-control",
    ),
]
RotateSecret = Annotated[
    list[str] | None,
    typer.Option(
        "--rotate",
        metavar="NAME",
        help="Give this secret a new value; the old one stays beside it as NAME.old. May be repeated.",
        show_default=False,
    ),
]


@secrets_app.command("make")
def secrets_make(
    folder: SecretsFolder,
    names: SecretNames = None,
    rotate: RotateSecret = None,
    json: Json = False,
) -> None:
    """Write missing secrets: 32 random bytes each, never shown, never overwritten.

    May be run at every start. Each file appears complete, and only its owner can read it (mode 0400); the group can read
    database-password and grafana-admin too (0440), for PostgreSQL and Grafana. FOLDER/NAME as a name puts the file into a
    folder that can be mounted by itself. Rotation: docs/how-to/operate.md.
    """
    from pipelines.commands.secrets import DEFAULT_NAMES, create_secrets, print_secrets, rotate_secrets

    done = create_secrets(folder, names or ([] if rotate else DEFAULT_NAMES)) + rotate_secrets(
        folder, rotate or []
    )
    print_result([dict(row) for row in done], json, lambda: print_secrets(done))
