"""The topics of a stream are made by program: the three adapters keep one contract, and the program is safe to repeat."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fingerprint.adapters.kafka.confluent_admin import ConfluentTopicAdmin
from fingerprint.adapters.kafka.kafka_python_admin import KafkaPythonTopicAdmin
from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.core.ports.topics import TopicAdmin, TopicSpec
from fingerprint.core.settings import Kafka, Settings
from pipelines.commands.topics import (
    TopicOptions,
    create_or_grow,
    create_topics,
    list_topics,
    print_created_topics,
    print_topics,
    retry_while_unavailable,
)
from pipelines.runtime import wiring
from tests.contracts.topic_admin import BrokerContract, TopicsContract
from tests.support.manual_clock import ManualClock
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import MemoryTopicAdmin, on
from tests.support.services.kafka import Broker

NUMBERS = count()
START = datetime(2026, 3, 2, tzinfo=UTC)
CLIENTS = [
    pytest.param(KafkaPythonTopicAdmin, id="kafka-python"),
    pytest.param(ConfluentTopicAdmin, id="confluent"),
]


@pytest.fixture
def name() -> Callable[[], str]:
    return lambda: f"made-{next(NUMBERS)}"


class TestKafkaPython(TopicsContract, BrokerContract):
    @pytest.fixture
    def topics(self, broker: Broker) -> Iterator[TopicAdmin]:
        with KafkaPythonTopicAdmin(Kafka(bootstrap_servers=(broker.address,))) as opened:
            yield opened


class TestConfluent(TopicsContract, BrokerContract):
    @pytest.fixture
    def topics(self, broker: Broker) -> Iterator[TopicAdmin]:
        with ConfluentTopicAdmin(Kafka(bootstrap_servers=(broker.address,))) as opened:
            yield opened


class TestMemory(TopicsContract):
    @pytest.fixture
    def topics(self, memory: MemoryBroker) -> Iterator[TopicAdmin]:
        with MemoryTopicAdmin(Kafka(**on(memory))) as opened:
            yield opened


def guarded(broker: Broker, folder: Path, password: str, milliseconds: int = 20_000) -> Kafka:
    """A login over TLS, as consumers have it."""
    (folder / "password").write_text(password)
    login: dict[str, Any] = {
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "reader",
        "sasl_password_file": str(folder / "password"),
    }
    trust = {"tls": True, "ssl_ca_file": str(broker.authority.file)}
    return Kafka(
        bootstrap_servers=(broker.at("SASL_TLS"),), request_timeout_ms=milliseconds, **login, **trust
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_who_makes_topics_logs_in_as_consumers_do(broker: Broker, tmp_path: Path, client: Any) -> None:
    with client(guarded(broker, tmp_path, "open sesame")) as topics:
        assert topics.describe(["nothing"]) == {}


@pytest.mark.parametrize("client", CLIENTS)
def test_who_is_not_let_in_is_told_so_soon(broker: Broker, tmp_path: Path, client: Any) -> None:
    with pytest.raises(FingerprintError, match="does not let us in") as caught:
        client(guarded(broker, tmp_path, "abracadabra", 1_500))
    assert not isinstance(caught.value, ServerUnavailable)  # asking again is no use


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_that_does_not_answer_is_away(client: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(ServerUnavailable, match=r"no broker answers at 127\.0\.0\.1:1"):
        client(Kafka(bootstrap_servers=("127.0.0.1:1",), request_timeout_ms=500))
    assert time.monotonic() - begun < 5


def test_who_answers_for_a_broker_that_is_not_up_yet_is_waited_for() -> None:
    """A proxy takes the connection, and breaks it off."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        Thread(target=_hang_up, args=(proxy,), daemon=True).start()
        with pytest.raises(ServerUnavailable):
            KafkaPythonTopicAdmin(
                Kafka(bootstrap_servers=(f"127.0.0.1:{proxy.getsockname()[1]}",), request_timeout_ms=1500)
            )
        proxy.shutdown(socket.SHUT_RDWR)


def _hang_up(proxy: socket.socket) -> None:
    """On each that comes, until the socket is shut."""
    with suppress(OSError):
        while True:
            proxy.accept()[0].close()


class Stopped(ManualClock):
    """What was waited for comes at `at` seconds."""

    def __init__(self, at: float = math.inf) -> None:
        super().__init__(START)
        self.at, self.tries = START + timedelta(seconds=min(at, 1e6)), 0

    def broker(self) -> str:
        self.tries += 1
        if self.time < self.at:
            raise ServerUnavailable("no broker answers")
        return "an answer"


@pytest.fixture
def memory() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def settings(memory: MemoryBroker) -> Settings:
    return Settings.model_validate({"kafka": on(memory)})


def partitions(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["topic"]: row["partitions"] for row in rows}


TRAFFIC = ("cloudtrail", "fingerprint.events", "fingerprint.alerts", "fingerprint.votes")
BESIDE = ("fingerprint.feed-gaps", "cloudtrail.dlq", "fingerprint.events.dlq")


def test_all_topics_of_the_settings_are_made_and_a_second_run_changes_nothing(settings: Settings) -> None:
    assert set(partitions(list_topics(settings)).values()) == {0}
    done = create_topics(settings, TopicOptions(), wait=0)
    assert partitions(done) == dict.fromkeys(TRAFFIC, 4) | dict.fromkeys(BESIDE, 1)
    assert {row["did"] for row in done} == {"made"}
    again = create_topics(settings, TopicOptions(), wait=0)
    assert {(row["did"], row["note"]) for row in again} == {("kept", "")}
    assert partitions(again) == partitions(done) == partitions(list_topics(settings))


def test_an_events_topic_grows_only_when_that_is_said_and_the_rule_is_told(settings: Settings) -> None:
    create_topics(settings, TopicOptions(2), wait=0)
    told = {row["topic"]: row for row in create_topics(settings, TopicOptions(4), wait=0)}
    assert told["cloudtrail"]["did"] == "grew from 2"
    events = told["fingerprint.events"]
    assert (events["did"], events["partitions"]) == ("kept", 2)
    assert "Stop ingest" in events["note"]
    assert "--partitions 4 --grow" in events["note"]
    assert partitions(create_topics(settings, TopicOptions(4, grow=True), wait=0))["fingerprint.events"] == 4
    assert (
        partitions(create_topics(settings, TopicOptions(1), wait=0))["fingerprint.events"] == 4
    )  # none is taken away


@pytest.mark.parametrize("wrong", [3, 12, 512])
def test_partitions_that_state_cannot_be_cut_into_are_refused(settings: Settings, wrong: int) -> None:
    with pytest.raises(FingerprintError, match=rf"--partitions is {wrong}: .* 1, 2, 4, ... 256"):
        create_topics(settings, TopicOptions(wrong), wait=0)
    assert {row["partitions"] for row in list_topics(settings)} == {0}


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_the_events_topic_holds_what_a_training_reads_and_messages_fit(broker: Broker, client: str) -> None:
    names = {
        f"{each}_topic": f"{client}.{each}" for each in ("raw", "events", "alerts", "votes", "feed_gaps")
    }
    kafka = {"client": client, "bootstrap_servers": [broker.address], **names}
    settings = Settings.model_validate({"kafka": kafka})
    for _ in range(2):
        create_topics(settings, TopicOptions(2, 1), wait=30)
    found = {row["topic"]: row for row in list_topics(settings)}
    assert [found[names[f"{each}_topic"]]["partitions"] for each in ("raw", "events", "feed_gaps")] == [
        2,
        2,
        1,
    ]
    assert found[names["events_topic"]]["retention_days"] == 35
    assert found[names["raw_topic"]]["retention_days"] == 7  # Kafka's own
    with wiring.open_topic_admin(settings.kafka) as topics:
        stamped = {each.name: each.timestamp_type for each in topics.describe(list(names.values())).values()}
    assert stamped.pop(names["raw_topic"]) == "LogAppendTime", "a sender does not choose when"
    assert set(stamped.values()) == {"CreateTime"}
    assert {row["message_bytes"] >= settings.kafka.max_request_size for row in found.values()} == {True}


def test_a_topic_that_holds_less_than_is_wanted_is_named_and_left_alone(broker: Broker) -> None:
    with KafkaPythonTopicAdmin(Kafka(bootstrap_servers=(broker.address,))) as topics:
        topics.create(TopicSpec("brief", 1, retention_ms=3_600_000, max_message_bytes=1_000_000))
        (done,) = create_or_grow(
            topics, [TopicSpec("brief", 1, None, 86_400_000, 2_000_000, "LogAppendTime")], set()
        )
        assert "set its retention.ms" in done["note"]
        assert "set its max.message.bytes" in done["note"]
        assert "set its message.timestamp.type to LogAppendTime" in done["note"]
        assert topics.describe(["brief"])["brief"].retention_ms == 3_600_000


def test_a_broker_that_starts_at_the_same_time_is_waited_for() -> None:
    clock = Stopped(at=20)
    assert retry_while_unavailable(clock.broker, 60, clock) == "an answer"
    assert clock.tries > 5


def test_a_broker_that_stays_away_is_named_when_the_wait_is_over() -> None:
    clock = Stopped()
    with pytest.raises(ServerUnavailable, match="no broker answers"):
        retry_while_unavailable(clock.broker, 60, clock)
    assert clock.now() - START == timedelta(seconds=60)


def test_the_program_says_what_it_did(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    print_topics(list_topics(settings))
    assert (
        "fingerprint.events         not there: `fingerprint topics create` makes it"
        in capsys.readouterr().out
    )
    print_created_topics(create_topics(settings, TopicOptions(2), wait=0))
    print_created_topics(create_topics(settings, TopicOptions(4), wait=0))
    said = capsys.readouterr().out
    assert "made         fingerprint.events         2 partitions\n" in said
    assert "grew from 2  cloudtrail                 4 partitions\n" in said
    assert "fingerprint.events: more partitions would move principals" in said
