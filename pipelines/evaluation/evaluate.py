"""`fingerprint evaluate`: what detection finds and what it flags falsely in records with known attacks, beside simpler methods.

Example:
    >>> figures = run_evaluation([], Settings(), console.no_progress, seeds=(0, 1, 2))
    >>> figures["methods"][0]["recall_at"]["20"]            # share of sessions found at 20 alerts a day
    0.75
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.adapters import files, network_table
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import hashing
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.detection.detectors import detector_names
from fingerprint.evaluation import leakage_check, peers, time_to_alert
from fingerprint.evaluation.delivery_floor import floor_figures
from fingerprint.evaluation.event_table import HOUR_SECONDS, WINDOW_SECONDS, EventTable, build_event_table
from fingerprint.evaluation.false_alert_causes import FalseAlertCauses
from fingerprint.evaluation.idle_votes import idle_detectors, vote_effects
from fingerprint.evaluation.labels import (
    HistoryOverview,
    attack_labels,
    choose_split_time,
    join_labels,
    read_benign_anomalies,
    read_labels,
)
from fingerprint.evaluation.metrics import Figures, compute_metrics
from fingerprint.evaluation.quorums import Method
from fingerprint.evaluation.ranking import PeerMethod
from fingerprint.evaluation.severity import severity_figures
from fingerprint.evaluation.statistics import confidence_intervals, pool_figures
from fingerprint.evaluation.vote_rates import PrincipalKinds, count_votes
from fingerprint.evaluation.world_statistics import activity_of, measure_world
from fingerprint.registry.bank import Bank
from fingerprint.simulation.world_parameters import DEFAULT_WORLD, WorldParameters
from fingerprint.training import pipeline
from pipelines.cli.console import Progress
from pipelines.evaluation.backtest import events_between
from pipelines.evaluation.detectors import EvaluatedDetectors, ServedAlerts, evaluate_detectors
from pipelines.evaluation.organisations import DEFAULT_ORGANISATION, Organisation
from pipelines.evaluation.report import print_evaluation
from pipelines.evaluation.time_to_alert import ArrivalOrderSpool, measure_time_to_alert, victim_events
from pipelines.runtime import backend, host

__all__ = ["EvaluationOptions", "print_evaluation", "run_evaluation"]

ALERT_BY_ALERT = "alert by alert"  # a second row of the served queue, in which each alert counts once
MAX_PRINCIPALS_FOR_PEERS = 600  # principals; an organisation "of 500" has some services as well

SKIPPED_METHODS = {
    "--peers": "comparison methods (--peers evaluates them)",
    "--third": "the isolation forest (--third)",
    "--terms": "detectors without a term (--terms)",
}


@dataclass(frozen=True)
class EvaluationOptions:
    """Methods to evaluate beside our own quorum; None means in organisations of up to MAX_PRINCIPALS_FOR_PEERS principals.

    - `peers`: simpler methods; `slow_peers`: also those that take minutes
    - `third`: the optional third detector
    - `terms`: each detector with each term of its score left out
    - `statistics`: also the statistics of the world (`evaluation.world_statistics`)
    """

    peers: bool | None = None
    slow_peers: bool = False
    third: bool | None = None
    terms: bool | None = None
    statistics: bool = False

    def resolve_for(self, principals: int) -> EvaluationOptions:
        """Return the options with True or False in place of None, by the number of principals."""
        few = principals <= MAX_PRINCIPALS_FOR_PEERS
        with_peers, third, terms = (
            few if each is None else each for each in (self.peers, self.third, self.terms)
        )
        return replace(self, peers=with_peers, third=third, terms=terms)

    def describe_skipped(self, principals: int) -> str:
        """Return the sentence that names the methods left out because of the number of principals; empty if there are none."""
        options = {"--peers": self.peers, "--third": self.third, "--terms": self.terms}
        skipped = [SKIPPED_METHODS[name] for name, value in options.items() if value is None]
        if principals <= MAX_PRINCIPALS_FOR_PEERS or not skipped:
            return ""
        most = f"{principals:,} principals are more than {MAX_PRINCIPALS_FOR_PEERS}"
        return f"Left out, because {most}: {', '.join(skipped)}."


def run_evaluation(
    sources: list[str],
    settings: Settings,
    progress: Progress,
    labels: Path | None = None,
    organisation: Organisation = DEFAULT_ORGANISATION,
    seeds: Sequence[int] = (0,),
    options: EvaluationOptions = EvaluationOptions(),
) -> dict[str, Any]:
    """Return the figures of `evaluate --json`: `organisations`, `methods` pooled over them with intervals, `time_to_alert` ...

    Without sources the organisation is simulated for each seed. Raises FingerprintError if there are no labels, or no attack in
    the scored part.
    """
    started = time.monotonic()
    if sources:
        runs = [OrganisationEvaluation(sources, settings, progress, options, labels).run()]
    else:
        runs = []
        for number, seed in enumerate(seeds, 1):
            progress("organisations", number, len(seeds))
            runs.append(evaluate_seed(seed, organisation, settings, progress, options))
    return {
        **pool_results(runs),
        "left_out": sorted(peers.UNAVAILABLE_PEERS.values()),
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_bytes": host.peak_bytes(),
    }


def evaluate_seed(
    seed: int,
    organisation: Organisation,
    settings: Settings,
    progress: Progress,
    options: EvaluationOptions,
    parameters: WorldParameters = DEFAULT_WORLD,
) -> OrganisationResult:
    """Simulate the organisation of a seed in a world, unless its records are kept from before, and evaluate it."""
    with organisation.simulated(seed, parameters, progress) as folder:
        run = OrganisationEvaluation([str(folder)], settings, progress, options).run()
    return run._replace(about={"seed": seed, **run.about})


def pool_results(runs: Sequence[OrganisationResult]) -> Figures:
    """Return the figures of all organisations together, and a description of each."""
    by_method = zip(*(run.methods for run in runs), strict=True)
    delays = pd.concat([run.time_to_alert for run in runs], ignore_index=True)
    return {
        "organisations": [run.about for run in runs],
        "methods": [_pool_figures(list(same)) for same in by_method],
        "time_to_alert": time_to_alert.time_to_alert(delays),
        "by_urgency": pool_figures([run.by_urgency for run in runs]),
        "severity": pool_figures([run.severity for run in runs]),
        "vote_counts": pool_figures([run.vote_counts for run in runs]),
        "vote_effects": (effects := pool_figures([run.vote_effects for run in runs])),
        "idle_votes": list(idle_detectors(effects)),
    }


def _pool_figures(same: list[Figures]) -> Figures:
    pooled = pool_figures(same)
    return {**pooled, "intervals": confidence_intervals(pooled, same)}


class OrganisationResult(NamedTuple):
    """The evaluation of one organisation.

    - `about`: its description
    - `methods`: the figures of every method
    - `time_to_alert`: one row for each session that is found (strength, seconds, events)
    - `by_urgency`: figures of our alerts above each urgency
    - `severity`: how severities divide attacks from harmless alerts, by rarity alone and with impact
    - `vote_counts`: votes on harmless events, by kind of principal
    - `vote_effects`: what changes if a detector is left out
    """

    about: Figures
    methods: list[Figures]
    time_to_alert: pd.DataFrame
    by_urgency: Figures
    severity: Figures
    vote_counts: Figures
    vote_effects: Figures


class OrganisationEvaluation:
    """The evaluation of one organisation, from records to figures."""

    def __init__(
        self,
        sources: list[str],
        settings: Settings,
        progress: Progress,
        options: EvaluationOptions = EvaluationOptions(),
        labels: Path | None = None,
    ) -> None:
        self.sources, self.settings, self.progress, self.options = sources, settings, progress, options
        self.labels = attack_labels(read_labels(sources, labels))
        self.anomalies = read_benign_anomalies(sources)
        self.overview, self.kinds = HistoryOverview(self.labels), PrincipalKinds()
        self.skipped = ""  # the sentence about the methods that are not evaluated

    def run(self) -> OrganisationResult:
        """Read the history, train on the days before the split, score the days after it, and return the figures."""
        networks = network_table.load_networks(self.settings.reading.networks_file)
        with ArrivalOrderSpool(
            self.settings, networks, backend=backend.get_backend(self.settings)
        ) as history:
            self._read(history)
            cut = self._inspect_history(history)
            bank = pipeline.train(events_between(history, None, cut), self.settings, self.progress)
            detected = self._detect(bank, history, cut)
            events = join_labels(detected.judged, self.labels)
            served = next(iter(detected.methods.values()))
            delays = self._time_to_alert(bank, history, cut, events, served)
            if self.options.peers:
                peer_methods = self._peer_results(history, cut, detected.judged)
                detected = detected._replace(methods=detected.methods | peer_methods)
            leakage = self._leakage_check(history, cut)
            about = self._describe(history, bank, cut, events)
            if self.options.statistics:
                about["statistics"] = self._statistics(history, cut)
        return self._count(detected, events, {**about, "form": leakage}, delays, cut)

    # --- before training -----------------------------------------------------------------------------------------------

    def _read(self, history: ArrivalOrderSpool) -> None:
        history.add_batches(files.read_sources(self.sources, self.settings.reading), self.progress)
        if not history.events:
            raise FingerprintError(f"no event in {', '.join(self.sources)}: there is nothing to evaluate")

    def _inspect_history(self, history: ArrivalOrderSpool) -> int:
        """Gather an overview of the history, and return when scoring begins, in seconds from the epoch."""
        seen = 0
        for events in history.batches():
            self.overview.update(events)
            self.kinds.update(events)
            seen += len(events)
            self.progress("looking over", seen, history.events)
        principals = len(self.overview.principals)
        self.skipped = self.options.describe_skipped(principals)
        if self.skipped:
            print(self.skipped, file=sys.stderr)
        self.options = self.options.resolve_for(principals)
        attacks = self.overview.attacks.to_numpy(np.int64)
        cut = choose_split_time(self.overview.first, self.overview.last, attacks)
        if not (attacks >= cut).any():
            raise FingerprintError(
                f"no labelled attack event after {_day(cut)}: there is nothing to find in what is judged"
            )
        return cut

    # --- scored --------------------------------------------------------------------------------------------------------

    def _detect(self, bank: Bank, history: ArrivalOrderSpool, cut: int) -> EvaluatedDetectors:
        judging, options = events_between(history, cut, None), self.options
        return evaluate_detectors(
            bank, judging, self.settings, bool(options.third), self.progress, bool(options.terms)
        )

    def _time_to_alert(
        self, bank: Bank, history: ArrivalOrderSpool, cut: int, events: pd.DataFrame, served: Method
    ) -> pd.DataFrame:
        victims = (victim_events(chunk, self.overview) for chunk in events_between(history, cut, None))
        return measure_time_to_alert(
            bank, victims, self.overview, _with_results(events, served), self.settings, self.progress
        )

    def _peer_results(self, history: ArrivalOrderSpool, cut: int, judged: pd.DataFrame) -> dict[str, Method]:
        """Return the scores and flags of simpler methods for the same events; -inf for an event that they did not get."""
        past, now = build_event_table(history.batches(), WINDOW_SECONDS).split(cut)
        place = _peer_row_index(now, judged)
        methods = peers.PEER_METHODS | (self._slow_peers() if self.options.slow_peers else {})
        out = {}
        for done, (name, method) in enumerate(methods.items()):
            self.progress("peers", done, len(methods))
            score, flagged = peers.evaluate_peer(method, past, now)
            out[name] = Method(np.append(score, -np.inf)[place], np.append(flagged, False)[place])
        return out

    def _slow_peers(self) -> dict[str, PeerMethod]:
        return {name: make(self.progress) for name, make in peers.SLOW_PEER_METHODS.items()}

    def _leakage_check(self, history: ArrivalOrderSpool, cut: int) -> Figures:
        """Return how well the mere shape of records separates attacks from the rest (`evaluation.leakage_check`)."""
        self.progress("looking at forms", 0)
        lines = (line for events in events_between(history, cut, None) for line in events["raw"])
        return leakage_check.measure_leakage(lines, set(self.labels["event_id"]))

    def _statistics(self, history: ArrivalOrderSpool, cut: int) -> Figures:
        """Return the statistics by which this world differs from others (`evaluation.world_statistics`)."""
        self.progress("measuring the world", 0)
        activity = [activity_of(events, self.labels) for events in history.batches()]
        return measure_world(pd.concat(activity, ignore_index=True), cut)

    # --- counted ------------------------------------------------------------------------------------------------------

    def _count(
        self,
        detected: EvaluatedDetectors,
        events: pd.DataFrame,
        about: Figures,
        delays: pd.DataFrame,
        cut: int,
    ) -> OrganisationResult:
        """Return all figures of the evaluation; `events` are the scored events with their labels."""
        judged, served = detected.judged, next(iter(detected.methods.values()))
        days = max(int(judged["time"].max() - judged["time"].min()) / 1e6, HOUR_SECONDS) / DAY_SECONDS
        names, harmless = detector_names(self.settings), events["session"].isna().to_numpy()
        kinds = self.kinds.of(judged["principal"].to_numpy())
        without = {name: rest.flagged for name, rest in detected.without.items()}
        return OrganisationResult(
            about,
            self._method_figures(events, detected.methods, detected.served, days, cut),
            delays,
            floor_figures(_with_results(events, served), days),
            severity_figures(detected.alerts, set(self.labels["event_id"])),
            dict(count_votes(judged, kinds, harmless, names, served.flagged)),
            dict(vote_effects(events, served.flagged, without)),
        )

    def _method_figures(
        self,
        events: pd.DataFrame,
        methods: dict[str, Method],
        own_alerts: ServedAlerts,
        days: float,
        cut: int,
    ) -> list[Figures]:
        """Return the figures of each method. The served queue is the first, and the second has its alerts counted once each."""
        principals = self.overview.principals
        causes = FalseAlertCauses.from_anomalies(
            self.anomalies, principals, cut // DAY_SECONDS, self.overview.last // DAY_SECONDS
        )
        known = causes if self.anomalies else None
        served = next(iter(methods.values()))
        equal = int(events.loc[served.flagged, "group"].nunique())  # alerts, as many as are served
        rows: list[tuple[str, Method, pd.DataFrame, int | None]] = [
            (name, method, events, equal) for name, method in methods.items()
        ]
        title = f"{rows[0][0]}, {ALERT_BY_ALERT}"
        rows.insert(1, (title, own_alerts.method, events.assign(group=own_alerts.group), None))
        out = []
        for done, (name, method, grouped, alerts) in enumerate(rows):
            self.progress("counting", done, len(rows))
            figures = compute_metrics(_with_results(grouped, method), days, len(principals), known, alerts)
            out.append({"name": name, "role": method.role, **figures})
        return out

    def _describe(self, history: EventSpool, bank: Bank, cut: int, events: pd.DataFrame) -> Figures:
        overview = self.overview
        return {
            "records": history.records,
            "rejects": history.rejected,
            "events": bank.manifest["events"] + len(events),
            "principals": len(overview.principals),
            "days_learned": round((cut - overview.first) / DAY_SECONDS, 2),
            "days_judged": round((overview.last - cut) / DAY_SECONDS, 2),
            "events_judged": len(events),
            "judged_from": _day(cut),
            "attack_sessions": int(events["session"].nunique()),
            "attack_events": int(events["session"].notna().sum()),
            "attack_events_learned": int((overview.attacks < cut).sum()),
            "sessions_without_events": overview.sessions_without_events(),
            "skipped": self.skipped,
        }


def _with_results(events: pd.DataFrame, method: Method) -> pd.DataFrame:
    """Return labelled events with a method's scores and flags."""
    return events.assign(score=method.score, flagged=method.flagged)


def _peer_row_index(now: EventTable, judged: pd.DataFrame) -> NDArray[np.int64]:
    """Return the row (N,) of each scored event among the rows that peers score; -1 if it is not there."""
    names = hashing.hash_pair(now.principal, hashing.hash_strings(now.frame["event_id"]))
    queries = hashing.hash_pair(judged["principal"].to_numpy(), judged["event"].to_numpy())
    order = np.argsort(names)
    place = order[np.minimum(np.searchsorted(names[order], queries), len(order) - 1)]
    return np.where(names[place] == queries, place, -1)


def _day(seconds: int) -> str:
    return pd.Timestamp(seconds, unit="s", tz="UTC").isoformat()
