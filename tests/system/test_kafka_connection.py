"""How the adapters to Kafka let themselves in, and what they say when they cannot."""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kafka
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.net.sasl.msk import SaslMechanismAwsMskIam

from fingerprint.adapters.kafka.confluent import ConfluentConsumer
from fingerprint.adapters.kafka.confluent_producer import ConfluentProducer
from fingerprint.adapters.kafka.kafka_python import KafkaPythonConsumer
from fingerprint.adapters.kafka.kafka_python_connection import kafka_python_options
from fingerprint.adapters.kafka.kafka_python_producer import KafkaPythonProducer
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Partition
from fingerprint.core.settings import Kafka, load_settings
from tests.contracts.message_stream import take, wait_until
from tests.support.services.certificates import Authority
from tests.support.services.kafka import Broker

CALLED_BACK_TWICE = Path(__file__).parents[1] / "support" / "called_back_twice.py"
CLIENTS = [
    pytest.param((KafkaPythonConsumer, KafkaPythonProducer), id="kafka-python"),
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


def passes(broker: Broker, client: Any, topic: str, **settings: Any) -> bool:
    """Whether a message gets from this client's producer to its consumer."""
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic(topic, 1, 1)], wait_for_metadata=True)
    admin.close()
    here = Kafka(group_id=topic, **settings)
    with client[1](here) as producer:
        producer.send(topic, b"v", b"k")
    with client[0](here) as consumer:
        consumer.subscribe([topic])
        return take(consumer, 1)[0].value == b"v"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.parametrize("listener", ["SASL", "SASL_TLS"])
def test_who_knows_the_secret_is_let_in(
    broker: Broker, passwords: dict[str, str], client: Any, mechanism: str, listener: str
) -> None:
    login = {
        "sasl_username": "reader",
        "sasl_password_file": passwords["right"],
        "sasl_oauth_token_file": passwords["token"],
        "allow_cleartext_login": True,
    }
    if listener == "SASL_TLS":
        login |= {"tls": True, "ssl_ca_file": str(broker.authority.file)}
    topic = f"{client[0].__name__}-{listener}-{mechanism}"
    assert passes(
        broker, client, topic, bootstrap_servers=(broker.at(listener),), sasl_mechanism=mechanism, **login
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_proves_who_it_is_by_its_certificate(broker: Broker, client: Any) -> None:
    trust = {"tls": True, "ssl_ca_file": str(broker.authority.file)}
    assert passes(broker, client, f"{client[0].__name__}-tls", bootstrap_servers=(broker.at("TLS"),), **trust)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_proves_who_it_is_by_its_certificate(broker: Broker, client: Any) -> None:
    mine = broker.authority.certify("client")
    trust = {"tls": True, "ssl_ca_file": str(broker.authority.file)}
    proof = {"ssl_certificate_file": str(mine.certificate), "ssl_key_file": str(mine.key)}
    name = f"{client[0].__name__}-mutual"
    assert passes(broker, client, name, bootstrap_servers=(broker.at("MUTUAL"),), **trust, **proof)


def wrong_password(broker: Broker, folder: Path) -> dict[str, Any]:
    (folder / "wrong").write_text("abracadabra")
    login = {
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "reader",
        "sasl_password_file": str(folder / "wrong"),
    }
    return {"bootstrap_servers": (broker.at("SASL"),), **login}


def wrong_authority(broker: Broker, folder: Path) -> dict[str, Any]:
    other = Authority(folder, "the tests")
    return {"bootstrap_servers": (broker.at("TLS"),), "tls": True, "ssl_ca_file": str(other.file)}


def wrong_name(broker: Broker, folder: Path) -> dict[str, Any]:
    """The certificate is for 127.0.0.1."""
    where = broker.at("TLS").replace("127.0.0.1", "localhost")
    return {"bootstrap_servers": (where,), "tls": True, "ssl_ca_file": str(broker.authority.file)}


def no_certificate(broker: Broker, folder: Path) -> dict[str, Any]:
    return {
        "bootstrap_servers": (broker.at("MUTUAL"),),
        "tls": True,
        "ssl_ca_file": str(broker.authority.file),
    }


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("wrong", [wrong_password, wrong_authority, wrong_name, no_certificate])
def test_who_is_not_let_in_is_told_so_in_one_sentence_and_soon(
    broker: Broker, tmp_path: Path, client: Any, wrong: Callable[..., dict[str, Any]]
) -> None:
    settings = wrong(broker, tmp_path)
    begun = time.monotonic()
    with pytest.raises(
        FingerprintError, match=f"{settings['bootstrap_servers'][0]} does not let us in: .*"
    ) as told:
        client[0](Kafka(request_timeout_ms=1500, **settings))
    assert time.monotonic() - begun < 1.5 + 5
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("client", CLIENTS)
def test_tls_at_a_listener_without_it_is_asked_about(broker: Broker, client: Any) -> None:
    trust = {"tls": True, "ssl_ca_file": str(broker.authority.file)}
    with pytest.raises(
        FingerprintError, match=r"does not let us in: .*: is kafka\.tls right for this port\?"
    ):
        client[0](Kafka(bootstrap_servers=(broker.address,), request_timeout_ms=1500, **trust))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("listener", ["TLS", "SASL"])
def test_a_listener_that_wants_more_than_it_gets_is_asked_about(
    broker: Broker, client: Any, listener: str
) -> None:
    with pytest.raises(FingerprintError) as told:
        client[0](Kafka(bootstrap_servers=(broker.at(listener),), request_timeout_ms=1500))
    assert "kafka.sasl_mechanism, kafka.tls" in str(told.value)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_that_does_not_answer_is_named(client: Any) -> None:
    for adapter in client:
        with pytest.raises(FingerprintError, match=r"no broker answers at 127\.0\.0\.1:1"):
            adapter(Kafka(bootstrap_servers=("127.0.0.1:1",), request_timeout_ms=500))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_secret_that_cannot_be_read_is_named(client: Any) -> None:
    login = {
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "reader",
        "sasl_password_file": "/nowhere/secret",
    }
    with pytest.raises(FingerprintError, match="/nowhere/secret"):
        client[0](Kafka(**login))
    with pytest.raises(FingerprintError, match=r"/nowhere/ca\.pem"):
        client[0](Kafka(tls=True, ssl_ca_file="/nowhere/ca.pem"))


@pytest.mark.parametrize("token", [None, "a session's token/+="])
def test_what_is_sent_to_msk_is_signed_as_aws_itself_would_sign_it(
    monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    """There is no server for it here: what kafka-python sends is signed again, by botocore."""
    host, region, key, secret = (
        "b-1.trail.kafka.eu-west-1.amazonaws.com",
        "eu-west-1",
        "AKIDEXAMPLE",
        "wJalrXUtnFEMI",
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    options = kafka_python_options(
        Kafka(bootstrap_servers=(f"{host}:9098",), sasl_mechanism="AWS_MSK_IAM", tls=True)
    )
    sent = json.loads(SaslMechanismAwsMskIam(host=host, **options).auth_bytes())
    signed_again = signature(Credentials(key, secret, token), region, host, sent["x-amz-date"])
    assert sent.pop("x-amz-signature") == signed_again
    assert sent.pop("x-amz-security-token", None) == token
    day = sent.pop("x-amz-date")[:8]
    assert sent == {
        "version": "2020_10_22",
        "host": host,
        "user-agent": "kafka-python",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{key}/{day}/{region}/kafka-cluster/aws4_request",
        "x-amz-signedheaders": "host",
        "x-amz-expires": "900",
    }


def signature(credentials: Credentials, region: str, host: str, date: str) -> str:
    """Of the request to connect, made at that time, by botocore."""
    auth = SigV4QueryAuth(credentials, "kafka-cluster", region, expires=900)
    request = AWSRequest("GET", f"https://{host}/?Action=kafka-cluster%3AConnect")
    request.context["timestamp"] = date
    auth._modify_request_before_signing(request)
    return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)


class AnyBytes(str):
    """A header's name as kafka-python's producer sends it: these bytes."""

    def encode(self, *_: Any) -> bytes:
        return b"caf\xe9"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_header_name_of_any_bytes_holds_no_one_up(
    broker: Broker, client: Any, compression: str | None
) -> None:
    topic = f"{client[0].__name__}-names-{compression}"
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic(topic, 1, 1)], wait_for_metadata=True)
    admin.close()
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.address, compression_type=compression, linger_ms=50
    )
    for name in ("before", AnyBytes("bad"), "after"):
        producer.send(topic, b"v", headers=[(name, b"1"), ("second", b"caf\xe9")])
    producer.close()
    with client[0](Kafka(bootstrap_servers=(broker.address,), group_id=topic)) as consumer:
        consumer.subscribe([topic])
        got = take(consumer, 3)
    assert [message.value for message in got] == [b"v"] * 3
    name = "caf\\xe9" if client[0] is KafkaPythonConsumer else "?"
    second = ("second", b"caf\xe9")
    assert [message.headers for message in got] == [
        (("before", b"1"), second),
        ((name, b"1"), second),
        (("after", b"1"), second),
    ]


def test_a_consumer_closed_before_it_took_its_partitions_does_not_wait(broker: Broker) -> None:
    """librdkafka joins in the background, also without a poll; while it leaves, the group's coordinator answers nothing."""
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic("left-early", 2, 1)], wait_for_metadata=True)
    admin.close()
    told: list[Partition] = []
    for _ in range(3):
        settings = Kafka(
            bootstrap_servers=(broker.address,),
            group_id="left-early",
            request_timeout_ms=20_000,
            session_timeout_ms=3_000,
        )
        consumer = ConfluentConsumer(settings)
        consumer.subscribe(["left-early"], told.extend, told.extend)
        wait_until(lambda of=consumer: of.generation() > 0, "it has joined")
        time.sleep(0.3)  # until it is given the partitions, which shows nowhere
        begun = time.monotonic()
        consumer.close()
        assert time.monotonic() - begun < 10
    assert told == []


def test_a_consumer_that_queries_the_broker_in_a_callback_can_be_called_back_again(broker: Broker) -> None:
    """In a process of its own: confluent-kafka's way to fail is to abort."""
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic("called-back", 2, 1)], wait_for_metadata=True)
    admin.close()
    command = [sys.executable, str(CALLED_BACK_TWICE), broker.address, "called-back"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)  # noqa: S603
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_kafka_python_without_its_checksum_in_c_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "crc32c" else found(name))
    for adapter in (KafkaPythonConsumer, KafkaPythonProducer):
        with pytest.raises(FingerprintError, match=r"crc32c: `pip install"):
            adapter(Kafka())


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sasl_mechanism": "PLAIN"}, "password_file"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "token_file"),
        ({"sasl_mechanism": "AWS_MSK_IAM"}, "tls"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "reader", "sasl_password_file": "secret"},
            "allow_cleartext_login",
        ),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_file": "token"}, "allow_cleartext_login"),
        ({"ssl_certificate_file": "client.pem"}, "key_file"),
        ({"bootstrap_servers": ()}, "bootstrap_servers"),
    ],
)
def test_settings_that_can_never_connect_are_refused_at_start(
    tmp_path: Path, wrong: dict[str, Any], named: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[kafka]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in wrong.items()))
    with pytest.raises(FingerprintError, match=named):
        load_settings(file)
