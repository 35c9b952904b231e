"""Commands about what a stream leaves behind: dead letters and snapshots."""

from __future__ import annotations

from typing import Annotated

import typer

from fingerprint import settings as settings_
from pipelines.options import Json, SettingsFile, printed

dlq = typer.Typer(help="Dead letters: messages that could not be read.")
snapshots = typer.Typer(help="The remembered state of the stream, by partition.")

DeadOf = Annotated[
    str | None,
    typer.Option(
        "--topic",
        help="Whose dead letters: the events topic has some too.",
        show_default="the raw topic of the settings",
    ),
]


@dlq.command("list")
def dlq_list(topic: DeadOf = None, settings: SettingsFile = None, json: Json = False) -> None:
    """Every letter that was not replayed yet: where it lay, why it is dead, how it begins."""
    from pipelines.dlq import of_topic, print_letters, run_list

    found = run_list(of_topic(settings_.load(settings), topic))
    printed(found, json, lambda: print_letters(found))


@dlq.command("replay")
def dlq_replay(
    sqs: Annotated[
        str | None,
        typer.Option(
            "--sqs",
            metavar="QUEUE-URL",
            help="Where notices came from: they go back there.",
            show_default=False,
        ),
    ] = None,
    topic: DeadOf = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Give the letters back, byte for byte, to the topic or queue they came from, and mark them replayed."""
    from pipelines import show
    from pipelines.dlq import of_topic, run_replay

    figures = run_replay(of_topic(settings_.load(settings), topic), sqs)
    printed(figures, json, lambda: show.letters_replayed(figures))


@snapshots.command("list")
def snapshots_list(settings: SettingsFile = None, json: Json = False) -> None:
    """The latest snapshot of each partition: where it reads on, its fence, when it was written, how large it is."""
    from pipelines.snapshots import print_snapshots, run_list

    found = run_list(settings_.load(settings))
    printed(found, json, lambda: print_snapshots(found))
