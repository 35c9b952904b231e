"""What every adapter to a stream does, whichever client or fake it is.

A test class gives `stream`: a `Stream` with fresh topics. Waiting is always for something, with a deadline; nothing
here sleeps and hopes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import confluent_kafka
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import (
    Consumer,
    Message,
    Partition,
    PartitionNotOwned,
    Producer,
    QueueFull,
    RebalanceInProgress,
)
from tests.support.kafka_partition import kafka_partition

# Seconds, on a machine with other work, until a condition that does not come true is a failure.
PATIENCE = 90.0


class Stream(Protocol):
    """The adapter under test."""

    def topic(self, partitions: int = 1) -> str: ...
    def consumer(self, group: str, **settings: Any) -> Consumer: ...
    def producer(self, **settings: Any) -> Producer: ...
    def forget(self, partition: Partition, before: int) -> None:
        """Retention: the messages before this offset are held no longer, or more of them."""


def wait_until(condition: Callable[[], Any], what: str, pause: float = 0.01) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"in {PATIENCE:.0f} s it did not come to this: {what}"
        time.sleep(pause)  # leaves the core to what is waited for


def take(consumer: Consumer, count: int) -> list[Message]:
    """So many messages, however many polls they take; not one more may come along."""
    got: list[Message] = []
    wait_until(lambda: got.extend(consumer.poll(0.2)) or len(got) >= count, f"{count} messages")
    assert len(got) == count
    return got


def fill(stream: Stream, topic: str, values: Collection[bytes | None], key: bytes | None = b"k") -> None:
    producer = stream.producer()
    for value in values:
        producer.send(topic, value, key)
    producer.flush()
    producer.close()


def commit(consumer: Consumer, offsets: dict[Partition, int]) -> None:
    """Commit; where the group is being shared out again, poll and try again, as a program does."""

    def done() -> bool:
        try:
            consumer.commit(offsets)
        except RebalanceInProgress:
            assert consumer.poll(0.1) == []
            return False
        return True

    wait_until(done, "a commit")


@dataclass
class Member:
    """One consumer in a loop on a thread of its own, as in a process of its own; what it does last, it does there."""

    consumer: Consumer
    got: list[Message] = field(default_factory=list)
    holds: frozenset[Partition] = frozenset()
    over: threading.Event = field(default_factory=threading.Event)
    last: Callable[[], None] = lambda: None

    def loop(self) -> None:
        while not self.over.is_set():
            self.got += self.consumer.poll(0.1)
            self.holds = self.consumer.assignment()
        self.last()

    def leave(self, before: Callable[[], None] = lambda: None) -> None:
        """Close the consumer, after a last deed, while the others go on polling."""

        def last() -> None:
            before()
            self.consumer.close()

        self.last = last
        self.over.set()


@contextmanager
def polling(*consumers: Consumer) -> Iterator[list[Member]]:
    members = [Member(consumer) for consumer in consumers]
    threads = [threading.Thread(target=member.loop) for member in members]
    for thread in threads:
        thread.start()
    try:
        yield members
    finally:
        for member in members:
            member.over.set()
        for thread in threads:
            thread.join()


def numbers(messages: Collection[Message]) -> list[int]:
    return [int(message.value or b"-1") for message in messages]


def counted(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


class TopicContract:
    """Run by each adapter of tests/system/test_message_stream.py."""

    def test_messages_of_a_partition_come_in_the_order_they_were_sent(self, stream):
        topic = stream.topic()
        fill(stream, topic, counted(3_000))
        with stream.consumer("order") as consumer:
            consumer.subscribe([topic])
            got = take(consumer, 3_000)
        assert numbers(got) == list(range(3_000))
        assert [message.offset for message in got] == list(range(3_000))

    def test_a_key_lies_in_the_partition_that_murmur2_says(self, stream):
        topic, keys = (
            stream.topic(5),
            [b"", b"a", b"123456789012:user/alice", b"\x00\xff\xfe", "ü".encode() * 40],
        )
        producer = stream.producer()
        for key in keys * 3:
            producer.send(topic, key, key)
        producer.close()
        with stream.consumer("keys") as consumer:
            consumer.subscribe([topic])
            got = take(consumer, len(keys) * 3)
        assert {(message.key, message.partition) for message in got} == {
            (key, kafka_partition(key, 5)) for key in keys
        }

    def test_headers_nulls_empty_values_and_any_bytes_arrive_as_they_left(self, stream):
        topic = stream.topic()
        headers = (("source", b"raw/3/17"), ("twice", b"\x00\xff"), ("twice", b""), ("näme", "ü".encode()))
        sent = [
            (None, b"k", ()),
            (b"", b"k", headers),
            (b"\xff\x00\n\r\xed\xa0\x80", b"", ()),
            (b"v", None, headers),
        ]
        producer = stream.producer()
        for value, key, these in sent:
            producer.send(topic, value, key, these)
        producer.close()
        with stream.consumer("bytes") as consumer:
            consumer.subscribe([topic])
            got = take(consumer, len(sent))
        assert [(message.value, message.key, message.headers) for message in got] == sent
        assert all(abs(message.timestamp / 1000 - time.time()) < 3_600 for message in got)

    def test_a_header_without_a_value_is_not_an_empty_one(self, stream):
        topic, producer = stream.topic(), stream.producer()
        producer.send(topic, b"v", b"k", (("none", None), ("empty", b"")))
        producer.close()
        with stream.consumer("null-header") as consumer:
            consumer.subscribe([topic])
            assert take(consumer, 1)[0].headers == (("none", None), ("empty", b""))

    def test_a_record_of_one_mebibyte_passes(self, stream):
        topic, large = stream.topic(), bytes(range(256)) * 4096
        fill(stream, topic, [large, b"small", large])
        with stream.consumer("large") as consumer:
            consumer.subscribe([topic])
            assert [message.value for message in take(consumer, 3)] == [large, b"small", large]

    def test_a_message_past_the_bound_is_refused_where_it_is_sent(self, stream):
        topic, producer = stream.topic(), stream.producer(max_request_size=100_000)
        with pytest.raises(FingerprintError):
            producer.send(topic, bytes(200_000), b"k")
        producer.send(topic, b"v", b"k")
        producer.close()

    def test_a_topic_that_is_not_there_is_said_not_made(self, stream):
        producer = stream.producer()
        with pytest.raises(FingerprintError):
            self.send_until_it_raises(producer)

    def test_a_topic_has_as_many_partitions_as_it_was_made_with(self, stream):
        consumer = stream.consumer("g")
        assert consumer.partition_count(stream.topic(3)) == 3
        with pytest.raises(FingerprintError, match="no topic stranger-made-this"):
            consumer.partition_count("stranger-made-this")
        consumer.close()

    @staticmethod
    def send_until_it_raises(producer: Producer) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            producer.send("stranger-made-this", b"v", b"k")

    def test_who_comes_back_goes_on_after_what_was_committed(self, stream):
        topic = stream.topic()
        fill(stream, topic, counted(10))
        with stream.consumer("resume") as consumer:
            consumer.subscribe([topic])
            take(consumer, 10)
            assert consumer.committed([Partition(topic, 0)]) == {Partition(topic, 0): None}
            consumer.commit({Partition(topic, 0): 6})
        with stream.consumer("resume") as consumer:
            consumer.subscribe([topic])
            assert numbers(take(consumer, 4)) == [6, 7, 8, 9]
            assert consumer.committed([Partition(topic, 0)]) == {Partition(topic, 0): 6}

    def test_a_text_lies_beside_a_committed_offset_until_the_next_commit(self, stream):
        topic = stream.topic(2)
        home, other = Partition(topic, 0), Partition(topic, 1)
        fill(stream, topic, counted(3), keys_of_each(2)[0])
        with stream.consumer("text") as consumer:
            consumer.subscribe([topic])
            take(consumer, 3)
            assert consumer.committed_metadata([home, other]) == {}
            consumer.commit({home: 1}, {home: "2 tries"})
            assert consumer.committed_metadata([home, other]) == {home: (1, "2 tries")}
        with stream.consumer("text") as consumer:
            consumer.subscribe([topic])
            take(consumer, 2)
            assert consumer.committed_metadata([home]) == {home: (1, "2 tries")}
            consumer.commit({home: 3})
            assert consumer.committed_metadata([home]) == {home: (3, "")}

    def test_what_was_not_committed_comes_again(self, stream):
        topic = stream.topic()
        fill(stream, topic, counted(10))
        for _ in range(2):
            with stream.consumer("again") as consumer:
                consumer.subscribe([topic])
                assert numbers(take(consumer, 10)) == list(range(10))

    def test_each_group_reads_for_itself(self, stream):
        topic = stream.topic()
        fill(stream, topic, counted(5))
        for group in ("here", "there"):
            with stream.consumer(group) as consumer:
                consumer.subscribe([topic])
                take(consumer, 5)
                consumer.commit({Partition(topic, 0): 5})

    def test_a_restored_checkpoint_says_where_to_begin(self, stream):
        topic = stream.topic(2)
        for partition_key in keys_of_each(2):
            fill(stream, topic, counted(6), partition_key)
        given: list[Partition] = []
        with stream.consumer("checkpoint") as consumer:

            def restore(partitions: Collection[Partition]) -> dict[Partition, int]:
                given.extend(partitions)
                ends = consumer.end_offsets(partitions)
                return {each: ends[each] - 2 for each in partitions if each.number == 1}

            consumer.subscribe([topic], on_assigned=restore)
            got = take(consumer, 8)
        assert sorted(given) == [Partition(topic, 0), Partition(topic, 1)]
        assert numbers(m for m in got if m.partition == 0) == [0, 1, 2, 3, 4, 5]
        assert numbers(m for m in got if m.partition == 1) == [4, 5]

    def test_an_error_while_restoring_comes_out_of_poll(self, stream):
        topic = stream.topic()

        def broken(_: Collection[Partition]) -> None:
            raise FingerprintError("the checkpoint is torn")

        with stream.consumer("torn") as consumer:
            consumer.subscribe([topic], on_assigned=broken)
            with pytest.raises(FingerprintError, match="torn"):
                wait_until(lambda: consumer.poll(0.2), "an assignment")

    def test_seek_reads_again_from_there_and_skips_to_there(self, stream):
        topic = stream.topic()
        home = Partition(topic, 0)
        fill(stream, topic, counted(10))
        with stream.consumer("seek") as consumer:
            consumer.subscribe([topic])
            take(consumer, 10)
            consumer.seek(home, 7)
            assert numbers(take(consumer, 3)) == [7, 8, 9]
            consumer.seek(home, 2)
            assert numbers(consumer.poll(PATIENCE, max_messages=1)) == [2]
            consumer.seek(home, 9)
            assert numbers(take(consumer, 1)) == [9]

    def test_a_paused_partition_stays_silent_and_loses_nothing(self, stream):
        topic = stream.topic(2)
        homes = [Partition(topic, number) for number in range(2)]
        for partition_key in keys_of_each(2):
            fill(stream, topic, counted(20), partition_key)
        with stream.consumer("pause") as consumer:
            consumer.subscribe([topic])
            first = consumer.poll(PATIENCE, max_messages=1)
            consumer.pause([homes[0]])
            got = [*first]
            wait_until(
                lambda: got.extend(consumer.poll(0.2)) or sum(m.partition == 1 for m in got) == 20,
                "the other one",
            )
            assert consumer.poll(0.3) == []
            assert sum(message.partition == 0 for message in got) == sum(m.partition == 0 for m in first)
            consumer.pause([homes[1]])
            consumer.resume([homes[0]])
            got += take(consumer, 40 - len(got))
        assert [numbers(m for m in got if m.source_partition == home) for home in homes] == [
            list(range(20))
        ] * 2

    def test_a_paused_member_keeps_its_partitions_while_it_polls(self, stream):
        topic = stream.topic()
        fill(stream, topic, counted(3))
        with stream.consumer("held") as consumer:
            consumer.subscribe([topic])
            consumer.poll(PATIENCE, max_messages=1)
            consumer.pause(consumer.assignment())
            assert consumer.poll(0.2) == []
            assert consumer.lag() == {Partition(topic, 0): 2}
            consumer.commit({Partition(topic, 0): 1})
            consumer.resume(consumer.assignment())
            assert numbers(take(consumer, 2)) == [1, 2]

    def test_a_poll_keeps_its_bounds_of_count_and_of_bytes(self, stream):
        topic = stream.topic()
        fill(stream, topic, [bytes(1_000)] * 50)
        with stream.consumer("bounds") as consumer:
            consumer.subscribe([topic])
            got = consumer.poll(PATIENCE, max_messages=7)
            assert 1 <= len(got) <= 7
            while len(got) < 50:
                batch = consumer.poll(PATIENCE, max_bytes=4_500)
                assert 1 <= len(batch) <= 4
                got += batch
        assert [message.offset for message in got] == list(range(50))

    def test_a_message_larger_than_the_bound_comes_alone(self, stream):
        topic = stream.topic()
        fill(stream, topic, [b"a", bytes(100_000), b"b"])
        with stream.consumer("lone") as consumer:
            consumer.subscribe([topic])
            sizes = []
            while len(sizes) < 3:
                batch = consumer.poll(PATIENCE, max_bytes=1_000)
                sizes += [len(message.value) for message in batch]
                assert len(batch) == 1
        assert sizes == [1, 100_000, 1]

    def test_lag_is_what_has_not_been_handed_on(self, stream):
        topic = stream.topic()
        home = Partition(topic, 0)
        fill(stream, topic, counted(10))
        with stream.consumer("lag") as consumer:
            consumer.subscribe([topic])
            got = consumer.poll(PATIENCE, max_messages=4)
            assert consumer.lag() == {home: 10 - len(got)}
            assert (consumer.beginning_offsets([home]), consumer.end_offsets([home])) == (
                {home: 0},
                {home: 10},
            )
            take(consumer, 10 - len(got))
            assert consumer.lag() == {home: 0}

    def test_a_position_that_is_no_longer_held_is_an_error_not_a_jump(self, stream):
        topic = stream.topic()
        home = Partition(topic, 0)
        fill(stream, topic, counted(20))
        with stream.consumer("lost") as consumer:
            consumer.subscribe([topic])
            take(consumer, 20)
            consumer.commit({home: 3})
        stream.forget(home, 10)
        with stream.consumer("lost") as consumer:
            consumer.subscribe([topic])
            with pytest.raises(FingerprintError, match="lost"):
                wait_until(lambda: consumer.poll(0.2), "word of the loss")
        with stream.consumer("lost", auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            got = consumer.poll(PATIENCE)
            assert got[0].offset == consumer.beginning_offsets([home])[home] >= 4

    def test_two_members_share_and_one_leaves(self, stream):
        topic = stream.topic(4)
        patient = {
            "session_timeout_ms": 15_000
        }  # no one dies here: a slow machine throws no one out of the group
        first, second = stream.consumer("share", **patient), stream.consumer("share", **patient)
        taken: list[Partition] = []
        first.subscribe([topic], on_revoked=taken.extend)
        wait_until(lambda: first.poll(0.1) or len(first.assignment()) == 4, "one has all")
        before = first.generation()
        second.subscribe([topic])
        with polling(first, second) as members:
            wait_until(lambda: [len(member.holds) for member in members] == [2, 2], "each has half")
            for key in keys_of_each(4):
                fill(stream, topic, counted(50), key)
            wait_until(lambda: sum(len(member.got) for member in members) == 200, "all was read once")
        halves = [member.holds for member in members]
        assert not halves[0] & halves[1]
        assert set(taken) == halves[1]
        assert all({message.source_partition for message in member.got} == member.holds for member in members)
        assert second.generation() > before
        with polling(first, second) as members:
            members[1].leave(lambda: commit(second, dict.fromkeys(halves[1], 10)))
            wait_until(lambda: len(members[0].holds) == 4, "one has all again")
        assert first.committed(halves[1]) == dict.fromkeys(halves[1], 10)
        first.close()

    def test_who_takes_over_goes_on_where_the_other_committed(self, stream):
        topic = stream.topic(2)
        for key in keys_of_each(2):
            fill(stream, topic, counted(10), key)
        homes = [Partition(topic, number) for number in range(2)]
        leaver, stayer = stream.consumer("over"), stream.consumer("over")
        leaver.subscribe([topic], on_revoked=lambda these: leaver.commit(dict.fromkeys(these, 7)))
        take(leaver, 20)
        stayer.subscribe([topic])
        with polling(leaver, stayer) as members:
            wait_until(lambda: len(members[1].got) == 3, "what was left of one")
            members[0].leave()
            wait_until(lambda: len(members[1].got) == 6, "what was left of the other")
        got = members[1].got
        assert [numbers(m for m in got if m.source_partition == home) for home in homes] == [[7, 8, 9]] * 2
        stayer.close()

    def test_who_keeps_a_partition_works_on_while_others_come(self, stream):
        topic = stream.topic(2)
        first, second = stream.consumer("calm"), stream.consumer("calm")
        given: list[Partition] = []
        taken: list[Partition] = []
        first.subscribe([topic], on_assigned=lambda these: given.extend(these), on_revoked=taken.extend)
        wait_until(lambda: first.poll(0.1) or len(first.assignment()) == 2, "one has all")
        second.subscribe([topic])
        with polling(first, second) as members:
            wait_until(lambda: [len(member.holds) for member in members] == [1, 1], "each has one")
            assert (len(given), len(taken)) == (2, 1)
            members[1].leave()
            wait_until(lambda: len(members[0].holds) == 2, "one has all again")
        assert (len(given), len(taken)) == (3, 1)
        first.close()

    def test_what_is_revoked_can_be_committed_first(self, stream):
        topic = stream.topic()
        fill(stream, topic, counted(10))
        with stream.consumer("last-words") as consumer:
            consumer.subscribe([topic], on_revoked=lambda these: consumer.commit(dict.fromkeys(these, 4)))
            take(consumer, 10)
        with stream.consumer("last-words") as consumer:
            consumer.subscribe([topic])
            assert numbers(take(consumer, 6)) == [4, 5, 6, 7, 8, 9]

    def test_who_was_replaced_under_its_own_name_may_commit_no_more(self, stream):
        topic = stream.topic()
        fill(stream, topic, counted(3))
        old, new = (
            stream.consumer("names", group_instance_id="replica-0"),
            stream.consumer("names", group_instance_id="replica-0"),
        )
        old.subscribe([topic])
        take(old, 3)
        new.subscribe([topic])
        take(new, 3)
        with pytest.raises(PartitionNotOwned):
            old.commit({Partition(topic, 0): 3})
        new.commit({Partition(topic, 0): 3})
        new.close()
        assert new.assignment() == frozenset()
        old.close()

    def test_closing_twice_does_nothing(self, stream):
        topic, producer = stream.topic(), stream.producer()
        producer.send(topic, b"v")
        producer.close()
        producer.close()
        consumer = stream.consumer("twice")
        consumer.subscribe([topic])
        assert len(take(consumer, 1)) == 1
        consumer.close()
        consumer.close()
        assert consumer.assignment() == frozenset()

    def test_a_moment_names_the_first_message_that_was_sent_then_or_later(self, stream):
        topic = stream.topic()
        home = Partition(topic, 0)
        fill(stream, topic, counted(3))
        reader = stream.consumer("reader")
        reader.subscribe([topic])
        times = [message.timestamp for message in take(reader, 3)]
        later = times[-1] + 1
        wait_until(lambda: time.time_ns() // 1_000_000 > later, "a later millisecond")
        fill(stream, topic, counted(2))
        assert reader.offsets_for_time([home], times[0]) == {home: 0}
        assert reader.offsets_for_time([home], later) == {home: 3}
        assert reader.offsets_for_time([home], later + 3_600_000) == reader.end_offsets([home]) == {home: 5}
        assert reader.offsets_for_time([], later) == {}
        reader.close()


def is_sent(producer, topic):
    try:
        producer.send(topic, b"0", b"k")
    except QueueFull:
        return False
    return True


def outlives_an_outage(
    streams: Collection[Stream], outage: Callable[[], AbstractContextManager[None]]
) -> None:
    """Assert of a producer and a consumer of each stream that what is in flight is bounded while the broker is away."""
    with ExitStack() as consumers:
        members = []
        for stream in streams:
            topic, producer = stream.topic(), stream.producer()
            wait_until(
                partial(is_sent, producer, topic), "the topic known"
            )  # asked for within the time to block
            producer.flush()
            consumer = consumers.enter_context(stream.consumer("through"))
            consumer.subscribe([topic])
            take(consumer, 1)
            consumer.commit({Partition(topic, 0): 1})
            members.append((topic, producer, consumer))
        with outage():
            taken = []
            for topic, producer, consumer in members:
                assert consumer.poll(0.2) == []
                taken.append(_fill_memory(producer, topic))
        for (topic, producer, consumer), count in zip(members, taken, strict=True):
            producer.flush()
            producer.close()
            assert numbers(take(consumer, count - 1)) == list(range(1, count))
            commit(consumer, {Partition(topic, 0): count})


class TransactionContract:
    """What adapters to a broker read of a transaction. The class gives `stream` and `broker`."""

    def test_the_end_of_a_transaction_is_read_and_lags_no_more(self, stream, broker):
        topic = stream.topic()
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic, b"0")
        producer.commit_transaction()
        with stream.consumer("transaction") as consumer:
            consumer.subscribe([topic])
            take(consumer, 1)
            wait_until(lambda: consumer.poll(0.1) or consumer.lag() == {Partition(topic, 0): 0}, "no lag")
            assert consumer.end_offsets([Partition(topic, 0)]) == {Partition(topic, 0): 2}


def _fill_memory(producer, topic: str) -> int:
    """Send messages of 4,000 bytes, numbered from 1 on, until the producer's memory is full; return the next number."""
    taken = 1
    while True:
        try:
            producer.send(topic, b"%04000d" % taken, b"k")
        except QueueFull:
            break
        taken += 1
        assert taken < 1_000, "nothing bounds what is in flight"
    assert taken * 4_000 <= 200_000 + 4_000
    return taken


def keys_of_each(partitions: int) -> list[bytes]:
    """One key of each partition, in order of partitions."""
    keys = (b"key-%d" % number for number in range(10_000))
    found: dict[int, bytes] = {}
    for key in keys:
        found.setdefault(kafka_partition(key, partitions), key)
        if len(found) == partitions:
            break
    return [found[number] for number in range(partitions)]
