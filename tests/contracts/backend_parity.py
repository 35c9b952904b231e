"""Two pipelines, one corpus, bytes to votes: what the CPU says of it, any other backend must say.

Example:
    >>> found = compared(lines, bank, bank.scorer_state, settings, other)
    >>> print(found)
    20,300 records: 20,287 events, 13 rejects, 0 skipped; losses differ by 0 at most, z by 0 at most
    4,011 votes, 0 of them differ at their threshold; 0 alerts
    >>> found.differences                # sentences, of which there may be none
    []

Both pipelines run side by side, a batch at a time. Rejects, events, the codes and fingerprints that losses are asked of, and
alerts must be the same. Losses may differ by CLOSE. A vote, or whether an event has one, may differ only where its z lies within
CLOSE of the threshold; those are counted. What follows from such a vote (a verdict, an alert) may differ with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.backend import Backend
from fingerprint.core.alert import Alert
from fingerprint.core.settings import Settings
from fingerprint.detection.inference import LocalInference
from fingerprint.pipeline import DetectionPipeline, StepResult
from fingerprint.registry.bank import Bank
from fingerprint.sources.base import FlattenedRecords
from fingerprint.sources.cloudtrail import envelopes
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import dedup_key, flatten
from fingerprint.state.pipeline_state import PipelineState
from fingerprint.state.scorer_state import ScorerState

CLOSE = 1e-4  # nats of a loss; z from its threshold
FEW = 20  # differences that are told; more would say no more


# --- what one pipeline says -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """Losses that were measured: of `fingerprint` (N,) and `codes` (N, F); `loss` and `known` (N, F). All on the host."""

    fingerprint: NDArray[np.int32]
    codes: NDArray[np.uint64]
    loss: NDArray[np.float32]
    known: NDArray[np.bool_]


class Overheard:
    """Losses in process, and a note of all that were measured since the notes were last taken."""

    degraded = False

    def __init__(self, bank: Bank) -> None:
        self.near, self.notes = LocalInference(bank), []

    @property
    def version(self) -> str:
        return self.near.version

    def losses(self, fingerprint: Array, codes: Array) -> tuple[Array, Array]:
        answer = self.near.losses(fingerprint, codes)
        self.notes.append(Asked(*map(arrays.to_host, (fingerprint, codes, *answer))))
        return answer

    def taken(self) -> list[Asked]:
        notes, self.notes = self.notes, []
        return notes


@dataclass(frozen=True)
class Step:
    """What a pipeline makes of a batch of lines; tables and arrays are on the host."""

    flat: FlattenedRecords
    events: pd.DataFrame
    keys: NDArray[np.uint64]
    asked: list[Asked]
    said: StepResult


class Walker:
    """One pipeline from bytes to votes, by a backend."""

    def __init__(
        self, bank: Bank, scorer_state: Mapping[str, Array], settings: Settings, by: Backend
    ) -> None:
        placed = bank.on(by.to_device)
        self.settings, self.by, self.losses = settings, by, Overheard(placed)
        kept = ScorerState.from_arrays(settings, scorer_state, by.to_device)
        self.pipeline = DetectionPipeline(
            placed, PipelineState(kept), settings, keep_all_events=True, inference=self.losses
        )

    def step(self, lines: Sequence[bytes]) -> Step:
        flat = flatten(envelopes.split_lines(lines), self.by.dataframe_library)
        events = add_entity_columns(flat.events, self.settings.entities)
        keys = arrays.to_host(dedup_key(events))
        said = self.pipeline.process(events)
        return Step(flat, frames.to_pandas(events), keys, self.losses.taken(), said)

    def end(self) -> Step:
        nothing, said = flatten(envelopes.split_lines([])), self.pipeline.flush()
        return Step(nothing, nothing.events, np.empty(0, np.uint64), self.losses.taken(), said)

    @property
    def thresholds(self) -> dict[str, float]:
        return {each.name: float(each.threshold) for each in self.pipeline.scorer.detectors}


# --- what two of them differ in -----------------------------------------------------------------------------------------


@dataclass
class Parity:
    """What was compared, how far apart it was at most, and what differed that may not."""

    records: int = 0
    events: int = 0
    rejects: int = 0
    skipped: int = 0
    loss_apart: float = 0.0
    z_apart: float = 0.0
    z_far: int = 0  # z's further apart than CLOSE, and their own share of it
    votes: int = 0
    at_threshold: int = 0  # votes that differ, and may
    alerts: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        read = f"{self.records:,} records: {self.events:,} events, {self.rejects:,} rejects, {self.skipped:,} skipped"
        apart = f"losses differ by {self.loss_apart:.3g} at most, z by {self.z_apart:.3g} at most"
        votes = f"{self.votes:,} votes, {self.at_threshold:,} of them differ at their threshold"
        return f"{read}; {apart} ({self.z_far:,} by more than {CLOSE:g})\n{votes}; {self.alerts:,} alerts"

    def note(self, sentences: Iterator[str]) -> None:
        for sentence in sentences:
            if len(self.differences) < FEW:
                self.differences.append(sentence)


def compared(
    lines: Sequence[bytes],
    bank: Bank,
    scorer_state: Mapping[str, Array],
    settings: Settings,
    other: Backend,
    by: Backend,
    batch: int = 20_000,
) -> Parity:
    """The lines along both pipelines, `by` being the one that is believed."""
    pipelines = [Walker(bank, scorer_state, settings, each) for each in (by, other)]
    found = Parity(records=len(lines))
    for start in range(0, len(lines), batch):
        part = lines[start : start + batch]
        compare(found, *(pipeline.step(part) for pipeline in pipelines), pipelines[0].thresholds)
    compare(found, *(pipeline.end() for pipeline in pipelines), pipelines[0].thresholds)
    return found


def compare(found: Parity, one: Step, other: Step, thresholds: Mapping[str, float]) -> None:
    """Counts a step, and notes what differs."""
    found.events += len(one.events)
    found.rejects += len(one.flat.rejects)
    found.skipped += one.flat.skipped
    found.note(_reading(one, other))
    for mine, theirs in zip_longest(one.asked, other.asked):
        found.note(_losses(found, mine, theirs))
    moved: set[str] = set()
    for mine, theirs in zip_longest(one.said.scored_events, other.said.scored_events):
        found.note(_judged(found, mine, theirs, thresholds, moved))
    found.note(_votes(found, one.said.votes, other.said.votes, thresholds))
    found.note(_alerts(found, one.said.alerts, other.said.alerts, moved))


def _reading(one: Step, other: Step) -> Iterator[str]:
    for mine, theirs in zip_longest(one.flat.rejects, other.flat.rejects):
        if mine != theirs:
            yield f"a reject: {mine} against {theirs}"
    if one.flat.skipped != other.flat.skipped:
        yield f"{one.flat.skipped} skipped against {other.flat.skipped}"
    if len(one.events) != len(other.events) or list(one.events) != list(other.events):
        yield f"events {one.events.shape} {list(one.events)} against {other.events.shape} {list(other.events)}"
        return
    for name in one.events:
        yield from _column(name, one.events[name], other.events[name])
    if not np.array_equal(one.keys, other.keys):
        yield f"{int((one.keys != other.keys).sum())} keys of repeats"


def _column(name: str, one: pd.Series, other: pd.Series) -> Iterator[str]:
    missing, absent = (each.isna().to_numpy(bool) for each in (one, other))
    unlike = missing != absent
    there = np.flatnonzero(~missing & ~absent)
    unlike[there] = one.iloc[there].to_numpy(object) != other.iloc[there].to_numpy(object)
    for at in np.flatnonzero(unlike)[:1]:
        yield f"{unlike.sum()} of {name}, first in event {at}: {one[at]!r:.200} against {other[at]!r:.200}"


def _losses(found: Parity, one: Asked | None, other: Asked | None) -> Iterator[str]:
    if one is None or other is None or one.codes.shape != other.codes.shape:
        yield f"losses were asked of {one and one.codes.shape} against {other and other.codes.shape}"
        return
    for name in ("fingerprint", "codes", "known"):
        unlike = getattr(one, name) != getattr(other, name)
        if unlike.any():
            yield f"{unlike.sum()} of {name}, first at {np.argwhere(unlike)[0].tolist()}"
    apart = float(np.abs(one.loss - other.loss).max(initial=0))
    found.loss_apart = max(found.loss_apart, apart)
    if not apart <= CLOSE:
        yield f"losses differ by {apart:.3g}"


def _judged(
    found: Parity,
    one: pd.DataFrame | None,
    other: pd.DataFrame | None,
    thresholds: Mapping[str, float],
    moved: set[str],
) -> Iterator[str]:
    """z's and votes of events; `moved` gathers who may have an alert of another kind, because a vote differs that may."""
    if one is None or other is None or not np.array_equal(one["event_id"], other["event_id"]):
        yield "other events were judged"
        return
    free = np.zeros(len(one), bool)
    for name, threshold in thresholds.items():
        z = [each[f"{name}_z"].to_numpy(np.float64) for each in (one, other)]
        yield from _apart(found, name, *z)
        vote = [each[f"{name}_vote"].to_numpy(bool) for each in (one, other)]
        found.votes += int(vote[0].sum())
        unlike = vote[0] != vote[1]
        allowed = unlike & (np.abs(z[0] - threshold) <= CLOSE)
        found.at_threshold += int(allowed.sum())
        free |= allowed
        for at in np.flatnonzero(unlike & ~allowed)[:1]:
            yield f"{(unlike & ~allowed).sum()} votes of {name}, first with z {z[0][at]} against {z[1][at]}"
    moved |= set(one["principal"][free])
    verdict = one["verdict"].to_numpy(bool) != other["verdict"].to_numpy(bool)
    if (verdict & ~free).any():
        yield f"{(verdict & ~free).sum()} verdicts"


def _apart(found: Parity, name: str, one: NDArray[np.float64], other: NDArray[np.float64]) -> Iterator[str]:
    """How far z's are apart. A single precision that is right to 1e-4 at 1 is right to 1e-3 at 10."""
    if (np.isnan(one) != np.isnan(other)).any():
        yield f"{int((np.isnan(one) != np.isnan(other)).sum())} events on which {name} has an opinion"
    apart = np.abs(np.nan_to_num(one) - np.nan_to_num(other))
    found.z_apart = max(found.z_apart, float(apart.max(initial=0)))
    found.z_far += int((apart > CLOSE * np.maximum(1, np.abs(np.nan_to_num(one)))).sum())


def _votes(
    found: Parity, one: pd.DataFrame, other: pd.DataFrame, thresholds: Mapping[str, float]
) -> Iterator[str]:
    """Votes on intervals (those on events are with the events). They are kept from the alert store's floor on."""
    both = _of_intervals(one).join(_of_intervals(other), how="outer", lsuffix="_one", rsuffix="_other")
    mine, theirs = (both[name].fillna(FLOOR).to_numpy(np.float64) for name in ("z_one", "z_other"))
    threshold = both.index.get_level_values("detector").map(thresholds).to_numpy(np.float64)
    found.votes += int((mine >= threshold).sum())
    found.z_apart = max(found.z_apart, float(np.abs(mine - theirs).max(initial=0)))
    unlike = (mine >= threshold) != (theirs >= threshold)
    allowed = unlike & (np.abs(mine - threshold) <= CLOSE)
    found.at_threshold += int(allowed.sum())
    alone = both.isna().any(axis=1).to_numpy(bool) & (np.abs(mine - theirs) > CLOSE)
    for name in both.index[(unlike & ~allowed) | alone]:
        yield f"a vote on an interval: {name}, {both.loc[name].to_dict()}"


FLOOR = Settings().database.min_vote_score


def _of_intervals(votes: pd.DataFrame) -> pd.DataFrame:
    own = votes["event_id"].astype(str).str.startswith(("interval:", "silence:"))
    return votes[own].set_index(["event_id", "detector"])[["z"]].astype(float).sort_index()


def _alerts(found: Parity, one: list[Alert], other: list[Alert], moved: set[str]) -> Iterator[str]:
    found.alerts += len(one)
    mine, theirs = ({each.alert_id: each for each in said} for said in (one, other))
    for name in mine.keys() | theirs.keys():
        said = [each.get(name) for each in (mine, theirs)]
        if any(each is not None and each.principal in moved for each in said):
            continue
        if _told_alert(said[0]) != _told_alert(said[1]):
            yield f"alert {name}: {_told_alert(said[0])!s:.300} against {_told_alert(said[1])!s:.300}"


def _told_alert(alert: Alert | None) -> Any:
    return alert and (
        alert.title,
        sorted(alert.event_ids),
        alert.principal,
        [each.action for each in alert.events],
    )
