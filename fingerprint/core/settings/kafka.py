"""Settings of Kafka, under Kafka's own names where Kafka has one (docs/reference/messages.md says what each topic holds)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from fingerprint.core.ports.topics import DEAD_LETTER_SUFFIX
from fingerprint.core.settings.base import Section, check_readable, read_secret


class KafkaSecurity(Section):
    """Security of a connection to Kafka. Secrets come from files, which the settings name."""

    tls: bool = Field(
        False, description="Whether connections to Kafka use TLS (security.protocol SSL or SASL_SSL)."
    )
    ssl_ca_file: str | None = Field(
        None, description="Path of the trusted certificate authorities (PEM); the system's if unset."
    )
    ssl_certificate_file: str | None = Field(None, description="Path of the client certificate (PEM).")
    ssl_key_file: str | None = Field(None, description="Path of the client certificate's private key (PEM).")
    ssl_key_password_file: str | None = Field(
        None, description="Path of the file that holds the private key's password."
    )
    sasl_mechanism: (
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] | None
    ) = Field(
        None,
        description="SASL mechanism of the login: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM; no "
        "login if unset.",
    )
    sasl_username: str | None = Field(None, description="SASL user name.")
    allow_cleartext_login: bool = Field(
        False,
        description="Whether a password or token may be sent without TLS, with PLAIN and OAUTHBEARER.",
    )
    sasl_password_file: str | None = Field(None, description="Path of the file that holds the SASL password.")
    sasl_oauth_token_file: str | None = Field(
        None,
        description="Path of the file that holds an OAuth token renewed by another program; it is read at each "
        "connection.",
    )

    @model_validator(mode="after")
    def complete(self) -> KafkaSecurity:
        """Refuse half a certificate, a mechanism without its secret, and a secret sent without TLS, unless that is allowed."""
        mechanism = self.sasl_mechanism
        if (self.ssl_certificate_file is None) != (self.ssl_key_file is None):
            raise ValueError("ssl_certificate_file and ssl_key_file come together")
        if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and not (
            self.sasl_username and self.sasl_password_file
        ):
            raise ValueError(f"sasl_mechanism {mechanism} needs sasl_username and sasl_password_file")
        if mechanism == "OAUTHBEARER" and not self.sasl_oauth_token_file:
            raise ValueError("sasl_mechanism OAUTHBEARER needs sasl_oauth_token_file")
        if mechanism == "AWS_MSK_IAM" and not self.tls:
            raise ValueError("sasl_mechanism AWS_MSK_IAM needs tls = true")
        if mechanism in ("PLAIN", "OAUTHBEARER") and not (self.tls or self.allow_cleartext_login):
            raise ValueError(
                f"sasl_mechanism {mechanism} without tls sends the secret for all to read: set tls = true, or "
                "allow_cleartext_login = true"
            )
        return self

    def check_files(self) -> None:
        """Raise FingerprintError that names the first file that cannot be read."""
        check_readable(self.ssl_ca_file, self.ssl_certificate_file)
        read_secret(self.ssl_key_file)


class Kafka(KafkaSecurity):
    """Brokers, topics, the consumer group and the timeouts."""

    bootstrap_servers: tuple[str, ...] = Field(
        ("127.0.0.1:9092",), min_length=1, description="host:port of some brokers (bootstrap.servers)."
    )
    client: str = Field(
        "kafka-python",
        description="Kafka client library: kafka-python, confluent, or the import path package.module:factory of another.",
    )
    group_id: str = Field("fingerprint", description="Consumer group (group.id).")
    group_instance_id: str | None = Field(
        None,
        description="Static membership name of this replica (group.instance.id); dynamic membership if unset.",
    )
    raw_topic: str = Field("cloudtrail", description="Topic of messages as they were delivered.")
    events_topic: str = Field("fingerprint.events", description="Topic of records, partitioned by principal.")
    alerts_topic: str = Field("fingerprint.alerts", description="Topic of alerts.")
    votes_topic: str = Field("fingerprint.votes", description="Topic of single votes.")
    feed_gaps_topic: str = Field("fingerprint.feed-gaps", description="Topic of feed gap notices.")
    auto_offset_reset: Literal["none", "earliest"] = Field(
        "none",
        description="Action when a committed position is no longer held (auto.offset.reset): none stops with an error, "
        "earliest continues at the beginning.",
    )
    max_poll_records: int = Field(
        20_000, gt=0, description="Largest number of messages of one poll (max.poll.records)."
    )
    delivery_timeout_ms: int = Field(
        120_000,
        gt=0,
        description="Milliseconds within which a message must be acknowledged (delivery.timeout.ms).",
    )
    max_request_size: int = Field(
        4 << 20,
        gt=0,
        description="Largest message in bytes that is sent (max.request.size); topics are created for it.",
    )
    events_retention_days: float = Field(
        35.0, gt=0, description="Days for which `topics create` has the events topic hold records."
    )
    compression_type: Literal["none", "gzip", "lz4", "zstd"] = Field(
        "lz4", description="Compression of sent messages: none, gzip, lz4 or zstd (compression.type)."
    )
    linger_ms: int = Field(
        20,
        ge=0,
        description="Milliseconds that a message waits for others to be sent together (linger.ms).",
    )
    session_timeout_ms: int = Field(
        45_000,
        gt=0,
        description="Milliseconds without a heartbeat after which a member is removed from the group "
        "(session.timeout.ms).",
    )
    max_poll_interval_ms: int = Field(
        300_000,
        gt=0,
        description="Milliseconds between two polls after which a member is removed from the group "
        "(max.poll.interval.ms).",
    )
    request_timeout_ms: int = Field(
        30_000,
        gt=0,
        description="Milliseconds that a broker may take to answer a producer, or a question about topics, partitions and "
        "groups (request.timeout.ms); fetches have the client's own limit.",
    )

    @field_validator("client")
    @classmethod
    def check_client(cls, client: str) -> str:
        """Refuse the name of a library that is not known here."""
        if client not in ("kafka-python", "confluent") and ":" not in client:
            raise ValueError("expected 'kafka-python', 'confluent' or package.module:factory")
        return client

    @model_validator(mode="after")
    def check_topics_differ(self) -> Kafka:
        """Refuse one topic for two uses: `ingest` would read what it has just written, without end."""
        topics = (
            self.raw_topic,
            self.events_topic,
            self.alerts_topic,
            self.votes_topic,
            self.feed_gaps_topic,
            self.raw_topic + DEAD_LETTER_SUFFIX,
            self.events_topic + DEAD_LETTER_SUFFIX,
        )
        if shared := sorted({topic for topic in topics if topics.count(topic) > 1}):
            raise ValueError(
                f"{', '.join(shared)} would be one topic for two uses: raw_topic, events_topic, alerts_topic, votes_topic, "
                f"feed_gaps_topic and the dead letters (raw_topic and events_topic with {DEAD_LETTER_SUFFIX}) must all differ"
            )
        return self

    @property
    def delivery_timeout_seconds(self) -> float:
        """Return delivery_timeout_ms in seconds."""
        return self.delivery_timeout_ms / 1000

    @property
    def request_timeout_seconds(self) -> float:
        """Return request_timeout_ms in seconds."""
        return self.request_timeout_ms / 1000
