"""Commands about accounts of the web app: for the first admin, and for a person who is locked out."""

from __future__ import annotations

from typing import Annotated

import typer

from fingerprint.core.account import Role
from pipelines.cli.common import database_url, load_settings, print_result
from pipelines.cli.options import DatabaseUrl, Json, SettingsFile

accounts_app = typer.Typer(help="Accounts that may log in to the web app.")


@accounts_app.command("list")
def accounts_list(database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False) -> None:
    """List accounts: role, whether it can log in, and when it last did."""
    from pipelines.commands.accounts import list_accounts, print_accounts

    found = list_accounts(load_settings(settings), database_url(database, settings))
    print_result(found, json, lambda: print_accounts(found))


AccountName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the account.", show_default=False)
]
NewAccountRole = Annotated[Role, typer.Option(help="What the account may do.")]


@accounts_app.command("add")
def accounts_add(
    name: AccountName,
    role: NewAccountRole = "analyst",
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Add an account and print a link that sets its password, once: `fingerprint accounts add maria --role admin`."""
    from pipelines.commands.accounts import invite_account, print_invitation_link

    figures = invite_account(load_settings(settings), database_url(database, settings), name, role)
    print_result(figures, json, lambda: print_invitation_link(figures))


@accounts_app.command("invite")
def accounts_invite(
    name: AccountName, database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Print a link that sets a new password, once, for an existing account."""
    from pipelines.commands.accounts import invite_account, print_invitation_link

    figures = invite_account(load_settings(settings), database_url(database, settings), name, None)
    print_result(figures, json, lambda: print_invitation_link(figures))


RoleArgument = Annotated[Role, typer.Argument(help="The new role.", show_default=False)]


@accounts_app.command("role")
def accounts_role(
    name: AccountName,
    role: RoleArgument,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Give an account another role; its sessions end."""
    from pipelines.commands.accounts import change_role, print_accounts

    figures = change_role(load_settings(settings), database_url(database, settings), name, role)
    print_result(figures, json, lambda: print_accounts([figures]))


@accounts_app.command("disable")
def accounts_disable(
    name: AccountName,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """End an account's sessions, tokens and links at once. Its name stays taken."""
    from pipelines.commands.accounts import disable_account, print_accounts

    figures = disable_account(load_settings(settings), database_url(database, settings), name)
    print_result(figures, json, lambda: print_accounts([figures]))


@accounts_app.command("enable")
def accounts_enable(
    name: AccountName, database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Let a disabled account log in again; its tokens stay revoked."""
    from pipelines.commands.accounts import disable_account, print_accounts

    figures = disable_account(load_settings(settings), database_url(database, settings), name, enable=True)
    print_result(figures, json, lambda: print_accounts([figures]))


@accounts_app.command("end-sessions")
def accounts_end_sessions(
    name: AccountName, database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """End an account's sessions and tokens at once; it may log in again."""
    from pipelines.commands.accounts import end_sessions, print_accounts

    figures = end_sessions(load_settings(settings), database_url(database, settings), name)
    print_result(figures, json, lambda: print_accounts([figures]))


@accounts_app.command("reset-second-factor")
def accounts_reset_second_factor(
    name: AccountName, database: DatabaseUrl = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Remove an account's second factors after they were lost; its sessions end."""
    from pipelines.commands.accounts import print_accounts, reset_second_factor

    figures = reset_second_factor(load_settings(settings), database_url(database, settings), name)
    print_result(figures, json, lambda: print_accounts([figures]))
