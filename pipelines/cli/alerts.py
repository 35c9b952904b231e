"""Commands about the desk: alerts, thresholds, suppressions, what is told elsewhere, what is kept, who may, notices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fingerprint.core import settings as settings_
from fingerprint.core.account import Role
from fingerprint.core.alert import Decision
from pipelines.cli.options import BankFolder, DeskUrl, Json, SettingsFile, printed

alerts = typer.Typer(help="The analysts' queue: what was forwarded, and why.")
notices = typer.Typer(help="Accounts, regions and sources from which nothing comes any more.")
deliveries = typer.Typer(help="What was told elsewhere, and what could not be.")
users = typer.Typer(help="Who may log in at the desk: for a first admin, and for one who is locked out.")
thresholds = typer.Typer(help="What events are held to: seen, foreseen as alerts a day, chosen.")
suppressions = typer.Typer(help="Alerts that need not be read: whose, why, until when.")
tidy = typer.Typer(help="What the desk keeps, and what it no longer does.")


@alerts.command("list")
def alerts_list(desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """The queue, most urgent first."""
    from pipelines.commands.alerts import list_alerts

    list_alerts(desk or settings_.load(settings).desk.url, json)


@alerts.command("show")
def alerts_show(
    alert_id: Annotated[str, typer.Argument(help="The alert's id, or the beginning of it.")],
    desk: DeskUrl = None,
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

    options = settings_.load(settings)
    show_alert(desk or options.desk.url, alert_id, json, page, bank, options)


@alerts.command("triage")
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
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Say what an alert was: `fingerprint alerts triage 397edb7b benign --why "a new laptop"`.

    The next training learns what was benign or a false positive, and never what was a true positive. What is said last
    counts; an alert that grows afterwards is open again.
    """
    from pipelines.commands.triage import print_triaged, triage_alert

    figures = triage_alert(desk or settings_.load(settings).desk.url, alert_id, decision, why, of, by)
    printed(figures, json, lambda: print_triaged(figures))


@alerts.command("export")
def alerts_export(
    format: Annotated[
        Literal["csv", "jsonl", "ecs", "ocsf"],
        typer.Option("--format", help="A row, or a line of JSON, an alert."),
    ] = "jsonl",
    out: Annotated[
        Path | None,
        typer.Option(help="The file; it appears when it is complete.", show_default="standard output"),
    ] = None,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
) -> None:
    """Every alert for another system: `fingerprint alerts export --format ocsf --out findings.jsonl`.

    `csv` for spreadsheets, where no cell is a formula; `jsonl` with everything, raw records too; `ecs` (Elastic Common Schema)
    and `ocsf` (Detection Finding 2004) with the newest events and long texts cut.
    """
    from pipelines.commands.export import export_alerts

    written = export_alerts(desk or settings_.load(settings).desk.url, format, out)
    if out:
        print(f"{written:,} alerts: {out}")


ReceiverName = Annotated[
    str, typer.Option("--receiver", help="Only this one's, by its name in the settings.", show_default=False)
]


@deliveries.command("list")
def deliveries_list(
    receiver: ReceiverName = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only what was given up.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 200,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What was told, what waits, and what was given up, with the reason."""
    from pipelines.commands.deliveries import print_list, run_list

    found = run_list(desk or settings_.load(settings).desk.url, receiver, failed, limit)
    printed(found, json, lambda: print_list(found))


@deliveries.command("retry")
def deliveries_retry(
    key: Annotated[
        str, typer.Argument(metavar="[KEY]", help="As `deliveries list --json` names it.", show_default="all")
    ] = "",
    receiver: ReceiverName = "",
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Try anew what was given up."""
    from pipelines.commands.deliveries import print_retried, run_retry

    figures = run_retry(desk or settings_.load(settings).desk.url, key, receiver)
    printed(figures, json, lambda: print_retried(figures))


Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the account.", show_default=False)]


@users.command("list")
def users_list(desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Every account: its role, whether it can log in, and when it last did."""
    from pipelines.commands.accounts import print_persons, run_list

    found = run_list(settings_.load(settings), desk)
    printed(found, json, lambda: print_persons(found))


@users.command("add")
def users_add(
    name: Name,
    role: Annotated[Role, typer.Option(help="What they may.")] = "analyst",
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Make an account and print a link that sets its password, once: `fingerprint users add maria --role admin`."""
    from pipelines.commands.accounts import print_link, run_invite

    figures = run_invite(settings_.load(settings), desk, name, role)
    printed(figures, json, lambda: print_link(figures))


@users.command("invite")
def users_invite(name: Name, desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Print a link that sets a new password, once, for an account that is there."""
    from pipelines.commands.accounts import print_link, run_invite

    figures = run_invite(settings_.load(settings), desk, name, None)
    printed(figures, json, lambda: print_link(figures))


@users.command("role")
def users_role(
    name: Name,
    role: Annotated[Role, typer.Argument(help="What they may from now on.", show_default=False)],
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Give an account another role; its sessions end."""
    from pipelines.commands.accounts import print_persons, run_role

    figures = run_role(settings_.load(settings), desk, name, role)
    printed(figures, json, lambda: print_persons([figures]))


@users.command("disable")
def users_disable(
    name: Name,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """End an account's sessions, tokens and links at once. Its name stays taken."""
    from pipelines.commands.accounts import print_persons, run_disable

    figures = run_disable(settings_.load(settings), desk, name)
    printed(figures, json, lambda: print_persons([figures]))


@users.command("enable")
def users_enable(name: Name, desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Let a disabled account log in again; its tokens stay revoked."""
    from pipelines.commands.accounts import print_persons, run_disable

    figures = run_disable(settings_.load(settings), desk, name, again=True)
    printed(figures, json, lambda: print_persons([figures]))


@users.command("end")
def users_end(name: Name, desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """End an account's sessions and tokens at once; it may log in again."""
    from pipelines.commands.accounts import print_persons, run_end

    figures = run_end(settings_.load(settings), desk, name)
    printed(figures, json, lambda: print_persons([figures]))


@users.command("reset-second-factor")
def users_reset_second_factor(
    name: Name, desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Remove an account's second factors, which were lost; its sessions end."""
    from pipelines.commands.accounts import print_persons, run_reset_second_factor

    figures = run_reset_second_factor(settings_.load(settings), desk, name)
    printed(figures, json, lambda: print_persons([figures]))


@thresholds.command("show")
def threshold_show(desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """What events are held to now, and who chose what."""
    from pipelines.commands import thresholds as threshold

    loaded = settings_.load(settings)
    figures = threshold.show(desk or loaded.desk.url, loaded)
    printed(figures, json, lambda: threshold.print_shown(figures))


@thresholds.command("foresee")
def threshold_foresee(
    bank: BankFolder = Path("bank"),
    desk: DeskUrl = None,
    days: Annotated[float, typer.Option(help="Of the desk's history that are asked.")] = 14.0,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """For 1 to 50 alerts a day: the threshold that shows them, and what it finds.

    By the single votes of the last days on the desk. *Confirmed attacks* are alerts that analysts called true positives, *known
    attacks* are labelled attack calls in the hands of the bank's own principals.
    """
    from pipelines.commands import thresholds as threshold

    loaded = settings_.load(settings)
    rows = threshold.foresee(desk or loaded.desk.url, bank, loaded, days)
    printed(rows, json, lambda: threshold.print_foreseen(rows))


@thresholds.command("set")
def threshold_set(
    why: Annotated[str, typer.Option(help="Whoever looks at it next wants to know.")],
    threshold: Annotated[
        float | None, typer.Option(help="A z of the autoencoder.", show_default="as the settings say")
    ] = None,
    quorum: Annotated[
        int | None, typer.Option(help="Votes that make a verdict.", show_default="as the settings say")
    ] = None,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Hold events to a threshold and a quorum from now on, whatever the settings files say.

    Streams take it within a snapshot's time, `score` from its next run on. Without `--threshold` and `--quorum` what the
    settings say holds again.
    """
    from pipelines.commands import thresholds as chosen

    loaded = settings_.load(settings)
    figures = chosen.choose(desk or loaded.desk.url, loaded, why, threshold, quorum)
    printed(figures, json, lambda: chosen.print_shown(figures))


def _option(name: str, help: str) -> Any:
    return typer.Option(name, help=help, show_default=False)


OfPrincipal = Annotated[str, _option("--principal", "Alerts of this principal, by its whole name.")]

OfHuman = Annotated[str, _option("--human", "... of this human behind the session.")]

OfAccount = Annotated[str, _option("--account", "... whose calls all were in this account.")]

OfService = Annotated[str, _option("--service", "... whose events all are of this service: `glue`.")]

OfAction = Annotated[str, _option("--action", "... all call this: `glue:StartJobRun`, or `StartJobRun`.")]

OfNetwork = Annotated[str, _option("--network", "... all come from here: `10.3.0.0/16`, or an address.")]

OfAgent = Annotated[str, _option("--user-agent", "... all have a user agent that begins like this.")]

OfError = Annotated[str, _option("--error-code", "... all failed like this: `AccessDenied`.")]


@suppressions.command("list")
def suppressions_list(
    ended: Annotated[bool, typer.Option("--ended", help="Those that are over, too.")] = False,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What is hidden, why, at whose word and until when; how many alerts that were."""
    from pipelines.commands.suppressions import print_list, run_list

    found = run_list(desk or settings_.load(settings).desk.url, ended)
    printed(found, json, lambda: print_list(found))


@suppressions.command("preview")
def suppressions_preview(
    principal: OfPrincipal = "",
    human: OfHuman = "",
    account: OfAccount = "",
    service: OfService = "",
    action: OfAction = "",
    network: OfNetwork = "",
    user_agent: OfAgent = "",
    error_code: OfError = "",
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """What a suppression would hide of the alerts there are: `fingerprint suppressions preview --service glue`.

    All that is said must hold, for every event of an alert, letter by letter.
    """
    from fingerprint.core.case import Match
    from pipelines.commands.suppressions import print_preview, run_preview

    match = Match(principal, human, account, service, action, network, user_agent, error_code)
    figures = run_preview(desk or settings_.load(settings).desk.url, match)
    printed(figures, json, lambda: print_preview(figures))


@suppressions.command("add")
def suppressions_add(
    why: Annotated[str, typer.Option("--why", help="The reason, for whoever reads it later.")],
    principal: OfPrincipal = "",
    human: OfHuman = "",
    account: OfAccount = "",
    service: OfService = "",
    action: OfAction = "",
    network: OfNetwork = "",
    user_agent: OfAgent = "",
    error_code: OfError = "",
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
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Hide alerts that need not be read: `... add --principal 111122223333:role/etl --service glue --why "the move" --days 14`.

    An alert is hidden while every event of it is as said; one event that is different shows it. Single votes are never hidden,
    nor are confirmed attacks and critical alerts without --force. What an attacker writes (human, user agent, error code) needs
    a principal beside it, or a network and an account. `preview` with the same options says first what it would hide.
    """
    from fingerprint.core.case import Match
    from pipelines.commands.suppressions import print_added, run_add

    match = Match(principal, human, account, service, action, network, user_agent, error_code)
    figures = run_add(desk or settings_.load(settings).desk.url, match, why, until, days, force)
    printed(figures, json, lambda: print_added(figures))


@suppressions.command("end")
def suppressions_end(
    suppression_id: Annotated[str, typer.Argument(metavar="SUPPRESSION", help="As `list` names it.")],
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """End a suppression: what it hid is seen again."""
    from pipelines.commands.suppressions import print_ended, run_end

    figures = run_end(desk or settings_.load(settings).desk.url, suppression_id)
    printed(figures, json, lambda: print_ended(figures))


@tidy.command("prune")
def desk_prune(desk: DeskUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Remove what is older than the settings keep it: `retention.raw_days`, `votes_days`, `alerts_days`; 0 is for ever.

    Alerts that are open stay. `fingerprint serve` does this every day; nobody who writes waits long for it.
    """
    from pipelines.cli import console
    from pipelines.commands.retention import print_pruned, run_prune

    loaded = settings_.load(settings)
    with console.progress(not json) as progress:
        figures = run_prune(desk or loaded.desk.url, loaded.retention, progress)
    printed(figures, json, lambda: print_pruned(figures))


@tidy.command("purge")
def desk_purge(
    principal: Annotated[str, typer.Argument(help="Its whole name: `111122223333:user/maria`.")],
    yes: Annotated[bool, typer.Option("--yes", help="It cannot be undone.")] = False,
    desk: DeskUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Remove all that the desk holds of one principal: alerts, events, votes, notes, dispositions, suppressions by its name.

    The audit keeps that it was done, with a digest in place of the name. What lies elsewhere is named, not reached.
    """
    from pipelines.commands.retention import print_purged, run_purge

    figures = run_purge(desk or settings_.load(settings).desk.url, principal, yes)
    printed(figures, json, lambda: print_purged(figures))


@notices.command("list")
def notices_list(
    desk: DeskUrl = None,
    still_open: Annotated[bool, typer.Option("--open", help="Only those that have not ended.")] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Feeds that fell silent although much was expected of them: an attacker's first move is to stop the log."""
    from pipelines.commands.feed_gaps import print_notices, run_list

    found = run_list(desk or settings_.load(settings).desk.url, not still_open)
    printed(found, json, lambda: print_notices(found))
