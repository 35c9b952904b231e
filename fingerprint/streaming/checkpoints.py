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
from fingerprint.core.ports import Checkpoint, CheckpointStore, Consumer, Fence, Partition, PartitionNotOwned
from fingerprint.core.settings import Settings
from fingerprint.sources.arrival import FILE_CLOCK_TOLERANCE_SECONDS, check_watermark
from fingerprint.state import partitioning
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming.bank_watcher import BankWatcher
from fingerprint.streaming.feed_activity import FeedCounts
from fingerprint.streaming.partition_processor import NO_BLOBS, PartitionProcessor, TrainingCutoff
from fingerprint.streaming.watermarks import WatermarkTracker

NO_POSITION = -1  # a position that was neither saved nor committed yet

log = logging.getLogger("fingerprint.stream")


@dataclass
class OwnedPartition:
    """A partition in our hands. `offset` is the position of its next message, `saved` that of its last snapshot, `committed` the
    one that the broker took from us; before `told` somebody else may have told already what comes, by the bank of the snapshot.

    A restored snapshot counts as not committed: whoever saved it may have died before the broker took its position, and where
    nothing more comes nobody else would tell it. Once too often does no harm.
    """

    processor: PartitionProcessor
    offset: int
    fence: Fence
    checkpointed: int = NO_POSITION
    published_until: int = 0
    committed: int = NO_POSITION

    def needs_commit(self) -> bool:
        """Whether the last snapshot lies ahead of what the broker took."""
        return self.checkpointed != self.committed


class CheckpointManager:
    """Restores and saves the partitions of one topic."""

    def __init__(
        self, banks: BankWatcher, checkpoints: CheckpointStore, consumer: Consumer, settings: Settings
    ) -> None:
        self.banks, self.checkpoints, self.consumer, self.settings = banks, checkpoints, consumer, settings
        self.partition_count = 0

    def restore(self, partition: Partition) -> OwnedPartition:
        """FingerprintError if what the snapshot rests on is gone, or it was taken under settings that count otherwise."""
        self.partition_count = self.partition_count or self._partition_count(partition.topic)
        fence = self.checkpoints.next_fence(partition, self.consumer.generation())
        snapshot = self.checkpoints.latest(partition)
        begin = self.consumer.beginning_offsets([partition])[partition]
        if snapshot is None:
            keeper = self._split_from_parent(partition) or self._from_bank(partition, begin)
            return OwnedPartition(self._with_eviction(keeper, partition), begin, fence)
        self._check_compatible(snapshot)
        self._split_checkpoint(snapshot)
        keeper, told = (
            self._from_checkpoint(snapshot, partition),
            self.consumer.end_offsets([partition])[partition],
        )
        return OwnedPartition(keeper, self._start_position(snapshot, begin), fence, snapshot.offset, told)

    def can_swap_bank(self, kept: OwnedPartition) -> bool:
        """Whether another bank is served than the one that judges a partition, and may take it over."""
        return (
            kept.processor.bank.version != self.banks.served.bank.version
            and kept.offset >= kept.published_until
        )

    def save(self, partition: Partition, kept: OwnedPartition) -> int:
        """Bytes of the snapshot; if another bank may take the partition over, it does so with it.

        FingerprintError if it cannot be saved, NotOwner if somebody else has the partition: then the bank is the same.
        """
        back = self._swap_bank(partition, kept) if self.can_swap_bank(kept) else None
        try:
            return self._save(partition, kept)
        except (FingerprintError, PartitionNotOwned):
            if back:
                back()
            raise

    def _swap_bank(self, partition: Partition, kept: OwnedPartition) -> Callable[[], None]:
        was, served = kept.processor.bank.version, self.banks.served
        fields = {"partition": partition.label, "offset": kept.offset, "version": served.bank.version}
        log.info("another bank judges", extra={"fields": fields | {"before": was}})
        return kept.processor.swap_bank(*served)

    def _save(self, partition: Partition, kept: OwnedPartition) -> int:
        parts = kept.processor.checkpoint_blobs()
        snapshot = Checkpoint(
            partition,
            kept.offset,
            kept.fence,
            self._checkpoint_metadata(kept.processor),
            parts,
            kept.processor.referenced_blobs(),
        )
        kept.fence = kept.fence.successor()
        self.checkpoints.save(snapshot)
        kept.checkpointed = kept.offset
        return sum(map(len, parts.values()))

    def misrouted_events(self, events: pd.DataFrame, partition: Partition) -> int:
        """How many events lie in a partition that is not their principal's: it was keyed otherwise, or partitions were added
        before everything was read."""
        codes, distinct = frames.factorize_values(events["principal"])
        virtual = hashing.bucket_of(hashing.hash_with_bucket(pd.Series(distinct, dtype=object))) >> 8
        astray = np.asarray(virtual % self.partition_count != partition.number)
        return int(arrays.to_device_of(astray, codes)[codes].sum()) if astray.any() else 0

    # --- where a keeper comes from ------------------------------------------------------------------------------------

    def _from_bank(self, partition: Partition, begin: int) -> PartitionProcessor:
        """As the bank's training left it."""
        committed = self.consumer.committed([partition])[partition]
        if committed is not None and committed > begin:
            log.warning(
                "no snapshot: reading again from the beginning",
                extra={"fields": {"partition": partition.label, "offset": begin, "committed": committed}},
            )
        bank, losses = self.banks.served
        part = partitioning.select_buckets(bank.scorer_state, self._bucket_mask(partition.number))
        ledger = ScorerState.from_arrays(self.settings, part, self.banks.backend.to_device)
        learned = TrainingCutoff(bank.manifest["learned_upto"], bank.manifest["arrived_upto"])
        return PartitionProcessor(
            bank, ledger, self.settings, self._new_watermarks(), learned, losses, self.banks.backend
        )

    def _split_from_parent(self, partition: Partition) -> PartitionProcessor | None:
        """A partition that was added takes its share of the state of the one its principals were in."""
        elders = (
            each
            for each in self.checkpoints.checkpointed_partitions(partition.topic)
            if each.number < partition.number
        )
        for elder in elders:
            snapshot = self.checkpoints.latest(elder)
            before = int(snapshot.metadata["partitions"]) if snapshot else self.partition_count
            if snapshot and before < self.partition_count and elder.number == partition.number % before:
                self._check_compatible(snapshot)
                return self._restore_share(snapshot, partition)
        return None

    def _split_checkpoint(self, snapshot: Checkpoint) -> None:
        """Before a partition's state is cut to what is left of it, those that were added have theirs: whoever is given them,
        whenever that is."""
        home, before = snapshot.partition, int(snapshot.metadata["partitions"])
        for number in range(home.number + before, self.partition_count, before):
            added = Partition(home.topic, number)
            if self.checkpoints.latest(added) is None:
                keeper = self._restore_share(snapshot, added)
                begin = self.consumer.beginning_offsets([added])[added]
                fence = self.checkpoints.next_fence(added, self.consumer.generation())
                self.checkpoints.save(
                    Checkpoint(
                        added, begin, fence, self._checkpoint_metadata(keeper), keeper.checkpoint_blobs()
                    )
                )

    def _restore_share(self, snapshot: Checkpoint, added: Partition) -> PartitionProcessor:
        """The share that an added partition has of an elder one's state, all of it in memory."""
        keeper = self._from_checkpoint(snapshot, added)
        keeper.watermarks.forget(snapshot.partition.label)
        keeper.feed_counts = FeedCounts(
            keeper.feed_counts.interval_seconds, keeper.feed_counts.max_feeds
        )  # the elder keeps them
        return keeper

    def _from_checkpoint(self, snapshot: Checkpoint, partition: Partition) -> PartitionProcessor:
        sources = WatermarkTracker.from_metadata(
            dict(snapshot.metadata), 1, self.settings.stream.source_idle_seconds
        )
        bank, losses = self.banks.for_version(str(snapshot.metadata["bank"]))
        state = snapshot.metadata, snapshot.blobs, losses, self.banks.find, self.banks.backend
        keeper = PartitionProcessor.from_checkpoint(bank, self.settings, sources, *state)
        remedy = "Name another folder in checkpoints.url to begin anew"
        most = (
            FILE_CLOCK_TOLERANCE_SECONDS + self.settings.reading.max_future_seconds
        )  # so far ahead may have been believed
        what, watermark = f"the snapshot of {snapshot.partition.label}", keeper.pipeline.state.watermark
        check_watermark(what, watermark, remedy, seconds=most)
        keeper = self._with_eviction(keeper, snapshot.partition, snapshot.blobs)
        if int(snapshot.metadata["partitions"]) != self.partition_count:
            keeper = self._with_eviction(keeper.restrict_to(self._bucket_mask(partition.number)), partition)
        return keeper

    def _with_eviction(
        self, processor: PartitionProcessor, partition: Partition, parts: Mapping[str, bytes] = NO_BLOBS
    ) -> PartitionProcessor:
        return processor.with_eviction(
            partial(self.checkpoints.put_blob, partition), self.checkpoints.get_blob, parts
        )

    def _new_watermarks(self) -> WatermarkTracker:
        return WatermarkTracker(1, self.settings.stream.source_idle_seconds)

    def _bucket_mask(self, number: int) -> NDArray[np.bool_]:
        """Which homes (65536,) have their principals in a partition."""
        virtual = np.arange(hashing.VIRTUAL_PARTITIONS)
        return hashing.buckets_of_partitions(virtual % self.partition_count == number)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _partition_count(self, topic: str) -> int:
        count = self.consumer.partition_count(topic)
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

    def _check_compatible(self, snapshot: Checkpoint) -> None:
        """The partitions may have become more; what is counted must be the same."""
        before = int(snapshot.metadata["partitions"])
        if self.partition_count % before:
            raise FingerprintError(
                f"{snapshot.partition.topic} had {before} partitions when its snapshots were taken and has "
                f"{self.partition_count} now; they can only grow to a multiple"
            )
        counted = self._state_settings()
        for name, value in snapshot.metadata["counting"].items():
            if counted[name] != value:
                raise FingerprintError(
                    f"setting {name} is {counted[name]!r}, and the snapshots in {self.settings.checkpoints.url} were "
                    f"counted with {value!r}: set it back, or name another folder in checkpoints.url to begin anew"
                )

    def _start_position(self, snapshot: Checkpoint, begin: int) -> int:
        """Where to read on; what Kafka no longer holds is lost, and said to be."""
        if snapshot.offset >= begin:
            return snapshot.offset
        place = snapshot.partition.label
        lost = (
            f"the messages {snapshot.offset:,} to {begin - 1:,} of {place} are lost: Kafka no longer holds them, and the newest "
            f"snapshot ends before them"
        )
        if self.settings.kafka.auto_offset_reset == "none":
            raise FingerprintError(f'{lost}; kafka.auto_offset_reset = "earliest" goes on without them')
        log.warning(lost)
        return begin

    def _state_settings(self) -> dict[str, Any]:
        """Settings that say what state counts."""
        return {
            "spectral.interval_seconds": self.settings.spectral.interval_seconds,
            "entities.granularity": self.settings.entities.granularity,
            "spectral.allowed_lateness_seconds": self.settings.spectral.allowed_lateness_seconds,
        }

    def _checkpoint_metadata(self, processor: PartitionProcessor) -> dict[str, Any]:
        return {
            "partitions": self.partition_count,
            "counting": self._state_settings(),
            **processor.checkpoint_metadata(),
        }
