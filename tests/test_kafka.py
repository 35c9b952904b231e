"""How the doors to Kafka let themselves in, and what they say when they cannot."""

from __future__ import annotations

import base64
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import pytest
from contracts.topic import take
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from services.kafka import Broker

from fingerprint.domain import FingerprintError
from fingerprint.edges.confluent import ConfluentConsumer
from fingerprint.edges.confluent_producer import ConfluentProducer
from fingerprint.edges.kafka import KafkaConsumer
from fingerprint.edges.kafka_producer import KafkaProducer
from fingerprint.settings import Kafka, load

CLIENTS = [
    pytest.param((KafkaConsumer, KafkaProducer), id="kafka-python"),
    pytest.param((ConfluentConsumer, ConfluentProducer), id="confluent"),
]


def token(seconds: float = 3600) -> str:
    """An unsigned token, which this broker takes and no other should."""
    now = time.time()
    claims = {"sub": "reader", "iat": now, "exp": now + seconds}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)
    ]
    return b".".join([*parts, b""]).decode()


@pytest.fixture
def passwords(tmp_path: Path) -> dict[str, str]:
    secrets = {"right": "open sesame\n", "wrong": "abracadabra", "token": token()}
    for name, secret in secrets.items():
        (tmp_path / name).write_text(secret)
    return {name: str(tmp_path / name) for name in secrets}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_who_knows_the_secret_is_let_in(
    broker: Broker, passwords: dict[str, str], client: Any, mechanism: str
) -> None:
    topic = f"{client[0].__name__}-{mechanism}"
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic(topic, 1, 1)], wait_for_metadata=True)
    admin.close()
    login = {"user": "reader", "password_file": passwords["right"], "token_file": passwords["token"]}
    settings = Kafka(brokers=(broker.sasl_address,), group=topic, mechanism=mechanism, **login)
    with client[1](settings) as producer:
        producer.send(topic, b"v", b"k")
    with client[0](settings) as consumer:
        consumer.subscribe([topic])
        assert take(consumer, 1)[0].value == b"v"


@pytest.mark.parametrize("client", CLIENTS)
def test_who_does_not_know_it_is_told_so_in_one_sentence(
    broker: Broker, passwords: dict[str, str], client: Any
) -> None:
    login = {"user": "reader", "password_file": passwords["wrong"], "answer_seconds": 3}
    with pytest.raises(FingerprintError, match=broker.sasl_address):
        client[0](Kafka(brokers=(broker.sasl_address,), mechanism="PLAIN", **login))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_that_does_not_answer_is_named(client: Any) -> None:
    for door in client:
        with pytest.raises(FingerprintError, match=r"no broker answers at 127\.0\.0\.1:1"):
            door(Kafka(brokers=("127.0.0.1:1",), answer_seconds=0.5))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_secret_that_cannot_be_read_is_named(client: Any) -> None:
    login = {"mechanism": "PLAIN", "user": "reader", "password_file": "/nowhere/secret"}
    with pytest.raises(FingerprintError, match="/nowhere/secret"):
        client[0](Kafka(**login))


def test_kafka_python_without_its_checksum_in_c_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "crc32c" else found(name))
    for door in (KafkaConsumer, KafkaProducer):
        with pytest.raises(FingerprintError, match=r"crc32c: pip install"):
            door(Kafka())


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"mechanism": "PLAIN"}, "password_file"),
        ({"mechanism": "OAUTHBEARER"}, "token_file"),
        ({"mechanism": "AWS_MSK_IAM"}, "tls"),
        ({"certificate_file": "client.pem"}, "key_file"),
        ({"brokers": ()}, "brokers"),
    ],
)
def test_settings_that_can_never_connect_are_refused_at_start(
    tmp_path: Path, wrong: dict[str, Any], named: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[kafka]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in wrong.items()))
    with pytest.raises(FingerprintError, match=named):
        load(file)
