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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from fingerprint.alerting.grouping import alert_ids
from fingerprint.core.alert import LEVELS, Decision, FingerprintError, vote_column, z_column
from fingerprint.core.case import ThresholdEstimate, ThresholdOverride
from fingerprint.core.settings import Settings
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import detector_names, interval_detectors
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector

Floats = NDArray[np.float64]
LEAST_SHARE = 0.1  # of an alert's events, for it to be about the attack

INTERVAL_ID_PREFIX = "interval:"  # how the id of a vote on an interval begins; a silence is never a verdict
DAY_SECONDS = 86_400  # seconds
PEER_LEVELS = LEVELS[LEVELS.index("peer") :]
CONFIRMED: Decision = "true_positive"


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


def apply_override(settings: Settings, override: ThresholdOverride | None) -> Settings:
    """The settings with what was chosen at the desk, which goes before files and environment. FingerprintError where the two do
    not fit."""
    if override is None or override.cleared:
        return settings
    table = settings.model_dump()
    if override.threshold is not None:
        table[AutoencoderDetector.name] |= {"threshold": override.threshold, "target_alerts_per_day": None}
    if override.quorum is not None:
        table["voting"]["quorum"] = override.quorum
    try:
        return Settings.model_validate(table)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise FingerprintError(f"what was chosen at the desk does not fit the settings: {reason}") from None


def describe_threshold(settings: Settings, override: ThresholdOverride | None) -> dict[str, object]:
    """For a log and for people: what events are held to, and at whose word."""
    by = {"by": override.by, "at": override.at.isoformat()} if override and not override.cleared else {}
    return {"threshold": settings.autoencoder.threshold, "quorum": settings.voting.quorum, **by}


@dataclass(frozen=True)
class VoteHistory:
    """`events`: event_time, principal, z (-inf where the autoencoder was silent; a newcomer's divided by the share of the
    threshold that is enough), `counted` (the spectral detector voted on its interval), `alone` (it had no opinion on it) and
    group (the alert it would belong to); `there` the alerts that lie on the desk, `confirmed` those that analysts called true;
    `days` how long."""

    events: pd.DataFrame
    stored_alerts: tuple[str, ...]
    confirmed: frozenset[str]
    days: float

    @classmethod
    def from_votes(
        cls,
        votes: pd.DataFrame,
        decisions: Mapping[str, Decision],
        settings: Settings,
        stored_alerts: Sequence[str] = (),
    ) -> VoteHistory:
        """`votes`: the columns of Vote, as the desk gives them; `standing`: what is decided of which alert."""
        seconds = settings.spectral.interval_seconds
        time = votes["event_time"].astype("datetime64[us, UTC]").astype("int64") // 1_000_000
        timed = votes.assign(interval=time // seconds)
        surges = _voted_intervals(timed, seconds)
        habits = timed[timed["detector"].eq(AutoencoderDetector.name)]
        counted = _in_voted_interval(habits, "entity", surges) | _in_voted_interval(
            habits, "principal", surges
        )
        alone = habits["alone"].eq(True)
        reach = habits["z"].where(
            ~(alone & habits["level"].isin(PEER_LEVELS)), habits["z"] / ensemble.NEWCOMER_THRESHOLD_SHARE
        )
        events = pd.concat(
            [
                habits[["event_time", "principal"]].assign(z=reach, counted=counted, alone=alone),
                surges[["event_time", "principal"]].assign(z=-np.inf, counted=True, alone=False),
            ],
            ignore_index=True,
        )
        group = alert_ids(events, np.ones(len(events), bool), settings)
        confirmed = frozenset(name for name, word in decisions.items() if word == CONFIRMED)
        days = max((time.max() - time.min()) / DAY_SECONDS, 1.0) if len(time) else 1.0
        return cls(events.assign(group=group), tuple(stored_alerts), confirmed, float(days))

    def what_if(self, quorum: int) -> ThresholdWhatIf:
        """What thresholds of the autoencoder would have shown, with one of two votes or both, or with its own where the spectral
        detector had no opinion; an attack is an alert that analysts confirmed."""
        counted, alone = (self.events[name].to_numpy(bool) for name in ("counted", "alone"))
        z = self.events["z"].to_numpy(float)
        reach = np.where(counted | alone, z, -np.inf) if quorum > 1 else np.where(counted, np.inf, z)
        session = self.events["group"].where(self.events["group"].isin(self.confirmed))
        table = pd.DataFrame(
            {
                "event_time": self.events["event_time"],
                "group": self.events["group"],
                "reach": reach,
                "session": session,
            }
        )
        shown = table[table["reach"] > -np.inf]
        return ThresholdWhatIf(shown, int(shown["session"].nunique()), self.days)


def estimate_threshold(
    what_if: ThresholdWhatIf, threshold: float, quorum: int, attack_scores: NDArray[np.float32] | None = None
) -> ThresholdEstimate:
    """`tuning`: of the quorum (`Past.of_quorum`). `known` (A,): the z of each known attack's strangest call."""
    share = (
        None
        if attack_scores is None or not len(attack_scores)
        else round(float((attack_scores >= threshold).mean()), 4)
    )
    return ThresholdEstimate(
        round(threshold, 3),
        quorum,
        round(what_if.alerts_per_day(threshold), 2),
        what_if.sessions,
        round(what_if.recall(threshold) * what_if.sessions),
        share,
    )


def _voted_intervals(timed: pd.DataFrame, seconds: int) -> pd.DataFrame:
    """The intervals in which the spectral detector voted, by entity or principal; `event_time` becomes their beginning. A vote
    on an interval is told when it is over."""
    voted = (
        timed["detector"].isin(interval_detectors(timed["detector"].unique()))
        & timed["vote"].eq(True)
        & timed["event_id"].str.startswith(INTERVAL_ID_PREFIX)
    )
    surges = timed[voted.to_numpy(bool)]
    begun = surges["event_time"] - pd.Timedelta(seconds=seconds)
    return surges.assign(event_time=begun, interval=surges["interval"] - 1)


def _in_voted_interval(events: pd.DataFrame, name: str, surges: pd.DataFrame) -> NDArray[np.bool_]:
    """Which events (N,), by their entity or principal, lie in an interval that had a vote of that name."""
    voted, mine = (
        pd.MultiIndex.from_arrays([table[key].astype(object), table["interval"]])
        for table, key in ((surges, "entity"), (events, name))
    )
    found: NDArray[np.bool_] = mine.isin(voted)
    return found
