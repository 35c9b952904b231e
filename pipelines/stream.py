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
from fingerprint.adapters.checkpoints import StoredSnapshots
from fingerprint.adapters.system import SystemClock
from fingerprint.analysis import threshold_preview
from fingerprint.compute import frames
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import Report, Tuned
from fingerprint.core.ports import Message, NotOwner, Partition, Rebalancing
from fingerprint.core.settings import Settings
from fingerprint.detection.batch import READ
from fingerprint.pipeline import Said
from fingerprint.sources import decode
from fingerprint.sources.cloudtrail import credential_chain
from fingerprint.sources.decode import Piece
from fingerprint.store.alerts import open_desk
from fingerprint.streaming import routing
from fingerprint.streaming.backpressure import Pausing
from fingerprint.streaming.bank_watcher import Banks
from fingerprint.streaming.bounded_read import NOTHING_OURS, UntilEnd
from fingerprint.streaming.checkpoints import Kept, Remembering
from fingerprint.streaming.dependency_status import Troubles
from fingerprint.streaming.lag_monitor import Watch
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.poison import REASON, PoisonGuard
from fingerprint.streaming.publisher import Outside, Voice
from fingerprint.streaming.routing import Arrival, Rows
from pipelines.runtime import backend as backends
from pipelines.runtime import first_bank, memory, operator, wiring
from pipelines.runtime.service import running

POLL_SECONDS = 0.5
REPORT_SECONDS = 15.0  # between two reports to the desk

log = logging.getLogger("fingerprint.stream")


def run(
    settings: Settings, folder: Path, desk_url: str | None = None, once: bool = False, wait: bool = False
) -> dict[str, Any]:
    """`fingerprint stream`, with the doors that the settings name. Without a bank: FingerprintError, or `wait` for the first."""
    metrics, started = StreamMetrics(REGISTRY), time.monotonic()
    if wait and not first_bank.came(folder, settings, metrics.waiting_for_bank):
        return figures_of(metrics, started)
    backend = backends.ready(settings.backend)
    with (
        closing(wiring.bank_watcher(folder, settings, backend)) as banks,
        wiring.consumer(settings.kafka, "stream") as consumer,
        wiring.producer(settings.kafka) as producer,
    ):
        desk = open_desk(desk_url or settings.desk.url, redact=settings.desk.redact)
        outside = Outside(consumer, producer, desk, StoredSnapshots(settings.state), SystemClock())
        stream = Stream(banks, outside, settings, metrics)
        with running(settings, stream.not_ready, stream.not_alive, "stream") as asked_to_end:
            backends.log_choice(backend)
            return stream.run(asked_to_end, once)


def figures_of(metrics: StreamMetrics, started: float) -> dict[str, Any]:
    """The figures of `stream --json`; `started` by the monotonic clock."""
    seconds = round(time.monotonic() - started, 3)
    return {**metrics.figures(), "seconds": seconds, "peak_memory_bytes": memory.peak()}


class Stream:
    """The program without its doors: turn after turn."""

    def __init__(self, banks: Banks, outside: Outside, settings: Settings, metrics: StreamMetrics) -> None:
        self.banks, self.settings, self.metrics = banks, settings, metrics
        self.backend = banks.backend
        metrics.runs_on(self.backend)
        metrics.judged_by([banks.served.bank.manifest])
        self.consumer, self.clock = outside.consumer, outside.clock
        self.troubles = Troubles()
        metrics.follow(self.troubles)
        self.watch = Watch(outside.consumer, settings.kafka, metrics.watch)
        self.pausing = Pausing(outside.consumer, metrics.pauses.inc)
        self.guard = PoisonGuard(outside.consumer, self._breathe)
        self.voice = Voice(outside, self.pausing, self.watch, self.troubles, settings, metrics)
        self.networks = network_table.load(settings.reading.networks) if settings.reading.networks else None
        self.remembering = Remembering(banks, outside.snapshots, outside.consumer, settings)
        self.kept: dict[Partition, Kept] = {}
        self.untold: set[Partition] = set()  # walked, and not all that was said is told yet
        self.raw_partitions = 0
        self.given = settings
        self.tuned: Tuned | None = None  # at the desk, over what was given
        self.asked = False  # the desk, what was chosen
        self.joined = False
        self.lag: int | None = None  # messages, when last looked at
        self.last_turn = self.last_commit = self.last_report = time.monotonic()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> dict[str, Any]:
        """Turn after turn until asked to end, or with `once` until where the topic ended at the start; the figures of
        `stream --json`.

        Raises FingerprintError when desk or broker stay away for too long, or state is lost; Undelivered.
        """
        started, self.voice.asked_to_end = time.monotonic(), asked_to_end
        self.consumer.subscribe([self.settings.kafka.events], assigned=self.assigned, revoked=self.revoked)
        kafka = self.settings.kafka
        end = UntilEnd(self.consumer, patience=kafka.session_seconds + kafka.answer_seconds)
        with self.guard.spared():
            while not asked_to_end():
                end.saw(self.turn(POLL_SECONDS))
                if once and end.reached():
                    break
        while once and self._look_for_silence():
            pass
        self.commit()
        if end.left_out:
            log.warning(NOTHING_OURS)
        figures = figures_of(self.metrics, started)
        log.info("done", extra={"fields": figures})
        return figures

    def turn(self, seconds: float) -> list[Message]:
        """One poll and all that follows from it; the messages that were dealt with."""
        polled = self.pausing.poll(seconds)
        self.watch.saw(polled)
        if polled:
            self._look_at_thresholds(first=True)
            with self.metrics.batch_seconds.time():
                for batch, deadly in self.guard.batches(polled):
                    self._pass_over(batch[0]) if deadly else self._walk(batch)
            self.pausing.resume()
        if self.guard.careful or time.monotonic() - self.last_commit > self.settings.state.snapshot_seconds:
            self.commit()
        self._look_around()
        return polled

    # --- partitions come and go ---------------------------------------------------------------------------------------

    def assigned(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Restore each; the positions to begin at."""
        self.joined = True
        self.guard.forget(partitions)
        self.kept |= {each: self.remembering.assigned(each) for each in partitions}
        positions = {each: self.kept[each].offset for each in partitions}
        places = {each.place: offset for each, offset in sorted(positions.items())}
        log.info("assigned", extra={"fields": {"positions": places}})
        return positions

    def revoked(self, partitions: Collection[Partition]) -> None:
        """Remember what can be remembered, and let go. What is not told yet is not remembered either: whoever has the
        partition next says it."""
        ours = [each for each in partitions if each in self.kept]
        self._commit([each for each in ours if each not in self.untold])
        for each in ours:
            del self.kept[each]
            self.metrics.forget(each)
        self.pausing.forget(partitions)
        self.guard.forget(partitions)
        log.info("revoked", extra={"fields": {"partitions": sorted(each.place for each in partitions)}})

    # --- one batch ----------------------------------------------------------------------------------------------------

    def _walk(self, polled: Sequence[Message]) -> None:
        """Flatten once; walk each partition; tell. What was polled for an owner that has gone since, and came back from a
        snapshot, comes again: it is passed over."""
        owners = dict(self.kept)
        for piece in decode.read(polled, self.settings, self.backend):
            now = int(self.clock.now().timestamp() * 1000)
            came = routing.arrivals(polled, piece, self.settings.stream.future_seconds, now)
            shares = routing.by_partition(polled, piece)
            ours = sorted(home for home in shares if home in owners and self.kept.get(home) is owners[home])
            self.untold.update(ours)
            self.voice.tell(
                [each for home in ours for each in self._walk_one(polled, piece, home, shares[home], came)],
                credential_chain.issued(piece.events),
            )
            self._count_feeds(ours)
            self.voice.bury(polled, piece, came.future)
            self.untold.difference_update(ours)
            self.metrics.messages.inc(piece.done - piece.begin)
            self.metrics.future.inc(int(came.future.sum()))

    def _breathe(self) -> None:
        """Messages are walked one by one, which takes long."""
        self.last_turn = time.monotonic()
        self.pausing.pause()

    def _pass_over(self, message: Message) -> None:
        """A message that kills its reader: a dead letter, unread."""
        if kept := self.kept.get(message.home):
            self.voice.bury_unread(message, REASON)
            kept.offset = message.offset + 1
            self.metrics.messages.inc()
            self._commit([message.home])  # or the next one that kills would bring this one back

    def _walk_one(
        self, polled: Sequence[Message], piece: Piece, home: Partition, rows: Rows, came: Arrival
    ) -> list[Said]:
        kept = self.kept[home]
        word = routing.said(polled, piece, rows, came)
        self._expect_sources(kept, word.names)
        kept.keeper.bound_clocks(came.now)
        low = kept.keeper.sources.come(word.names, word.codes, word.marks, word.arrived) // 1000
        wanted = rows.events[~came.future[rows.events]]
        events = self._carried(piece, wanted)
        self.metrics.strays.inc(self.remembering.strays(events, home))
        message = np.searchsorted(rows.messages, piece.source[wanted])
        kept.keeper.hear(events, low[message], routing.ways(word, home), word.codes[message])
        with self.metrics.counted(kept.keeper):
            said = kept.keeper.walk(events, low[message], came.at[wanted] // 1000)
        last = int(rows.messages[-1])
        kept.offset = polled[last].offset + (last < piece.done)
        return said

    def _carried(self, piece: Piece, wanted: NDArray[np.intp]) -> Frame:
        """The events with what measuring reads, whose network they came from, and their records, for alerts to show."""
        events = frames.rows(piece.events[READ], wanted).assign(raw=routing.records(piece, wanted))
        if self.networks:
            events["network"] = self.networks.names(events["source_address"])
        return events

    def _expect_sources(self, kept: Kept, names: list[str]) -> None:
        """Messages that `ingest` keyed come from as many sources as the raw topic has partitions."""
        raw = self.settings.kafka.raw
        if kept.keeper.sources.expected == 1 and any(name.startswith(f"{raw}/") for name in names):
            self.raw_partitions = self.raw_partitions or self.consumer.partitions(raw)
            kept.keeper.sources.expected = self.raw_partitions

    def _count_feeds(self, partitions: Collection[Partition]) -> None:
        for each in partitions:
            if each in self.kept:
                self.voice.count_feeds(each, self.kept[each].keeper)

    # --- remember, then commit ----------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Remember all partitions, and let Kafka forget. Another bank that is served takes over here."""
        self.last_commit = time.monotonic()
        self._commit(sorted(self.kept))
        self._look_at_banks()
        self._look_at_thresholds()
        self._report()

    def _look_at_banks(self) -> None:
        """Which banks judge, and which are needed no more."""
        for each in self.kept.values():
            each.keeper.road.let_go()
        judging = {each.keeper.bank.version: each.keeper.bank.manifest for each in self.kept.values()}
        self.banks.let_go(judging)
        self.metrics.judged_by([judging[version] for version in sorted(judging)])

    def _look_at_thresholds(self, first: bool = False) -> None:
        """What was chosen at the desk holds from the next batch on; what does not fit the settings is refused, once. The `first`
        time before anything is judged."""
        if first and self.asked:
            return
        tuned, self.asked = self.voice.tuned(), True
        if tuned == self.tuned:
            return
        self.tuned = tuned
        try:
            settings = threshold_preview.applied(self.given, tuned)
        except FingerprintError as error:
            log.warning("what was chosen at the desk is refused", extra={"fields": {"reason": str(error)}})
            return
        self.settings = self.remembering.settings = settings
        for each in self.kept.values():
            each.keeper.hold_to(settings)
        log.info(
            "held to what was chosen at the desk", extra={"fields": threshold_preview.said(settings, tuned)}
        )

    def _report(self) -> None:
        """How it goes, to the desk, now and then."""
        if time.monotonic() - self.last_report > REPORT_SECONDS:
            self.last_report = time.monotonic()
            name = self.settings.kafka.member or operator.process()
            figures = self.metrics.figures() | {"partitions": len(self.kept)}
            said = Report(
                "stream", name, self.clock.now(), self.lag, figures, self.not_ready() or self.banks.refused
            )
            self.voice.report(said)

    def _commit(self, partitions: Sequence[Partition]) -> None:
        due = [each for each in partitions if self._is_due(self.kept[each])]
        if due:
            self.voice.flush()
        for each in due:
            self._remember(each)
        positions = {each: self.kept[each].saved for each in partitions if self.kept[each].is_ahead()}
        if not positions:
            return
        try:
            self.consumer.commit(positions)
            self.guard.passed(positions)
            for each, position in positions.items():
                self.kept[each].committed = position
        except Rebalancing:
            pass  # what counts is the snapshot; the position is told with the next one
        except NotOwner:
            self.metrics.commits_refused.inc()
            log.warning("not committed: a partition has another owner")
        except FingerprintError as error:  # likewise; `watch` says when the broker does not answer
            log.warning("not committed", extra={"fields": {"reason": str(error)}})

    def _is_due(self, kept: Kept) -> bool:
        return kept.offset != kept.saved or self.remembering.may_change(kept)

    def _remember(self, partition: Partition) -> None:
        """Make the partition's state safe. Where it is not, Kafka must not forget: it is tried again."""
        kept = self.kept[partition]
        try:
            with self.metrics.snapshot_seconds.time():
                size = self.remembering.save(partition, kept)
        except NotOwner:
            log.warning("somebody else has remembered it", extra={"fields": {"partition": partition.place}})
            return
        except FingerprintError as error:
            self.metrics.snapshot_failures.inc()
            self.troubles.say("snapshots", str(error))
            return
        self.troubles.over("snapshots")
        self.metrics.snapshots.inc()
        self.metrics.snapshot_bytes.labels(*partition).set(size)

    # --- how it goes --------------------------------------------------------------------------------------------------

    def not_ready(self) -> str | None:
        if not self.joined:
            return "has not joined the group yet"
        return "; ".join(filter(None, [self.troubles.sentence(), self.watch.trouble()])) or None

    def not_alive(self) -> str | None:
        still = time.monotonic() - self.last_turn
        return f"stands still for {still:.0f} s" if still > self.settings.health.stalled_seconds else None

    def _look_around(self) -> None:
        self.last_turn = time.monotonic()
        self.banks.look()
        self.metrics.bank_refused.set(bool(self.banks.refused))
        self.metrics.losses_wrong.set(bool(self.banks.trust.broken))
        if self.joined and (lag := self.watch.look()) is not None:
            self.metrics.look(self.kept, lag)
            self.lag = sum(lag.values())
            self._pass_time([each for each in self.kept if lag.get(each) == 0 and not self.pausing.backlog])
            self._look_for_silence()

    def _pass_time(self, partitions: Collection[Partition]) -> None:
        """Where nothing is left to be read, intervals close by the clock."""
        now = int(self.clock.now().timestamp() * 1000)
        for each in sorted(partitions):
            with self.metrics.counted(self.kept[each].keeper):
                said = self.kept[each].keeper.pass_time(now)
            self.voice.tell(said)
            self._count_feeds([each])

    def _look_for_silence(self) -> bool:
        """Whether there was anything to look at; one worker looks, whoever has partition 0."""
        if Partition(self.settings.kafka.events, 0) in self.kept:
            return self.voice.tell_of_silence()
        self.metrics.silent_feeds.set(0)
        return False
