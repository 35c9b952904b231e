"""Commands that run to an end: demo, simulate, train, score, explain, backend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.cli.common import (
    exit_refused,
    load_settings,
    print_result,
    require_answering_broker,
    with_connect_timeout,
    with_database_timeout,
    workers_override,
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
from pipelines.cli.run import EXIT_NO_HISTORY

SimulateOut = Annotated[
    Path, typer.Option(help="The folder to fill: YYYY-MM-DD.jsonl.gz a day, and labels.jsonl.")
]
SimulateDays = Annotated[int, typer.Option(min=1, help="Days of traffic.")]
SimulateSeed = Annotated[int, typer.Option(help="The same seed gives the same bytes.")]
SimulateAttacks = Annotated[
    int, typer.Option(min=0, help="Attack sessions that are inserted into the last quarter.")
]
WithAnomalies = Annotated[
    bool, typer.Option(help="Benign anomalies in the last quarter too (14 days or more).")
]
SimulateUntil = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="The last day is the one before, and nothing happens after its midnight (UTC): 2026-01-31, or `today`.",
        show_default="from 2026-01-05 on",
    ),
]
SimulateWorld = Annotated[
    int | None,
    typer.Option(
        metavar="SEED",
        help="Draw another world by this seed, as `evaluate --worlds` does (docs/explanation/simulation.md); --days stays.",
        show_default=False,
    ),
]


def simulate(
    out: SimulateOut,
    principals: SimulatePrincipals = 50,
    days: SimulateDays = 28,
    seed: SimulateSeed = 0,
    attacks: SimulateAttacks = 4,
    surprises: WithAnomalies = True,
    until: SimulateUntil = None,
    world: SimulateWorld = None,
    json: Json = False,
) -> None:
    """Write CloudTrail records of a simulated organisation, with labelled attacks in them.

    For programs that read the clock, let it end now: `fingerprint simulate --until today --out records`.
    """
    from fingerprint.adapters.system import SystemClock
    from fingerprint.simulation.benign_anomalies import ANOMALY_PLANNERS
    from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters
    from pipelines.cli import console
    from pipelines.simulate import DEFAULT_START, check_folder, first_day, simulate_organisation

    start = first_day(until, days, SystemClock().now().date()) if until else DEFAULT_START
    check_folder(out, start, days)
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
            parameters=DEFAULT_WORLD if world is None else WorldParameters.draw(world),
            progress=lambda done, records: progress("simulating days", done, days),
        )
    figures = console.simulation_figures(written, days)
    print_result(figures, json, lambda: console.print_simulation(figures))


WorkersOption = Annotated[
    str | None,
    typer.Option(
        "--workers",
        help="Where the work is done: `local`, `dask` (processes of this machine), `dask-cuda`, or a scheduler's address. "
        "A run that was interrupted resumes when it is repeated.",
        show_default="local",
    ),
]
TrainSources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SOURCE]...",
        help="CloudTrail records: files, folders, globs or URLs (`s3://bucket/AWSLogs/`); .json, .jsonl, .gz or not.",
        show_default=False,
    ),
]
TrainTopic = Annotated[
    str | None,
    typer.Option(
        help="Read this Kafka topic too, from its beginning to where it ends now, without disturbing its other readers: "
        "`--topic fingerprint.events`.",
        show_default=False,
    ),
]
TrainSince = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="Learn from events of this time and later, by event time: 2026-01-01, or 2026-01-01T06:00 (UTC).",
        show_default=False,
    ),
]
TrainUntil = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Learn from events before this time.", show_default=False),
]
TrainDays = Annotated[
    float | None,
    typer.Option(help="Instead of --since: the last days before the newest event.", show_default=False),
]
ExclusionDatabase = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The database that says which events to leave out: an SQLAlchemy URL, or `none`.",
        show_default="the database of the settings, if it exists",
    ),
]
AllowImmature = Annotated[
    bool,
    typer.Option("--allow-immature", help="Serve a first bank although no entity of it is ready."),
]


def train(
    sources: TrainSources = None,
    topic: TrainTopic = None,
    since: TrainSince = None,
    until: TrainUntil = None,
    days: TrainDays = None,
    database: ExclusionDatabase = None,
    bank: BankFolder = Path("bank"),
    allow_immature: AllowImmature = False,
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


ScoreSince = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="Score events of this time and later, by event time: 2026-01-01, or 2026-01-01T06:00 (UTC). Objects of a trail "
        "whose day lies before are not fetched.",
        show_default=False,
    ),
]
ScoreUntil = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Score events before this time.", show_default=False),
]
ScoredEventsFile = Annotated[
    Path | None,
    typer.Option(
        help="Write every event with its scores, votes and verdict: FILE.parquet or FILE.jsonl.",
        show_default=False,
    ),
]
StateFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="A folder that carries the scorer's state from one run to the next.",
        show_default=False,
    ),
]


def score(
    sources: Sources,
    bank: BankFolder = Path("bank"),
    since: ScoreSince = None,
    until: ScoreUntil = None,
    database: DatabaseUrl = None,
    out: ScoredEventsFile = None,
    state: StateFolder = None,
    workers: WorkersOption = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Score events with all detectors and save the alerts of the quorum to the database.

    A run starts where the bank's training ended, or where the last run with the same --state did. Scoring the same input twice
    changes nothing in the database. Of a trail that goes on, `--since` names where the training ended:
    `fingerprint score s3://trail/AWSLogs/ --since 2026-01-25`. If the input begins before that, a run starts without history and
    says so; its exit status is 4 if it found no alert.
    """
    from fingerprint.core import time_range
    from pipelines.backfill import backfill
    from pipelines.cli import console
    from pipelines.score import score_sources

    span = time_range.parse_time_range(since, until)
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
            span=span,
        )
    print_result(figures, json, lambda: console.print_scoring(figures, database))
    _warn_of_missing_history(figures)


def _warn_of_missing_history(figures: dict[str, Any]) -> None:
    """Warn if a run judged events without a history; end with EXIT_NO_HISTORY if it found no alert either."""
    from fingerprint.registry.initial_state import missing_history_warning

    start = (figures[name] for name in ("started_from", "bank_version", "trained_until"))
    if warning := missing_history_warning(*start):
        typer.echo(f"warning: {warning}", err=True)
        if not figures["alerts"]:
            raise typer.Exit(EXIT_NO_HISTORY)


ExplainedEvents = Annotated[
    list[str], typer.Option("--event", metavar="EVENT_ID", help="The eventID of the record; may be repeated.")
]
ExplainSince = Annotated[
    str | None,
    typer.Option(
        metavar="DATE", help="Read events of this time and later: where `score` began.", show_default=False
    ),
]
ExplainUntil = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="Read events before this time: a day after the event is enough.",
        show_default=False,
    ),
]


def explain(
    sources: Sources,
    event: ExplainedEvents,
    bank: BankFolder = Path("bank"),
    since: ExplainSince = None,
    until: ExplainUntil = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Say why an event is an alert or none: the z and the vote of each detector, and what of it surprised.

    For an attack that was missed: `fingerprint explain s3://trail/AWSLogs/ --since 2026-01-25 --event 83de59c2-...`. Scores the
    events of its principal again and writes nothing. Give the bank and the `--since` of the run that missed it.
    """
    from fingerprint.core import time_range
    from pipelines.cli import console
    from pipelines.explain import explain_sources, print_explanations

    span = time_range.parse_time_range(since, until)
    with console.progress_bars(not json) as progress:
        explained = explain_sources(sources, event, bank, load_settings(settings), progress, database, span)
    print_result(explained, json, lambda: print_explanations(explained))


DemoOut = Annotated[Path, typer.Option(help="The folder for everything the demo makes.")]
DemoUntil = Annotated[
    str,
    typer.Option(
        metavar="DATE",
        help="The last day is the one before: 2026-01-25, or `today`. The same date gives the same alerts.",
    ),
]
DemoServe = Annotated[
    bool, typer.Option("--serve", help="Serve the queue afterwards, until it is interrupted.")
]
DemoBrowser = Annotated[
    bool,
    typer.Option("--open-browser", help="With --serve: open the queue in a browser, if there is a display."),
]


def demo(
    out: DemoOut = Path("build/demo"),
    until: DemoUntil = "today",
    serve: DemoServe = False,
    open_browser: DemoBrowser = False,
    host: Host = None,
    port: Port = None,
    settings: SettingsFile = None,
) -> None:
    """Run the whole detection pipeline once: simulate an organisation, train, score its last days, show the alerts.

    The simulated days end today. `fingerprint demo --serve` then serves the queue until it is interrupted, and prints the link
    that makes the first account.
    """
    from fingerprint.adapters.system import SystemClock
    from pipelines.demo import DemoFolder, browser_opener, run_demo
    from pipelines.serve import run_web_app

    folder, loaded = DemoFolder(out), load_settings(settings, {"web": {"host": host, "port": port}})
    run_demo(folder, loaded, SystemClock().now().date(), until)
    if serve or open_browser:
        opener = browser_opener() if open_browser else None
        run_web_app(loaded, folder.database_url, folder.bank, opener)


ProveBackend = Annotated[
    bool,
    typer.Option("--prove", help="Read some records by it and by the CPU: exit status 3 if they differ."),
]


def backend(
    prove: ProveBackend = False,
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
