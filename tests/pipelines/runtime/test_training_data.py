"""What a training reads: a span of days out of files, objects and topics; what it must not read, it does not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core import time_range
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME, TimeRange
from fingerprint.sources.active import SOURCE
from pipelines.cli.console import no_progress
from pipelines.runtime import training_data
from pipelines.runtime import training_data as topic_reread
from pipelines.runtime.training_data import TrainingDataRequest
from tests.support.memory_clients import CLIENT
from tests.support.sample_organisation import SampleOrganisation, lines_of, write
from tests.support.services.aws import bucket
from tests.support.services.kafka import Broker
from tests.support.stream_environment import Place, keyed

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
Gather = Callable[..., tuple[EventSpool, dict[str, int]]]


def record(at: datetime, name: str = "", **fields: Any) -> bytes:
    """GetUser at a time; its id is the time, unless it has a name."""
    identity = {"type": "IAMUser", "accountId": "111122223333", "userName": "alice"}
    made = {"eventVersion": "1.08", "userIdentity": identity, "eventTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    made |= {"eventSource": "iam.amazonaws.com", "eventName": "GetUser", "eventID": name or f"{at:%d-%H}"}
    return json.dumps(made | fields).encode()


def day(number: int) -> datetime:
    return FIRST + timedelta(days=number)


def hours(begin: int, end: int) -> list[bytes]:
    """A record an hour, from day `begin` up to day `end`."""
    return [record(day(begin) + timedelta(hours=hour)) for hour in range((end - begin) * 24)]


@pytest.fixture
def gather() -> Iterator[Gather]:
    """A history filled; it lasts as long as the test."""
    with ExitStack() as stack:

        def filled(
            sources: Sequence[str | Path] = (),
            span: TimeRange = ALL_TIME,
            topic: str | None = None,
            settings: Settings | None = None,
        ) -> tuple[EventSpool, dict[str, int]]:
            settings = settings or Settings()
            history = stack.enter_context(EventSpool(settings, span=span))
            wanted = TrainingDataRequest(tuple(map(str, sources)), topic, span)
            return history, training_data.load_history(wanted, history, settings, no_progress)

        yield filled


def times(history: EventSpool) -> list[str]:
    return [f"{at:%m-%dT%H}" for chunk in history.batches() for at in chunk["event_time"]]


# --- a span of time -----------------------------------------------------------------------------------------------------


def test_only_the_wanted_days_are_kept_and_the_others_are_counted(tmp_path: Path, gather: Gather) -> None:
    file = write(tmp_path / "all.jsonl", hours(0, 5)[::-1])
    history, _ = gather([file], time_range.parse_time_range("2026-03-02", "2026-03-04"))
    assert (times(history)[0], times(history)[-1]) == ("03-02T00", "03-03T23")
    assert (history.events, history.outside_span, history.records) == (48, 72, 120)


@pytest.mark.parametrize(
    ("days", "first"), [(1, "03-04T23"), (1.5, "03-04T11"), (0.01, "03-05T23"), (99, "03-01T00")]
)
def test_the_last_days_are_counted_from_the_newest_event_wherever_it_is_read(
    tmp_path: Path, gather: Gather, days: float, first: str
) -> None:
    files = [write(tmp_path / f"{n}.jsonl", part) for n, part in enumerate((hours(3, 5), hours(0, 3)))]
    history, _ = gather(files, time_range.parse_time_range(days=days))
    found = times(history)
    assert (found[0], found[-1]) == (first, "03-05T23")
    assert len(found) == history.events == 120 - history.outside_span
    assert history.earliest_event_time() is not None


def test_a_few_records_delivered_again_do_not_begin_a_history_and_many_old_ones_do(
    tmp_path: Path, gather: Gather
) -> None:
    """Where a history begins says whether the bank already knows it."""
    a_day = hours(3, 5)
    for old, begins in ((hours(0, 1)[:5], day(3)), (hours(0, 2), day(0))):
        history, _ = gather([write(tmp_path / f"{len(old)}.jsonl", [*a_day, *old])])
        found = datetime.fromtimestamp(history.activity_start() or 0, UTC)
        assert begins <= found < begins + timedelta(days=1)
        assert history.earliest_event_time() == int(day(0).timestamp())


def test_days_count_back_from_where_the_span_ends(tmp_path: Path, gather: Gather) -> None:
    file = write(tmp_path / "all.jsonl", hours(0, 5))
    history, _ = gather([file], time_range.parse_time_range(until="2026-03-04", days=1))
    assert (times(history)[0], times(history)[-1]) == ("03-02T23", "03-03T23")


def test_one_record_dated_2199_is_not_the_newest_event(tmp_path: Path, gather: Gather) -> None:
    future = [record(datetime(2199, 1, 1, tzinfo=UTC), f"forged {n}") for n in range(3)]
    file = write(tmp_path / "all.jsonl", future + hours(0, 5))
    history, _ = gather([file], time_range.parse_time_range(days=1))
    assert history.activity_end() == day(5) - timedelta(hours=1)
    assert times(history)[0] == "03-04T23"


def test_a_history_in_which_one_principal_goes_on_alone_does_not_end_with_the_last_event_of_another(
    tmp_path: Path, gather: Gather
) -> None:
    """As in a small account: forty calls a working day of one, and a visit of another on the third day."""
    other = {"type": "IAMUser", "accountId": "111122223333", "userName": "bob"}
    busy = [
        record(day(number) + timedelta(hours=9, minutes=12 * call), f"{number}-{call}")
        for number in range(30)
        for call in range(40)
    ]
    visit = record(day(2) + timedelta(hours=12), "visit", userIdentity=other)
    history, _ = gather([write(tmp_path / "all.jsonl", [*busy, visit])])
    assert (history.events, history.after_end) == (1201, 0)


@pytest.mark.parametrize("more", [[], [day(40)] * 60])
def test_what_one_of_two_principals_dates_past_the_end_is_dropped(
    tmp_path: Path, gather: Gather, more: list[datetime]
) -> None:
    both = [{"type": "IAMUser", "accountId": "111122223333", "userName": name} for name in ("bob", "eve")]
    usual = [
        record(day(0) + timedelta(minutes=10 * call), f"usual {call}", userIdentity=both[call % 2])
        for call in range(1200)
    ]
    forged = [record(at, f"forged {n}", userIdentity=both[1]) for n, at in enumerate([day(39), *more])]
    history, _ = gather([write(tmp_path / "all.jsonl", [*usual, *forged])])
    assert (history.events, history.after_end) == (1200, len(forged))


@pytest.mark.parametrize(
    "span", [time_range.parse_time_range("2027-01-01"), time_range.parse_time_range(until="2020-01-01")]
)
def test_where_nothing_lies_in_the_span_it_is_said_which_the_history_has(
    tmp_path: Path, gather: Gather, span: TimeRange
) -> None:
    file = write(tmp_path / "all.jsonl", hours(0, 5))
    with pytest.raises(
        FingerprintError, match=f"no event {span}: the history has 2026-03-01 to 2026-03-05T23"
    ):
        gather([file], span)


def test_nothing_to_read_at_all_is_one_sentence(gather: Gather) -> None:
    with pytest.raises(FingerprintError, match="name files, folders or URLs, or a --topic"):
        gather()


# --- S3 -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trail() -> Iterator[str]:
    """Ten days of an account's trail and of an organisation's. What must not be fetched is broken, and would be a reject."""
    with bucket() as url:
        store = fsspec.filesystem("s3")
        for owner in ("111122223333", "o-abc123/444455556666"):
            for number in range(10):
                sound = 3 <= number <= 6
                at = day(number)
                lines = b",".join(hours(number, number + 1)) if sound else b"broken"
                key = f"{url}/AWSLogs/{owner}/CloudTrail/eu-west-1/{at:%Y/%m/%d}/x_{at:%Y%m%dT2355Z}.json.gz"
                store.pipe(key, gzip.compress(b'{"Records": [' + lines + b"]}"))
        yield f"{url}/AWSLogs/"


def test_objects_whose_day_lies_outside_are_not_fetched(trail: str, gather: Gather) -> None:
    history, figures = gather(
        [trail], time_range.parse_time_range("2026-03-05", "2026-03-07")
    )  # days 4 and 5
    assert figures == {"objects": 20, "not_fetched": 12, "months_not_listed": 0, "other_logs": 0}
    assert (history.rejected, history.outside_span, history.events) == (0, 2 * 48, 2 * 48)


def test_objects_long_before_the_last_days_are_not_fetched_either(trail: str, gather: Gather) -> None:
    _, figures = gather([trail.removesuffix("/") + "/111122223333"], time_range.parse_time_range(days=1))
    assert figures["not_fetched"] == 6  # of 10; the others are: the newest event may be a day before its key


def test_where_no_key_lies_in_the_span_it_is_said_which_days_there_are(trail: str, gather: Gather) -> None:
    with pytest.raises(FingerprintError, match=r"no event from 2027-01-01: there are objects of 2026-03$"):
        gather([trail], time_range.parse_time_range("2027-01-01"))


YEARS = [
    f"AWSLogs/{owner}CloudTrail/{region}/{month}/{day:02}/a.jsonl"
    for owner in ("111122223333/", "o-abc123/444455556666/")
    for region in ("eu-west-1", "us-east-1")
    for month in ("2024/12", "2025/12", "2026/01", "2026/02", "2026/03")
    for day in (1, 2, 28)
]
BESIDE = [  # in the same bucket, and no trail's
    "AWSLogs/111122223333/vpcflowlogs/eu-west-1/2024/12/01/a.jsonl",
    "AWSLogs/111122223333/CloudTrail/eu-west-1/2026/13/01/a.jsonl",
    "AWSLogs/111122223333/CloudTrail/eu-west-1/notes.jsonl",
    "AWSLogs/first.jsonl",
    "elsewhere/2024/12/01/a.jsonl",
]
TOPS = ["", "AWSLogs", "AWSLogs/", "AWSLogs/o-abc123", "AWSLogs/111122223333/CloudTrail/"]
SPANS = [
    ALL_TIME,
    time_range.parse_time_range("2026-01-30", "2026-02-02"),
    time_range.parse_time_range("2026-02-28"),
    time_range.parse_time_range(until="2025-06-01"),
    time_range.parse_time_range(days=3),
]


@pytest.fixture
def years(tmp_path: Path) -> Path:
    for name in YEARS + BESIDE:
        write(tmp_path / name, [record(day(0))])
    return tmp_path


@pytest.mark.parametrize("top", TOPS)
@pytest.mark.parametrize("span", SPANS, ids=str)
def test_what_is_read_is_the_same_whether_months_are_looked_into_or_not(
    years: Path, top: str, span: TimeRange
) -> None:
    source = f"{years}/{top}"
    every = files.find_files([source])
    days = [SOURCE.object_day(file.path) for file in every]
    wide = span.anchored_at_day(time_range.newest_day(days, datetime.now(UTC).date()))
    assert files.find_files_in_span([source], span).files == [
        file for file in every if wide.may_contain_day(SOURCE.object_day(file.path))
    ]


def test_months_that_lie_outside_are_not_even_listed(years: Path) -> None:
    near = files.find_files_in_span(
        [f"{years}/AWSLogs"], time_range.parse_time_range("2026-02-10", "2026-02-20")
    )
    assert len(near.unlisted) == 4 * 4  # of five months of four trails
    days = {SOURCE.object_day(file.path) for file in near.found} - {None}
    assert days == {date(2026, 2, number) for number in (1, 2, 28)}
    assert len(near.files) == len(BESIDE) - 2
    assert near.other_logs == 1  # the folder of flow logs
    last = files.find_files_in_span([f"{years}/AWSLogs"], time_range.parse_time_range(days=2))
    assert {(each.year, each.month) for each in last.unlisted} == {(2024, 12), (2025, 12), (2026, 1)}


# --- a topic ------------------------------------------------------------------------------------------------------------


class Topic:
    """The events topic of one test, and what its scorers have committed."""

    def __init__(self, place: Place) -> None:
        self.place, self.name = place, place.settings.kafka.events_topic

    def commit(self, offset: int) -> None:
        """A scorer has read so far, in every partition."""
        consumer = self.place.consumer()
        consumer.subscribe([self.name])
        homes = set(self.place.homes())
        while set(consumer.assignment()) != homes:
            consumer.poll(0.1, 1)
        consumer.commit(dict.fromkeys(homes, offset))
        consumer.close()

    def committed(self) -> dict[Partition, int | None]:
        with self.place.consumer() as consumer:
            found: dict[Partition, int | None] = consumer.committed(self.place.homes())
            return found


@pytest.fixture(params=[CLIENT, "kafka-python", "confluent"], ids=["memory", "kafka-python", "confluent"])
def topic(request: pytest.FixtureRequest, tmp_path: Path) -> Topic:
    """On a real broker by either client, and the fake."""
    client = request.param
    broker: Broker | None = None if client == CLIENT else request.getfixturevalue("broker")
    return Topic(
        Place(
            tmp_path, tmp_path / "bank", client, broker, f"gather-{client.partition(':')[0]}-{tmp_path.name}"
        ).create()
    )


@pytest.fixture(scope="module")
def of_files(organisation: SampleOrganisation) -> list[Any]:
    """The batches of a history that was read from files of two days: the id and the record of each event."""
    with EventSpool(Settings()) as history:
        sources = TrainingDataRequest(tuple(organisation.learned[:2]), None, ALL_TIME)
        training_data.load_history(sources, history, Settings(), no_progress)
        return [each[["event_id", "raw"]].values.tolist() for each in history.batches()]


@pytest.mark.parametrize("how", ["records", "columns"])
def test_a_topic_is_learned_as_the_same_records_in_files_are(
    topic: Topic, organisation: SampleOrganisation, gather: Gather, of_files: list[Any], how: str
) -> None:
    lines = lines_of(organisation.learned[:2])
    topic.place.send(keyed(lines)) if how == "records" else topic.place.send_by_columns(lines)
    history, _ = gather(topic=topic.name, settings=topic.place.settings)
    assert history.records == len(lines)
    assert [each[["event_id", "raw"]].values.tolist() for each in history.batches()] == of_files


def test_no_ones_place_in_a_topic_moves_when_it_is_learned_from(topic: Topic, gather: Gather) -> None:
    topic.place.send((b"alice", line) for line in hours(0, 2))
    topic.commit(0)
    before = topic.committed()
    with topic.place.consumer() as scorer:  # one of its scorers is there all the time
        scorer.subscribe([topic.name])
        scorer.poll(0.2, 1)
        history, _ = gather(topic=topic.name, settings=topic.place.settings)
    assert history.events == 48
    assert topic.committed() == before


def test_two_may_learn_from_a_topic_at_a_time_and_each_has_all_of_it(topic: Topic) -> None:
    topic.place.send((f"user {n}".encode(), line) for n, line in enumerate(hours(0, 2)))
    one = topic_reread.reread_messages(topic.name, topic.place.settings)
    other = topic_reread.reread_messages(topic.name, topic.place.settings)
    first = next(one)  # and it stays, while the other reads
    rest = [message for messages in other for message in messages]
    mine = first + [message for messages in one for message in messages]
    assert len(rest) == len(mine) == 48


def test_what_cannot_be_read_in_a_topic_is_named_by_its_offset(topic: Topic, gather: Gather) -> None:
    topic.place.send([(b"k", record(day(0))), (b"k", b'{"eventVersion": "1.08"}')])
    history, _ = gather(topic=topic.name, settings=topic.place.settings)
    assert (history.events, history.rejected) == (1, 1)
    (reject,) = history.rejects
    assert reject.source.startswith(f"{topic.name}/")
    assert reject.position == "1"


def test_messages_sent_long_before_the_span_are_passed_over(topic: Topic) -> None:
    """Told by when they were sent: of an event that is yet to come nothing was sent long ago."""
    topic.place.send((b"k", line) for line in hours(0, 1))
    now = datetime.now(UTC)
    settings = topic.place.settings
    assert [*topic_reread.reread_messages(topic.name, settings, now + timedelta(days=2))] == []
    read = topic_reread.reread_messages(topic.name, settings, now + timedelta(hours=23))
    assert sum(map(len, read)) == 24


def test_what_comes_while_a_topic_is_read_is_not_waited_for(topic: Topic) -> None:
    topic.place.send((b"k", line) for line in hours(0, 1))
    settings = topic.place.settings
    settings = settings.model_copy(
        update={"kafka": settings.kafka.model_copy(update={"max_poll_records": 5})}
    )
    read = 0
    for messages in topic_reread.reread_messages(topic.name, settings):
        read += len(messages)
        topic.place.send([(b"k", line) for line in hours(1, 2)])
        assert read < 24 + 10
    assert read >= 24


def test_a_topic_that_is_not_there_is_one_sentence(topic: Topic, gather: Gather) -> None:
    with pytest.raises(FingerprintError, match="no topic"):
        gather(topic="nowhere", settings=topic.place.settings)
