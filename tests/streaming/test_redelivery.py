"""A notice that only waits is never condemned, whichever worker takes it; one that kills its readers is, in the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fingerprint.core.errors import Unavailable
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.ports.object_store import ReceivedMessage
from fingerprint.core.settings import Settings
from fingerprint.streaming import s3_ingest_service
from fingerprint.streaming.metrics import S3IngestMetrics
from fingerprint.streaming.redelivery import MAX_HIDDEN_SECONDS, lost_receives, wait_seconds
from fingerprint.streaming.s3_ingest_service import S3IngestService
from tests.sources.test_s3_notifications import s3

BEGAN = 1_767_225_600  # seconds since 1970
DAY = 86_400
VISIBLE_AFTER = 120
RECORD = json.dumps(
    {"eventID": "1", "eventTime": "2026-01-01T00:00:00Z", "eventName": "ListBuckets"}
).encode()


class Killed(BaseException):
    """The process is gone; nothing of it remains."""


class Queue:
    """One notice, as SQS keeps it: hidden while someone has it, and for how long is all that is known of who had it."""

    name, url = "sqs:1:q", "https://q"

    def __init__(self) -> None:
        self.now, self.receives, self.visible_at, self.deleted = float(BEGAN), 0, float(BEGAN), False

    def receive(self) -> list[ReceivedMessage]:
        self.now = max(self.now + 1, self.visible_at)
        self.receives, self.visible_at = self.receives + 1, self.now + VISIBLE_AFTER
        notice = Message(self.name, 0, 0, None, json.dumps(s3("a.json", "trail")).encode(), (), BEGAN * 1000)
        return [ReceivedMessage("a", "r", notice, self.receives, BEGAN * 1000)]

    def delete(self, received: Sequence[ReceivedMessage]) -> int:
        self.deleted = True
        return 0

    def return_to_queue(self, received: Sequence[ReceivedMessage]) -> None:
        self.hide(received, 0)

    def hide(self, received: Sequence[ReceivedMessage], seconds: int) -> None:
        self.visible_at = self.now + seconds if received else self.visible_at

    def approximate_depth(self) -> int:
        return 1


class Objects:
    """The object of the notice; reading it raises what is wrong with it."""

    wrong: BaseException | None = None

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        if self.wrong:
            raise self.wrong
        yield RECORD


class Producer:
    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def send(self, topic: str, value: bytes, key: bytes | None = None, headers: Any = ()) -> None:
        self.sent.append((topic, dict(headers)))

    def flush(self, *_: Any) -> None: ...

    def partition_count(self, topic: str) -> int:
        return 1


class Workers:
    """Workers that share a queue; `restart_every` takes each of them is another process, which remembers nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, workers: int, restart_every: int) -> None:
        self.queue, self.objects, self.producer = Queue(), Objects(), Producer()
        self.workers, self.restart_every, self.takes = workers, restart_every, 0
        self.running: list[S3IngestService] = []
        monkeypatch.setattr(s3_ingest_service, "wall_clock_ms", lambda: int(self.queue.now * 1000))

    def take(self, stop_requested: bool = False) -> None:
        if self.takes % self.restart_every == 0:
            self.running = [self._start() for _ in range(self.workers)]
        self.takes += 1
        self.running[self.takes % self.workers].run_once(lambda: stop_requested)

    def _start(self) -> S3IngestService:
        settings = Settings.model_validate({"sqs": {"allowed_buckets": ("trail",)}})
        metrics = S3IngestMetrics(CollectorRegistry())
        return S3IngestService(self.queue, self.objects, self.producer, settings, metrics)  # type: ignore[arg-type]


@pytest.mark.parametrize(("workers", "restart_every"), [(1, 10**6), (4, 10**6), (1, 1), (3, 7)])
def test_what_only_waits_is_read_when_it_can_be_after_two_weeks_too(monkeypatch, workers, restart_every):
    place = Workers(monkeypatch, workers, restart_every)
    place.objects.wrong = Unavailable("AccessDenied")
    while place.queue.now < BEGAN + 14 * DAY:
        place.take()
    assert place.queue.receives > 500
    assert not place.producer.sent
    place.objects.wrong = None
    place.take()
    assert [topic for topic, _ in place.producer.sent] == [Settings().kafka.events_topic]
    assert place.queue.deleted


@pytest.mark.parametrize("back_after", [0, 300, 600], ids="a process comes back after {} s".format)
def test_what_kills_its_readers_is_a_dead_letter_within_hours(monkeypatch, back_after):
    place = Workers(monkeypatch, 1, 1)
    place.objects.wrong = Killed()
    deaths = 0
    while not place.queue.deleted:
        assert deaths < 30
        try:
            place.take()
        except Killed:
            deaths += 1
            place.queue.now += back_after
    ((topic, headers),) = place.producer.sent
    assert topic == f"{Settings().kafka.raw_topic}.dlq"
    assert b"it may kill its reader" in headers["reason"]
    assert place.queue.now < BEGAN + DAY / 4


def test_what_waited_for_days_and_kills_its_readers_then_is_a_dead_letter_too(monkeypatch):
    place = Workers(monkeypatch, 2, 5)
    place.objects.wrong = Unavailable("AccessDenied")
    while place.queue.now < BEGAN + 3 * DAY:
        place.take()
    place.objects.wrong, deaths = Killed(), 0
    while not place.queue.deleted:
        assert deaths < 30
        try:
            place.take()
        except Killed:
            deaths += 1
    assert len(place.producer.sent) == 1


def test_workers_that_are_asked_to_end_again_and_again_condemn_nothing(monkeypatch):
    place = Workers(monkeypatch, 1, 1)
    for _ in range(500):
        place.take(stop_requested=True)
    place.take()
    assert [topic for topic, _ in place.producer.sent] == [Settings().kafka.events_topic]


@pytest.mark.parametrize("visible_after", [2, 120, 3_600, 43_200])
def test_a_wait_grows_and_is_never_longer_than_a_queue_hides(visible_after):
    waits = [wait_seconds(receives, visible_after) for receives in range(1, 2_000)]
    assert waits == sorted(waits)
    assert waits[0] == min(visible_after, MAX_HIDDEN_SECONDS)
    assert waits[-1] == min(max(1_800, 4 * visible_after), MAX_HIDDEN_SECONDS)


def test_receives_that_were_waited_for_are_not_lost_and_those_at_once_are():
    at = [0]
    for receives in range(1, 20):
        at.append(at[-1] + wait_seconds(receives, VISIBLE_AFTER))
    notice = ReceivedMessage("a", "", Message("q", 0, 0), 20, first_received=BEGAN * 1000)
    assert lost_receives(notice, (BEGAN + at[19]) * 1000, VISIBLE_AFTER) == 0
    assert lost_receives(notice, (BEGAN + at[5]) * 1000, VISIBLE_AFTER) == 14
    assert lost_receives(notice, BEGAN * 1000, VISIBLE_AFTER) == 19
    assert lost_receives(notice._replace(first_received=0), BEGAN * 1000, VISIBLE_AFTER) == 0
