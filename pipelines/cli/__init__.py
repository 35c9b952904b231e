"""The command line: names the programs and their settings; no logic. Groups of commands: cli_desk, cli_bank, cli_stream,
cli_secrets."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer

from fingerprint.core import private_files
from fingerprint.core import settings as settings_
from fingerprint.core.alert import FingerprintError
from fingerprint.core.credentials import mask_credentials
from fingerprint.core.extras import how_to_install
from pipelines.cli import alerts, secrets
from pipelines.cli import bank as cli_bank
from pipelines.cli import stream as cli_stream
from pipelines.cli.options import (
    BankFolder,
    DatabaseUrl,
    Json,
    SettingsFile,
    Sources,
    WorkersOption,
    exit_refused,
    print_result,
)

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Finds stolen and misused cloud credentials by knowing everyone's habits.\n\n"
    "A first walk: `fingerprint demo`. With your own CloudTrail: `fingerprint train logs/ --bank bank`, then "
    "`fingerprint score today.json.gz --bank bank`, then `fingerprint alerts list`.",
)

COMMAND_GROUPS = (
    (alerts.alerts_app, "alerts"),
    (cli_stream.dead_letters_app, "dlq"),
    (cli_stream.checkpoints_app, "snapshots"),
    (cli_stream.topics_app, "topics"),
    (secrets.secrets_app, "secrets"),
    (alerts.feed_gaps_app, "notices"),
    (cli_bank.bank_app, "bank"),
    (cli_bank.triton_app, "triton"),
    (alerts.deliveries_app, "deliveries"),
    (alerts.accounts_app, "users"),
    (alerts.thresholds_app, "threshold"),
    (alerts.suppressions_app, "suppressions"),
    (alerts.database_app, "desk"),
)
for group, name in COMMAND_GROUPS:
    app.add_typer(group, name=name)

EXTRAS = {  # what is not installed with the program itself
    "argon2": "web",
    "authlib": "web",
    "fastapi": "web",
    "httpx2": "web",
    "joserfc": "web",
    "starlette": "web",
    "uvicorn": "web",
    "confluent_kafka": "confluent",
    "distributed": "scale",
    "kafka": "kafka",
    "torch": "train",
    "tritonclient": "triton",
}


@app.command()
def simulate(
    out: Annotated[
        Path, typer.Option(help="The folder to fill: YYYY-MM-DD.jsonl.gz a day, and labels.jsonl.")
    ],
    principals: Annotated[int, typer.Option(min=1, help="People, machines and services.")] = 50,
    days: Annotated[int, typer.Option(min=1, help="Days of traffic.")] = 28,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    attacks: Annotated[int, typer.Option(min=0, help="Attack sessions spliced into the last quarter.")] = 4,
    surprises: Annotated[
        bool, typer.Option(help="Harmless surprises in the last quarter too (14 days or more).")
    ] = True,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="The last day is the one before, and nothing happens after its midnight (UTC): 2026-01-31, or `today`.",
            show_default="from 2026-01-05 on",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write CloudTrail records of an organisation that does not exist, with real attacks spliced in and labelled.

    For programs that look at the clock, let it end now: `fingerprint simulate --until today --out records`.
    """
    from fingerprint.adapters.system import SystemClock
    from fingerprint.simulation.benign_anomalies import ANOMALY_PLANNERS
    from pipelines.cli import console
    from pipelines.simulate import DEFAULT_START, first_day, simulate_organisation

    start = first_day(until, days, SystemClock().now().date()) if until else DEFAULT_START
    with console.progress_bars(not json) as progress:
        written = simulate_organisation(
            principals,
            days,
            seed,
            out,
            attacks,
            start=start,
            sharp=until is not None,
            surprises=tuple(ANOMALY_PLANNERS) if surprises else (),
            progress=lambda done, records: progress("simulating days", done, days),
        )
    figures = console.simulation_figures(written, days)
    print_result(figures, json, lambda: console.print_simulation(figures))


@app.command()
def train(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="CloudTrail records: files, folders, globs or URLs (`s3://bucket/AWSLogs/`); .json, .jsonl, .gz or not.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            help="Read this topic of Kafka too, from its beginning to where it ends now, beside whoever else reads it: "
            "`--topic fingerprint.events`.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Learn what happened from then on, by event time: 2026-01-01, or 2026-01-01T06:00 (UTC).",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="... and before then: that moment is left out.", show_default=False
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="Instead of --since: the last days before the newest event.", show_default=False),
    ] = None,
    desk: Annotated[
        str | None,
        typer.Option(
            help="The desk that is asked which events to leave out: an SQLAlchemy URL, or `none` for nobody.",
            show_default="the desk of the settings, where there is one",
        ),
    ] = None,
    bank: BankFolder = Path("bank"),
    workers: WorkersOption = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Learn everybody's habits from a history and publish them as a bank.

    A few weeks are best; two days are the least: `fingerprint train s3://trail/AWSLogs/ --days 30`. Objects of a trail whose
    day lies outside are not fetched.

    What was flagged is learned slowly (docs/explanation/training.md). Left out is what lies in alerts that are open or were called
    malicious; what was called benign or a false positive comes back (`fingerprint alerts triage`), and so do single votes after
    `training.single_vote_exclusion_days`. What was said of alerts also moves the thresholds of their entities, a little.

    It says which entities are ready, which fall back to their principal, peer group or the organisation, and when the others
    will be ready. Where a bank is served already, the gate compares the two: a new one that misses what the old one finds,
    or is a surprise otherwise, is kept and not served, and the exit status is 3.
    """
    from fingerprint.core import time_range
    from pipelines.cli import console
    from pipelines.train import train_bank

    span, loaded = (
        time_range.parse_time_range(since, until, days),
        settings_.load_settings(settings, options=_workers_override(workers)),
    )
    with console.progress_bars(not json) as progress:
        figures = train_bank(sources or [], bank, loaded, progress, topic=topic, span=span, store=desk)
    print_result(figures, json, lambda: console.print_training(figures))
    exit_refused(figures["refusal"])


@app.command()
def retrain(
    bank: BankFolder = Path("bank"),
    once: Annotated[
        bool,
        typer.Option("--once", help="Look once, train if it is due, then leave: for a schedule of your own."),
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Train from the events topic when it is due: the first bank when there is history enough, then day by day.

    Due is the first once the topic holds `retraining.min_history_days` of events, each other one `retraining.interval_hours` after the one
    before. It is `fingerprint train` in a process of its own, through the gate; where `triton.url` names a server, that is told
    to load what is served. One at a time looks after a bank. Runs until SIGTERM, which breaks a training off: it goes on where it
    was with the next start. Health and metrics: the settings `health.host` and `health.port`.
    """
    from pipelines.retrain import print_retrain_summary, run_retrain

    figures = run_retrain(settings_.load_settings(settings), bank, settings, once)
    print_result(figures, json, lambda: print_retrain_summary(figures))


@app.command()
def score(
    sources: Sources,
    bank: BankFolder = Path("bank"),
    desk: DatabaseUrl = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Every event with its z's, votes and verdict: FILE.parquet or FILE.jsonl.",
            show_default=False,
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="A folder that carries series and counts from one run to the next.", show_default=False
        ),
    ] = None,
    workers: WorkersOption = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Ask both questions of every event and put what the quorum flags on the desk.

    Each run starts where the bank's training ended, or where the last run with the same --ledger did. Scoring the same
    input twice changes nothing on the desk. Where the input begins inside the bank's training span, a run begins without a
    past, and says so; its exit status is 4 where it found nothing at all.
    """
    from pipelines.backfill import backfill
    from pipelines.cli import console
    from pipelines.score import missing_history_warning, score_sources

    loaded = settings_.load_settings(settings, options=_workers_override(workers))
    with console.progress_bars(not json) as progress:
        walk = score_sources if loaded.workers.scheduler == "local" else backfill
        figures = walk(sources, bank, loaded, progress, database_url=desk, out=out, state_folder=ledger)
    print_result(figures, json, lambda: console.print_scoring(figures))
    if said := missing_history_warning(figures):
        typer.echo(f"warning: {said}", err=True)
        if not any(figures["votes"].values()):
            raise typer.Exit(4)


@app.command()
def evaluate(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="A folder of records with labels.jsonl; none: simulated organisations.",
            show_default=False,
        ),
    ] = None,
    principals: Annotated[int, typer.Option(min=2, help="Size of each simulated organisation.")] = 50,
    days: Annotated[int, typer.Option(min=8, help="Days simulated; the last quarter is judged.")] = 28,
    seed: Annotated[
        list[int] | None, typer.Option(help="One organisation a seed; may be given again.", show_default="0")
    ] = None,
    final: Annotated[
        bool,
        typer.Option(
            "--final",
            help="The three seeds that are kept for the final table: never to be tuned by, nor looked at twice.",
        ),
    ] = False,
    attacks: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Attack sessions in each organisation.",
            show_default="one for ten principals, 12 to 96",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="A folder where simulated organisations stay, to be used again.", show_default=False
        ),
    ] = None,
    third: Annotated[
        bool | None,
        typer.Option(
            help="Also measure the optional isolation forest: slow.", show_default="up to 500 principals"
        ),
    ] = None,
    peers: Annotated[
        bool | None, typer.Option(help="Also ask simpler methods.", show_default="up to 500 principals")
    ] = None,
    slow_peers: Annotated[
        bool, typer.Option("--slow-peers", help="Also those that take seconds a principal (dfencoder).")
    ] = False,
    real: Annotated[
        bool, typer.Option("--real", help="Also walk the real sets that travel with the project.")
    ] = False,
    newcomers: Annotated[
        bool,
        typer.Option(
            "--newcomers",
            help="Instead: attacks by principals hours old, and harmless first days (docs/explanation/detection.md).",
        ),
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Measure what is found and what is left in peace, beside simpler detectors on the same rows."""
    from pipelines.cli import console
    from pipelines.evaluation import newcomers as evaluation_newcomers
    from pipelines.evaluation.evaluate import EvaluationOptions, run_evaluation
    from pipelines.evaluation.organisations import seeds_for
    from pipelines.evaluation.real_datasets import evaluate_real_datasets as real_sets
    from pipelines.evaluation.report import print_evaluation

    loaded = settings_.load_settings(settings)
    if newcomers:
        with console.progress_bars(not json) as progress:
            rules = evaluation_newcomers.evaluate_newcomers(
                loaded, progress, principals, days, seeds_for(seed, final), attacks, keep
            )
        print_result({"rules": rules}, json, lambda: evaluation_newcomers.print_newcomers(rules))
        return
    with console.progress_bars(not json) as progress:
        figures = run_evaluation(
            sources or [],
            loaded,
            progress,
            principals=principals,
            days=days,
            seeds=seeds_for(seed, final),
            attacks=attacks,
            keep=keep,
            options=EvaluationOptions(peers, slow_peers, third),
        )
        figures |= {"real": real_sets(loaded, progress)} if real else {}
    print_result(figures, json, lambda: print_evaluation(figures))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where everything the demo makes is put.")] = Path("build/demo"),
    settings: SettingsFile = None,
) -> None:
    """Walk the whole road once: simulate an organisation, learn it, score its last week, show the alerts."""
    from pipelines.demo import run_demo

    run_demo(out, settings_.load_settings(settings))


@app.command()
def deliver(
    once: Annotated[bool, typer.Option("--once", help="What is due now, then leave.")] = False,
    desk: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Tell receivers of alerts what happened: webhooks, Slack, topics of Kafka, as `[deliver.NAME]` of the settings says.

    Each alert reaches each receiver at least once, under a key that stays the same, or is marked failed with the reason
    (`fingerprint deliveries list`). Several may run. Runs until SIGTERM, which finishes what is under way. Health and metrics:
    the settings `health.host` and `health.port`.
    """
    from pipelines.commands.deliveries import print_deliver_summary
    from pipelines.deliver import run_deliver

    figures = run_deliver(settings_.load_settings(settings), desk, once)
    print_result(figures, json, lambda: print_deliver_summary(figures))


@app.command()
def ingest(
    sqs: Annotated[
        str | None,
        typer.Option(
            "--sqs",
            metavar="QUEUE-URL",
            help="Read S3 objects instead, as this queue's notices name them (S3, SNS, EventBridge or CloudTrail); "
            "credentials, region and endpoint are boto3's: AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL ...",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Until where the topic ended at the start, or the queue is empty, then leave."
        ),
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Split what comes in the raw topic into records, keyed by who acted, for the events topic.

    What cannot be read becomes a dead letter; too many of them stop it. Runs until SIGTERM, which finishes the batch and
    commits. Health and metrics: the settings `health.host` and `health.port`.

    With --sqs a notice is deleted from the queue when all records of its objects have arrived. Several may share a queue:
    `fingerprint ingest --sqs https://sqs.eu-west-1.amazonaws.com/111122223333/trail`
    """
    from pipelines.cli import console

    loaded = settings_.load_settings(settings)
    if sqs:
        from pipelines.ingest import run_ingest_s3 as run_sqs

        figures = run_sqs(loaded, sqs, once)
    else:
        from pipelines.ingest import run_ingest

        figures = run_ingest(loaded, once)
    print_result(figures, json, lambda: console.print_ingest(figures))


@app.command()
def stream(
    bank: BankFolder = Path("bank"),
    desk: DatabaseUrl = None,
    once: Annotated[
        bool, typer.Option("--once", help="Until where the topic ended at the start, then leave.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Where there is no bank yet, wait for the first one.")
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Score the events topic as it fills: alerts to the desk and their topic, single votes to theirs.

    Several may run: they share the partitions, and each partition's state moves with it through `checkpoints.url`.
    Killed and started again, it goes on from the last snapshot and says the same again under the same ids. A bank that is
    published or rolled back to takes over within `bank.poll_interval_seconds` and a snapshot. Runs until
    SIGTERM, which finishes the batch, remembers and commits. Health and metrics: the settings `health.host` and
    `health.port`.
    """
    from pipelines.cli import console
    from pipelines.stream import run_stream

    figures = run_stream(settings_.load_settings(settings), bank, desk, once, wait)
    print_result(figures, json, lambda: console.print_stream(figures))


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Where to listen.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0 takes any that is free.", show_default="8080")
    ] = None,
    desk: DatabaseUrl = None,
    bank: BankFolder = Path("bank"),
    settings: SettingsFile = None,
) -> None:
    """The analysts' pages and the API, over HTTP, until SIGTERM.

    The first start prints a link that makes the first admin, once: no password exists before somebody chose it. In front of
    anything but this machine put a proxy with TLS, and name it: `web.public_url` (docs/explanation/alert-store.md).
    """
    from pipelines.serve import run_web_app

    run_web_app(settings_.load_settings(settings, options={"web": {"host": host, "port": port}}), desk, bank)


@app.command()
def backend(
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Read some records by it and by the CPU: exit status 3 if they differ."),
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Say what reads and scores here, and why: which libraries, which device, how much memory (docs/gpu.md).

    The setting `backend` (auto, cpu, cuda; FINGERPRINT_BACKEND) chooses; auto takes a GPU that works and reads as the CPU does.
    """
    from pipelines.runtime.backend import backend_report, print_backend_report

    said = backend_report(settings_.load_settings(settings).backend, prove)
    print_result(said, json, lambda: print_backend_report(said))
    exit_refused(said["proof"] and said["proof"]["difference"])


@app.command()
def replay(
    sources: Sources,
    topic: Annotated[
        str | None, typer.Option(help="Where to send them.", show_default="the raw topic of the settings")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Records a second.", show_default="no limit")] = None,
    speed: Annotated[
        float | None, typer.Option(help="Times real time, by eventTime.", show_default="no limit")
    ] = None,
    keyed: Annotated[
        bool, typer.Option("--keyed", help="Key each record by its principal, as ingest does.")
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Send records from files, folders or S3 to a topic, as fast as asked for."""
    from pipelines.cli import console
    from pipelines.replay import run_replay

    with console.progress_bars(not json) as progress:
        figures = run_replay(sources, topic, settings_.load_settings(settings), progress, rate, speed, keyed)
    print_result(figures, json, lambda: console.print_replay(figures))


@app.command()
def rehearse(
    principals: Annotated[int, typer.Option(min=1, help="People, machines and services.")] = 40,
    days: Annotated[int, typer.Option(min=4, help="Days of traffic; the last is yesterday (UTC).")] = 20,
    attacks: Annotated[int, typer.Option(min=0, help="Attack sessions in the last quarter.")] = 4,
    seed: Annotated[int, typer.Option(help="The same seed gives the same organisation.")] = 7,
    speed: Annotated[float, typer.Option(help="Times real time, for the last quarter.")] = 3600.0,
    folder: Annotated[
        Path,
        typer.Option(
            help="Where it keeps records, labels.jsonl, and what it has done, which is not done again."
        ),
    ] = Path("demo"),
    bank: BankFolder = Path("bank"),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the records when they are sent.")] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Try a deployment out: an organisation that does not exist works, and is attacked, before your eyes.

    Sends three quarters of the days to the raw topic at once, waits until somebody has trained a bank of them (`fingerprint
    retrain`), then sends the last days, in which the attacks are, at --speed times real time. SIGTERM ends it; started again it
    goes on. It is what `docker compose --profile demo up` runs. Not on a deployment that watches real accounts: the bank would
    learn this organisation too.
    """
    from pipelines.simulate_live import SimulatedOrganisation, print_live_simulation, run_live_simulation

    organisation = SimulatedOrganisation(principals, days, attacks, seed)
    figures = run_live_simulation(organisation, folder, bank, speed, keep, settings_.load_settings(settings))
    print_result(figures, json, lambda: print_live_simulation(figures))


def _workers_override(where: str | None) -> dict[str, dict[str, Any]]:
    """What `--workers` says of the settings."""
    return {"workers": {"scheduler": where}}


def main() -> None:
    """Run a program; what the user can mend is one sentence and exit status 2, never a traceback. What it writes is for its
    owner alone."""
    private_files.restrict_new_files()
    sys.excepthook = _report_unexpected_error
    try:
        status = app(standalone_mode=False)
    except FingerprintError as error:
        _exit_with_error(str(error))
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        _exit_with_error(
            f"{error.format_message()} (see `{context.command_path if context else 'fingerprint'} --help`)"
        )
    except ModuleNotFoundError as error:
        if (extra := EXTRAS.get((error.name or "").partition(".")[0])) is None:
            raise
        _exit_with_error(f"{error.name} is not installed: {how_to_install(extra)} has it")
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _exit_with_error(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)


def _exit_with_error(sentence: str) -> None:
    print(f"fingerprint: {mask_credentials(' '.join(sentence.split()))}", file=sys.stderr)
    sys.exit(2)


def _report_unexpected_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print the traceback of what nobody foresaw, without the passwords that libraries repeat from URLs."""
    print(mask_credentials("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)
