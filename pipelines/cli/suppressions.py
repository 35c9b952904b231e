"""Commands about suppressions: alerts that are hidden, by rules with a reason and an end."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipelines.cli.common import database_url, print_result
from pipelines.cli.options import DatabaseUrl, Json, SettingsFile, Why

suppressions_app = typer.Typer(help="Rules that hide alerts, with a reason and an end.")


def _match_option(name: str, help: str) -> Any:
    return typer.Option(name, help=help, show_default=False)


WithEnded = Annotated[bool, typer.Option("--ended", help="Ended ones too.")]


@suppressions_app.command("list")
def suppressions_list(
    ended: WithEnded = False,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """List suppressions: what they hide, why, who added them, until when, and how many alerts they hid."""
    from pipelines.commands.suppressions import list_suppressions, print_suppressions

    found = list_suppressions(database_url(database, settings), ended)
    print_result(found, json, lambda: print_suppressions(found))


MatchPrincipal = Annotated[
    str, _match_option("--principal", "Alerts of this principal, by its whole name: `111122223333:role/etl`.")
]
MatchHuman = Annotated[str, _match_option("--human", "... of this human behind the session.")]
MatchAccount = Annotated[str, _match_option("--account", "... whose calls all were in this account.")]
MatchService = Annotated[str, _match_option("--service", "... whose events all are of this service: `glue`.")]
MatchAction = Annotated[
    str, _match_option("--action", "... all call this: `glue:StartJobRun`, or `StartJobRun`.")
]
MatchNetwork = Annotated[
    str, _match_option("--network", "... all come from here: `10.3.0.0/16`, or an address.")
]
MatchUserAgent = Annotated[
    str, _match_option("--user-agent", "... all have a user agent that begins like this.")
]
MatchErrorCode = Annotated[str, _match_option("--error-code", "... all failed like this: `AccessDenied`.")]


@suppressions_app.command("preview")
def suppressions_preview(
    principal: MatchPrincipal = "",
    human: MatchHuman = "",
    account: MatchAccount = "",
    service: MatchService = "",
    action: MatchAction = "",
    network: MatchNetwork = "",
    user_agent: MatchUserAgent = "",
    error_code: MatchErrorCode = "",
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Show which alerts a suppression would hide: `fingerprint suppressions preview --service glue`.

    Every condition must hold for every event of an alert, letter by letter.
    """
    from fingerprint.core.case import SuppressionMatch
    from pipelines.commands.suppressions import preview_suppression, print_preview

    match = SuppressionMatch(principal, human, account, service, action, network, user_agent, error_code)
    figures = preview_suppression(database_url(database, settings), match)
    print_result(figures, json, lambda: print_preview(figures))


SuppressionEnd = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="When it ends, UTC: 2026-06-01.", show_default=False),
]
SuppressionDays = Annotated[
    float | None, typer.Option(help="Instead: in so many days, 366 at most.", show_default="30")
]
SuppressionForce = Annotated[
    str | None,
    typer.Option(
        metavar="REASON",
        help="Hide confirmed attacks and critical alerts too; the reason is recorded.",
        show_default=False,
    ),
]


@suppressions_app.command("add")
def suppressions_add(
    why: Why,
    principal: MatchPrincipal = "",
    human: MatchHuman = "",
    account: MatchAccount = "",
    service: MatchService = "",
    action: MatchAction = "",
    network: MatchNetwork = "",
    user_agent: MatchUserAgent = "",
    error_code: MatchErrorCode = "",
    until: SuppressionEnd = None,
    days: SuppressionDays = None,
    force: SuppressionForce = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Hide alerts that match: `... add --principal 111122223333:role/etl --service glue --why "the move" --days 14`.

    An alert is hidden while every event of it matches; one that does not match shows it again. Single votes are never hidden,
    nor are confirmed attacks and critical alerts without --force. What an attacker writes (human, user agent, error code) needs
    a principal beside it, or a network and an account. Try `preview` with the same options first.
    """
    from fingerprint.core.case import SuppressionMatch
    from pipelines.commands.suppressions import add_suppression, print_added_suppression

    match = SuppressionMatch(principal, human, account, service, action, network, user_agent, error_code)
    figures = add_suppression(database_url(database, settings), match, why, until, days, force)
    print_result(figures, json, lambda: print_added_suppression(figures))


SuppressionId = Annotated[str, typer.Argument(metavar="SUPPRESSION", help="The id that `list` shows.")]


@suppressions_app.command("end")
def suppressions_end(
    suppression_id: SuppressionId,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """End a suppression: the alerts it hid are shown again."""
    from pipelines.commands.suppressions import end_suppression, print_ended_suppression

    figures = end_suppression(database_url(database, settings), suppression_id)
    print_result(figures, json, lambda: print_ended_suppression(figures))
