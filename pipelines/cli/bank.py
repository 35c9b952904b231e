"""Commands about a bank: its versions, and the Triton server that serves it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.common import exit_refused, load_settings, print_result
from pipelines.cli.options import BankFolder, Json, SettingsFile
from pipelines.cli.run import EXIT_PROBLEMS_FOUND

bank_app = typer.Typer(help="Versions of a bank: list, compare, publish, roll back, sign, verify.")
triton_app = typer.Typer(help="The bank on a Triton server: load it, show its status.")


@bank_app.command("list")
def bank_list(bank: BankFolder = Path("bank"), settings: SettingsFile = None, json: Json = False) -> None:
    """List kept versions: history, whether it is served, the decision of the promotion gate."""
    from fingerprint.registry.catalog import list_versions
    from pipelines.commands import bank_table

    found = list_versions(bank, load_settings(settings).bank)
    print_result(found, json, lambda: bank_table.print_versions(found))


OptionalVersion = Annotated[
    str | None,
    typer.Argument(
        metavar="[VERSION]", help="A version that `fingerprint bank list` shows.", show_default=False
    ),
]


@bank_app.command("show")
def bank_show(
    version: OptionalVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Show one version, by default the served one: history, readiness, largest and quietest fingerprints, size."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import describe_version

    figures = describe_version(bank, load_settings(settings), version)
    print_result(figures, json, lambda: bank_table.print_version(figures))


OlderVersion = Annotated[
    str, typer.Argument(metavar="OLDER", help="A version, such as the one that is served.")
]
NewerVersion = Annotated[
    str, typer.Argument(metavar="NEWER", help="A later version, such as the one that was trained last.")
]
TopCount = Annotated[int, typer.Option(min=0, help="The number of fingerprints shown that changed most.")]


@bank_app.command("diff")
def bank_diff(
    older: OlderVersion,
    newer: NewerVersion,
    bank: BankFolder = Path("bank"),
    top: TopCount = 10,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Compare two versions: entities, losses, values, and the fingerprints that changed most."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import diff_versions

    figures = diff_versions(bank, load_settings(settings), older, newer, top)
    print_result(figures, json, lambda: bank_table.print_version_diff(figures))


Version = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version that `fingerprint bank list` shows.")
]
HistoryWhy = Annotated[
    str, typer.Option("--why", metavar="REASON", help="The reason, for the history.", show_default=False)
]
PublishForce = Annotated[
    str | None,
    typer.Option(
        metavar="REASON",
        help="Serve it against the decision of the gate; the reason is recorded.",
        show_default=False,
    ),
]


@bank_app.command("publish")
def bank_publish(
    version: Version,
    bank: BankFolder = Path("bank"),
    why: HistoryWhy = "",
    force: PublishForce = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Serve a kept version if the promotion gate passes it. Exit status 3: the gate refused."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import publish_version

    figures = publish_version(bank, load_settings(settings), version, why, force)
    print_result(figures, json, lambda: bank_table.print_publication(figures))
    exit_refused(None if figures["served"] else figures["refusal"])


@bank_app.command("rollback")
def bank_rollback(
    bank: BankFolder = Path("bank"), why: HistoryWhy = "", settings: SettingsFile = None, json: Json = False
) -> None:
    """Serve the version that was served before; given again, the one before that."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import roll_back_bank

    figures = roll_back_bank(bank, load_settings(settings), why)
    print_result(figures, json, lambda: bank_table.print_rollback(figures))


KeyFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The file of the private key; FILE.pub gets the public one."),
]


@bank_app.command("keys")
def bank_keys(
    file: KeyFile,
    json: Json = False,
) -> None:
    """Generate a key pair: one signs where banks are published (bank.signing_key_file), one verifies (bank.verify_key_files)."""
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
    """Sign a version, by default the served one, so that scorers accept it. You vouch for it: check its origin first."""
    from pipelines.commands.bank import sign_version

    figures = sign_version(bank, load_settings(settings), version)
    print_result(figures, json, lambda: print(f"signed {figures['version']}"))


@bank_app.command("verify")
def bank_verify(
    version: OptionalVersion = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Check every file and signature of one version, or of all. Exit status 1: there are problems."""
    from pipelines.commands import bank_table
    from pipelines.commands.bank import verify_versions

    figures = verify_versions(bank, load_settings(settings), version)
    print_result(figures, json, lambda: bank_table.print_verification(figures))
    if figures["problems"]:
        raise typer.Exit(EXIT_PROBLEMS_FOUND)


@triton_app.command("load")
def triton_load(bank: BankFolder = Path("bank"), settings: SettingsFile = None, json: Json = False) -> None:
    """Put the served version into the model repository and load it into the server, beside the previous one.

    No request is lost. A bank that cannot be opened is refused, and the server keeps what it has.
    """
    from pipelines.commands.triton import load_into_server, print_server_status

    loaded = load_settings(settings)
    figures = load_into_server(bank, loaded.triton, loaded.bank)
    print_result(figures, json, lambda: print_server_status(figures))


@triton_app.command("status")
def triton_status(settings: SettingsFile = None, json: Json = False) -> None:
    """Show the versions in the model repository and their state at the server."""
    from pipelines.commands.triton import print_server_status, server_status

    figures = server_status(load_settings(settings).triton)
    print_result(figures, json, lambda: print_server_status(figures))
