"""Owner names: the text behind the hash of an owner of series (entity or principal), for votes on intervals.

Example:
    >>> names = OwnerNames(bank, state.unknown_owners)
    >>> names.observe(batch)                             # owners that the bank does not know, while their interval is open
    >>> names.look_up(state.series.owner[rows])          # (R,) texts, None for an unknown owner
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import Ints, namespace, to_device_of, to_host, unique_places
from fingerprint.compute.hashing import Hashes
from fingerprint.compute.sorted_table import find_sorted
from fingerprint.registry.bank import Bank
from fingerprint.state.event_batch import EventBatch


class OwnerNames:
    """Names of entities and principals: those of the bank always, other ones until their last interval is over.

    Keys are hashes without their bucket, because an entity that principals of several buckets share has one name.
    """

    def __init__(self, bank: Bank, unknown_owners: dict[int, tuple[str, int]]) -> None:
        """Use `unknown_owners` (hash -> text, last interval), which belongs to the pipeline's state, and change it in place."""
        self.hashes, self.texts = bank.owners
        self.unknown_owners = unknown_owners

    def observe(self, batch: EventBatch) -> None:
        """Keep the names of the owners in a batch that the bank does not know, each with its last interval."""
        xp = namespace(batch.entity)
        for owner, column in ((batch.entity, "entity"), (batch.principal, "principal")):
            names = hashing.without_bucket(owner)
            rows = (~find_sorted(self.hashes, names)[1]).nonzero()[0]
            if not len(rows):
                continue
            distinct, first, group = unique_places(names[rows])
            last = xp.zeros(len(distinct), np.int32)
            xp.maximum.at(last, group, batch.interval[rows])
            named = frames.select_rows(frames.select_columns(batch.frame, [column]), rows[first])
            texts = frames.column_of(frames.to_host(named), column)
            for name, text, at in zip(distinct.tolist(), texts, last.tolist(), strict=True):
                self.unknown_owners[name] = (text, max(at, self.unknown_owners.get(name, (text, 0))[1]))

    def with_bank(self, bank: Bank, owner: Hashes, interval: Ints) -> OwnerNames:
        """Return the names for another bank.

        Owners (R,), last seen in intervals (R,), are kept as unknown owners if that bank does not know them.
        """
        after, owner = OwnerNames(bank, {}), hashing.without_bucket(owner)
        unknown = ~after._find_in_bank(owner)[1]
        last = pd.Series(interval[unknown]).groupby(owner[unknown]).max()
        texts = self.look_up(last.index.to_numpy(np.uint64))
        met = zip(last.index.tolist(), texts, last.tolist(), strict=True)
        after.unknown_owners = {
            name: (text, at) for name, text, at in met if text is not None
        } | self.unknown_owners
        return after

    def look_up(self, owner: Hashes) -> NDArray[np.object_]:
        """Return the text of each owner (R,), None for an unknown one; on the host."""
        owner = hashing.without_bucket(owner)
        place, found = self._find_in_bank(owner)
        out = np.full(len(owner), None, object)
        out[found] = self.texts[place[found]]
        unknown = np.flatnonzero(~found)
        out[unknown] = [self.unknown_owners.get(name, (None, 0))[0] for name in owner[unknown].tolist()]
        return out

    def is_in_bank(self, owner: Hashes) -> NDArray[np.bool_]:
        """Return a mask (N,) of the owners that the bank knows, on the device of the owners."""
        found: NDArray[np.bool_] = to_device_of(
            find_sorted(self.hashes, to_device_of(hashing.without_bucket(owner), self.hashes))[1], owner
        )
        return found

    def _find_in_bank(self, owner: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the places (R,) of owners in the bank, and a mask (R,) of those that were found; on the host."""
        place, found = find_sorted(self.hashes, to_device_of(owner, self.hashes))
        return to_host(place), to_host(found)

    def expire(self, before: int) -> None:
        """Drop unknown owners that were last seen before an interval."""
        for name in [name for name, (_, last) in self.unknown_owners.items() if last < before]:
            del self.unknown_owners[name]
