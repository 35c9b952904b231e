"""Commands about the configuration: write, show and check settings, and `doctor`, which checks what they point to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.common import load_interactive_settings, load_settings, print_result, with_connect_timeout
from pipelines.cli.options import BankFolder, DatabaseUrl, Json, SettingsFile
from pipelines.cli.run import EXIT_PROBLEMS_FOUND

config_app = typer.Typer(
    help="Settings: write a file with every default, show the current ones, check a file."
)


TemplateFile = Annotated[Path, typer.Argument(help="The file to write; an existing file is kept.")]


@config_app.command("init")
def config_init(
    file: TemplateFile = Path("fingerprint.toml"),
) -> None:
    """Write a settings file with every setting, its description and its default, all commented out."""
    from pipelines.commands.config import write_template

    write_template(file)
    print(
        f"wrote {file}: uncomment what you change, then pass it with --settings {file}, "
        "or name it in FINGERPRINT_SETTINGS_FILE"
    )


OnlyChanged = Annotated[
    bool, typer.Option("--changed", help="Only settings that the file or the environment sets.")
]


@config_app.command("show")
def config_show(
    changed: OnlyChanged = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Show every setting with its value and where it comes from: default, file or environment. Secrets are masked."""
    from pipelines.commands.config import list_settings, print_settings

    rows = list_settings(settings, load_settings(settings), changed)
    print_result(rows, json, lambda: print_settings(rows))


@config_app.command("check")
def config_check(settings: SettingsFile = None, json: Json = False) -> None:
    """Check the settings file and the environment. Exit status 2: a setting is unknown or invalid, and the error names it."""
    from pipelines.commands.config import list_settings, print_check

    changed = list_settings(settings, load_settings(settings), changed=True)
    figures = {"valid": True, "changed": [row["name"] for row in changed]}
    print_result(figures, json, lambda: print_check(figures))


def doctor(
    bank: BankFolder = Path("bank"),
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Check the broker, the database, the bank, Triton, the backend, the clock and permissions, and say what to do.

    Exit status 1: at least one check failed. A warning does not change the exit status.
    """
    from pipelines.commands.doctor import has_failures, print_checks, run_checks

    loaded = load_interactive_settings(settings)
    checks = run_checks(loaded, bank, with_connect_timeout(database or loaded.database.url), settings)
    print_result(checks, json, lambda: print_checks(checks))
    if has_failures(checks):
        raise typer.Exit(EXIT_PROBLEMS_FOUND)
