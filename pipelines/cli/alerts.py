"""Commands about alerts: the queue, one alert explained, triage, assignment, notes, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fingerprint.core.alert import Decision
from fingerprint.core.case import CaseStatus
from pipelines.cli.common import database_url, load_settings, print_result
from pipelines.cli.options import BankFolder, DatabaseUrl, Json, SettingsFile, Why

alerts_app = typer.Typer(help="The alert queue: list, explain, triage, assign, export.")


StatusFilter = Annotated[
    CaseStatus, typer.Option(help="Open alerts (new or in progress), closed ones, or all.")
]
LeastSeverity = Annotated[
    Literal["low", "medium", "high", "critical"] | None,
    typer.Option(help="The least severity: `high` lists critical alerts too.", show_default=False),
]
PrincipalFilter = Annotated[
    str, typer.Option(help="Alerts of this principal, by its full name.", show_default=False)
]
QueryFilter = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="QUERY",
        help="A query such as 'action:StopLogging -principal:ci-*'.",
        show_default=False,
    ),
]
SinceFilter = Annotated[
    str | None,
    typer.Option(
        metavar="DATE|AGE",
        help="Alerts with an event at this time or later: 2026-01-31 (UTC), 24h, 7d.",
        show_default=False,
    ),
]
AlertLimit = Annotated[
    int | None,
    typer.Option(min=1, max=1_000_000, help="The most urgent alerts, so many.", show_default="all"),
]
OutputFormat = Annotated[
    Literal["table", "wide", "json", "csv", "id"], typer.Option("--output", "-o", help="The format.")
]
JsonOutput = Annotated[bool, typer.Option("--json", help="The same as -o json.")]


@alerts_app.command("list")
def alerts_list(
    status: StatusFilter = "all",
    severity: LeastSeverity = None,
    principal: PrincipalFilter = "",
    since: SinceFilter = None,
    where: QueryFilter = "",
    limit: AlertLimit = None,
    output: OutputFormat = "table",
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: JsonOutput = False,
) -> None:
    """List the queue, most urgent first: `fingerprint alerts list --status open --severity high --since 7d`.

    `--where` is what the queue's search field takes: `--where 'action:StopLogging -principal:ci-*'`. `-o id` prints ids alone,
    for `xargs`; JSON has suppressed alerts too, marked as such.
    """
    from pipelines.commands.alerts import list_alerts, queue_filter

    which = queue_filter(status, severity, principal, since, where)
    list_alerts(database_url(database, settings), "json" if json else output, which, limit)


LeadsSince = Annotated[
    str | None,
    typer.Option(
        metavar="DATE|AGE",
        help="Votes on events at this time or later: 2026-01-31 (UTC), 24h, 7d.",
        show_default="the last 7 days with votes",
    ),
]
LeadLimit = Annotated[int, typer.Option(min=1, max=100, help="The nearest leads, so many.")]
ThresholdBank = Annotated[
    Path | None,
    typer.Option(
        "--bank", help="The bank that says which threshold the alert budget sets.", show_default=False
    ),
]


@alerts_app.command("leads")
def alerts_leads(
    since: LeadsSince = None,
    limit: LeadLimit = 20,
    bank: ThresholdBank = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """List what came near to an alert, for when the queue is empty: `fingerprint alerts leads --since 7d --limit 20`.

    A lead is what a lower threshold would have shown next: events of one principal with the votes of a verdict. Its reach is the
    highest threshold at which it would have been an alert. Decide alerts first: a lead is more often harmless, and it is sent to
    no one.
    """
    from pipelines.commands.leads import list_leads, print_leads

    figures = list_leads(database_url(database, settings), load_settings(settings), since, limit, bank)
    print_result(figures, json, lambda: print_leads(figures))


AlertId = Annotated[str, typer.Argument(metavar="ALERT_ID", help="The id of the alert, or its beginning.")]
HtmlPage = Annotated[Path | None, typer.Option(help="Write the alert as an HTML page.", show_default=False)]


@alerts_app.command("show")
def alerts_show(
    alert_id: AlertId,
    database: DatabaseUrl = None,
    page: HtmlPage = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Explain one alert: what drove it, how active the principal was, what to do next.

    If the bank folder still has the version that scored it: also which thresholds were adjusted by dispositions.
    """
    from pipelines.commands.alert_details import show_alert

    show_alert(database_url(database, settings), alert_id, json, page, bank, load_settings(settings))


By = Annotated[str | None, typer.Option("--by", help="The author.", show_default="the name of the login")]
DispositionArgument = Annotated[Decision, typer.Argument(help="The disposition.", show_default=False)]
DuplicateOf = Annotated[
    str | None,
    typer.Option("--of", metavar="ALERT_ID", help="The alert that it duplicates.", show_default=False),
]


@alerts_app.command("triage")
def alerts_triage(
    alert_id: AlertId,
    decision: DispositionArgument,
    why: Why = "",
    of: DuplicateOf = None,
    by: By = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Set the disposition of an alert: `fingerprint alerts triage 397edb7b benign --why "a new laptop"`.

    The next training learns events that were benign or false positives, and never those of true positives. The last disposition
    counts; an alert that grows afterwards is open again.
    """
    from pipelines.commands.triage import print_disposition, triage_alert

    figures = triage_alert(database_url(database, settings), alert_id, decision, why, of, by)
    print_result(figures, json, lambda: print_disposition(figures))


Assignee = Annotated[str, typer.Argument(metavar="[ACCOUNT]", help="The account.", show_default="unassigned")]


@alerts_app.command("assign")
def alerts_assign(
    alert_id: AlertId,
    assignee: Assignee = "",
    by: By = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Assign an alert to an account, or to no one: `fingerprint alerts assign 397edb7b maria`."""
    from pipelines.commands.triage import assign_alert, print_case

    figures = assign_alert(database_url(database, settings), alert_id, assignee, by)
    print_result(figures, json, lambda: print_case(figures))


NoteText = Annotated[str, typer.Argument(metavar="TEXT", help="The note, in quotes.", show_default=False)]


@alerts_app.command("note")
def alerts_note(
    alert_id: AlertId,
    text: NoteText,
    by: By = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Add a note to an alert: `fingerprint alerts note 397edb7b "asked maria"`."""
    from pipelines.commands.triage import add_note, print_note

    figures = add_note(database_url(database, settings), alert_id, text, by)
    print_result(figures, json, lambda: print_note(figures))


@alerts_app.command("reopen")
def alerts_reopen(
    alert_id: AlertId,
    why: Why = "",
    by: By = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Reopen an alert that was closed by a disposition."""
    from pipelines.commands.triage import print_case, reopen_alert

    figures = reopen_alert(database_url(database, settings), alert_id, why, by)
    print_result(figures, json, lambda: print_case(figures))


ExportFormat = Annotated[
    Literal["csv", "jsonl", "ecs", "ocsf"],
    typer.Option("--format", help="One row, or one line of JSON, for each alert."),
]
ExportFile = Annotated[
    Path | None,
    typer.Option(help="The file; it appears when it is complete.", show_default="standard output"),
]


@alerts_app.command("export")
def alerts_export(
    format: ExportFormat = "jsonl",
    out: ExportFile = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
) -> None:
    """Export every alert for another system: `fingerprint alerts export --format ocsf --out findings.jsonl`.

    `csv` is for spreadsheets, where no cell is a formula; `jsonl` has everything, raw records too; `ecs` (Elastic Common Schema)
    and `ocsf` (Detection Finding 2004) have the newest events and truncate long texts.
    """
    from fingerprint.adapters.address_tables import open_address_tables
    from pipelines.commands.alert_export import export_alerts

    addresses = open_address_tables(load_settings(settings).enrichment)
    written = export_alerts(database_url(database, settings), format, out, addresses)
    if out:
        print(f"{written:,} alerts: {out}")
