"""The sequence detector: how unusual an action is after the actions just before it.

It votes on events. The maths is in `estimators.sequence`; `state.action_sequence` holds the last actions of principals.

Example:
    >>> detector = SequenceDetector(settings, bank, state, LocalInference(bank))
    >>> batch = replace(batch, evidence={detector.name: detector.measure(batch)})
    >>> detector.score(batch)                              # (N,) z

A late record may explain an action that arrived before it. So that no vote is taken back, the detector votes only once the
event's interval has closed (`final_when_closed`); until then its z can only fall. A principal's action that had the vote does not
get it again in later intervals (`ActionSequence.votes`): a novelty is news once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import Floats, Ints, Mask, namespace, to_device_of
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.core.alert import NOTHING_USUAL, ORDER_FEATURE, Rarity, SurpriseDriver, rarity_of
from fingerprint.core.ports.inference import Inference
from fingerprint.core.settings import SequenceSettings, Settings
from fingerprint.detection.detectors import Detector, ExplanationContext, action_at
from fingerprint.detection.ensemble import SECOND_VOTE_THRESHOLD, STRONG_VOTE_THRESHOLD
from fingerprint.estimators import sequence
from fingerprint.estimators.sequence import ORGANISATION, START, SeenActions
from fingerprint.features.encoding import ACTION_COLUMN
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.state.action_sequence import ActionSequence
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.scorer_state import ScorerState

SECOND, KIND, CONTEXT, NATS = range(4)  # columns of the evidence
NATS_SCALE = 1000  # the evidence holds hashes, so nats are stored in it as whole thousandths
MAX_DRIVERS = 3  # transitions that an alert shows
MIN_INFREQUENT_NATS = -np.log(0.1)

CONTEXTS, OWN_COUNTS, ONCE, KIND_TAIL = "contexts", "own transitions", "news once", "tail of its kind"
TERMS = {
    CONTEXTS: "what was done before; without it every action begins a session",
    OWN_COUNTS: "what the principal itself does after what; without it the organisation alone",
    ONCE: "an action that had the vote has it no more",
    KIND_TAIL: "how rare a surprise is for the principal's kind; without it for all kinds",
}
# XORed with a principal's hash, it gives a distinct one that has no transitions
OTHER_NAME = np.uint64(0x9E3779B97F4A7C15)


class SequenceDetector(Detector):
    """Votes on events whose action is explained by none of the actions just before it.

    It has no opinion on a principal that is judged by its peers. Events are judged by the bank in use when their interval closes.

    Evidence (N, 4): the second of the event, the hash of the principal's kind, and, for an event with a verdict, the context that
    explains it best and its surprise in thousandths of a nat.
    """

    name = "sequence"
    label = "Sequence"
    question = "Did it do it after what it usually does it after?"
    second_vote_z = SECOND_VOTE_THRESHOLD  # its z is a share of events
    strong_vote_z = STRONG_VOTE_THRESHOLD
    final_when_closed = True
    terms: ClassVar[Mapping[str, str]] = TERMS

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        super().__init__(settings, bank, state, inference)
        self.transitions = bank.transitions

    @classmethod
    def options_from(cls, settings: Settings) -> SequenceSettings:
        """Return the detector's section of the settings."""
        return settings.sequence

    def measure(self, batch: EventBatch) -> Hashes:
        """Record the actions of the events, and return the evidence (N, 4): second and kind, the other columns still 0.

        A variant without a term records nothing a second time.
        """
        if self.left_out:
            return batch.evidence[self.name]
        xp = namespace(batch.codes)
        second = to_device_of(frames.epoch_seconds(frames.column_of(batch.frame, "event_time")), batch.codes)
        self.state.sequence.add(SeenActions(batch.principal, second, batch.codes[:, ACTION_COLUMN]))
        nothing = xp.zeros(len(batch), np.uint64)
        evidence: Hashes = xp.column_stack([second.astype(np.uint64), batch.kind, nothing, nothing])
        return evidence

    def score(self, batch: EventBatch) -> Floats:
        """Return the z of each event (N,) by its context so far; it can only fall while the interval is open.

        An action that had the vote in an earlier interval is no news, so its z is at most 0. All votes of this batch are found
        before any z is lowered, so the result does not depend on where batches are cut.
        """
        z: Floats = namespace(batch.codes).full(len(batch), np.nan, np.float32)
        rows = self.has_opinion(batch).nonzero()[0]
        if len(rows):
            some = self._rows_of(batch, rows)
            z[rows] = self._z(some, self._surprise(some)[0])
            no_news = rows[self._is_no_news(some, z[rows])]
            z[no_news] = namespace(z).minimum(z[no_news], 0)
        return z

    def _rows_of(self, batch: EventBatch, rows: NDArray[np.intp]) -> EventBatch:
        """Return some events (M,) with the arrays that this detector reads; the frame still has all events."""
        return replace(
            batch,
            codes=batch.codes[rows],
            principal=batch.principal[rows],
            interval=batch.interval[rows],
            level=batch.level[rows],
            evidence={self.name: batch.evidence[self.name][rows]},
        )

    def _is_no_news(self, batch: EventBatch, z: Floats) -> Mask:
        """Return a mask (N,) of the events whose action had the vote in an earlier interval, also in one of this batch.

        A variant without a term uses the votes of the whole detector, which has judged these events before.
        """
        keys, interval = self._vote_keys(batch)
        known = self.state.sequence.has_earlier_vote(keys, interval)
        if self.left_out:
            return known & (self.left_out != ONCE)
        strange = z >= self.threshold
        if not strange.any():
            return known
        first = ActionSequence(self.state.placement)
        first.add_votes(keys[strange], interval[strange])
        return known | first.has_earlier_vote(keys, interval)

    def has_opinion(self, batch: EventBatch) -> Mask:
        """Return a mask (N,) of the events whose principal's own sequences were learned.

        A newcomer's sequences are all strange, or all usual in the organisation: neither says that a thief uses its credentials.
        """
        learned: Mask = batch.level < PEER_LEVEL
        return learned

    def record_scores(self, batch: EventBatch, z: Floats) -> None:
        """Record the actions that had the vote, and when they first had it."""
        keys, interval = self._vote_keys(batch)
        strange = z >= self.threshold
        self.state.sequence.add_votes(keys[strange], interval[strange])

    def _vote_keys(self, batch: EventBatch) -> tuple[Hashes, Ints]:
        """Return the key of principal and action of each event, and its interval: (N,) each."""
        return hashing.combine(batch.principal, batch.codes[:, ACTION_COLUMN]), batch.interval

    def _z(self, batch: EventBatch, nats: Floats) -> Floats:
        kind = self._place(batch.evidence[self.name][:, KIND])
        if self.left_out == KIND_TAIL:
            kind = namespace(kind).full_like(kind, sequence.ALL_KINDS)
        return to_device_of(sequence.z_of_surprise(self.transitions, nats, kind), batch.codes)

    def _surprise(self, batch: EventBatch) -> tuple[Floats, Hashes]:
        """Return the surprise of each event and the context that explains it best, (N,) each, on the device of the bank."""
        done = self._done(batch)
        if self.left_out == CONTEXTS:
            nats = sequence.start_surprise(self.transitions, done)
            return nats, namespace(nats).full(len(nats), START, np.uint64)
        seen = SeenActions(*map(self._place, self.state.sequence.seen(batch.principal)))
        if self.left_out == OWN_COUNTS:
            seen, done = (each._replace(principal=each.principal ^ OTHER_NAME) for each in (seen, done))
        return sequence.surprise_of_actions(self.transitions, seen, done)

    def _done(self, batch: EventBatch) -> SeenActions:
        """Return the actions of the events, on the device of the bank."""
        second = batch.evidence[self.name][:, SECOND].astype(np.int64)
        return SeenActions(*map(self._place, (batch.principal, second, batch.codes[:, ACTION_COLUMN])))

    def _place(self, column: NDArray[Any]) -> NDArray[Any]:
        return to_device_of(column, self.transitions.keys)

    def can_still_vote(self, batch: EventBatch, z: Floats | None = None) -> Mask:
        """Return a mask (N,) of the events that are not explained yet, neither as the first of a session nor after another."""
        keys, interval = self._vote_keys(batch)
        known = self.state.sequence.has_earlier_vote(keys, interval)
        least = min(self.threshold, self.strong_vote_z)
        opinion = self.has_opinion(batch)
        may = opinion & ~known
        may &= self._z(batch, sequence.start_surprise(self.transitions, self._done(batch))) >= least
        rows = may.nonzero()[0]
        if len(rows):
            some = self._rows_of(batch, rows)
            may[rows] = self._z(some, self._surprise(some)[0]) >= least
        return may | ~opinion

    def priority(self, batch: EventBatch) -> Floats:
        """Return the surprise of each event (N,)."""
        return to_device_of(self._surprise(batch)[0], batch.codes)

    def final_evidence(self, batch: EventBatch, which: Mask) -> Hashes:
        """Return the evidence (N, 4), with context and surprise for the events that `which` marks."""
        evidence: Hashes = batch.evidence[self.name].copy()
        if which.any():
            nats, context = self._surprise(batch.take(which))
            evidence[which, CONTEXT] = to_device_of(context, evidence)
            evidence[which, NATS] = to_device_of((nats * NATS_SCALE).astype(np.uint64), evidence)
        return evidence

    @classmethod
    def drivers(cls, batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
        """Return the most surprising transitions of a group of events, each once."""
        evidence = batch.evidence[cls.name]
        nats = evidence[:, NATS].astype(np.float64) / NATS_SCALE
        alike = hashing.hash_pair(evidence[:, CONTEXT], batch.codes[:, ACTION_COLUMN])
        order = np.lexsort((batch.codes[:, ACTION_COLUMN], -nats))
        _, first = np.unique(alike[order], return_index=True)
        rows = order[np.sort(first)]
        rows = rows[nats[rows] >= MIN_INFREQUENT_NATS][:MAX_DRIVERS]
        return [_driver(batch, frame, context, int(row), int((alike == alike[row]).sum())) for row in rows]


DETECTOR = SequenceDetector


def _driver(
    batch: EventBatch, frame: Frame, context: ExplanationContext, row: int, count: int
) -> SurpriseDriver:
    """Return the driver of a row: its action, the context that it came after, and the actions that usually follow it."""
    bank, [at] = context.bank_and_row(batch, row)
    before, nats = batch.evidence[SequenceDetector.name][row, [CONTEXT, NATS]]
    code = batch.codes[row, ACTION_COLUMN]
    return SurpriseDriver(
        ORDER_FEATURE,
        f"{action_at(frame, row)} {_after(bank, batch, frame, before)}",
        sequence_text(bank, int(at), batch.principal[row], before),
        _rarity(bank, batch.principal[row], before, code),
        round(float(nats) / NATS_SCALE, 2),
        count,
        _rarity(bank, ORGANISATION, before, code),
    )


def _after(bank: Bank, batch: EventBatch, frame: Frame, before: np.uint64) -> str:
    """Return a context in words. An action that the bank does not know is named from the alert's own events if they have it.

    The context is the beginning of a session also if other actions came before and explain the action less.
    """
    if before == START:
        return sequence.FIRST_TEXT
    known = bank.value_texts(np.array([before]))[0]
    here = np.flatnonzero(batch.codes[:, ACTION_COLUMN] == before)
    if not known and len(here):
        known = action_at(frame, here[0])
    return f"after {known or 'an action that is not in the history'}"


def sequence_text(bank: Bank, fingerprint: int, principal: np.uint64, before: np.uint64) -> str:
    """Return the actions that most often follow a context, the commonest first: the principal's own, else the organisation's.

    At the beginning of a session only the principal's own are returned: those of the organisation are its busiest machines'.
    """
    own = _own_usual(bank, fingerprint, principal, before)
    if before == START and not len(own):
        return NOTHING_USUAL
    place, found = find_sorted(bank.transitions.contexts, np.array([before], np.uint64))
    usual = own if len(own) else bank.transitions.usual[place[0]] if found[0] else own
    named = ", ".join(text for text in bank.value_texts(usual[usual != 0]) if text)
    return f"{named}{'' if len(own) else ' (in the organisation)'}" if named else NOTHING_USUAL


def _own_usual(bank: Bank, fingerprint: int, principal: np.uint64, before: np.uint64) -> Hashes:
    """Return the actions that a principal called after a context, the commonest first, among those that its fingerprints name."""
    whole = int(bank.whole[fingerprint])
    rows = [fingerprint, whole if whole >= 0 else fingerprint]
    known = np.unique(bank.vocabulary.codes[rows, ACTION_COLUMN, 1:])
    known = known[known != 0]
    counts = sequence.counts_after(bank.transitions, principal, before, known)
    order = np.argsort(-counts, kind="stable")[: sequence.USUAL_ACTIONS]
    found: Hashes = known[order][counts[order] > 0]
    return found


def _rarity(bank: Bank, owner: np.uint64, before: np.uint64, action: np.uint64) -> Rarity:
    """Return how rare an action is after a context, by the transitions of an owner (a principal or the organisation)."""
    after, there = sequence.count_of(bank.transitions, owner, before, action)
    return rarity_of(after / there if there else 0.0)
