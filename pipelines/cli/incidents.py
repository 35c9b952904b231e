"""Commands about incidents, and the figures for a lead."""

from __future__ import annotations

from typing import Annotated

import typer

from fingerprint.core.incident import IncidentStatusFilter
from pipelines.cli.common import database_url, print_result
from pipelines.cli.options import DatabaseUrl, Json, SettingsFile

incidents_app = typer.Typer(help="Incidents: alerts that belong together, and how long they take.")


IncidentStatusOption = Annotated[
    IncidentStatusFilter, typer.Option(help="Open incidents (new or in progress), closed ones, or all.")
]
IncidentLimit = Annotated[int, typer.Option(min=1, max=500, help="At most this many.")]


@incidents_app.command("list")
def incidents_list(
    status: IncidentStatusOption = "open",
    limit: IncidentLimit = 50,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """List incidents, the gravest first: `fingerprint incidents list --status new`."""
    from pipelines.commands.incidents import list_incidents, print_incidents

    found = list_incidents(database_url(database, settings), status, limit)
    print_result(found, json, lambda: print_incidents(found))


IncidentId = Annotated[
    str, typer.Argument(metavar="ALERT_ID", help="The id of any alert of the incident, or its beginning.")
]


@incidents_app.command("show")
def incidents_show(
    alert_id: IncidentId, database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Show one incident: its alerts in the order of time, and why each belongs to it."""
    from pipelines.commands.incidents import print_incident, show_incident

    found = show_incident(database_url(database, settings), alert_id)
    print_result(found, json, lambda: print_incident(found))


OverviewDays = Annotated[
    int, typer.Option(min=1, max=366, help="Alerts that came in the last days, however old their events are.")
]


@incidents_app.command("overview")
def incidents_overview(
    days: OverviewDays = 28, database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Print what came, what was decided, how long it took, and how often alerts were attacks."""
    from pipelines.commands.incidents import print_overview, read_overview

    found = read_overview(database_url(database, settings), days)
    print_result(found, json, lambda: print_overview(found))
