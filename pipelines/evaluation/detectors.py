"""Scores of our detectors and verdicts of their quorums on the judged days, in one run of the detection pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pandas as pd

from fingerprint.compute import hashing
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import detector_names
from fingerprint.detection.detectors.isolation_forest import IsolationForestDetector
from fingerprint.detection.scorer import empty_votes
from fingerprint.evaluation import quorums
from fingerprint.evaluation.event_table import WINDOW_SECONDS, alert_groups
from fingerprint.evaluation.quorums import MultiQuorumPipeline, ScoresAndFlags
from fingerprint.pipeline import StepResult
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState
from fingerprint.store import open_store
from pipelines.cli.console import Progress

THIRD_DETECTOR = IsolationForestDetector.name  # the optional third detector
WITH_THIRD = "own"  # the quorum of all detectors that were asked
SERVED = "served"  # that of the settings, where a third was asked too


def evaluate_detectors(
    bank: Bank, chunks: Iterable[pd.DataFrame], settings: Settings, third: bool, progress: Progress
) -> tuple[pd.DataFrame, dict[str, ScoresAndFlags]]:
    """Return the scored events (`ScoredEventTable`), and by method their scores and flags; the served quorum comes first."""
    voting = settings.voting
    third = third and THIRD_DETECTOR not in detector_names(settings)
    names = (*voting.detectors, THIRD_DETECTOR) if third else voting.detectors
    asked = settings.model_copy(update={"voting": voting.model_copy(update={"detectors": names})})
    others = {SERVED: (detector_names(settings), voting.quorum)} if third else {}
    panel = MultiQuorumPipeline(bank, ScorerState.from_arrays(asked, bank.scorer_state), asked, others)
    with QuorumStores((WITH_THIRD, *others)) as stores:
        for events in chunks:
            stores.save_alerts(panel, panel.process(events))
            progress("scoring events", panel.counters.events + panel.counters.repeats)
        stores.save_alerts(panel, panel.flush())
        judged, urgency = panel.scored_events.to_frame(), stores.urgencies()
    thresholds = {each.name: each.threshold for each in panel.scorer.detectors}
    methods = _as_served(judged, settings, urgency[SERVED if third else WITH_THIRD], thresholds)
    return judged, methods | (_with_third(judged, names, voting.quorum, urgency[WITH_THIRD]) if third else {})


def _as_served(
    judged: pd.DataFrame, settings: Settings, urgency: pd.Series, thresholds: Mapping[str, float]
) -> dict[str, ScoresAndFlags]:
    """Return scores and flags by method: the quorum, ranked by urgency; any vote; each detector alone."""
    names, quorum = detector_names(settings), settings.voting.quorum
    out = {f"fingerprint ({quorum} of {len(names)})": quorums.rank_by_urgency(judged, names, quorum, urgency)}
    if len(names) > 1:
        thresholds = {name: thresholds[name] for name in names}
        out[f"any vote (1 of {len(names)})"] = quorums.rank_by_threshold_share(judged, thresholds)
        out |= {f"{name} alone": quorums.rank_by_detector(judged, name) for name in names}
    return out


def _with_third(
    judged: pd.DataFrame, names: Sequence[str], quorum: int, urgency: pd.Series
) -> dict[str, ScoresAndFlags]:
    return {
        f"with {IsolationForestDetector.label.lower()} ({quorum} of {len(names)})": quorums.rank_by_urgency(
            judged, names, quorum, urgency
        ),
        f"{THIRD_DETECTOR} alone": quorums.rank_by_detector(judged, THIRD_DETECTOR),
    }


class QuorumStores:
    """An alert store for each quorum, for as long as the run lasts: it holds of all alerts what an analyst would be shown."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.stack = names, ExitStack()

    def __enter__(self) -> QuorumStores:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="fingerprint-")))
        self.stores = {name: open_store(f"sqlite:///{folder}/{name}.sqlite") for name in self.names}
        for store in self.stores.values():
            self.stack.callback(store.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def save_alerts(self, panel: MultiQuorumPipeline, result: StepResult) -> None:
        """Save the alerts of one step, each quorum's in its store."""
        self.stores[WITH_THIRD].alerts.save(result.alerts, empty_votes())
        for name, quorum in panel.quorums.items():
            self.stores[name].alerts.save(quorum.take_alerts(), empty_votes())

    def urgencies(self) -> dict[str, pd.Series]:
        """Return by quorum the urgency of alerts, by the `group` (principal and window) of their events."""
        return {
            name: _urgency_by_group(store.alerts.by_urgency(raw=False)) for name, store in self.stores.items()
        }


def _urgency_by_group(alerts: Sequence[Alert]) -> pd.Series:
    rows = [
        (alert.principal, int(event.event_time.timestamp()), alert.urgency)
        for alert in alerts
        for event in alert.events
    ]
    table = pd.DataFrame(rows, columns=["principal", "seconds", "urgency"])
    group = alert_groups(
        hashing.hash_strings(table["principal"]), table["seconds"].to_numpy(np.int64), WINDOW_SECONDS
    )
    return table["urgency"].astype(float).groupby(group).max()
