"""Commands about deliveries of alerts to receivers."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import database_url, print_result
from pipelines.cli.options import DatabaseUrl, Json, SettingsFile

deliveries_app = typer.Typer(help="Deliveries of alerts to receivers: sent, waiting, failed.")


ReceiverName = Annotated[
    str,
    typer.Option("--receiver", help="Only this receiver, by its name in the settings.", show_default=False),
]
OnlyFailed = Annotated[bool, typer.Option("--failed", help="Only failed deliveries.")]
DeliveryLimit = Annotated[
    int, typer.Option(min=1, max=1_000_000, help="The number of deliveries, newest first.")
]


@deliveries_app.command("list")
def deliveries_list(
    receiver: ReceiverName = "",
    failed: OnlyFailed = False,
    limit: DeliveryLimit = 200,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """List deliveries that were sent, wait or failed, with the reason."""
    from pipelines.commands.deliveries import list_deliveries, print_deliveries

    found = list_deliveries(database_url(database, settings), receiver, failed, limit)
    print_result(found, json, lambda: print_deliveries(found))


DeliveryKey = Annotated[
    str, typer.Argument(metavar="[KEY]", help="As `deliveries list --json` names it.", show_default="all")
]


@deliveries_app.command("retry")
def deliveries_retry(
    key: DeliveryKey = "",
    receiver: ReceiverName = "",
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Retry failed deliveries: one by its key, those of a receiver, or all."""
    from pipelines.commands.deliveries import print_retry_summary, retry_deliveries

    figures = retry_deliveries(database_url(database, settings), key, receiver)
    print_result(figures, json, lambda: print_retry_summary(figures))
