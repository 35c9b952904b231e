"""Checkpoints: restore a partition when it is assigned, and save its state before its positions are committed.

- Restore: the newest checkpoint; without one, the share of this partition in the state that the bank's training wrote.
- Save: the state with the position of the next message, fenced, so that only the owner of the partition can write.

A checkpoint names the bank that scores from its position on, and another bank takes over only in a checkpoint. So messages that
are read again after a crash are scored by the same bank as before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.hashing import Hashes
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.checkpoint_store import Checkpoint, CheckpointStore, Fence
from fingerprint.core.ports.message_stream import Consumer, Partition, PartitionNotOwned
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors.spectral import EVENT_CHANNEL
from fingerprint.sources.arrival import CLOCK_TOLERANCE_SECONDS, check_watermark
from fingerprint.state import partitioning
from fingerprint.state.pipeline_state import PipelineState, TrainingCutoff
from fingerprint.state.scorer_state import ScorerState
from fingerprint.state.state_settings import changed_settings, state_settings
from fingerprint.state.watermarks import WatermarkTracker
from fingerprint.streaming.bank_watcher import BankWatcher
from fingerprint.streaming.partition_processor import PartitionProcessor

NO_POSITION = -1  # no position was saved or committed yet

log = get_logger("fingerprint.stream")


@dataclass
class OwnedPartition:
    """A partition that this process owns.

    `offset` is the position of its next message, `checkpointed` that of its last checkpoint, `committed` the one that the broker
    accepted. An earlier owner may have published results before `published_until`, with the bank of the checkpoint.

    A restored checkpoint counts as not committed: its owner may have died before the broker accepted the position, and if no
    message follows, no later commit would repair that. A superfluous commit does no harm.
    """

    processor: PartitionProcessor
    offset: int
    fence: Fence
    checkpointed: int = NO_POSITION
    published_until: int = 0
    committed: int = NO_POSITION

    def needs_commit(self) -> bool:
        """Return whether the last checkpoint is ahead of the committed position."""
        return self.checkpointed != self.committed


class CheckpointManager:
    """Restore and save the partitions of one topic."""

    def __init__(
        self, banks: BankWatcher, checkpoints: CheckpointStore, consumer: Consumer, settings: Settings
    ) -> None:
        self.banks, self.checkpoints, self.consumer, self.settings = banks, checkpoints, consumer, settings
        self.partition_count = 0

    def restore(self, partition: Partition) -> OwnedPartition:
        """Return an assigned partition with its state.

        Raise FingerprintError if something that the checkpoint needs is missing, if it was taken under settings that count
        differently, or if the topic got more partitions since this process began.
        """
        self.partition_count = self.partition_count or self._partition_count(partition.topic)
        if partition.number >= self.partition_count:
            raise FingerprintError(
                f"{partition.topic} got partitions while it was read, {partition.label} among them: start again, so that they "
                "begin with their share of what the others know"
            )
        fence = self.checkpoints.next_fence(partition, self.consumer.generation())
        checkpoint = self.checkpoints.latest(partition)
        begin = self.consumer.beginning_offsets([partition])[partition]
        if checkpoint is None:
            processor = self._split_from_parent(partition) or self._from_bank(partition, begin)
            return OwnedPartition(processor, begin, fence)
        self._check_compatible(checkpoint)
        self._split_checkpoint(checkpoint)
        processor = self._from_checkpoint(checkpoint, partition)
        end = self.consumer.end_offsets([partition])[partition]
        return OwnedPartition(
            processor, self._start_position(checkpoint, begin, end), fence, checkpoint.offset, end
        )

    def can_swap_bank(self, owned: OwnedPartition) -> bool:
        """Return whether a bank other than the partition's is served and may take the partition over."""
        return (
            owned.processor.bank.version != self.banks.served.bank.version
            and owned.offset >= owned.published_until
        )

    def save(self, partition: Partition, owned: OwnedPartition) -> int:
        """Save a checkpoint and return its size in bytes. A bank that may take the partition over does so here.

        Raise FingerprintError if it cannot be saved, PartitionNotOwned if the partition has another owner. The bank then stays
        the same.
        """
        undo = self._swap_bank(partition, owned) if self.can_swap_bank(owned) else None
        try:
            return self._save(partition, owned)
        except (FingerprintError, PartitionNotOwned):
            if undo:
                undo()
            raise

    def _swap_bank(self, partition: Partition, owned: OwnedPartition) -> Callable[[], None]:
        before, served = owned.processor.bank.version, self.banks.served
        version = served.bank.version
        log.info(
            "bank swapped", partition=partition.label, offset=owned.offset, version=version, before=before
        )
        return owned.processor.swap_bank(*served)

    def _save(self, partition: Partition, owned: OwnedPartition) -> int:
        checkpoint = self._checkpoint(partition, owned.processor, owned.offset, owned.fence)
        owned.fence = owned.fence.successor()
        self.checkpoints.save(checkpoint)
        owned.checkpointed = owned.offset
        return sum(map(len, checkpoint.blobs.values()))

    def _checkpoint(
        self, partition: Partition, processor: PartitionProcessor, offset: int, fence: Fence
    ) -> Checkpoint:
        saved = processor.checkpoint()
        metadata = {
            "partitions": self.partition_count,
            "state_settings": state_settings(self.settings),
            **saved.metadata,
        }
        return Checkpoint(partition, offset, fence, metadata, saved.blobs, saved.referenced_blobs)

    def misrouted_events(self, principals: Hashes, partition: Partition) -> int:
        """Return the number of events in a partition that is not that of their principal; `principals` (N,) are hashes.

        They were keyed differently, or partitions were added before everything was read.
        """
        virtual = hashing.bucket_of(principals) >> 8
        return int((virtual % self.partition_count != partition.number).sum())

    # --- where a processor comes from ---------------------------------------------------------------------------------

    def _from_bank(self, partition: Partition, begin: int) -> PartitionProcessor:
        """Return a processor with the state at the end of the bank's training."""
        committed = self.consumer.committed([partition])[partition]
        if committed is not None and committed > begin:
            log.warning(
                "no checkpoint: reading again from the beginning",
                partition=partition.label,
                offset=begin,
                committed=committed,
            )
        bank, inference = self.banks.served
        part = partitioning.select_buckets(bank.scorer_state, self._bucket_mask(partition.number))
        state = PipelineState(
            ScorerState.from_arrays(self.settings, part, self.banks.backend.to_device),
            WatermarkTracker(1, self.settings.stream.source_idle_seconds),
            TrainingCutoff(bank.manifest["trained_until"], bank.manifest["arrived_until"]),
            self.banks.backend,
        )
        self._enable_eviction(state, partition)
        return PartitionProcessor(bank, state, self.settings, inference)

    def _split_from_parent(self, partition: Partition) -> PartitionProcessor | None:
        """Return a processor for an added partition with its share of the state of the parent, which had its principals."""
        parents = (
            each
            for each in self.checkpoints.checkpointed_partitions(partition.topic)
            if each.number < partition.number
        )
        for parent in parents:
            checkpoint = self.checkpoints.latest(parent)
            before = int(checkpoint.metadata["partitions"]) if checkpoint else self.partition_count
            if checkpoint and before < self.partition_count and parent.number == partition.number % before:
                self._check_compatible(checkpoint)
                return self._from_checkpoint(checkpoint, partition)
        return None

    def _split_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Save the shares of added partitions, before the state of their parent is reduced to its own share."""
        parent, before = checkpoint.partition, int(checkpoint.metadata["partitions"])
        for number in range(parent.number + before, self.partition_count, before):
            added = Partition(parent.topic, number)
            if self.checkpoints.latest(added) is None:
                processor = self._from_checkpoint(checkpoint, added)
                begin = self.consumer.beginning_offsets([added])[added]
                fence = self.checkpoints.next_fence(added, self.consumer.generation())
                self.checkpoints.save(self._checkpoint(added, processor, begin, fence))

    def _from_checkpoint(self, checkpoint: Checkpoint, partition: Partition) -> PartitionProcessor:
        """Return a processor with the state of a checkpoint, or with `partition`'s share of it if partitions were added."""
        version, backend = str(checkpoint.metadata["bank"]), self.banks.backend
        bank, inference = self.banks.for_version(version)
        state = PipelineState.restore(self.settings, checkpoint.metadata, checkpoint.blobs, backend)
        check_watermark(
            f"the checkpoint of {checkpoint.partition.label}",
            state.scorer.watermark,
            "Name another folder in checkpoints.url to begin again",
            seconds=2 * CLOCK_TOLERANCE_SECONDS,
        )
        self._enable_eviction(state, checkpoint.partition)
        if int(checkpoint.metadata["partitions"]) != self.partition_count:
            state = self._share(state, checkpoint.partition, partition)
        processor = PartitionProcessor(bank, state, self.settings, inference)
        processor.pipeline.load_previous_banks(self.banks.find)
        if version != bank.version:
            state.restart_action_channels()
        return processor

    def _share(self, state: PipelineState, parent: Partition, partition: Partition) -> PipelineState:
        """Return a partition's share of the state; only the parent keeps the counts of feeds and its own messages as a source."""
        share = state.split(self._bucket_mask(partition.number), keep_feed_counts=partition == parent)
        if partition != parent:
            share.watermarks.forget(parent.label)
        self._enable_eviction(share, partition)
        return share

    def _enable_eviction(self, state: PipelineState, partition: Partition) -> None:
        put = partial(self.checkpoints.put_blob, partition)
        state.enable_eviction(put, self.checkpoints.get_blob, self.settings.stream.max_series, EVENT_CHANNEL)

    def _bucket_mask(self, number: int) -> NDArray[np.bool_]:
        """Return a mask (65536,) of the hash buckets whose principals are in a partition."""
        virtual = np.arange(hashing.VIRTUAL_PARTITIONS)
        return hashing.buckets_of_partitions(virtual % self.partition_count == number)

    # --- checks --------------------------------------------------------------------------------------------------------

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

    def _check_compatible(self, checkpoint: Checkpoint) -> None:
        """Raise FingerprintError unless the number of partitions is a multiple of the old one and the settings count alike."""
        before = int(checkpoint.metadata["partitions"])
        if self.partition_count % before:
            raise FingerprintError(
                f"{checkpoint.partition.topic} had {before} partitions when its checkpoints were taken and has "
                f"{self.partition_count} now; they can only grow to a multiple"
            )
        counted = checkpoint.metadata["state_settings"]
        for changed in changed_settings(counted, state_settings(self.settings))[:1]:
            raise FingerprintError(
                f"setting {changed.name} is {changed.now!r}, and the checkpoints in {self.settings.checkpoints.url} were "
                f"counted with {changed.was!r}: set it back, or name another folder in checkpoints.url to begin again"
            )

    def _start_position(self, checkpoint: Checkpoint, begin: int, end: int) -> int:
        """Return the position from which to read on; messages that Kafka no longer has are lost, and reported.

        `begin` is the first offset that the partition has, `end` the offset of its next message.
        """
        place, offset = checkpoint.partition.label, checkpoint.offset
        if begin <= offset <= end:
            self._warn_of_new_topic(checkpoint)
            return offset
        if offset > end:
            lost = (
                f"{place} ends at {end:,}, and its newest checkpoint at {offset:,}: the topic was deleted and made again, or "
                "its broker lost messages"
            )
        else:
            lost = (
                f"the messages {offset:,} to {begin - 1:,} of {place} are lost: Kafka no longer holds them, and the "
                "newest checkpoint ends before them"
            )
        if self.settings.kafka.auto_offset_reset == "none":
            raise FingerprintError(f'{lost}; kafka.auto_offset_reset = "earliest" goes on with what is there')
        log.warning(lost)
        return begin

    def _warn_of_new_topic(self, checkpoint: Checkpoint) -> None:
        """Warn if no offset is committed: the topic may be a new one of the same name, since Kafka deletes offsets with a topic.

        Offsets also expire: Kafka keeps those of a group without members for a week.
        """
        if (
            checkpoint.offset
            and self.consumer.committed([checkpoint.partition])[checkpoint.partition] is None
        ):
            log.warning(
                "Kafka has no committed offset of a partition with a checkpoint: if its topic was deleted and made again, "
                "what lies before the checkpoint is not read; remove the topic's checkpoints then",
                partition=checkpoint.partition.label,
                offset=checkpoint.offset,
            )
