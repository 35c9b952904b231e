"""The command `evaluate`: what detection finds, and what stays quiet, in simulated and real organisations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.common import exit_refused, load_settings, print_result
from pipelines.cli.options import Json, SettingsFile

EvaluateSources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SOURCE]...",
        help="A folder of records with labels.jsonl; without one, simulated organisations.",
        show_default=False,
    ),
]
EvaluatePrincipals = Annotated[int, typer.Option(min=2, help="Size of each simulated organisation.")]
EvaluateDays = Annotated[int, typer.Option(min=8, help="Days simulated; the last quarter is judged.")]
EvaluateSeed = Annotated[
    list[int] | None, typer.Option(help="One organisation a seed; may be repeated.", show_default="0")
]
FinalSeeds = Annotated[
    bool,
    typer.Option(
        "--final",
        help="The three seeds, or the worlds, that are kept for the final table: never tune by them, and look at them once.",
    ),
]
Worlds = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Instead of seeds: so many drawn worlds, their mean and the worst (docs/explanation/evaluation.md). The last "
        "line of the output says how long a world took and what it held.",
        show_default=False,
    ),
]
WorldWorkers = Annotated[
    int | None,
    typer.Option(
        "--world-workers",
        min=1,
        help="Worlds that are evaluated at a time, each in a process of its own.",
        show_default="as many as there are cores and free memory for",
    ),
]
EvaluateAttacks = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Attack sessions in each organisation.",
        show_default="one for ten principals, 12 to 96",
    ),
]
EvaluateKeep = Annotated[
    Path | None,
    typer.Option(help="A folder that keeps simulated organisations for later runs.", show_default=False),
]
ThirdDetector = Annotated[
    bool | None,
    typer.Option(
        help="Evaluate the optional isolation forest too: slow.", show_default="up to 600 principals"
    ),
]
WithPeers = Annotated[
    bool | None,
    typer.Option(help="Evaluate simpler methods too.", show_default="up to 600 principals"),
]
WithSlowPeers = Annotated[
    bool, typer.Option("--slow-peers", help="Also those that take seconds a principal (dfencoder).")
]
WithTerms = Annotated[
    bool | None,
    typer.Option(
        "--terms/--no-terms",
        help="Measure each detector once more with each term of its score left out.",
        show_default="up to 600 principals",
    ),
]
RealDataSets = Annotated[
    bool,
    typer.Option(
        "--real",
        help="Evaluate the real data sets of the project too: read, moved sessions, labelled attacks.",
    ),
]
RealDataFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--real-data",
        help="With --real: a folder of more real sets, each a folder NAME with NAME.jsonl.gz.",
        exists=True,
        file_okay=False,
        show_default=False,
    ),
]
NewcomersOnly = Annotated[
    bool,
    typer.Option(
        "--newcomers",
        help="Instead: attacks by principals that are hours old, and benign first days (docs/explanation/detection.md).",
    ),
]
RetrainWeeks = Annotated[
    int | None,
    typer.Option(
        "--retrain",
        min=1,
        max=12,
        metavar="WEEKS",
        help="Instead: a bank that serves so many weeks and is trained again before each, with what its alert store holds "
        "(docs/explanation/evaluation.md); with --worlds in as many drawn worlds.",
        show_default=False,
    ),
]


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
