"""A stream for tests: topics in memory or on a real broker, records in them, runs of `fingerprint stream`, their output."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from prometheus_client import CollectorRegistry

from fingerprint.adapters import network_table
from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.adapters.kafka.confluent import ConfluentConsumer
from fingerprint.adapters.kafka.confluent_producer import ConfluentProducer
from fingerprint.adapters.kafka.kafka_python import KafkaPythonConsumer
from fingerprint.adapters.kafka.kafka_python_producer import KafkaPythonProducer
from fingerprint.adapters.system import SystemClock
from fingerprint.compute.backend import HOST_BACKEND
from fingerprint.core.alert import Alert
from fingerprint.core.ports.message_stream import Headers, Message, Partition
from fingerprint.core.settings import Settings
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.store import SqlStore, open_store
from fingerprint.streaming.bank_watcher import BankWatcher
from fingerprint.streaming.bounded_read import poll_until_end
from fingerprint.streaming.checkpoints import OwnedPartition
from fingerprint.streaming.metrics import StreamMetrics
from fingerprint.streaming.publisher import StreamAdapters
from fingerprint.streaming.rekeying import Rekeyer
from fingerprint.streaming.stream_service import StreamService
from pipelines.runtime import wiring
from tests.support.forked import Forked, fingerprint
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import CLIENT, MemoryConsumer, MemoryProducer
from tests.support.services.kafka import Broker

PARTITIONS = 4
TOPICS = ("raw", "events", "alerts", "votes", "feed_gaps")
Records = list[tuple[bytes, bytes]]  # keys and values
ADAPTERS: dict[str, tuple[Any, Any]] = {
    CLIENT: (MemoryConsumer, MemoryProducer),
    "kafka-python": (KafkaPythonConsumer, KafkaPythonProducer),
    "confluent": (ConfluentConsumer, ConfluentProducer),
}


class Place:
    """Topics, an alert store and checkpoints of one test, and the settings by which programs find them."""

    def __init__(
        self, folder: Path, bank: Path, client: str = CLIENT, broker: Broker | None = None, name: str = "t"
    ):
        self.folder, self.bank, self.client, self.name = folder, bank, client, name
        self.broker = broker or MemoryBroker()
        folder.mkdir(parents=True, exist_ok=True)
        self.table: dict[str, Any] = {}
        self.configure()

    def configure(self, **sections: dict[str, Any]) -> None:
        """Settings beyond what a test needs anyway; given again, they replace the ones before."""
        topics = {f"{each}_topic": f"{self.name}.{each}" for each in TOPICS}
        kafka = {
            "client": self.client,
            "bootstrap_servers": (self.broker.address,),
            "group_id": self.name,
            "session_timeout_ms": 10000,
        }
        needed = {
            "kafka": kafka | topics | {"linger_ms": 1},
            "autoencoder": {"max_epochs": 1, "threshold": 2.6},
            "alerts": {"threshold": 2.6},
            "health": {"port": 0},
            "checkpoints": {"url": str(self.folder / "checkpoints"), "interval_seconds": 0.05},
            "database": {"url": f"sqlite:///{self.folder}/alerts.sqlite"},
        }
        self.table = {
            section: needed.get(section, {}) | sections.get(section, {})
            for section in needed.keys() | sections.keys()
        }
        self.settings = Settings.model_validate(self.table)

    def create(self, partitions: int = PARTITIONS) -> Place:
        kafka = self.settings.kafka
        self.topics(
            {
                kafka.events_topic: partitions,
                kafka.alerts_topic: 1,
                kafka.votes_topic: 1,
                kafka.feed_gaps_topic: 1,
                f"{kafka.events_topic}.dlq": 1,
            }
        )
        return self

    def topics(self, partitions: dict[str, int]) -> None:
        """Make topics."""
        if isinstance(self.broker, MemoryBroker):
            for topic, count in partitions.items():
                self.broker.create_topic(topic, count)
        else:
            admin = KafkaAdminClient(bootstrap_servers=self.broker.address)
            admin.create_topics([NewTopic(*each, 1) for each in partitions.items()], wait_for_metadata=True)
            admin.close()

    def homes(self) -> list[Partition]:
        with self.consumer() as consumer:
            count = consumer.partition_count(self.settings.kafka.events_topic)
        return [Partition(self.settings.kafka.events_topic, number) for number in range(count)]

    def committed(self) -> int:
        """Messages of the events topic that are done with."""
        with self.consumer() as consumer:
            return sum(offset or 0 for offset in consumer.committed(self.homes()).values())

    def forget_unread(self) -> int:
        """Retention drops half of what was not read yet; how many messages are lost."""
        assert isinstance(self.broker, MemoryBroker)
        with self.consumer() as consumer:
            done, ends = consumer.committed(self.homes()), consumer.end_offsets(self.homes())
        lost = 0
        for home, end in ends.items():
            unread = end - (done[home] or 0)
            self.broker.delete_records(home, end - unread // 2)
            lost += unread - unread // 2
        return lost

    # --- adapters --------------------------------------------------------------------------------------------------------

    def consumer(self, purpose: str = "stream") -> Any:
        kafka = self.settings.kafka
        return ADAPTERS[self.client][0](kafka.model_copy(update={"group_id": f"{kafka.group_id}-{purpose}"}))

    def producer(self) -> Any:
        return ADAPTERS[self.client][1](self.settings.kafka)

    def has_votes(self) -> bool:
        """Asked without a lock: anyone who writes must not wait for anyone who asks."""
        file = self.folder / "alerts.sqlite"
        try:
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as store:
                return store.execute("SELECT 1 FROM votes LIMIT 1").fetchone() is not None
        except sqlite3.OperationalError:
            return False

    def store(self) -> SqlStore:
        return open_store(self.settings.database.url)

    def send(self, keyed: Iterable[tuple[bytes | None, bytes]], headers: Headers = ()) -> None:
        """Keys and values to the events topic."""
        with self.producer() as producer:
            for key, value in keyed:
                producer.send(self.settings.kafka.events_topic, value, key, headers)
            producer.flush()

    def send_by_columns(self, records: Iterable[bytes], size: int = 1000) -> None:
        """Send records to the events topic as `ingest` sends many: so many at a time, all read from one partition."""
        numbered = [
            Message("elsewhere", 0, offset, value=line, timestamp=time.time_ns() // 1_000_000)
            for offset, line in enumerate(records)
        ]
        with self.producer() as producer:
            count = producer.partition_count(self.settings.kafka.events_topic)
            rekeyer = Rekeyer(self.settings, partitions=lambda: count)
            for start in range(0, len(numbered), size):
                for batch in rekeyer.rekey(numbered[start : start + size]):
                    for each in batch.records:
                        producer.send(self.settings.kafka.events_topic, each.value, each.key, each.headers)
            producer.flush()

    def read(self, topic: str) -> list[Message]:
        consumer = self.consumer("reader" + os.urandom(4).hex())
        consumer.subscribe([topic])
        found = [message for messages in poll_until_end(consumer) for message in messages]
        consumer.close()
        return found

    # --- runs ---------------------------------------------------------------------------------------------------------

    def run(self, **adapters: Any) -> dict[str, Any]:
        """One run in this process, to where the topic ends; any of its adapters may be another."""
        consumer, producer = (
            adapters.pop("consumer", None) or self.consumer(),
            adapters.pop("producer", None) or self.producer(),
        )
        try:
            return self.program(consumer, producer, **adapters).run(lambda: False, once=True)
        finally:
            for each in (producer, consumer):
                with suppress(Exception):  # of an adapter at which something was made to happen
                    each.close()

    def pass_days(self, days: float) -> list[OwnedPartition]:
        """Nothing comes, and so many days pass by the clock; how the partitions stand then, remembered."""
        with self.consumer() as consumer, self.producer() as producer:
            program = self.program(consumer, producer, clock=Ahead(timedelta(days=days)))
            consumer.subscribe([self.settings.kafka.events_topic], program.assigned, program.revoked)
            while not program.owned:
                program.run_once(0.1)
            program.lag_monitor.next_poll = -math.inf
            program.run_once(0.1)
            program.commit()
            return list(program.owned.values())

    def program(self, consumer: Any, producer: Any, **adapters: Any) -> StreamService:
        outside = StreamAdapters(
            consumer,
            producer,
            adapters.get("store") or self.store(),
            adapters.get("checkpoints") or FileCheckpointStore(self.settings.checkpoints),
            adapters.get("clock") or SystemClock(),
        )
        backend = adapters.get("backend", HOST_BACKEND)
        if "measuring" in adapters:
            banks = BankWatcher(self.bank, self.settings, adapters["measuring"], backend=backend)
        else:
            banks = wiring.bank_watcher(self.bank, self.settings, backend)
        networks_file = self.settings.reading.networks_file
        networks = network_table.load_networks(networks_file) if networks_file else None
        metrics = StreamMetrics(CollectorRegistry())
        return StreamService(banks, outside, self.settings, metrics, "test:1", networks)

    def start(self, *options: str, program: Callable[..., Forked] = fingerprint) -> Forked:
        """A process of its own."""
        return program("stream", "--bank", str(self.bank), "--json", *options, environment=self.environment())

    def environment(self) -> dict[str, str]:
        """What makes a process of its own use the same settings."""
        return environment(self.table)

    # --- what was said ------------------------------------------------------------------------------------------------

    def said(self) -> Said:
        """The alert store, and the topics reduced by id."""
        alerts = {}
        for message in self.read(self.settings.kafka.alerts_topic):
            alert = json.loads(message.value or b"")
            alerts[alert["alert_id"]] = alert
        votes = {}
        for message in self.read(self.settings.kafka.votes_topic):
            vote = json.loads(message.value or b"")
            votes[(vote["event_id"], vote["detector"])] = vote
        store = self.store()
        return Said(store.alerts.by_urgency(), store.votes.read(), alerts, votes)


class Ahead:
    """A clock that goes before."""

    def __init__(self, by: timedelta) -> None:
        self.by = by

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by

    def sleep(self, seconds: float) -> None:
        pass


class Said:
    """Reduced by id: alerts and votes on the alert store and in the topics."""

    def __init__(
        self,
        alerts: list[Alert],
        votes: pd.DataFrame,
        told: dict[str, Any],
        voted: dict[tuple[str, str], Any],
    ) -> None:
        self.alerts = {alert.alert_id: alert for alert in alerts}
        self.votes = {(row["event_id"], row["detector"]): row for row in votes.to_dict("records")}
        self.told, self.voted = told, voted

    def __eq__(self, other: object) -> bool:
        raise TypeError("compare with `differences`")

    def differences(self, oracle: Said) -> list[str]:
        """What is not as the oracle says; z's may differ by 1e-4."""
        return [
            *_unlike("alert on the alert store", self.alerts, oracle.alerts, _alert),
            *_unlike("alert in the topic", self.told, oracle.told, _told),
            *_unlike("vote on the alert store", self.votes, oracle.votes, _vote),
            *_unlike("vote in the topic", self.voted, oracle.voted, _vote),
        ]

    def until(self, end: str) -> Said:
        """Only what was said of the time before: after it, some partitions have come further than others."""
        return Said(
            [alert for alert in self.alerts.values() if alert.last_event_time.isoformat() < end],
            pd.DataFrame([vote for vote in self.votes.values() if vote["event_time"].isoformat() < end]),
            {name: alert for name, alert in self.told.items() if alert["last_event_time"] < end},
            {name: vote for name, vote in self.voted.items() if vote["event_time"] < end},
        )


def _unlike(what: str, mine: dict[Any, Any], theirs: dict[Any, Any], core: Callable[[Any], Any]) -> list[str]:
    lost = [f"{what} lost: {key}" for key in theirs.keys() - mine.keys()]
    more = [f"{what} too many: {key}" for key in mine.keys() - theirs.keys()]
    both = mine.keys() & theirs.keys()
    other = [
        f"{what} differs: {core(mine[key])} {core(theirs[key])}"
        for key in both
        if core(mine[key]) != core(theirs[key])
    ]
    return lost + more + other


def _alert(alert: Alert) -> Any:
    return alert.urgency, alert.title, alert.event_ids, alert.drivers, alert.curve


def _told(alert: dict[str, Any]) -> Any:
    return {name: value for name, value in alert.items() if name != "events"}, [
        event["event_id"] for event in alert["events"]
    ]


def _vote(vote: dict[str, Any]) -> Any:
    return vote["principal"], vote["entity"], bool(vote["vote"]), _NearlyEqual(vote["z"])


class _NearlyEqual(float):
    """A z that equals others within 1e-4: rounded ones fall to either side of a boundary."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(float(self) - float(other)) < 1e-4

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def environment(table: dict[str, Any]) -> dict[str, str]:
    """What makes a process of its own use these settings."""
    return os.environ | {
        f"FINGERPRINT_{section}__{key}".upper(): ",".join(value) if isinstance(value, tuple) else str(value)
        for section, keys in table.items()
        for key, value in keys.items()
    }


def keyed(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Records under their principals, in the order given."""
    flat = flatten(split_lines(lines, "", 0))
    events = add_entity_columns(flat.events, Settings().entities)
    order = events["row"].to_numpy().argsort()
    rows, names = events["row"].to_numpy()[order], events["principal"].to_numpy(object)[order]
    return [(str(name).encode(), lines[row]) for row, name in zip(rows.tolist(), names, strict=True)]
