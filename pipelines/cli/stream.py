"""Commands about what a stream runs on and leaves behind: topics, dead letters, snapshots."""

from __future__ import annotations

from typing import Annotated

import typer

from fingerprint.core import settings as settings_
from pipelines.cli.options import Json, SettingsFile, print_result

dead_letters_app = typer.Typer(help="Dead letters: messages that could not be read.")
checkpoints_app = typer.Typer(help="The remembered state of the stream, by partition.")
topics_app = typer.Typer(help="The topics that the settings name.")

DeadLetterTopic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        help="Whose dead letters: the events topic has some too.",
        show_default="the raw topic of the settings",
    ),
]


@dead_letters_app.command("list")
def dead_letters_list(
    topic: DeadLetterTopic = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """Every letter that was not replayed yet: where it lay, why it is dead, how it begins."""
    from pipelines.commands.dead_letters import for_dead_letter_topic, list_dead_letters, print_dead_letters

    found = list_dead_letters(for_dead_letter_topic(settings_.load_settings(settings), topic))
    print_result(found, json, lambda: print_dead_letters(found))


@dead_letters_app.command("replay")
def dead_letters_replay(
    sqs: Annotated[
        str | None,
        typer.Option(
            "--sqs",
            metavar="QUEUE-URL",
            help="Where notices came from: they go back there.",
            show_default=False,
        ),
    ] = None,
    topic: DeadLetterTopic = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Give the letters back, byte for byte, to the topic or queue they came from, and mark them replayed."""
    from pipelines.cli import console
    from pipelines.commands.dead_letters import for_dead_letter_topic, replay_dead_letters

    figures = replay_dead_letters(for_dead_letter_topic(settings_.load_settings(settings), topic), sqs)
    print_result(figures, json, lambda: console.print_dead_letter_replay(figures))


@checkpoints_app.command("list")
def checkpoints_list(settings: SettingsFile = None, json: Json = False) -> None:
    """The latest snapshot of each partition: where it reads on, its fence, when it was written, how large it is."""
    from pipelines.commands.checkpoints import list_checkpoints, print_checkpoints

    found = list_checkpoints(settings_.load_settings(settings))
    print_result(found, json, lambda: print_checkpoints(found))


@topics_app.command("create")
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
            show_default="kafka.events_retention_days: 35",
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
    from pipelines.commands.topics import TopicOptions, create_topics, print_created_topics

    loaded = settings_.load_settings(settings, options={"kafka": {"events_retention_days": retention_days}})
    done = create_topics(loaded, TopicOptions(partitions, replicas, grow), wait)
    print_result(done, json, lambda: print_created_topics(done))


@topics_app.command("list")
def topics_list(settings: SettingsFile = None, json: Json = False) -> None:
    """Each topic of the settings: how many partitions it has, and what it holds."""
    from pipelines.commands.topics import list_topics, print_topics

    found = list_topics(settings_.load_settings(settings))
    print_result(found, json, lambda: print_topics(found))
