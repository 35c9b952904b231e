"""Drift between two banks: entities that were added or removed, and how far the behaviour of the others moved.

Example:
    >>> found = compare_banks(served, trained)
    >>> found.added, found.removed
    (14, 2)
    >>> found.top(1)
    [{'key': '123456789012:role/deploy', 'level': 'principal', 'drift': 0.62, 'most': 'network'}]

The drift of a feature is the share of its likelihood that moved to other values (total variation: 0 the same, 1 nothing in
common), where all values without slots count as one. The drift of a fingerprint is the mean over the features that are not bins.
An attacker who teaches a bank slowly moves it a little each time, and far in the end, so a bank is also compared with one of
several versions ago (`training.promotion_gate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.core.alert import LEVELS
from fingerprint.estimators import autoencoder
from fingerprint.features.encoding import FEATURES, IS_BIN
from fingerprint.features.vocabulary import Vocabulary, vocabulary_key
from fingerprint.registry.bank import Bank
from fingerprint.registry.quality import named_quantiles

CHUNK_ROWS = 1024  # fingerprints compared at a time: 1024 x 17 x 24 x 2 keys of 8 B = 7 MB
VALUE_FEATURES = np.flatnonzero(~IS_BIN)

RowIndices = NDArray[np.intp]


@dataclass(frozen=True)
class BankDrift:
    """The drift from an older bank to a newer one.

    - `added`, `removed`, `became_ready`, `no_longer_ready`: counts of entities
    - `row` (D,): the fingerprints that are ready in both banks, as rows of the newer; `keys` and `levels` (D,) name them
    - `drift` (D, V): how far each moved in each of VALUE_FEATURES
    """

    older: str
    newer: str
    added: int
    removed: int
    became_ready: int
    no_longer_ready: int
    lost_share: float  # share of the ready fingerprints of the older bank that the newer does not have ready
    row: RowIndices
    drift: Floats
    keys: NDArray[np.object_]
    levels: NDArray[np.int8]

    @property
    def mean_drift(self) -> Floats:
        """The mean over features, (D,)."""
        return self.drift.mean(1) if len(self.drift) else np.zeros(0, np.float32)

    @property
    def quantiles(self) -> dict[str, float]:
        """The quantiles of the fingerprints' mean drift, by name."""
        return named_quantiles(self.mean_drift)

    def top(self, limit: int) -> list[dict[str, Any]]:
        """Return the fingerprints that moved furthest, each with the feature that moved most."""
        of_each = self.mean_drift
        return [
            {
                "key": str(self.keys[at]),
                "level": LEVELS[self.levels[at]],
                "drift": round(float(of_each[at]), 4),
                "most": FEATURES[VALUE_FEATURES[int(np.argmax(self.drift[at]))]].label,
            }
            for at in np.argsort(-of_each, kind="stable")[:limit]
        ]

    def summary(self, limit: int = 5) -> dict[str, Any]:
        """Return the drift as a manifest keeps it."""
        return {
            "against": self.older,
            "fingerprints": len(self.row),
            "quantiles": self.quantiles,
            "lost": round(self.lost_share, 4),
            "top": self.top(limit),
        }


def compare_banks(older: Bank, newer: Bank) -> BankDrift:
    """Return the drift of the fingerprints that are ready in both banks, and the counts of the others."""
    old, new = _fingerprint_hashes(older), _fingerprint_hashes(newer)
    place, both = _match_hashes(old, new)
    was, now = older.fingerprints["ready"].to_numpy(bool), newer.fingerprints["ready"].to_numpy(bool)
    still = np.zeros(len(was), bool)
    still[place[both]] = now[both]
    row = np.flatnonzero(both & now & was[np.where(both, place, 0)])
    entity_then, entity_now = (
        bank.fingerprints["level"].to_numpy() == LEVELS.index("entity") for bank in (older, newer)
    )
    stayed = both & entity_now
    before = was[place[stayed]]
    return BankDrift(
        older.version,
        newer.version,
        added=int((entity_now & ~both).sum()),
        removed=int(entity_then.sum() - stayed.sum()),
        became_ready=int((now[stayed] & ~before).sum()),
        no_longer_ready=int((~now[stayed] & before).sum()),
        lost_share=float((was & ~still).sum() / was.sum()),
        row=row,
        drift=_total_variation(older.vocabulary, place[row], newer.vocabulary, row),
        keys=newer.fingerprints["key"].to_numpy(object)[row],
        levels=newer.fingerprints["level"].to_numpy(np.int8)[row],
    )


def loss_quantiles(bank: Bank, sample: Bank) -> dict[str, float]:
    """Return quantiles of the loss (nats) of a bank on the training rows that another bank keeps as a sample."""
    row, codes = sample.scorer_state["sample.fingerprint"], sample.scorer_state["sample.codes"]
    place, found = _match_hashes(_fingerprint_hashes(bank), _fingerprint_hashes(sample))
    parent, ready = sample.fingerprints["parent"].to_numpy(), bank.fingerprints["ready"].to_numpy(bool)
    at = row.copy()
    for _ in LEVELS:  # go up to the finest fingerprint that is ready in `bank`
        known = found[at] & ready[np.where(found[at], place[at], 0)]
        at = np.where(known | (parent[at] < 0), at, parent[at])
    fingerprint = np.where(found[at], place[at], 0).astype(np.int32)
    loss, _ = autoencoder.feature_losses(bank.vocabulary, bank.weights, fingerprint, codes)
    return named_quantiles(loss.sum(1))


def compare_values(older: Bank, newer: Bank) -> dict[str, Any]:
    """Return how many values only one of the banks knows, and the texts of some that are new."""
    then, now = (bank.words["code"].to_numpy(np.uint64) for bank in (older, newer))
    came = np.setdiff1d(now, then)
    return {"added": len(came), "removed": len(np.setdiff1d(then, now)), "some": newer.value_texts(came[:10])}


def _fingerprint_hashes(bank: Bank) -> Hashes:
    """Return one hash for each fingerprint (E,), the same in every bank."""
    stack = bank.fingerprints
    return hashing.hash_pair(stack["hash"].to_numpy(np.uint64), stack["level"].to_numpy())


def _match_hashes(old: Hashes, new: Hashes) -> tuple[RowIndices, NDArray[np.bool_]]:
    """Return the index of each new hash among the old ones, and whether it is there: (N,), (N,)."""
    order = np.argsort(old)
    place, found = find_sorted(old[order], new)
    return np.where(found, order[np.where(found, place, 0)], 0), found


def _total_variation(older: Vocabulary, was: RowIndices, newer: Vocabulary, now: RowIndices) -> Floats:
    """Return the total variation of each of VALUE_FEATURES between pairs of rows, `was` and `now` (D,): (D, V)."""
    parts = [
        1 - _shared_likelihood(older, was[start : start + CHUNK_ROWS], newer, now[start : start + CHUNK_ROWS])
        for start in range(0, len(now), CHUNK_ROWS)
    ]
    return np.clip(np.concatenate([np.empty((0, len(VALUE_FEATURES))), *parts]), 0, 1).astype(np.float32)


def _shared_likelihood(
    older: Vocabulary, was: RowIndices, newer: Vocabulary, now: RowIndices
) -> NDArray[np.float64]:
    """Return the likelihood that two banks have in common, the sum over values of the smaller one: (D, V)."""
    (old_keys, old), (keys, new) = _slot_shares(older, was), _slot_shares(newer, now)
    place, found = _match_hashes(old_keys, keys)
    same = np.where(found, old[..., 1:].ravel()[place], 0).reshape(new[..., 1:].shape)
    rest = np.minimum(old[..., 0], new[..., 0])
    return rest + np.minimum(same, new[..., 1:]).sum(-1)


def _slot_shares(known: Vocabulary, rows: RowIndices) -> tuple[Hashes, Floats]:
    """Return the keys of slots 1 and above, flattened, and the shares of all slots (D, V, K)."""
    codes = known.codes[rows][:, VALUE_FEATURES, 1:]
    owner, feature = np.arange(len(rows))[:, None, None], np.arange(len(VALUE_FEATURES))[:, None]
    key = vocabulary_key(owner, feature, codes)
    empty = np.arange(key.size, dtype=np.uint64).reshape(key.shape)  # keys of empty slots differ
    share = np.exp(known.base[rows][:, VALUE_FEATURES])
    share[..., 1:][codes == 0] = 0
    return np.where(codes == 0, empty, key).ravel(), share
