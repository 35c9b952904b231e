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
from fingerprint.evaluation.label_files import read_labels
from fingerprint.evaluation.labels import truth
from pipelines.cli import console
from pipelines.evaluation.backtest_result import ABOUT, Tried, opened

PRINCIPALS, DAYS, SEED, ATTACKS, SCALE = 20, 28, 5, 12, 0.4
LEARNED = 0.5  # of the days; the attacks are in the last quarter
FOLDER = "NOTEBOOKS_FOLDER"


class Sample(Tried):
    """A trial with labels: judged events have `session` and `strength` of the attack they belong to, missing for most."""

    @cached_property
    def judged(self) -> pd.DataFrame:
        known = truth(read_labels(self.sources))[["event_id", "session", "strength"]]
        return super().judged.merge(known, on="event_id", how="left", validate="1:1")

    @property
    def weeks(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The judged events of the ordinary week, and those of the week with the attacks."""
        late = self.judged["event_time"] >= self.cut + pd.Timedelta(days=DAYS * LEARNED / 2)
        return self.judged[~late], self.judged[late]


def organisation() -> Sample:
    """The sample, learned and judged now if it was not before; torch is needed only then."""
    place, settings = folder() / "trial", Settings()
    if not (place / ABOUT).exists():
        from pipelines.evaluation.backtest import trial

        trial([str(records())], place, settings, console.silent, LEARNED)
    made = opened(place, settings)
    return Sample(made.folder, made.settings, made.about)


def records() -> Path:
    """The folder of its CloudTrail: a file a day, and labels.jsonl."""
    place, done = folder() / "records", folder() / "simulated"
    if not done.exists():
        from pipelines.simulate import simulate

        simulate(PRINCIPALS, DAYS, SEED, place, ATTACKS, scale=SCALE)
        done.touch()
    return place


def folder() -> Path:
    """Where the sample lies, and what else a notebook makes."""
    named = os.environ.get(FOLDER)
    place = Path(named) if named else Path(_temporary().name)
    place.mkdir(parents=True, exist_ok=True)
    return place


@cache
def _temporary() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="fingerprint-notebooks-")
