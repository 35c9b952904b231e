"""Commands about a bank: its versions, and the Triton server that measures by it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fingerprint.core import settings as settings_
from pipelines.cli.options import BankFolder, Json, SettingsFile, printed, refused

banks = typer.Typer(help="The versions of a bank: which are kept, which is served, and why.")
triton = typer.Typer(help="The bank behind a Triton server: what it serves, and what it is to serve.")

Version = Annotated[str, typer.Argument(metavar="VERSION", help="As `fingerprint bank list` names it.")]

AnyVersion = Annotated[
    str | None,
    typer.Argument(metavar="[VERSION]", help="As `fingerprint bank list` names it.", show_default=False),
]

Why = Annotated[str, typer.Option("--why", help="The reason, for the history.", show_default=False)]


@banks.command("list")
def bank_list(bank: BankFolder = Path("bank"), settings: SettingsFile = None, json: Json = False) -> None:
    """Every version that is kept: what it learned, whether it is served, what the gate said."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import run_list

    found = run_list(bank, settings_.load(settings).bank)
    printed(found, json, lambda: bank_table.print_list(found))


@banks.command("show")
def bank_show(
    version: AnyVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """One version, by default the one that is served: span, who is ready, the largest and the quietest, its size."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import run_show

    figures = run_show(bank, settings_.load(settings), version)
    printed(figures, json, lambda: bank_table.print_show(figures))


@banks.command("diff")
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
    from pipelines.commands.bank import run_diff

    figures = run_diff(bank, settings_.load(settings), older, newer, top)
    printed(figures, json, lambda: bank_table.print_diff(figures))


@banks.command("publish")
def bank_publish(
    version: Version,
    bank: BankFolder = Path("bank"),
    why: Why = "",
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
    from pipelines.commands.bank import run_publish

    figures = run_publish(bank, settings_.load(settings), version, why, force)
    printed(figures, json, lambda: bank_table.print_published(figures))
    refused(None if figures["served"] else figures["refusal"])


@banks.command("rollback")
def bank_rollback(
    bank: BankFolder = Path("bank"), why: Why = "", settings: SettingsFile = None, json: Json = False
) -> None:
    """Serve the version that was served before; given again, the one before that."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import run_rollback

    figures = run_rollback(bank, settings_.load(settings), why)
    printed(figures, json, lambda: bank_table.print_rolled_back(figures))


@banks.command("keys")
def bank_keys(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Of the private key; FILE.pub is the public one.")
    ],
    json: Json = False,
) -> None:
    """Make a pair of keys: one for who trains and publishes (bank.signing_key_file), one for all (bank.verify_key_files)."""
    from pipelines.commands.bank import run_keys

    figures = run_keys(file)
    printed(figures, json, lambda: print("private: {private}, public: {public}, key {key}".format(**figures)))


@banks.command("sign")
def bank_sign(
    version: AnyVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Sign a version, by default the one that is served, so that it may judge. You vouch for it: look where it comes from."""
    from pipelines.commands.bank import run_sign

    figures = run_sign(bank, settings_.load(settings), version)
    printed(figures, json, lambda: print(f"signed {figures['version']}"))


@banks.command("verify")
def bank_verify(
    version: AnyVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Check every file and signature of one version, or of all, and name what is wrong. Exit status 1: something is."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import run_verify

    figures = run_verify(bank, settings_.load(settings), version)
    printed(figures, json, lambda: bank_table.print_verified(figures))
    if figures["problems"]:
        raise typer.Exit(1)


@triton.command("load")
def triton_load(bank: BankFolder = Path("bank"), settings: SettingsFile = None, json: Json = False) -> None:
    """Put the bank's current version into the model repository and have the server serve it, beside the one before.

    Nobody's question is lost meanwhile. A bank that cannot be opened is refused, and what was served still is.
    """
    from pipelines.commands.triton import print_status, run_load

    wanted = settings_.load(settings)
    figures = run_load(bank, wanted.triton, wanted.bank)
    printed(figures, json, lambda: print_status(figures))


@triton.command("status")
def triton_status(settings: SettingsFile = None, json: Json = False) -> None:
    """Which versions of the bank lie in the repository, and how they stand at the server."""
    from pipelines.commands.triton import print_status, run_status

    figures = run_status(settings_.load(settings).triton)
    printed(figures, json, lambda: print_status(figures))
