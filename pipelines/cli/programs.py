"""Commands that run to an end: simulate, train, score, evaluate, demo, backend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.options import (
    BankFolder,
    DatabaseUrl,
    Json,
    SettingsFile,
    Sources,
    WorkersOption,
    exit_refused,
    load_settings,
    print_result,
    require_answering_broker,
    with_connect_timeout,
    with_database_timeout,
    workers_override,
)


def simulate(
    out: Annotated[
        Path, typer.Option(help="The folder to fill: YYYY-MM-DD.jsonl.gz a day, and labels.jsonl.")
    ],
    principals: Annotated[int, typer.Option(min=1, help="People, machines and services.")] = 50,
    days: Annotated[int, typer.Option(min=1, help="Days of traffic.")] = 28,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    attacks: Annotated[
        int, typer.Option(min=0, help="Attack sessions that are inserted into the last quarter.")
    ] = 4,
    surprises: Annotated[
        bool, typer.Option(help="Benign anomalies in the last quarter too (14 days or more).")
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
    """Write CloudTrail records of a simulated organisation, with labelled attacks in them.

    For programs that read the clock, let it end now: `fingerprint simulate --until today --out records`.
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
            help="Read this Kafka topic too, from its beginning to where it ends now, without disturbing its other readers: "
            "`--topic fingerprint.events`.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Learn from events of this time and later, by event time: 2026-01-01, or 2026-01-01T06:00 (UTC).",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Learn from events before this time.", show_default=False),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(help="Instead of --since: the last days before the newest event.", show_default=False),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The database that says which events to leave out: an SQLAlchemy URL, or `none`.",
            show_default="the database of the settings, if it exists",
        ),
    ] = None,
    bank: BankFolder = Path("bank"),
    allow_immature: Annotated[
        bool,
        typer.Option("--allow-immature", help="Serve a first bank although no entity of it is ready."),
    ] = False,
    workers: WorkersOption = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Learn fingerprints from a history and publish them as a bank.

    Some weeks of history are best; two days are the least: `fingerprint train s3://trail/AWSLogs/ --days 30`. Objects of a
    trail whose day lies outside are not fetched.

    Flagged events are learned slowly (docs/explanation/training.md): events of open or malicious alerts are left out; events of
    alerts that were triaged as benign or as false positives are learned (`fingerprint alerts triage`), and so are events with a
    single vote after `training.single_vote_exclusion_days`. Dispositions also move thresholds of their entities within limits.

    The summary says which entities are ready, which fall back to their principal, peer group or the organisation, and when the
    others will be ready. The promotion gate compares a new bank with the served one: a bank that misses what the served one
    finds, or differs too much, is kept and not served, and the exit status is 3. So is a first bank without a ready entity,
    unless --allow-immature is given.
    """
    from fingerprint.core import time_range
    from pipelines.cli import console
    from pipelines.train import train_bank

    span = time_range.parse_time_range(since, until, days)
    loaded = with_database_timeout(load_settings(settings, workers_override(workers)))
    if topic:
        require_answering_broker(loaded)
    with console.progress_bars(not json) as progress:
        figures = train_bank(
            sources or [],
            bank,
            loaded,
            progress,
            topic=topic,
            span=span,
            store=database and with_connect_timeout(database),
            allow_immature=allow_immature,
        )
    print_result(figures, json, lambda: console.print_training(figures))
    exit_refused(figures["refusal"])


def score(
    sources: Sources,
    bank: BankFolder = Path("bank"),
    database: DatabaseUrl = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write every event with its scores, votes and verdict: FILE.parquet or FILE.jsonl.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder that carries the scorer's state from one run to the next.",
            show_default=False,
        ),
    ] = None,
    workers: WorkersOption = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Score events with both detectors and save the alerts of the quorum to the database.

    A run starts where the bank's training ended, or where the last run with the same --state did. Scoring the same input twice
    changes nothing in the database. If the input begins inside the bank's training span, a run starts without history and says
    so; its exit status is 4 if it found nothing.
    """
    from pipelines.backfill import backfill
    from pipelines.cli import console
    from pipelines.score import missing_history_warning, score_sources

    loaded = load_settings(settings, workers_override(workers))
    with console.progress_bars(not json) as progress:
        run = score_sources if loaded.workers.scheduler == "local" else backfill
        figures = run(
            sources,
            bank,
            loaded,
            progress,
            database_url=with_connect_timeout(database or loaded.database.url),
            out=out,
            state_folder=state,
        )
    print_result(figures, json, lambda: console.print_scoring(figures))
    if warning := missing_history_warning(figures):
        typer.echo(f"warning: {warning}", err=True)
        if not any(figures["votes"].values()):
            raise typer.Exit(4)


def evaluate(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="A folder of records with labels.jsonl; without one, simulated organisations.",
            show_default=False,
        ),
    ] = None,
    principals: Annotated[int, typer.Option(min=2, help="Size of each simulated organisation.")] = 50,
    days: Annotated[int, typer.Option(min=8, help="Days simulated; the last quarter is judged.")] = 28,
    seed: Annotated[
        list[int] | None, typer.Option(help="One organisation a seed; may be repeated.", show_default="0")
    ] = None,
    final: Annotated[
        bool,
        typer.Option(
            "--final",
            help="The three seeds that are kept for the final table: never tune by them, and look at them once.",
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
        typer.Option(help="A folder that keeps simulated organisations for later runs.", show_default=False),
    ] = None,
    third: Annotated[
        bool | None,
        typer.Option(
            help="Evaluate the optional isolation forest too: slow.", show_default="up to 500 principals"
        ),
    ] = None,
    peers: Annotated[
        bool | None,
        typer.Option(help="Evaluate simpler methods too.", show_default="up to 500 principals"),
    ] = None,
    slow_peers: Annotated[
        bool, typer.Option("--slow-peers", help="Also those that take seconds a principal (dfencoder).")
    ] = False,
    real: Annotated[
        bool, typer.Option("--real", help="Evaluate the real data sets of the project too.")
    ] = False,
    newcomers: Annotated[
        bool,
        typer.Option(
            "--newcomers",
            help="Instead: attacks by principals that are hours old, and benign first days (docs/explanation/detection.md).",
        ),
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Measure what is found and what stays quiet, beside simpler detectors on the same rows."""
    from pipelines.cli import console
    from pipelines.evaluation import newcomers as evaluation_newcomers
    from pipelines.evaluation.evaluate import EvaluationOptions, run_evaluation
    from pipelines.evaluation.organisations import seeds_for
    from pipelines.evaluation.real_datasets import evaluate_real_datasets
    from pipelines.evaluation.report import print_evaluation

    loaded = load_settings(settings)
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
        figures |= {"real": evaluate_real_datasets(loaded, progress)} if real else {}
    print_result(figures, json, lambda: print_evaluation(figures))


def demo(
    out: Annotated[Path, typer.Option(help="The folder for everything the demo makes.")] = Path("build/demo"),
    settings: SettingsFile = None,
) -> None:
    """Run the whole detection pipeline once: simulate an organisation, train, score its last week, show the alerts."""
    from pipelines.demo import run_demo

    run_demo(out, load_settings(settings))


def backend(
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Read some records by it and by the CPU: exit status 3 if they differ."),
    ] = False,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Show which libraries and which device read and score here, and why (docs/how-to/gpu.md).

    The setting `backend` (auto, cpu, cuda; FINGERPRINT_BACKEND) chooses; auto takes a GPU that works and reads as the CPU does.
    """
    from pipelines.runtime.backend import backend_report, print_backend_report

    report = backend_report(load_settings(settings).backend, prove)
    print_result(report, json, lambda: print_backend_report(report))
    exit_refused(report["proof"] and report["proof"]["difference"])


COMMANDS = (demo, simulate, train, score, evaluate, backend)
