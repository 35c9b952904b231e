"""Messages become records keyed by their principal, or dead letters; nothing in between."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Entities, Ingest, Kafka, Settings, load_settings
from fingerprint.sources import limits
from fingerprint.streaming import rekeying
from fingerprint.streaming.rekeying import ORIGIN_HEADER_COUNT, DeadLetterLimit, RekeyedBatch, Rekeyer

ALICE = "111122223333:user/alice"
NOON = 1_688_990_400_000  # 2023-07-10T12:00:00Z, ms


def record(number: int, user: str = "alice", time: str = "2023-07-10T12:00:00Z", **fields: Any) -> bytes:
    arn = f"arn:aws:iam::111122223333:user/{user}"
    identity = {"type": "IAMUser", "arn": arn, "accountId": "111122223333", "userName": user}
    return json.dumps(
        {
            "eventVersion": "1.08",
            "userIdentity": identity,
            "eventTime": time,
            "eventSource": "ec2.amazonaws.com",
            "eventName": "DescribeInstances",
            "eventID": f"event-{number}",
            **fields,
        },
        separators=(",", ":"),
    ).encode()


def message(value: bytes | None, offset: int = 0, partition: int = 0, **fields: Any) -> Message:
    defaults = {"key": None, "headers": (), "timestamp": NOON}
    return Message(topic="raw", partition=partition, offset=offset, value=value, **{**defaults, **fields})


def read(values: Sequence[bytes | Message | None], settings: Settings | None = None) -> RekeyedBatch:
    messages = [each if isinstance(each, Message) else message(each, n) for n, each in enumerate(values)]
    (batch,) = Rekeyer(settings or Settings()).rekey(messages)
    return batch


def header(outgoing: Any, name: str) -> str:
    return next(value for key, value in outgoing.headers if key == name).decode()


def wrapped(*records: bytes) -> bytes:
    return b'{"Records":[' + b",".join(records) + b"]}"


def test_a_bare_record_goes_out_as_aws_wrote_it_under_its_principal() -> None:
    batch = read([record(0)])
    assert [(each.value, each.key) for each in batch.records] == [(record(0), ALICE.encode())]
    assert not batch.dead_letters


@pytest.mark.parametrize(
    "wrap",
    [
        wrapped,
        lambda *records: gzip.compress(wrapped(*records)),
        lambda *records: gzip.compress(b"\n".join(records)),
        lambda *records: b"\n".join(records),
        lambda *records: b" ".join(records),
        lambda *records: b"[" + b",".join(records) + b"]",
        lambda *records: json.dumps(
            {
                "messageType": "DATA_MESSAGE",
                "logEvents": [{"message": each.decode()} for each in records],
            }
        ).encode(),
    ],
    ids=["delivery", "gzip", "gzipped lines", "lines", "one after the other", "array", "CloudWatch Logs"],
)
def test_whatever_wraps_records_each_goes_out_alone_and_in_order(wrap: Any) -> None:
    records = [record(0), record(1, "bob"), record(2)]
    batch = read([wrap(*records)])
    assert [json.loads(each.value)["eventID"] for each in batch.records] == ["event-0", "event-1", "event-2"]
    assert [each.key for each in batch.records] == [
        ALICE.encode(),
        b"111122223333:user/bob",
        ALICE.encode(),
    ]
    assert not batch.dead_letters


def test_an_eventbridge_event_is_opened() -> None:
    envelope = {"detail-type": "AWS API Call via CloudTrail", "detail": json.loads(record(7))}
    assert json.loads(read([json.dumps(envelope).encode()]).records[0].value)["eventID"] == "event-7"


@pytest.mark.parametrize("granularity", ["principal_service", "principal", "service"])
def test_the_key_is_the_principal_whatever_has_a_fingerprint(granularity: Any) -> None:
    batch = read([record(0)], Settings(entities=Entities(granularity=granularity)))
    assert batch.records[0].key == ALICE.encode()


def test_a_poison_message_costs_its_neighbours_nothing() -> None:
    batch = read([record(0), b'{"eventVersion": "1.08", "eventTi', record(2), b"\xff\xfe\x00", record(4)])
    assert [json.loads(each.value)["eventID"] for each in batch.records] == ["event-0", "event-2", "event-4"]
    assert [header(each, "offset") for each in batch.dead_letters] == ["1", "3"]


def test_a_dead_letter_says_where_it_came_from_and_why_and_is_the_message_byte_for_byte() -> None:
    poison = b'{"Records": [{"broken'
    mine = (("trace", b"\x00\xff"),)
    batch = read([message(poison, 41, partition=3, key=b"k", headers=mine)])
    (letter,) = batch.dead_letters
    assert (letter.value, letter.key) == (poison, b"k")
    assert [header(letter, name) for name in ("topic", "partition", "offset")] == ["raw", "3", "41"]
    assert "malformed JSON" in header(letter, "reason")
    assert letter.headers[ORIGIN_HEADER_COUNT:] == mine


def test_one_unreadable_record_of_many_makes_one_letter_and_the_others_go_out() -> None:
    bad = b'{"eventVersion":"1.08","eventTime":"soon"}'
    batch = read([wrapped(record(0), bad, bad, record(1))])
    assert len(batch.records) == 2
    assert [header(each, "reason") for each in batch.dead_letters] == [
        "no usable eventTime (and 1 more in this message)"
    ]


def test_a_torn_second_document_leaves_the_first_one_whole() -> None:
    batch = read([record(0) + b"\n" + record(1)[:-9], record(2)])
    assert [json.loads(each.value)["eventID"] for each in batch.records] == ["event-0", "event-2"]
    assert [header(each, "offset") for each in batch.dead_letters] == ["0"]


def test_nothing_and_what_is_no_event_by_design_are_counted_and_no_dead_letters() -> None:
    batch = read(
        [None, b"", b'{"messageType": "CONTROL_MESSAGE", "logEvents": []}', b'{"Event":"s3:TestEvent"}']
    )
    assert (batch.records, batch.dead_letters) == ([], [])
    assert (batch.empty, batch.skipped) == (2, 2)


def test_a_gzip_bomb_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_DOCUMENT_BYTES", 1 << 20)
    bomb = gzip.compress(b" " * (8 << 20))
    batch = read([record(0), bomb, record(1)])
    assert len(batch.records) == 2
    (reason,) = (header(each, "reason") for each in batch.dead_letters)
    assert reason.startswith("expands to more than 1,048,576 bytes")
    assert f"({len(bomb):,} bytes of gzip; 0 records came before)" in reason


def test_a_record_too_large_for_a_message_is_a_dead_letter() -> None:
    large = record(1, userAgent="x" * 5000)
    batch = read([wrapped(record(0), large)], Settings(kafka=Kafka(max_request_size=4000)))
    assert [json.loads(each.value)["eventID"] for each in batch.records] == ["event-0"]
    assert "larger than the 4,000 bytes" in header(batch.dead_letters[0], "reason")


def test_a_letter_too_large_to_be_sent_says_where_the_message_lies() -> None:
    batch = read([message(b"x" * 9000, 77)], Settings(kafka=Kafka(max_request_size=4000)))
    (letter,) = batch.dead_letters
    assert (letter.value, header(letter, "offset")) == (None, "77")
    assert "9,000 bytes are too many for a letter" in header(letter, "reason")


def test_the_watermark_is_the_latest_time_seen_in_the_source_partition() -> None:
    times = ["12:00:05", "12:00:03", "12:00:09"]
    values = [message(record(n, time=f"2023-07-10T{time}Z"), n) for n, time in enumerate(times)]
    other = message(record(9, time="2023-07-10T11:00:00Z"), 0, partition=1)
    batch = read([values[0], other, *values[1:]])
    marks = [(header(each, "source"), int(header(each, "watermark")) - NOON) for each in batch.records]
    assert marks == [("raw/0/0", 5000), ("raw/1/0", -3_600_000), ("raw/0/1", 5000), ("raw/0/2", 9000)]


def test_where_messages_are_cut_into_polls_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    values = [record(n, time=f"2023-07-10T12:{rng.integers(60):02}:00Z") for n in range(60)]
    values[7:7] = [wrapped(*values[:5]), b"poison", gzip.compress(wrapped(*values[5:9]))]
    messages = [message(value, n, partition=int(rng.integers(3))) for n, value in enumerate(values)]
    (whole,) = Rekeyer(Settings()).rekey(messages)
    cut = Rekeyer(Settings())
    parts = [batch for start in range(0, 63, 7) for batch in cut.rekey(messages[start : start + 7])]
    assert [each for part in parts for each in part.records] == whole.records
    assert [each for part in parts for each in part.dead_letters] == whole.dead_letters


def test_a_record_dated_ahead_of_its_arrival_is_a_dead_letter_and_moves_no_watermark() -> None:
    batch = read([record(0), record(1, time="2031-01-01T00:00:00Z"), record(2)])
    assert [int(header(each, "watermark")) for each in batch.records] == [NOON] * 2
    assert batch.future_dated == 1
    (letter,) = batch.dead_letters
    assert "dated in the future" in header(letter, "reason")


@pytest.mark.parametrize("timestamp", [0, -1, 4_070_908_800_000])
def test_an_arrival_that_is_unknown_or_the_producers_own_word_is_now(timestamp: int) -> None:
    """Some connectors copy the event's time into Kafka's timestamp, and a producer may send none."""
    values = [record(0), record(1, time="2099-01-01T00:00:00Z")]
    (batch,) = Rekeyer(Settings(), lambda: NOON).rekey(
        [message(value, n, timestamp=timestamp) for n, value in enumerate(values)]
    )
    assert (len(batch.records), batch.future_dated, len(batch.dead_letters)) == (1, 1, 1)


def test_much_that_expands_is_passed_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fingerprint.compute.backend.HOST_BATCH_BYTES", 2000)
    messages = [message(gzip.compress(wrapped(*[record(n)] * 5)), n) for n in range(4)]
    batches = list(Rekeyer(Settings()).rekey(messages))
    assert [(batch.begin, batch.end) for batch in batches] == [(0, 2), (2, 4)]
    assert [header(each, "source") for batch in batches for each in batch.records] == [
        f"raw/0/{n}" for n in range(4) for _ in range(5)
    ]


def test_a_batch_can_be_cut_at_a_message() -> None:
    batch = read([wrapped(record(0), record(1)), b"poison", record(2), b"poison"])
    assert [len(batch.truncated_at(end).records) for end in range(5)] == [0, 2, 2, 3, 3]
    assert [len(batch.truncated_at(end).dead_letters) for end in range(5)] == [0, 0, 1, 1, 2]


def limit(**settings: Any) -> DeadLetterLimit:
    return DeadLetterLimit(Ingest(**settings))


def test_a_few_dead_letters_never_stop_and_many_do() -> None:
    dead = np.zeros(1000, bool)
    dead[:90] = True
    assert limit(max_dead_letters=100, max_dead_letter_share=0.5).exceeded_at(dead) is None
    dead[:150] = True
    assert limit(max_dead_letters=100, max_dead_letter_share=0.5).exceeded_at(dead) == 99


def test_the_limit_is_a_share_of_the_last_messages_and_forgets_the_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rekeying, "DEAD_LETTER_WINDOW", 10)
    settings = {"max_dead_letters": 3, "max_dead_letter_share": 0.4}
    sparse = np.tile([True, False, False, False], 50)
    assert limit(**settings).exceeded_at(sparse) is None
    assert limit(**settings).exceeded_at(np.concatenate([sparse, np.ones(5, bool)])) is not None


def test_where_polls_are_cut_does_not_move_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rekeying, "DEAD_LETTER_WINDOW", 50)
    rng = np.random.default_rng(1)
    dead = rng.random(500) < np.linspace(0, 0.8, 500)
    settings = {"max_dead_letters": 20, "max_dead_letter_share": 0.5}
    whole = limit(**settings).exceeded_at(dead)
    cut = limit(**settings)
    found = [
        start + at
        for start in range(0, 500, 13)
        if (at := cut.exceeded_at(dead[start : start + 13])) is not None
    ]
    assert whole == found[0]


def test_a_limit_that_can_never_be_reached_is_refused() -> None:
    with pytest.raises(FingerprintError, match=r"ingest\.max_dead_letters: expected at most 1000"):
        load_settings(environment={"FINGERPRINT_INGEST__MAX_DEAD_LETTERS": "1001"})
