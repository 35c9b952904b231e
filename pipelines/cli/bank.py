"""Commands about a bank: its versions, and the Triton server that measures by it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fingerprint.core import settings as settings_
from pipelines.cli.options import BankFolder, Json, SettingsFile, exit_refused, print_result

bank_app = typer.Typer(help="The versions of a bank: which are kept, which is served, and why.")
triton_app = typer.Typer(help="The bank behind a Triton server: what it serves, and what it is to serve.")

Version = Annotated[str, typer.Argument(metavar="VERSION", help="As `fingerprint bank list` names it.")]

OptionalVersion = Annotated[
    str | None,
    typer.Argument(metavar="[VERSION]", help="As `fingerprint bank list` names it.", show_default=False),
]

WhyOption = Annotated[str, typer.Option("--why", help="The reason, for the history.", show_default=False)]


@bank_app.command("list")
def bank_list(bank: BankFolder = Path("bank"), settings: SettingsFile = None, json: Json = False) -> None:
    """Every version that is kept: what it learned, whether it is served, what the gate said."""
    from fingerprint.registry.catalog import list_versions
    from pipelines.commands import bank_table

    found = list_versions(bank, settings_.load_settings(settings).bank)
    print_result(found, json, lambda: bank_table.print_versions(found))


@bank_app.command("show")
def bank_show(
    version: OptionalVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """One version, by default the one that is served: span, who is ready, the largest and the quietest, its size."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import describe_version

    figures = describe_version(bank, settings_.load_settings(settings), version)
    print_result(figures, json, lambda: bank_table.print_version(figures))


@bank_app.command("diff")
def bank_diff(
    older: Annotated[str, typer.Argument(metavar="OLDER", help="The champion.")],
    newer: Annotated[str, typer.Argument(metavar="NEWER", help="The challenger.")],
    bank: BankFolder = Path("bank"),
    top: Annotated[int, typer.Option(min=0, help="So many fingerprints that moved furthest.")] = 10,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Two versions side by side: who came and went, losses, values, and whose behaviour moved furthest."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import diff_versions

    figures = diff_versions(bank, settings_.load_settings(settings), older, newer, top)
    print_result(figures, json, lambda: bank_table.print_version_diff(figures))


@bank_app.command("publish")
def bank_publish(
    version: Version,
    bank: BankFolder = Path("bank"),
    why: WhyOption = "",
    force: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Serve it whatever the gate says; the reason is recorded.",
            show_default=False,
        ),
    ] = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Serve a version that is kept, through the gate. Exit status 3: the gate kept it back."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import publish_version

    figures = publish_version(bank, settings_.load_settings(settings), version, why, force)
    print_result(figures, json, lambda: bank_table.print_publication(figures))
    exit_refused(None if figures["served"] else figures["refusal"])


@bank_app.command("rollback")
def bank_rollback(
    bank: BankFolder = Path("bank"), why: WhyOption = "", settings: SettingsFile = None, json: Json = False
) -> None:
    """Serve the version that was served before; given again, the one before that."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import roll_back_bank

    figures = roll_back_bank(bank, settings_.load_settings(settings), why)
    print_result(figures, json, lambda: bank_table.print_rollback(figures))


@bank_app.command("keys")
def bank_keys(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Of the private key; FILE.pub is the public one.")
    ],
    json: Json = False,
) -> None:
    """Make a pair of keys: one for who trains and publishes (bank.signing_key_file), one for all (bank.verify_key_files)."""
    from pipelines.commands.bank import generate_key_pair

    figures = generate_key_pair(file)
    print_result(
        figures, json, lambda: print("private: {private}, public: {public}, key {key}".format(**figures))
    )


@bank_app.command("sign")
def bank_sign(
    version: OptionalVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Sign a version, by default the one that is served, so that it may judge. You vouch for it: look where it comes from."""
    from pipelines.commands.bank import sign_version

    figures = sign_version(bank, settings_.load_settings(settings), version)
    print_result(figures, json, lambda: print(f"signed {figures['version']}"))


@bank_app.command("verify")
def bank_verify(
    version: OptionalVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Check every file and signature of one version, or of all, and name what is wrong. Exit status 1: something is."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import verify_versions

    figures = verify_versions(bank, settings_.load_settings(settings), version)
    print_result(figures, json, lambda: bank_table.print_verification(figures))
    if figures["problems"]:
        raise typer.Exit(1)


@triton_app.command("load")
def triton_load(bank: BankFolder = Path("bank"), settings: SettingsFile = None, json: Json = False) -> None:
    """Put the bank's current version into the model repository and have the server serve it, beside the one before.

    Nobody's question is lost meanwhile. A bank that cannot be opened is refused, and what was served still is.
    """
    from pipelines.commands.triton import load_into_server, print_server_status

    wanted = settings_.load_settings(settings)
    figures = load_into_server(bank, wanted.triton, wanted.bank)
    print_result(figures, json, lambda: print_server_status(figures))


@triton_app.command("status")
def triton_status(settings: SettingsFile = None, json: Json = False) -> None:
    """Which versions of the bank lie in the repository, and how they stand at the server."""
    from pipelines.commands.triton import print_server_status, server_status

    figures = server_status(settings_.load_settings(settings).triton)
    print_result(figures, json, lambda: print_server_status(figures))
