"""Events topic -> alerts and votes: poll, flatten, score, tell, remember, commit. One page, read downhill.

What each account, region and source was heard of goes to the desk as intervals close; whoever has partition 0 looks which of
them fell silent (`listening`).

A commit has four steps, in this order; after a crash between any two of them the same is said again, under the same ids:
    1. alerts and votes are on the desk
    2. alerts and votes are in their topics
    3. each partition's state is in a snapshot, with the position it stands at
    4. the positions are committed
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from prometheus_client import REGISTRY

from fingerprint import arriving, bank, messages, telling
from fingerprint.arriving import Rows
from fingerprint.bank import Bank
from fingerprint.domain import FingerprintError, Reject
from fingerprint.edges.clock import SystemClock
from fingerprint.edges.desk import open_desk
from fingerprint.edges.snapshots import StoredSnapshots
from fingerprint.ingesting import Outgoing, dead_letters
from fingerprint.measured import READ
from fingerprint.messages import Piece
from fingerprint.ports import (
    Clock,
    Consumer,
    Desk,
    Message,
    NotOwner,
    Partition,
    Producer,
    Rebalancing,
    Snapshots,
)
from fingerprint.road import Said
from fingerprint.scoring import no_votes
from fingerprint.settings import Settings
from pipelines import doors, memory
from pipelines.listening import Listening
from pipelines.remembering import Kept, Remembering
from pipelines.running import running
from pipelines.sending import Sender
from pipelines.stream_metrics import StreamMetrics
from pipelines.until_end import UntilEnd

POLL_SECONDS = 0.5
LOOK_SECONDS = 5.0  # between two looks at the lag
DESK_SECONDS = 0.5  # between two tries to reach the desk

log = logging.getLogger("fingerprint.stream")

T = TypeVar("T")


def run(settings: Settings, folder: Path, desk_url: str | None = None, once: bool = False) -> dict[str, Any]:
    """`fingerprint stream`, with the doors that the settings name."""
    opened = bank.open_bank(folder)
    bank.check_settings(opened, settings)
    desk = open_desk(desk_url or settings.desk.url)
    with doors.consumer(settings.kafka, "stream") as consumer, doors.producer(settings.kafka) as producer:
        outside = Outside(consumer, producer, desk, StoredSnapshots(settings.state), SystemClock())
        stream = Stream(opened, outside, settings, StreamMetrics(REGISTRY))
        with running(settings, stream.not_ready, stream.not_alive, "stream") as asked_to_end:
            return stream.run(asked_to_end, once)


class Outside:
    """The doors of the program."""

    def __init__(
        self, consumer: Consumer, producer: Producer, desk: Desk, snapshots: Snapshots, clock: Clock
    ) -> None:
        self.consumer, self.producer, self.desk = consumer, producer, desk
        self.snapshots, self.clock = snapshots, clock


class Stream:
    """The program without its doors: turn after turn."""

    def __init__(self, opened: Bank, outside: Outside, settings: Settings, metrics: StreamMetrics) -> None:
        self.settings, self.metrics, self.outside = settings, metrics, outside
        self.consumer, self.desk = outside.consumer, outside.desk
        self.listening = Listening(outside.desk, settings)
        self.remembering = Remembering(opened, outside.snapshots, outside.consumer, settings)
        self.sender = Sender(outside.producer, settings.kafka.delivery_seconds, self._silence)
        self.kept: dict[Partition, Kept] = {}
        self.untold: set[Partition] = set()  # walked, and not all that was said is told yet
        self.backlog: list[Message] = []  # came while the consumer was to be silent
        self.silenced: frozenset[Partition] = frozenset()
        self.trouble: dict[str, str] = {}  # by door: why the program is not ready
        self.raw_partitions = 0
        self.asked_to_end: Callable[[], bool] = lambda: False
        self.joined = False
        self.last_turn = self.last_look = self.last_commit = time.monotonic()

    def run(self, asked_to_end: Callable[[], bool], once: bool = False) -> dict[str, Any]:
        """Turn after turn until asked to end, or with `once` until where the topic ended at the start; the figures of
        `stream --json`.

        Raises FingerprintError when desk or broker stay away for too long, or state is lost; Undelivered.
        """
        started, self.asked_to_end = time.monotonic(), asked_to_end
        self.consumer.subscribe([self.settings.kafka.events], assigned=self.assigned, revoked=self.revoked)
        end = UntilEnd(self.consumer)
        while not asked_to_end():
            end.saw(self.turn(POLL_SECONDS))
            if once and end.reached():
                break
        while once and self._look_for_silence():
            pass
        self.commit()
        figures = {
            **self.metrics.figures(),
            "seconds": round(time.monotonic() - started, 3),
            "peak_memory_bytes": memory.peak(),
        }
        log.info("done", extra={"fields": figures})
        return figures

    def turn(self, seconds: float) -> list[Message]:
        """One poll and all that follows from it; the messages that were dealt with."""
        polled = self.backlog or self.consumer.poll(seconds)
        self.backlog = []
        if polled:
            with self.metrics.batch_seconds.time():
                self._walk(polled)
        if time.monotonic() - self.last_commit > self.settings.state.snapshot_seconds:
            self.commit()
        self._look_around()
        return polled

    # --- partitions come and go ---------------------------------------------------------------------------------------

    def assigned(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Restore each; the positions to begin at."""
        self.joined = True
        self.kept |= {each: self.remembering.assigned(each) for each in partitions}
        positions = {each: self.kept[each].offset for each in partitions}
        places = {_place(each): offset for each, offset in sorted(positions.items())}
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
        self.backlog = [message for message in self.backlog if message.home not in partitions]
        log.info("revoked", extra={"fields": {"partitions": sorted(map(_place, partitions))}})

    # --- one batch ----------------------------------------------------------------------------------------------------

    def _walk(self, polled: Sequence[Message]) -> None:
        """Flatten once; walk each partition; tell."""
        for piece in messages.read(polled, self.settings):
            future = arriving.future(polled, piece, self.settings.stream.future_seconds)
            shares = arriving.by_partition(polled, piece)
            ours = sorted(shares.keys() & self.kept.keys())
            self.untold.update(ours)
            said = [
                each for home in ours for each in self._walk_one(polled, piece, home, shares[home], future)
            ]
            self._tell(said)
            self._count_feeds(ours)
            self._bury(polled, piece, future)
            self.untold.difference_update(ours)
            self.metrics.messages.inc(piece.end - piece.begin)
            self.metrics.future.inc(int(future.sum()))

    def _walk_one(
        self, polled: Sequence[Message], piece: Piece, home: Partition, rows: Rows, future: NDArray[np.bool_]
    ) -> list[Said]:
        kept = self.kept[home]
        word = arriving.said(polled, piece, rows, future)
        self._expect_sources(kept, word.names)
        low = kept.keeper.sources.come(word.names, word.codes, word.marks, word.arrived) // 1000
        judged = self.settings.stream.future == "judge"
        wanted = rows.events if judged else rows.events[~future[rows.events]]
        events = piece.events[READ].iloc[wanted]
        self.metrics.strays.inc(self.remembering.strays(events, home))
        message = np.searchsorted(rows.messages, piece.source[wanted])
        kept.keeper.feeds.count(events, arriving.ways(word, home), word.codes[message])
        before = kept.keeper.counts()
        said = kept.keeper.walk(events, low[message])
        self.metrics.count(before, kept.keeper.counts())
        kept.offset = polled[int(rows.messages[-1])].offset + 1
        return said

    def _expect_sources(self, kept: Kept, names: list[str]) -> None:
        """Messages that `ingest` keyed come from as many sources as the raw topic has partitions."""
        raw = self.settings.kafka.raw
        if kept.keeper.sources.expected == 1 and any(name.startswith(f"{raw}/") for name in names):
            if not self.raw_partitions:
                self.raw_partitions = self.consumer.partitions(raw)
            kept.keeper.sources.expected = self.raw_partitions

    def _tell(self, said: list[Said]) -> None:
        """On the desk first, then to the topics."""
        alerts = list({alert.alert_id: alert for step in said for alert in step.alerts}.values())
        told = [step.votes for step in said if len(step.votes)]
        votes = pd.concat(told, ignore_index=True) if told else no_votes()
        if not alerts and not told:
            return
        self._at_desk(lambda: self.desk.save(alerts, votes))
        self._send(self.settings.kafka.alerts, telling.alerts(alerts))
        self._send(self.settings.kafka.votes, telling.votes(votes))
        self.metrics.tell(alerts, votes)

    def _at_desk(self, ask: Callable[[], T]) -> T:
        """A desk that is away is waited for, and the group is told meanwhile that we live."""
        deadline = time.monotonic() + self.settings.stream.desk_seconds
        while True:
            try:
                answer = ask()
                break
            except FingerprintError as error:
                self._trouble("desk", str(error))
                if time.monotonic() > deadline or self.asked_to_end():
                    raise
                self._silence()
                self.outside.clock.wait(DESK_SECONDS)
        self.trouble.pop("desk", None)
        self._listen()
        return answer

    def _send(self, topic: str, keyed: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in keyed:
            self.sender.send(topic, Outgoing(value, key, ()))
        self._listen()

    def _bury(self, polled: Sequence[Message], piece: Piece, future: NDArray[np.bool_]) -> None:
        """What cannot be read, and what is dated in the future, to the dead letters."""
        rejects = list(piece.rejects)
        if self.settings.stream.future == "dead":
            reason = f"dated more than {self.settings.stream.future_seconds} s past its arrival"
            rejects += [Reject("", str(number), reason) for number in piece.source[future].tolist()]
        letters, _ = dead_letters(polled, rejects, self.settings.kafka.message_bytes)
        for letter in letters:
            self.sender.send(self.settings.kafka.events + self.settings.kafka.dlq_suffix, letter)
        self._listen()
        self.metrics.dead.inc(len(letters))
        if letters:
            log.warning(
                "dead letters", extra={"fields": {"letters": len(letters), "reason": rejects[0].reason}}
            )

    def _silence(self) -> None:
        """No room: fetch nothing, and poll all the same, or the group takes us for dead."""
        self.metrics.pauses.inc()
        assigned = self.consumer.assignment()
        self.consumer.pause(assigned)
        self.silenced |= assigned
        self.backlog += self.consumer.poll(0.0)

    def _listen(self) -> None:
        if self.silenced:
            self.consumer.resume(self.silenced & self.consumer.assignment())
            self.silenced = frozenset()

    # --- feeds --------------------------------------------------------------------------------------------------------

    def _count_feeds(self, partitions: Collection[Partition]) -> None:
        """What came of each feed in the intervals that have closed, to the desk."""
        for home in partitions:
            due = self.listening.due(self.kept[home].keeper) if home in self.kept else None
            if due:
                self._at_desk(partial(self.desk.count_feeds, home, *due))

    def _look_for_silence(self) -> bool:
        """Whether there was anything to look at. Notices go to their topic first: what is not on the desk after a crash is
        found and told again."""
        topic = self.settings.kafka.events
        if Partition(topic, 0) not in self.kept:
            self.metrics.silent_feeds.set(0)
            return False
        look = self._at_desk(partial(self.listening.look, topic))
        if look is None:
            return False
        self._send(self.settings.kafka.notices, telling.notices(look.told))
        if look.told:
            self.outside.producer.flush()
        self._at_desk(partial(self.desk.save_notices, look.changed, look.upto, look.forget))
        self.metrics.silent_feeds.set(look.silent)
        return True

    # --- remember, then commit ----------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Remember all partitions, and let Kafka forget."""
        self.last_commit = time.monotonic()
        self._commit(sorted(self.kept))

    def _commit(self, partitions: Sequence[Partition]) -> None:
        due = [each for each in partitions if self.kept[each].offset != self.kept[each].saved]
        if not due:
            return
        self.outside.producer.flush()
        saved = {each: self.kept[each].offset for each in due if self._remembered(each)}
        try:
            self.consumer.commit(saved)
        except Rebalancing:
            pass  # what counts is the snapshot; the position is told with the next one
        except NotOwner:
            self.metrics.commits_refused.inc()
            log.warning("not committed: a partition has another owner")
        except FingerprintError as error:  # likewise
            self._trouble("broker", str(error))

    def _remembered(self, partition: Partition) -> bool:
        """Whether the partition's state is safe. Where it is not, Kafka must not forget: it is tried again."""
        kept = self.kept[partition]
        try:
            with self.metrics.snapshot_seconds.time():
                size = self.remembering.save(partition, kept)
        except NotOwner:
            log.warning("somebody else has remembered it", extra={"fields": {"partition": _place(partition)}})
            return False
        except FingerprintError as error:
            self.metrics.snapshot_failures.inc()
            self._trouble("snapshots", str(error))
            return False
        self.trouble.pop("snapshots", None)
        self.metrics.snapshots.inc()
        self.metrics.snapshot_bytes.labels(*partition).set(size)
        return True

    # --- how it goes --------------------------------------------------------------------------------------------------

    def not_ready(self) -> str | None:
        if not self.joined:
            return "has not joined the group yet"
        return "; ".join(f"{door}: {what}" for door, what in sorted(self.trouble.items())) or None

    def not_alive(self) -> str | None:
        still = time.monotonic() - self.last_turn
        return f"stands still for {still:.0f} s" if still > self.settings.health.stalled_seconds else None

    def _trouble(self, door: str, what: str) -> None:
        if self.trouble.get(door) != what:
            log.warning("in trouble", extra={"fields": {"door": door, "what": what}})
        self.trouble[door] = what

    def _look_around(self) -> None:
        self.last_turn = time.monotonic()
        if not self.joined or self.last_turn - self.last_look < LOOK_SECONDS:
            return
        self.last_look = self.last_turn
        try:
            lag = self.consumer.lag()
        except FingerprintError as error:
            self._trouble("broker", str(error))
            return
        self.trouble.pop("broker", None)
        self.metrics.look(self.kept, lag)
        self._pass_time([each for each in self.kept if lag.get(each) == 0 and not self.backlog])
        self._look_for_silence()

    def _pass_time(self, partitions: Collection[Partition]) -> None:
        """Where nothing is left to be read, intervals close by the clock."""
        now = int(self.outside.clock.now().timestamp() * 1000)
        for each in sorted(partitions):
            keeper = self.kept[each].keeper
            before = keeper.counts()
            self._tell(keeper.pass_time(now))
            self._count_feeds([each])
            self.metrics.count(before, keeper.counts())


def _place(partition: Partition) -> str:
    return f"{partition.topic}/{partition.number}"
