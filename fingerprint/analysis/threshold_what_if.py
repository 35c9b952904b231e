"""Threshold what-if: alerts a day and attacks found under another threshold, from scored events or from stored votes.

Example:
    >>> what_if = ThresholdWhatIf.from_scored_events(scored, settings, days=7)       # the columns of `fingerprint score --out`
    >>> what_if.threshold_for(alerts_per_day=5)
    3.1
    >>> what_if.alerts_per_day(3.1)
    4.9
    >>> history = VoteHistory.from_votes(store.votes.read(since=since), store.cases.current_decisions(), settings)
    >>> history.what_if(quorum=2).threshold_for(alerts_per_day=5)
    3.6
    >>> apply_override(settings, store.thresholds.current()).alerts.threshold
    3.6

A z does not depend on the threshold, so nothing must be scored again. The *reach* of an event is the highest threshold at which
it is still a verdict; that of an alert is the highest of its events. Which events form an alert also depends on the threshold, so
alerts are counted by forming them (`alerting.grouping`).

A `VoteHistory` rests on the alert store. From MIN_REACH on, votes carry the reach of their event under the quorum of their time,
so for the quorum in force nothing is assumed. Otherwise the reach follows from the stored votes, which begin at a z of
`database.min_vote_score`: those of detectors of events by event, those of the spectral detector by interval of a series. That
makes two assumptions:
- An event has the vote of its interval from any series of its entity or principal, even if it was not counted in that series.
- The events of a stored alert had the second vote that they needed, because that may be lower than the stored votes.

Second votes are not stored, so below the threshold in force there are too few alerts a day then, and from it on never
too few (docs/how-to/tune-thresholds.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from fingerprint.alerting import grouping
from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import Doubles
from fingerprint.core.alert import LEVELS, Decision
from fingerprint.core.case import ThresholdEstimate, ThresholdOverride
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.settings.loading import explain_invalid
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection import ensemble
from fingerprint.detection.detectors import detector_names, interval_detectors, load_known_detectors
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.detection.scored_votes import alert_reach, calm_newcomer_rows, opinions_by_history
from fingerprint.state import alert_runs

LEAST_SHARE = 0.1  # an alert is about an attack if so many of its events belong to it

INTERVAL_ID_PREFIX = "interval:"  # start of the id of a vote on an interval; silence is never a verdict
PEER_LEVELS = LEVELS[LEVELS.index("peer") :]
ROUNDING = 0.005  # of alerts a day in an estimate
SETTINGS_VALUE = "from the settings"  # in place of a value that no override gives
CONFIRMED: Decision = "true_positive"


@dataclass(frozen=True)
class ThresholdWhatIf:
    """The events that some threshold shows.

    `events` has event_time, principal (hashed), interval, reach, `session` if known, and `group`, the stored alert of the event;
    events of votes also have `event_id`. `sessions` is the number of attack sessions, `days` the length of the scored time.
    """

    events: pd.DataFrame
    sessions: int
    days: float
    settings: Settings

    @classmethod
    def from_scored_events(cls, scored: pd.DataFrame, settings: Settings, days: float) -> ThresholdWhatIf:
        """Return the what-if of scored events: the columns of `fingerprint score --out`, and `session` if attacks are known."""
        reach = decisive_thresholds(scored, settings)
        session = scored["session"] if "session" in scored else pd.Series(pd.NA, scored.index, dtype=object)
        events = _place_events(scored, settings).assign(reach=reach, session=session, group=None)
        return cls(events[reach > -np.inf], int(session.nunique()), days, settings)

    @cached_property
    def alert_peaks(self) -> Doubles:
        """The reach of each alert (A,), highest first: a threshold shows those alerts that reach it."""
        principal, interval, reach = self._columns(self.events, "principal", "interval", "reach")
        gap = grouping.runs_of(self.settings).gap
        return reach[alert_runs.alert_peaks(principal, interval, reach, gap, len(reach))]

    @cached_property
    def stored_reach(self) -> pd.Series:
        """The reach of each stored alert, highest first."""
        return self.events.groupby("group")["reach"].max().sort_values(ascending=False)

    def shown_events(self, threshold: float) -> pd.DataFrame:
        """Return the events that a threshold shows; `group` is the alert that they would form."""
        shown = self.events[self.events["reach"] >= threshold]
        principal, interval = self._columns(shown, "principal", "interval")
        start = grouping.runs_of(self.settings).preview(principal, interval)
        return shown.assign(group=hashing.hash_pair(principal, start.astype(np.uint64)))

    def alerts_per_day(self, threshold: float) -> float:
        """Return the alerts a day that a threshold shows."""
        return self.shown_events(threshold)["group"].nunique() / self.days

    def threshold_for(self, alerts_per_day: float) -> float:
        """Return the lowest threshold, in hundredths, that shows at most `alerts_per_day` on these days."""
        reach, most = self.alert_peaks, int(alerts_per_day * self.days)
        if most >= len(reach):
            return 0.0
        too_many = float(reach[most])  # the first alert beyond the budget
        return np.inf if np.isinf(too_many) else float(np.floor(too_many * 100 + 1) / 100)

    def recall(self, threshold: float) -> float:
        """Return the share of the attack sessions that an alert is about (`alert_session_pairs`); 0 where none is known."""
        pairs = alert_session_pairs(self.shown_events(threshold))
        return pairs["session"].nunique() / self.sessions if self.sessions else 0.0

    def sweep(self, thresholds: Iterable[float]) -> pd.DataFrame:
        """Return one row a threshold: threshold, alerts_per_day, recall."""
        rows = [(each, self.alerts_per_day(each), self.recall(each)) for each in thresholds]
        return pd.DataFrame(rows, columns=["threshold", "alerts_per_day", "recall"])

    @staticmethod
    def _columns(events: pd.DataFrame, *names: str) -> list[NDArray[Any]]:
        return [events[name].to_numpy() for name in names]


def _place_events(events: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """Return time, principal (hashed) and interval of events."""
    interval = frames.epoch_seconds(events["event_time"]) // settings.spectral.interval_seconds
    principal = hashing.hash_strings(events["principal"])
    columns = {
        "event_time": events["event_time"],
        "principal": principal,
        "interval": interval.astype(np.int32),
    }
    return pd.DataFrame(columns, index=events.index)


def decisive_thresholds(scored: pd.DataFrame, settings: Settings) -> Doubles:
    """Return the reach of each scored event (N,), minus infinity for none; a newcomer's is higher, as a share is enough for it.

    A threshold of alerts below the vote threshold of a calibrated detector lowers the latter; the others keep theirs.
    """
    names = detector_names(settings)
    level = pd.Categorical(scored["level"], LEVELS).codes
    opinions, calm = opinions_by_history(scored, names), calm_newcomer_rows(scored, names)
    reach: Doubles = alert_reach(scored, names, settings.voting.quorum)
    return reach / ensemble.threshold_share(opinions, level, calm)


def alert_session_pairs(shown: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of an alert (`group`) and a `session` it is about; `first` is its earliest event of it."""
    attack = shown[shown["session"].notna()]
    times = attack.groupby(["group", "session"], observed=True)["event_time"]
    # `agg` costs twice as much
    pairs = pd.DataFrame({"events": times.size(), "first": times.min()}).reset_index()
    size = shown.groupby("group").size()
    about = pairs["events"] >= LEAST_SHARE * pairs["group"].map(size)
    return pairs.loc[about.to_numpy(dtype=bool), ["group", "session", "first"]]


def apply_override(settings: Settings, override: ThresholdOverride | None) -> Settings:
    """Return the settings with the override from the alert store, which wins over files and environment.

    Raise FingerprintError if the two do not fit.
    """
    if override is None or override.cleared:
        return settings
    table = settings.model_dump()
    if override.threshold is not None:
        table["alerts"]["threshold"] = override.threshold
    if override.quorum is not None:
        table["voting"]["quorum"] = override.quorum
    try:
        return Settings.model_validate(table)
    except ValidationError as error:
        reason = explain_invalid(error)
        raise FingerprintError(f"the threshold override does not fit the settings: {reason}") from None


def describe_threshold(settings: Settings, override: ThresholdOverride | None) -> dict[str, object]:
    """Return threshold (None: from the budget), budget and quorum in force, and who chose them, for a log and for people."""
    by = {"by": override.by, "at": override.at.isoformat()} if override and not override.cleared else {}
    options = settings.alerts
    return {
        "threshold": options.threshold,
        "budget_per_100_principals": options.budget_per_100_principals,
        "quorum": settings.voting.quorum,
        **by,
    }


@dataclass(frozen=True)
class VoteHistory:
    """Votes of some days, as events with the alert that each would belong to.

    Columns of `events`:
    - `event_id`: of the interval, for its events without a vote of their own; `event_time`, `principal`
    - `z`: -inf without a vote of the autoencoder; divided by the share of the threshold that is enough for a newcomer
    - `reach`: the stored one, under the quorum of its time; NaN if it is below MIN_REACH or was not stored
    - `others`: number of other detectors that voted on the event or its interval; `strong`: one of these votes is strong
    - `alone`: no other detector had an opinion, except one on how newcomers begin
    - `group`: the alert

    `stored_alerts` are in the alert store, `confirmed` are those that analysts called true, `days` is the length of the time.
    """

    events: pd.DataFrame
    stored_alerts: tuple[str, ...]
    confirmed: frozenset[str]
    days: float
    settings: Settings

    @classmethod
    def from_votes(
        cls,
        votes: pd.DataFrame,
        decisions: Mapping[str, Decision],
        settings: Settings,
        stored_alerts: Sequence[str] = (),
    ) -> VoteHistory:
        """Return the history of `votes`, with the columns of Vote, and the current `decisions` by alert."""
        seconds = settings.spectral.interval_seconds
        time = votes["event_time"].astype("datetime64[us, UTC]").astype("int64") // 1_000_000
        events = _events_with_votes(votes.assign(interval=time // seconds), seconds)
        placed = _place_events(events, settings)
        group = _stored_alert_of(placed, stored_alerts, settings)
        # In a stored alert others voted as often as it needed, whatever was kept of them: beside a strong vote by themselves.
        stored = group.isin(list(stored_alerts))
        needed = settings.voting.quorum - 1 + events["strong"].astype(np.int64)
        events = events.assign(
            principal=placed["principal"],
            interval=placed["interval"],
            group=group,
            others=events["others"].where(~stored, np.maximum(events["others"], needed)),
        )
        confirmed = frozenset(name for name, decision in decisions.items() if decision == CONFIRMED)
        days = max((time.max() - time.min()) / DAY_SECONDS, 1.0) if len(time) else 1.0
        return cls(events, tuple(stored_alerts), confirmed, float(days), settings)

    def what_if(self, quorum: int, in_force_since: datetime | None = None) -> ThresholdWhatIf:
        """Return the what-if of the threshold of alerts under a quorum. An attack is an alert that analysts called true.

        `in_force_since` is the time since when this quorum has been in force, None if it is not: from then on the stored reach of
        an event is that of this quorum.
        """
        reach = self._assumed_reach(quorum)
        if in_force_since is not None:
            reach = self._with_stored_reach(reach, in_force_since)
        session = self.events["group"].where(self.events["group"].isin(self.confirmed))
        columns = ["event_id", "event_time", "principal", "interval", "group"]
        table = self.events[columns].assign(reach=reach, session=session)
        shown = table[table["reach"] > -np.inf]
        return ThresholdWhatIf(shown, int(shown["session"].nunique()), self.days, self.settings)

    def _assumed_reach(self, quorum: int) -> Doubles:
        """Return the reach of each event (N,) under a quorum, as far as it follows from the stored votes.

        If no other detector knew the principal, the autoencoder's vote is enough. Whether such a newcomer began calmly is not
        stored, so a share of the threshold is assumed to be enough.
        """
        others, alone = self.events["others"].to_numpy(int), self.events["alone"].to_numpy(bool)
        z = self.events["z"].to_numpy(float)
        agreed = self.events["strong"].to_numpy(bool) & (others >= quorum)
        return ensemble.alert_reach(z, (others >= quorum - 1) | alone, agreed).astype(np.float64)

    def _with_stored_reach(self, assumed: Doubles, since: datetime) -> Doubles:
        """Return the reach of each event (N,): the stored one where there is one at `since` or later, else the assumed one.

        Once a reach is stored, that of a later event without one is below MIN_REACH, unless the event is in a stored alert: such
        an alert may still be open, and its events have a reach when all have voted.
        """
        stored, time = self.events["reach"].to_numpy(float), self.events["event_time"]
        known = ~np.isnan(stored) & (time >= since).to_numpy(bool)
        if not known.any():
            return assumed
        later = (time >= time[known].min()) & ~self.events["group"].isin(self.stored_alerts)
        low = np.minimum(assumed, np.nextafter(ensemble.MIN_REACH, 0))
        reach: Doubles = np.where(known, stored, np.where(later, low, assumed))
        return reach


def _events_with_votes(votes: pd.DataFrame, seconds: int) -> pd.DataFrame:
    """Return the columns of `VoteHistory.events` without `group` for each event with a vote; `votes` have a column interval.

    One more event stands for the other events of an interval with a spectral vote.
    """
    surges = _voted_intervals(votes, seconds)
    own = votes[votes["detector"].eq(AutoencoderDetector.name)]
    surged = _in_voted_interval(own, "entity", surges) | _in_voted_interval(own, "principal", surges)
    others = surged.astype(np.int64) + _votes_on_events(votes, own["event_id"])
    alone = own["alone"].eq(True)
    z = own["z"].where(~are_of_newcomers(own), own["z"] / ensemble.NEWCOMER_THRESHOLD_SHARE)
    return pd.concat(
        [
            own[["event_id", "event_time", "principal", "reach"]].assign(
                z=z, others=others, strong=_has_strong_vote(votes, own["event_id"]), alone=alone
            ),
            surges[["event_id", "event_time", "principal"]].assign(
                reach=np.nan, z=-np.inf, others=1, strong=False, alone=False
            ),
        ],
        ignore_index=True,
    )


def are_of_newcomers(votes: pd.DataFrame) -> pd.Series:
    """Return a mask (N,) of the votes on events of newcomers, for which a share of the threshold is enough."""
    return votes["alone"].eq(True) & votes["level"].isin(PEER_LEVELS)


def _stored_alert_of(placed: pd.DataFrame, stored: Sequence[str], settings: Settings) -> pd.Series:
    """Return the stored alert to which each event (N,) may belong, else the id of an alert of its own.

    The id of an alert tells the interval in which it began; it covers the principal's events until the next alert begins.
    """
    runs, cells = grouping.runs_of(settings), placed[["principal", "interval"]].drop_duplicates()
    cells = cells.sort_values(["principal", "interval"]).reset_index(drop=True)
    principal, interval = (cells[name].to_numpy() for name in cells)
    begins = np.isin(grouping.alert_names(principal, interval.astype(np.int64)), list(stored))
    part = hashing.hash_pair(principal, np.cumsum(begins).astype(np.uint64))
    cells["group"] = grouping.alert_names(principal, runs.preview(part, interval).astype(np.int64))
    named = placed.reset_index(names="row").merge(cells, how="left", on=["principal", "interval"])
    return named.set_index("row")["group"].reindex(placed.index)


def estimate_threshold(
    what_if: ThresholdWhatIf, threshold: float, quorum: int, attack_scores: NDArray[np.float32] | None = None
) -> ThresholdEstimate:
    """Return the estimate for a threshold, by the what-if of its quorum.

    `attack_scores` (A,) is the highest z of each known attack session.
    """
    sessions = None if attack_scores is None else len(attack_scores)
    flagged = None if attack_scores is None else int((attack_scores >= threshold).sum())
    return ThresholdEstimate(
        round(threshold, 3),
        quorum,
        round(what_if.alerts_per_day(threshold), 2),
        what_if.sessions,
        round(what_if.recall(threshold) * what_if.sessions),
        sessions,
        flagged,
    )


def judge_budget(
    estimate: ThresholdEstimate, budget: float, detectors: int, lowest: float
) -> ThresholdEstimate:
    """Return the estimate with a remark on a budget of alerts a day: `unmet` if it cannot be kept, or a `note`.

    `detectors` is the number of detectors that vote, `lowest` the lowest z of a stored vote.
    """
    shown = estimate.alerts_per_day
    if shown > budget + ROUNDING:
        more_votes = "ask for more votes, " if estimate.quorum < detectors else ""
        return replace(
            estimate,
            unmet=f"at most {budget:g} alerts a day cannot be met with {estimate.quorum} of {detectors} votes: a threshold of "
            f"{estimate.threshold:g} would still have shown {shown:g} a day; {more_votes}suppress what is noisy, or allow more",
        )
    if estimate.threshold <= lowest and shown < budget:
        return replace(
            estimate,
            note=f"{_votes_not_kept(lowest)}: with {estimate.quorum} of {detectors} votes no more than {shown:g} alerts a day "
            "can be estimated",
        )
    return estimate


def with_floor_note(estimate: ThresholdEstimate, lowest: float) -> ThresholdEstimate:
    """Return the estimate, with a note that it is too low if its threshold is below `lowest`, the lowest z of a stored vote."""
    if estimate.threshold >= lowest:
        return estimate
    return replace(estimate, note=f"{_votes_not_kept(lowest)}: there would have been more alerts")


def _votes_not_kept(lowest: float) -> str:
    return f"votes below a z of {lowest:g} are not kept (database.min_vote_score)"


def describe_overrides(history: Sequence[ThresholdOverride]) -> list[str]:
    """Return the change by each override of a history, the newest first: `threshold 3.20 -> 3.60`.

    Example:
        >>> describe_overrides(store.thresholds.history())
        ['threshold from the settings -> 3.60; votes needed from the settings -> 2']
    """
    before = [*history, None][1:]
    return [_describe_change(old, new) for new, old in zip(history, before, strict=True)]


def _describe_change(old: ThresholdOverride | None, new: ThresholdOverride) -> str:
    changes = []
    for label, name, form in (("threshold", "threshold", "{:.2f}"), ("votes needed", "quorum", "{}")):
        was, becomes = getattr(old, name, None), getattr(new, name)
        if was != becomes:
            texts = (SETTINGS_VALUE if value is None else form.format(value) for value in (was, becomes))
            changes.append(f"{label} {' -> '.join(texts)}")
    return "; ".join(changes) or "nothing changed"


def _votes_on_events(timed: pd.DataFrame, event_id: pd.Series) -> NDArray[np.int64]:
    """Return for each event (N,) the number of detectors of events, without the autoencoder, that voted on it."""
    names = set(timed["detector"].unique()) - {AutoencoderDetector.name}
    given = timed[timed["detector"].isin(names - set(interval_detectors(names))) & timed["vote"].eq(True)]
    count = given.groupby("event_id")["detector"].nunique()
    votes: NDArray[np.int64] = event_id.map(count).fillna(0).to_numpy().astype(np.int64)
    return votes


def _has_strong_vote(timed: pd.DataFrame, event_id: pd.Series) -> NDArray[np.bool_]:
    """Return a mask (N,) of the events on which another detector has a strong vote."""
    least = {each.name: each.strong_vote_z for each in load_known_detectors(timed["detector"].unique())}
    given = timed[timed["vote"].eq(True) & timed["z"].ge(timed["detector"].map(least).fillna(np.inf))]
    strong: NDArray[np.bool_] = event_id.isin(given["event_id"]).to_numpy(bool)
    return strong


def _voted_intervals(timed: pd.DataFrame, seconds: int) -> pd.DataFrame:
    """Return the intervals in which the spectral detector voted, by entity or principal.

    A vote on an interval carries the time at which it ended; `event_time` becomes its beginning.
    """
    voted = (
        timed["detector"].isin(interval_detectors(timed["detector"].unique()))
        & timed["vote"].eq(True)
        & timed["event_id"].str.startswith(INTERVAL_ID_PREFIX)
    )
    surges = timed[voted.to_numpy(bool)]
    begun = surges["event_time"] - pd.Timedelta(seconds=seconds)
    return surges.assign(event_time=begun, interval=surges["interval"] - 1)


def _in_voted_interval(events: pd.DataFrame, name: str, surges: pd.DataFrame) -> NDArray[np.bool_]:
    """Return a mask (N,) of the events in an interval of `surges`, by their entity or principal (`name`)."""
    voted, intervals = (
        pd.MultiIndex.from_arrays([table[key].astype(object), table["interval"]])
        for table, key in ((surges, "entity"), (events, name))
    )
    found: NDArray[np.bool_] = intervals.isin(voted)
    return found
