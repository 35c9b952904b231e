"""Records with known attacks -> figures: what is found and what is left in peace, beside simpler methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.adapters import files, network_table
from fingerprint.adapters.event_spool import History
from fingerprint.compute import frames, hashing
from fingerprint.core.alert import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.evaluation import leakage_check, time_to_alert
from fingerprint.evaluation import peers as baselines
from fingerprint.evaluation.aggregation import pool
from fingerprint.evaluation.confidence import intervals
from fingerprint.evaluation.event_table import HOUR, Rows, gather
from fingerprint.evaluation.false_alert_causes import Causes
from fingerprint.evaluation.label_files import read_labels, read_surprises
from fingerprint.evaluation.labels import DAY, labelled, truth, where_to_split
from fingerprint.evaluation.metrics import Figures, measure
from fingerprint.evaluation.overview import Overview
from fingerprint.evaluation.quorums import Shown
from fingerprint.registry.bank import Bank
from fingerprint.training import pipeline
from pipelines.cli.console import Progress
from pipelines.evaluation.arrival_order import Delivered
from pipelines.evaluation.detectors import ours
from pipelines.evaluation.organisations import attacks_for, simulated
from pipelines.evaluation.report import print_figures
from pipelines.evaluation.time_to_alert import alerted, victims_of
from pipelines.runtime import backend, memory

Peer = Callable[[Rows, Rows], NDArray[np.float64]]

__all__ = ["Asked", "evaluate", "print_figures"]

MANY = 600  # principals; an organisation "of 500" has some services besides


@dataclass(frozen=True)
class Asked:
    """What is to be measured beside our own quorum: peers, those that take minutes, the optional third detector. None: in
    organisations of up to 500 principals."""

    peers: bool | None = None
    slow_peers: bool = False
    third: bool | None = None

    def of(self, principals: int) -> Asked:
        few = principals <= MANY
        peers, third = (few if each is None else each for each in (self.peers, self.third))
        return replace(self, peers=peers, third=third)


def evaluate(
    sources: list[str],
    settings: Settings,
    progress: Progress,
    labels: Path | None = None,
    principals: int = 50,
    days: int = 28,
    seeds: Sequence[int] = (0,),
    attacks: int | None = None,
    keep: Path | None = None,
    asked: Asked = Asked(),
) -> dict[str, Any]:
    """The figures of `evaluate --json`: `organisations`, `methods` pooled over them with their intervals, `time_to_alert`.

    Without sources an organisation is simulated for each seed; in the folder `keep` they stay and are reused.
    Raises FingerprintError where there are no labels, or no attack in what is judged.
    """
    started = time.monotonic()
    runs = [Trial(sources, settings, progress, asked, labels).run()] if sources else []
    for seed in [] if sources else seeds:
        with simulated(
            principals, days, seed, attacks or attacks_for(principals), keep,
            lambda done, _: progress("simulating days", done, days),
        ) as folder:  # fmt: skip
            run = Trial([str(folder)], settings, progress, asked).run()
            runs.append(run._replace(about={"seed": seed, **run.about}))
    return {
        "organisations": [run.about for run in runs],
        "methods": [_pooled(list(same)) for same in zip(*(run.methods for run in runs), strict=True)],
        "time_to_alert": time_to_alert.times(pd.concat([run.alerted for run in runs], ignore_index=True)),
        "left_out": sorted(baselines.LEFT_OUT.values()),
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_bytes": memory.peak(),
    }


def _pooled(same: list[Figures]) -> Figures:
    pooled = pool(same)
    return {**pooled, "intervals": intervals(pooled, same)}


class Run(NamedTuple):
    """One organisation: what it is, the figures of every method on it, and how long each session that we found took to be in
    an alert (strength, seconds, events)."""

    about: Figures
    methods: list[Figures]
    alerted: pd.DataFrame


class Trial:
    """One organisation, from records to figures."""

    def __init__(
        self,
        sources: list[str],
        settings: Settings,
        progress: Progress,
        asked: Asked = Asked(),
        labels: Path | None = None,
    ) -> None:
        self.sources, self.settings, self.progress, self.asked = sources, settings, progress, asked
        self.known, self.surprises = truth(read_labels(sources, labels)), read_surprises(sources)
        self.overview = Overview(self.known)

    def run(self) -> Run:
        """Read, look, learn the days before the cut, judge the others, count."""
        networks = network_table.load(self.settings.reading.networks)
        with Delivered(self.settings, networks, backend=backend.chosen(self.settings)) as history:
            self._read(history)
            cut = self._look(history)
            bank = pipeline.train(part(history, None, cut), self.settings, self.progress)
            judging = part(history, cut, None)
            judged, methods = ours(bank, judging, self.settings, bool(self.asked.third), self.progress)
            events = labelled(judged, self.known)
            delays = self._alerted(bank, history, cut, events, next(iter(methods.values())))
            if self.asked.peers:
                methods |= self._peers(history, cut, judged)
            betrayal = self._form(history, cut)
        days = max(int(judged["time"].max() - judged["time"].min()) / 1e6, HOUR) / DAY
        figures = self._figures(events, methods, days, cut)
        about = self._about(history, bank, cut, events)
        return Run({**about, "form": betrayal}, figures, delays)

    # --- before anything is judged ------------------------------------------------------------------------------------

    def _read(self, history: Delivered) -> None:
        for records in files.read(self.sources, self.settings.reading):
            history.add(records)
            self.progress("reading records", history.records)
        if not history.events:
            raise FingerprintError(f"no event in {', '.join(self.sources)}: there is nothing to evaluate")

    def _look(self, history: Delivered) -> int:
        """See who there is and when the attacks were. Returns when judging begins, in seconds."""
        seen = 0
        for events in history.chunks():
            self.overview.see(events)
            seen += len(events)
            self.progress("looking over", seen, history.events)
        self.asked = self.asked.of(len(self.overview.principals))
        attacks = self.overview.attacks.to_numpy(np.int64)
        cut = where_to_split(self.overview.first, self.overview.last, attacks)
        if not (attacks >= cut).any():
            raise FingerprintError(
                f"no labelled attack event after {_day(cut)}: there is nothing to find in what is judged"
            )
        return cut

    # --- what is said of what is judged -----------------------------------------------------------------------------

    def _alerted(
        self, bank: Bank, history: Delivered, cut: int, events: pd.DataFrame, served: Shown
    ) -> pd.DataFrame:
        victims = (victims_of(chunk, self.overview) for chunk in part(history, cut, None))
        return alerted(bank, victims, self.overview, _with(events, served), self.settings, self.progress)

    def _peers(self, history: Delivered, cut: int, judged: pd.DataFrame) -> dict[str, Shown]:
        """What simpler methods say of the same events: -inf of one that they were not given."""
        past, now = gather(history.chunks(), self.settings.alerts.window_seconds).split(cut)
        place = _places(now, judged)
        peers = baselines.METHODS | (self._slow() if self.asked.slow_peers else {})
        out = {}
        for done, (name, method) in enumerate(peers.items()):
            self.progress("peers", done, len(peers))
            score, flagged = baselines.trial(method, past, now)
            out[name] = (np.append(score, -np.inf)[place], np.append(flagged, False)[place])
        return out

    def _slow(self) -> dict[str, Peer]:
        return {name: make(self.progress) for name, make in baselines.SLOW_METHODS.items()}

    def _form(self, history: Delivered, cut: int) -> Figures:
        """How well the form of records alone tells attacks from the rest (`evaluation.form`)."""
        self.progress("looking at forms", 0)
        lines = (line for events in part(history, cut, None) for line in events["raw"])
        return leakage_check.betrayal(lines, set(self.known["event_id"]))

    # --- counted ------------------------------------------------------------------------------------------------------

    def _figures(
        self, events: pd.DataFrame, methods: dict[str, Shown], days: float, cut: int
    ) -> list[Figures]:
        principals = self.overview.principals
        causes = Causes.of(self.surprises, principals, cut // DAY, self.overview.last // DAY)
        out = []
        for done, (name, shown) in enumerate(methods.items()):
            self.progress("counting", done, len(methods))
            figures = measure(_with(events, shown), days, len(principals), causes if self.surprises else None)
            out.append({"name": name, **figures})
        return out

    def _about(self, history: History, bank: Bank, cut: int, events: pd.DataFrame) -> Figures:
        overview = self.overview
        return {
            "records": history.records,
            "rejects": history.rejected,
            "events": bank.manifest["events"] + len(events),
            "principals": len(overview.principals),
            "days_learned": round((cut - overview.first) / DAY, 2),
            "days_judged": round((overview.last - cut) / DAY, 2),
            "events_judged": len(events),
            "judged_from": _day(cut),
            "attack_sessions": int(events["session"].nunique()),
            "attack_events": int(events["session"].notna().sum()),
            "attack_events_learned": int((overview.attacks < cut).sum()),
        }


def _with(events: pd.DataFrame, shown: Shown) -> pd.DataFrame:
    """Labelled events with a method's scores and flags."""
    return events.assign(score=shown[0], flagged=shown[1])


def _places(now: Rows, judged: pd.DataFrame) -> NDArray[np.int64]:
    """Where each judged event is among the rows that peers score, -1 for nowhere: (N,)."""
    names = hashing.mix(now.principal, hashing.of(now.frame["event_id"]))
    wanted = hashing.mix(judged["principal"].to_numpy(), judged["event"].to_numpy())
    order = np.argsort(names)
    place = order[np.minimum(np.searchsorted(names[order], wanted), len(order) - 1)]
    return np.where(names[place] == wanted, place, -1)


def part(history: History, start: int | None, end: int | None) -> Iterator[pd.DataFrame]:
    """The events of a history from `start` to `end`, seconds from the epoch."""
    for events in history.chunks():
        seconds = frames.seconds(events["event_time"])
        inside = (seconds >= (start or 0)) & (seconds < (end or np.inf))
        if inside.any():
            yield events[inside].reset_index(drop=True)


def _day(seconds: int) -> str:
    return pd.Timestamp(seconds, unit="s", tz="UTC").isoformat()
