"""Commands of the deployment: ingest, stream, retrain, deliver, serve, and replay and simulate-live, which feed it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.common import (
    is_awaited,
    load_interactive_settings,
    load_service_settings,
    load_settings,
    print_result,
    require_answering_broker,
    with_connect_timeout,
    with_database_timeout,
)
from pipelines.cli.options import (
    BankFolder,
    DatabaseUrl,
    Host,
    Json,
    Port,
    SettingsFile,
    SimulatePrincipals,
    Sources,
)

IngestSqs = Annotated[
    str | None,
    typer.Option(
        "--sqs",
        metavar="QUEUE-URL",
        help="Read S3 objects instead, as notifications in this queue name them (S3, SNS, EventBridge or CloudTrail); "
        "credentials, region and endpoint are boto3's: AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL ...",
        show_default=False,
    ),
]
IngestOnce = Annotated[
    bool,
    typer.Option(
        "--once", help="Read to the end that the topic had at the start, or until the queue is empty."
    ),
]


def ingest(
    sqs: IngestSqs = None,
    once: IngestOnce = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Split messages of the raw topic into records, keyed by principal, and send them to the events topic.

    What cannot be read becomes a dead letter; too many of them stop it. Runs until SIGTERM, which finishes the batch and
    commits. Health and metrics: the settings `health.host` and `health.port`.

    With --sqs a notification is deleted from the queue when all records of its objects have arrived. Several may share a queue:
    `fingerprint ingest --sqs https://sqs.eu-west-1.amazonaws.com/111122223333/trail`
    """
    from pipelines.cli import console

    loaded = load_service_settings(settings, once)
    if sqs:
        from pipelines.ingest import run_ingest_s3

        figures = run_ingest_s3(loaded, sqs, once)
    else:
        from pipelines.ingest import run_ingest

        figures = run_ingest(loaded, once)
    print_result(figures, json, lambda: console.print_ingest(figures))


StreamOnce = Annotated[bool, typer.Option("--once", help="Read to the end that the topic had at the start.")]
StreamWait = Annotated[bool, typer.Option("--wait", help="Wait for the first bank if there is none.")]


def stream(
    bank: BankFolder = Path("bank"),
    database: DatabaseUrl = None,
    once: StreamOnce = False,
    wait: StreamWait = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Score the events topic as it fills: alerts go to the database and their topic, single votes to theirs.

    Several may run: they share the partitions, and each partition's state moves with it through the checkpoint store. After a
    crash it resumes from the last checkpoint and publishes the same alerts under the same ids. A bank that is published or
    rolled back to takes over within `bank.poll_interval_seconds` and a checkpoint. Runs until SIGTERM, which finishes the batch,
    writes checkpoints and commits. Health and metrics: the settings `health.host` and `health.port`.
    """
    from pipelines.cli import console
    from pipelines.stream import run_stream

    figures = run_stream(load_service_settings(settings, once, database), bank, once=once, wait_for_bank=wait)
    print_result(figures, json, lambda: console.print_stream(figures))


RetrainOnce = Annotated[
    bool,
    typer.Option("--once", help="Check once, train if it is due, then end: for your own schedule."),
]


def retrain(
    bank: BankFolder = Path("bank"),
    once: RetrainOnce = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Train from the events topic when it is due: the first bank when there is enough history, then every day.

    The first training is due once the topic holds `retraining.min_history_days` of events, each later one
    `retraining.interval_hours` after the one before. It is `fingerprint train` in a child process, through the promotion gate;
    with `triton.url` the served bank is loaded into Triton. One process retrains a bank. Runs until SIGTERM, which interrupts a
    training: the next start resumes it. Health and metrics: the settings `health.host` and `health.port`.
    """
    from pipelines.retrain import print_retrain_summary, run_retrain

    figures = run_retrain(load_service_settings(settings, once), bank, settings, once)
    print_result(figures, json, lambda: print_retrain_summary(figures))


DeliverOnce = Annotated[bool, typer.Option("--once", help="Send what is due now, then end.")]


def deliver(
    once: DeliverOnce = False,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Deliver alerts to receivers: webhooks, Slack, Kafka topics, as `[deliver.NAME]` of the settings says.

    Each alert reaches each receiver at least once, under a key that stays the same, or is marked failed with the reason
    (`fingerprint deliveries list`). Several may run. Runs until SIGTERM, which finishes what is under way. Health and metrics:
    the settings `health.host` and `health.port`.
    """
    from pipelines.commands.deliveries import print_deliver_summary
    from pipelines.deliver import run_deliver

    awaited = is_awaited(once)
    loaded = load_interactive_settings(settings) if awaited else load_settings(settings)
    figures = run_deliver(loaded, with_connect_timeout(database) if database and awaited else database, once)
    print_result(figures, json, lambda: print_deliver_summary(figures))


def serve(
    host: Host = None,
    port: Port = None,
    database: DatabaseUrl = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
) -> None:
    """Serve the alert queue: the web pages and the API, until SIGTERM.

    The first start prints a link that makes the first admin, once: there is no default password. In front of anything but this
    machine put a proxy with TLS, and name it: `web.public_url` (docs/how-to/accounts.md).
    """
    from pipelines.serve import run_web_app

    loaded = load_settings(settings, {"web": {"host": host, "port": port}})
    if is_awaited():
        loaded, database = with_database_timeout(loaded), database and with_connect_timeout(database)
    run_web_app(loaded, database, bank)


ReplayTopic = Annotated[
    str | None,
    typer.Option(help="The topic to send to.", show_default="the raw topic of the settings"),
]
ReplayRate = Annotated[float | None, typer.Option(help="Records a second.", show_default="no limit")]
ReplaySpeed = Annotated[
    float | None, typer.Option(help="Times real time, by eventTime.", show_default="no limit")
]
KeyedMessages = Annotated[
    bool, typer.Option("--keyed", help="Key each record by its principal, as ingest does.")
]


def replay(
    sources: Sources,
    topic: ReplayTopic = None,
    rate: ReplayRate = None,
    speed: ReplaySpeed = None,
    keyed: KeyedMessages = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Send records from files, folders or S3 to a topic, at a chosen rate."""
    from pipelines.cli import console
    from pipelines.replay import run_replay

    loaded = require_answering_broker(load_settings(settings))
    with console.progress_bars(not json) as progress:
        figures = run_replay(sources, topic, loaded, progress, rate, speed, keyed)
    print_result(figures, json, lambda: console.print_replay(figures))


SimulateLiveDays = Annotated[int, typer.Option(min=4, help="Days of traffic; the last is yesterday (UTC).")]
SimulateLiveAttacks = Annotated[int, typer.Option(min=0, help="Attack sessions in the last quarter.")]
SimulateLiveSeed = Annotated[int, typer.Option(help="The same seed gives the same organisation.")]
SimulateLiveSpeed = Annotated[float, typer.Option(help="Times real time, for the last quarter.")]
SimulateLiveFolder = Annotated[
    Path,
    typer.Option(help="The folder for records, labels.jsonl and its progress, from which it resumes."),
]
SimulateLiveKeep = Annotated[bool, typer.Option("--keep", help="Keep the records after they are sent.")]


def simulate_live(
    principals: SimulatePrincipals = 40,
    days: SimulateLiveDays = 20,
    attacks: SimulateLiveAttacks = 4,
    seed: SimulateLiveSeed = 7,
    speed: SimulateLiveSpeed = 3600.0,
    folder: SimulateLiveFolder = Path("demo"),
    bank: BankFolder = Path("bank"),
    keep: SimulateLiveKeep = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Try a deployment with a live simulation: a simulated organisation works, and is attacked.

    Sends three quarters of the days to the raw topic at once, waits until a bank is trained from them (`fingerprint retrain`),
    then sends the last days, with the attacks in them, at --speed times real time. After SIGTERM the next start resumes. `docker
    compose --profile demo up` runs it. Do not run it on a deployment that watches real accounts: the bank would learn this
    organisation too.
    """
    from pipelines.cli import console
    from pipelines.simulate import SimulatedOrganisation
    from pipelines.simulate_live import run_live_simulation

    organisation = SimulatedOrganisation(principals, days, attacks, seed)
    loaded = require_answering_broker(load_settings(settings))
    figures = run_live_simulation(organisation, folder, bank, speed, keep, loaded)
    print_result(figures, json, lambda: console.print_live_simulation(figures))
