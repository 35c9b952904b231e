"""The voters: each measures the same events by itself (the protocol is `voting.Detector`).

Example:
    >>> detectors = list_of(settings, bank, ledger, InProcess(bank))
    >>> [detector.name for detector in detectors]
    ['autoencoder', 'spectral']
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import namespace, to_device_of, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Inference
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import EventBatch
from fingerprint.detection.ensemble import NEWCOMER_THRESHOLD_SHARE, Detector
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.features.encoding import FEATURE_NAMES, IS_BIN
from fingerprint.registry import quality
from fingerprint.registry.bank import PEER_LEVEL, Bank
from fingerprint.state.activity_series import ACTION_CHANNELS, ActivitySeries
from fingerprint.state.scorer_state import ScorerState

TREES, SEED = 100, 0  # of the isolation forest
Floats = NDArray[np.float32]

ACTION_COLUMN = FEATURE_NAMES.index("action")
EVENT_CHANNEL, ERROR_CHANNEL, WRITE_CHANNEL, NEW_ACTION_CHANNEL, OTHER_ACTION_CHANNEL = (
    np.uint64(number) for number in range(1, 6)
)  # channels beside single actions
CHANNEL_LABELS = {
    EVENT_CHANNEL: "events",
    ERROR_CHANNEL: "errors",
    WRITE_CHANNEL: "writes",
    NEW_ACTION_CHANNEL: "new actions",
    OTHER_ACTION_CHANNEL: "other actions",
}


class AutoencoderDetector:
    """Did it do what it usually does? Evidence (N, F + 4): each feature's surprise in nats, and how rare the bank says that an
    excess is (`tails`) and which way its threshold was moved (`shifting`): an event that waits is judged by the bank that
    measured it, also when another one has come since."""

    name = "autoencoder"
    granularity: Literal["event", "interval"] = "event"

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        self.options, self.bank, self.state, self.inference = settings.autoencoder, bank, state, inference
        self.threshold = quality.calibrated_threshold(bank.manifest["quality"], self.options)
        self.newcomer_share = NEWCOMER_THRESHOLD_SHARE
        self.degraded = False

    def measure(self, batch: EventBatch) -> Floats:
        shown, whole, self.degraded = (
            ObservedValues.from_batch(batch),
            self.bank.whole[batch.fingerprint],
            False,
        )
        surprise = autoencoder.novel_to_principal(
            self._feature_surprise(batch.fingerprint, shown),
            whole,
            lambda odd: self._feature_surprise(whole[odd], shown.take(odd)),
        )
        self.state.interval_surprise.add(batch.principal, batch.interval, batch.codes, surprise)
        evidence: Floats = namespace(surprise).column_stack(
            [surprise, *self._tail_parameters(batch.fingerprint)]
        )
        return evidence.astype(np.float32)

    def _feature_surprise(self, fingerprint: NDArray[np.int32], observed: ObservedValues) -> Floats:
        """What surprises of events at these fingerprints (N,), novelties of an hour ago discounted: (N, F)."""
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
        where = (batch.principal, batch.interval)
        together, at_home = (
            self.state.interval_surprise.total(*where),
            self.state.interval_surprise.from_usual_place(*where),
        )
        excess = autoencoder.excess_nats(feature_surprise(batch), together, at_home, self.options)
        rate, edge, slope, shift = batch.evidence[self.name][:, len(FEATURE_NAMES) :].T
        return tail_calibration.z_of_log_survival(
            tail_calibration.log_survival(excess, rate, edge, slope)
        ) / (1 + shift)

    def can_still_vote(self, batch: EventBatch) -> NDArray[np.bool_]:
        share = namespace(batch.level).where(batch.level >= PEER_LEVEL, self.newcomer_share, 1.0)
        return autoencoder.needs_interval_context(feature_surprise(batch)) | (
            self.score(batch) >= share * self.threshold
        )

    def has_opinion(self, batch: EventBatch) -> NDArray[np.bool_]:
        return _all_events(batch)


def feature_surprise(batch: EventBatch) -> Floats:
    """How surprising the autoencoder found each feature of events that it measured, in nats: (N, F)."""
    return batch.evidence[AutoencoderDetector.name][:, : len(FEATURE_NAMES)]


RECENT_NOVELTY_NATS = float(
    -np.log(0.1)
)  # nats beyond "something new": what one of about ten recent novelties costs


class ObservedValues(NamedTuple):
    """What events show of a principal, and when: `principal` (N,), `interval` (N,), `codes` (N, F)."""

    principal: Hashes
    interval: NDArray[np.int32]
    codes: Hashes

    @classmethod
    def from_batch(cls, batch: EventBatch) -> ObservedValues:
        return cls(batch.principal, batch.interval, batch.codes)

    def take(self, rows: NDArray[np.intp]) -> ObservedValues:
        return ObservedValues(self.principal[rows], self.interval[rows], self.codes[rows])


def discount_recent_novelty(
    loss: Floats, known: NDArray[np.bool_], escape: Floats, observed: ObservedValues, state: ScorerState
) -> Floats:
    """A novelty of an hour ago is less of one: cap the loss (N, F) of values that the principal showed since the training.

    What is left is the surprise of doing *something* new, by `escape` (N, F) of who measured, plus that of it being this of
    about ten recent novelties.
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


class SpectralDetector:
    """Did it do it as much, and when, as it usually does? Evidence (N, 9): the keys of the series an event was counted in,
    0 for none (rows may be renumbered while an event waits)."""

    name = "spectral"
    degraded = False
    granularity: Literal["event", "interval"] = "interval"

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        self.options, self.bank, self.state = settings.spectral, bank, state
        self.threshold = self.options.threshold

    def measure(self, batch: EventBatch) -> Hashes:
        _, slots, known = self.bank.vocabulary.look_up(batch.fingerprint, batch.codes)
        busy = self._has_own_channel(batch, slots[:, ACTION_COLUMN])
        weight = namespace(busy).ones(len(batch), np.float32)
        return count_events(batch, self.state, known[:, ACTION_COLUMN], busy, weight)

    def _has_own_channel(self, batch: EventBatch, slot: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Whose action has a channel of its own (N,): those that the bank has seen most, and those that an earlier bank gave
        one. Sent back among the others, it would look like a surge of them."""
        busy = (slot > 0) & (slot <= ACTION_CHANNELS) & (batch.level == 0)
        if self.state.channels_since:
            busy |= (
                self.state.series.find_rows(hashing.combine(batch.owner, batch.codes[:, ACTION_COLUMN])) >= 0
            )
        return busy

    def score(self, batch: EventBatch) -> Floats:
        strongest = strongest_surge(batch.evidence[self.name], batch.interval, self.state.series)
        strongest[~self.has_opinion(batch)] = (
            np.nan
        )  # also where a series is older than what is remembered of its principal
        return strongest

    def can_still_vote(self, batch: EventBatch) -> NDArray[np.bool_]:
        return _all_events(batch)

    def has_opinion(self, batch: EventBatch) -> NDArray[np.bool_]:
        return self.state.series.is_warm(batch.first_seen, batch.interval)


def count_events(
    batch: EventBatch,
    state: ScorerState,
    known: NDArray[np.bool_],
    has_own_channel: NDArray[np.bool_],
    weight: Floats,
) -> Hashes:
    """Count events in the channels they belong to: `known`, `busy` (N,) say of their actions whether the fingerprint knows
    them and gives them a channel of their own; `weight` (N,) events each. Returns the keys of their
    series (N, 9), 0 where not counted."""
    xp, entity = namespace(batch.codes), batch.owner
    keys: Hashes = xp.zeros((len(batch), 9), np.uint64)
    own_action = xp.where(has_own_channel, batch.codes[:, ACTION_COLUMN], OTHER_ACTION_CHANNEL)
    begun = xp.where(
        has_own_channel, xp.maximum(batch.first_seen, state.channels_since), batch.first_seen
    ).astype(np.int32)
    fresh = xp.flatnonzero(~known)
    owner = hashing.combine(entity[fresh], batch.codes[fresh, ACTION_COLUMN])
    new = xp.zeros(len(batch), bool)
    new[fresh] = ~state.is_known_novelty(hashing.combine(owner, NEW_ACTION_CHANNEL), batch.interval[fresh])
    everything = xp.ones(len(batch), bool)
    channels = (
        (EVENT_CHANNEL, everything),
        (ERROR_CHANNEL, batch.is_error),
        (WRITE_CHANNEL, batch.is_write),
        (NEW_ACTION_CHANNEL, new),
    )
    for place, (owners, channel, which, since) in enumerate(
        [(entity, own_action, everything, begun)]
        + [
            (owners, xp.full(len(batch), name, np.uint64), which, batch.first_seen)
            for owners in (entity, batch.principal)
            for name, which in channels
        ]
    ):
        keys[which, place] = state.series.add_counts(
            owners[which], channel[which], batch.interval[which], since[which], weight[which]
        )
    return keys


def strongest_surge(keys: Hashes, interval: NDArray[np.int32], series: ActivitySeries) -> Floats:
    """The z of the channel that is most of a surge, of those each event was counted in: keys (N, 9), 0 for none, interval (N,)
    -> (N,), NaN for no opinion."""
    xp = namespace(keys)
    each = series.z_scores(series.find_rows(keys.ravel()), xp.repeat(interval, keys.shape[1])).reshape(
        keys.shape
    )
    opinion = ~xp.isnan(each).all(axis=1)
    out: Floats = xp.full(len(each), np.nan, np.float32)
    out[opinion] = xp.nanmax(each[opinion], axis=1)
    return out


class IsolationForestDetector:
    """The optional third voter: scikit-learn's IsolationForest over the features' log likelihoods.

    It is fitted when it starts, from the bank's sample of training rows: a forest on disk would be code, not data.
    """

    name = "forest"
    degraded = False
    granularity: Literal["event", "interval"] = "event"

    def __init__(self, settings: Settings, bank: Bank, state: ScorerState, inference: Inference) -> None:
        self.options, self.bank = settings.isolation_forest, bank
        self.threshold, self.newcomer_share = self.options.threshold, NEWCOMER_THRESHOLD_SHARE
        from sklearn.ensemble import IsolationForest  # seconds of every start, and few programs ask it

        table = self._log_likelihoods(
            bank.scorer_state["sample.fingerprint"], bank.scorer_state["sample.codes"]
        )
        self.forest = IsolationForest(
            n_estimators=TREES, max_samples=min(256, len(table)), random_state=SEED
        ).fit(table)
        usual = self.forest.score_samples(table)
        self.median = float(np.median(usual))
        self.scale = max(1.4826 * float(np.median(np.abs(usual - self.median))), 0.01)

    def measure(self, batch: EventBatch) -> Floats:
        strange = self.median - self.forest.score_samples(
            self._log_likelihoods(batch.fingerprint, batch.codes)
        )
        evidence: Floats = to_device_of((strange / self.scale).astype(np.float32)[:, None], batch.codes)
        return evidence

    def score(self, batch: EventBatch) -> Floats:
        return batch.evidence[self.name][:, 0]

    def can_still_vote(self, batch: EventBatch) -> NDArray[np.bool_]:
        return self.score(batch) >= self.threshold * self.newcomer_share

    def has_opinion(self, batch: EventBatch) -> NDArray[np.bool_]:
        return _all_events(batch)

    def _log_likelihoods(self, fingerprint: NDArray[np.int32], codes: Hashes) -> Floats:
        """Log likelihoods (N, F), on the host: scikit-learn knows no other place."""
        known = self.bank.vocabulary
        return to_host(
            known.look_up(to_device_of(fingerprint, known.keys), to_device_of(codes, known.keys))[0]
        )


def _all_events(batch: EventBatch) -> NDArray[np.bool_]:
    everybody: NDArray[np.bool_] = namespace(batch.interval).ones(len(batch), bool)
    return everybody


DETECTOR_CLASSES: dict[str, type] = {
    kind.name: kind for kind in (AutoencoderDetector, SpectralDetector, IsolationForestDetector)
}


def build_detectors(
    settings: Settings, bank: Bank, state: ScorerState, inference: Inference
) -> list[Detector]:
    """The detectors that the settings list, in that order; each takes of bank, ledger and losses what it needs."""
    unknown = [name for name in settings.voting.detectors if name not in DETECTOR_CLASSES]
    if unknown:
        raise FingerprintError(
            f"setting voting.detectors: no detector {unknown[0]!r} (known: {', '.join(DETECTOR_CLASSES)})"
        )
    return [DETECTOR_CLASSES[name](settings, bank, state, inference) for name in settings.voting.detectors]
