"""What another threshold would have shown: alerts a day and attacks found, of events that were judged with every z.

Example:
    >>> tuned = Tuning.of(tried.judged, settings, days=7)       # the columns of `fingerprint score --out`
    >>> tuned.threshold_for(alerts_per_day=5)
    3.1
    >>> tuned.alerts_per_day(3.1)
    4.9

A z does not depend on its threshold, so nothing has to be judged again: an event's *reach* is the highest threshold at which
it is still a verdict, and that of an alert (a principal in a window) is its events' highest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting.grouping import alert_ids
from fingerprint.core.alert import LEVELS, vote_column, z_column
from fingerprint.core.settings import Settings
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import detector_names
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector

Floats = NDArray[np.float64]
LEAST_SHARE = 0.1  # of an alert's events, for it to be about the attack


@dataclass(frozen=True)
class ThresholdWhatIf:
    """`events`: event_time, group (the alert it would belong to) and reach of each event that some threshold shows, with
    `session` where it is known. `sessions` is how many attack sessions there are, `days` how long was judged."""

    events: pd.DataFrame
    sessions: int
    days: float

    @classmethod
    def from_scored_events(
        cls, scored: pd.DataFrame, settings: Settings, days: float, detector: str = AutoencoderDetector.name
    ) -> ThresholdWhatIf:
        """`judged`: the columns of `fingerprint score --out`, and `session` where attacks are known. The other detectors keep
        their thresholds."""
        reach = decisive_thresholds(scored, settings, detector)
        named = alert_ids(scored, np.ones(len(scored), bool), settings)
        session = scored["session"] if "session" in scored else pd.Series(pd.NA, scored.index, dtype=object)
        events = pd.DataFrame(
            {"event_time": scored["event_time"], "group": named, "reach": reach, "session": session}
        )
        return cls(events[reach > -np.inf], int(session.nunique()), days)

    @cached_property
    def alert_reach(self) -> pd.Series:
        """The reach of each alert, highest first."""
        return self.events.groupby("group")["reach"].max().sort_values(ascending=False)

    def alerts_per_day(self, threshold: float) -> float:
        """Alerts a day that a threshold shows."""
        return float((self.alert_reach >= threshold).sum()) / self.days

    def threshold_for(self, alerts_per_day: float) -> float:
        """The lowest threshold, in hundredths, that shows at most so many alerts a day on these days."""
        reach = self.alert_reach.to_numpy()
        most = int(alerts_per_day * self.days)
        if most >= len(reach):
            return 0.0
        too_many = float(reach[most])  # the first alert beyond the budget
        return np.inf if np.isinf(too_many) else float(np.floor(too_many * 100 + 1) / 100)

    def recall(self, threshold: float) -> float:
        """Share of the attack sessions that an alert is about (`evaluation.metrics.hits`); 0 where none is known."""
        shown = self.events[self.events["reach"] >= threshold]
        return alert_session_pairs(shown)["session"].nunique() / self.sessions if self.sessions else 0.0

    def sweep(self, thresholds: Iterable[float]) -> pd.DataFrame:
        """One row a threshold: threshold, alerts_per_day, recall."""
        rows = [(each, self.alerts_per_day(each), self.recall(each)) for each in thresholds]
        return pd.DataFrame(rows, columns=["threshold", "alerts_per_day", "recall"])


def decisive_thresholds(
    scored: pd.DataFrame, settings: Settings, detector: str = AutoencoderDetector.name
) -> Floats:
    """The highest threshold of a detector at which each event is a verdict (N,): its z where one vote is lacking, more of a
    newcomer, for whom a share of the threshold is enough; infinity where the others suffice, minus infinity where it could not
    help."""
    names = detector_names(settings)
    z = {name: scored[z_column(name)].to_numpy(float) for name in names}
    votes = sum(scored[vote_column(name)].eq(True).to_numpy(int) for name in names if name != detector)
    opinions, level = ensemble.opinion_masks(z), pd.Categorical(scored["level"], LEVELS).codes
    lacking = ensemble.votes_needed(opinions, settings.voting.quorum) - votes
    own = z[detector] / np.where(
        ensemble.newcomer_mask(opinions, level), ensemble.NEWCOMER_THRESHOLD_SHARE, 1
    )
    reach: Floats = np.select([lacking <= 0, lacking == 1], [np.inf, own], -np.inf)
    return np.nan_to_num(reach, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def alert_session_pairs(shown: pd.DataFrame) -> pd.DataFrame:
    """Pairs of an alert (`group`) and a `session` it is about; `first` is its earliest event of it."""
    attack = shown[shown["session"].notna()]
    pairs = attack.groupby(["group", "session"], as_index=False, observed=True).agg(
        events=("event_time", "size"), first=("event_time", "min")
    )
    size = shown.groupby("group").size()
    about = pairs["events"] >= LEAST_SHARE * pairs["group"].map(size)
    return pairs.loc[about.to_numpy(dtype=bool), ["group", "session", "first"]]
