"""Events topic -> alerts and votes: poll, flatten, score, tell, remember, commit. One page, read downhill.

A commit has four steps, in this order; after a crash between any two of them the same is said again, under the same ids:
    1. alerts and votes are on the desk                                                        (voice.py)
    2. alerts and votes are in their topics
    3. each partition's state is in a snapshot, with the position it stands at                 (remembering.py)
    4. the positions are committed
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import REGISTRY

from fingerprint.adapters import network_table
from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.adapters.system import SystemClock
from fingerprint.analysis import threshold_preview
from fingerprint.compute import frames
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import ProgramStatus, ThresholdOverride
from fingerprint.core.ports import Message, Partition, PartitionNotOwned, RebalanceInProgress
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import FRAME_COLUMNS
from fingerprint.pipeline import StepResult
from fingerprint.sources import decode
from fingerprint.sources.cloudtrail import credential_chain
from fingerprint.sources.decode import DecodedMessages
from fingerprint.store.alerts import open_alert_store
from fingerprint.streaming import routing
from fingerprint.streaming.backpressure import PausableConsumer
from fingerprint.streaming.bank_watcher import BankWatcher
from fingerprint.streaming.bounded_read import NO_PARTITION_ASSIGNED, EndOffsets
from fingerprint.streaming.checkpoints import CheckpointManager, OwnedPartition
from fingerprint.streaming.dependency_status import DependencyStatus
from fingerprint.streaming.lag_monitor import LagMonitor
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.poison import POISON_REASON, PoisonGuard
from fingerprint.streaming.publisher import AlertPublisher, StreamAdapters
from fingerprint.streaming.routing import ArrivalTimes, PartitionRows
from pipelines.runtime import backend as backends
from pipelines.runtime import first_bank, host, wiring
from pipelines.runtime.service import STALLED_SECONDS, running_service

POLL_SECONDS = 0.5
REPORT_SECONDS = 15.0  # between two reports to the desk

log = logging.getLogger("fingerprint.stream")


def run_stream(
    settings: Settings,
    folder: Path,
    database_url: str | None = None,
    once: bool = False,
    wait_for_bank: bool = False,
) -> dict[str, Any]:
    """`fingerprint stream`, with the doors that the settings name. Without a bank: FingerprintError, or `wait` for the first."""
    metrics, started = StreamMetrics(REGISTRY), time.monotonic()
    if wait_for_bank and not first_bank.wait_for_first_bank(folder, settings, metrics.waiting_for_bank):
        return stream_figures(metrics, started)
    backend = backends.load_backend(settings.backend)
    with (
        closing(wiring.bank_watcher(folder, settings, backend)) as banks,
        wiring.open_consumer(settings.kafka, "stream") as consumer,
        wiring.producing(settings.kafka) as producer,
    ):
        desk = open_alert_store(
            database_url or settings.database.url, redact=settings.database.redacted_fields
        )
        outside = StreamAdapters(
            consumer, producer, desk, FileCheckpointStore(settings.checkpoints), SystemClock()
        )
        stream = StreamService(banks, outside, settings, metrics)
        with running_service(settings, stream.not_ready, stream.not_alive, "stream") as asked_to_end:
            backends.log_backend(backend)
            return stream.run(asked_to_end, once)


def stream_figures(metrics: StreamMetrics, started: float) -> dict[str, Any]:
    """The figures of `stream --json`; `started` by the monotonic clock."""
    seconds = round(time.monotonic() - started, 3)
    return {**metrics.figures(), "seconds": seconds, "peak_memory_bytes": host.peak_bytes()}


class StreamService:
    """The program without its doors: turn after turn."""

    def __init__(
        self, banks: BankWatcher, adapters: StreamAdapters, settings: Settings, metrics: StreamMetrics
    ) -> None:
        self.banks, self.settings, self.metrics = banks, settings, metrics
        self.backend = banks.backend
        metrics.set_backend(self.backend)
        metrics.set_active_banks([banks.served.bank.manifest])
        self.consumer, self.clock = adapters.consumer, adapters.clock
        self.dependency_status = DependencyStatus()
        metrics.track_dependencies(self.dependency_status)
        self.lag_monitor = LagMonitor(adapters.consumer, settings.kafka, metrics.lag_monitor)
        self.pausable_consumer = PausableConsumer(adapters.consumer, metrics.pauses.inc)
        self.poison_guard = PoisonGuard(adapters.consumer, self._pause_for_single_message)
        self.publisher = AlertPublisher(
            adapters, self.pausable_consumer, self.lag_monitor, self.dependency_status, settings, metrics
        )
        self.networks = (
            network_table.load_networks(settings.reading.networks_file)
            if settings.reading.networks_file
            else None
        )
        self.checkpoint_manager = CheckpointManager(banks, adapters.checkpoints, adapters.consumer, settings)
        self.owned: dict[Partition, OwnedPartition] = {}
        self.unpublished: set[Partition] = set()  # walked, and not all that was said is told yet
        self.raw_partitions = 0
        self.configured_settings = settings
        self.threshold_override: ThresholdOverride | None = None  # at the desk, over what was given
        self.threshold_override_read = False  # the desk, what was chosen
        self.joined = False
        self.lag: int | None = None  # messages, when last looked at
        self.last_turn = self.last_commit = self.last_report = time.monotonic()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> dict[str, Any]:
        """Turn after turn until asked to end, or with `once` until where the topic ended at the start; the figures of
        `stream --json`.

        Raises FingerprintError when desk or broker stay away for too long, or state is lost; Undelivered.
        """
        started, self.publisher.asked_to_end = time.monotonic(), asked_to_end
        self.consumer.subscribe(
            [self.settings.kafka.events_topic], on_assigned=self.assigned, on_revoked=self.revoked
        )
        kafka = self.settings.kafka
        end = EndOffsets(
            self.consumer,
            assignment_timeout_seconds=(kafka.session_timeout_ms + kafka.request_timeout_ms) / 1000,
        )
        with self.poison_guard.clearing_marks_on_error():
            while not asked_to_end():
                end.observe(self.run_once(POLL_SECONDS))
                if once and end.is_reached():
                    break
        while once and self._check_feeds():
            pass
        self.commit()
        if end.unassigned:
            log.warning(NO_PARTITION_ASSIGNED)
        figures = stream_figures(self.metrics, started)
        log.info("done", extra={"fields": figures})
        return figures

    def run_once(self, seconds: float) -> list[Message]:
        """One poll and all that follows from it; the messages that were dealt with."""
        polled = self.pausable_consumer.poll(seconds)
        self.lag_monitor.observe(polled)
        if polled:
            self._apply_threshold_override(first=True)
            with self.metrics.batch_seconds.time():
                for batch, deadly in self.poison_guard.batches(polled):
                    self._skip_poison_message(batch[0]) if deadly else self._process_messages(batch)
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
        """Restore each; the positions to begin at."""
        self.joined = True
        self.poison_guard.forget(partitions)
        self.owned |= {each: self.checkpoint_manager.restore(each) for each in partitions}
        positions = {each: self.owned[each].offset for each in partitions}
        places = {each.label: offset for each, offset in sorted(positions.items())}
        log.info("assigned", extra={"fields": {"positions": places}})
        return positions

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Remember what can be remembered, and let go. What is not told yet is not remembered either: whoever has the
        partition next says it."""
        ours = [each for each in partitions if each in self.owned]
        self._commit([each for each in ours if each not in self.unpublished])
        for each in ours:
            del self.owned[each]
            self.metrics.remove_partition(each)
        self.pausable_consumer.drop_backlog(partitions)
        self.poison_guard.forget(partitions)
        log.info("revoked", extra={"fields": {"partitions": sorted(each.label for each in partitions)}})

    # --- one batch ----------------------------------------------------------------------------------------------------

    def _process_messages(self, polled: Sequence[Message]) -> None:
        """Flatten once; walk each partition; tell. What was polled for an owner that has gone since, and came back from a
        snapshot, comes again: it is passed over."""
        owners = dict(self.owned)
        for piece in decode.decode_messages(polled, self.settings, self.backend):
            now = int(self.clock.now().timestamp() * 1000)
            came = routing.arrival_times(polled, piece, self.settings.reading.max_future_seconds, now)
            shares = routing.group_by_partition(polled, piece)
            ours = sorted(home for home in shares if home in owners and self.owned.get(home) is owners[home])
            self.unpublished.update(ours)
            self.publisher.publish(
                [
                    each
                    for home in ours
                    for each in self._process_partition(polled, piece, home, shares[home], came)
                ],
                credential_chain.find_issued_credentials(piece.events),
            )
            self._count_feeds(ours)
            self.publisher.dead_letter(polled, piece, came.is_future_dated)
            self.unpublished.difference_update(ours)
            self.metrics.messages.inc(piece.complete_until - piece.begin)
            self.metrics.future.inc(int(came.is_future_dated.sum()))

    def _pause_for_single_message(self) -> None:
        """Messages are walked one by one, which takes long."""
        self.last_turn = time.monotonic()
        self.pausable_consumer.pause()

    def _skip_poison_message(self, message: Message) -> None:
        """A message that kills its reader: a dead letter, unread."""
        if kept := self.owned.get(message.source_partition):
            self.publisher.dead_letter_unread(message, POISON_REASON)
            kept.offset = message.offset + 1
            self.metrics.messages.inc()
            self._commit([message.source_partition])  # or the next one that kills would bring this one back

    def _process_partition(
        self,
        polled: Sequence[Message],
        piece: DecodedMessages,
        partition: Partition,
        rows: PartitionRows,
        arrival: ArrivalTimes,
    ) -> list[StepResult]:
        kept = self.owned[partition]
        word = routing.read_watermarks(polled, piece, rows, arrival)
        self._expect_sources(kept, word.sources)
        kept.processor.clamp_clocks(arrival.now)
        low = (
            kept.processor.watermarks.advance(word.sources, word.codes, word.watermarks, word.arrival_times)
            // 1000
        )
        wanted = rows.events[~arrival.is_future_dated[rows.events]]
        events = self._select_events(piece, wanted)
        self.metrics.strays.inc(self.checkpoint_manager.misrouted_events(events, partition))
        message = np.searchsorted(rows.messages, piece.source[wanted])
        kept.processor.count_feeds(
            events, low[message], routing.feed_of_source(word, partition), word.codes[message]
        )
        with self.metrics.counting(kept.processor):
            said = kept.processor.process(events, low[message], arrival.at[wanted] // 1000)
        last = int(rows.messages[-1])
        kept.offset = polled[last].offset + (last < piece.complete_until)
        return said

    def _select_events(self, piece: DecodedMessages, wanted: NDArray[np.intp]) -> Frame:
        """The events with what measuring reads, whose network they came from, and their records, for alerts to show."""
        events = frames.select_rows(piece.events[FRAME_COLUMNS], wanted).assign(
            raw=routing.raw_records(piece, wanted)
        )
        if self.networks:
            events["network"] = self.networks.lookup(events["source_address"])
        return events

    def _expect_sources(self, owned: OwnedPartition, names: list[str]) -> None:
        """Messages that `ingest` keyed come from as many sources as the raw topic has partitions."""
        raw = self.settings.kafka.raw_topic
        if owned.processor.watermarks.expected == 1 and any(name.startswith(f"{raw}/") for name in names):
            self.raw_partitions = self.raw_partitions or self.consumer.partition_count(raw)
            owned.processor.watermarks.expected = self.raw_partitions

    def _count_feeds(self, partitions: Collection[Partition]) -> None:
        for each in partitions:
            if each in self.owned:
                self.publisher.count_feeds(each, self.owned[each].processor)

    # --- remember, then commit ----------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Remember all partitions, and let Kafka forget. Another bank that is served takes over here."""
        self.last_commit = time.monotonic()
        self._commit(sorted(self.owned))
        self._release_unused_banks()
        self._apply_threshold_override()
        self._save_heartbeat()

    def _release_unused_banks(self) -> None:
        """Which banks judge, and which are needed no more."""
        for each in self.owned.values():
            each.processor.pipeline.release_unused_banks()
        judging = {each.processor.bank.version: each.processor.bank.manifest for each in self.owned.values()}
        self.banks.release(judging)
        self.metrics.set_active_banks([judging[version] for version in sorted(judging)])

    def _apply_threshold_override(self, first: bool = False) -> None:
        """What was chosen at the desk holds from the next batch on; what does not fit the settings is refused, once. The `first`
        time before anything is judged."""
        if first and self.threshold_override_read:
            return
        tuned, self.threshold_override_read = self.publisher.threshold_override(), True
        if tuned == self.threshold_override:
            return
        self.threshold_override = tuned
        try:
            settings = threshold_preview.apply_override(self.configured_settings, tuned)
        except FingerprintError as error:
            log.warning("what was chosen at the desk is refused", extra={"fields": {"reason": str(error)}})
            return
        self.settings = self.checkpoint_manager.settings = settings
        for each in self.owned.values():
            each.processor.apply_settings(settings)
        log.info(
            "held to what was chosen at the desk",
            extra={"fields": threshold_preview.describe_threshold(settings, tuned)},
        )

    def _save_heartbeat(self) -> None:
        """How it goes, to the desk, now and then."""
        if time.monotonic() - self.last_report > REPORT_SECONDS:
            self.last_report = time.monotonic()
            name = self.settings.kafka.group_instance_id or host.process_name()
            figures = self.metrics.figures() | {"partitions": len(self.owned)}
            said = ProgramStatus(
                "stream", name, self.clock.now(), self.lag, figures, self.not_ready() or self.banks.refusal
            )
            self.publisher.save_heartbeat(said)

    def _commit(self, partitions: Sequence[Partition]) -> None:
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
            pass  # what counts is the snapshot; the position is told with the next one
        except PartitionNotOwned:
            self.metrics.commits_refused.inc()
            log.warning("not committed: a partition has another owner")
        except FingerprintError as error:  # likewise; `watch` says when the broker does not answer
            log.warning("not committed", extra={"fields": {"reason": str(error)}})

    def _needs_checkpoint(self, owned: OwnedPartition) -> bool:
        return owned.offset != owned.checkpointed or self.checkpoint_manager.can_swap_bank(owned)

    def _checkpoint(self, partition: Partition) -> None:
        """Make the partition's state safe. Where it is not, Kafka must not forget: it is tried again."""
        kept = self.owned[partition]
        try:
            with self.metrics.snapshot_seconds.time():
                size = self.checkpoint_manager.save(partition, kept)
        except PartitionNotOwned:
            log.warning("somebody else has remembered it", extra={"fields": {"partition": partition.label}})
            return
        except FingerprintError as error:
            self.metrics.snapshot_failures.inc()
            self.dependency_status.fail("checkpoints", str(error))
            return
        self.dependency_status.recover("checkpoints")
        self.metrics.snapshots.inc()
        self.metrics.snapshot_bytes.labels(*partition).set(size)

    # --- how it goes --------------------------------------------------------------------------------------------------

    def not_ready(self) -> str | None:
        if not self.joined:
            return "has not joined the group yet"
        return "; ".join(filter(None, [self.dependency_status.summary(), self.lag_monitor.problem()])) or None

    def not_alive(self) -> str | None:
        still = time.monotonic() - self.last_turn
        return f"stands still for {still:.0f} s" if still > STALLED_SECONDS else None

    def _update_status(self) -> None:
        self.last_turn = time.monotonic()
        self.banks.poll()
        self.metrics.bank_refused.set(bool(self.banks.refusal))
        self.metrics.losses_wrong.set(bool(self.banks.trust.failure))
        if self.joined and (lag := self.lag_monitor.poll()) is not None:
            self.metrics.update_partitions(self.owned, lag)
            self.lag = sum(lag.values())
            self._advance_clocks(
                [each for each in self.owned if lag.get(each) == 0 and not self.pausable_consumer.backlog]
            )
            self._check_feeds()

    def _advance_clocks(self, partitions: Collection[Partition]) -> None:
        """Where nothing is left to be read, intervals close by the clock."""
        now = int(self.clock.now().timestamp() * 1000)
        for each in sorted(partitions):
            with self.metrics.counting(self.owned[each].processor):
                said = self.owned[each].processor.advance_clock(now)
            self.publisher.publish(said)
            self._count_feeds([each])

    def _check_feeds(self) -> bool:
        """Whether there was anything to look at; one worker looks, whoever has partition 0."""
        if Partition(self.settings.kafka.events_topic, 0) in self.owned:
            return self.publisher.publish_feed_gaps()
        self.metrics.silent_feeds.set(0)
        return False
