"""The detection pipeline: batches of events in, alerts and votes out. No I/O; start reading here.

Example:
    >>> pipeline = DetectionPipeline(bank, PipelineState(scorer_state), settings)
    >>> for events in batches:                       # oldest first, or nearly so
    ...     result = pipeline.process(events)
    ...     store.alerts.save(result.alerts, result.votes)
    >>> result = pipeline.flush()                    # the input has ended

One step measures the events, advances the clock of event time, closes the intervals that are over, judges the events that were
pending in them, builds the alerts whose run is over, and expires old state. Where the events are cut into steps changes no
final answer. With `emit_early`, an alert is also built while its intervals are open, and again when it has grown.

What a pipeline keeps between two steps lies in its `PipelineState`, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fingerprint.alerting.explainer import Explainer
from fingerprint.alerting.grouping import AlertGroups
from fingerprint.compute import frames
from fingerprint.compute.arrays import to_host
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import Alert
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import MeasureResult, ScoredEvents, Scorer
from fingerprint.detection.votes import empty_votes
from fingerprint.registry.bank import Bank
from fingerprint.state.coded_events import CodedEvents, code_events
from fingerprint.state.pipeline_state import Counters, PipelineState

EMPTY_RESULT = MeasureResult(0, 0, np.empty(0, np.uint64), empty_votes())


class StepResult(NamedTuple):
    """Result of one step: alerts (again, where they have grown), votes, and every judged event if that was asked for."""

    alerts: list[Alert]
    votes: Frame
    scored_events: list[pd.DataFrame]


class JudgedEvents(NamedTuple):
    """Votes on the events of one step that were judged, and these events if every one was asked for."""

    votes: Frame
    scored_events: list[pd.DataFrame]


class DetectionPipeline:
    """Score batches of events, count them and build their alerts."""

    def __init__(
        self,
        bank: Bank,
        state: PipelineState,
        settings: Settings,
        keep_all_events: bool = False,
        emit_early: bool = False,
        inference: Inference | None = None,
    ) -> None:
        """`inference` measures losses against `bank`; by default this process does."""
        self.state, self.keep_all_events, self.emit_early = state, keep_all_events, emit_early
        self.scorer = Scorer(bank, state, settings, keep_all_events, inference)
        explainer = Explainer(bank.on_host, state.scorer, settings)
        self.alert_groups = AlertGroups(explainer, state)
        for detector in self.scorer.detectors:
            self.counters.votes.setdefault(detector.name, 0)

    @property
    def counters(self) -> Counters:
        """Counts of what was processed."""
        return self.state.counters

    def figures(self) -> dict[str, Any]:
        """Return the counters of a run, by the names that `score --json` gives them."""
        counted, scorer_state = self.counters, self.state.scorer
        return {
            "events": counted.events,
            "duplicates": counted.repeats,
            "degraded": counted.degraded,
            "votes": counted.votes,
            "votes_alone": counted.votes_alone,
            "no_opinion": counted.no_opinion,
            "late": scorer_state.late_events,
            "ahead": scorer_state.unconfirmed,
            "dropped": counted.dropped_events,
            "refused": counted.over_limit_events,
            "refused_principals": len(counted.over_limit_principals),
            "refused_intervals": counted.over_limit_intervals,
            "silent_intervals": counted.silent_intervals,
            "verdicts": counted.verdicts,
            "alerts": counted.alerts,
        }

    @property
    def bank(self) -> Bank:
        """The bank that new events are measured against."""
        return self.scorer.bank

    # --- bank and settings --------------------------------------------------------------------------------------------

    def swap_bank(self, bank: Bank, inference: Inference | None = None) -> Callable[[], None]:
        """Measure against another bank from now on; return a function that undoes the swap before the next step.

        Pending events, and verdicts of open alerts, stay with the bank that measured them.
        """
        groups, scorer_state = self.alert_groups, self.state.scorer
        before = self.scorer, groups.explainer, self.state.unknown_owners, scorer_state.channels_since
        self.scorer = self.scorer.with_bank(bank, inference)
        earlier = {**groups.explainer.previous_banks, groups.explainer.bank.version: groups.explainer.bank}
        groups.explainer = replace(groups.explainer, bank=bank.on_host, previous_banks=earlier)
        self.state.restart_action_channels()

        def undo() -> None:
            self.scorer, groups.explainer, self.state.unknown_owners, scorer_state.channels_since = before

        return undo

    def apply_settings(self, settings: Settings) -> None:
        """Apply other thresholds, or another quorum, from now on; to pending events too.

        An event that could not reach a verdict when it was measured is not pending, and is not judged again.
        """
        self.scorer = self.scorer.with_bank(self.bank, self.scorer.inference, settings)
        self.alert_groups.explainer = replace(self.alert_groups.explainer, settings=settings)

    def load_previous_banks(self, find_bank: Callable[[str], Bank | None]) -> None:
        """Find the banks that measured pending events and open alerts, to explain these; one may be missing."""
        found = {
            version: find_bank(version) for version in self.state.referenced_banks() - {self.bank.version}
        }
        previous = {version: bank for version, bank in found.items() if bank}
        self.alert_groups.explainer = replace(self.alert_groups.explainer, previous_banks=previous)

    def release_unused_banks(self) -> None:
        """Drop the previous banks that no pending event and no open alert refers to."""
        explainer = self.alert_groups.explainer
        if explainer.previous_banks:
            needed = self.state.referenced_banks()
            previous = {name: bank for name, bank in explainer.previous_banks.items() if name in needed}
            self.alert_groups.explainer = replace(explainer, previous_banks=previous)

    # --- steps --------------------------------------------------------------------------------------------------------

    def process(self, events: Frame | CodedEvents, watermark: int | None = None) -> StepResult:
        """Process one step of N events, N >= 0, with the columns that `measure` reads.

        `watermark`: how far event time has come, in seconds since 1970; by default the events say it.
        """
        coded = code_events(events)
        measured = self.scorer.measure(coded) if len(coded) else EMPTY_RESULT
        self.counters.events += measured.events
        self.counters.repeats += measured.repeats
        self.counters.degraded += measured.degraded
        self._advance_clock(coded, watermark)
        intervals = self._close_intervals()  # before anything is judged: forecasts are made day by day
        judged = self._add_verdicts(self.scorer.judge_closed())
        alerts = self._close_alerts(self.state.scorer.first_open_interval())
        alerts += self._early_alerts(measured.principals)
        self.state.scorer.expire()
        votes = self._count_votes([measured.votes, intervals, judged.votes])
        return StepResult(alerts, votes, judged.scored_events)

    def flush(self) -> StepResult:
        """Judge all pending events and close all alerts: the input has ended."""
        intervals = self._close_intervals(include_open=True)
        judged = self._add_verdicts(self.scorer.judge_closed(include_open=True))
        votes = self._count_votes([intervals, judged.votes])
        return StepResult(self._close_alerts(None), votes, judged.scored_events)

    def _advance_clock(self, events: CodedEvents, watermark: int | None) -> None:
        scorer_state = self.state.scorer
        if watermark is not None:
            scorer_state.watermark = max(scorer_state.watermark, watermark)
        elif len(events):
            scorer_state.observe_time(events.seconds, events.principal)

    def _add_verdicts(self, judged: ScoredEvents | None) -> JudgedEvents:
        """Count verdicts and give them to their alerts."""
        if judged is None:
            return JudgedEvents(empty_votes(), [])
        self.counters.verdicts += int(frames.column_of(judged.table, "verdict").sum())
        judged = self.alert_groups.add(judged)
        return JudgedEvents(self.scorer.event_votes(judged), [judged.frame] if self.keep_all_events else [])

    def _early_alerts(self, principals: Hashes) -> list[Alert]:
        if not self.emit_early:
            return []
        principals = np.concatenate([to_host(principals), self.alert_groups.unsettled])
        return self.alert_groups.build_grown(self.scorer.judge_alerting(principals))

    def _close_alerts(self, before: int | None) -> list[Alert]:
        alerts = self.alert_groups.close(before)
        self.counters.alerts += len(alerts)
        return alerts

    def _close_intervals(self, include_open: bool = False) -> Frame:
        closed = self.scorer.close_intervals(include_open)
        self.counters.silent_intervals += closed.silent_intervals
        self.counters.no_opinion += closed.no_opinion
        return closed.votes

    def _count_votes(self, parts: Sequence[Frame]) -> pd.DataFrame:
        """Count the votes of a step by detector, and return them as one table."""
        some = [part for part in parts if len(part)]
        if not some:
            return empty_votes()
        table = frames.to_column_table(frames.concat_frames(some))
        voted, alone = (table.array(name).astype(bool) for name in ("vote", "alone"))
        for name, count in Counter(table.array("detector")[voted].tolist()).items():
            self.counters.votes[name] += count
        self.counters.votes_alone += int((voted & alone).sum())
        return table.to_pandas()
