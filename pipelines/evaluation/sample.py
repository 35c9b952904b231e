"""A small organisation, simulated, learned and judged in some seconds: what notebooks look at until records are brought.

Example:
    >>> sample = organisation()
    >>> int(sample.judged["session"].nunique())     # attack sessions, all in the last of the four weeks
    12

Two weeks are learned and two judged, of which the first is an ordinary one. It is made in the folder that the environment
variable NOTEBOOKS_FOLDER names, once, and opened there from then on; without one, it is made for each process anew.
"""

from __future__ import annotations

import os
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from fingerprint.core.settings import Settings
from fingerprint.evaluation.labels import attack_labels, read_labels
from pipelines.cli import console
from pipelines.evaluation.backtest_result import ABOUT_FILE, Backtest, open_backtest

PRINCIPALS, DAYS, SEED, ATTACKS, SCALE = 20, 28, 5, 12, 0.4
TRAINING_SHARE = 0.5  # of the days; the attacks are in the last quarter
FOLDER_VARIABLE = "NOTEBOOKS_FOLDER"


class NotebookSample(Backtest):
    """A trial with labels: judged events have `session` and `strength` of the attack they belong to, missing for most."""

    @cached_property
    def scored_events(self) -> pd.DataFrame:
        known = attack_labels(read_labels(self.sources))[["event_id", "session", "strength"]]
        return super().scored_events.merge(known, on="event_id", how="left", validate="1:1")

    @property
    def quiet_and_attacked_weeks(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The judged events of the ordinary week, and those of the week with the attacks."""
        late = self.scored_events["event_time"] >= self.split_time + pd.Timedelta(
            days=DAYS * TRAINING_SHARE / 2
        )
        return self.scored_events[~late], self.scored_events[late]


def load_sample() -> NotebookSample:
    """The sample, learned and judged now if it was not before; torch is needed only then."""
    place, settings = sample_folder() / "trial", Settings()
    if not (place / ABOUT_FILE).exists():
        from pipelines.evaluation.backtest import run_backtest

        run_backtest([str(records_folder())], place, settings, console.no_progress, TRAINING_SHARE)
    made = open_backtest(place, settings)
    return NotebookSample(made.folder, made.settings, made.about)


def records_folder() -> Path:
    """The folder of its CloudTrail: a file a day, and labels.jsonl."""
    place, done = sample_folder() / "records", sample_folder() / "simulated"
    if not done.exists():
        from pipelines.simulate import simulate_organisation

        simulate_organisation(PRINCIPALS, DAYS, SEED, place, ATTACKS, scale=SCALE)
        done.touch()
    return place


def sample_folder() -> Path:
    """Where the sample lies, and what else a notebook makes."""
    named = os.environ.get(FOLDER_VARIABLE)
    place = Path(named) if named else Path(_temporary_folder().name)
    place.mkdir(parents=True, exist_ok=True)
    return place


@cache
def _temporary_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="fingerprint-notebooks-")
