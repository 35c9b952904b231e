"""Scorer: events -> scored events. Every detector measures an event when it arrives; the quorum decides while its interval fills.

Example:
    >>> scorer = Scorer(bank, state, settings)
    >>> measured = scorer.measure(events)             # events that may still get a verdict are pending
    >>> early = scorer.judge_open(measured.principals)    # pending events with the counts so far: a verdict turns true once
    >>> scored = scorer.judge_closed()                # pending events whose interval is over
    >>> scored.frame[["event_id", z_column("autoencoder"), "verdict"]]
    >>> votes = scorer.close_intervals()              # votes on the intervals that are over

A *pending* event is measured and may still get a verdict, or be a lead. Most events are never pending: at once it is certain that
too few detectors can vote for them. With `keep_all_events` every event is pending, because its z is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import Floats, Ints, namespace, occurrence_index, to_device_of, to_host
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import GRAVE_OR_SEVERE, z_column
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection import ensemble
from fingerprint.detection.batch import encode_batch
from fingerprint.detection.detectors import Detector, IntervalScores, build_detectors
from fingerprint.detection.event_judge import EventJudge, has_opinion, score_measured
from fingerprint.detection.inference import LocalInference
from fingerprint.detection.owner_names import OwnerNames
from fingerprint.detection.votes import EventJudgement, empty_votes, event_votes, interval_votes
from fingerprint.estimators import harm
from fingerprint.features.encoding import ACTION_COLUMN
from fingerprint.registry import quality
from fingerprint.registry.bank import Bank
from fingerprint.state.coded_events import CodedEvents
from fingerprint.state.event_batch import EventBatch, concat_batches
from fingerprint.state.pipeline_state import PipelineState


@dataclass(frozen=True)
class ScoredEvents:
    """Scored events: a batch with the evidence that explains them, and their table.

    The table has z, vote and threshold of each detector (`z_column`, `vote_column`, `threshold_column`), `verdict`, `degraded`
    (the fallback computed the losses) and `bank_version` (the bank that measured the event).

    `reach` (N,) is the highest threshold of alerts at which each event opens an alert, NaN without one.
    """

    batch: EventBatch
    table: Frame
    reach: NDArray[np.float64]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The table as a pandas DataFrame."""
        return frames.to_pandas(self.table)


class MeasureResult(NamedTuple):
    """The result of measuring a batch.

    The numbers of new `events` and of `repeats`, the principal of each new event (N,), the `votes` on events that are not
    pending, and the number of events that the fallback measured (`degraded`).
    """

    events: int
    repeats: int
    principals: Hashes
    votes: Frame
    degraded: int = 0


class IntervalVotes(NamedTuple):
    """Votes at or above the floor (`database.min_vote_score`) on closed intervals.

    `silent_intervals` counts the votes on silent intervals, `no_opinion` the intervals that could not be judged yet.
    """

    votes: Frame
    silent_intervals: int
    no_opinion: int


class Scorer:
    """Judges events against one bank. The pipeline's state holds everything that it keeps between calls."""

    def __init__(
        self,
        bank: Bank,
        state: PipelineState,
        settings: Settings,
        keep_all_events: bool = False,
        inference: Inference | None = None,
    ) -> None:
        """Build the detectors that the settings list; `inference` computes losses of the same bank, by default in process."""
        self.bank, self.settings, self.keep_all_events = bank, settings, keep_all_events
        self.state, self.scorer_state = state, state.scorer
        self.inference = inference or LocalInference(bank)
        self.detectors = build_detectors(settings, bank, self.scorer_state, self.inference)
        self.alert_threshold = quality.alert_threshold(bank.manifest["quality"], settings.alerts)
        self.event_judge = EventJudge(self.detectors, self.alert_threshold, settings.voting.quorum)
        self.owner_names = OwnerNames(bank, state.unknown_owners)
        self.scorer_state.voted_until = (  # the intervals that the bank was trained on are closed
            self.scorer_state.voted_until or self.scorer_state.first_open_interval()
        )

    def with_bank(
        self, bank: Bank, inference: Inference | None = None, settings: Settings | None = None
    ) -> Scorer:
        """Return a scorer that continues with another bank or other settings. Pending events keep their evidence."""
        after = Scorer(bank, self.state, settings or self.settings, self.keep_all_events, inference)
        series, end = self.scorer_state.series, np.iinfo(np.int32).max
        row, interval = series.open_cells(self.scorer_state.voted_until, end)  # intervals without votes yet
        after.owner_names = self.owner_names.with_bank(bank, to_host(series.owner[row]), to_host(interval))
        self.state.unknown_owners = after.owner_names.unknown_owners
        return after

    def measure(self, events: Frame | CodedEvents) -> MeasureResult:
        """Measure events (with entities) on their device. Pending events are copied to the host."""
        batch, repeats = encode_batch(events, self.scorer_state)
        self.scorer_state.late_events += int((batch.interval < self.scorer_state.first_open_interval()).sum())
        if not len(batch):
            return MeasureResult(0, repeats, batch.principal, empty_votes())
        fingerprint, level = self.bank.resolve(batch.entity, batch.principal, batch.frame)
        batch = replace(batch, fingerprint=fingerprint, level=level)
        evidence = self._measure_evidence(batch)
        degraded = any(each.degraded for each in self.detectors)
        batch, xp = replace(batch, evidence=evidence), namespace(batch.codes)
        self.owner_names.observe(batch)
        z = self._scores_so_far(batch, self._event_detectors())
        undecided = self.event_judge.can_reach_quorum(batch, z)
        reportable = reduce(
            or_, (each >= self.settings.database.min_vote_score for each in z.values()), undecided
        )
        refused = self._is_over_limit(batch, reportable)
        pending = (undecided | self.keep_all_events) & ~refused
        if pending.any():
            self.state.pending.add(self._with_provenance(batch.take(pending), degraded))
        at_once = {name: xp.where(pending | refused, np.nan, z[name]) for name in z}
        no_reach = xp.full(len(batch), np.nan)  # whatever the others say, no verdict
        votes = self._vote_rows(batch, at_once, no_reach)
        return MeasureResult(len(batch), repeats, batch.principal, votes, len(batch) * degraded)

    def _measure_evidence(self, batch: EventBatch) -> dict[str, NDArray[Any]]:
        """Return by detector the evidence that it keeps of events until their interval closes."""
        return {each.name: each.measure(batch) for each in self.detectors}

    def _with_provenance(self, batch: EventBatch, degraded: bool) -> EventBatch:
        """Return events with the version of the bank that measured them and their delay: seconds behind the watermark."""
        at = frames.epoch_seconds(frames.column_of(batch.frame, "event_time"))
        delay = (self.scorer_state.watermark - at).clip(0)
        origin = {
            "degraded": np.full(len(batch), degraded),
            "bank_version": np.full(len(batch), self.bank.version, object),
            "delay": delay,
        }
        frame = frames.with_columns(batch.frame, origin)
        return replace(batch, frame=frame)

    def judge_closed(self, include_open: bool = False) -> ScoredEvents | None:
        """Judge the pending events of closed intervals (`include_open`: of all), and remove them from the pending ones."""
        self._limit_pending()
        end = np.iinfo(np.int32).max if include_open else self.scorer_state.first_open_interval()
        closed = self.state.pending.take_closed(end)
        return self.judge(closed) if closed else None

    def judge_open(self, principals: Hashes) -> ScoredEvents | None:
        """Judge the pending events of these principals by the counts so far; they stay pending."""
        parts = [part.take(rows) for part, rows in self.state.pending.rows_of(principals)]
        return self.judge(concat_batches(parts), is_final=False) if parts else None

    def judge_alerting(self, principals: Hashes) -> ScoredEvents | None:
        """Judge, by the counts so far, the pending events of these principals that may open an alert: most batches have none."""
        pending = self.state.pending.rows_of(principals)
        if not pending:
            return None
        strange = self._can_open_alert(pending)
        if not strange.any():
            return None
        of_part = np.split(strange, np.cumsum([len(rows) for _, rows in pending])[:-1])
        parts = [
            part.take(rows[which])
            for (part, rows), which in zip(pending, of_part, strict=True)
            if which.any()
        ]
        return self.judge(concat_batches(parts), is_final=False)

    def _can_open_alert(self, pending: Sequence[tuple[EventBatch, NDArray[np.intp]]]) -> NDArray[np.bool_]:
        """Return a mask (N,) of the pending events whose z of a calibrated detector may open an alert."""
        calibrated = [each for each in self.detectors if each.calibrated]
        if not calibrated:
            return np.ones(sum(len(rows) for _, rows in pending), bool)
        if (columns := _score_columns(calibrated)) is not None:
            names = [each.name for each in calibrated]
            pending = [(part.with_evidence_of(names, columns), rows) for part, rows in pending]
        batch = concat_batches([part.take(rows) for part, rows in pending])
        least = np.float32(self.event_judge.least_open_threshold())
        return reduce(or_, [z >= least for z in self._scores_so_far(batch, calibrated).values()])

    def judge(self, batch: EventBatch, is_final: bool = True) -> ScoredEvents:
        """Return z-scores, votes and verdict of measured events, by the counts so far.

        Unless the judgement `is_final`, a detector that is `final_when_closed` has an opinion but no z yet, and so no vote.
        Events that were measured before a restart may have evidence of other detectors: a detector that is no longer listed does
        not count, and one that was not listed then has no opinion.
        """
        batch = batch.with_evidence_of([each.name for each in self.detectors])
        final = {each.name: score_measured(each, batch) for each in self.detectors if is_final}
        z = final or self._scores_so_far(batch, self.detectors)
        judgement = self.event_judge.decide(batch, z, is_final)
        if is_final:
            batch = self._with_final_evidence(batch, judgement.verdict)
            for each in self._with_evidence(batch):
                each.record_scores(batch, z[each.name])
        table = frames.with_columns(batch.frame, judgement.columns(z, batch.level))
        return ScoredEvents(batch, table, judgement.reach)

    def _scores_so_far(self, batch: EventBatch, detectors: Sequence[Detector]) -> dict[str, NDArray[Any]]:
        """Return the z of open events by detector, (N,) each; NaN for a detector that is `final_when_closed`."""
        xp = namespace(batch.codes)
        return {
            each.name: xp.full(len(batch), np.nan, np.float32)
            if each.final_when_closed
            else score_measured(each, batch)
            for each in detectors
        }

    def _with_final_evidence(self, batch: EventBatch, verdict: NDArray[np.bool_]) -> EventBatch:
        """Return events with the evidence that explains alerts; a detector listed after an event was measured has none of it."""
        evidence = {
            each.name: each.final_evidence(batch, verdict & batch.has_evidence(each.name))
            for each in self._with_evidence(batch)
        }
        return replace(batch, evidence=batch.evidence | evidence)

    def _with_evidence(self, batch: EventBatch) -> list[Detector]:
        """Return the listed detectors that measured some of these events."""
        return [each for each in self.detectors if each.name in batch.evidence]

    def event_votes(self, scored: ScoredEvents) -> Frame:
        """Return the votes at or above the floor on scored events."""
        z = {
            each.name: np.asarray(frames.column_of(scored.table, z_column(each.name)))
            for each in self._event_detectors()
        }
        return self._vote_rows(scored.batch, z, scored.reach)

    def close_intervals(self, include_open: bool = False) -> IntervalVotes:
        """Return the votes on the intervals that closed since the last call (`include_open`: also on the open ones).

        A vote is on one interval of one channel of an entity or principal; its event id is made of these three. A silent
        interval, in which far fewer events came than expected, is a vote, never a verdict.
        """
        end = self.scorer_state.first_open_interval()
        start, self.scorer_state.voted_until = (
            self.scorer_state.voted_until,
            max(self.scorer_state.voted_until, end),
        )
        self.owner_names.expire(start)
        if start >= end and not include_open:
            return IntervalVotes(empty_votes(), 0, 0)
        last = np.iinfo(np.int32).max if include_open else end
        votes, silent, no_opinion = [], 0, 0
        for detector in self.detectors:
            surges = detector.interval_scores(start, last, self.settings.database.min_vote_score)
            missing = detector.silent_intervals(start, end)
            for kind, scores in (("interval", surges), ("silence", missing)):
                if scores is None:
                    continue
                votes.append(self._interval_votes(kind, scores, detector))
                silent += len(votes[-1]) if kind == "silence" else 0
                no_opinion += scores.no_opinion
        return IntervalVotes(frames.concat_frames(votes) if votes else empty_votes(), silent, no_opinion)

    # --- pending events -----------------------------------------------------------------------------------------------

    def _is_over_limit(self, batch: EventBatch, reportable: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask (N,) of the reportable events that exceed the daily limit of unknown principals.

        They are neither pending nor voted on. Calls that can do harm and did not fail have more room than others.
        """
        refused = namespace(reportable).zeros(len(batch), bool)
        at = (reportable & ~self.owner_names.is_in_bank(batch.principal)).nonzero()[0]
        if len(at):
            principal, interval = (to_host(each[at]) for each in (batch.principal, batch.interval))
            inside = self.scorer_state.admit_unknown(
                principal,
                interval,
                _quotas_of_calls(batch, at),
                self.settings.voting.max_unknown_principals_per_day,
            )
            refused[at] = to_device_of(~inside, refused)
            self.state.counters.refuse_events(principal[~inside])
        return refused

    def _limit_pending(self) -> None:
        """Drop the least unusual pending events of intervals with too many, unless all events are kept."""
        if not self.keep_all_events:
            dropped = self.state.pending.limit(self.settings.voting.max_pending_events, self._priority)
            self.state.counters.dropped_events += dropped

    def _priority(self, batch: EventBatch) -> Floats:
        """Return how unusual events look (N,): the sum of priorities of the detectors that measured them."""
        priorities = (
            np.where(batch.has_evidence(each.name), each.priority(batch), np.float32(0))
            for each in self._with_evidence(batch)
        )
        return sum(priorities, np.zeros(len(batch), np.float32))

    # --- votes --------------------------------------------------------------------------------------------------------

    def _event_detectors(self) -> list[Detector]:
        return [each for each in self.detectors if each.granularity == "event"]

    def _vote_rows(
        self, batch: EventBatch, z: Mapping[str, NDArray[Any]], reach: NDArray[np.float64]
    ) -> Frame:
        """Return one row for each event and event detector with a z (N,) at or above the floor; NaN gives no row.

        Only the rows of calibrated detectors have the `reach` (N,) of their events.
        """
        floor = self.settings.database.min_vote_score
        rows_of = {each: (z[each.name] >= floor).nonzero()[0] for each in self._event_detectors()}
        if not any(map(len, rows_of.values())):
            return empty_votes()
        known = {each.name: has_opinion(each, batch) for each in self.detectors}
        opinions = ensemble.without_newcomers(known, self.event_judge.by_newcomers(batch))
        share, alone = ensemble.threshold_share(opinions, batch.level), ensemble.sole_opinion_mask(opinions)
        parts = []
        for detector, places in rows_of.items():
            if len(places):
                own = reach if detector.calibrated else namespace(reach).full_like(reach, np.nan)
                judged = EventJudgement(z[detector.name], detector.threshold * share, alone, own)
                parts.append(event_votes(batch, places, detector, judged))
        return frames.concat_frames(parts)

    def _interval_votes(self, kind: str, scores: IntervalScores, detector: Detector) -> Frame:
        """Return a detector's votes on intervals of owners whose name is known, on the host."""
        if not len(scores.owner):
            return empty_votes()
        owner, channel, interval, z = (to_host(each) for each in scores[:4])
        few = self._limit_unknown_principals(owner, interval, z)
        owner, channel, interval, z = (each[few] for each in (owner, channel, interval, z))
        name = self.owner_names.look_up(owner)
        known = np.array([text is not None for text in name], bool)
        named = IntervalScores(*(each[known] for each in (owner, channel, interval, z)))
        return interval_votes(kind, named, name[known], detector)

    def _limit_unknown_principals(self, owner: Hashes, interval: Ints, z: Floats) -> NDArray[np.bool_]:
        """Return a mask (N,) of the votes on intervals that are kept, on the host.

        Kept are all votes on owners that the bank knows, and in each interval the strongest votes on other owners.
        """
        kept = self.owner_names.is_in_bank(owner)
        order = np.flatnonzero(~kept)
        order = order[np.lexsort((owner[order], -z[order]))]
        kept[order] = occurrence_index(interval[order]) < self.settings.voting.max_unknown_principals_per_day
        self.state.counters.over_limit_intervals += len(kept) - int(kept.sum())
        return kept


def _quotas_of_calls(batch: EventBatch, rows: NDArray[np.intp]) -> Ints:
    """Return how many quotas (`state.unknown_principals`) calls at rows (M,) have, (M,) on the host: 1, grave 2, severe 3.

    Calls are judged by their action alone. A failed call may use 1: it did nothing, and anyone can make any number of them.
    """
    quotas: Ints = np.ones(len(rows), np.int32)
    done = (~batch.is_error[rows]).nonzero()[0]
    if not len(done):
        return quotas
    named = frames.select_rows(frames.select_columns(batch.frame, ["service", "action"]), rows[done])
    nats = to_host(harm.harm_of_events(batch.codes[rows[done], ACTION_COLUMN], named))
    graver = sum(nats >= np.float32(harm.HARM_NATS[gravity]) for gravity in GRAVE_OR_SEVERE)
    quotas[to_host(done)] += graver
    return quotas


def _score_columns(detectors: Sequence[Detector]) -> list[str] | None:
    """Return the columns that these detectors read for a score; None (all columns) if one detector does not declare them."""
    columns: set[str] = set()
    for each in detectors:
        if each.score_columns is None:
            return None
        columns |= {*each.score_columns}
    return sorted(columns)
