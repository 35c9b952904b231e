"""Commands about the desk: alerts, thresholds, suppressions, what is told elsewhere, what is kept, who may, notices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fingerprint.core import settings as settings_
from fingerprint.core.account import Role
from fingerprint.core.alert import Decision
from pipelines.cli.options import BankFolder, DatabaseUrl, Json, SettingsFile, print_result

alerts_app = typer.Typer(help="The analysts' queue: what was forwarded, and why.")
feed_gaps_app = typer.Typer(help="Accounts, regions and sources from which nothing comes any more.")
deliveries_app = typer.Typer(help="What was told elsewhere, and what could not be.")
accounts_app = typer.Typer(
    help="Who may log in at the desk: for a first admin, and for one who is locked out."
)
thresholds_app = typer.Typer(help="What events are held to: seen, foreseen as alerts a day, chosen.")
suppressions_app = typer.Typer(help="Alerts that need not be read: whose, why, until when.")
database_app = typer.Typer(help="What the desk keeps, and what it no longer does.")


@alerts_app.command("list")
def alerts_list(desk: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """The queue, most urgent first."""
    from pipelines.commands.alerts import list_alerts

    list_alerts(desk or settings_.load_settings(settings).desk.url, json)


@alerts_app.command("show")
def alerts_show(
    alert_id: Annotated[str, typer.Argument(help="The alert's id, or the beginning of it.")],
    desk: DatabaseUrl = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the alert as an HTML page.", show_default=False)
    ] = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """One alert explained: what drove it, how active the principal was, what to do next.

    Where the folder of the bank still has the version that measured it: also whose threshold was moved by what analysts said.
    """
    from pipelines.commands.alerts import show_alert

    options = settings_.load_settings(settings)
    show_alert(desk or options.desk.url, alert_id, json, page, bank, options)


@alerts_app.command("triage")
def alerts_triage(
    alert_id: Annotated[str, typer.Argument(help="The alert's id, or the beginning of it.")],
    decision: Annotated[Decision, typer.Argument(help="What it was.", show_default=False)],
    why: Annotated[str, typer.Option("--why", help="The reason, for whoever reads it later.")] = "",
    of: Annotated[
        str | None,
        typer.Option("--of", metavar="ALERT_ID", help="What it is a duplicate of.", show_default=False),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="Who says so.", show_default="the name of the login")
    ] = None,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Say what an alert was: `fingerprint alerts triage 397edb7b benign --why "a new laptop"`.

    The next training learns what was benign or a false positive, and never what was a true positive. What is said last
    counts; an alert that grows afterwards is open again.
    """
    from pipelines.commands.triage import print_disposition, triage_alert

    figures = triage_alert(
        desk or settings_.load_settings(settings).desk.url, alert_id, decision, why, of, by
    )
    print_result(figures, json, lambda: print_disposition(figures))


@alerts_app.command("export")
def alerts_export(
    format: Annotated[
        Literal["csv", "jsonl", "ecs", "ocsf"],
        typer.Option("--format", help="A row, or a line of JSON, an alert."),
    ] = "jsonl",
    out: Annotated[
        Path | None,
        typer.Option(help="The file; it appears when it is complete.", show_default="standard output"),
    ] = None,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
) -> None:
    """Every alert for another system: `fingerprint alerts export --format ocsf --out findings.jsonl`.

    `csv` for spreadsheets, where no cell is a formula; `jsonl` with everything, raw records too; `ecs` (Elastic Common Schema)
    and `ocsf` (Detection Finding 2004) with the newest events and long texts cut.
    """
    from pipelines.commands.alerts import export_alerts

    written = export_alerts(desk or settings_.load_settings(settings).desk.url, format, out)
    if out:
        print(f"{written:,} alerts: {out}")


ReceiverName = Annotated[
    str, typer.Option("--receiver", help="Only this one's, by its name in the settings.", show_default=False)
]


@deliveries_app.command("list")
def deliveries_list(
    receiver: ReceiverName = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only what was given up.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 200,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What was told, what waits, and what was given up, with the reason."""
    from pipelines.commands.deliveries import list_deliveries, print_deliveries

    found = list_deliveries(desk or settings_.load_settings(settings).desk.url, receiver, failed, limit)
    print_result(found, json, lambda: print_deliveries(found))


@deliveries_app.command("retry")
def deliveries_retry(
    key: Annotated[
        str, typer.Argument(metavar="[KEY]", help="As `deliveries list --json` names it.", show_default="all")
    ] = "",
    receiver: ReceiverName = "",
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Try anew what was given up."""
    from pipelines.commands.deliveries import print_retry_summary, retry_deliveries

    figures = retry_deliveries(desk or settings_.load_settings(settings).desk.url, key, receiver)
    print_result(figures, json, lambda: print_retry_summary(figures))


AccountName = Annotated[str, typer.Argument(metavar="NAME", help="Of the account.", show_default=False)]


@accounts_app.command("list")
def accounts_list(desk: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Every account: its role, whether it can log in, and when it last did."""
    from pipelines.commands.accounts import list_accounts, print_accounts

    found = list_accounts(settings_.load_settings(settings), desk)
    print_result(found, json, lambda: print_accounts(found))


@accounts_app.command("add")
def accounts_add(
    name: AccountName,
    role: Annotated[Role, typer.Option(help="What they may.")] = "analyst",
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Make an account and print a link that sets its password, once: `fingerprint users add maria --role admin`."""
    from pipelines.commands.accounts import invite_account, print_invitation_link

    figures = invite_account(settings_.load_settings(settings), desk, name, role)
    print_result(figures, json, lambda: print_invitation_link(figures))


@accounts_app.command("invite")
def accounts_invite(
    name: AccountName, desk: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Print a link that sets a new password, once, for an account that is there."""
    from pipelines.commands.accounts import invite_account, print_invitation_link

    figures = invite_account(settings_.load_settings(settings), desk, name, None)
    print_result(figures, json, lambda: print_invitation_link(figures))


@accounts_app.command("role")
def accounts_role(
    name: AccountName,
    role: Annotated[Role, typer.Argument(help="What they may from now on.", show_default=False)],
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Give an account another role; its sessions end."""
    from pipelines.commands.accounts import change_role, print_accounts

    figures = change_role(settings_.load_settings(settings), desk, name, role)
    print_result(figures, json, lambda: print_accounts([figures]))


@accounts_app.command("disable")
def accounts_disable(
    name: AccountName,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """End an account's sessions, tokens and links at once. Its name stays taken."""
    from pipelines.commands.accounts import disable_account, print_accounts

    figures = disable_account(settings_.load_settings(settings), desk, name)
    print_result(figures, json, lambda: print_accounts([figures]))


@accounts_app.command("enable")
def accounts_enable(
    name: AccountName, desk: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Let a disabled account log in again; its tokens stay revoked."""
    from pipelines.commands.accounts import disable_account, print_accounts

    figures = disable_account(settings_.load_settings(settings), desk, name, enable=True)
    print_result(figures, json, lambda: print_accounts([figures]))


@accounts_app.command("end")
def accounts_end_sessions(
    name: AccountName, desk: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """End an account's sessions and tokens at once; it may log in again."""
    from pipelines.commands.accounts import end_sessions, print_accounts

    figures = end_sessions(settings_.load_settings(settings), desk, name)
    print_result(figures, json, lambda: print_accounts([figures]))


@accounts_app.command("reset-second-factor")
def accounts_reset_second_factor(
    name: AccountName, desk: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Remove an account's second factors, which were lost; its sessions end."""
    from pipelines.commands.accounts import print_accounts, reset_second_factor

    figures = reset_second_factor(settings_.load_settings(settings), desk, name)
    print_result(figures, json, lambda: print_accounts([figures]))


@thresholds_app.command("show")
def threshold_show(desk: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """What events are held to now, and who chose what."""
    from pipelines.commands import thresholds as threshold

    loaded = settings_.load_settings(settings)
    figures = threshold.show_threshold(desk or loaded.desk.url, loaded)
    print_result(figures, json, lambda: threshold.print_threshold(figures))


@thresholds_app.command("foresee")
def threshold_estimate(
    bank: BankFolder = Path("bank"),
    desk: DatabaseUrl = None,
    days: Annotated[float, typer.Option(help="Of the desk's history that are asked.")] = 14.0,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """For 1 to 50 alerts a day: the threshold that shows them, and what it finds.

    By the single votes of the last days on the desk. *Confirmed attacks* are alerts that analysts called true positives, *known
    attacks* are labelled attack calls in the hands of the bank's own principals.
    """
    from pipelines.commands import thresholds as threshold

    loaded = settings_.load_settings(settings)
    rows = threshold.estimate_thresholds(desk or loaded.desk.url, bank, loaded, days)
    print_result(rows, json, lambda: threshold.print_threshold_estimates(rows))


@thresholds_app.command("set")
def threshold_set(
    why: Annotated[str, typer.Option(help="Whoever looks at it next wants to know.")],
    threshold: Annotated[
        float | None, typer.Option(help="A z of the autoencoder.", show_default="as the settings say")
    ] = None,
    quorum: Annotated[
        int | None, typer.Option(help="Votes that make a verdict.", show_default="as the settings say")
    ] = None,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Hold events to a threshold and a quorum from now on, whatever the settings files say.

    Streams take it within a snapshot's time, `score` from its next run on. Without `--threshold` and `--quorum` what the
    settings say holds again.
    """
    from pipelines.commands import thresholds as chosen

    loaded = settings_.load_settings(settings)
    figures = chosen.set_threshold(desk or loaded.desk.url, loaded, why, threshold, quorum)
    print_result(figures, json, lambda: chosen.print_threshold(figures))


def _match_option(name: str, help: str) -> Any:
    return typer.Option(name, help=help, show_default=False)


MatchPrincipal = Annotated[str, _match_option("--principal", "Alerts of this principal, by its whole name.")]

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


@suppressions_app.command("list")
def suppressions_list(
    ended: Annotated[bool, typer.Option("--ended", help="Those that are over, too.")] = False,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What is hidden, why, at whose word and until when; how many alerts that were."""
    from pipelines.commands.suppressions import list_suppressions, print_suppressions

    found = list_suppressions(desk or settings_.load_settings(settings).desk.url, ended)
    print_result(found, json, lambda: print_suppressions(found))


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
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What a suppression would hide of the alerts there are: `fingerprint suppressions preview --service glue`.

    All that is said must hold, for every event of an alert, letter by letter.
    """
    from fingerprint.core.case import SuppressionMatch
    from pipelines.commands.suppressions import preview_suppression, print_preview

    match = SuppressionMatch(principal, human, account, service, action, network, user_agent, error_code)
    figures = preview_suppression(desk or settings_.load_settings(settings).desk.url, match)
    print_result(figures, json, lambda: print_preview(figures))


@suppressions_app.command("add")
def suppressions_add(
    why: Annotated[str, typer.Option("--why", help="The reason, for whoever reads it later.")],
    principal: MatchPrincipal = "",
    human: MatchHuman = "",
    account: MatchAccount = "",
    service: MatchService = "",
    action: MatchAction = "",
    network: MatchNetwork = "",
    user_agent: MatchUserAgent = "",
    error_code: MatchErrorCode = "",
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="When it ends, UTC: 2026-06-01.", show_default=False),
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="Instead: in so many days, 366 at most.", show_default="30")
    ] = None,
    force: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Hide confirmed attacks and critical alerts, too; the reason is recorded.",
            show_default=False,
        ),
    ] = None,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Hide alerts that need not be read: `... add --principal 111122223333:role/etl --service glue --why "the move" --days 14`.

    An alert is hidden while every event of it is as said; one event that is different shows it. Single votes are never hidden,
    nor are confirmed attacks and critical alerts without --force. What an attacker writes (human, user agent, error code) needs
    a principal beside it, or a network and an account. `preview` with the same options says first what it would hide.
    """
    from fingerprint.core.case import SuppressionMatch
    from pipelines.commands.suppressions import add_suppression, print_added_suppression

    match = SuppressionMatch(principal, human, account, service, action, network, user_agent, error_code)
    figures = add_suppression(
        desk or settings_.load_settings(settings).desk.url, match, why, until, days, force
    )
    print_result(figures, json, lambda: print_added_suppression(figures))


@suppressions_app.command("end")
def suppressions_end(
    suppression_id: Annotated[str, typer.Argument(metavar="SUPPRESSION", help="As `list` names it.")],
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """End a suppression: what it hid is seen again."""
    from pipelines.commands.suppressions import end_suppression, print_ended_suppression

    figures = end_suppression(desk or settings_.load_settings(settings).desk.url, suppression_id)
    print_result(figures, json, lambda: print_ended_suppression(figures))


@database_app.command("prune")
def database_prune(desk: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Remove what is older than the settings keep it: `retention.raw_days`, `votes_days`, `alerts_days`; 0 is for ever.

    Alerts that are open stay. `fingerprint serve` does this every day; nobody who writes waits long for it.
    """
    from pipelines.cli import console
    from pipelines.commands.retention import print_prune_summary, prune_database

    loaded = settings_.load_settings(settings)
    with console.progress_bars(not json) as progress:
        figures = prune_database(desk or loaded.desk.url, loaded.retention, progress)
    print_result(figures, json, lambda: print_prune_summary(figures))


@database_app.command("purge")
def database_purge(
    principal: Annotated[str, typer.Argument(help="Its whole name: `111122223333:user/maria`.")],
    yes: Annotated[bool, typer.Option("--yes", help="It cannot be undone.")] = False,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Remove all that the desk holds of one principal: alerts, events, votes, notes, dispositions, suppressions by its name.

    The audit keeps that it was done, with a digest in place of the name. What lies elsewhere is named, not reached.
    """
    from pipelines.commands.retention import print_purge_summary, purge_principal

    figures = purge_principal(desk or settings_.load_settings(settings).desk.url, principal, yes)
    print_result(figures, json, lambda: print_purge_summary(figures))


@feed_gaps_app.command("list")
def feed_gaps_list(
    desk: DatabaseUrl = None,
    still_open: Annotated[bool, typer.Option("--open", help="Only those that have not ended.")] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Feeds that fell silent although much was expected of them: an attacker's first move is to stop the log."""
    from pipelines.commands.feed_gaps import list_feed_gaps, print_feed_gaps

    found = list_feed_gaps(desk or settings_.load_settings(settings).desk.url, not still_open)
    print_result(found, json, lambda: print_feed_gaps(found))
