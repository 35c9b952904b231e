"""Commands that run to an end: simulate, train, score, evaluate, demo, backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    AllowImmature,
    BankFolder,
    DatabaseUrl,
    DemoBrowser,
    DemoOut,
    DemoServe,
    DemoUntil,
    EvaluateAttacks,
    EvaluateDays,
    EvaluateKeep,
    EvaluatePrincipals,
    EvaluateSeed,
    EvaluateSources,
    ExclusionDatabase,
    FinalSeeds,
    Host,
    Json,
    NewcomersOnly,
    Port,
    ProveBackend,
    RealDataFolders,
    RealDataSets,
    RetrainWeeks,
    ScoredEventsFile,
    ScoreSince,
    ScoreUntil,
    SettingsFile,
    SimulateAttacks,
    SimulateDays,
    SimulateOut,
    SimulatePrincipals,
    SimulateSeed,
    SimulateUntil,
    SimulateWorld,
    Sources,
    StateFolder,
    ThirdDetector,
    TrainDays,
    TrainSince,
    TrainSources,
    TrainTopic,
    TrainUntil,
    WithAnomalies,
    WithPeers,
    WithSlowPeers,
    WithTerms,
    WorkersOption,
    Worlds,
    WorldWorkers,
)
from pipelines.cli.run import EXIT_NO_HISTORY


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


def evaluate(
    sources: EvaluateSources = None,
    principals: EvaluatePrincipals = 50,
    days: EvaluateDays = 28,
    seed: EvaluateSeed = None,
    final: FinalSeeds = False,
    attacks: EvaluateAttacks = None,
    keep: EvaluateKeep = None,
    third: ThirdDetector = None,
    peers: WithPeers = None,
    slow_peers: WithSlowPeers = False,
    real: RealDataSets = False,
    real_data: RealDataFolders = None,
    newcomers: NewcomersOnly = False,
    retrain: RetrainWeeks = None,
    terms: WithTerms = None,
    worlds: Worlds = None,
    world_workers: WorldWorkers = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Measure what is found and what stays quiet, beside simpler detectors on the same rows.

    With --worlds it ends with status 3 if a detector's vote changes nothing: neither an alert nor what is found, in any world.
    """
    from fingerprint.evaluation.idle_votes import describe_idle
    from pipelines.cli import console
    from pipelines.evaluation.evaluate import EvaluationOptions, run_evaluation
    from pipelines.evaluation.labelled_sets import evaluate_real_sets
    from pipelines.evaluation.newcomers import evaluate_newcomers, print_newcomers
    from pipelines.evaluation.organisations import Organisation, seeds_for
    from pipelines.evaluation.real_datasets import evaluate_real_datasets
    from pipelines.evaluation.report import print_evaluation
    from pipelines.evaluation.retraining import evaluate_retraining, print_retraining
    from pipelines.evaluation.worlds import evaluate_worlds, print_worlds, refuse_beside

    loaded, seeds = load_settings(settings), seeds_for(seed, final)
    organisation = Organisation(principals, days, attacks, keep)
    options = EvaluationOptions(peers, slow_peers, third, terms)
    if worlds or retrain:
        own = {"SOURCE": sources, "--real": real or real_data, "--newcomers": newcomers}
        refuse_beside("--worlds" if worlds else "--retrain", own | {"--seed": worlds and seed})
    with console.progress_bars(not json) as progress:
        if retrain:
            show = print_retraining
            figures = evaluate_retraining(
                loaded, progress, retrain, seeds, worlds, final, organisation, world_workers
            )
        elif worlds:
            show = print_worlds
            figures = evaluate_worlds(loaded, progress, worlds, final, organisation, options, world_workers)
        elif newcomers:
            show, figures = print_newcomers, evaluate_newcomers(loaded, progress, seeds, organisation)
        else:
            show = print_evaluation
            figures = run_evaluation(sources or [], loaded, progress, None, organisation, seeds, options)
            if real or real_data:
                figures["real"] = evaluate_real_datasets(loaded, progress)
                figures["real_attacks"] = evaluate_real_sets(loaded, progress, real_data or [])
    print_result(figures, json, lambda: show(figures))
    exit_refused(describe_idle(figures["idle_votes"]) if worlds and not retrain else None)


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


COMMANDS = (demo, simulate, train, score, evaluate, backend)
