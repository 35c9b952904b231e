"""The autoencoder detector: how unusual an action of a principal is.

It votes on events. An event's z says how rare its surprise is for its fingerprint, together with a share of what else of its
principal was surprising in the interval. The maths is in `estimators.autoencoder` and `estimators.tail_calibration`.

Example:
    >>> detector = AutoencoderDetector(settings, bank, state, LocalInference(bank))
    >>> batch = replace(batch, evidence={detector.name: detector.measure(batch)})
    >>> detector.score(batch)                              # (N,) z
    >>> feature_surprise(batch)                            # (N, F) nats
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import namespace, to_device_of
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import Rarity, SurpriseDriver
from fingerprint.core.ports import Inference
from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.detection.detectors import Detector, ExplanationContext, Floats, Mask
from fingerprint.detection.ensemble import NEWCOMER_THRESHOLD_SHARE
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.features import encoding
from fingerprint.features.encoding import FEATURE_NAMES, IS_BIN
from fingerprint.registry import quality
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.scorer_state import ScorerState

MAX_DRIVERS = 10  # values of a feature that are looked at
MIN_DRIVER_SURPRISE = 1.0  # nats; less is not worth an analyst's time
# Nats beyond "something new": the cost of one of about ten recent novelties.
RECENT_NOVELTY_NATS = float(-np.log(0.1))


class AutoencoderDetector(Detector):
    """Votes on events by the surprise of their features.

    Evidence (N, F + 4): each feature's surprise in nats, the parameters of the fingerprint's tail (rate, edge, slope), and the
    share by which its threshold was moved. So an event that waits is judged by the bank that measured it, also after a swap.
    """

    name = "autoencoder"
    label = "Autoencoder"
    question = "Did it do what it usually does?"
    calibrated = True

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        super().__init__(settings, bank, state, inference)
        self.options = self.options_from(settings)
        self.newcomer_share = NEWCOMER_THRESHOLD_SHARE

    def vote_threshold(self) -> float:
        """Return the z as set, or that the vote share of held-out rows reached.

        A lower threshold of alerts lowers the vote, too: else it would show no more of them.
        """
        figures, options = self.bank.manifest["quality"], self.settings.autoencoder
        own = (
            quality.vote_threshold(figures, options.vote_share)
            if options.threshold is None
            else options.threshold
        )
        return min(own, quality.alert_threshold(figures, self.settings.alerts))

    @classmethod
    def options_from(cls, settings: Settings) -> Autoencoder:
        """Return the detector's section of the settings."""
        return settings.autoencoder

    def measure(self, batch: EventBatch) -> Floats:
        """Return the surprise of each feature (N, F), nats, and note in `degraded` whether the fallback computed it."""
        observed, whole, self.degraded = (
            ObservedValues.from_batch(batch),
            self.bank.whole[batch.fingerprint],
            False,
        )
        surprise = autoencoder.novel_to_principal(
            self._feature_surprise(batch.fingerprint, observed),
            whole,
            lambda odd: self._feature_surprise(whole[odd], observed.take(odd)),
        )
        self.state.interval_surprise.add(batch.principal, batch.interval, batch.codes, surprise)
        evidence: Floats = namespace(surprise).column_stack(
            [surprise, *self._tail_parameters(batch.fingerprint)]
        )
        return evidence.astype(np.float32)

    def _feature_surprise(self, fingerprint: NDArray[np.int32], observed: ObservedValues) -> Floats:
        """Return the surprise of events at these fingerprints (N,), recent novelties discounted: (N, F) nats."""
        loss, known = self.inference.losses(fingerprint, observed.codes)
        self.degraded |= self.inference.degraded
        loss = discount_recent_novelty(
            loss, known, self.bank.vocabulary.escape[fingerprint], observed, self.state
        )
        return autoencoder.surprise_per_feature(loss, self.bank.baseline.center, fingerprint)

    def _tail_parameters(self, fingerprint: NDArray[np.int32]) -> list[Floats]:
        usual = self.bank.baseline
        return [each[fingerprint] for each in (usual.rate, usual.edge, usual.slope, self.bank.shift)]

    def score(self, batch: EventBatch) -> Floats:
        """Return the z of each event (N,), together with its principal's interval as it stands."""
        where = (batch.principal, batch.interval)
        together, at_usual_place = (
            self.state.interval_surprise.total(*where),
            self.state.interval_surprise.from_usual_place(*where),
        )
        excess = autoencoder.excess_nats(feature_surprise(batch), together, at_usual_place, self.options)
        rate, edge, slope, shift = batch.evidence[self.name][:, len(FEATURE_NAMES) :].T
        return tail_calibration.z_of_log_survival(
            tail_calibration.log_survival(excess, rate, edge, slope)
        ) / (1 + shift)

    def can_still_vote(self, batch: EventBatch) -> Mask:
        """Return which events have a vote, or may get one from their interval."""
        share = namespace(batch.level).where(batch.level >= PEER_LEVEL, self.newcomer_share, 1.0)
        return autoencoder.needs_interval_context(feature_surprise(batch)) | (
            self.score(batch) >= share * self.threshold
        )

    def priority(self, batch: EventBatch) -> Floats:
        """Return the summed surprise (N,), by which pending events are kept when there are too many."""
        return autoencoder.total_surprise(feature_surprise(batch))

    @classmethod
    def drivers(
        cls, batch: EventBatch, frame: pd.DataFrame, context: ExplanationContext
    ) -> list[SurpriseDriver]:
        """Return the most surprising values of a group of events, each once."""
        surprise = feature_surprise(batch)
        strongest = [
            _rank_values(batch.codes[:, place], surprise[:, place]) for place in range(len(encoding.FEATURES))
        ]
        shown = [
            (place, row, value, count)
            for place, each in enumerate(strongest)
            for row, value, count in each[:MAX_DRIVERS]
            if value >= MIN_DRIVER_SURPRISE
        ]
        texts = encoding.feature_texts(frame.iloc[sorted({row for _, row, _, _ in shown})])
        drivers = [
            _build_driver(batch, texts.loc[row].iloc[place], context, place, row, value, count)
            for place, row, value, count in shown
        ]
        return sorted(drivers, key=lambda driver: -driver.surprise)


DETECTOR = AutoencoderDetector


def feature_surprise(batch: EventBatch) -> Floats:
    """Return the surprise of each feature of events that the autoencoder measured: (N, F) nats."""
    return batch.evidence[AutoencoderDetector.name][:, : len(FEATURE_NAMES)]


class ObservedValues(NamedTuple):
    """The values that events show of a principal, by interval: `principal` (N,), `interval` (N,), `codes` (N, F)."""

    principal: Hashes
    interval: NDArray[np.int32]
    codes: Hashes

    @classmethod
    def from_batch(cls, batch: EventBatch) -> ObservedValues:
        """Return what a batch of N events shows."""
        return cls(batch.principal, batch.interval, batch.codes)

    def take(self, rows: NDArray[np.intp]) -> ObservedValues:
        """Return the values of some rows."""
        return ObservedValues(self.principal[rows], self.interval[rows], self.codes[rows])


def discount_recent_novelty(
    loss: Floats, known: Mask, escape: Floats, observed: ObservedValues, state: ScorerState
) -> Floats:
    """Cap the loss (N, F) of values that the principal first showed after the training: a recent novelty is less of one.

    What is left is the surprise of doing *something* new, by the fingerprint's `escape` (N, F), plus that of it being this one of
    about ten recent novelties. `known` (N, F) marks the values that the fingerprint has learned.
    """
    xp = namespace(known)
    row, column = xp.nonzero(~known & to_device_of(~IS_BIN, known))
    owner = hashing.combine(observed.principal[row], column.astype(np.uint64))
    again = state.is_known_novelty(
        hashing.combine(owner, observed.codes[row, column]), observed.interval[row]
    )
    row, column = row[again], column[again]
    out = loss.copy()
    out[row, column] = xp.minimum(out[row, column], RECENT_NOVELTY_NATS - escape[row, column])
    return out


# --- what drove the loss ----------------------------------------------------------------------------------------------


def _rank_values(codes: Hashes, surprise: Floats) -> list[tuple[int, float, int]]:
    """Return the distinct values of a feature by their surprise: (an example row, nats, events that share it)."""
    order = np.lexsort((-surprise, codes))
    _, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
    rows = order[first]
    ranked = np.lexsort((codes[rows], -surprise[rows]))
    return [(int(rows[at]), float(surprise[rows[at]]), int(counts[at])) for at in ranked]


def _build_driver(
    batch: EventBatch,
    value: Any,
    context: ExplanationContext,
    feature_index: int,
    row: int,
    nats: float,
    count: int,
) -> SurpriseDriver:
    bank, at = context.bank_and_row(batch, row)
    share = float(bank.vocabulary.observed_share(at, batch.codes[[row]])[0, feature_index])
    usual = bank.vocabulary.codes[at[0], feature_index, 1:4]
    expected = ", ".join(text for text in bank.value_texts(usual[usual != 0]) if text)
    return SurpriseDriver(
        encoding.FEATURES[feature_index].label,
        _text_or_empty(value) or "(none)",
        expected or "nothing yet",
        _rarity(share),
        round(nats, 2),
        count,
        _peer_rarity(bank, int(at[0]), batch.codes[[row]], feature_index),
    )


def _peer_rarity(bank: Bank, fingerprint: int, codes: Hashes, feature_index: int) -> Rarity | None:
    """Return how rare a value (codes (1, F)) is among the principal's peers; None without any."""
    peers = bank.peers[[fingerprint]]
    return (
        _rarity(float(bank.vocabulary.observed_share(peers, codes)[0, feature_index]))
        if peers[0] >= 0
        else None
    )


def _rarity(share: float) -> Rarity:
    return "unseen" if share == 0 else "rare" if share < 0.01 else "infrequent" if share < 0.1 else "frequent"


def _text_or_empty(value: object) -> str:
    return "" if value is None or value is pd.NA or value != value else str(value)
