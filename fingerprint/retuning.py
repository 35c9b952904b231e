"""Thresholds chosen as alerts a day: what others would have shown, by the votes that a desk remembers.

Example:
    >>> past = Past.of(desk.votes(since=since), desk.standing(), settings)
    >>> past.of_quorum(2).threshold_for(alerts_per_day=5)
    3.6
    >>> applied(settings, desk.tuned()).autoencoder.threshold
    3.6

A desk keeps single votes from a z of `desk.vote_floor` on: the autoencoder's by event, the spectral detector's by interval of a
series. An event is taken to have its interval's vote whichever series of its entity or principal it was given to, though the
event may not be counted in that one. So what is said here of alerts a day is at most too many; docs/desk.md says by how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from fingerprint.casework import Tuned
from fingerprint.domain import Decision, FingerprintError
from fingerprint.scoring import alert_ids
from fingerprint.settings import Settings
from fingerprint.tuning import Tuning

SURGE = "interval:"  # how the id of a vote on an interval begins; a silence is never a verdict
DAY = 86_400  # seconds
CONFIRMED: Decision = "true_positive"


def applied(settings: Settings, tuned: Tuned | None) -> Settings:
    """The settings with what was chosen at the desk, which goes before files and environment. FingerprintError where the two do
    not fit."""
    if tuned is None or tuned.cleared:
        return settings
    table = settings.model_dump()
    if tuned.threshold is not None:
        table["autoencoder"] |= {"threshold": tuned.threshold, "alerts_per_day": None}
    if tuned.quorum is not None:
        table["voting"]["quorum"] = tuned.quorum
    try:
        return Settings.model_validate(table)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise FingerprintError(f"what was chosen at the desk does not fit the settings: {reason}") from None


def said(settings: Settings, tuned: Tuned | None) -> dict[str, object]:
    """For a log and for people: what events are held to, and at whose word."""
    by = {"by": tuned.by, "at": tuned.at.isoformat()} if tuned and not tuned.cleared else {}
    return {"threshold": settings.autoencoder.threshold, "quorum": settings.voting.quorum, **by}


@dataclass(frozen=True)
class Past:
    """`events`: event_time, principal, z (-inf where the autoencoder was silent), `counted` (the spectral detector voted on its
    interval) and group (the alert it would belong to); `confirmed` the alerts that analysts called true; `days` how long."""

    events: pd.DataFrame
    confirmed: frozenset[str]
    days: float
    quorum: int  # of the settings
    detectors: int

    @classmethod
    def of(cls, votes: pd.DataFrame, standing: Mapping[str, Decision], settings: Settings) -> Past:
        """`votes`: the columns of Vote, as the desk gives them; `standing`: what is decided of which alert."""
        seconds, votes = settings.spectral.interval_seconds, votes.reset_index(drop=True)
        time = votes["event_time"].astype("datetime64[us, UTC]").astype("int64").to_numpy() // 1_000_000
        spectral = votes["detector"].eq("spectral").to_numpy()
        surged = (
            spectral
            & votes["vote"].eq(True).to_numpy()
            & votes["event_id"].str.startswith(SURGE).to_numpy(bool)
        )
        events = votes[~spectral & votes["detector"].eq("autoencoder").to_numpy()]
        intervals = votes[surged].assign(interval=time[surged] // seconds - 1)
        of_events = time[events.index] // seconds
        counted = _among(events["entity"], of_events, intervals) | _among(
            events["principal"], of_events, intervals
        )
        asked = pd.concat(
            [
                events[["event_time", "principal", "z"]].assign(counted=counted),
                _within(intervals, seconds).assign(z=-np.inf, counted=True),
            ],
            ignore_index=True,
        )
        group = alert_ids(asked, np.ones(len(asked), bool), settings.alerts.window_seconds)
        confirmed = frozenset(name for name, word in standing.items() if word == CONFIRMED)
        days = max((int(time.max()) - int(time.min())) / DAY, 1.0) if len(time) else 1.0
        return cls(
            asked.assign(group=group), confirmed, days, settings.voting.quorum, len(settings.voting.detectors)
        )

    def of_quorum(self, quorum: int | None = None) -> Tuning:
        """What thresholds of the autoencoder would have shown; an attack is an alert that analysts confirmed."""
        wanted = self.quorum if quorum is None else quorum
        counted = self.events["counted"].to_numpy(bool)
        z = self.events["z"].to_numpy(float)
        reach = np.where(counted, z if wanted > 1 else np.inf, z if wanted == 1 else -np.inf)
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
        return Tuning(shown, int(shown["session"].nunique()), self.days)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a threshold and a quorum would have shown on the own history: alerts a day, how many of the `confirmed` attacks, and
    which share of the attacks known to all (`probe`), robbed and mimicked, would clear it by the autoencoder; None without a
    bank."""

    threshold: float
    quorum: int
    alerts_per_day: float
    confirmed: int
    found: int
    known: float | None


def foreseen(past: Past, threshold: float, quorum: int, known: NDArray[np.float32] | None = None) -> Foreseen:
    """`known` (A,): the z of each known attack's strangest call."""
    tuning = past.of_quorum(quorum)
    share = None if known is None or not len(known) else round(float((known >= threshold).mean()), 4)
    return Foreseen(
        round(threshold, 3),
        quorum,
        round(tuning.alerts_per_day(threshold), 2),
        tuning.sessions,
        round(tuning.recall(threshold) * tuning.sessions),
        share,
    )


def _among(keys: pd.Series, interval: NDArray[np.integer[Any]], intervals: pd.DataFrame) -> NDArray[np.bool_]:
    """Which events (N,), by entity or principal, lie in an interval that had a vote of that name."""
    voted = pd.MultiIndex.from_arrays([intervals["entity"].astype(object), intervals["interval"]])
    mine = pd.MultiIndex.from_arrays([keys.astype(object), interval])
    found: NDArray[np.bool_] = mine.isin(voted)
    return found


def _within(intervals: pd.DataFrame, seconds: int) -> pd.DataFrame:
    """A moment in each interval that had a vote: its beginning."""
    return intervals[["event_time", "principal"]].assign(
        event_time=intervals["event_time"] - pd.Timedelta(seconds=seconds)
    )
