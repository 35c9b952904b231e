"""Records for the events topic go out by columns where there are many, each in the partition of its principal."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Kafka, Settings
from fingerprint.sources.columnar import is_columnar
from fingerprint.sources.decode import decode_messages
from fingerprint.streaming import event_messages
from fingerprint.streaming.event_messages import (
    MIN_EVENTS,
    EventMessages,
    EventsToSend,
    PartitionCount,
    single_records,
)
from fingerprint.streaming.rekeying import Rekeyer
from tests.streaming.test_rekeying import NOON, message, record
from tests.support.kafka_partition import kafka_partition

USERS = [f"user-{number}" for number in range(40)]


def raw(count: int, **fields: object) -> list[Message]:
    return [
        message(record(number, USERS[number % len(USERS)], **fields), number // 2, number % 2)
        for number in range(count)
    ]


def built(messages: list[Message], partitions: int, settings: Settings | None = None) -> EventsToSend:
    (decoded,) = decode_messages(messages, Settings())
    marks = np.arange(1, len(decoded.events) + 1) * 1000
    return EventMessages(settings or Settings(), lambda: partitions).build(messages, decoded, marks)


def test_few_records_go_out_one_by_one_and_many_as_one_message_a_partition() -> None:
    few, many = built(raw(4 * MIN_EVENTS - 1), 4), built(raw(4 * MIN_EVENTS), 4)
    assert [each.records for each in few.messages] == [1] * (4 * MIN_EVENTS - 1)
    assert len(many.messages) == 4
    assert all(is_columnar(each.value) for each in many.messages)
    assert sum(each.records for each in many.messages) == 4 * MIN_EVENTS


def test_of_a_topic_that_nothing_is_known_of_records_go_out_one_by_one() -> None:
    assert not any(is_columnar(each.value) for each in built(raw(500), 0).messages)


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_each_record_lies_in_the_partition_of_its_principal_in_its_order(partitions: int) -> None:
    messages = raw(600)
    (expected,) = decode_messages(messages, Settings())
    homes = defaultdict[int, list[str]](list)
    for principal, name in zip(expected.events["principal"], expected.events["event_id"], strict=True):
        homes[kafka_partition(principal.encode(), partitions)].append(name)
    found = defaultdict[int, list[str]](list)
    for each in built(messages, partitions).messages:
        (decoded,) = decode_messages([Message("events", 0, 0, value=each.value)], Settings())
        found[kafka_partition(each.key or b"", partitions)] += decoded.events["event_id"].tolist()
    assert found == homes


def test_rows_say_where_they_were_read_and_how_far_their_source_had_come() -> None:
    (outgoing,) = built(raw(100), 1).messages
    (decoded,) = decode_messages([Message("events", 0, 0, value=outgoing.value)], Settings())
    assert decoded.origins is not None
    assert [decoded.origins.sources[code] for code in decoded.origins.source[:3]] == [
        "raw/0",
        "raw/1",
        "raw/0",
    ]
    assert decoded.origins.watermarks.tolist() == [1000 * number for number in range(1, 101)]


def test_more_events_than_a_message_may_have_go_out_in_as_few_as_hold_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_messages, "MAX_EVENTS", 100)
    assert [each.records for each in built(raw(401), 1).messages] == [81, 80, 80, 80, 80]


def test_what_one_message_cannot_hold_is_cut_in_its_order() -> None:
    small = Settings(kafka=Kafka(max_request_size=30_000))
    sent = built(raw(400), 2, small)
    assert len(sent.messages) > 2
    assert all(event_messages.encoded_size(each) <= 30_000 for each in sent.messages)
    assert sum(each.records for each in sent.messages) == 400
    assert sent.sources.tolist() == sorted(sent.sources.tolist())


def test_a_record_that_no_message_can_hold_costs_no_other() -> None:
    messages = raw(200)
    messages[77] = message(record(77, requestParameters={"text": "x" * 40_000}), 38, 1)
    sent = built(messages, 2, Settings(kafka=Kafka(max_request_size=30_000)))
    assert [each.position for each in sent.rejects] == ["77"]
    assert sum(each.records for each in sent.messages) == 199


def test_what_is_sent_before_a_limit_is_all_that_came_before_it() -> None:
    (batch,) = Rekeyer(Settings(), partitions=lambda: 2).rekey(raw(100))
    cut = batch.truncated_at(50)
    held = [
        name
        for each in cut.records
        for decoded in decode_messages([Message("events", 0, 0, value=each.value)], Settings())
        for name in decoded.events["event_id"]
    ]
    assert {f"event-{number}" for number in range(50)} <= set(held)


class _Producer:
    """A producer that knows its topic from the second time on."""

    asked = 0

    def partition_count(self, topic: str) -> int:
        self.asked += 1
        if self.asked == 1:
            raise FingerprintError(f"no word of topic {topic} in time")
        return 6


def test_the_number_of_partitions_is_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(event_messages.time, "monotonic", lambda: now[0])
    producer = _Producer()
    count = PartitionCount(producer, "events")  # type: ignore[arg-type]
    assert (count(), count(), producer.asked) == (0, 0, 1)
    now[0] = event_messages.COUNT_SECONDS + 1
    assert (count(), count(), producer.asked) == (6, 6, 2)


def test_a_table_comes_back_record_by_record_from_where_each_was_read() -> None:
    (sent,) = built(raw(100), 1).messages
    again = single_records(Message("events", 0, 7, value=sent.value), Settings())
    assert [each.value for each in again] == [each.value for each in raw(100)]
    assert [kafka_partition(each.key or b"", 8) for each in again] == [
        kafka_partition(f"111122223333:user/{USERS[number % len(USERS)]}".encode(), 8)
        for number in range(100)
    ]
    assert again[1].headers == (("source", b"raw/1/0"), ("watermark", b"2000"))


def test_ingest_takes_a_table_apart_too() -> None:
    (sent,) = built(raw(100), 1).messages
    (again,) = Rekeyer(Settings()).rekey([Message("raw", 0, 7, value=sent.value, timestamp=NOON)])
    assert [each.value for each in again.records] == [each.value for each in raw(100)]
    assert again.records[0].headers[0] == ("source", b"raw/0/7")
