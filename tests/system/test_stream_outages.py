"""Outages, rebalances and clocks at the worst moment: while intervals close by the clock, and while someone waits."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fingerprint.adapters.system import SystemClock
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Partition, QueueFull
from fingerprint.streaming.service import LIVENESS_TIMEOUT_SECONDS
from fingerprint.streaming.stream_service import StreamService
from tests.support import sample_organisation
from tests.support.stream_environment import Place, Records, Said


class Interruptible:
    """Anything whose calls fail while `failing`, also those of its parts."""

    def __init__(self, real: Any, shared: dict[str, bool] | None = None) -> None:
        self.real, self.shared = real, {"failing": False} if shared is None else shared

    @property
    def failing(self) -> bool:
        return self.shared["failing"]

    @failing.setter
    def failing(self, failing: bool) -> None:
        self.shared["failing"] = failing

    def __getattr__(self, name: str) -> Any:
        part = getattr(self.real, name)
        return self._call(part) if callable(part) else Interruptible(part, self.shared)

    def _call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            if self.failing:
                raise FingerprintError("the database is away")
            return function(*positional, **named)

        return call


class SteppedClock(SystemClock):
    """The time of the machine and what was added to it; `on_sleep` is called instead of sleeping."""

    def __init__(self, on_sleep: Callable[[], None] = lambda: None) -> None:
        self.ahead, self.on_sleep = timedelta(0), on_sleep

    def now(self) -> datetime:
        return super().now() + self.ahead

    def sleep(self, seconds: float) -> None:
        self.on_sleep()


@pytest.fixture
def place(organisation: sample_organisation.SampleOrganisation, tmp_path: Path) -> Place:
    return _place(organisation, tmp_path, partitions=4)


def _place(organisation: sample_organisation.SampleOrganisation, folder: Path, partitions: int) -> Place:
    made = Place(folder, organisation.bank).create(partitions)
    wait_for_store(made, 0.2)
    return made


def wait_for_store(place: Place, seconds: float) -> None:
    """Let a stream wait so long for its store; it saves its state at its end alone."""
    place.configure(checkpoints={"interval_seconds": 3600}, stream={"database_timeout_seconds": seconds})


@contextmanager
def reading(place: Place, **adapters: Any) -> Iterator[StreamService]:
    """A stream that has joined its group and is closed at the end as the program closes it."""
    with place.consumer() as consumer, place.producer() as producer:
        program = place.program(consumer, producer, **adapters)
        consumer.subscribe([place.settings.kafka.events_topic], program.assigned, program.revoked)
        yield program


def read_to(program: StreamService, messages: int) -> None:
    while sum(owned.offset for owned in program.owned.values()) < messages:
        program.run_once(0.05)


def look_at_the_clock(program: StreamService) -> None:
    program.lag_monitor.next_poll = -math.inf
    program.run_once(0.05)


def believe_the_clock(program: StreamService) -> None:
    """As if it had kept time for long since it was set."""
    program.clock_jumps.lead = program.clock.now().timestamp() - program.clock_jumps.monotonic()


# --- while intervals close by the clock ---------------------------------------------------------------------------


def test_what_the_clock_closed_while_the_store_was_away_is_said_after_all(
    records: Records, oracle: Said, organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """The end of a stream saves its state: not one of which no result is in the store."""
    first_alert = min(oracle.alerts.values(), key=lambda alert: alert.last_event_time)
    ids = [json.loads(value)["eventID"] for _, value in records]
    some = records[: max(map(ids.index, first_alert.event_ids)) + 1]
    undisturbed, place = (
        _place(organisation, tmp_path / name, partitions=1) for name in ("undisturbed", "disturbed")
    )
    undisturbed.send(some)
    undisturbed.run()
    undisturbed.pass_days(5)

    place.send(some)
    store, clock = Interruptible(place.store()), SteppedClock()
    with reading(place, store=store, clock=clock) as program:
        read_to(program, len(some))
        clock.ahead = timedelta(days=2)
        believe_the_clock(program)
        store.failing = True
        with pytest.raises(FingerprintError, match="the database is away"):
            look_at_the_clock(program)
    place.run()
    place.pass_days(5)
    said, expected = place.said(), undisturbed.said()
    assert first_alert.alert_id in expected.alerts
    assert said.votes.keys() == expected.votes.keys()
    assert {name: alert.event_ids for name, alert in said.alerts.items()} == {
        name: alert.event_ids for name, alert in expected.alerts.items()
    }


def test_a_scorer_that_joins_while_another_waits_for_the_store_ends_no_one(
    place: Place, records: Records, oracle: Said
) -> None:
    wait_for_store(place, 60)
    place.send(records)
    store, waits = Interruptible(place.store()), []
    with place.consumer() as other:

        def wait() -> None:
            waits.append(1)
            if len(waits) == 1:
                other.subscribe([place.settings.kafka.events_topic])
            other.poll(0.15)
            store.failing = len(waits) < 6

        clock = SteppedClock(wait)
        with reading(place, store=store, clock=clock) as program:
            read_to(program, len(records))
            clock.ahead = timedelta(days=2)
            believe_the_clock(program)
            store.failing = True
            print("OWN", sorted(program.owned))
            look_at_the_clock(program)
            print("OWN", sorted(program.owned), len(waits))
            assert 0 < len(program.owned) < 4  # it gave some away, and goes on
    place.run()
    place.pass_days(5)
    assert place.said().alerts.keys() >= oracle.alerts.keys()
    assert place.said().votes.keys() >= oracle.votes.keys()


def test_who_waits_for_the_store_is_alive(place: Place, records: Records) -> None:
    """Its liveness is asked all the time, and the wait may be longer than it allows."""
    wait_for_store(place, 60)
    place.send(records[:50])
    store, said = Interruptible(place.store()), []

    def wait() -> None:
        said.append(program.not_alive())
        program.last_iteration -= LIVENESS_TIMEOUT_SECONDS / 2
        store.failing = len(said) < 5

    clock = SteppedClock(wait)
    with reading(place, store=store, clock=clock) as program:
        program.run_once(0.1)
        store.failing = True
        program.last_heartbeat = -math.inf
        program._save_heartbeat()
    assert said == [None] * 5


# --- a message that kills its reader ------------------------------------------------------------------------------


def test_a_partition_that_goes_while_a_dead_letter_waits_for_room_ends_no_one(
    place: Place, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.send(records[:200])
    with reading(place) as program:
        polled = []
        while not polled:
            polled = program.consumer.poll(0.1)
        sent, send = [], program.publisher.producer.send

        def find_no_room(topic: str, *what: Any) -> None:
            sent.append(topic)
            if len(sent) == 1:
                program.revoked([polled[0].source_partition])
                raise QueueFull("full")
            send(topic, *what)

        monkeypatch.setattr(program.publisher.producer, "send", find_no_room)
        program._skip_poison_message(polled[0])
        assert len(program.owned) == 3
        assert sent == ["t.events.dlq"] * 2


# --- clocks ---------------------------------------------------------------------------------------------------------


def test_one_look_at_a_clock_that_is_weeks_ahead_forgets_no_one(place: Place, records: Records) -> None:
    place.send(records)
    clock = SteppedClock()
    with reading(place, clock=clock) as program:
        read_to(program, len(records))
        look_at_the_clock(program)
        before = remembered(program)
        clock.ahead = timedelta(days=60)
        look_at_the_clock(program)
        assert remembered(program) == before
        assert "clock: it jumped ahead by 1,440.0 hours" in (program.not_ready() or "")
        clock.ahead = timedelta(0)
        look_at_the_clock(program)
        assert remembered(program) == before
        assert program.not_ready() is None
    assert all(before)


def remembered(program: StreamService) -> tuple[int, int, int]:
    """How many principals, ids of events and series the partitions know."""
    states = [owned.processor.state.scorer for owned in program.owned.values()]
    return (
        sum(len(each.principals) for each in states),
        sum(len(each.repeats) for each in states),
        sum(len(each.series.owner) for each in states),
    )


# --- while more comes than is read --------------------------------------------------------------------------------------


def test_a_stream_that_is_behind_reports_for_how_long(
    organisation: sample_organisation.SampleOrganisation, records: Records, tmp_path: Path
) -> None:
    place = Place(tmp_path, organisation.bank)
    place.configure(kafka={"max_poll_records": 50})
    place.create().send(records[:400])
    with reading(place) as program:
        program.lag_monitor.lag_age.now = lambda: time.time() + 3_600
        read_to(program, 50)
        look_at_the_clock(program)
        (metric,) = program.metrics.lag_seconds.collect()
        assert 3_600 <= max(sample.value for sample in metric.samples) < 3_700
        read_to(program, 400)
        look_at_the_clock(program)
        assert {sample.value for sample in program.metrics.lag_seconds.collect()[0].samples} == {0}


# --- partitions that are added while a stream runs ------------------------------------------------------------------


def test_partitions_that_are_added_to_a_running_stream_end_it_and_the_next_start_divides_its_state(
    organisation: sample_organisation.SampleOrganisation, records: Records, oracle: Said, tmp_path: Path
) -> None:
    place = Place(tmp_path, organisation.bank).create(2)
    place.send(records[:1500])
    with reading(place) as program:
        read_to(program, 1500)
        program.commit()
        place.create(4)
        with pytest.raises(FingerprintError, match=r"got partitions while it was read, .*start again"):
            program.run(lambda: False)
    assert program.owned.keys() <= {Partition(place.settings.kafka.events_topic, number) for number in (0, 1)}
    place.send(records[1500:])
    assert place.run()["misrouted"] == 0
    end = max(json.loads(value)["eventTime"] for _, value in records)[:10]
    assert not place.said().until(end).differences(oracle.until(end))
