"""The road of one ledger: events in, oldest first or nearly so; alerts and votes out. No I/O.

Example:
    >>> road = Road(bank, ledger, settings)
    >>> for events in chunks:
    ...     said = road.walk(events)
    ...     desk.save(said.alerts, said.votes)
    >>> said = road.finish()

One step is: take, see how far time has come, close the intervals that are over, settle what waited for them, close the
windows of alerts, let time pass. Where the events are cut into steps changes no final answer. With `early`, alerts are told
of while their intervals are open, and told again when they have grown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from fingerprint.alerting.explanation import AlertGroups, Explainer
from fingerprint.compute import frames, hashing
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import Alert
from fingerprint.core.ports import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import MeasureResult, ScoredEvents, Scorer, empty_votes
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState

EMPTY_RESULT = MeasureResult(0, 0, np.empty(0, np.uint64), empty_votes())


class StepResult(NamedTuple):
    """What one step says: alerts (again, if they have grown), votes, and every judged event if that was asked for."""

    alerts: list[Alert]
    votes: pd.DataFrame
    scored_events: list[pd.DataFrame]


@dataclass
class Counters:
    """What has gone by."""

    events: int = 0
    repeats: int = 0
    verdicts: int = 0
    alerts: int = 0
    silent_intervals: int = 0
    degraded: int = 0  # events whose losses were measured by who stands in
    no_opinion: int = 0  # cells of series that were still warming up
    votes: dict[str, int] = field(default_factory=dict)
    votes_alone: int = 0  # votes on events about which no other detector had an opinion


class DetectionPipeline:
    """Walks batches of events from measuring to alerts, and counts."""

    def __init__(
        self,
        bank: Bank,
        state: ScorerState,
        settings: Settings,
        keep_all_events: bool = False,
        emit_early: bool = False,
        inference: Inference | None = None,
    ) -> None:
        self.scorer = Scorer(bank, state, settings, keep_all_events, inference)
        self.alert_groups = AlertGroups(Explainer(bank.on_host, state.series, settings))
        self.state, self.keep_all_events, self.emit_early = state, keep_all_events, emit_early
        self.counters = Counters(votes={each.name: 0 for each in self.scorer.detectors})

    def swap_bank(self, bank: Bank, inference: Inference | None = None) -> Callable[[], None]:
        """Measure against another bank from now on; returns what takes that back. The ledger goes on. What waits, and verdicts
        whose window is open, stay with the bank that measured them."""
        before = self.scorer, self.alert_groups.explainer, self.state.channels_since
        self.scorer = self.scorer.with_bank(bank, inference)
        earlier = {
            **self.alert_groups.explainer.previous_banks,
            self.alert_groups.explainer.bank.version: self.alert_groups.explainer.bank,
        }
        self.alert_groups.explainer = replace(
            self.alert_groups.explainer, bank=bank.on_host, previous_banks=earlier
        )
        self.state.channels_since = (
            self.state.watermark // self.alert_groups.explainer.settings.spectral.interval_seconds
        )

        def back() -> None:
            self.scorer, self.alert_groups.explainer, self.state.channels_since = before

        return back

    def apply_settings(self, settings: Settings) -> None:
        """Hold events to other thresholds, or another quorum, from now on. What waits is judged by them too; what could not get a
        verdict when it came does not come back."""
        self.scorer = self.scorer.with_bank(self.scorer.bank, self.scorer.inference, settings)
        self.alert_groups.explainer = replace(self.alert_groups.explainer, settings=settings)

    def referenced_banks(self) -> set[str]:
        """The versions of the banks that measured what waits, and what has a verdict whose window is open."""
        waiting = [part.frame for part in self.scorer.pending]
        frames = waiting + [part.frame for part in self.alert_groups.open_verdicts]
        return {str(version) for frame in frames for version in frame["bank_version"].unique()}

    def release_unused_banks(self) -> None:
        """Forget the banks of which nothing waits any more."""
        by = self.alert_groups.explainer
        if by.previous_banks:
            needed = self.referenced_banks()
            earlier = {version: bank for version, bank in by.previous_banks.items() if version in needed}
            self.alert_groups.explainer = replace(by, previous_banks=earlier)

    def process(self, events: Frame, watermark: int | None = None) -> StepResult:
        """One step, with or without events. `watermark` (seconds from the epoch) says how far time has come, where the
        events do not."""
        taken = self.scorer.measure(events) if len(events) else EMPTY_RESULT
        self.counters.events += taken.events
        self.counters.repeats += taken.repeats
        self.counters.degraded += taken.degraded
        self._advance_clock(events, watermark)
        intervals = self._close_intervals()  # before anything is judged: forecasts are made day by day
        judged = self._add_verdicts(self.scorer.judge_closed())
        alerts = self._early_alerts(taken.principals) + self._close_alerts(self.state.first_open_interval())
        self.state.expire()
        return self._build_result(alerts, [taken.votes, intervals, judged.votes], judged)

    def flush(self) -> StepResult:
        """The input has ended: judge what still waits."""
        intervals = self._close_intervals(include_open=True)
        judged = self._add_verdicts(self.scorer.judge_closed(include_open=True))
        return self._build_result(self._close_alerts(None), [intervals, judged.votes], judged)

    def _advance_clock(self, events: Frame, watermark: int | None) -> None:
        if watermark is not None:
            self.state.watermark = max(self.state.watermark, watermark)
        elif len(events):
            self.state.observe_time(
                frames.epoch_seconds(events["event_time"]), hashing.hash_with_bucket(events["principal"])
            )

    def _add_verdicts(self, judged: ScoredEvents | None) -> StepResult:
        """Verdicts go to their alerts; the votes, and the events if every one was asked for, are passed on."""
        if judged is None:
            return StepResult([], empty_votes(), [])
        self.counters.verdicts += int(judged.frame["verdict"].sum())
        self.alert_groups.add(judged.batch, judged.frame)
        return StepResult([], self.scorer.event_votes(judged), [judged.frame] if self.keep_all_events else [])

    def _early_alerts(self, principals: Hashes) -> list[Alert]:
        if not self.emit_early:
            return []
        judged = self.scorer.judge_open(principals)
        grown = self.alert_groups.build_grown(judged.batch, judged.frame) if judged else []
        return grown + self.alert_groups.build_delivered_late()

    def _close_alerts(self, before: int | None) -> list[Alert]:
        alerts = self.alert_groups.close_windows(before)
        self.counters.alerts += len(alerts)
        return alerts

    def _close_intervals(self, include_open: bool = False) -> pd.DataFrame:
        closed = self.scorer.close_intervals(include_open)
        self.counters.silent_intervals += closed.silent_intervals
        self.counters.no_opinion += closed.no_opinion
        return closed.votes

    def _build_result(self, alerts: list[Alert], votes: list[pd.DataFrame], judged: StepResult) -> StepResult:
        table = pd.concat([part for part in votes if len(part)] or votes, ignore_index=True)
        for name, count in table.loc[table["vote"].eq(True), "detector"].value_counts().items():
            self.counters.votes[str(name)] += int(count)
        self.counters.votes_alone += int((table["vote"].eq(True) & table["alone"].eq(True)).sum())
        return StepResult(alerts, table, judged.scored_events)
