"""Group verdicts into alerts: one alert for each principal and run of intervals with verdicts.

Example:
    >>> groups = AlertGroups(explainer, state)
    >>> judged = groups.add(judged)                             # events of closed intervals, now with the column `alert_id`
    >>> alerts = groups.close(before=state.scorer.first_open_interval())     # the runs that are over
    >>> early = groups.build_grown(open_events)                 # their intervals are still open

Runs: verdicts of one principal belong to one run, and so to one alert, while less than `alerts.group_gap_seconds` lie between
two intervals with a verdict, up to MAX_ALERT_SECONDS (`state.alert_runs`). So an attack is not cut in two at a fixed hour.

Ids: the id of an alert is a hash of its principal and of the first interval of its run. That interval is certain once all
intervals before it are closed. An alert whose run begins in an open interval waits for this, at most for the allowed lateness. So
an id never changes, and no alert is ever merged with another one.

Support: an event *supports* an alert if it has no verdict, a calibrated detector voted for it, and its interval has one of the
alert's verdicts. The strongest of these join when the interval closes. They decide neither whether there is an alert nor how rare
it is; impact counts those of their actions that are grave or severe, new and succeeded. Events of a closed interval without a
verdict are not kept for a verdict that comes later: that would be a twentieth of all events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.explanation import build_alerts
from fingerprint.alerting.rarity import highest_calibrated_z
from fingerprint.alerting.support import Support, find_support
from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import Ints, occurrence_index
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.core.alert import GRAVITIES, Alert, vote_column
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.detectors import calibrated_detectors
from fingerprint.detection.scorer import ScoredEvents
from fingerprint.sources.active import SOURCE
from fingerprint.state.alert_runs import AlertRuns
from fingerprint.state.event_batch import Verdicts
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState

LATE_WINDOW = 1 << 40  # first number of a delivery window; above the number of any interval
MIN_GROWTH = 0.05  # an alert is built again when it has grown by more than this share
MAX_ALERT_SECONDS = DAY_SECONDS  # largest length of an alert; what follows is another one
# Events kept of one alert: those that did the gravest harm, then the most unusual, so that noise displaces neither.
MAX_ALERT_EVENTS = 10_000
MAX_SUPPORTING_EVENTS = 50  # more than a person reads


def runs_of(settings: Settings, state: ScorerState | None = None) -> AlertRuns:
    """Return the runs in a scorer's state, or no runs without a state."""
    seconds = settings.spectral.interval_seconds
    return AlertRuns(
        gap=settings.alert_gap_intervals,
        longest=-(-MAX_ALERT_SECONDS // seconds),
        table=state.alert_runs if state else None,
    )


def alert_ids(frame: pd.DataFrame, verdict: NDArray[np.bool_], settings: Settings) -> pd.Series:
    """Return the alert id of each event (N,), missing where `verdict` is false. No earlier run is continued."""
    some = frame[verdict]
    principal = hashing.hash_strings(some["principal"])
    interval = frames.epoch_seconds(some["event_time"]) // settings.spectral.interval_seconds
    start = alert_starts(some, principal, interval.astype(np.int32), runs_of(settings).preview, settings)
    return pd.Series(alert_names(principal, start), index=some.index, dtype=object).reindex(frame.index)


def alert_starts(
    frame: pd.DataFrame,
    principal: Hashes,
    interval: Ints,
    follow: Callable[[Hashes, Ints], Ints],
    settings: Settings,
) -> NDArray[np.int64]:
    """Return the start of each verdict's alert (N,), which names it together with the principal: the first interval of its run.

    An event that arrives more than `spectral.history_days` late belongs to the window of its delivery instead, which is numbered
    from LATE_WINDOW on. So an old archive that is read again becomes one alert for each principal, not one for each old day.
    """
    at = frames.epoch_seconds(frames.column_of(frame, "event_time"))
    delay = frame["delay"].to_numpy(np.int64) if "delay" in frame else np.zeros(len(frame), np.int64)
    late = delay >= settings.spectral.history_days * DAY_SECONDS
    start = LATE_WINDOW + (at + delay) // MAX_ALERT_SECONDS
    start[~late] = follow(principal[~late], interval[~late])
    return start


def alert_names(principal: Hashes, start: NDArray[np.int64]) -> list[str]:
    """Return the ids of alerts (N,): hashes of the principal (`hash_strings`) and the start (`alert_starts`)."""
    return [f"{name:016x}" for name in hashing.hash_pair(principal, start.astype(np.uint64))]


class AlertGroups:
    """Build the alert of each run when the run is over, and before that whenever the alert has grown.

    The pipeline's state holds verdicts and runs. `unsettled` (P,) are hashes of the principals with verdicts in open intervals
    whose run is not certain yet: they must be judged again in the next step.
    """

    def __init__(self, explainer: Explainer, state: PipelineState | None = None) -> None:
        self.explainer = explainer
        self.state = state or PipelineState(ScorerState(explainer.settings))
        self.unsettled: Hashes = np.empty(0, np.uint64)
        self._added: set[str] = set()  # alerts with verdicts that were added in this step

    def add(self, scored: ScoredEvents) -> ScoredEvents:
        """Keep the verdicts among events of closed intervals; return the events with the column `alert_id`."""
        grouped = self._group(scored, self._runs().assign)
        added = _select_verdicts(grouped)
        self.state.open_alerts.verdicts += added
        self._added = set().union(*(part.frame["alert_id"] for part in added))
        self._add_supporting(grouped)
        self._limit_events()
        return grouped

    def build_grown(self, scored: ScoredEvents | None) -> list[Alert]:
        """Build the alerts that have grown, by verdicts added in this step or by verdicts among `scored`, of open intervals.

        An alert is built again when it has grown by more than the share MIN_GROWTH. One that was published with verdicts of open
        intervals is also built again when these close: only then a detector that is `final_when_closed` has voted.
        """
        some = scored is not None and _is_verdict(scored).any()
        early = _select_verdicts(self._group(scored, self._runs().preview)) if scored and some else []
        early = self._leave_out_unsettled(early)
        early_ids = set().union(*(part.frame["alert_id"] for part in early))
        parts = _select_alerts(self.state.open_alerts.verdicts, self._added | early_ids) + early
        alerts = self._build_news(Verdicts.concat(parts), early_ids) if parts else []
        self._added = set()
        return alerts

    def _build_news(self, verdicts: Verdicts, early_ids: set[str]) -> list[Alert]:
        open_alerts = self.state.open_alerts
        sizes = verdicts.frame["alert_id"].value_counts()
        supporting = Counter(name for part in open_alerts.supporting for name in part.frame["alert_id"])
        sizes += [supporting[name] for name in sizes.index]
        before = sizes.index.map(lambda name: open_alerts.published_sizes.get(name, 0)).to_numpy(float)
        grown = sizes.to_numpy() > before * (1 + MIN_GROWTH)
        final = sizes.index.isin(open_alerts.provisional & self._added) & (sizes.to_numpy() >= before)
        news = sizes[grown | final]
        open_alerts.published_sizes |= {str(name): int(size) for name, size in news.items()}
        open_alerts.provisional -= {*news.index}
        open_alerts.provisional |= early_ids & {*news.index}
        selected = verdicts.take(verdicts.frame["alert_id"].isin(news.index).to_numpy())
        return list(build_alerts(*selected, self.explainer, self._support_of({*news.index})))

    def close(self, before: int | None = None) -> list[Alert]:
        """Build the alerts that no event of interval `before` or later can join (all, if None), and drop their verdicts."""
        done: list[Verdicts] = []
        kept: list[Verdicts] = []
        for part in self.state.open_alerts.verdicts:
            over = self._is_over(part, before)
            if over.any():
                done.append(part.take(over))
            if not over.all():
                kept.append(part.take(~over) if over.any() else part)
        self.state.open_alerts.verdicts = kept
        if not done:
            return []
        together = Verdicts.concat(done)
        ids = set(together.frame["alert_id"])
        for name in ids:
            self.state.open_alerts.published_sizes.pop(name, None)
        self.state.open_alerts.provisional -= ids
        alerts = list(build_alerts(*together, self.explainer, self._support_of(ids)))
        self._drop_supporting(ids)
        return alerts

    # --- which alert --------------------------------------------------------------------------------------------------

    def _runs(self) -> AlertRuns:
        return runs_of(self.explainer.settings, self.state.scorer)

    def _group(self, scored: ScoredEvents, follow: Callable[[Hashes, Ints], Ints]) -> ScoredEvents:
        """Return scored events with the columns `alert_id` and `alert_start` (-1 without a verdict)."""
        rows = np.flatnonzero(_is_verdict(scored))
        frame, batch = frames.select_rows(scored.table, rows), scored.batch
        starts = alert_starts(
            frame, batch.principal[rows], batch.interval[rows], follow, self.explainer.settings
        )
        start, names = np.full(len(batch), -1, np.int64), np.full(len(batch), None, object)
        start[rows], names[rows] = starts, alert_names(hashing.hash_strings(frame["principal"]), starts)
        return replace(
            scored, table=frames.with_columns(scored.table, {"alert_id": names, "alert_start": start})
        )

    def _leave_out_unsettled(self, early: list[Verdicts]) -> list[Verdicts]:
        """Return the verdicts whose run has a certain start; note the principals of the others in `unsettled`."""
        first_open = self.state.scorer.first_open_interval()
        self.unsettled, settled = np.empty(0, np.uint64), []
        for part in early:
            start = _starts_of(part)
            known = (start <= first_open) | (start >= LATE_WINDOW)
            self.unsettled = np.unique(part.batch.principal[~known])
            settled += [part.take(known)] if known.any() else []
        return settled

    def _is_over(self, part: Verdicts, before: int | None) -> NDArray[np.bool_]:
        start = _starts_of(part)
        if before is None:
            return np.ones(len(start), bool)
        settings = self.explainer.settings
        late = start >= LATE_WINDOW
        end = (start - LATE_WINDOW + 1) * MAX_ALERT_SECONDS
        run = np.where(late, 0, start).astype(np.int32)
        over: NDArray[np.bool_] = np.where(
            late,
            end <= before * settings.spectral.interval_seconds,
            self._runs().is_over(part.batch.principal, run, before),
        )
        return over

    def _limit_events(self) -> None:
        """Keep at most MAX_ALERT_EVENTS verdicts of each alert, and count the dropped ones."""
        verdicts = self.state.open_alerts.verdicts
        kept = _select_events(verdicts, MAX_ALERT_EVENTS)
        self.state.counters.dropped_events += _count(verdicts) - _count(kept)
        self.state.open_alerts.verdicts = kept

    # --- what supports an alert -----------------------------------------------------------------------------------------

    def _add_supporting(self, scored: ScoredEvents) -> None:
        """Keep, of these judged events, those that support an open alert: at most MAX_SUPPORTING_EVENTS for each alert."""
        open_alerts = self.state.open_alerts
        rows = np.flatnonzero(_has_calibrated_vote(scored) & ~_is_verdict(scored))
        if not len(rows) or not open_alerts.verdicts:
            return
        keys, names = _alerts_by_interval(open_alerts.verdicts)
        place, found = find_sorted(
            keys, hashing.in_interval(scored.batch.principal, scored.batch.interval)[rows]
        )
        if found.any():
            which = np.zeros(len(scored.batch), bool)
            which[rows[found]] = True
            taken = Verdicts(scored.batch, scored.table).take(which)
            frame = frames.with_columns(taken.frame, {"alert_id": names[place[found]]})
            parts = [*open_alerts.supporting, Verdicts(taken.batch, frame)]
            open_alerts.supporting = _select_events(parts, MAX_SUPPORTING_EVENTS)

    def _support_of(self, ids: Collection[str]) -> dict[str, Support]:
        """Return the support of these alerts, by id."""
        parts = _select_alerts(self.state.open_alerts.supporting, ids)
        return find_support(Verdicts.concat(parts), self.explainer) if parts else {}

    def _drop_supporting(self, ids: Collection[str]) -> None:
        open_alerts = self.state.open_alerts
        others = {name for part in open_alerts.supporting for name in part.frame["alert_id"]} - {*ids}
        open_alerts.supporting = _select_alerts(open_alerts.supporting, others)


def _select_events(parts: list[Verdicts], limit: int) -> list[Verdicts]:
    """Return at most `limit` events of each alert: those that did the gravest harm first, then the most unusual.

    The choice does not depend on where batches are cut.
    """
    if _count(parts) <= limit:
        return parts
    together = Verdicts.concat(parts)
    names = together.frame["alert_id"]
    if names.value_counts().iloc[0] <= limit:
        return parts
    z = highest_calibrated_z(together.batch, together.frame)
    harm = _harm_done(together.frame)
    order = np.lexsort((hashing.hash_strings(together.frame["event_id"]), -z, -harm))
    place = np.empty(len(order), np.intp)
    place[order] = occurrence_index(hashing.hash_strings(names)[order])
    return [together.take(place < limit)]


def _harm_done(frame: pd.DataFrame) -> NDArray[np.int8]:
    """Return the gravity of each event's action (N,), as a place in GRAVITIES; 0 if the event failed or is minor."""
    calls = list(zip(frame["service"].astype(str), frame["action"].astype(str), strict=True))
    gravity = {call: GRAVITIES.index(SOURCE.impact_of(*call, "").gravity) for call in set(calls)}
    failed = [bool(frames.text_or_empty(code)) for code in frame["error_code"].tolist()]
    harm = np.array(
        [0 if error else gravity[call] for call, error in zip(calls, failed, strict=True)], np.int8
    )
    return np.where(harm > GRAVITIES.index("minor"), harm, 0).astype(np.int8)


def _count(parts: list[Verdicts]) -> int:
    return sum(len(part.frame) for part in parts)


def _starts_of(part: Verdicts) -> NDArray[np.int64]:
    """Return the start of each event's alert (N,): an interval, or a delivery window (from LATE_WINDOW on) for a late event."""
    return np.asarray(frames.column_of(part.frame, "alert_start"))


def _select_alerts(parts: list[Verdicts], ids: Collection[str]) -> list[Verdicts]:
    """Return the events of these alerts, without empty parts."""
    if not ids:  # in most steps no alert grows
        return []
    known = [(part, part.frame["alert_id"].isin([*ids]).to_numpy()) for part in parts]
    return [part.take(which) for part, which in known if which.any()]


def _alerts_by_interval(parts: list[Verdicts]) -> tuple[Hashes, NDArray[np.object_]]:
    """Return sorted hashes of principal and interval (K,), and the id of the alert that has verdicts there (K,).

    Verdicts in a delivery window are left out: they came too late for a run of intervals.
    """
    runs = [_starts_of(part) < LATE_WINDOW for part in parts]
    keys = [
        hashing.in_interval(part.batch.principal, part.batch.interval)[run]
        for part, run in zip(parts, runs, strict=True)
    ]
    names = [part.frame["alert_id"].to_numpy(object)[run] for part, run in zip(parts, runs, strict=True)]
    distinct, first = np.unique(np.concatenate(keys), return_index=True)
    return distinct, np.concatenate(names)[first]


def _select_verdicts(scored: ScoredEvents) -> list[Verdicts]:
    """Return the verdicts among judged events: one part, or none."""
    verdict = _is_verdict(scored)
    return [Verdicts(scored.batch, scored.table).take(verdict)] if verdict.any() else []


def _has_calibrated_vote(scored: ScoredEvents) -> NDArray[np.bool_]:
    """Return a mask (N,) of the events that a calibrated detector voted for."""
    voted = np.zeros(len(scored.batch), bool)
    for name in calibrated_detectors(scored.batch.evidence):
        if vote_column(name) in scored.table:
            voted |= np.asarray(frames.column_of(scored.table, vote_column(name)), bool)
    return voted


def _is_verdict(scored: ScoredEvents) -> NDArray[np.bool_]:
    return np.asarray(frames.column_of(scored.table, "verdict"), bool)
