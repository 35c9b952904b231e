"""Thresholds chosen as alerts a day: what others would have shown, by the votes that a desk remembers.

Example:
    >>> past = Past.of(desk.votes(since=since), desk.standing(), settings, desk.alerts_since(since))
    >>> past.of_quorum(2).threshold_for(alerts_per_day=5)
    3.6
    >>> applied(settings, desk.tuned()).autoencoder.threshold
    3.6

A desk keeps single votes from a z of `database.min_vote_score` on: the autoencoder's by event, the spectral detector's by
interval of a series. An event is taken to have its interval's vote whichever series of its entity or principal it was given to,
though the event may not be counted in that one. So what is said here of alerts a day is at most too many;
docs/how-to/tune-thresholds.md says by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from fingerprint.alerting.grouping import alert_ids
from fingerprint.analysis.threshold_what_if import ThresholdWhatIf
from fingerprint.core.alert import LEVELS, Decision, FingerprintError
from fingerprint.core.case import ThresholdEstimate, ThresholdOverride
from fingerprint.core.settings import Settings
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import interval_detectors
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector

INTERVAL_ID_PREFIX = "interval:"  # how the id of a vote on an interval begins; a silence is never a verdict
DAY_SECONDS = 86_400  # seconds
PEER_LEVELS = LEVELS[LEVELS.index("peer") :]
CONFIRMED: Decision = "true_positive"


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
