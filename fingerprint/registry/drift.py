"""Two banks side by side: who came and went, and how far everybody's behaviour moved from one to the other.

Example:
    >>> found = between(served, trained)
    >>> found.came, found.gone, found.quantiles
    (14, 2, {'0.5': 0.04, '0.9': 0.13, '0.99': 0.41})
    >>> found.top(1)
    [{'key': '123456789012:role/deploy', 'level': 'principal', 'drift': 0.62, 'most': 'network'}]

The drift of a feature is the share of its likelihood that lies elsewhere now (total variation: 0 the same, 1 nothing in
common), over the values that have slots and the rest taken together. The drift of a fingerprint is the mean over features
that are values. Whoever teaches a bank slowly moves a little each time and far in the end: so a bank is also held against
one of several versions ago (`gate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find
from fingerprint.core.alert import LEVELS
from fingerprint.estimators import autoencoder
from fingerprint.features.encoding import FEATURES, IS_BIN
from fingerprint.features.vocabulary import Floats, Vocabulary, key_of
from fingerprint.registry.bank import Bank
from fingerprint.registry.quality import quantiles

CHUNK = 1024  # fingerprints compared at a time: 1024 x 17 x 24 x 2 keys of 8 B = 7 MB
VALUES = np.flatnonzero(~IS_BIN)

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Drift:
    """From an older bank to a newer one. Counts are of entities; `row` (D,) are those fingerprints of the newer bank that are
    ready in both, `drift` (D, V) how far each moved by feature of VALUES, `keys` and `levels` (D,) who they are."""

    older: str
    newer: str
    came: int
    gone: int
    became_ready: int
    no_longer_ready: int
    lost: float  # share of all that were ready and are no more, or are gone
    row: Rows
    drift: Floats
    keys: NDArray[np.object_]
    levels: NDArray[np.int8]

    @property
    def of_each(self) -> Floats:
        """(D,) mean over features."""
        return self.drift.mean(1) if len(self.drift) else np.zeros(0, np.float32)

    @property
    def quantiles(self) -> dict[str, float]:
        return quantiles(self.of_each)

    def top(self, most: int) -> list[dict[str, Any]]:
        """Those that moved furthest, and by which feature most."""
        of_each = self.of_each
        return [
            {
                "key": str(self.keys[at]),
                "level": LEVELS[self.levels[at]],
                "drift": round(float(of_each[at]), 4),
                "most": FEATURES[VALUES[int(np.argmax(self.drift[at]))]].label,
            }
            for at in np.argsort(-of_each, kind="stable")[:most]
        ]

    def figures(self, most: int = 5) -> dict[str, Any]:
        """What a manifest keeps."""
        return {
            "against": self.older,
            "fingerprints": len(self.row),
            "quantiles": self.quantiles,
            "lost": round(self.lost, 4),
            "top": self.top(most),
        }


def between(older: Bank, newer: Bank) -> Drift:
    """Compare two banks: how far the fingerprints moved that are ready in both, and which are not."""
    old, new = _names(older), _names(newer)
    place, both = _matched(old, new)
    was, now = older.fingerprints["ready"].to_numpy(bool), newer.fingerprints["ready"].to_numpy(bool)
    still = np.zeros(len(was), bool)
    still[place[both]] = now[both]
    row = np.flatnonzero(both & now & was[np.where(both, place, 0)])
    entity_then, entity_now = (
        bank.fingerprints["level"].to_numpy() == LEVELS.index("entity") for bank in (older, newer)
    )
    stayed = both & entity_now
    before = was[place[stayed]]
    return Drift(
        older.version,
        newer.version,
        came=int((entity_now & ~both).sum()),
        gone=int(entity_then.sum() - stayed.sum()),
        became_ready=int((now[stayed] & ~before).sum()),
        no_longer_ready=int((~now[stayed] & before).sum()),
        lost=float((was & ~still).sum() / was.sum()),
        row=row,
        drift=_moved(older.vocabulary, place[row], newer.vocabulary, row),
        keys=newer.fingerprints["key"].to_numpy(object)[row],
        levels=newer.fingerprints["level"].to_numpy(np.int8)[row],
    )


def losses(bank: Bank, sample: Bank) -> dict[str, float]:
    """Quantiles of the loss (nats) that a bank gives the sample of training rows that another bank keeps."""
    row, codes = sample.ledger["sample.fingerprint"], sample.ledger["sample.codes"]
    place, found = _matched(_names(bank), _names(sample))
    parent, ready = sample.fingerprints["parent"].to_numpy(), bank.fingerprints["ready"].to_numpy(bool)
    at = row.copy()
    for _ in LEVELS:  # the finest fingerprint that this bank has ready
        known = found[at] & ready[np.where(found[at], place[at], 0)]
        at = np.where(known | (parent[at] < 0), at, parent[at])
    fingerprint = np.where(found[at], place[at], 0).astype(np.int32)
    loss, _ = autoencoder.losses(bank.vocabulary, bank.weights, fingerprint, codes)
    return quantiles(loss.sum(1))


def words(older: Bank, newer: Bank) -> dict[str, Any]:
    """Values that a bank knows and the other does not: how many, and some of those that came."""
    then, now = (bank.words["code"].to_numpy(np.uint64) for bank in (older, newer))
    came = np.setdiff1d(now, then)
    return {"came": len(came), "gone": len(np.setdiff1d(then, now)), "some": newer.text(came[:10])}


def _names(bank: Bank) -> Hashes:
    """One name for each fingerprint (E,), the same in every bank."""
    stack = bank.fingerprints
    return hashing.mix(stack["hash"].to_numpy(np.uint64), stack["level"].to_numpy())


def _matched(old: Hashes, new: Hashes) -> tuple[Rows, NDArray[np.bool_]]:
    """Where each of the new names stands among the old ones, and whether it does: (N,), (N,)."""
    order = np.argsort(old)
    place, found = find(old[order], new)
    return np.where(found, order[np.where(found, place, 0)], 0), found


def _moved(older: Vocabulary, was: Rows, newer: Vocabulary, now: Rows) -> Floats:
    """Total variation of each feature of VALUES, pair by pair: rows was, now (D,) -> (D, V)."""
    parts = [
        1 - _shared(older, was[start : start + CHUNK], newer, now[start : start + CHUNK])
        for start in range(0, len(now), CHUNK)
    ]
    return np.clip(np.concatenate([np.empty((0, len(VALUES))), *parts]), 0, 1).astype(np.float32)


def _shared(older: Vocabulary, was: Rows, newer: Vocabulary, now: Rows) -> NDArray[np.float64]:
    """Likelihood that two banks give to the same values, at least: sum of the minima, (D, V)."""
    (old_keys, old), (keys, new) = _slots(older, was), _slots(newer, now)
    place, found = _matched(old_keys, keys)
    same = np.where(found, old[..., 1:].ravel()[place], 0).reshape(new[..., 1:].shape)
    rest = np.minimum(old[..., 0], new[..., 0])
    return rest + np.minimum(same, new[..., 1:]).sum(-1)


def _slots(known: Vocabulary, rows: Rows) -> tuple[Hashes, Floats]:
    """Keys of the slots from 1 on, flat, and the shares of all slots (D, V, K)."""
    codes = known.codes[rows][:, VALUES, 1:]
    owner, feature = np.arange(len(rows))[:, None, None], np.arange(len(VALUES))[:, None]
    key = key_of(owner, feature, codes)
    empty = np.arange(key.size, dtype=np.uint64).reshape(key.shape)  # no two empty slots are one value
    share = np.exp(known.base[rows][:, VALUES])
    share[..., 1:][codes == 0] = 0
    return np.where(codes == 0, empty, key).ravel(), share
