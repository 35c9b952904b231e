"""The stream against a real broker, through both clients: what the fake of files cannot show."""

from __future__ import annotations

import json
import shutil
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files
from fingerprint.registry.bank import Bank
from pipelines.runtime import topic_time_span
from tests.contracts.message_stream import wait_until
from tests.support import sample_organisation
from tests.support.crashing_stream import kill_stream
from tests.support.running_stream import ids_of, live, serve
from tests.support.services.kafka import Broker
from tests.support.stream_environment import Place, Records, Said
from tests.system.test_stream import SMALL

BRISK = SMALL | {"session_timeout_ms": 3000}
SELDOM = 0.2  # seconds between two questions for each of which a client connects
CLIENTS = ("kafka-python", "confluent")


@pytest.fixture(params=CLIENTS)
def place(
    organisation: sample_organisation.SampleOrganisation,
    tmp_path: Path,
    broker: Broker,
    request: pytest.FixtureRequest,
) -> Place:
    """Topics of their own for each test."""
    return _place(request.node.name, request.param, tmp_path, organisation, broker)


def _place(
    name: str,
    client: str,
    folder: Path,
    organisation: sample_organisation.SampleOrganisation,
    broker: Broker,
) -> Place:
    topics = "".join(letter if letter.isalnum() else "-" for letter in name)[-60:]
    made = Place(folder, organisation.bank, client, broker, topics)
    made.configure(kafka=BRISK, checkpoints={"interval_seconds": 0.2})
    return made.create()


def test_from_a_broker_the_same_is_said_as_from_files(place: Place, records: Records, oracle: Said) -> None:
    place.configure()
    place.send(records)
    place.run()
    assert not place.said().differences(oracle)
    assert place.run()["messages"] == 0
    assert place.committed() == len(records)


def test_how_much_history_a_topic_has_is_seen_at_its_ends(place: Place, records: Records) -> None:
    def days() -> float | None:
        return topic_time_span.topic_span_days(
            place.settings.kafka.events_topic, place.settings, lambda: False
        )

    place.configure()
    assert days() is None
    place.send(records)
    times = [datetime.fromisoformat(json.loads(value)["eventTime"]) for _, value in records]
    assert days() == pytest.approx((max(times) - min(times)) / timedelta(days=1), abs=0.1)


def test_killed_after_a_commit_it_says_the_same(place: Place, records: Records, oracle: Said) -> None:
    """The other steps of a commit depend on no client: tests/system/test_stream.py kills it at each of them."""
    place.send(records)
    kill_stream(place, "consumer", "commit", "after", 3)
    place.run()
    assert not place.said().differences(oracle)


def test_scorers_come_and_go_and_one_is_killed(place: Place, records: Records, oracle: Said) -> None:
    third = len(records) // 3
    first = place.start()
    place.send(records[:third])
    wait_until(lambda: place.committed() > 0, "something is committed", SELDOM)
    second = place.start()
    place.send(records[third : 2 * third])
    wait_until(lambda: place.committed() == 2 * third, "two thirds are committed", SELDOM)
    first.kill()
    place.send(records[2 * third :])
    wait_until(lambda: place.committed() == len(records), "everything is committed", SELDOM)
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    assert not place.said().differences(oracle)


def test_a_broker_that_is_killed_and_comes_back_loses_nothing(
    organisation: sample_organisation.SampleOrganisation,
    tmp_path: Path,
    records: Records,
    oracle: Said,
    broker: Broker,
) -> None:
    """A scorer of each client with topics of its own, so that one outage is enough for both."""
    half = len(records) // 2
    both = [_place(f"outage-{each}", each, tmp_path / each, organisation, broker) for each in CLIENTS]
    scorers = [(place, place.start()) for place in both]
    for place, _ in scorers:
        place.send(records[:half])
    for place, _ in scorers:
        wait_until(lambda place=place: place.committed() > 0, "something is committed")
    broker.kill()
    broker.start()
    for place, running in scorers:
        place.send(records[half:])
        try:
            wait_until(
                lambda place=place: place.committed() == len(records), "everything is committed", SELDOM
            )
        except AssertionError as error:
            raise AssertionError(
                f"{place.client}: {error}; the scorer said:\n{running.err[-4000:]}"
            ) from None
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
        assert not place.said().differences(oracle)


@pytest.mark.parametrize("place", ["confluent"], indirect=True)  # nothing of it depends on the client
def test_a_bank_that_is_published_takes_over_between_two_events(
    place: Place, records: Records, bank: Bank, oracle: Said
) -> None:
    """The same bank under another name: nothing but the name is other than without it."""
    half, another = len(records) // 2, banks.with_manifest_entries(bank, note="another name")
    place.bank = Path(shutil.copytree(place.bank, place.folder / "bank"))
    bank_files.write_bank(another, place.bank)
    place.configure(kafka=BRISK, checkpoints={"interval_seconds": 0.2}, bank={"poll_interval_seconds": 0.1})
    with live(place) as stream:
        stream.read(records[:half])
        serve(place, another.version)
        stream.until(lambda: stream.judged_by() == {another.version})
        stream.read(records[half:])
    said = place.said()
    before, after = ids_of(records[:half]), ids_of(records[half:], records[:half])
    for (event, _), vote in said.votes.items():
        if event in before | after:
            assert vote["bank_version"] == (bank.version if event in before else another.version)
    assert {name: alert.event_ids for name, alert in said.alerts.items()} == {
        name: alert.event_ids for name, alert in oracle.alerts.items()
    }
