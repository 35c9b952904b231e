"""The scores of our detectors and the verdicts of their quorums on the judged days, from one run of the detection pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.core.alert import Alert, vote_column
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import detector_names
from fingerprint.detection.detectors.isolation_forest import IsolationForestDetector
from fingerprint.detection.votes import empty_votes
from fingerprint.evaluation import quorums
from fingerprint.evaluation.ablations import variant_name, variant_names
from fingerprint.evaluation.event_table import WINDOW_SECONDS, alert_groups
from fingerprint.evaluation.quorums import OWN_VERDICT, Method, MultiQuorumPipeline, verdict_column
from fingerprint.evaluation.rank_terms import RANK, RANK_TERMS, urgency_without
from fingerprint.pipeline import StepResult
from fingerprint.registry.bank import Bank
from fingerprint.state.scorer_state import ScorerState
from fingerprint.store import open_store
from pipelines.cli.console import Progress

THIRD_DETECTOR = IsolationForestDetector.name  # the optional third detector
WITH_THIRD = "with third"  # the quorum of all evaluated detectors
SERVED = "served"  # the quorum of the settings
Quorum = tuple[tuple[str, ...], int]  # detectors, and how many of them must vote


class EvaluatedDetectors(NamedTuple):
    """The scored events and the results of all methods on them.

    - `judged`: the scored events (`ScoredEventTable`)
    - `methods`: results by name of the method; the served queue is the first
    - `without`: the queue of the other detectors, by the detector that is left out; empty if there is one detector
    - `alerts`: the served alerts; their events have no records
    - `served`: the served alerts, each counted once
    """

    judged: pd.DataFrame
    methods: dict[str, Method]
    without: dict[str, Method]
    alerts: list[Alert]
    served: ServedAlerts


class ServedAlerts(NamedTuple):
    """The served queue as an analyst reads it: an alert is one line, even if it lasts for several windows.

    `group` (N,) is the alert that shows each scored event, or the event's window if no alert does. `method` ranks by urgency.
    """

    group: NDArray[np.uint64]
    method: Method


def evaluate_detectors(
    bank: Bank,
    chunks: Iterable[pd.DataFrame],
    settings: Settings,
    third: bool,
    progress: Progress,
    terms: bool = False,
) -> EvaluatedDetectors:
    """Return the scored events and the standing methods, all from one run of the pipeline.

    The methods are
    - the queue as served, with a lower threshold, and re-ranked without thresholds
    - any vote
    - each detector alone, and each detector left out
    - with `terms`, each detector and the rank of alerts, with each term left out
    - with `third`, the optional detector, too
    """
    own = detector_names(settings)
    names = (*own, THIRD_DETECTOR) if third and THIRD_DETECTOR not in own else own
    listed = settings.voting.detectors if names is own else (*settings.voting.detectors, THIRD_DETECTOR)
    asking = settings.model_copy(update={"voting": settings.voting.model_copy(update={"detectors": listed})})
    quorums_of = _quorums(own, names, settings.voting.quorum)
    others = {name: each for name, each in quorums_of.items() if each[0] != names}
    panel = MultiQuorumPipeline(
        bank, ScorerState.from_arrays(asking, bank.scorer_state), asking, others, terms
    )
    with QuorumStores(tuple(quorums_of), SERVED if names is own else WITH_THIRD) as stores:
        for events in chunks:
            stores.save_alerts(panel, panel.process(events))
            progress("scoring events", panel.counters.events + panel.counters.repeats)
        stores.save_alerts(panel, panel.flush())
        judged, urgency, alerts = panel.scored_events.to_frame(), stores.urgencies(), stores.served_alerts()
    thresholds = {each.name: each.threshold for each in panel.scorer.detectors}
    methods = _standing_methods(judged, quorums_of, urgency, thresholds, alerts, settings)
    if terms:
        methods |= _methods_without_terms(judged, variant_names(asking))
        methods |= _ranks_without_terms(judged, own, settings.voting.quorum, alerts)
    if names is not own:
        methods |= _with_third(judged, names, settings.voting.quorum, urgency[WITH_THIRD])
    without = {name: methods[_title(own, name, settings.voting.quorum)] for name in own if len(own) > 1}
    return EvaluatedDetectors(judged, methods, without, alerts, count_alerts(judged, alerts))


def count_alerts(judged: pd.DataFrame, alerts: Sequence[Alert]) -> ServedAlerts:
    """Return the served queue with each scored event in the alert that shows it."""
    shown = [(event.event_id, alert.alert_id, alert.urgency) for alert in alerts for event in alert.events]
    table = pd.DataFrame(shown, columns=["event", "alert", "urgency"], dtype=object)
    table = table.drop_duplicates("event")
    known = pd.Index(hashing.hash_strings(table["event"]))
    place = known.get_indexer(pd.Index(judged["event"]))
    group = np.append(hashing.hash_strings(table["alert"]), np.uint64(0))[place]
    urgency = np.append(table["urgency"].to_numpy(float), -np.inf)[place]
    in_alert = place >= 0
    return ServedAlerts(
        np.where(in_alert, group, judged["group"].to_numpy(np.uint64)), Method(urgency, in_alert, "queue")
    )


def _quorums(own: tuple[str, ...], names: tuple[str, ...], quorum: int) -> dict[str, Quorum]:
    """Return the quorums that have an alert store: the served one, one for each detector left out, and one with the third."""
    out: dict[str, Quorum] = {SERVED: (own, quorum)}
    for name in own if len(own) > 1 else ():
        rest = tuple(other for other in own if other != name)
        out[_title(own, name, quorum)] = (rest, min(quorum, len(rest)))
    return out | ({WITH_THIRD: (names, quorum)} if names != own else {})


def _column(judged: pd.DataFrame, quorum: str) -> str:
    """Return the column with the verdicts of a quorum; the quorum of the pipeline itself has a column without its name."""
    column = verdict_column(quorum)
    return column if column in judged else OWN_VERDICT


def _title(own: tuple[str, ...], left_out: str, quorum: int) -> str:
    """Return the name of the quorum of all detectors but one."""
    rest = len(own) - 1
    return f"without {left_out} ({min(quorum, rest)} of {rest})"


def _standing_methods(
    judged: pd.DataFrame,
    quorums_of: Mapping[str, Quorum],
    urgency: Mapping[str, pd.Series],
    thresholds: Mapping[str, float],
    alerts: Sequence[Alert],
    settings: Settings,
) -> dict[str, Method]:
    names, quorum = quorums_of[SERVED]
    title = f"({quorum} of {len(names)})"
    served = quorums.rank_as_served(judged, names, quorum, urgency[SERVED], _column(judged, SERVED))
    lower = quorums.rank_by_urgency(judged, names, quorum, urgency[SERVED])
    out = {
        f"fingerprint {title}": Method(*served, "queue"),
        f"as served, then leads {title}": Method(
            *quorums.rank_with_leads(judged, served, alerts, settings), "queue"
        ),
        f"threshold lowered {title}": Method(*lower, "queue"),
    }
    if len(names) == 1:
        return out
    together = quorums.rank_by_combined_evidence(judged, names, int(served[1].sum()))
    any_vote = quorums.rank_by_threshold_share(judged, {name: thresholds[name] for name in names})
    out |= {
        "combined evidence": Method(*together, "queue"),
        f"any vote (1 of {len(names)})": Method(*any_vote, "queue"),
    }
    out |= {f"{name} alone": Method(*quorums.rank_by_detector(judged, name), "detector") for name in names}
    for name, (rest, votes) in quorums_of.items():
        if name not in (SERVED, WITH_THIRD):
            out[name] = Method(
                *quorums.rank_as_served(judged, rest, votes, urgency[name], _column(judged, name)), "left out"
            )
    return out


def _methods_without_terms(judged: pd.DataFrame, variants: Mapping[str, str]) -> dict[str, Method]:
    """Return a method for each detector and each term left out: ranked by its z, with as many votes as with all terms."""
    return {
        name: Method(*quorums.rank_by_variant(judged, name, int(judged[vote_column(detector)].sum())), "term")
        for name, detector in variants.items()
    }


def _ranks_without_terms(
    judged: pd.DataFrame, names: Sequence[str], quorum: int, alerts: Sequence[Alert]
) -> dict[str, Method]:
    """Return a method for each term of the rank: the served queue in the order without that term."""
    out = {}
    for term in RANK_TERMS:
        urgency = _urgency_by_group(alerts, partial(urgency_without, term=term))
        ranked = quorums.rank_as_served(judged, names, quorum, urgency, _column(judged, SERVED))
        out[variant_name(RANK, term)] = Method(*ranked, "term")
    return out


def _with_third(
    judged: pd.DataFrame, names: Sequence[str], quorum: int, urgency: pd.Series
) -> dict[str, Method]:
    title = f"with {IsolationForestDetector.label.lower()} ({quorum} of {len(names)})"
    return {
        title: Method(*quorums.rank_as_served(judged, names, quorum, urgency, OWN_VERDICT), "queue"),
        f"{THIRD_DETECTOR} alone": Method(*quorums.rank_by_detector(judged, THIRD_DETECTOR), "detector"),
    }


class QuorumStores:
    """An alert store for each quorum during the run, which has the alerts as an analyst would see them."""

    def __init__(self, names: Sequence[str], own: str) -> None:
        """Prepare a store for each of `names`; `own` is the quorum of the pipeline itself."""
        self.names, self.own, self.stack = names, own, ExitStack()

    def __enter__(self) -> QuorumStores:
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="fingerprint-")))
        self.stores = {
            name: open_store(f"sqlite:///{folder}/{number}.sqlite") for number, name in enumerate(self.names)
        }
        for store in self.stores.values():
            self.stack.callback(store.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def save_alerts(self, panel: MultiQuorumPipeline, result: StepResult) -> None:
        """Save the alerts of one step, those of each quorum in its own store."""
        self.stores[self.own].alerts.save(result.alerts, empty_votes())
        for name, quorum in panel.quorums.items():
            self.stores[name].alerts.save(quorum.take_alerts(), empty_votes())

    def served_alerts(self) -> list[Alert]:
        """Return the alerts of the served quorum, whose events have no records."""
        return self.stores[SERVED].alerts.by_urgency(raw=False)

    def urgencies(self) -> dict[str, pd.Series]:
        """Return for each quorum the urgency of its alerts, by the `group` (principal and window) of their events."""
        return {
            name: _urgency_by_group(store.alerts.by_urgency(raw=False)) for name, store in self.stores.items()
        }


def _urgency_by_group(
    alerts: Sequence[Alert], urgency_of: Callable[[Alert], int] = lambda alert: alert.urgency
) -> pd.Series:
    rows = [
        (alert.principal, int(event.event_time.timestamp()), urgency_of(alert))
        for alert in alerts
        for event in alert.events
    ]
    table = pd.DataFrame(rows, columns=["principal", "seconds", "urgency"])
    group = alert_groups(
        hashing.hash_strings(table["principal"]), table["seconds"].to_numpy(np.int64), WINDOW_SECONDS
    )
    return table["urgency"].astype(float).groupby(group).max()
