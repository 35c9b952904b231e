"""Ingest from a queue of notices loses nothing: a notice is deleted when all that it names has arrived, and not before."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import boto3
import pytest
from prometheus_client import CollectorRegistry

from fingerprint.adapters.aws import sqs
from fingerprint.adapters.aws.s3 import S3Objects
from fingerprint.adapters.aws.session import create_client
from fingerprint.adapters.aws.sqs import SqsQueue, queue_name
from fingerprint.core.errors import FingerprintError, Unavailable
from fingerprint.core.ports.message_stream import DeliveryFailed, Message
from fingerprint.core.ports.object_store import ReceivedMessage
from fingerprint.sources import limits
from fingerprint.streaming import s3_ingest_service, s3_objects
from fingerprint.streaming.metrics import S3IngestMetrics
from fingerprint.streaming.redelivery import isolate_redelivered
from fingerprint.streaming.s3_ingest_service import S3IngestService
from pipelines.commands.dead_letters import replay_pending
from pipelines.ingest import run_ingest_s3
from pipelines.runtime import wiring
from tests.contracts.message_stream import wait_until
from tests.sources.test_s3_notifications import FORMS, TEST, s3, sns
from tests.streaming.test_rekeying import record, wrapped
from tests.support.forked import fingerprint
from tests.support.sent_events import event_ids
from tests.support.services import aws
from tests.system.test_ingest import LIMIT, PEOPLE, Faulty, InMemory, expected, records

FOLDER = "AWSLogs/111122223333/CloudTrail/eu-west-1/2026/01/01"
BRISK = {"visibility_timeout_seconds": 2}
VISIBLE_AGAIN = 0.2  # seconds between two questions of a queue whether a notice is visible again


@pytest.fixture(scope="module")
def amazon() -> Iterator[None]:
    with aws.started():
        yield


class Trail(InMemory):
    """A bucket, its queue of notices, and topics in memory."""

    def __init__(self, name: str) -> None:
        self.bucket = name
        super().__init__()
        self.s3, self.sqs = boto3.client("s3"), boto3.client("sqs")
        self.s3.create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": os.environ["AWS_DEFAULT_REGION"]}
        )
        self.url = self.sqs.create_queue(QueueName=name)["QueueUrl"]

    def configure(self, **settings: Any) -> None:
        """Its own bucket may be read, unless another is named."""
        super().configure(**settings | {"sqs": {"allowed_buckets": (self.bucket,)} | settings.get("sqs", {})})

    def put(self, key: str, *lines: bytes, body: bytes | None = None) -> str:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body or gzip.compress(wrapped(*lines)))
        return key

    def notify(self, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.sqs.send_message(QueueUrl=self.url, MessageBody=text)

    def write(self, key: str, *lines: bytes, body: bytes | None = None) -> None:
        """As CloudTrail and S3 do: the object, then its notice."""
        self.notify(s3(self.put(key, *lines, body=body), self.bucket))

    def queue(self) -> SqsQueue:
        return self._kept(SqsQueue(self.url, self.settings.sqs))

    def notices(self, queue: Any = None, objects: Any = None, producer: Any = None) -> S3IngestService:
        return S3IngestService(
            queue or self.queue(),
            objects or S3Objects(self.url),
            producer or self.producer(),
            self.settings,
            S3IngestMetrics(CollectorRegistry()),
        )

    def turn(self, **adapters: Any) -> dict[str, int]:
        """One take and what follows; no one waits for a second one."""
        program = self.notices(**adapters)
        try:
            program.run_once(lambda: False)
        finally:
            for adapter in (program.queue, program.producer):
                self.close(adapter)
        return program.metrics.figures()

    def left(self) -> dict[str, int]:
        """How many notices are in the queue, and how many of them are hidden."""
        names = {"there": "ApproximateNumberOfMessages", "hidden": "ApproximateNumberOfMessagesNotVisible"}
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=list(names.values()))
        return {name: int(answer["Attributes"][long]) for name, long in names.items()}

    def letter(self) -> dict[str, str]:
        (message,) = self.read(self.dlq)
        return {name: (value or b"").decode() for name, value in message.headers}


NOTHING = {"there": 0, "hidden": 0}


@pytest.fixture
def trail(amazon: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trail]:
    monkeypatch.setattr(sqs, "WAIT_TIME_SECONDS", 1)
    monkeypatch.setattr(s3_ingest_service, "MAX_LOST_RECEIVES", 3)
    opened = Trail(f"trail-{abs(hash(request.node.nodeid)):x}")
    opened.configure()
    opened.create()
    yield opened
    opened.end()


def headers(trail: Trail, name: str) -> set[str]:
    return {(dict(message.headers)[name] or b"").decode() for message in trail.read(trail.events)}


def test_an_object_that_was_written_arrives_whatever_tells_of_it(trail: Trail) -> None:
    """In each form, bare and inside SNS; tests/sources/test_s3_notifications.py reads each of them."""
    lines = records(24)
    for number, name in enumerate(FORMS):
        for inside in (False, True):
            own, lines = lines[:4], lines[4:]
            notice = FORMS[name](trail.put(f"{FOLDER}/{number} {inside}=é b+c.json.gz", *own), trail.bucket)
            trail.notify(sns(notice) if inside else notice)
    figures = trail.turn()
    assert trail.ids() == expected(24)
    assert (figures["messages"], figures["objects"], figures["records"]) == (6, 6, 24)
    assert trail.left() == NOTHING


def test_everything_goes_out_as_aws_wrote_it_under_its_principal_and_says_where_it_came_from(
    trail: Trail,
) -> None:
    trail.write(f"{FOLDER}/a.json.gz", *records(4))
    trail.turn()
    found = trail.read(trail.events)
    assert {message.value for message in found} == set(records(4))
    assert {message.key for message in found} == {f"111122223333:user/{name}".encode() for name in PEOPLE}
    (source,) = headers(trail, "source")
    place, _, sent = source.rpartition("/")
    assert place == f"{queue_name(trail.url)}/0"
    assert sent.isdigit()


def test_the_watermark_waits_for_the_slower_region(trail: Trail) -> None:
    days = {"eu-west-1": "2026-01-02", "us-east-1": "2026-01-01", "ap-east-1": "2026-01-03"}
    for region, day in days.items():
        trail.write(
            f"{FOLDER}/{region}.json.gz".replace("eu-west-1", region, 1), record(0, time=f"{day}T00:00:00Z")
        )
    program = trail.notices()
    program.run_once(lambda: False)
    day = 86_400_000
    newest = 1_767_225_600_000 + 2 * day  # 2026-01-03
    assert set(program.object_reader.watermarks.watermarks.values()) == {
        newest,
        newest - day,
        newest - 2 * day,
    }
    trail.write(f"{FOLDER}/b.json.gz", record(1, time="2026-01-04T00:00:00Z"))
    program.run_once(lambda: False)
    assert program.object_reader.watermarks.low_watermark < newest


def test_a_test_notice_and_an_object_removed_are_deleted_and_counted(trail: Trail) -> None:
    trail.notify(TEST)
    trail.notify(s3(f"{FOLDER}/a.json.gz", trail.bucket, "ObjectRemoved:Delete"))
    figures = trail.turn()
    assert (figures["messages"], figures["tests"], figures["skipped"]) == (2, 1, 1)
    assert (trail.left(), trail.read(trail.dlq)) == (NOTHING, [])


def test_digests_and_insights_are_never_fetched(trail: Trail) -> None:
    for kind in ("CloudTrail-Digest", "CloudTrail-Insight"):
        trail.notify(s3(f"AWSLogs/111122223333/{kind}/eu-west-1/not there.json.gz", trail.bucket))
    assert trail.turn()["skipped"] == 2
    assert trail.read(trail.dlq) == []


def test_a_poison_notice_is_a_dead_letter_and_its_neighbours_arrive(trail: Trail) -> None:
    trail.write("a.json", *records(4)[:2])
    trail.notify("not JSON \u2028")
    trail.write("b.json", *records(4)[2:])
    figures = trail.turn()
    assert trail.ids() == expected(4)
    assert (figures["messages"], figures["dead_letters"]) == (3, 1)
    assert trail.left() == NOTHING
    letter = trail.letter()
    assert letter["topic"] == queue_name(trail.url)
    assert letter["reason"].startswith("not a notice of objects written")
    assert [message.value for message in trail.read(trail.dlq)] == ["not JSON \u2028".encode()]


def test_a_missing_object_is_a_dead_letter_that_names_it(trail: Trail) -> None:
    trail.notify(s3("gone.json.gz", trail.bucket))
    trail.turn()
    assert trail.letter()["reason"] == f"s3://{trail.bucket}/gone.json.gz cannot be read: NoSuchKey"
    assert trail.left() == NOTHING


@pytest.mark.parametrize("bucket", ["no-such-bucket-anywhere", "../etc", ""])
def test_a_bucket_that_is_none_is_a_dead_letter(trail: Trail, bucket: str) -> None:
    trail.configure(sqs={"allowed_buckets": ("*",)})  # whichever the role may read
    trail.notify(s3("a.json.gz", bucket))
    trail.turn()
    assert trail.letter()["reason"].startswith(f"s3://{bucket}/a.json.gz ")
    assert trail.left() == NOTHING


def test_ingest_that_no_bucket_was_named_to_does_not_start(trail: Trail) -> None:
    trail.configure(sqs={"allowed_buckets": ()})
    with pytest.raises(FingerprintError, match=r"sqs\.allowed_buckets is empty: name the buckets"):
        run_ingest_s3(trail.settings, trail.url)
    assert not trail.settings.sqs.allows_bucket(trail.bucket)


def test_a_bucket_that_the_settings_do_not_name_is_not_read(trail: Trail) -> None:
    trail.configure(sqs={"allowed_buckets": ("ours",)})
    trail.write("forged.json.gz", *records(4))
    trail.turn()
    assert trail.ids() == []
    assert "sqs.allowed_buckets does not name its bucket" in trail.letter()["reason"]


def test_of_a_damaged_object_what_is_whole_arrives_and_the_rest_is_one_letter(trail: Trail) -> None:
    trail.write("a.jsonl", body=b"\n".join([records(4)[0], b"{broken", *records(4)[1:], b"broken}"]))
    trail.turn()
    assert trail.ids() == expected(4)
    reason = trail.letter()["reason"]
    assert f"s3://{trail.bucket}/a.jsonl 2)" in reason
    assert reason.endswith("(and 1 more in this message)")


class Breaking:
    """A store whose connection to some keys breaks, so many times, after the first chunk."""

    def __init__(self, store: S3Objects, keys: Sequence[str], times: int = 1_000) -> None:
        self.store, self.keys, self.left = store, keys, times

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        for chunk in self.store.read(bucket, key):
            yield chunk
            if key in self.keys and self.left:
                self.left -= 1
                raise Unavailable("connection broken")


def test_an_object_that_may_not_be_read_keeps_its_notice_in_the_queue(trail: Trail) -> None:
    trail.write("a.json", *records(4))
    with aws.allowed("sqs:*"):
        figures = trail.turn()
    assert (figures["messages"], figures["deferred"], figures["dead_letters"]) == (0, 1, 0)
    assert trail.left() == {"there": 0, "hidden": 1}


def test_a_connection_that_breaks_in_the_middle_costs_neither_the_object_nor_its_neighbours(
    trail: Trail,
) -> None:
    trail.configure(sqs=BRISK)
    many = [record(number, requestParameters={"x": os.urandom(600).hex()}) for number in range(1_500)]
    trail.write("a.jsonl", body=b"\n".join(many))
    trail.write("b.json", *records(4))
    program = trail.notices(objects=Breaking(S3Objects(trail.url), ["a.jsonl"], times=1))
    program.run_once(lambda: False)
    assert trail.left() == {"there": 0, "hidden": 1}
    assert set(trail.ids()) >= set(expected(4))
    wait_until(lambda: trail.left()["there"], "the notice that was kept, visible again", VISIBLE_AGAIN)
    program.run_once(lambda: False)
    assert sorted(set(trail.ids())) == expected(1_500)
    assert trail.left() == NOTHING


def test_once_ends_when_only_what_cannot_be_had_is_left(trail: Trail) -> None:
    trail.configure(sqs=BRISK)
    for key in ("a.json", "b.json"):
        trail.write(key, *records(4))
    store = Breaking(S3Objects(trail.url), ["a.json"])
    figures = trail.notices(objects=store).run(lambda: False, once=True)
    assert (figures["messages"], sorted(set(trail.ids()))) == (1, expected(4))
    assert sum(trail.left().values()) == 1


@pytest.mark.parametrize("method", ["send", "flush"])
def test_what_did_not_arrive_leaves_its_notice_in_the_queue(trail: Trail, method: str) -> None:
    trail.configure(sqs=BRISK)
    trail.write("a.json", *records(8))
    with pytest.raises(DeliveryFailed):
        trail.turn(producer=Faulty(trail.producer(), method, DeliveryFailed("broker away")))
    assert sum(trail.left().values()) == 1
    wait_until(lambda: trail.left()["there"], "the notice, visible again", VISIBLE_AGAIN)
    trail.turn()
    assert sorted(set(trail.ids())) == expected(8)
    assert trail.left() == NOTHING


def test_a_notice_that_could_not_be_deleted_comes_again_and_repeats_reduce_by_id(trail: Trail) -> None:
    trail.configure(sqs=BRISK)
    trail.write("a.json", *records(8))
    figures = trail.turn(queue=Faulty(trail.queue(), "delete", Unavailable("no answer")))
    assert figures["lost"] == 1
    wait_until(lambda: trail.left()["there"], "the notice, visible again", VISIBLE_AGAIN)
    trail.turn()
    assert sorted(set(trail.ids())) == expected(8)
    assert trail.left() == NOTHING


class Slow:
    """A store whose objects take as long as someone looks for their notice in vain."""

    def __init__(self, store: S3Objects, in_the_meantime: Callable[[], None]) -> None:
        self.store, self.in_the_meantime = store, in_the_meantime

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        for chunk in self.store.read(bucket, key):
            self.in_the_meantime()
            yield chunk


def test_while_a_slow_object_is_read_no_other_worker_is_given_its_notice(trail: Trail) -> None:
    trail.configure(sqs=BRISK)  # hidden for 2 s, read for 5
    trail.write("a.json", *records(4))
    given: list[Any] = []

    def look() -> None:
        answer = trail.sqs.receive_message(QueueUrl=trail.url, WaitTimeSeconds=5, VisibilityTimeout=0)
        given.extend(answer.get("Messages", []))

    figures = trail.turn(objects=Slow(S3Objects(trail.url), look))
    assert (given, figures["lost"]) == ([], 0)
    assert trail.left() == NOTHING


def test_two_workers_share_a_queue_and_nothing_is_done_twice(trail: Trail) -> None:
    for number in range(24):
        trail.write(f"{number}.json", record(number))
    one, two = trail.notices(), trail.notices()
    while sum(trail.left().values()):
        one.run_once(lambda: False)
        two.run_once(lambda: False)
    assert trail.ids() == expected(24)
    done = [each.metrics.figures()["messages"] for each in (one, two)]
    assert sum(done) == 24
    assert all(done)


def test_asked_to_end_it_finishes_its_notice_and_gives_the_others_back(trail: Trail) -> None:
    for number in range(5):
        trail.write(f"{number}.json", record(number))
    program = trail.notices()
    program.run(lambda: program.metrics.figures()["objects"] >= 2)
    assert program.metrics.figures()["messages"] == 2
    assert trail.left() == {"there": 3, "hidden": 0}
    trail.turn()
    assert trail.ids() == expected(5)


def test_too_many_dead_letters_stop_it_and_what_follows_stays_in_the_queue(trail: Trail) -> None:
    trail.configure(ingest=LIMIT)
    for _ in range(8):
        trail.notify("poison")
    with pytest.raises(
        FingerprintError, match=r"5 or more of the last 1,000 messages of http.*could not be read"
    ):
        trail.turn()
    assert len(trail.read(trail.dlq)) == 5
    assert trail.left() == {"there": 3, "hidden": 0}


def test_a_large_object_is_read_in_bounded_pieces(trail: Trail) -> None:
    line = record(0, userAgent="x" * 2_000)
    count, most = 16_000, 500
    trail.configure(reading={"batch_records": most})
    trail.write("a.jsonl.gz", body=gzip.compress(b"\n".join([line] * count)))
    program = trail.notices(producer=Counting())
    tracemalloc.start()
    program.run_once(lambda: False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert program.metrics.figures()["records"] == program.producer.sent == count
    assert peak < len(line) * count / 2


class Counting:
    """A producer that keeps nothing, so that memory is the reader's alone."""

    sent = 0

    def partition_count(self, topic: str) -> int:
        return 4

    def send(self, topic: str, value: bytes, *_: Any) -> None:
        self.sent += len(event_ids([Message(topic, 0, 0, value=value)]))

    def flush(self) -> None: ...

    def close(self) -> None: ...


def test_a_bomb_is_a_dead_letter_and_its_neighbours_arrive(
    trail: Trail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_DOCUMENT_BYTES", 4 << 20)
    trail.write("bomb.json.gz", body=gzip.compress(bytes(16 << 20), 9) * 8)
    trail.write("b.json", *records(4))
    trail.turn()
    assert trail.ids() == expected(4)
    assert "larger than" in trail.letter()["reason"]


@pytest.mark.parametrize("junk", [b"{}", b'{"digestStartTime": 1}'])
def test_an_object_of_little_more_than_junk_is_given_up_and_its_letter_says_so(
    trail: Trail, monkeypatch: pytest.MonkeyPatch, junk: bytes
) -> None:
    """A megabyte of gzip may hold a billion of them, and each costs as much as a few records."""
    monkeypatch.setattr(s3_objects, "MAX_UNREADABLE", 50)
    trail.configure(reading={"batch_records": 20})
    own, later = records(8)[:4], records(8)[4:]
    trail.write("junk.jsonl.gz", body=gzip.compress(b"\n".join([*own, *[junk] * 1_000, *later])))
    trail.write("b.json", *records(12)[8:])
    figures = trail.turn()
    assert set(trail.ids()) == set(expected(4)) | set(expected(12)) - set(expected(8))
    assert (figures["dead_letters"], figures["objects"]) == (1, 1)
    said = "junk.jsonl.gz: the rest of it is not read, for 57 of its records were no events, and 4 were"
    assert said in trail.letter()["reason"]
    assert trail.left() == NOTHING


def test_an_object_with_more_records_than_junk_is_read_to_its_end(
    trail: Trail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_objects, "MAX_UNREADABLE", 5)
    trail.configure(reading={"batch_records": 20})
    trail.write("mixed.jsonl", body=b"\n".join(each + b"\n{}" for each in records(60)) + b"\n" + record(60))
    trail.turn()
    assert trail.ids() == expected(61)
    assert "(and 59 more in this message)" in trail.letter()["reason"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_asked_to_end_leaves_nothing_undone(trail: Trail, number: int) -> None:
    trail.write("a.json", *records(20))
    process = fingerprint("ingest", "--sqs", trail.url, environment=trail.environment())
    try:
        wait_until(lambda: trail.ids() == expected(20), "20 records in the events topic")
        wait_until(lambda: trail.left() == NOTHING, "no notice in the queue")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert out.startswith("1 messages: 20 records sent, 0 dead letters")
    assert all(json.loads(line)["logger"] for line in err.splitlines())


def test_once_reads_until_the_queue_is_empty(trail: Trail) -> None:
    for number in range(12):
        trail.write(f"{number}.json", record(number))
    process = fingerprint("ingest", "--sqs", trail.url, "--once", "--json", environment=trail.environment())
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["objects"] == 12
    assert trail.ids() == expected(12)


@pytest.mark.parametrize(
    ("url", "environment", "sentence"),
    [
        ("my-queue", {}, "no URL of a queue; it looks like https://sqs"),
        ("{}-not-there", {}, "there is no such queue"),
        ("{}", {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no AWS credentials"),
        ("{}", {"AWS_DEFAULT_REGION": ""}, "set AWS_REGION"),
        ("{}", {"AWS_ENDPOINT_URL": "nowhere"}, "see AWS_ENDPOINT_URL"),
        ("{}", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "does not answer"),
    ],
)
def test_what_a_person_can_mend_is_one_sentence(
    trail: Trail, monkeypatch: pytest.MonkeyPatch, url: str, environment: dict[str, str], sentence: str
) -> None:
    nothing = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    }
    for name, value in (nothing | environment).items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with (
        pytest.raises(FingerprintError, match=sentence),
        wiring.open_object_queue(url.format(trail.url), trail.settings.sqs),
    ):
        pass


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.us-gov-west-1.amazonaws.com/111122223333/q", "us-gov-west-1"),
        ("https://vpce-1.sqs.ap-southeast-2.vpce.amazonaws.com/111122223333/q", "ap-southeast-2"),
        ("http://127.0.0.1:4566/111122223333/q", "eu-west-1"),
    ],
)
def test_the_region_is_the_queues_where_its_url_tells(amazon: None, url: str, region: str) -> None:
    assert create_client("sqs", url).meta.region_name == region


def test_without_boto3_the_sentence_says_what_to_install(
    trail: Trail, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("fingerprint.adapters.aws")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "boto3", None)
    with (
        pytest.raises(FingerprintError, match=r"boto3.*pip install '\.\[s3\]'"),
        wiring.open_object_queue(trail.url, trail.settings.sqs),
    ):
        pass


def test_a_queue_that_does_not_answer_is_not_ready_and_is_asked_again(trail: Trail) -> None:
    trail.write("a.json", *records(4))
    with aws.started() as port:
        program = trail.notices()
        assert program.not_ready() == "has not asked the queue yet"
    assert not program.run_once(lambda: False)
    assert "does not answer" in (program.not_ready() or "")
    with aws.started(port):
        program.run_once(lambda: False)
    assert program.not_ready() is None
    assert trail.ids() == expected(4)


def test_without_permission_to_delete_the_sentence_names_what_the_role_needs(trail: Trail) -> None:
    trail.configure(sqs=BRISK)
    trail.write("a.json", *records(4))
    may = ("sqs:GetQueueAttributes", "sqs:ReceiveMessage", "s3:GetObject")
    with (
        aws.allowed(*may),
        pytest.raises(FingerprintError, match=r"needs sqs:ReceiveMessage, sqs:DeleteMessage"),
    ):
        trail.turn()
    assert trail.ids() == expected(4)
    assert sum(trail.left().values()) == 1


def test_without_permission_to_hold_it_says_so_before_it_takes_more(trail: Trail) -> None:
    trail.configure(sqs=BRISK)
    trail.write("a.json", *records(4))
    with aws.allowed("sqs:GetQueueAttributes", "sqs:ReceiveMessage"):
        queue = trail.queue()
        assert len(queue.receive()) == 1
        wait_until(lambda: queue.visibility_extender.failure, "a heartbeat that was refused")
        with pytest.raises(FingerprintError, match=r"sqs:ChangeMessageVisibility"):
            queue.receive()


def test_notices_are_given_back_to_their_queue_and_marked(trail: Trail) -> None:
    trail.notify(s3("late.json.gz", trail.bucket))
    trail.turn()
    trail.put("late.json.gz", *records(4))
    with closing(trail.queue()) as queue:
        figures = replay(trail, queue)
    assert (figures["replayed"], figures["to_queue"]) == (0, 1)
    trail.turn()
    assert trail.ids() == expected(4)
    assert trail.letters() == []


def test_notices_are_not_given_to_the_raw_topic_nor_to_another_queue(trail: Trail) -> None:
    trail.notify("poison")
    trail.turn()
    other = SqsQueue(trail.sqs.create_queue(QueueName="another")["QueueUrl"], trail.settings.sqs)
    with closing(other):
        for queue in (None, other):
            with pytest.raises(FingerprintError, match=r"dead-letters replay --sqs QUEUE-URL"):
                replay(trail, queue)
    assert len(trail.letters()) == 1
    assert trail.read(trail.raw) == []


def replay(trail: Trail, queue: Any) -> dict[str, Any]:
    adapters_ = trail.consumer("dead-letters"), trail.producer()
    try:
        return replay_pending(*adapters_, trail.settings, queue)
    finally:
        for adapter in adapters_:
            trail.close(adapter)


def test_a_notice_that_was_taken_often_by_readers_that_died_is_a_dead_letter_unread(trail: Trail) -> None:
    trail.configure(
        sqs={"visibility_timeout_seconds": 60}
    )  # a slow machine takes longer than BRISK for five receives
    trail.write(f"{FOLDER}/a.json.gz", *records(4))
    queue = trail.queue()
    for _ in range(4):
        queue.return_to_queue(queue.receive())  # sooner than one that lives lets it come
    trail.write(f"{FOLDER}/b.json.gz", *records(8)[4:])
    while trail.left() != NOTHING:
        trail.turn()
    assert trail.ids() == expected(8)[4:]
    assert (
        trail.letter()["reason"]
        == "received 5 times, and 4 readers neither finished it nor put it back: it may kill its reader"
    )


def test_who_ends_with_an_error_makes_its_notices_wait(trail: Trail) -> None:
    trail.configure(sqs=BRISK)
    trail.write("a.json", *records(4))
    queue = trail.queue()
    for _ in range(2):
        queue.return_to_queue(queue.receive())
    with pytest.raises(DeliveryFailed):
        trail.turn(producer=Faulty(trail.producer(), "flush", DeliveryFailed("broker away")))
    time.sleep(BRISK["visibility_timeout_seconds"] + 1)
    assert trail.left() == {"there": 0, "hidden": 1}


def test_what_was_taken_before_is_worked_on_last_and_alone() -> None:
    notices = [
        ReceivedMessage(name, "", Message("q", 0, 0), receives)
        for name, receives in [("a", 1), ("b", 9), ("c", 3), ("d", 2)]
    ]
    assert [[each.id for each in batch] for batch in isolate_redelivered(notices)] == [
        ["a", "d"],
        ["c"],
        ["b"],
    ]
