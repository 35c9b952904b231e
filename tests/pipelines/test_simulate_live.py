"""A deployment is tried out: the past at once, then, when a bank is served, the last days as they happened."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.registry import versions
from pipelines.commands.topics import TopicOptions, create_topics
from pipelines.runtime.interruptible_clock import InterruptibleClock, StopRequested
from pipelines.simulate import SimulatedOrganisation
from pipelines.simulate_live import simulate_live
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import on
from tests.support.stream_environment import environment

NOW = datetime(2026, 3, 18, 0, 30, tzinfo=UTC)  # half an hour after the last day
SMALL = SimulatedOrganisation(principals=12, days=4, attacks=2, seed=58)
SPEED = 36_000.0  # a day in 2.4 s


def serve_empty_version(bank: Path, version: str) -> None:
    """A version of which only the name is asked for."""
    (bank / "versions" / version).mkdir(parents=True)
    (bank / "versions" / version / "manifest.json").write_text("{}")
    versions.serve_version(bank, version, versions.VersionDecision("train"))


class Place:
    """A stream in a folder, a bank that no one trained yet, and a clock that moves only when someone waits."""

    def __init__(self, folder: Path) -> None:
        self.broker, self.folder, self.bank = MemoryBroker(), folder / "demo", folder / "bank"
        self.settings = Settings.model_validate({"kafka": on(self.broker) | {"group_id": "reader"}})
        create_topics(self.settings, TopicOptions(2), wait=0)
        self.time = NOW
        self.trains_after = 1.0  # seconds of waiting
        self.ends_at = math.inf  # seconds after which it is asked to end
        self.before_bank: int | None = None  # records that were there when a bank came
        self.figures: dict[str, Any] = {}

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        if self.seconds >= self.trains_after and versions.served_version(self.bank) is None:
            self.before_bank = len(self.records())
            serve_empty_version(self.bank, "first")

    @property
    def seconds(self) -> float:
        return (self.time - NOW).total_seconds()

    def asked(self) -> bool:
        return self.seconds >= self.ends_at

    def simulate(self, organisation: SimulatedOrganisation = SMALL, **more: Any) -> dict[str, Any]:
        clock = InterruptibleClock(self, self.asked)
        return simulate_live(organisation, self.folder, self.bank, SPEED, self.settings, clock, **more)

    def records(self) -> list[dict[str, Any]]:
        """All that lie in the raw topic."""
        messages = self.broker.messages(self.settings.kafka.raw_topic)
        return [json.loads(message.value or b"") for message in messages]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A live simulation that runs undisturbed."""
    place = Place(tmp_path_factory.mktemp("over"))
    place.figures = place.simulate()
    return place


def ids(records: list[dict[str, Any]]) -> set[str]:
    return {record["eventID"] for record in records}


def labelled(place: Place) -> set[str]:
    return {json.loads(line)["event_id"] for line in (place.folder / "labels.jsonl").read_text().splitlines()}


def test_the_past_comes_at_once_and_the_last_days_when_a_bank_is_served(over: Place) -> None:
    records = over.records()
    assert over.before_bank == over.figures["past"]
    assert (over.figures["bank"], len(records)) == ("first", over.figures["past"] + over.figures["rest"])
    assert labelled(over) <= ids(records)
    day = timedelta(days=1).total_seconds() / SPEED
    assert 0.9 * day < over.seconds - over.trains_after < 1.2 * day  # the last of four, and what came late
    assert max(record["eventTime"] for record in records) < "2026-03-18T00:00:00Z" <= NOW.isoformat()


def test_attacks_come_when_a_bank_can_see_them(place: Place) -> None:
    place.ends_at = place.trains_after  # the moment at which a bank is there
    with pytest.raises(StopRequested):
        place.simulate()
    assert place.before_bank == len(place.records()) > 0
    assert len(labelled(place)) > len(labelled(place) & ids(place.records())) == 0


def test_a_bank_that_is_served_already_is_not_waited_for_and_records_may_be_kept(place: Place) -> None:
    serve_empty_version(place.bank, "older")
    assert place.simulate(keep=True)["bank"] == "older"
    assert len(list(place.folder.glob("*.jsonl.gz"))) == SMALL.days


def test_a_live_simulation_that_has_ended_sends_nothing_again(over: Place) -> None:
    records, over.time = len(over.records()), over.time + timedelta(days=3)
    assert over.simulate() == over.figures
    assert len(over.records()) == records


def test_one_that_was_ended_goes_on_where_it_was_and_repeats_only_ids(place: Place, over: Place) -> None:
    place.ends_at = place.trains_after + 1.2  # in the middle of the last days
    with pytest.raises(StopRequested):
        place.simulate()
    half = len(place.records())
    assert half > (place.before_bank or 0)
    place.ends_at, place.time = math.inf, NOW + timedelta(days=1, seconds=5)  # another day: the same records
    figures = place.simulate()
    assert figures["until"] == "2026-03-18"
    records = place.records()
    assert len(records) == half + figures["rest"]
    assert labelled(place) <= ids(records)
    assert ids(records) == ids(over.records())


def test_what_was_sent_is_removed_but_for_the_labels(over: Place) -> None:
    assert not list(over.folder.glob("*.jsonl.gz"))
    assert labelled(over)


def test_another_organisation_in_the_same_folder_is_refused(over: Place) -> None:
    with pytest.raises(
        FingerprintError, match=r"holds another live simulation .--principals 12, .* --seed 58.: name"
    ):
        over.simulate(SimulatedOrganisation(principals=12, days=4, attacks=2, seed=59))


def test_the_program_says_what_it_waits_for_and_ends_when_it_is_asked(place: Place) -> None:
    arguments = [
        "--principals",
        "12",
        "--days",
        "4",
        "--attacks",
        "2",
        "--folder",
        place.folder,
        "--bank",
        place.bank,
    ]
    kafka = place.settings.kafka
    program = subprocess.Popen(  # noqa: S603 - the project's own program
        [sys.executable, "-m", "pipelines.cli", "simulate-live", *map(str, arguments)],
        env=environment({"kafka": {"client": kafka.client, "bootstrap_servers": kafka.bootstrap_servers}}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said: list[str] = []
    assert program.stderr is not None
    for line in program.stderr:
        said.append(json.loads(line)["message"])
        if said[-1] == "waits until a bank is served":
            break
    program.send_signal(signal.SIGTERM)
    out, rest = program.communicate(timeout=30)
    assert said == ["simulates an organisation", "sends 3 days at once", "waits until a bank is served"]
    assert (program.returncode, out) == (0, "not done yet: started again, it goes on where it was\n")
    assert "asked to end" in rest
