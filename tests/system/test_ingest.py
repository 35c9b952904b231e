"""Ingest loses nothing and, after reduction by id, repeats nothing, whatever happens to it."""

from __future__ import annotations

import gzip
import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from prometheus_client import CollectorRegistry

from fingerprint.adapters.kafka.confluent import ConfluentConsumer
from fingerprint.adapters.kafka.confluent_producer import ConfluentProducer
from fingerprint.adapters.kafka.kafka_python import KafkaPythonConsumer
from fingerprint.adapters.kafka.kafka_python_producer import KafkaPythonProducer
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import (
    DeliveryFailed,
    Message,
    Partition,
    PartitionNotOwned,
    QueueFull,
)
from fingerprint.core.settings import Settings
from fingerprint.sources.columnar import is_columnar
from fingerprint.streaming.bounded_read import poll_until_end
from fingerprint.streaming.ingest_service import IngestService as Program
from fingerprint.streaming.metrics import IngestMetrics
from pipelines.commands.dead_letters import DeadLetter, read_dead_letters, replay_pending
from tests.contracts.message_stream import polling, wait_until
from tests.streaming.test_rekeying import record, wrapped
from tests.support.forked import fingerprint
from tests.support.health_client import answered
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import MemoryConsumer, MemoryProducer, on
from tests.support.sent_events import event_ids, sent_events
from tests.support.services.kafka import Broker
from tests.support.services.ports import free_port
from tests.support.stream_environment import environment

SELDOM = 0.2  # seconds between two questions for each of which a client connects
PEOPLE = ("alice", "bob", "carol", "dan")
LIMIT = {"max_dead_letters": 5, "max_dead_letter_share": 0.5}
POISON = b'{"eventVersion": "1.08", "userAgent": "\x1b[2J\xff'


class Crash(Exception):
    """The process is gone."""


class Stream:
    """The three topics, with two partitions each, and adapters to them."""

    name = "test"

    def configure(self, **settings: Any) -> None:
        names = {"raw_topic": f"{self.name}.raw", "events_topic": f"{self.name}.events"}
        self.table: dict[str, Any] = {
            **settings,
            "kafka": self.connection() | names | settings.get("kafka", {}),
            "health": {"port": 0} | settings.get("health", {}),
        }
        self.settings = Settings.model_validate(self.table)
        self.raw, self.events, self.dlq = names["raw_topic"], names["events_topic"], f"{self.name}.raw.dlq"

    def connection(self) -> dict[str, Any]:
        raise NotImplementedError

    def adapters(self) -> tuple[Any, Any]:
        raise NotImplementedError

    def consumer(self, purpose: str = "ingest") -> Any:
        return self._kept(self._open_consumer(purpose))

    def _open_consumer(self, purpose: str) -> Any:
        kafka = self.settings.kafka
        return self.adapters()[0](kafka.model_copy(update={"group_id": f"{kafka.group_id}-{purpose}"}))

    def producer(self) -> Any:
        return self._kept(self.adapters()[1](self.settings.kafka))

    def _kept(self, adapter: Any) -> Any:
        self.opened.append(adapter)
        return adapter

    def read(self, topic: str) -> list[Message]:
        consumer = self.consumer("reader")
        consumer.subscribe([topic])
        found = [message for messages in poll_until_end(consumer) for message in messages]
        consumer.close()
        return sorted(found, key=lambda message: (message.partition, message.offset))

    def committed(self) -> int:
        """Messages of the raw topic that are done with."""
        consumer = self._open_consumer(
            "ingest"
        )  # not kept: this is asked many times, and a client holds a key of its thread
        partitions = [Partition(self.raw, number) for number in range(2)]
        offsets = consumer.committed(partitions)
        consumer.close()
        return sum(offset or 0 for offset in offsets.values())

    def close(self, adapter: Any) -> None:
        """A process that is gone holds no adapters open."""
        with suppress(Exception):  # of an adapter at which something was made to happen
            adapter.close()

    def environment(self) -> dict[str, str]:
        """What makes a process of its own use the same settings."""
        return environment(self.table)

    def send(self, *values: bytes | None, key: bytes | None = None, headers: Any = ()) -> None:
        producer = self.producer()
        for value in values:
            producer.send(self.raw, value, key, headers)
        producer.flush()
        self.close(producer)

    def ingest(self, consumer: Any = None, producer: Any = None) -> dict[str, Any]:
        adapters = consumer or self.consumer(), producer or self.producer()
        try:
            return self.program(*adapters).run(lambda: False, once=True)
        finally:
            for adapter in adapters:
                self.close(adapter)

    def program(self, consumer: Any, producer: Any) -> Program:
        return Program(consumer, producer, self.settings, IngestMetrics(CollectorRegistry()))

    def letters(self) -> list[DeadLetter]:
        consumer = self.consumer("dead-letters")
        found = list(read_dead_letters(consumer, self.dlq))
        self.close(consumer)
        return found

    def replay_letters(self, producer: Any = None) -> dict[str, Any]:
        adapters = self.consumer("dead-letters"), producer or self.producer()
        try:
            return replay_pending(*adapters, self.settings)
        finally:
            for adapter in adapters:
                self.close(adapter)

    def ids(self) -> list[str]:
        return sorted(event_ids(self.read(self.events)))


class InMemory(Stream):
    def __init__(self) -> None:
        self.memory = MemoryBroker()
        self.opened: list[Any] = []

    def create(self) -> None:
        for topic in (self.raw, self.dlq, self.events):
            self.memory.create_topic(topic, 2)

    def connection(self) -> dict[str, Any]:
        return on(self.memory) | {"group_id": self.name}

    def adapters(self) -> tuple[Any, Any]:
        return MemoryConsumer, MemoryProducer

    def end(self) -> None:
        for adapter in self.opened:
            self.close(adapter)


class OnBroker(InMemory):
    """Topics of their own for each test."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker, self.name = broker, name
        self.opened = []

    def ready(self) -> tuple[int, str]:
        """What `/readyz` of a process says; 0 before it listens."""
        return answered(self.settings.health.port, "/readyz")

    def create(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.broker.address)
        topics = [NewTopic(topic, 2, 1) for topic in (self.raw, self.dlq, self.events)]
        admin.create_topics(topics, wait_for_metadata=True)
        admin.close()

    def connection(self) -> dict[str, Any]:
        brisk = {"session_timeout_ms": 10000, "linger_ms": 1}
        return {"bootstrap_servers": (self.broker.address,), "group_id": self.name, **brisk}

    def adapters(self) -> tuple[Any, Any]:
        return KafkaPythonConsumer, KafkaPythonProducer


class OnConfluent(OnBroker):
    """The same through the other client."""

    def connection(self) -> dict[str, Any]:
        return super().connection() | {"client": "confluent"}

    def adapters(self) -> tuple[Any, Any]:
        return ConfluentConsumer, ConfluentProducer


class Faulty:
    """An adapter at which something happens at the n-th call of one method, before it (or after it) has its effect."""

    def __init__(self, adapter: Any, method: str, error: Exception, at: int = 0, after: bool = False) -> None:
        self.adapter, self.method, self.error, self.left, self.after = adapter, method, error, at, after

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.adapter, name)
        return self._watched(real) if name == self.method else real

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == -1:
                if self.after:
                    real(*arguments, **options)
                raise self.error
            return real(*arguments, **options)

        return call


def expected(count: int) -> list[str]:
    return sorted(f"event-{number}" for number in range(count))


def records(count: int) -> list[bytes]:
    return [record(number, PEOPLE[number % 4]) for number in range(count)]


# The tests that tell most about a client run through both; what only the bytes of a message decide needs no broker.
EVERY_ADAPTER = pytest.mark.parametrize("stream", ["in memory", "on a broker", "confluent"], indirect=True)
IN_MEMORY = pytest.mark.parametrize("stream", ["in memory"], indirect=True)


@pytest.fixture(params=["in memory", "on a broker"])
def stream(request: pytest.FixtureRequest) -> Iterator[Stream]:
    if request.param == "in memory":
        opened = InMemory()
    else:
        name = "".join(letter if letter.isalnum() else "-" for letter in request.node.nodeid)[-100:]
        client = OnConfluent if request.param == "confluent" else OnBroker
        opened = client(request.getfixturevalue("broker"), name)
    opened.configure()
    opened.create()
    yield opened
    opened.end()


@EVERY_ADAPTER
def test_every_record_of_every_envelope_arrives_once(stream: Stream) -> None:
    all_ = records(40)
    stream.send(
        *all_[:10], wrapped(*all_[10:20]), gzip.compress(wrapped(*all_[20:30])), b"\n".join(all_[30:])
    )
    figures = stream.ingest()
    assert stream.ids() == expected(40)
    assert (figures["messages"], figures["records"], figures["dead_letters"]) == (13, 40, 0)


@IN_MEMORY
def test_a_poison_message_in_the_middle_goes_to_the_dead_letters_alone(stream: Stream) -> None:
    all_ = records(20)
    stream.send(*all_[:10], POISON, *all_[10:])
    stream.ingest()
    assert stream.ids() == expected(20)
    assert [message.value for message in stream.read(stream.dlq)] == [POISON]


def test_a_second_run_finds_nothing_left_to_do(stream: Stream) -> None:
    stream.send(*records(5))
    stream.ingest()
    assert stream.ingest()["messages"] == 0
    assert stream.ids() == expected(5)


@pytest.mark.parametrize("count", [4, 100], ids=["one by one", "by columns"])
def test_everything_a_principal_did_stays_in_order_in_one_partition(stream: Stream, count: int) -> None:
    all_ = records(6 * count)
    for part in range(6):
        stream.send(*all_[part * count : (part + 1) * count], key=b"one source partition")
    stream.ingest()
    homes: dict[str, set[int]] = {}
    order: dict[str, list[int]] = {}
    sent = stream.read(stream.events)
    assert any(is_columnar(message.value) for message in sent) == (count == 100)
    for message, principal, name in sent_events(sent):
        homes.setdefault(principal, set()).add(message.partition)
        order.setdefault(principal, []).append(int(name.removeprefix("event-")))
    assert len(homes) == 4
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert all(numbers == sorted(numbers) for numbers in order.values())


@EVERY_ADAPTER
@pytest.mark.parametrize(
    ("adapter", "method", "at", "after"),
    [
        ("consumer", "commit", 1, False),  # the first marks where reading begins
        ("consumer", "commit", 1, True),
        ("producer", "send", 17, False),
        ("producer", "flush", 0, False),
        ("producer", "flush", 0, True),
    ],
    ids=["before the commit", "after the commit", "while sending", "before the flush", "after the flush"],
)
def test_a_crash_loses_nothing_and_repeats_reduce_by_id(
    stream: Stream, adapter: str, method: str, at: int, after: bool
) -> None:
    stream.send(*records(30), POISON)
    adapters: dict[str, Any] = {"consumer": stream.consumer(), "producer": stream.producer()}
    adapters[adapter] = Faulty(adapters[adapter], method, Crash(), at, after)
    with pytest.raises(Crash):
        stream.ingest(**adapters)
    stream.ingest()
    assert sorted(set(stream.ids())) == expected(30)
    assert {message.value for message in stream.read(stream.dlq)} == {POISON}


def test_what_did_not_arrive_is_not_committed(stream: Stream) -> None:
    stream.send(*records(8))
    with pytest.raises(DeliveryFailed):
        stream.ingest(producer=Faulty(stream.producer(), "flush", DeliveryFailed("broker away")))
    assert stream.ingest()["messages"] == 8
    assert sorted(set(stream.ids())) == expected(8)


def test_a_commit_refused_because_another_member_owns_the_partition_stops_no_one(stream: Stream) -> None:
    stream.send(*records(8))
    figures = stream.ingest(consumer=Faulty(stream.consumer(), "commit", PartitionNotOwned(), at=1))
    assert figures["commits_refused"] == 1
    assert stream.ids() == expected(8)


class NoRoom:
    """A producer that is full so many times, as while its broker is away."""

    def __init__(self, adapter: Any, times: int) -> None:
        self.adapter, self.left = adapter, times

    def send(self, *arguments: Any) -> None:
        if self.left:
            self.left -= 1
            raise QueueFull
        self.adapter.send(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.adapter, name)


class Noting:
    """An adapter that notes which of its methods are called."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self.adapter, name)


@EVERY_ADAPTER
def test_a_full_producer_silences_the_consumer_until_there_is_room(stream: Stream) -> None:
    stream.send(*records(30))
    consumer = Noting(stream.consumer())
    figures = stream.ingest(consumer=consumer, producer=NoRoom(stream.producer(), 3))
    assert (figures["pauses"], consumer.calls.count("pause")) == (1, 3), (
        "one pause, however often it is tried"
    )
    assert consumer.calls.index("resume") > consumer.calls.index("pause")
    assert stream.ids() == expected(30)


@IN_MEMORY
def test_too_many_dead_letters_stop_it_and_nothing_is_committed_that_was_not_written(stream: Stream) -> None:
    stream.configure(ingest=LIMIT)
    stream.send(*records(4), *[b"poison"] * 30, key=b"one source partition")
    with pytest.raises(
        FingerprintError, match=r"of the last 1,000 messages of .*raw could not be read \(the last: malf"
    ):
        stream.ingest()
    assert stream.committed() == len(stream.read(stream.dlq)) + len(stream.read(stream.events))
    assert len(stream.read(stream.dlq)) == 5


@IN_MEMORY
def test_after_the_limit_it_goes_on_where_it_stopped(stream: Stream) -> None:
    stream.configure(ingest=LIMIT)
    stream.send(*[b"poison"] * 7, *records(20), key=b"one source partition")
    with pytest.raises(FingerprintError):
        stream.ingest()
    stream.ingest()
    assert stream.ids() == expected(20)
    assert len(stream.read(stream.dlq)) == 7


@IN_MEMORY
def test_a_message_that_expands_to_a_gibibyte_is_a_dead_letter_and_costs_its_neighbours_nothing(
    stream: Stream,
) -> None:
    bomb = gzip.compress(bytes(16 << 20), 9) * 64
    assert len(bomb) < 2 << 20
    stream.send(*records(4)[:2], bomb, *records(4)[2:])
    stream.ingest()
    assert stream.ids() == expected(4)
    assert [message.value for message in stream.read(stream.dlq)] == [bomb]


def test_a_record_of_a_mebibyte_passes(stream: Stream) -> None:
    large = record(0, userAgent="x" * ((1 << 20) - 1000))
    stream.send(large)
    stream.ingest()
    assert [message.value for message in stream.read(stream.events)] == [large]


def test_asked_to_end_it_finishes_its_batch_and_commits(stream: Stream) -> None:
    stream.send(*records(12))
    program = stream.program(stream.consumer(), stream.producer())
    program.run(lambda: program.metrics.figures()["messages"] > 0)
    stream.close(program.consumer)
    stream.ingest()
    assert stream.ids() == expected(12)


def test_while_it_is_behind_its_lag_is_as_old_as_what_it_read_last(stream: Stream) -> None:
    """One message may hold 1,000 records: their number tells no one how late alerts come."""
    stream.configure(kafka={"max_poll_records": 1})
    stream.send(*records(40))
    program = stream.program(stream.consumer(), stream.producer())
    program.lag_monitor.lag_age.now = lambda: time.time() + 3_600
    seen, deadline = set[float](), time.monotonic() + 60

    def is_read() -> bool:
        (metric,) = program.metrics.lag_seconds.collect()
        now = [sample.value for sample in metric.samples]
        seen.update(now)
        program.lag_monitor.next_poll = -math.inf
        all_read = program.metrics.figures()["messages"] == 40 and now == [0, 0]
        return all_read or time.monotonic() > deadline

    program.run(is_read)
    (metric,) = program.metrics.lag_seconds.collect()
    assert [sample.value for sample in metric.samples] == [0, 0]
    assert 3_599 < max(seen) < 3_700


class Process:
    """`fingerprint ingest` in a process of its own."""

    def __init__(self, stream: Stream) -> None:
        self.process = fingerprint("ingest", environment=stream.environment())

    @property
    def err(self) -> str:
        return self.process.err

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait_until_joined(self) -> None:
        wait_until(lambda: '"message": "assigned"' in self.err, "a member with partitions")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit status and standard output."""
        self.process.send_signal(number)
        return self.left()

    def left(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=60)
        return self.process.wait(), out


@pytest.fixture
def start(stream: Stream) -> Iterator[Callable[[], Process]]:
    processes: list[Process] = []

    def begin() -> Process:
        processes.append(Process(stream))
        return processes[-1]

    yield begin
    for each in processes:
        each.end(signal.SIGKILL)


def arrived(stream: Stream, count: int) -> Callable[[], bool]:
    return lambda: sorted(set(stream.ids())) == expected(count)


@EVERY_ADAPTER
def test_sigterm_finishes_commits_and_leaves_with_nothing_repeated(
    stream: Stream, start: Callable[[], Process]
) -> None:
    stream.send(*records(20), POISON)
    ingest = start()
    wait_until(arrived(stream, 20), "20 records in the events topic", SELDOM)
    wait_until(lambda: stream.read(stream.dlq), "a dead letter", SELDOM)
    status, out = ingest.end()
    assert status == 0, ingest.err
    assert out.startswith("21 messages: 20 records sent, 1 dead letters")
    assert all(json.loads(line)["logger"] for line in ingest.err.splitlines())
    assert stream.ingest()["messages"] == 0
    assert stream.ids() == expected(20)


@EVERY_ADAPTER
def test_after_kill_9_another_goes_on_and_nothing_is_lost(
    stream: Stream, start: Callable[[], Process]
) -> None:
    stream.configure(kafka={"session_timeout_ms": 2000})
    stream.send(*records(20))
    ingest = start()
    wait_until(stream.ids, "the first records in the events topic", SELDOM)
    ingest.end(signal.SIGKILL)
    stream.send(*records(40)[20:])
    stream.ingest()
    assert sorted(set(stream.ids())) == expected(40)


@EVERY_ADAPTER
def test_two_share_the_work_and_one_leaves(stream: Stream, start: Callable[[], Process]) -> None:
    one, two = start(), start()
    one.wait_until_joined()
    two.wait_until_joined()
    stream.send(*records(20))
    wait_until(arrived(stream, 20), "20 records in the events topic", SELDOM)
    assert one.end()[0] == 0, one.err
    stream.send(*records(40)[20:])
    wait_until(arrived(stream, 40), "40 records in the events topic", SELDOM)
    assert two.end()[0] == 0, two.err


@contextmanager
def ingesting(broker: Broker, name: str, **settings: Any) -> Iterator[list[tuple[OnBroker, Process]]]:
    """A process of each client with topics of its own, so that one outage is enough for both."""
    running: list[tuple[OnBroker, Process]] = []
    try:
        for client in (OnBroker, OnConfluent):
            stream = client(broker, f"{name}-{client.__name__}")
            stream.configure(**settings | {"health": {"port": free_port()}})
            stream.create()
            running.append((stream, Process(stream)))
        yield running
    finally:
        for stream, process in running:
            process.end(signal.SIGKILL)
            stream.end()


def test_a_broker_that_is_killed_in_the_middle_and_comes_back_costs_nothing(broker: Broker) -> None:
    with ingesting(broker, "in-the-middle", kafka={"max_poll_records": 20}) as both:
        for stream, ingest in both:
            ingest.wait_until_joined()
            stream.send(*records(1_500))
        for stream, _ in both:
            watcher, homes = stream.consumer("watcher"), [Partition(stream.events, each) for each in range(2)]
            sent = partial(watcher.end_offsets, homes)
            wait_until(lambda sent=sent: sum(sent().values()) > 0, "the first records in the events topic")
        broker.kill()
        broker.start()
        for stream, _ in both:
            assert stream.committed() < 1_500, "it was not in the middle"
            stream.send(*records(1_600)[1_500:])
        for stream, ingest in both:
            wait_until(
                lambda stream=stream, ingest=ingest: stream.committed() == 1_600 or not ingest.running,
                "1,600 records dealt with",
                SELDOM,
            )
            assert ingest.end()[0] == 0, ingest.err
            assert sorted(set(stream.ids())) == expected(1_600)


def test_readiness_follows_a_broker_that_goes_away_and_comes_back(broker: Broker) -> None:
    brief = 5000  # on a busy machine a broker that has just started answers in it; without an answer the program would end
    with ingesting(broker, "readiness", kafka={"request_timeout_ms": brief}) as both:
        for stream, _ in both:
            stream.send(*records(3))
            wait_until(lambda stream=stream: stream.committed() == 3, "3 records dealt with", SELDOM)
            assert stream.ready() == (200, "ok\n")
        broker.kill()
        try:
            for stream, ingest in both:
                wait_until(
                    lambda stream=stream, ingest=ingest: stream.ready()[0] == 503 or not ingest.running,
                    "a program that is not ready",
                    SELDOM,
                )
                assert "ingest: no broker has answered for" in stream.ready()[1], ingest.err[-3000:]
        finally:
            broker.start()
        for stream, ingest in both:
            wait_until(
                lambda stream=stream: stream.ready() == (200, "ok\n"), "a program that is ready again", SELDOM
            )
            stream.configure()  # the test's own adapters are patient with a broker that has just started
            stream.send(*records(5))
            wait_until(arrived(stream, 5), "5 records in the events topic", SELDOM)
            assert ingest.end()[0] == 0, ingest.err


@EVERY_ADAPTER
def test_who_is_given_no_partition_does_not_wait_for_ever(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    busy = []
    for member in ("a", "b"):
        stream.configure(kafka={"group_instance_id": member})
        busy.append(stream.consumer())
        busy[-1].subscribe([stream.raw])
    stream.configure(kafka={"group_instance_id": "c", "request_timeout_ms": 5000, "session_timeout_ms": 1000})
    stream.send(*records(4))
    with polling(*busy) as members:
        wait_until(lambda: all(len(member.holds) == 1 for member in members), "each has one")
        assert stream.ingest()["messages"] == 0
    assert "no partition was assigned to this member" in caplog.text


@IN_MEMORY
def test_too_many_dead_letters_are_one_sentence_and_status_2(
    stream: Stream, start: Callable[[], Process]
) -> None:
    stream.configure(ingest=LIMIT)
    stream.send(*[b"poison"] * 30)
    ingest = start()
    assert ingest.left()[0] == 2
    sentence = ingest.err.splitlines()[-1]
    assert sentence.startswith("fingerprint: 5 or more of the last 1,000 messages of")
    assert "Traceback" not in ingest.err


@IN_MEMORY
def test_letters_are_listed_with_source_reason_size_and_beginning_made_visible(stream: Stream) -> None:
    stream.send(POISON)
    stream.ingest()
    (letter,) = stream.letters()
    assert (letter.topic, letter.offset, letter.bytes) == (stream.raw, 0, len(POISON))
    assert "malformed JSON" in letter.reason
    assert letter.begins == '{"eventVersion": "1.08", "userAgent": "\\x1b[2J\\xff'


@EVERY_ADAPTER
def test_letters_given_back_are_the_original_bytes_and_are_marked(stream: Stream) -> None:
    mine = (("trace", b"1"), ("reason", b"my own"))
    stream.send(POISON, key=b"mine", headers=mine)
    stream.ingest()
    figures = stream.replay_letters()
    assert figures == {"topic": stream.raw, "replayed": 1, "without_value": 0}
    again = stream.read(stream.raw)[-1]
    assert len(stream.read(stream.raw)) == 2
    assert (again.value, again.key, again.headers) == (POISON, b"mine", mine)
    assert stream.letters() == []


@IN_MEMORY
def test_letters_that_did_not_arrive_are_not_marked(stream: Stream) -> None:
    stream.send(POISON)
    stream.ingest()
    producer = Faulty(stream.producer(), "flush", DeliveryFailed("broker away"))
    with pytest.raises(DeliveryFailed):
        stream.replay_letters(producer)
    assert len(stream.letters()) == 1
