"""Through the stream: an account that stops its log is noticed, once, whatever happens to the scorer in the meantime."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fingerprint.core.alert import FeedGap
from pipelines.cli.app import app
from tests.support import sample_organisation
from tests.support.crashing_stream import kill_stream
from tests.support.memory_broker import MemoryBroker
from tests.support.stream_environment import Place, keyed

SILENT, OTHER = "111111111111", "222222222222"
REGIONS = ("eu-west-1", "us-east-1")
STOPPED = timedelta(hours=40)  # before the end of the records
MISSED = {("account", SILENT), *(("region", f"{SILENT}/{region}") for region in REGIONS)}
Records = list[tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def records(organisation: sample_organisation.SampleOrganisation) -> Records:
    """Every third record of all twelve days, keyed, in the order of delivery, dealt out to two accounts of two regions each;
    one account stops in the eleventh day. A gap wants many days, not many records a day."""
    found = [json.loads(line) for line in sample_organisation.lines_of(organisation.days)[::3]]
    end = max(map(when, found))
    for number, record in enumerate(found):
        record["recipientAccountId"] = (SILENT, OTHER)[number % 2]
        record["awsRegion"] = REGIONS[number // 2 % 2]
    kept = [each for each in found if each["recipientAccountId"] == OTHER or when(each) < end - STOPPED]
    return keyed([json.dumps(each, separators=(",", ":")).encode() for each in kept])


def when(record: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(record["eventTime"])


@pytest.fixture
def place(organisation: sample_organisation.SampleOrganisation, tmp_path: Path) -> Place:
    return Place(tmp_path, organisation.bank).create()


def feeds(notices: Iterable[FeedGap]) -> list[tuple[str, str]]:
    return sorted((notice.kind, notice.feed) for notice in notices if not notice.ended_at)


def told(place: Place) -> dict[str, dict[str, Any]]:
    """The topic, reduced by id."""
    said = [json.loads(message.value or b"") for message in place.read(place.settings.kafka.feed_gaps_topic)]
    return {notice["notice_id"]: notice for notice in said}


@pytest.fixture(scope="module")
def undisturbed(
    organisation: sample_organisation.SampleOrganisation,
    records: Records,
    tmp_path_factory: pytest.TempPathFactory,
) -> Place:
    """Where an undisturbed run has been."""
    place = Place(tmp_path_factory.mktemp("oracle"), organisation.bank).create()
    place.send(records)
    place.run()
    return place


@pytest.fixture(scope="module")
def oracle(undisturbed: Place) -> list[FeedGap]:
    """What an undisturbed run notices."""
    return undisturbed.store().feeds.gaps()


def test_an_account_that_stops_its_log_is_one_notice_and_one_for_each_of_its_regions(
    oracle: list[FeedGap], records: Records
) -> None:
    assert feeds(oracle) == sorted(MISSED)
    assert len(oracle) == len(MISSED)
    last = max(when(json.loads(value)) for _, value in records if SILENT.encode() in value)
    assert {notice.since for notice in oracle} == {last.replace(minute=0, second=0) + timedelta(hours=1)}
    assert min(notice.urgency for notice in oracle) > 80


def test_the_topic_has_each_notice_under_its_id(undisturbed: Place, oracle: list[FeedGap]) -> None:
    messages = told(undisturbed)
    assert messages.keys() == {notice.notice_id for notice in oracle}
    assert {(notice["kind"], notice["feed"]) for notice in messages.values()} == MISSED
    assert all(notice["schema"] == 1 and notice["ended_at"] is None for notice in messages.values())


STEPS = [
    ("consumer", "commit", "before", 3),
    ("store", "feeds.save_counts", "after", 10),
    ("store", "feeds.save_gaps", "before", 1),
    ("store", "feeds.save_gaps", "after", 12),
]


def test_killed_in_between_again_and_again_it_notices_the_same(
    place: Place, records: Records, oracle: list[FeedGap]
) -> None:
    place.configure(kafka={"max_poll_records": 67})
    place.send(records)
    for step in STEPS:
        kill_stream(place, *step)
    place.run()
    assert place.store().feeds.gaps() == oracle
    assert told(place).keys() == {notice.notice_id for notice in oracle}


def test_a_log_that_stops_altogether_is_noticed_by_the_clock(place: Place, records: Records) -> None:
    """Two days without one more record: the other account, its regions, and the way by which all came."""
    place.send(records)
    place.run()
    place.pass_days(2)
    place.run()
    others = {("account", OTHER), *(("region", f"{OTHER}/{region}") for region in REGIONS)}
    source = ("source", place.settings.kafka.events_topic)
    assert feeds(place.store().feeds.gaps()) == sorted(MISSED | others | {source})


def test_a_topic_that_was_made_again_with_fewer_partitions_is_still_watched(
    place: Place, records: Records
) -> None:
    """The checkpoints of the earlier topic are left behind, as the program asks; the alert store is the same."""
    place.send(records)
    place.run()
    place.broker = MemoryBroker()
    place.configure(checkpoints={"url": str(place.folder / "checkpoints of one partition")})
    place.create(partitions=1)
    place.send(records[-100:])
    place.run()
    place.pass_days(2)
    place.run()
    assert ("account", OTHER) in feeds(place.store().feeds.gaps())
    assert list(place.store().feeds.complete_until()) == place.homes()


def test_an_account_that_is_heard_again_ends_its_notices(
    place: Place, records: Records, organisation: sample_organisation.SampleOrganisation
) -> None:
    """A day of its records comes late: they were on the way."""
    place.send(records)
    place.run()
    begin = max(when(json.loads(value)) for _, value in records) - STOPPED
    others = [value for _, value in records if when(json.loads(value)) > begin]
    theirs = [value.replace(OTHER.encode(), SILENT.encode()) for value in others]
    place.send(keyed([value.replace(b'"eventID":"', b'"eventID":"late-') for value in theirs]))
    place.pass_days(1 / 8)
    place.run()
    notices = place.store().feeds.gaps()
    assert {(each.kind, each.feed) for each in notices if each.ending == "heard again"} == MISSED
    assert all(each["ended_at"] for each in told(place).values() if each["feed"].startswith(SILENT))


def test_notices_are_listed_and_the_queue_mentions_them(place: Place, oracle: list[FeedGap]) -> None:
    store = place.store()
    store.feeds.save_gaps(
        [
            *oracle,
            *(
                replace(each, notice_id=f"x{each.notice_id}", ended_at=each.seen_at, ending="heard again")
                for each in oracle[:1]
            ),
        ],
        1,
    )
    store_url = ["--database", place.settings.database.url]
    everything = json.loads(output("feed-gaps", "list", "--json", *store_url))
    assert [each["notice_id"] for each in everything[:3]] == [each.notice_id for each in oracle]
    assert everything[3]["ending"] == "heard again"
    assert len(json.loads(output("feed-gaps", "list", "--open", "--json", *store_url))) == 3
    assert f"account {SILENT} is silent since" in " ".join(output("feed-gaps", "list", *store_url).split())
    assert "3 feeds with a gap: see `fingerprint feed-gaps list`" in output("alerts", "list", *store_url)


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.output
