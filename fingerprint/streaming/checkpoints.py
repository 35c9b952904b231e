"""Where a partition's keeper comes from when it is assigned, and where its state goes before Kafka may forget.

assigned: the newest snapshot, or without one what the bank has learned, cut to the partition
saved:    the keeper's parts, with the position of the next message, under the fence of this owner

Which bank judges from a position on is part of the snapshot of that position, and another bank takes over in a snapshot
only: whatever is read again after a crash is judged by the bank that judged it before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames, hashing
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Consumer, Fence, NotOwner, Partition, Snapshot, Snapshots
from fingerprint.core.settings import Settings
from fingerprint.sources.arrival import FILE_SECONDS, check_watermark
from fingerprint.state import partitioning
from fingerprint.state.scorer_state import Ledger
from fingerprint.streaming.bank_watcher import Banks
from fingerprint.streaming.feed_activity import FeedCounts
from fingerprint.streaming.partition_processor import NO_PARTS, Keeper, Learned
from fingerprint.streaming.watermarks import Sources

NOWHERE = -1  # a position that was neither saved nor committed yet

log = logging.getLogger("fingerprint.stream")


@dataclass
class Kept:
    """A partition in our hands. `offset` is the position of its next message, `saved` that of its last snapshot, `committed` the
    one that the broker took from us; before `told` somebody else may have told already what comes, by the bank of the snapshot.

    A restored snapshot counts as not committed: whoever saved it may have died before the broker took its position, and where
    nothing more comes nobody else would tell it. Once too often does no harm.
    """

    keeper: Keeper
    offset: int
    fence: Fence
    saved: int = NOWHERE
    told: int = 0
    committed: int = NOWHERE

    def is_ahead(self) -> bool:
        """Whether the last snapshot lies ahead of what the broker took."""
        return self.saved != self.committed


class Remembering:
    """Restores and saves the partitions of one topic."""

    def __init__(self, banks: Banks, snapshots: Snapshots, consumer: Consumer, settings: Settings) -> None:
        self.banks, self.snapshots, self.consumer, self.settings = banks, snapshots, consumer, settings
        self.partitions = 0

    def assigned(self, partition: Partition) -> Kept:
        """FingerprintError if what the snapshot rests on is gone, or it was taken under settings that count otherwise."""
        self.partitions = self.partitions or self._count(partition.topic)
        fence = self.snapshots.fence(partition, self.consumer.generation())
        snapshot = self.snapshots.latest(partition)
        begin = self.consumer.beginning([partition])[partition]
        if snapshot is None:
            keeper = self._grown(partition) or self._fresh(partition, begin)
            return Kept(self._bounded(keeper, partition), begin, fence)
        self._check(snapshot)
        self._divide(snapshot)
        keeper, told = self._restored(snapshot, partition), self.consumer.end([partition])[partition]
        return Kept(keeper, self._position(snapshot, begin), fence, snapshot.offset, told)

    def may_change(self, kept: Kept) -> bool:
        """Whether another bank is served than the one that judges a partition, and may take it over."""
        return kept.keeper.bank.version != self.banks.served.bank.version and kept.offset >= kept.told

    def save(self, partition: Partition, kept: Kept) -> int:
        """Bytes of the snapshot; if another bank may take the partition over, it does so with it.

        FingerprintError if it cannot be saved, NotOwner if somebody else has the partition: then the bank is the same.
        """
        back = self._change(partition, kept) if self.may_change(kept) else None
        try:
            return self._save(partition, kept)
        except (FingerprintError, NotOwner):
            if back:
                back()
            raise

    def _change(self, partition: Partition, kept: Kept) -> Callable[[], None]:
        was, served = kept.keeper.bank.version, self.banks.served
        fields = {"partition": partition.place, "offset": kept.offset, "version": served.bank.version}
        log.info("another bank judges", extra={"fields": fields | {"before": was}})
        return kept.keeper.judge_by(*served)

    def _save(self, partition: Partition, kept: Kept) -> int:
        parts = kept.keeper.parts()
        snapshot = Snapshot(
            partition, kept.offset, kept.fence, self._about(kept.keeper), parts, kept.keeper.kept()
        )
        kept.fence = kept.fence.next()
        self.snapshots.save(snapshot)
        kept.saved = kept.offset
        return sum(map(len, parts.values()))

    def strays(self, events: pd.DataFrame, partition: Partition) -> int:
        """How many events lie in a partition that is not their principal's: it was keyed otherwise, or partitions were added
        before everything was read."""
        codes, distinct = frames.factorize(events["principal"])
        virtual = hashing.homes(hashing.homed(pd.Series(distinct, dtype=object))) >> 8
        astray = np.asarray(virtual % self.partitions != partition.number)
        return int(arrays.like(astray, codes)[codes].sum()) if astray.any() else 0

    # --- where a keeper comes from ------------------------------------------------------------------------------------

    def _fresh(self, partition: Partition, begin: int) -> Keeper:
        """As the bank's training left it."""
        committed = self.consumer.committed([partition])[partition]
        if committed is not None and committed > begin:
            log.warning(
                "no snapshot: reading again from the beginning",
                extra={"fields": {"partition": partition.place, "offset": begin, "committed": committed}},
            )
        bank, losses = self.banks.served
        part = partitioning.pick(bank.ledger, self._homes(partition.number))
        ledger = Ledger.from_arrays(self.settings, part, self.banks.backend.place)
        learned = Learned(bank.manifest["learned_upto"], bank.manifest["arrived_upto"])
        return Keeper(bank, ledger, self.settings, self._sources(), learned, losses, self.banks.backend)

    def _grown(self, partition: Partition) -> Keeper | None:
        """A partition that was added takes its share of the state of the one its principals were in."""
        elders = (
            each for each in self.snapshots.partitions(partition.topic) if each.number < partition.number
        )
        for elder in elders:
            snapshot = self.snapshots.latest(elder)
            before = int(snapshot.about["partitions"]) if snapshot else self.partitions
            if snapshot and before < self.partitions and elder.number == partition.number % before:
                self._check(snapshot)
                return self._share(snapshot, partition)
        return None

    def _divide(self, snapshot: Snapshot) -> None:
        """Before a partition's state is cut to what is left of it, those that were added have theirs: whoever is given them,
        whenever that is."""
        home, before = snapshot.partition, int(snapshot.about["partitions"])
        for number in range(home.number + before, self.partitions, before):
            added = Partition(home.topic, number)
            if self.snapshots.latest(added) is None:
                keeper = self._share(snapshot, added)
                begin = self.consumer.beginning([added])[added]
                fence = self.snapshots.fence(added, self.consumer.generation())
                self.snapshots.save(Snapshot(added, begin, fence, self._about(keeper), keeper.parts()))

    def _share(self, snapshot: Snapshot, added: Partition) -> Keeper:
        """The share that an added partition has of an elder one's state, all of it in memory."""
        keeper = self._restored(snapshot, added)
        keeper.sources.forget(snapshot.partition.place)
        keeper.feeds = FeedCounts(keeper.feeds.seconds, keeper.feeds.most)  # the elder keeps them
        return keeper

    def _restored(self, snapshot: Snapshot, partition: Partition) -> Keeper:
        sources = Sources.from_facts(dict(snapshot.about), 1, self.settings.stream.idle_seconds)
        bank, losses = self.banks.of(str(snapshot.about["bank"]))
        state = snapshot.about, snapshot.parts, losses, self.banks.found, self.banks.backend
        keeper = Keeper.restored(bank, self.settings, sources, *state)
        remedy = "Name another folder in state.snapshots to begin anew"
        most = FILE_SECONDS + self.settings.stream.future_seconds  # so far ahead may have been believed
        what, watermark = f"the snapshot of {snapshot.partition.place}", keeper.road.ledger.watermark
        check_watermark(what, watermark, remedy, seconds=most)
        keeper = self._bounded(keeper, snapshot.partition, snapshot.parts)
        if int(snapshot.about["partitions"]) != self.partitions:
            keeper = self._bounded(keeper.only(self._homes(partition.number)), partition)
        return keeper

    def _bounded(self, keeper: Keeper, partition: Partition, parts: Mapping[str, bytes] = NO_PARTS) -> Keeper:
        return keeper.bounded(partial(self.snapshots.put, partition), self.snapshots.get, parts)

    def _sources(self) -> Sources:
        return Sources(1, self.settings.stream.idle_seconds)

    def _homes(self, number: int) -> NDArray[np.bool_]:
        """Which homes (65536,) have their principals in a partition."""
        virtual = np.arange(hashing.VIRTUAL_PARTITIONS)
        return hashing.of_partitions(virtual % self.partitions == number)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _count(self, topic: str) -> int:
        count = self.consumer.partitions(topic)
        if hashing.VIRTUAL_PARTITIONS % count:
            raise FingerprintError(
                f"{topic} has {count} partitions; its state can be cut into 1, 2, 4, ... {hashing.VIRTUAL_PARTITIONS}: "
                "make the topic with one of these"
            )
        if self.settings.entities.granularity == "service" and count > 1:
            raise FingerprintError(
                f"entities.granularity service counts over all principals, and {topic} spreads them over {count} "
                "partitions: give it one, or choose another granularity"
            )
        return count

    def _check(self, snapshot: Snapshot) -> None:
        """The partitions may have become more; what is counted must be the same."""
        before = int(snapshot.about["partitions"])
        if self.partitions % before:
            raise FingerprintError(
                f"{snapshot.partition.topic} had {before} partitions when its snapshots were taken and has "
                f"{self.partitions} now; they can only grow to a multiple"
            )
        counted = self._counting()
        for name, value in snapshot.about["counting"].items():
            if counted[name] != value:
                raise FingerprintError(
                    f"setting {name} is {counted[name]!r}, and the snapshots in {self.settings.state.snapshots} were "
                    f"counted with {value!r}: set it back, or name another folder in state.snapshots to begin anew"
                )

    def _position(self, snapshot: Snapshot, begin: int) -> int:
        """Where to read on; what Kafka no longer holds is lost, and said to be."""
        if snapshot.offset >= begin:
            return snapshot.offset
        place = snapshot.partition.place
        lost = (
            f"the messages {snapshot.offset:,} to {begin - 1:,} of {place} are lost: Kafka no longer holds them, and the newest "
            f"snapshot ends before them"
        )
        if self.settings.kafka.lost == "stop":
            raise FingerprintError(f'{lost}; kafka.lost = "skip" goes on without them')
        log.warning(lost)
        return begin

    def _counting(self) -> dict[str, Any]:
        """Settings that say what state counts."""
        return {
            "spectral.interval_seconds": self.settings.spectral.interval_seconds,
            "entities.granularity": self.settings.entities.granularity,
            "spectral.lateness_seconds": self.settings.spectral.lateness_seconds,
        }

    def _about(self, keeper: Keeper) -> dict[str, Any]:
        return {"partitions": self.partitions, "counting": self._counting(), **keeper.facts()}
