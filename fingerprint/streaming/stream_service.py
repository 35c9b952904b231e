"""The service behind `fingerprint stream`: read the events topic, score it, publish alerts and votes, save state, commit.

A commit has four steps, in this order. After a crash between any two of them, the same results are published again, with the same
ids:
    1. alerts and votes are in the alert store                                                 (publisher.py)
    2. alerts and votes are in their topics
    3. each partition's state is in a checkpoint, with the position it belongs to              (checkpoints.py)
    4. the positions are committed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from fingerprint.analysis import threshold_what_if
from fingerprint.compute import frames
from fingerprint.core.case import ProgramStatus, ThresholdOverride
from fingerprint.core.errors import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports.message_stream import Message, Partition, PartitionNotOwned, RebalanceInProgress
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import FRAME_COLUMNS
from fingerprint.pipeline import StepResult
from fingerprint.sources import decode
from fingerprint.sources.active import SOURCE
from fingerprint.sources.decode import DecodedMessages
from fingerprint.sources.networks import NetworkTable
from fingerprint.state.coded_events import CodedEvents, code_events
from fingerprint.streaming import routing
from fingerprint.streaming.backpressure import DependencyStatus
from fingerprint.streaming.bank_watcher import BankWatcher
from fingerprint.streaming.checkpoints import CheckpointManager, OwnedPartition
from fingerprint.streaming.clock_jumps import ClockJumps
from fingerprint.streaming.event_messages import PartitionCount
from fingerprint.streaming.metrics import StreamMetrics, counter_value
from fingerprint.streaming.poison import POISON_REASON
from fingerprint.streaming.publisher import AlertPublisher, StreamAdapters
from fingerprint.streaming.routing import ArrivalTimes, PartitionRows
from fingerprint.streaming.service import ConsumerService

HEARTBEAT_SECONDS = 15.0  # between two heartbeats in the alert store
# Misrouted events, and their share of all events: with more of both, the topic's keys are not those of `ingest`.
MISROUTED_EVENTS, MISROUTED_SHARE = 100, 0.05

log = get_logger("fingerprint.stream")


class StreamService(ConsumerService):
    """Polls, processes and commits in a loop. Used by one thread; `not_ready` and `not_alive` by any thread."""

    log = log

    def __init__(
        self,
        banks: BankWatcher,
        adapters: StreamAdapters,
        settings: Settings,
        metrics: StreamMetrics,
        name: str = "",
        networks: NetworkTable | None = None,
    ) -> None:
        """Connect the parts; `name` names this process in heartbeats, `networks` is the table of address ranges, if any."""
        super().__init__(adapters.consumer, settings.kafka.events_topic, settings.kafka, metrics)
        self.banks, self.settings, self.metrics = banks, settings, metrics
        self.backend = banks.backend
        metrics.set_backend(self.backend)
        metrics.set_active_banks([banks.served.bank.manifest])
        self.clock, self.clock_jumps = adapters.clock, ClockJumps(adapters.clock)
        self.dependency_status = DependencyStatus()
        metrics.track_dependencies(self.dependency_status)
        self.publisher = AlertPublisher(
            adapters, self.pausable_consumer, self.lag_monitor, self.dependency_status, settings, metrics
        )
        self.name, self.networks = name, networks
        self.checkpoint_manager = CheckpointManager(banks, adapters.checkpoints, adapters.consumer, settings)
        self.owned: dict[Partition, OwnedPartition] = {}
        self.unpublished: set[Partition] = set()  # processed, and not all results are published yet
        self.raw_partitions = 0
        self.events_partitions = PartitionCount(adapters.producer, settings.kafka.events_topic)
        self.configured_settings = settings
        # Of the alert store, over the configured settings.
        self.threshold_override: ThresholdOverride | None = None
        self.threshold_override_read = False
        self.warned_of_foreign_keys = False
        self.lag: int | None = None  # messages, when it was last read
        self.last_commit = self.last_heartbeat = time.monotonic()

    def run(self, stop_requested: Callable[[], bool], once: bool = False) -> dict[str, Any]:
        """Run until a stop is requested, or with `once` up to the end that the topic had at the start; return the figures.

        Raise FingerprintError if the alert store or the broker is unavailable for too long, or if state is lost; also
        DeliveryFailed.
        """
        self.publisher.stop_requested = stop_requested
        return super().run(stop_requested, once)

    def run_once(self, seconds: float) -> list[Message]:
        """Poll once and process the messages; return them."""
        polled = self.pausable_consumer.poll(seconds)
        self.lag_monitor.observe(polled)
        if polled:
            self._apply_threshold_override(first=True)
            with self.metrics.batch_seconds.time():
                for batch, is_poison in self.poison_guard.batches(polled):
                    self._skip_poison_message(batch[0]) if is_poison else self._process_messages(batch)
            self.pausable_consumer.resume()
        if (
            self.poison_guard.is_isolating
            or time.monotonic() - self.last_commit > self.settings.checkpoints.interval_seconds
        ):
            self.commit()
        self._update_status()
        return polled

    # --- partitions come and go ---------------------------------------------------------------------------------------

    def assigned(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Restore the partitions, and return the positions to begin at."""
        self.joined = True
        self.poison_guard.forget(partitions)
        self.owned |= {each: self.checkpoint_manager.restore(each) for each in partitions}
        positions = {each: self.owned[each].offset for each in partitions}
        places = {each.label: offset for each, offset in sorted(positions.items())}
        log.info("assigned", positions=places)
        return positions

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Save and commit the partitions, and drop them.

        A partition with unpublished results is not saved, so that its next owner publishes them.
        """
        owned = [each for each in partitions if each in self.owned]
        self._commit([each for each in owned if each not in self.unpublished])
        for each in owned:
            del self.owned[each]
            self.metrics.remove_partition(each)
        self.pausable_consumer.drop_backlog(partitions)
        self.poison_guard.forget(partitions)
        log.info("revoked", partitions=sorted(each.label for each in partitions))

    # --- one batch ----------------------------------------------------------------------------------------------------

    def _process_messages(self, polled: Sequence[Message]) -> None:
        """Decode the messages once, process each partition, publish the results.

        A partition that was revoked since the poll and restored from a checkpoint is skipped: its messages are read again.
        """
        owners = dict(self.owned)
        for decoded in decode.decode_messages(polled, self.settings, self.backend, column_table=True):
            now = int(self.clock.now().timestamp() * 1000)
            arrival = routing.arrival_times(polled, decoded, now)
            shares = routing.group_by_partition(polled, decoded)
            events = self._code_events(decoded)
            ours = sorted(each for each in shares if each in owners and self.owned.get(each) is owners[each])
            self.unpublished.update(ours)
            self.publisher.publish(
                [
                    result
                    for each in ours
                    for result in self._process_partition(
                        polled, decoded, events, each, shares[each], arrival
                    )
                ],
                SOURCE.find_issued_credentials(decoded.events),
            )
            self._count_feeds(ours)
            self.publisher.dead_letter(polled, decoded, arrival.is_future_dated)
            self.unpublished.difference_update(ours)
            self.metrics.messages.inc(decoded.complete_until - decoded.begin)
            self.metrics.future.inc(int(arrival.is_future_dated.sum()))

    def _skip_poison_message(self, message: Message) -> None:
        """Send a message that kills its reader to the dead letters, unread, and commit past it."""
        partition = message.source_partition
        if owned := self.owned.get(partition):
            self.publisher.dead_letter_unread(message, POISON_REASON)
            self.metrics.messages.inc()
            if self.owned.get(partition) is not owned:
                return  # revoked while the letter waited for room: the next owner sends it once more
            owned.offset = message.offset + 1
            self._commit([partition])  # else the next poison message would bring this one back

    def _process_partition(
        self,
        polled: Sequence[Message],
        decoded: DecodedMessages,
        coded: CodedEvents,
        partition: Partition,
        rows: PartitionRows,
        arrival: ArrivalTimes,
    ) -> list[StepResult]:
        """Process one partition's rows of a decoded batch, with the events in `coded`, and move its position past them."""
        owned = self.owned[partition]
        marks = routing.read_watermarks(polled, decoded, rows, arrival)
        self._expect_sources(owned, marks.sources)
        owned.processor.clamp_clocks(arrival.now)
        low = (
            owned.processor.watermarks.advance(
                marks.sources, marks.codes, marks.watermarks, marks.arrival_times
            )
            // 1000
        )
        believed = ~arrival.is_future_dated[rows.events]
        positions = rows.events[believed]
        events = coded.take(positions)
        self.metrics.misrouted.inc(self.checkpoint_manager.misrouted_events(events.principal, partition))
        mark = marks.of_event[believed]
        owned.processor.count_feeds(
            events.frame, low[mark], routing.feed_of_source(marks, partition), marks.codes[mark]
        )
        with self.metrics.counting(owned.processor):
            results = owned.processor.process(events, low[mark], arrival.at[positions] // 1000)
        last = int(rows.messages[-1])
        owned.offset = polled[last].offset + (last < decoded.complete_until)
        return results

    def _code_events(self, decoded: DecodedMessages) -> CodedEvents:
        """Return the events of decoded messages, of all partitions, with the columns that scoring reads and alerts show."""
        events = frames.to_column_table(frames.select_columns(decoded.events, FRAME_COLUMNS))
        columns: dict[str, Any] = {"raw": routing.raw_records(decoded)}
        if self.networks:
            columns["network"] = self.networks.lookup(frames.column_of(events, "source_address"))
        return code_events(frames.with_columns(events, columns))

    def _expect_sources(self, owned: OwnedPartition, names: list[str]) -> None:
        """Expect as many sources as the raw topic has partitions, if messages come from `ingest`."""
        raw = self.settings.kafka.raw_topic
        if owned.processor.watermarks.expected == 1 and any(name.startswith(f"{raw}/") for name in names):
            self.raw_partitions = self.raw_partitions or self.consumer.partition_count(raw)
            owned.processor.watermarks.expected = self.raw_partitions

    def _count_feeds(self, partitions: Collection[Partition]) -> None:
        for each in partitions:
            if each in self.owned:
                self.publisher.count_feeds(each, self.owned[each].processor)

    def _finish(self, once: bool) -> None:
        """With `once`, look for the remaining feed gaps; then commit."""
        while once and self._check_feeds():
            pass
        self.commit()

    # --- save, then commit --------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Save all partitions and commit their positions. A newly served bank takes over here."""
        self.last_commit = time.monotonic()
        self._commit(sorted(self.owned))
        self._release_unused_banks()
        self._apply_threshold_override()
        self._warn_of_foreign_keys()

    def _release_unused_banks(self) -> None:
        """Close the banks that no partition needs any more."""
        for each in self.owned.values():
            each.processor.pipeline.release_unused_banks()
        active = {each.processor.bank.version: each.processor.bank.manifest for each in self.owned.values()}
        self.banks.release(active)
        self.metrics.set_active_banks([active[version] for version in sorted(active)])

    def _apply_threshold_override(self, first: bool = False) -> None:
        """Apply the threshold override of the alert store from the next batch on; log one that does not fit once, and ignore it.

        With `first`, read it only if it was never read, before the first batch is scored.
        """
        if first and self.threshold_override_read:
            return
        override, self.threshold_override_read = self.publisher.threshold_override(), True
        if override == self.threshold_override:
            return
        self.threshold_override = override
        try:
            settings = threshold_what_if.apply_override(self.configured_settings, override)
        except FingerprintError as error:
            log.warning("threshold override refused", reason=str(error))
            return
        self.settings = self.checkpoint_manager.settings = settings
        for each in self.owned.values():
            each.processor.apply_settings(settings)
        log.info("threshold override applied", **threshold_what_if.describe_threshold(settings, override))

    def _warn_of_foreign_keys(self) -> None:
        """Warn once if many messages of the events topic are not keyed as `ingest` keys them."""
        misrouted, events = (counter_value(each) for each in (self.metrics.misrouted, self.metrics.events))
        if not self.warned_of_foreign_keys and misrouted > max(MISROUTED_EVENTS, MISROUTED_SHARE * events):
            self.warned_of_foreign_keys = True
            log.warning(
                "events lie in partitions of other principals, which are counted in pieces: `fingerprint ingest` must write the "
                "events topic; name an ordinary topic in kafka.raw_topic",
                misrouted=misrouted,
                events=events,
            )

    def _save_heartbeat(self) -> None:
        """Write a heartbeat to the alert store, every `HEARTBEAT_SECONDS`."""
        if time.monotonic() - self.last_heartbeat > HEARTBEAT_SECONDS:
            self.last_heartbeat = time.monotonic()
            name = self.settings.kafka.group_instance_id or self.name
            figures = self.metrics.figures() | {"partitions": len(self.owned)}
            heartbeat = ProgramStatus(
                "stream", name, self.clock.now(), self.lag, figures, self.not_ready() or self.banks.refusal
            )
            self.publisher.save_heartbeat(heartbeat)

    def _commit(self, partitions: Sequence[Partition]) -> None:
        """Save changed partitions, then commit the saved positions. A commit that fails is repeated with the next one."""
        due = [each for each in partitions if self._needs_checkpoint(self.owned[each])]
        if due:
            self.publisher.flush()
        for each in due:
            self._checkpoint(each)
        positions = {
            each: self.owned[each].checkpointed for each in partitions if self.owned[each].needs_commit()
        }
        if not positions:
            return
        try:
            self.consumer.commit(positions)
            self.poison_guard.committed(positions)
            for each, position in positions.items():
                self.owned[each].committed = position
        except RebalanceInProgress:
            pass  # the checkpoint is what counts; the position is committed with the next one
        except PartitionNotOwned:
            self.metrics.commits_refused.inc()
            log.warning("commit refused: a partition has another owner")
        except FingerprintError as error:  # likewise; the lag monitor reports a broker that does not answer
            log.warning("commit failed", reason=str(error))

    def _needs_checkpoint(self, owned: OwnedPartition) -> bool:
        return owned.offset != owned.checkpointed or self.checkpoint_manager.can_swap_bank(owned)

    def _checkpoint(self, partition: Partition) -> None:
        """Save the partition's state. If that fails, nothing is committed, and the next commit tries again."""
        try:
            with self.metrics.checkpoint_seconds.time():
                size = self.checkpoint_manager.save(partition, self.owned[partition])
        except PartitionNotOwned:
            log.warning("checkpoint refused: the partition has another owner", partition=partition.label)
            return
        except FingerprintError as error:
            self.metrics.checkpoint_failures.inc()
            self.dependency_status.fail("checkpoints", str(error))
            return
        self.dependency_status.recover("checkpoints")
        self.metrics.checkpoints.inc()
        self.metrics.checkpoint_bytes.labels(*partition).set(size)

    # --- status -------------------------------------------------------------------------------------------------------

    def not_ready(self) -> str | None:
        """Return why the program is not ready, None while it is."""
        if not self.joined:
            return "has not joined the group yet"
        return "; ".join(filter(None, [self.dependency_status.summary(), self.lag_monitor.problem()])) or None

    def _update_status(self) -> None:
        self.banks.poll()
        self.metrics.bank_refused.set(bool(self.banks.refusal))
        self.metrics.inference_wrong.set(bool(self.banks.trust.failure))
        if self.joined and (lag := self.lag_monitor.poll()) is not None:
            self.metrics.update_partitions(self.owned, lag, self.lag_monitor.lag_age)
            self.lag = sum(lag.values())
            self._close_by_clock(
                [each for each in self.owned if lag.get(each) == 0 and not self.pausable_consumer.backlog]
            )
        self._save_heartbeat()

    def _close_by_clock(self, read_to_end: Collection[Partition]) -> None:
        """Close by the clock the intervals of partitions that are read to their end, and check the feeds."""
        now = self.clock_jumps.believed_time()
        if now is None:
            self.dependency_status.fail("clock", self.clock_jumps.describe())
            return
        self.dependency_status.recover("clock")
        self._advance_clocks(read_to_end, int(now.timestamp() * 1000))
        self._check_feeds()

    def _advance_clocks(self, partitions: Collection[Partition], now: int) -> None:
        """Close intervals of partitions by the clock, `now` in ms.

        Partitions may be revoked while publishing waits: the next owner then closes the intervals.
        """
        owners = {each: self.owned[each] for each in sorted(partitions)}
        for each, owned in owners.items():
            if self.owned.get(each) is not owned:
                continue
            self.unpublished.add(each)
            with self.metrics.counting(owned.processor):
                results = owned.processor.advance_clock(now)
            self.publisher.publish(results)
            self._count_feeds([each])
            self.unpublished.discard(each)

    def _check_feeds(self) -> bool:
        """Look for feed gaps, and return whether there was anything to check; the owner of partition 0 does it for all."""
        if Partition(self.settings.kafka.events_topic, 0) in self.owned:
            return self.publisher.publish_feed_gaps(self.events_partitions())
        self.metrics.silent_feeds.set(0)
        return False
