"""Scores of our detectors and verdicts of their quorums on the judged days, in one run of the detection pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pandas as pd

from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import detector_names, listed_detectors
from fingerprint.detection.detectors.isolation_forest import IsolationForestDetector
from fingerprint.detection.scorer import empty_votes
from fingerprint.evaluation import quorums
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
    methods = _as_served(judged, settings, urgency[SERVED if third else WITH_THIRD])
    return judged, methods | (_with_third(judged, names, voting.quorum, urgency[WITH_THIRD]) if third else {})


def _as_served(judged: pd.DataFrame, settings: Settings, urgency: pd.Series) -> dict[str, ScoresAndFlags]:
    """Return scores and flags by method: the quorum, ranked by urgency; any vote; each detector alone."""
    names, quorum = detector_names(settings), settings.voting.quorum
    out = {f"fingerprint ({quorum} of {len(names)})": quorums.rank_by_urgency(judged, names, quorum, urgency)}
    if len(names) > 1:
        thresholds = {
            each.name: float(each.options_from(settings).threshold) for each in listed_detectors(settings)
        }
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
        """Return by quorum the urgency of each alert, by its `group`."""
        shown = {name: store.alerts.by_urgency(raw=False) for name, store in self.stores.items()}
        return {
            name: pd.Series(
                {np.uint64(int(alert.alert_id, 16)): alert.urgency for alert in alerts}, dtype=float
            )
            for name, alerts in shown.items()
        }
