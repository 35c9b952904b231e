"""Where what was found is said: the desk first, then the topics. Both are waited for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.alerting import messages
from fingerprint.core.alert import FingerprintError, Hop, Reject
from fingerprint.core.case import Report, Tuned
from fingerprint.core.ports import Clock, Consumer, Desk, Message, Partition, Producer, Snapshots
from fingerprint.core.settings import Settings
from fingerprint.detection.scorer import no_votes
from fingerprint.pipeline import Said
from fingerprint.sources.arrival import FUTURE
from fingerprint.sources.decode import Piece
from fingerprint.streaming.backpressure import Pausing
from fingerprint.streaming.dependency_status import Troubles
from fingerprint.streaming.feed_monitor import Listening
from fingerprint.streaming.lag_monitor import Watch
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.partition_processor import Keeper
from fingerprint.streaming.rekeying import Letters, Outgoing, letter
from fingerprint.streaming.retrying_producer import Sender

DESK_SECONDS = 0.5  # between two tries to reach the desk

log = logging.getLogger("fingerprint.stream")

T = TypeVar("T")


class Outside(NamedTuple):
    """The doors of the stream."""

    consumer: Consumer
    producer: Producer
    desk: Desk
    snapshots: Snapshots
    clock: Clock


class Voice:
    """Says alerts, votes, notices and dead letters. What it has said is safe when `flush` returns."""

    def __init__(
        self,
        outside: Outside,
        pausing: Pausing,
        watch: Watch,
        troubles: Troubles,
        settings: Settings,
        metrics: StreamMetrics,
    ) -> None:
        self.desk, self.producer, self.clock = outside.desk, outside.producer, outside.clock
        self.pausing, self.watch, self.troubles = pausing, watch, troubles
        self.settings, self.metrics, self.topics = settings, metrics, settings.kafka
        self.sender = Sender(outside.producer, settings.kafka.delivery_seconds, self._full)
        self.letters = Letters(settings.kafka.message_bytes)
        self.listening = Listening(outside.desk, settings)
        self.asked_to_end: Callable[[], bool] = lambda: False

    def tell(self, said: Sequence[Said], hops: Sequence[Hop] = ()) -> None:
        """Alerts, each as it stands last, votes, and who began which session."""
        alerts = list({alert.alert_id: alert for step in said for alert in step.alerts}.values())
        parts = [step.votes for step in said if len(step.votes)]
        votes = pd.concat(parts, ignore_index=True) if parts else no_votes()
        if not alerts and not parts and not hops:
            return
        self._at_desk(lambda: self.desk.save(alerts, votes, hops))
        self._send(self.topics.alerts, messages.alerts(alerts))
        self._send(self.topics.votes, messages.votes(votes))
        self.metrics.tell(alerts, votes)

    def tuned(self) -> Tuned | None:
        """What was chosen at the desk to hold events to."""
        return self._at_desk(self.desk.tuned)

    def report(self, said: Report) -> None:
        """How the program is, to the desk."""
        self._at_desk(partial(self.desk.report, said))

    def bury(self, polled: Sequence[Message], piece: Piece, future: NDArray[np.bool_]) -> None:
        """What cannot be read, and what is dated in the `future` (n,), to the dead letters."""
        rejects = list(piece.rejects)
        if self.settings.stream.future == "dead":
            reason = FUTURE.format(seconds=self.settings.stream.future_seconds)
            rejects += [Reject("", str(number), reason) for number in piece.source[future].tolist()]
        letters, _ = self.letters.of(polled, piece, rejects)
        self._send_all(self.topics.events + self.topics.dlq_suffix, letters)
        self.metrics.dead.inc(len(letters))
        if letters:
            log.warning(
                "dead letters", extra={"fields": {"letters": len(letters), "reason": rejects[0].reason}}
            )

    def bury_unread(self, message: Message, reason: str) -> None:
        """A message that is not to be read, to the dead letters."""
        self._send_all(
            self.topics.events + self.topics.dlq_suffix,
            [letter(message, reason, 1, self.topics.message_bytes)],
        )
        self.metrics.dead.inc()

    def count_feeds(self, partition: Partition, keeper: Keeper) -> None:
        """What came of each feed in the intervals that have closed, to the desk."""
        if due := self.listening.due(keeper, self._now()):
            self._at_desk(partial(self.desk.count_feeds, partition, *due))

    def tell_of_silence(self) -> bool:
        """Whether there was anything to look at. Notices go to their topic first: what is not on the desk after a crash is
        found and told again."""
        look = self._at_desk(partial(self.listening.look, self.topics.events, self._now()))
        if look is None:
            return False
        self._send(self.topics.notices, messages.notices(look.told))
        if look.told:
            self.flush()
        self._at_desk(partial(self.desk.save_notices, look.changed, look.upto, look.forget))
        self.metrics.silent_feeds.set(look.silent)
        return True

    def _now(self) -> int:
        return int(self.clock.now().timestamp())

    def flush(self) -> None:
        """Everything that was said has arrived; Undelivered if not."""
        with self.watch.asking():
            self.producer.flush()

    def _at_desk(self, ask: Callable[[], T]) -> T:
        """A desk that is away is waited for, and the group is told meanwhile that we live."""
        deadline = time.monotonic() + self.settings.stream.desk_seconds
        while True:
            try:
                answer = ask()
                break
            except FingerprintError as error:
                self.troubles.say("desk", str(error))
                if time.monotonic() > deadline or self.asked_to_end():
                    raise
                self.pausing.pause()
                self.clock.wait(DESK_SECONDS)
        self.troubles.over("desk")
        self.pausing.resume()
        return answer

    def _send(self, topic: str, keyed: Iterable[tuple[bytes, bytes]]) -> None:
        self._send_all(topic, (Outgoing(value, key, ()) for key, value in keyed))

    def _send_all(self, topic: str, outgoing: Iterable[Outgoing]) -> None:
        for each in outgoing:
            self.sender.send(topic, each)
        if self.pausing.silenced:
            self.watch.answered()
        self.pausing.resume()

    def _full(self) -> None:
        """Too much is on its way: the broker owes us its answers."""
        self.watch.ask()
        self.pausing.pause()
