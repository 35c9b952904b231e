"""Commands about thresholds: the current ones, estimates for other ones, and overrides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.common import database_url, load_settings, print_result
from pipelines.cli.options import DatabaseUrl, Json, SettingsFile

thresholds_app = typer.Typer(help="Thresholds of the detectors: show, estimate, override.")


FEWEST_ALERTS_PER_DAY = 0.01  # none a day would be a threshold above every vote: a queue that stays empty


OptionalBank = Annotated[
    Path | None,
    typer.Option(
        "--bank",
        envvar="FINGERPRINT_BANK_FOLDER",
        help="The folder of the bank (all fingerprints).",
        show_default="bank",
    ),
]


@thresholds_app.command("show")
def threshold_show(
    bank: OptionalBank = None,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Show the threshold that holds now, as the z that it is for the served bank, and every override with its author."""
    from pipelines.commands import thresholds as threshold_commands

    loaded = load_settings(settings)
    figures = threshold_commands.show_threshold(database_url(database, settings), loaded, bank)
    print_result(figures, json, lambda: threshold_commands.print_threshold(figures))


EstimateDays = Annotated[float, typer.Option(min=1, help="Days of history that are used.")]


@thresholds_app.command("estimate")
def threshold_estimate(
    bank: OptionalBank = None,
    database: DatabaseUrl = None,
    days: EstimateDays = 14.0,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Estimate the threshold for 1 to 50 alerts a day, and what it finds.

    Uses the single votes of the last days in the database. *Confirmed attacks* are alerts triaged as true positives,
    *attack sessions* are labelled attack calls made by the bank's own principals, as the autoencoder alone sees them.
    """
    from pipelines.commands import thresholds as threshold_commands

    loaded = load_settings(settings)
    rows = threshold_commands.estimate_thresholds(database_url(database, settings), bank, loaded, days)
    print_result(rows, json, lambda: threshold_commands.print_threshold_estimates(rows))


OverrideWhy = Annotated[str, typer.Option(metavar="REASON", help="The reason, for the history.")]
Threshold = Annotated[
    float | None,
    typer.Option(help="The threshold of alerts, a z-score.", show_default="the settings"),
]
AlertsPerDay = Annotated[
    float | None,
    typer.Option(
        min=FEWEST_ALERTS_PER_DAY, help="Take the threshold that shows at most so many, by the stored votes."
    ),
]
HideAll = Annotated[
    bool, typer.Option("--force", help="Also a threshold or quorum that would have shown no alert at all.")
]
Quorum = Annotated[int | None, typer.Option(help="Votes that make a verdict.", show_default="the settings")]


@thresholds_app.command("set")
def threshold_set(
    why: OverrideWhy,
    threshold: Threshold = None,
    alerts_per_day: AlertsPerDay = None,
    quorum: Quorum = None,
    force: HideAll = False,
    database: DatabaseUrl = None,
    settings: SettingsFile = None,
    json: Json = False,
) -> None:
    """Override the threshold and the quorum of the settings from now on.

    Streams apply it by their next checkpoint, `score` in its next run. Without `--threshold`, `--alerts-per-day` and `--quorum`
    the settings hold again. A number of alerts a day that cannot be met is refused, and without `--force` a threshold or
    quorum that would have shown none of the alerts of the last 14 days: nothing is changed.
    """
    from pipelines.commands import thresholds as threshold_commands

    loaded = load_settings(settings)
    figures = threshold_commands.set_threshold(
        database_url(database, settings), loaded, why, threshold, quorum, alerts_per_day, force
    )
    print_result(figures, json, lambda: threshold_commands.print_threshold(figures))
