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
from fingerprint.compute.arrays import host, like, namespace
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Losses
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import Measured
from fingerprint.detection.ensemble import Detector
from fingerprint.estimators import autoencoder, tail_calibration
from fingerprint.features.encoding import IS_BIN, NAMES
from fingerprint.registry import quality
from fingerprint.registry.bank import PEER, Bank
from fingerprint.state.activity_series import Series
from fingerprint.state.scorer_state import Ledger

Floats = NDArray[np.float32]

ACTION = NAMES.index("action")
COUNT, ERRORS, WRITES, NEW, OTHER = (
    np.uint64(number) for number in range(1, 6)
)  # channels beside single actions
CHANNELS = {COUNT: "events", ERRORS: "errors", WRITES: "writes", NEW: "new actions", OTHER: "other actions"}


class Autoencoder:
    """Did it do what it usually does? Evidence (N, F + 4): each feature's surprise in nats, and how rare the bank says that an
    excess is (`tails`) and which way its threshold was moved (`shifting`): an event that waits is judged by the bank that
    measured it, also when another one has come since."""

    name = "autoencoder"
    votes_on: Literal["event", "interval"] = "event"

    def __init__(self, settings: Settings, bank: Bank, ledger: Ledger, losses: Losses) -> None:
        self.options, self.bank, self.ledger, self.losses = settings.autoencoder, bank, ledger, losses
        self.threshold = quality.threshold_of(bank.manifest["quality"], self.options)
        self.newcomers = settings.voting.newcomers
        self.degraded = False

    def measure(self, batch: Measured) -> Floats:
        shown, whole, self.degraded = Shown.of(batch), self.bank.whole[batch.fingerprint], False
        surprise = autoencoder.news(
            self._surprise(batch.fingerprint, shown),
            whole,
            lambda odd: self._surprise(whole[odd], shown.take(odd)),
        )
        self.ledger.company.add(batch.principal, batch.interval, batch.codes, surprise)
        evidence: Floats = namespace(surprise).column_stack([surprise, *self._rarity(batch.fingerprint)])
        return evidence.astype(np.float32)

    def _surprise(self, fingerprint: NDArray[np.int32], shown: Shown) -> Floats:
        """What surprises of events at these fingerprints (N,), novelties of an hour ago discounted: (N, F)."""
        loss, known = self.losses.of(fingerprint, shown.codes)
        self.degraded |= self.losses.degraded
        loss = familiar(loss, known, self.bank.vocabulary.escape[fingerprint], shown, self.ledger)
        return autoencoder.surprises(loss, self.bank.baseline.center, fingerprint)

    def _rarity(self, fingerprint: NDArray[np.int32]) -> list[Floats]:
        usual = self.bank.baseline
        return [each[fingerprint] for each in (usual.rate, usual.edge, usual.slope, self.bank.shift)]

    def z(self, batch: Measured) -> Floats:
        where = (batch.principal, batch.interval)
        together, at_home = self.ledger.company.of(*where), self.ledger.company.at_home(*where)
        excess = autoencoder.excess(surprise_of(batch), together, at_home, self.options)
        rate, edge, slope, shift = batch.evidence[self.name][:, len(NAMES) :].T
        return tail_calibration.z(tail_calibration.log_share(excess, rate, edge, slope)) / (1 + shift)

    def may_vote(self, batch: Measured) -> NDArray[np.bool_]:
        share = namespace(batch.level).where(batch.level >= PEER, self.newcomers, 1.0)
        return autoencoder.undecided(surprise_of(batch)) | (self.z(batch) >= share * self.threshold)

    def opinion(self, batch: Measured) -> NDArray[np.bool_]:
        return _everybody(batch)


def surprise_of(batch: Measured) -> Floats:
    """How surprising the autoencoder found each feature of events that it measured, in nats: (N, F)."""
    return batch.evidence[Autoencoder.name][:, : len(NAMES)]


SEEN_AGAIN = float(-np.log(0.1))  # nats beyond "something new": what one of about ten recent novelties costs


class Shown(NamedTuple):
    """What events show of a principal, and when: `principal` (N,), `interval` (N,), `codes` (N, F)."""

    principal: Hashes
    interval: NDArray[np.int32]
    codes: Hashes

    @classmethod
    def of(cls, batch: Measured) -> Shown:
        return cls(batch.principal, batch.interval, batch.codes)

    def take(self, rows: NDArray[np.intp]) -> Shown:
        return Shown(self.principal[rows], self.interval[rows], self.codes[rows])


def familiar(loss: Floats, known: NDArray[np.bool_], escape: Floats, shown: Shown, ledger: Ledger) -> Floats:
    """A novelty of an hour ago is less of one: cap the loss (N, F) of values that the principal showed since the training.

    What is left is the surprise of doing *something* new, by `escape` (N, F) of who measured, plus that of it being this of
    about ten recent novelties.
    """
    xp = namespace(known)
    row, column = xp.nonzero(~known & like(~IS_BIN, known))
    owner = hashing.within(shown.principal[row], column.astype(np.uint64))
    again = ledger.seen_before(hashing.within(owner, shown.codes[row, column]), shown.interval[row])
    row, column = row[again], column[again]
    out = loss.copy()
    out[row, column] = xp.minimum(out[row, column], SEEN_AGAIN - escape[row, column])
    return out


class Spectral:
    """Did it do it as much, and when, as it usually does? Evidence (N, 9): the keys of the series an event was counted in,
    0 for none (rows may be renumbered while an event waits)."""

    name = "spectral"
    degraded = False
    votes_on: Literal["event", "interval"] = "interval"

    def __init__(self, settings: Settings, bank: Bank, ledger: Ledger, losses: Losses) -> None:
        self.options, self.bank, self.ledger = settings.spectral, bank, ledger
        self.threshold = self.options.threshold

    def measure(self, batch: Measured) -> Hashes:
        _, slots, known = self.bank.vocabulary.look_up(batch.fingerprint, batch.codes)
        busy = self._busy(batch, slots[:, ACTION])
        weight = namespace(busy).ones(len(batch), np.float32)
        return count(batch, self.ledger, known[:, ACTION], busy, weight)

    def _busy(self, batch: Measured, slot: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Whose action has a channel of its own (N,): those that the bank has seen most, and those that an earlier bank gave
        one. Sent back among the others, it would look like a surge of them."""
        busy = (slot > 0) & (slot <= self.options.busiest_actions) & (batch.level == 0)
        if self.ledger.channels_since:
            busy |= self.ledger.series.find(hashing.within(batch.owner, batch.codes[:, ACTION])) >= 0
        return busy

    def z(self, batch: Measured) -> Floats:
        strongest = strongest_of(batch.evidence[self.name], batch.interval, self.ledger.series)
        strongest[~self.opinion(batch)] = (
            np.nan
        )  # also where a series is older than what is remembered of its principal
        return strongest

    def may_vote(self, batch: Measured) -> NDArray[np.bool_]:
        return _everybody(batch)

    def opinion(self, batch: Measured) -> NDArray[np.bool_]:
        return self.ledger.series.warm(batch.since, batch.interval)


def count(
    batch: Measured, ledger: Ledger, known: NDArray[np.bool_], busy: NDArray[np.bool_], weight: Floats
) -> Hashes:
    """Count events in the channels they belong to: `known`, `busy` (N,) say of their actions whether the fingerprint knows
    them and gives them a channel of their own; `weight` (N,) events each. Returns the keys of their
    series (N, 9), 0 where not counted."""
    xp, entity = namespace(batch.codes), batch.owner
    keys: Hashes = xp.zeros((len(batch), 9), np.uint64)
    own_action = xp.where(busy, batch.codes[:, ACTION], OTHER)
    begun = xp.where(busy, xp.maximum(batch.since, ledger.channels_since), batch.since).astype(np.int32)
    fresh = xp.flatnonzero(~known)
    owner = hashing.within(entity[fresh], batch.codes[fresh, ACTION])
    new = xp.zeros(len(batch), bool)
    new[fresh] = ~ledger.seen_before(hashing.within(owner, NEW), batch.interval[fresh])
    everything = xp.ones(len(batch), bool)
    channels = ((COUNT, everything), (ERRORS, batch.failed), (WRITES, batch.wrote), (NEW, new))
    for place, (owners, channel, which, since) in enumerate(
        [(entity, own_action, everything, begun)]
        + [
            (owners, xp.full(len(batch), name, np.uint64), which, batch.since)
            for owners in (entity, batch.principal)
            for name, which in channels
        ]
    ):
        keys[which, place] = ledger.series.count(
            owners[which], channel[which], batch.interval[which], since[which], weight[which]
        )
    return keys


def strongest_of(keys: Hashes, interval: NDArray[np.int32], series: Series) -> Floats:
    """The z of the channel that is most of a surge, of those each event was counted in: keys (N, 9), 0 for none, interval (N,)
    -> (N,), NaN for no opinion."""
    xp = namespace(keys)
    each = series.z(series.find(keys.ravel()), xp.repeat(interval, keys.shape[1])).reshape(keys.shape)
    opinion = ~xp.isnan(each).all(axis=1)
    out: Floats = xp.full(len(each), np.nan, np.float32)
    out[opinion] = xp.nanmax(each[opinion], axis=1)
    return out


class Forest:
    """The optional third voter: scikit-learn's IsolationForest over the features' log likelihoods.

    It is fitted when it starts, from the bank's sample of training rows: a forest on disk would be code, not data.
    """

    name = "forest"
    degraded = False
    votes_on: Literal["event", "interval"] = "event"

    def __init__(self, settings: Settings, bank: Bank, ledger: Ledger, losses: Losses) -> None:
        self.options, self.bank = settings.forest, bank
        self.threshold, self.newcomers = self.options.threshold, settings.voting.newcomers
        from sklearn.ensemble import IsolationForest  # seconds of every start, and few programs ask it

        table = self._table(bank.ledger["sample.fingerprint"], bank.ledger["sample.codes"])
        self.forest = IsolationForest(
            n_estimators=self.options.trees, max_samples=min(256, len(table)), random_state=self.options.seed
        ).fit(table)
        usual = self.forest.score_samples(table)
        self.middle = float(np.median(usual))
        self.scale = max(1.4826 * float(np.median(np.abs(usual - self.middle))), 0.01)

    def measure(self, batch: Measured) -> Floats:
        strange = self.middle - self.forest.score_samples(self._table(batch.fingerprint, batch.codes))
        evidence: Floats = like((strange / self.scale).astype(np.float32)[:, None], batch.codes)
        return evidence

    def z(self, batch: Measured) -> Floats:
        return batch.evidence[self.name][:, 0]

    def may_vote(self, batch: Measured) -> NDArray[np.bool_]:
        return self.z(batch) >= self.threshold * self.newcomers

    def opinion(self, batch: Measured) -> NDArray[np.bool_]:
        return _everybody(batch)

    def _table(self, fingerprint: NDArray[np.int32], codes: Hashes) -> Floats:
        """Log likelihoods (N, F), on the host: scikit-learn knows no other place."""
        known = self.bank.vocabulary
        return host(known.look_up(like(fingerprint, known.keys), like(codes, known.keys))[0])


def _everybody(batch: Measured) -> NDArray[np.bool_]:
    everybody: NDArray[np.bool_] = namespace(batch.interval).ones(len(batch), bool)
    return everybody


KINDS: dict[str, type] = {kind.name: kind for kind in (Autoencoder, Spectral, Forest)}


def list_of(settings: Settings, bank: Bank, ledger: Ledger, losses: Losses) -> list[Detector]:
    """The detectors that the settings list, in that order; each takes of bank, ledger and losses what it needs."""
    unknown = [name for name in settings.voting.detectors if name not in KINDS]
    if unknown:
        raise FingerprintError(
            f"setting voting.detectors: no detector {unknown[0]!r} (known: {', '.join(KINDS)})"
        )
    return [KINDS[name](settings, bank, ledger, losses) for name in settings.voting.detectors]
