"""The Typer application: the top-level commands and the groups of commands."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from importlib import metadata
from typing import Annotated

import typer
import typer.main

from fingerprint.core.extras import DISTRIBUTION
from pipelines.cli import (
    accounts,
    alerts,
    bank,
    config,
    database,
    deliveries,
    evaluate,
    feed_gaps,
    incidents,
    programs,
    secrets,
    services,
    suppressions,
    thresholds,
    topics,
)

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Finds stolen and misused cloud credentials by learning how each principal behaves.\n\n"
    "Start with `fingerprint demo`. With your own CloudTrail: `fingerprint train logs/ --bank bank`, then "
    "`fingerprint score today.json.gz --bank bank`, then `fingerprint alerts list`.",
)

COMMAND_GROUPS = {
    "alerts": alerts.alerts_app,
    "incidents": incidents.incidents_app,
    "suppressions": suppressions.suppressions_app,
    "thresholds": thresholds.thresholds_app,
    "deliveries": deliveries.deliveries_app,
    "feed-gaps": feed_gaps.feed_gaps_app,
    "bank": bank.bank_app,
    "triton": bank.triton_app,
    "topics": topics.topics_app,
    "dead-letters": topics.dead_letters_app,
    "checkpoints": topics.checkpoints_app,
    "database": database.database_app,
    "accounts": accounts.accounts_app,
    "secrets": secrets.secrets_app,
    "config": config.config_app,
}


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"fingerprint {metadata.version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def fingerprint(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Print the version."),
    ] = False,
) -> None:
    """Run before every command."""


for command in (  # in the order of `--help`
    *(programs.demo, programs.simulate, programs.train, programs.score, programs.explain),
    *(evaluate.evaluate, programs.backend),
    *(services.ingest, services.stream, services.retrain, services.deliver, services.serve, services.replay),
    *(config.doctor, services.simulate_live),
):
    app.command()(command)
for name, group in COMMAND_GROUPS.items():
    app.add_typer(group, name=name, no_args_is_help=True)


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the application with only the command that the arguments begin with, because building all sixty takes 50 ms of CPU.

    If the arguments do not begin with a command (but with an option, or a misspelt command), it has all commands.
    """
    chosen = copy(app)
    named = arguments[:1]
    chosen.registered_groups = [each for each in app.registered_groups if [each.name] == named]
    chosen.registered_commands = [each for each in app.registered_commands if [_command_name(each)] == named]
    return chosen if chosen.registered_groups or chosen.registered_commands else app


def _command_name(command: typer.models.CommandInfo) -> str:
    return command.name or typer.main.get_command_name(getattr(command.callback, "__name__", ""))
