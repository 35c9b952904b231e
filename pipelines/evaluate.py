"""Records with known attacks -> figures: what is found and what is left in peace, beside simpler methods."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint import training
from fingerprint.domain import FingerprintError
from fingerprint.edges import files, network_table
from fingerprint.edges.desk import open_desk
from fingerprint.edges.history import History
from fingerprint.edges.labels import read_labels
from fingerprint.edges.results import Results
from fingerprint.evaluation import baselines
from fingerprint.evaluation.metrics import Figures, measure
from fingerprint.evaluation.pool import pool
from fingerprint.evaluation.rows import Rows, gather
from fingerprint.evaluation.truth import labelled, truth, where_to_split
from fingerprint.ledger import Ledger
from fingerprint.road import Road
from fingerprint.settings import Settings
from pipelines.evaluation_table import print_figures
from pipelines.score import keep
from pipelines.show import Progress
from pipelines.simulate import simulate

__all__ = ["evaluate", "print_figures"]

Said = tuple[NDArray[np.float64], NDArray[np.bool_]]  # a method's score and flag of each event, (N,) each


def evaluate(
    sources: list[str],
    settings: Settings,
    progress: Progress,
    labels: Path | None = None,
    principals: int = 50,
    days: int = 28,
    seeds: Sequence[int] = (0,),
    attacks: int = 12,
    keep: Path | None = None,
) -> dict[str, Any]:
    """The figures of `evaluate --json`: `organisations`, and `methods` pooled over them.

    Without sources an organisation is simulated for each seed; in the folder `keep` they stay and are reused.
    Raises FingerprintError where there are no labels, or no attack in what is judged.
    """
    started = time.monotonic()
    runs = []
    if sources:
        runs.append(_run(sources, labels, settings, progress))
    for seed in [] if sources else seeds:
        with _simulated(principals, days, seed, attacks, keep, progress) as folder:
            about, methods = _run([str(folder)], None, settings, progress)
            runs.append(({"seed": seed, **about}, methods))
    return {
        "organisations": [about for about, _ in runs],
        "methods": [pool(list(same)) for same in zip(*(methods for _, methods in runs), strict=True)],
        "seconds": round(time.monotonic() - started, 1),
    }


@contextmanager
def _simulated(
    principals: int, days: int, seed: int, attacks: int, keep: Path | None, progress: Progress
) -> Iterator[Path]:
    name = f"{principals}-principals-{days}-days-{attacks}-attacks-seed-{seed}"
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as temporary:
        folder = (keep or Path(temporary)) / name
        if not (folder / "labels.jsonl").exists():
            simulate(
                principals, days, seed, folder, attacks,
                progress=lambda done, _: progress("simulating days", done, days),
            )  # fmt: skip
        yield folder


def _run(
    sources: list[str], labels: Path | None, settings: Settings, progress: Progress
) -> tuple[Figures, list[Figures]]:
    """One organisation: what it is, and the figures of every method on it."""
    known = truth(read_labels(sources, labels))
    with History(settings, network_table.load(settings.reading.networks)) as history:
        for records in files.read(sources, settings.reading):
            history.add(records)
            progress("reading records", history.records)
        if not history.events:
            raise FingerprintError(f"no event in {', '.join(sources)}: there is nothing to evaluate")
        rows = gather(history.chunks(), settings.alerts.window_seconds)
        cut = where_to_split(rows, known)
        past, now = rows.split(cut)
        events = labelled(now, known)
        if not events["session"].notna().any():
            raise FingerprintError(
                f"no labelled attack event after {_day(cut)}: there is nothing to find in what is judged"
            )
        ours = _ours(history, now, cut, settings, progress)
    methods = ours | _peers(past, now, progress)
    principals = rows.frame["principal"].nunique()
    figures = [
        {"name": name, **measure(events.assign(score=score, flagged=flagged), now.days, principals)}
        for name, (score, flagged) in methods.items()
    ]
    learned = known[known["event_id"].isin(past.frame["event_id"])]
    return {
        "records": history.records,
        "events": len(rows),
        "principals": principals,
        "days_learned": round(past.days, 2),
        "days_judged": round(now.days, 2),
        "events_judged": len(now),
        "judged_from": _day(cut),
        "attack_sessions": int(events["session"].nunique()),
        "attack_events": int(events["session"].notna().sum()),
        "attack_events_learned": len(learned),
    }, figures


def _ours(history: History, now: Rows, cut: int, settings: Settings, progress: Progress) -> dict[str, Said]:
    """Train on the days before `cut`, walk the road over the others, ask the desk for the urgencies."""
    bank = training.train(_part(history, None, cut), settings, progress)
    kept = Kept(settings)
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as folder:
        desk = open_desk(f"sqlite:///{folder}/desk.sqlite")
        road = Road(bank, Ledger.from_arrays(settings, bank.ledger), settings, every_event=True)
        for events in _part(history, cut, None):
            keep(road.walk(events), desk, kept)
            progress("scoring events", road.tally.events + road.tally.repeats)
        keep(road.finish(), desk, kept)
        urgency = {np.uint64(int(alert.alert_id, 16)): alert.urgency for alert in desk.alerts(raw=False)}
        desk.close()
    judged = kept.frame().set_index("event_id").reindex(now.frame["event_id"])
    return _by_quorum(judged, now, pd.Series(urgency, dtype=float), settings)


def _by_quorum(judged: pd.DataFrame, now: Rows, urgency: pd.Series, settings: Settings) -> dict[str, Said]:
    """What the quorum says, ranked by urgency; what each detector says alone; what any of them says."""
    names, quorum = settings.voting.detectors, settings.voting.quorum
    verdict = judged["verdict"].eq(True).to_numpy(dtype=bool)
    urgent = urgency.reindex(now.group).to_numpy(dtype=float)
    out = {f"fingerprint ({quorum} of {len(names)})": (np.where(verdict, urgent, -np.inf), verdict)}
    z = {name: np.nan_to_num(judged[f"{name}_z"].to_numpy(dtype=float), nan=-np.inf) for name in names}
    vote = {name: judged[f"{name}_vote"].eq(True).to_numpy(dtype=bool) for name in names}
    if len(names) > 1:
        share = [z[name] / float(getattr(settings, name).threshold) for name in names]
        out[f"any vote (1 of {len(names)})"] = (np.max(share, axis=0), np.any(list(vote.values()), axis=0))
        out |= {f"{name} alone": (z[name], vote[name]) for name in names}
    return out


def _peers(past: Rows, now: Rows, progress: Progress) -> dict[str, Said]:
    out = {}
    for done, (name, method) in enumerate(baselines.METHODS.items()):
        progress("baselines", done, len(baselines.METHODS))
        out[name] = baselines.trial(method, past, now)
    return out


class Kept(Results):
    """Results that stay in memory."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(None, settings)
        self.parts: list[pd.DataFrame] = []

    def write(self, frame: pd.DataFrame) -> None:
        self.parts.append(frame[self.schema.names])

    def frame(self) -> pd.DataFrame:
        """All judged events, one row an id."""
        return pd.concat(self.parts, ignore_index=True).drop_duplicates("event_id")


def _part(history: History, start: int | None, end: int | None) -> Iterator[pd.DataFrame]:
    """The events of a history from `start` to `end`, seconds from the epoch."""
    for events in history.chunks():
        seconds = events["event_time"].astype("int64") // 1_000_000
        inside = (seconds >= (start or 0)) & (seconds < (end or np.inf))
        if inside.any():
            yield events[inside].reset_index(drop=True)


def _day(seconds: int) -> str:
    return pd.Timestamp(seconds, unit="s", tz="UTC").isoformat()
