"""Commands about the database: retention and the removal of a principal."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import database_url, load_settings, print_result
from pipelines.cli.options import DatabaseUrl, Json, SettingsFile

database_app = typer.Typer(help="Retention of the database, and removal of a principal.")


@database_app.command("prune")
def database_prune(database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Remove what is older than the settings keep: `retention.record_days`, `vote_days`, `closed_alert_days`; 0 keeps for ever.

    Open alerts stay. `fingerprint serve` does this every day; writers do not wait long for it.
    """
    from pipelines.cli import console
    from pipelines.commands.retention import print_prune_summary, prune_database

    loaded = load_settings(settings)
    with console.progress_bars(not json) as progress:
        figures = prune_database(database_url(database, settings), loaded.retention, progress)
    print_result(figures, json, lambda: print_prune_summary(figures))


PurgedPrincipal = Annotated[str, typer.Argument(help="The full name: `111122223333:user/maria`.")]
Confirmed = Annotated[bool, typer.Option("--yes", help="Confirm: it cannot be undone.")]


@database_app.command("purge")
def database_purge(
    principal: PurgedPrincipal,
    yes: Confirmed = False,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Remove everything about one principal: alerts, events, votes, notes, dispositions, suppressions by its name.

    The audit log keeps the removal, with a digest in place of the name. Copies outside the database are named, not removed.
    """
    from pipelines.commands.retention import print_purge_summary, purge_principal

    figures = purge_principal(database_url(database, settings), principal, yes)
    print_result(figures, json, lambda: print_purge_summary(figures))
