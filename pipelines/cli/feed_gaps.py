"""Commands about feed gaps."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import database_url, print_result
from pipelines.cli.options import DatabaseUrl, Json, SettingsFile

feed_gaps_app = typer.Typer(help="Accounts, regions and partitions whose logs stopped arriving.")


OnlyOpen = Annotated[bool, typer.Option("--open", help="Only gaps that have not ended.")]


@feed_gaps_app.command("list")
def feed_gaps_list(
    database: DatabaseUrl = None,
    still_open: OnlyOpen = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """List feeds that stopped although many events were expected: attackers often stop the log first."""
    from pipelines.commands.feed_gaps import list_feed_gaps, print_feed_gaps

    found = list_feed_gaps(database_url(database, settings), not still_open)
    print_result(found, json, lambda: print_feed_gaps(found))
