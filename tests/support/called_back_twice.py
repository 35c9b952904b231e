"""Query the broker in both rebalance callbacks, and be called back again within the same call of `consume`.

Run: python called_back_twice.py BROKER TOPIC

The second callback is librdkafka's statistics, because they come by the clock. In a scorer that was paused it is the loss of
the partitions; when a broker fails it is its error. Exit status 0 if all came; confluent-kafka's way to fail is to abort.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection

import confluent_kafka

from fingerprint.adapters.kafka.confluent import ConfluentConsumer
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.settings import Kafka

PATIENCE_SECONDS = 30.0
STATISTICS_SECONDS = 0.05

called: list[str] = []
librdkafka_consumer = confluent_kafka.Consumer


def with_statistics(options: dict[str, object]) -> confluent_kafka.Consumer:
    by_the_clock = {
        "statistics.interval.ms": int(STATISTICS_SECONDS * 1000),
        "stats_cb": lambda _: called.append("again"),
    }
    return librdkafka_consumer(options | by_the_clock)


def main(broker: str, topic: str) -> None:
    confluent_kafka.Consumer = with_statistics  # type: ignore[assignment, misc]
    consumer = ConfluentConsumer(Kafka(bootstrap_servers=(broker,), group_id=topic, session_timeout_ms=6_000))

    def query(partitions: Collection[Partition]) -> dict[Partition, int]:
        assert consumer.partition_count(topic) == len(partitions)
        begin = consumer.beginning_offsets(partitions)
        assert begin == consumer.end_offsets(partitions) == consumer.offsets_for_time(partitions, 0)
        assert consumer.generation() > 0
        assert set(consumer.lag()) == set(consumer.assignment())
        time.sleep(10 * STATISTICS_SECONDS)
        return begin

    def assigned(partitions: Collection[Partition]) -> None:
        assert consumer.committed(partitions) == dict.fromkeys(partitions)
        assert consumer.committed_metadata(partitions) == {}
        query(partitions)
        called.append("assigned")

    def revoked(partitions: Collection[Partition]) -> None:
        consumer.commit(query(partitions))
        called.append("revoked")

    consumer.subscribe([topic], assigned, revoked)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "assigned" not in called and time.monotonic() < deadline:
        consumer.poll(1.0)
    consumer.close()
    assert [each for each in called if each != "again"] == ["assigned", "revoked"], called
    assert "again" in called[called.index("assigned") : called.index("revoked")], called


if __name__ == "__main__":
    main(*sys.argv[1:])
