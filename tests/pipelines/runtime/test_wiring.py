"""Settings become adapters; what cannot be had is one sentence."""

from __future__ import annotations

import pytest

from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.settings import Kafka
from pipelines.runtime import wiring
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import MemoryTopicAdmin, on


def test_a_client_of_ones_own_is_named_by_its_import_path() -> None:
    broker = MemoryBroker()
    broker.create_topic("events")
    settings = Kafka(**on(broker), group_id="group")
    with wiring.open_producer(settings) as producer:
        producer.send("events", b"{}")
    with wiring.open_consumer(settings, "purpose") as consumer:
        assert consumer.end_offsets([Partition("events", 0)]) == {Partition("events", 0): 1}
    assert isinstance(wiring.open_topic_admin(settings), MemoryTopicAdmin)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nowhere.to_be:found", "No module named 'nowhere'"),
        ("json:found", "module 'json' has no attribute 'found'"),
        ("json:loads", "missing 1 required positional argument"),
    ],
)
def test_a_client_that_cannot_be_imported_is_named_with_the_reason(path: str, reason: str) -> None:
    with pytest.raises(FingerprintError, match=f"kafka.client '{path}' gives no client: .*{reason}"):
        wiring.open_topic_admin(Kafka(client=path))


def test_commands_that_a_person_waits_for_reach_the_broker_first() -> None:
    broker = MemoryBroker()
    wiring.require_broker(Kafka(**on(broker)), 1)
    with pytest.raises(FingerprintError, match=r"no broker answers at 127\.0\.0\.1:1 "):
        wiring.require_broker(Kafka(bootstrap_servers=("127.0.0.1:1",)), 1)


def test_a_topic_that_does_not_exist_is_told_and_a_broker_that_does_not_answer_is_not_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = MemoryBroker()
    broker.create_topic("events")
    wiring.warn_of_missing_topics(Kafka(**on(broker)), "events", "cloudtrail")
    (told,) = caplog.records
    assert "`fingerprint topics create`" in told.getMessage()
    assert "cloudtrail" in str(told.__dict__)

    def unavailable(_: Kafka) -> None:
        raise ServerUnavailable("no broker answers")

    monkeypatch.setattr(wiring, "open_topic_admin", unavailable)
    wiring.warn_of_missing_topics(Kafka(**on(broker)), "cloudtrail")
    assert len(caplog.records) == 1
