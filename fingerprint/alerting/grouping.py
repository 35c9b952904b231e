"""Group verdicts into alerts: one alert for each principal and window of event time.

Example:
    >>> groups = AlertGroups(explainer)
    >>> groups.add(group_events(judged, settings))
    >>> early = groups.build_grown(group_events(open_events, settings))    # their intervals are still open
    >>> alerts = groups.close_windows(before=state.first_open_interval())

`alert_ids` is the only place that says which alert an event belongs to.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting.explanation import Explainer, build_alerts
from fingerprint.compute import frames, hashing
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import ScoredEvents
from fingerprint.state.event_batch import Verdicts
from fingerprint.state.pipeline_state import OpenAlerts

LATE_WINDOW_FLAG = np.uint64(1 << 40)  # beyond the number of any window
MIN_GROWTH = 0.05  # an alert is built again when it has grown by more than this share


def alert_ids(frame: pd.DataFrame, verdict: NDArray[np.bool_], settings: Settings) -> pd.Series:
    """Return the alert of each verdict, (N,) of text: a hash of its principal and window; missing where `verdict` is false."""
    window, late = alert_windows(frame[verdict], settings)
    principal = hashing.hash_strings(frame["principal"][verdict])
    marked = window.astype(np.uint64) + np.where(late, LATE_WINDOW_FLAG, np.uint64(0))
    names = [f"{name:016x}" for name in hashing.hash_pair(principal, marked)]
    return pd.Series(names, index=frame.index[verdict], dtype=object).reindex(frame.index)


def alert_windows(frame: pd.DataFrame, settings: Settings) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the number of each event's window (N,), and whether the event was delivered late (N,).

    A window is a fixed stretch of event time. An event that arrives later than any history reaches back belongs to the window
    of its delivery instead: an old archive that is read again becomes one alert for each principal, not one for each old day.
    """
    at = frames.epoch_seconds(frame["event_time"])
    delay = frame["delay"].to_numpy(np.int64) if "delay" in frame else np.zeros(len(frame), np.int64)
    late = delay >= settings.spectral.history_days * 86400
    return (at + np.where(late, delay, 0)) // settings.alerts.group_window_seconds, late


def group_events(scored: ScoredEvents, settings: Settings) -> ScoredEvents:
    """Return judged events with the column `alert_id`."""
    verdict = scored.frame["verdict"].to_numpy(dtype=bool)
    return replace(scored, frame=scored.frame.assign(alert_id=alert_ids(scored.frame, verdict, settings)))


class AlertGroups:
    """Build the alert of each group when its window is over, and before that whenever it has grown.

    The verdicts lie in `open_alerts`, which belongs to the pipeline's state.
    """

    def __init__(self, explainer: Explainer, open_alerts: OpenAlerts | None = None) -> None:
        self.explainer = explainer
        self.open_alerts = OpenAlerts() if open_alerts is None else open_alerts

    def add(self, scored: ScoredEvents) -> None:
        """Keep the verdicts among judged events that have the column `alert_id`."""
        self.open_alerts.verdicts += _select_verdicts(scored)

    def build_grown(self, scored: ScoredEvents) -> list[Alert]:
        """Build the alerts of verdicts whose z's may still change, with the verdicts that are kept, where they have grown.

        A large alert is built again only when it has grown by `MIN_GROWTH`.
        """
        early = _select_verdicts(scored)
        if not early:
            return []
        ids = set(early[0].frame["alert_id"])
        kept = [part.take(part.frame["alert_id"].isin(ids).to_numpy()) for part in self.open_alerts.verdicts]
        return self._build_grown(Verdicts.concat(kept + early))

    def _build_grown(self, verdicts: Verdicts) -> list[Alert]:
        published = self.open_alerts.published_sizes
        sizes = verdicts.frame["alert_id"].value_counts()
        before = sizes.index.map(lambda name: published.get(name, 0)).to_numpy(float)
        news = sizes[sizes.to_numpy() > before * (1 + MIN_GROWTH)]
        published |= {str(name): int(size) for name, size in news.items()}
        grown = verdicts.take(verdicts.frame["alert_id"].isin(news.index).to_numpy())
        return list(build_alerts(*grown, self.explainer))

    def build_delivered_late(self) -> list[Alert]:
        """Build the alerts of events that were delivered late, where they have grown.

        Their intervals closed long ago, so none of them is pending, and nothing else builds them before their window is over.
        """
        settings, verdicts = self.explainer.settings, self.open_alerts.verdicts
        late = [(part, alert_windows(part.frame, settings)[1]) for part in verdicts]
        kept = [part.take(which) for part, which in late if which.any()]
        return self._build_grown(Verdicts.concat(kept)) if kept else []

    def close_windows(self, before: int | None = None) -> list[Alert]:
        """Build the alerts of windows that ended before interval `before` (all, if None), and drop their verdicts."""
        done: list[Verdicts] = []
        kept: list[Verdicts] = []
        for part in self.open_alerts.verdicts:
            over = self._window_is_over(part.frame, before)
            if over.any():
                done.append(part.take(over))
            if not over.all():
                kept.append(part.take(~over) if over.any() else part)
        self.open_alerts.verdicts = kept
        if not done:
            return []
        together = Verdicts.concat(done)
        for name in together.frame["alert_id"].unique():
            self.open_alerts.published_sizes.pop(name, None)
        return list(build_alerts(*together, self.explainer))

    def _window_is_over(self, frame: pd.DataFrame, before: int | None) -> NDArray[np.bool_]:
        if before is None:
            return np.ones(len(frame), bool)
        settings = self.explainer.settings
        end = (alert_windows(frame, settings)[0] + 1) * settings.alerts.group_window_seconds
        over: NDArray[np.bool_] = end <= before * settings.spectral.interval_seconds
        return over


def _select_verdicts(scored: ScoredEvents) -> list[Verdicts]:
    """Return the verdicts among judged events: one part, or none."""
    verdict = scored.frame["verdict"].to_numpy(dtype=bool)
    return [Verdicts(scored.batch, scored.frame).take(verdict)] if verdict.any() else []
