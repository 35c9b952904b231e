"""Events -> judged events: every detector measures when an event comes; the quorum decides while its interval fills.

Example:
    >>> scorer = Scorer(bank, ledger, settings)
    >>> taken = scorer.take(events)          # measured; what may still get a verdict waits
    >>> early = scorer.so_far(taken.principals)   # those that wait, as things stand: a verdict is true once and never back
    >>> judged = scorer.settle()             # those whose interval is over
    >>> judged.frame[["event_id", "autoencoder_z", "spectral_z", "verdict"]]
    >>> votes = scorer.close_intervals()     # what the spectral detector says of the intervals that are over

Most events can no longer get a verdict once they are measured (with two of two: the autoencoder is sure of them). Those do
not wait, unless every event's z's are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import namespace, occurrence_index, to_device_of, to_host
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import LEVELS, Vote
from fingerprint.core.ports import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection import batch as measured
from fingerprint.detection import detectors, ensemble
from fingerprint.detection.batch import EventBatch
from fingerprint.detection.ensemble import Detector
from fingerprint.detection.inference import LocalInference
from fingerprint.detection.owner_names import OwnerNames
from fingerprint.estimators import autoencoder
from fingerprint.registry.bank import Bank
from fingerprint.state.activity_series import Floats, Ints
from fingerprint.state.scorer_state import ScorerState

MAX_PENDING_EVENTS_PER_PRINCIPAL = 5_000  # of an interval, the strangest first
VOTE_COLUMNS = tuple(Vote.__dataclass_fields__)  # the columns of votes
_IDENTITY_COLUMNS = ["event_id", "event_time", "principal", "entity"]  # those that an event has by itself


@dataclass(frozen=True)
class ScoredEvents:
    """Events with the columns `<detector>_z`, `<detector>_vote`, `verdict`, `alert_id`, `degraded` (their losses were
    measured by who stands in) and `bank_version` (of the bank that measured them), and what explains them."""

    batch: EventBatch
    frame: pd.DataFrame


class MeasureResult(NamedTuple):
    """What became of a batch: fresh events, repeats that were dropped, whose they are (distinct), votes on events that
    wait for nothing, and how many events were measured by who stands in (`degraded`)."""

    events: int
    repeats: int
    principals: Hashes
    votes: pd.DataFrame
    degraded: int = 0


class IntervalVotes(NamedTuple):
    """What is said of intervals that are over: votes at or above the floor, how many of them are silences, how many cells
    there was no opinion on yet."""

    votes: pd.DataFrame
    silent_intervals: int
    no_opinion: int


class Scorer:
    """Judges events against one bank. All its state is the ledger's, `waiting`, and the strangers of `names`."""

    def __init__(
        self,
        bank: Bank,
        state: ScorerState,
        settings: Settings,
        keep_all_events: bool = False,
        inference: Inference | None = None,
    ) -> None:
        """`losses` measures against the same bank; by default this process does."""
        self.bank, self.state, self.settings, self.keep_all_events = bank, state, settings, keep_all_events
        self.inference = inference or LocalInference(bank)
        self.detectors = detectors.build_detectors(settings, bank, state, self.inference)
        self.owner_names = OwnerNames(bank)
        self.pending: list[EventBatch] = []
        self.dropped_events = 0  # events that could not wait, because too many did
        self.over_limit_events = 0  # events of more strangers than a day may have
        state.voted_until = (
            state.voted_until or state.first_open_interval()
        )  # what a bank has learned is closed

    def with_bank(
        self, bank: Bank, inference: Inference | None = None, settings: Settings | None = None
    ) -> Scorer:
        """One that goes on from here, and measures against another bank, or holds events to other thresholds. What waits keeps
        what it was measured with."""
        after = Scorer(bank, self.state, settings or self.settings, self.keep_all_events, inference)
        series, end = self.state.series, np.iinfo(np.int32).max
        row, interval = series.open_cells(self.state.voted_until, end)  # what there may be a vote on yet
        after.owner_names = self.owner_names.with_bank(bank, to_host(series.owner[row]), to_host(interval))
        after.pending, after.dropped_events, after.over_limit_events = (
            list(self.pending),
            self.dropped_events,
            self.over_limit_events,
        )
        return after

    def measure(self, events: Frame) -> MeasureResult:
        """Measure events (with entities), where they lie. What waits is brought to the host."""
        batch, repeats = measured.encode_batch(events, self.state)
        self.state.late_events += int((batch.interval < self.state.first_open_interval()).sum())
        if not len(batch):
            return MeasureResult(0, repeats, batch.principal, empty_votes())
        fingerprint, level = self.bank.resolve(batch.entity, batch.principal, batch.frame)
        batch = replace(batch, fingerprint=fingerprint, level=level)
        evidence = {each.name: each.measure(batch) for each in self.detectors}
        degraded = any(each.degraded for each in self.detectors)
        batch, xp = replace(batch, evidence=evidence), namespace(batch.codes)
        self.owner_names.observe(batch)
        z = {each.name: each.score(batch) for each in self._event_detectors()}
        waits = self._can_reach_quorum(batch)
        said = reduce(or_, (each >= self.settings.database.min_vote_score for each in z.values()), waits)
        refused = self._is_over_limit(batch, said)
        waits &= ~refused
        if waits.any():
            self.pending.append(self._with_provenance(batch.take(waits), degraded))
        votes = self._vote_rows(batch, {name: xp.where(waits | refused, np.nan, z[name]) for name in z})
        return MeasureResult(len(batch), repeats, xp.unique(batch.principal), votes, len(batch) * degraded)

    def _with_provenance(self, batch: EventBatch, degraded: bool) -> EventBatch:
        """Events with who measured them, and how many seconds event time had gone past them when they came."""
        at = frames.epoch_seconds(batch.frame["event_time"])
        frame = batch.frame.assign(
            degraded=degraded, bank_version=self.bank.version, delay=(self.state.watermark - at).clip(0)
        )
        return replace(batch, frame=frame)

    def judge_closed(self, include_open: bool = False) -> ScoredEvents | None:
        """Judge the events whose interval can no longer change (or all), and let them go."""
        self._limit_pending()
        closed = np.iinfo(np.int32).max if include_open else self.state.first_open_interval()
        over = [part.interval < closed for part in self.pending]
        done = [part.take(which) for part, which in zip(self.pending, over, strict=True) if which.any()]
        self.pending = [
            part.take(~which) if which.any() else part
            for part, which in zip(self.pending, over, strict=True)
            if not which.all()
        ]
        return self.judge(measured.concat_batches(done)) if done else None

    def judge_open(self, principals: Hashes) -> ScoredEvents | None:
        """Judge what waits of these principals as things stand; it waits on."""
        principals = to_host(principals)
        theirs = [(part, np.isin(part.principal, principals)) for part in self.pending]
        parts = [part.take(which) for part, which in theirs if which.any()]
        return self.judge(measured.concat_batches(parts)) if parts else None

    def judge(self, batch: EventBatch) -> ScoredEvents:
        """z's, votes, verdict and alert of measured events, as the series stand now."""
        z = {each.name: each.score(batch) for each in self.detectors}
        opinions = ensemble.opinion_masks(z)
        share = self._threshold_share(opinions, batch)
        votes = {
            each.name: _reaches_threshold(z[each.name], each.threshold * share) for each in self.detectors
        }
        verdict = ensemble.verdicts(votes, self.settings.voting.quorum, opinions)
        columns: dict[str, NDArray[np.generic]] = {f"{name}_z": each for name, each in z.items()}
        columns |= {f"{name}_vote": each for name, each in votes.items()}
        frame = batch.frame.assign(
            **columns, verdict=verdict, level=np.array(LEVELS, dtype=object)[batch.level], alert_id=None
        )
        frame["alert_id"] = alert_ids(frame, verdict, self.settings)
        return ScoredEvents(batch, frame)

    def _threshold_share(self, opinions: ensemble.VoteMasks, batch: EventBatch) -> NDArray[np.float64]:
        """Return the share of its threshold at which a detector votes for each event (N,)."""
        newcomers = ensemble.newcomer_mask(opinions, batch.level)
        share: NDArray[np.float64] = namespace(newcomers).where(
            newcomers, ensemble.NEWCOMER_THRESHOLD_SHARE, 1.0
        )
        return share

    def event_votes(self, scored: ScoredEvents) -> pd.DataFrame:
        """Votes on judged events worth keeping."""
        z = {each.name: scored.frame[f"{each.name}_z"].to_numpy() for each in self._event_detectors()}
        return self._vote_rows(scored.batch, z)

    def close_intervals(self, include_open: bool = False) -> IntervalVotes:
        """What the spectral detector says of the intervals that closed since the last call (or of all that are open).

        A vote on an interval is of one channel of an entity or principal; its event id is a digest of the three. A silence
        is an interval in which far fewer events came than expected: a vote, never a verdict.
        """
        end = self.state.first_open_interval()
        start, self.state.voted_until = self.state.voted_until, max(self.state.voted_until, end)
        self.owner_names.expire(start)
        spectral = next((each for each in self.detectors if each.granularity == "interval"), None)
        if spectral is None or (start >= end and not include_open):
            return IntervalVotes(empty_votes(), 0, 0)
        series = self.state.series
        row, interval, z = series.scored_cells(start, np.iinfo(np.int32).max if include_open else end)
        strong = z >= self.settings.database.min_vote_score
        surges = self._interval_votes(
            "interval", row[strong], interval[strong], z[strong], spectral.threshold
        )
        missed = series.silent_intervals(
            detectors.EVENT_CHANNEL, max(start, end - series.intervals_per_day), end
        )
        silences = self._interval_votes("silence", *missed, spectral.threshold)
        no_opinion = int(namespace(z).isnan(z).sum())
        return IntervalVotes(pd.concat([surges, silences], ignore_index=True), len(silences), no_opinion)

    # --- who waits ----------------------------------------------------------------------------------------------------

    def _can_reach_quorum(self, batch: EventBatch) -> NDArray[np.bool_]:
        """Which events may still get a verdict, or all."""
        if self.keep_all_events:
            everybody: NDArray[np.bool_] = namespace(batch.codes).ones(len(batch), bool)
            return everybody
        may = {detector.name: detector.can_still_vote(batch) for detector in self.detectors}
        return ensemble.verdicts(may, self.settings.voting.quorum)

    def _is_over_limit(self, batch: EventBatch, reportable: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the events that are said something of (N,) are of more strangers than a day may have. They neither wait
        nor have a vote."""
        refused = namespace(reportable).zeros(len(batch), bool)
        at = namespace(reportable).flatnonzero(reportable & ~self.owner_names.is_in_bank(batch.principal))
        if len(at):
            principal, interval = (to_host(each[at]) for each in (batch.principal, batch.interval))
            inside = self.state.admit_unknown(
                principal, interval, self.settings.voting.max_unknown_principals_per_day
            )
            refused[at] = to_device_of(~inside, refused)
            self.over_limit_events += int((~inside).sum())
        return refused

    def _limit_pending(self) -> None:
        """Let at most `max_pending_events` of an interval wait, shared fairly by principals: first the strangest event of each, then
        the second ones, and so on, none beyond MAX_PENDING_EVENTS_PER_PRINCIPAL. They are the same ones wherever batches are cut, as more
        events of others or of their own principal only worsen the place that an event has."""
        options = self.settings.voting
        if self.keep_all_events or not self._exceeds_pending_limit(
            options.max_pending_events, MAX_PENDING_EVENTS_PER_PRINCIPAL
        ):
            return
        batch = measured.concat_batches(self.pending)
        own = np.zeros(len(batch), np.float32)
        if "autoencoder" in batch.evidence:
            own = autoencoder.total_surprise(detectors.feature_surprise(batch))
        order = np.lexsort((hashing.hash_strings(batch.frame["event_id"]), -own))
        place = np.empty(len(batch), np.intp)
        place[order] = occurrence_index(
            hashing.combine(batch.principal, batch.interval.astype(np.uint64))[order]
        )
        order = order[np.argsort(place[order], kind="stable")]
        kept = place < MAX_PENDING_EVENTS_PER_PRINCIPAL
        kept[order] &= occurrence_index(batch.interval[order]) < options.max_pending_events
        if not kept.all():
            self.dropped_events += len(batch) - int(kept.sum())
            self.pending = [batch.take(kept)]

    def _exceeds_pending_limit(self, max_events: int, max_events_each: int) -> bool:
        """Return whether more wait in an interval than may, of all principals or of one."""
        if sum(map(len, self.pending)) <= min(max_events, max_events_each):
            return False
        interval = np.concatenate([part.interval for part in self.pending])
        principal = np.concatenate([part.principal for part in self.pending])
        names = hashing.combine(principal, interval.astype(np.uint64))
        sizes = [np.bincount(pd.factorize(each)[0]).max() for each in (interval, names)]
        return bool(sizes[0] > max_events or sizes[1] > max_events_each)

    # --- votes --------------------------------------------------------------------------------------------------------

    def _event_detectors(self) -> list[Detector]:
        return [each for each in self.detectors if each.granularity == "event"]

    def _vote_rows(self, batch: EventBatch, z: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
        """What each detector that votes on events says of them by its z (N,), NaN for nothing: one row an event and detector,
        where z is at or above the desk's floor."""
        parts = [empty_votes()]
        opinions = {each.name: each.has_opinion(batch) for each in self.detectors}
        share, alone = self._threshold_share(opinions, batch), ensemble.sole_opinion_mask(opinions)
        for detector in self._event_detectors():
            own, at = z[detector.name], detector.threshold * share
            strong = namespace(own).flatnonzero(own >= self.settings.database.min_vote_score)
            rows, level = (
                self._vote_identity(batch, strong),
                np.array(LEVELS, dtype=object)[to_host(batch.level[strong])],
            )
            own, at, lone = (to_host(each[strong]) for each in (own, at, alone))
            parts.append(
                rows.assign(
                    detector=detector.name,
                    z=own,
                    vote=_reaches_threshold(own, at),
                    threshold=at,
                    level=level,
                    alone=lone,
                )
            )
        return pd.concat(
            [part[list(VOTE_COLUMNS)] for part in parts if len(part)] or parts, ignore_index=True
        )

    def _vote_identity(self, batch: EventBatch, which: NDArray[np.intp]) -> pd.DataFrame:
        """What votes say of the events at some places, on the host. The bank that measures now did, unless they waited."""
        waited = [name for name in ("bank_version",) if name in batch.frame]
        rows = frames.to_pandas(frames.select_rows(batch.frame[_IDENTITY_COLUMNS + waited], which))
        return rows if waited else rows.assign(bank_version=self.bank.version)

    def _interval_votes(
        self, kind: str, row: Ints, interval: Ints, z: Floats, threshold: float
    ) -> pd.DataFrame:
        if not len(row):
            return empty_votes()
        series, seconds = self.state.series, self.settings.spectral.interval_seconds
        few = self._limit_unknown_principals(to_host(series.owner[row]), to_host(interval), to_host(z))
        interval, z = to_host(interval)[few], to_host(z)[few]
        owner, channel = (to_host(each[row])[few] for each in (series.owner, series.channel))
        name = pd.Series(self.owner_names.look_up(owner), dtype=object)
        principal = name.map(lambda text: text.split("|")[0], na_action="ignore")
        frame = pd.DataFrame(
            {
                "event_id": [
                    f"{kind}:{who:016x}:{what:x}:{at}"
                    for who, what, at in zip(owner, channel, interval, strict=True)
                ],
                "event_time": pd.to_datetime((interval.astype(np.int64) + 1) * seconds, unit="s", utc=True),
                "principal": principal,
                "entity": name,
                "detector": "spectral",
                "z": z,
                "threshold": threshold,
                "vote": z >= threshold,
                "level": np.where(name == principal, "principal", "entity"),
                "bank_version": self.bank.version,
                "alone": False,
            }
        )
        return frame.loc[name.notna(), list(VOTE_COLUMNS)].reset_index(drop=True)

    def _limit_unknown_principals(self, owner: Hashes, interval: Ints, z: Floats) -> NDArray[np.bool_]:
        """Return which votes on intervals (N,) are kept: all on whom the bank knows, and of the others the strongest of each
        interval. On the host."""
        kept = self.owner_names.is_in_bank(owner)
        order = np.flatnonzero(~kept)
        order = order[np.lexsort((owner[order], -z[order]))]
        kept[order] = occurrence_index(interval[order]) < self.settings.voting.max_unknown_principals_per_day
        self.over_limit_events += len(kept) - int(kept.sum())
        return kept


def _reaches_threshold(z: Floats, threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where a z (N,) is at or above its threshold (N,), as one float32 to the other; NaN is not."""
    voted: NDArray[np.bool_] = z >= threshold.astype(np.float32)
    return voted


@cache
def empty_votes() -> pd.DataFrame:
    """A table of votes with nothing in it."""
    return pd.DataFrame({name: pd.Series(dtype=object) for name in VOTE_COLUMNS})


LATE_WINDOW_FLAG = np.uint64(1 << 40)  # beyond the number of any window


def alert_ids(frame: pd.DataFrame, verdict: NDArray[np.bool_], settings: Settings) -> pd.Series:
    """The alert of each verdict: a hash of its principal and its window (`alert_windows`); missing for the others."""
    window, late = alert_windows(frame[verdict], settings)
    principal = hashing.hash_strings(frame["principal"][verdict])
    marked = window.astype(np.uint64) + np.where(late, LATE_WINDOW_FLAG, np.uint64(0))
    names = [f"{name:016x}" for name in hashing.hash_pair(principal, marked)]
    return pd.Series(names, index=frame.index[verdict], dtype=object).reindex(frame.index)


def alert_windows(frame: pd.DataFrame, settings: Settings) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The number of the window of each event (N,), and whether it was delivered late, (N,).

    A window is a fixed stretch of event time. What comes later than any history reaches back is put together by when it was
    delivered instead: an old archive that is read again becomes one alert a principal, not one for each of its old days.
    """
    at = frames.epoch_seconds(frame["event_time"])
    delay = frame["delay"].to_numpy(np.int64) if "delay" in frame else np.zeros(len(frame), np.int64)
    late = delay >= settings.spectral.history_days * 86400
    return (at + np.where(late, delay, 0)) // settings.alerts.group_window_seconds, late
