"""Commands about what the stream reads and writes: topics, dead letters, checkpoints."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import load_interactive_settings, load_settings, print_result, require_broker
from pipelines.cli.options import Json, SettingsFile

dead_letters_app = typer.Typer(help="Dead letters: messages that could not be read.")
checkpoints_app = typer.Typer(help="Checkpoints of the stream, by partition.")
topics_app = typer.Typer(help="The Kafka topics of the settings.")


DeadLetterTopic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        help="The topic whose dead letters are meant: the events topic has some too.",
        show_default="the raw topic of the settings",
    ),
]


@dead_letters_app.command("list")
def dead_letters_list(
    topic: DeadLetterTopic = None, settings: SettingsFile = None, json: Json = False
) -> None:
    """List dead letters that were not replayed yet: origin, reason and first bytes."""
    from pipelines.commands.dead_letters import for_dead_letter_topic, list_dead_letters, print_dead_letters

    found = list_dead_letters(
        for_dead_letter_topic(require_broker(load_interactive_settings(settings)), topic)
    )
    print_result(found, json, lambda: print_dead_letters(found))


ReplayQueue = Annotated[
    str | None,
    typer.Option(
        "--sqs",
        metavar="QUEUE-URL",
        help="The queue that notifications came from: they go back to it.",
        show_default=False,
    ),
]


@dead_letters_app.command("replay")
def dead_letters_replay(
    sqs: ReplayQueue = None,
    topic: DeadLetterTopic = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Send dead letters back, byte for byte, to the topic or queue they came from, and mark them replayed."""
    from pipelines.cli import console
    from pipelines.commands.dead_letters import for_dead_letter_topic, replay_dead_letters

    figures = replay_dead_letters(
        for_dead_letter_topic(require_broker(load_interactive_settings(settings)), topic), sqs
    )
    print_result(figures, json, lambda: console.print_dead_letter_replay(figures))


@checkpoints_app.command("list")
def checkpoints_list(settings: SettingsFile = None, json: Json = False) -> None:
    """List the latest checkpoint of each partition: offset, fence, time and size."""
    from pipelines.commands.checkpoints import list_checkpoints, print_checkpoints

    found = list_checkpoints(load_settings(settings))
    print_result(found, json, lambda: print_checkpoints(found))


PartitionCount = Annotated[
    int,
    typer.Option(
        min=1,
        help="Partitions of the raw, events, alerts and votes topics: 1, 2, 4, ... 256; as many scorers can share the work.",
    ),
]
ReplicaCount = Annotated[
    int | None,
    typer.Option(min=1, help="Replication factor.", show_default="the default of the broker"),
]
EventsRetention = Annotated[
    float | None,
    typer.Option(
        help="Days for which the events topic keeps records: trainings read it.",
        show_default="kafka.events_retention_days: 35",
    ),
]
GrowTopics = Annotated[
    bool,
    typer.Option(
        "--grow",
        help="Add partitions to an existing events topic too. Principals move to other partitions: first stop ingest, "
        "let the stream read to the end, and stop it.",
    ),
]
BrokerWait = Annotated[float, typer.Option(min=0, help="Seconds to wait for a broker that is starting.")]


@topics_app.command("create")
def topics_create(
    partitions: PartitionCount = 4,
    replicas: ReplicaCount = None,
    retention_days: EventsRetention = None,
    grow: GrowTopics = False,
    wait: BrokerWait = 60.0,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Create missing topics: raw, events, alerts, votes, feed gaps, and two for dead letters.

    May be run at every start: existing topics stay, and get the partitions that they lack; no topic, partition or message is ever
    removed. The events topic gets more partitions only with --grow. Uses the same brokers, client and login as every
    program (section `kafka` of the settings).
    """
    from pipelines.commands.topics import TopicOptions, create_topics, print_created_topics

    loaded = load_interactive_settings(settings, {"kafka": {"events_retention_days": retention_days}})
    done = create_topics(loaded, TopicOptions(partitions, replicas, grow), wait)
    print_result(done, json, lambda: print_created_topics(done))


@topics_app.command("list")
def topics_list(settings: SettingsFile = None, json: Json = False) -> None:
    """List the topics of the settings: partitions, replicas, retention."""
    from pipelines.commands.topics import list_topics, print_topics

    found = list_topics(require_broker(load_interactive_settings(settings)))
    print_result(found, json, lambda: print_topics(found))
