"""Commands about what a stream runs on and leaves behind: topics, dead letters, snapshots."""

from __future__ import annotations

from typing import Annotated

import typer

from fingerprint.core import settings as settings_
from pipelines.cli.options import Json, SettingsFile, printed

dlq = typer.Typer(help="Dead letters: messages that could not be read.")
snapshots = typer.Typer(help="The remembered state of the stream, by partition.")
topics = typer.Typer(help="The topics that the settings name.")

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
    from pipelines.commands.dead_letters import of_topic, print_letters, run_list

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
    from pipelines.cli import console
    from pipelines.commands.dead_letters import of_topic, run_replay

    figures = run_replay(of_topic(settings_.load(settings), topic), sqs)
    printed(figures, json, lambda: console.letters_replayed(figures))


@snapshots.command("list")
def snapshots_list(settings: SettingsFile = None, json: Json = False) -> None:
    """The latest snapshot of each partition: where it reads on, its fence, when it was written, how large it is."""
    from pipelines.commands.checkpoints import print_snapshots, run_list

    found = run_list(settings_.load(settings))
    printed(found, json, lambda: print_snapshots(found))


@topics.command("create")
def topics_create(
    partitions: Annotated[
        int,
        typer.Option(
            min=1,
            help="Of the topics that carry the traffic: raw, events, alerts and votes. 1, 2, 4, ... 256; as many scorers can "
            "share the work.",
        ),
    ] = 4,
    replicas: Annotated[
        int | None,
        typer.Option(min=1, help="Copies on as many brokers.", show_default="as the broker does it"),
    ] = None,
    retention_days: Annotated[
        float | None,
        typer.Option(
            help="How long the events topic holds records: trainings read it.",
            show_default="kafka.retention_days: 35",
        ),
    ] = None,
    grow: Annotated[
        bool,
        typer.Option(
            "--grow",
            help="Add partitions to an events topic that is there, too. Principals move to other partitions: stop ingest, "
            "let the stream read to the end and stop it, before.",
        ),
    ] = False,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for a broker that is starting.")] = 60.0,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Make the topics that are not there yet: raw, events, alerts, votes, notices, and two of dead letters.

    May be run at every start: what is there stays, and gets the partitions that it lacks; no topic, partition or message is ever
    removed. The events topic gets more partitions only with --grow. Uses the same brokers, client and login as every
    program (section `kafka` of the settings).
    """
    from pipelines.commands.topics import Wish, print_created, run_create

    loaded = settings_.load(settings, options={"kafka": {"retention_days": retention_days}})
    done = run_create(loaded, Wish(partitions, replicas, grow), wait)
    printed(done, json, lambda: print_created(done))


@topics.command("list")
def topics_list(settings: SettingsFile = None, json: Json = False) -> None:
    """Each topic of the settings: how many partitions it has, and what it holds."""
    from pipelines.commands.topics import print_topics, run_list

    found = run_list(settings_.load(settings))
    printed(found, json, lambda: print_topics(found))
