"""Typed settings: defaults here, then a TOML file, then the environment; an unknown key is an error that names it.

Example:
    >>> load().spectral.interval_seconds
    3600

    $ FINGERPRINT_SPECTRAL__THRESHOLD=5 fingerprint score ...      # environment wins over the file
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from fingerprint.core import private_files
from fingerprint.core.account import Role
from fingerprint.core.alert import FingerprintError
from fingerprint.core.credentials import holds_credentials
from fingerprint.core.redaction import Redactor

PREFIX = "FINGERPRINT_"
NO_OPTIONS: Mapping[str, dict[str, Any]] = {}


class Section(BaseModel):
    """A part of the settings. No text in it holds a password or token: what is secret lies in a file, or is a SecretStr."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @field_validator("*")
    @classmethod
    def reject_credentials(cls, value: Any) -> Any:
        """Settings are shown, copied and handed round: into containers' descriptions, to workers, into banks."""
        if any(holds_credentials(text) for text in _strings(value)):
            raise ValueError(
                "it holds a password or token, which others would see: name the file that holds it "
                "(desk.url: ?password_file=/run/secrets/desk-password; a receiver: url_file), or leave it to the "
                "client's own environment"
            )
        return value


def _strings(value: Any) -> list[str]:
    """The texts of a setting that has one or several."""
    several = (
        [*value, *value.values()]
        if isinstance(value, dict)
        else value
        if isinstance(value, tuple)
        else [value]
    )
    return [each for each in several if isinstance(each, str)]


class Reading(Section):
    """Bounds on what is read; past a bound a record or file becomes a reject and costs nothing else."""

    max_record_bytes: int = Field(1 << 20, gt=0)
    max_depth: int = Field(64, gt=3)
    max_document_bytes: int = Field(
        256 << 20, gt=0, description="a .json document, or a line that holds an envelope"
    )
    max_expanded_bytes: int = Field(16 << 30, gt=0, description="what one compressed file may expand to")
    networks_file: str | None = Field(
        None, description="a table of networks: CIDR and name, or first, last address and name"
    )
    batch_records: int = Field(20_000, gt=0, description="records read, measured and judged at a time")
    repeat_horizon_days: int = Field(
        14, gt=0, description="how long a record's id is remembered, in event time"
    )


class Entities(Section):
    """What has a fingerprint."""

    granularity: Literal["principal_service", "principal", "service"] = "principal_service"
    person_role_patterns: tuple[str, ...] = Field(
        (r"^AWSReservedSSO_",), description="roles (regular expressions) whose session name the issuer fixes"
    )

    @field_validator("person_roles")
    @classmethod
    def check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return patterns

    min_ready_events: int = Field(40, gt=0, description="events before a fingerprint speaks for itself ...")
    min_ready_days: int = Field(
        2, gt=0, description="... on so many different days; until then it falls back a level"
    )


class Autoencoder(Section):
    """Did it do what it usually does? See docs/detection.md for what each figure trades."""

    threshold: float = Field(3.2, description="z: as rare as so many standard deviations (`tails`)")
    target_alerts_per_day: float | None = Field(
        None, gt=0, description="instead of a threshold: the one that shows so many on held-out history"
    )
    vocabulary: int = Field(
        24, gt=2, le=256, description="values of a feature a fingerprint keeps in slots of its own"
    )
    hidden: int = Field(8, gt=0, le=128)
    warm_start_bank: str | None = Field(None, description="a bank, from whose generic net all nets start")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where nets are fitted")
    max_epochs: int = Field(20, ge=0, description="at most; each net stops by itself ...")
    patience: int = Field(2, gt=0, description="... when so many brought its held-out rows nothing better")
    learning_rate: float = Field(0.02, gt=0)
    swap: float = Field(
        0.15, ge=0, lt=1, description="share of inputs swapped for another row's while fitting"
    )
    held_out: float = Field(0.25, gt=0, lt=1, description="the last share of the history, kept for baselines")
    day_cap: int = Field(400, gt=0, description="rows of one entity and day that count in fitting")
    company: float = Field(
        0.3,
        ge=0,
        le=1,
        description="share of what else surprised of its principal that an event is credited with",
    )
    seed: int = 0


class Training(Section):
    """What a bank learns of a history, and how (docs/training.md)."""

    partition_events: int = Field(
        300_000, gt=0, description="events of a piece, about: what one worker has in memory at a time"
    )
    single_vote_exclusion_days: float = Field(
        14.0, ge=0, description="an event with a single vote stays out of training for so long ..."
    )
    max_returned_votes_per_day: int = Field(
        20, ge=0, description="... and then at most so many of one entity and day come back"
    )
    max_threshold_increase: float = Field(
        0.1, ge=0, description="share by which alerts called benign may raise an entity's threshold, at most"
    )
    max_threshold_decrease: float = Field(
        0.1, ge=0, lt=1, description="share by which true positives may lower it, at most"
    )
    judged_half_days: float = Field(
        90.0, gt=0, description="of event time, after which what was said of an alert moves it half as far"
    )


class Retraining(Section):
    """When `fingerprint retrain` trains, and of how much (docs/training.md)."""

    min_history_days: float = Field(
        14.0, gt=0, description="days of events that the topic has to hold for the first bank"
    )
    interval_hours: float = Field(24.0, gt=0, description="from the end of a training to the next one")
    history_days: float = Field(30.0, gt=0, description="before the newest event, that a training learns of")
    poll_interval_seconds: float = Field(60.0, gt=0, description="between two looks whether one is due")


class Spectral(Section):
    """Did it do it as much, and when, as it usually does?"""

    threshold: float = 4.0
    interval_seconds: int = Field(3600, ge=60)
    history_days: int = Field(21, gt=0, description="days of the past one transform sees")
    warm_up_days: int = Field(2, gt=0)
    quantile: float = Field(
        0.90, ge=0, lt=1, description="frequencies with more power than this quantile are kept"
    )
    busiest_actions: int = Field(6, ge=0, description="single actions with a channel of their own")
    floor: float = Field(0.04, gt=0, description="added to the expected count under the Poisson root")
    allowed_lateness_seconds: int = Field(600, ge=600)

    @model_validator(mode="after")
    def check_can_fire(self) -> Spectral:
        if 86400 % self.interval_seconds:
            raise ValueError("interval_seconds must divide a day")
        if self.warm_up_days > self.history_days:
            raise ValueError(
                f"warm_up_days {self.warm_up_days} never ends within {self.history_days} history_days"
            )
        points = self.history_days * 86400 // self.interval_seconds
        if self.threshold > (points - 1) ** 0.5:
            raise ValueError(
                f"threshold {self.threshold:g} can never be reached by {points} intervals (at most {(points - 1) ** 0.5:.1f})"
            )
        return self


class IsolationForestSettings(Section):
    """The optional third voter: scikit-learn's IsolationForest over the same features."""

    threshold: float = 4.0
    trees: int = Field(100, gt=0)
    sample: int = Field(50_000, gt=0)
    seed: int = 0


class Voting(Section):
    """Which detectors vote, and how many votes make a verdict."""

    detectors: tuple[str, ...] = ("autoencoder", "spectral")
    quorum: int = Field(2, gt=0)
    newcomers: float = Field(
        0.9,
        gt=0,
        le=1,
        description="share of its threshold that is enough where a detector judges a newcomer by its peers, alone",
    )
    max_pending_events: int = Field(
        200_000,
        gt=0,
        description="events of one interval that wait for it to close, shared fairly by principals; the others are counted",
    )
    waiting_events_each: int = Field(
        5_000, gt=0, description="of those, the strangest of one principal that wait at most"
    )
    max_unknown_principals_per_day: int = Field(
        1_000,
        gt=0,
        description="principals that the bank does not know with votes on one day, in one partition",
    )

    @model_validator(mode="after")
    def check_reachable(self) -> Voting:
        if len(set(self.detectors)) < len(self.detectors):
            raise ValueError("detectors lists one of them twice, and each has one vote")
        if self.quorum > len(self.detectors):
            raise ValueError(f"quorum {self.quorum} can never be reached by {len(self.detectors)} detectors")
        return self


class Bank(Section):
    """A bank on disk (docs/bank.md)."""

    max_bytes: int = Field(64 << 30, gt=0, description="a larger one is not opened")
    shard_bytes: int = Field(256 << 20, ge=1, description="of an array in one file, about")
    retained_versions: int = Field(7, gt=0, description="versions, the newest; others are retired, but for what is served")
    poll_interval_seconds: float = Field(
        30.0, gt=0, description="after which a stream looks whether another version is served"
    )
    verify_key_files: tuple[str, ...] = Field(
        (), description="public keys, PEM: a bank that none of them signed is refused (two while keys change)"
    )
    signing_key_file: str | None = Field(
        None, description="the private key, PEM, of who trains and publishes (`fingerprint bank keys`) ..."
    )
    signer: str | None = Field(
        None, description="... or package.module:factory of what signs, such as a key management service"
    )

    @model_validator(mode="after")
    def check_single_signer(self) -> Bank:
        if self.signing_key_file and self.signer:
            raise ValueError("signing_key_file and signer are two ways to sign: set one")
        return self


class Promotion(Section):
    """When a new bank replaces the one that is served (docs/bank.md)."""

    victims: int = Field(40, gt=0, description="principals, as whom known attacks are tried")
    clear: float = Field(
        1.25,
        ge=1,
        description="times the threshold: attacks found by less flip from one training to the next",
    )
    max_missed_share: float = Field(
        0.1, ge=0, le=1, description="share of what the old one clearly finds that the new one may miss"
    )
    max_loss_shift: float = Field(0.5, gt=0, description="share by which a quantile of the held-out losses may move")
    max_lost_fingerprints: float = Field(0.5, ge=0, le=1, description="share of ready fingerprints that may be gone")
    max_votes_per_day: float = Field(
        300.0, gt=0, description="principals with an autoencoder's vote on a day of the held-out history"
    )
    reference_versions_back: int = Field(
        5, gt=0, description="so many versions back lies the one that slow drift is measured from"
    )
    seed: int = 0


class Alerts(Section):
    group_window_seconds: int = Field(
        6 * 3600, gt=0, description="verdicts of one principal in one window are one alert"
    )


class Database(Section):
    url: str = "sqlite:///fingerprint.sqlite"
    min_vote_score: float = Field(2.0, description="single votes with a z below this are not kept")
    redacted_fields: tuple[str, ...] = Field(
        (),
        description="fields of a record whose values are never stored: requestParameters.password; * is any one name",
    )

    @field_validator("redact")
    @classmethod
    def check_paths(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        try:
            Redactor(paths)
        except FingerprintError as error:
            raise ValueError(str(error)) from None
        return paths


class Retention(Section):
    """How many days the desk keeps what, from when it got it; 0 is for ever (docs/desk.md)."""

    record_days: int = Field(90, ge=0, description="records as AWS wrote them, also of alerts that are open")
    vote_days: int = Field(90, ge=0, description="single votes, and who began which session")
    closed_alert_days: int = Field(
        400, ge=0, description="alerts that are closed, with all that belongs to them; open ones stay"
    )


class Ingest(Section):
    """Raw messages to records keyed by principal; what cannot be read goes to `<topic>.dlq`."""

    dead_window: int = Field(1_000, gt=0, description="messages over which dead letters are counted")
    max_dead_letters: int = Field(100, gt=0, description="so many dead letters among them ...")
    max_dead_letter_share: float = Field(
        0.5, ge=0, lt=1, description="... and more than this share: ingest stops and says so"
    )
    future_seconds: int = Field(
        900, ge=0, description="a record dated so long after its message arrived is a dead letter"
    )

    @model_validator(mode="after")
    def check_dead_letter_limit(self) -> Ingest:
        if self.max_dead_letters > self.dead_window:
            raise ValueError(
                f"dead_count {self.max_dead_letters} can never be reached among {self.dead_window} messages"
            )
        return self


class Stream(Section):
    """Events from their topic to alerts and votes. Time is event time; docs/stream.md says how it passes."""

    late: Literal["judge", "drop"] = Field(
        "judge", description="events whose interval had closed before they came; counted either way"
    )
    future: Literal["dead", "drop"] = Field(
        "dead", description="events dated past their arrival: to the dead letters, or away"
    )
    max_future_seconds: int = Field(900, ge=0, description="so long past their arrival")
    source_idle_seconds: float = Field(
        120.0, gt=0, description="a source that is silent for so long while others speak is not waited for"
    )
    max_early_events: int = Field(
        100_000,
        gt=0,
        description="events that came ahead of other sources, held at most so many in a partition",
    )
    database_timeout_seconds: float = Field(
        600.0,
        gt=0,
        description="a desk that stays away is waited for so long, then the program ends with a sentence",
    )


class FeedGaps(Section):
    """Accounts, their regions and sources: how much is missed before silence is a notice (docs/detection.md)."""

    threshold: float = Field(
        4.0, gt=0, description="threshold squared events are missed at least: by chance once in e^16"
    )
    warm_up_days: int = Field(
        7,
        gt=0,
        description="days a feed is known before it is missed; less than a week takes weekends for silence",
    )
    most: int = Field(10_000, gt=0, description="feeds that are counted, the busiest")


class Sqs(Section):
    """Notices of S3 objects from a queue (`fingerprint ingest --sqs`). Region, endpoint and credentials are boto3's own."""

    visibility_timeout_seconds: int = Field(
        120,
        ge=2,
        le=43_200,
        description="what a worker holds stays hidden so long, and is extended meanwhile",
    )
    wait_seconds: int = Field(10, ge=1, le=20, description="how long one poll waits for a notice")
    most_receives: int = Field(
        20,
        ge=3,
        description="a notice that was taken more often, and not let go by this worker, is a dead letter, unread",
    )
    allowed_buckets: tuple[str, ...] = Field(
        (),
        description='objects of these are read, and of no other; "*": of any that a notice names and the role may read',
    )
    idle_seconds: float = Field(
        900.0, gt=0, description="the watermark does not wait for a trail that was silent so long"
    )

    def allows_bucket(self, bucket: str) -> bool:
        """Return whether objects of this bucket may be read."""
        return bucket in self.allowed_buckets or "*" in self.allowed_buckets

    def check_buckets(self) -> None:
        """Raise FingerprintError where no bucket is named: who may write to the queue would choose what is read."""
        if not self.allowed_buckets:
            raise FingerprintError(
                "sqs.buckets is empty: name the buckets whose objects may be read (FINGERPRINT_SQS__BUCKETS=my-trail-bucket), "
                "because a notice may name any; * stands for every bucket that the role may read"
            )


class Checkpoints(Section):
    """The ledger of a stream, remembered: snapshots by partition in a folder or an object store."""

    url: str = Field("snapshots", description="a folder, or a URL that fsspec opens: s3://bucket/path")
    interval_seconds: float = Field(30.0, gt=0, description="between two snapshots of a partition")
    snapshots_kept: int = Field(
        3, gt=0, description="the newest of a partition, kept however old; others go after a while"
    )
    max_series: int = Field(
        2_000_000,
        gt=0,
        description="series in memory of a partition; past that the homes longest silent are put away (about 400 B a row)",
    )


class Workers(Section):
    """Who does the pieces of a training or a backfill: this process, or a cluster of Dask's (docs/scale.md)."""

    scheduler: str = Field(
        "local",
        description="local: this process; dask, dask-cuda: processes of this machine, one a GPU; or a scheduler's address",
    )
    work_directory: str | None = Field(
        None,
        description="what is under way, seen by every worker under the same name; a folder in the bank's, if not said",
    )
    backfill_parts: int | None = Field(
        None, gt=0, le=256, description="that a backfill is cut into; four for each worker, if not said"
    )
    processes: int | None = Field(None, gt=0, description="of dask; one a processor, if not said")
    memory_limit_bytes: int | None = Field(
        None, gt=0, description="of a process: past it, it is started again; its share, if not said"
    )
    tries: int = Field(3, gt=0, description="a piece that so many workers died of is given up")
    answer_seconds: float = Field(10.0, gt=0, description="how long a scheduler may take to answer")
    dashboard: str | None = Field(None, description="host:port of Dask's own pages; none, if not said")
    ca_file: str | None = Field(None, description="whom to trust at tls://, PEM; the client's own:")
    certificate_file: str | None = None
    key_file: str | None = None

    @field_validator("where")
    @classmethod
    def check_location(cls, where: str) -> str:
        if not re.fullmatch(r"local|dask|dask-cuda|(tcp|tls)://.+", where):
            raise ValueError(
                f"{where!r} is none of local, dask, dask-cuda, tcp://host:port and tls://host:port"
            )
        return where

    @model_validator(mode="after")
    def check_tls_files(self) -> Workers:
        files = (self.ca_file, self.certificate_file, self.key_file)
        if self.scheduler.startswith("tls://") and None in files:
            raise ValueError("workers.where tls:// needs ca_file, certificate_file and key_file")
        return self

    def check_files(self) -> None:
        """FingerprintError that names the first file that cannot be read."""
        for file in (self.ca_file, self.certificate_file):
            _read_file(file)
        read_secret(self.key_file)


class Triton(Section):
    """Losses measured by a Triton server (docs/triton.md); in this process where no server is named."""

    url: str | None = Field(None, description="host:port of its gRPC")
    model_repository: str = Field("triton", description="the model repository that `fingerprint triton load` fills")
    kept: int = Field(
        2,
        gt=0,
        description="versions of the bank that are served at a time: whoever began with the one before ends with it",
    )
    instance_count: int = Field(
        2, gt=0, description="of the model, one process and one copy of the bank each; on every GPU so many"
    )
    timeout_seconds: float = Field(
        2.0, gt=0, description="how long an answer may take, all tries together; then this process measures"
    )
    batch: int = Field(1024, gt=0, le=4096, description="rows of one request")
    in_flight: int = Field(4, gt=0, description="requests of one call under way at a time")
    tries: int = Field(3, gt=0, description="of a request, where asking again may help")
    failures: int = Field(3, gt=0, description="calls in a row that failed: the server is left alone ...")
    rest_seconds: float = Field(10.0, gt=0, description="... for so long, then tried once")
    load_timeout_seconds: float = Field(300.0, gt=0, description="how long loading a bank may take")
    control_key_file: str | None = Field(
        None,
        description="holds NAME=VALUE, to which the server opens what loads and unloads (docs/triton.md)",
    )
    tls: bool = False
    ca_file: str | None = Field(None, description="whom to trust, PEM; default: what the system trusts")
    certificate_file: str | None = Field(None, description="the client's own certificate, PEM, and its key:")
    certificate_key_file: str | None = None

    @model_validator(mode="after")
    def check_tls_settings(self) -> Triton:
        files = (self.ca_file, self.certificate_file, self.certificate_key_file)
        if not self.tls and any(files):
            raise ValueError("ca_file, certificate_file and certificate_key_file want tls = true")
        if (self.certificate_file is None) != (self.certificate_key_file is None):
            raise ValueError("certificate_file and certificate_key_file come together")
        return self

    def check_files(self) -> None:
        """FingerprintError that names the first file that cannot be read."""
        for file in (self.ca_file, self.certificate_file, self.certificate_key_file):
            read_secret(file)

    @field_validator("url")
    @classmethod
    def empty_as_none(cls, url: str | None) -> str | None:
        """The environment has no other word for none."""
        return url or None


class Health(Section):
    """/livez, /readyz and /metrics of the programs that run on."""

    host: str = "127.0.0.1"
    port: int = Field(9464, ge=0, le=65535, description="0 takes any that is free")
    stalled_seconds: float = Field(300, gt=0, description="without a turn of its loop a program is not alive")


class KafkaSecurity(Section):
    """How a connection to Kafka is guarded. Secrets come from files; `*_file` names them."""

    tls: bool = False
    ssl_ca_file: str | None = Field(None, description="whom to trust, PEM; default: what the system trusts")
    ssl_certificate_file: str | None = Field(None, description="the client's own certificate, PEM")
    ssl_key_file: str | None = None
    ssl_key_password_file: str | None = None
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] | None = None
    sasl_username: str | None = None
    allow_cleartext_login: bool = Field(
        False,
        description="with mechanism PLAIN or OAUTHBEARER and without tls: password or token travel for all to read",
    )
    sasl_password_file: str | None = None
    sasl_oauth_token_file: str | None = Field(
        None, description="an OAuth token that somebody else renews, read anew at each connection"
    )

    @model_validator(mode="after")
    def complete(self) -> KafkaSecurity:
        if (self.ssl_certificate_file is None) != (self.ssl_key_file is None):
            raise ValueError("certificate_file and key_file come together")
        if self.sasl_mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and not (
            self.sasl_username and self.sasl_password_file
        ):
            raise ValueError(f"mechanism {self.sasl_mechanism} needs user and password_file")
        if self.sasl_mechanism == "OAUTHBEARER" and not self.sasl_oauth_token_file:
            raise ValueError("mechanism OAUTHBEARER needs token_file")
        if self.sasl_mechanism == "AWS_MSK_IAM" and not self.tls:
            raise ValueError("mechanism AWS_MSK_IAM needs tls = true")
        if self.sasl_mechanism in ("PLAIN", "OAUTHBEARER") and not (self.tls or self.allow_cleartext_login):
            raise ValueError(
                f"mechanism {self.sasl_mechanism} without tls sends the secret for all to read: set tls = true, or clear_login = true"
            )
        return self

    def check_files(self) -> None:
        """FingerprintError that names the first file that cannot be read."""
        for file in (self.ssl_ca_file, self.ssl_certificate_file):
            _read_file(file)
        read_secret(self.ssl_key_file)


class Kafka(KafkaSecurity):
    """The stream's door. docs/kafka.md says what travels in which topic."""

    bootstrap_servers: tuple[str, ...] = Field(
        ("127.0.0.1:9092",),
        min_length=1,
        description="host:port of some; with client files, the folder of topics",
    )
    client: Literal["kafka-python", "confluent", "files"] = "kafka-python"
    group_id: str = "fingerprint"
    group_instance_id: str | None = Field(
        None, description="a name that survives a restart of this replica: its partitions wait for it"
    )
    raw_topic: str = Field("cloudtrail", description="topic of messages as they were delivered")
    events_topic: str = Field("fingerprint.events", description="topic of bare records, keyed by principal")
    alerts_topic: str = "fingerprint.alerts"
    votes_topic: str = "fingerprint.votes"
    feed_gaps_topic: str = "fingerprint.notices"
    dlq_suffix: str = Field(".dlq", min_length=1)
    auto_offset_reset: Literal["stop", "skip"] = Field(
        "stop", description="when a position is no longer held: say so and stop, or go on at the beginning"
    )
    max_poll_records: int = Field(20_000, gt=0)
    poll_bytes: int = Field(64 << 20, gt=0)
    fetch_bytes: int = Field(8 << 20, gt=0, description="fetched of one partition at a time")
    in_flight_bytes: int = Field(
        64 << 20, ge=1 << 10, description="sent and not yet acknowledged, at most so much"
    )
    send_seconds: float = Field(1.0, ge=0, description="how long a send waits for room")
    delivery_timeout_ms: float = Field(120.0, gt=0, description="how long a message may be under way")
    max_request_size: int = Field(4 << 20, gt=0, description="the largest message that is sent")
    events_retention_days: float = Field(
        35.0,
        gt=0,
        description="how long `topics create` has the events topic hold records; a training reads them",
    )
    compression_type: Literal["none", "gzip", "lz4", "zstd"] = "lz4"
    linger_ms: int = Field(20, ge=0)
    session_timeout_ms: float = Field(45.0, gt=0, description="a member unheard of for so long is dead")
    max_poll_interval_ms: float = Field(300.0, gt=0, description="a member that works longer is out")
    request_timeout_ms: float = Field(30.0, gt=0, description="how long the broker may take to answer a question")
    watchdog_seconds: float = Field(
        120.0, gt=0, description="a partition that lags and stands still so long is news"
    )


class Oidc(Section):
    """People whom an OpenID provider vouches for (docs/desk.md); nobody where no issuer is named."""

    issuer: str | None = Field(None, description="its address, as its own configuration names it")
    client_id: str = ""
    client_secret_file: str | None = Field(None, description="none: a public client, by PKCE alone")
    provider_name: str = Field("single sign-on", description="what the button says: Log in with ...")
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = Field("preferred_username", description="what a new account is called after")
    role_claim: str | None = Field(None, description="a claim of one or several values, such as groups ...")
    roles: dict[str, Role] = Field(
        {}, description="... and the role that each of them gives; the highest counts"
    )
    default_role: Role | None = Field(None, description="of whoever has no such value; without it, nobody")
    allowed_domain: str | None = Field(None, description="verified e-mail addresses of this domain alone")
    answer_seconds: float = Field(5.0, gt=0, le=60, description="how long the provider may take to answer")
    token_days: float = Field(
        30.0, gt=0, le=366, description="tokens work while their owner logged in within so many days"
    )

    @model_validator(mode="after")
    def complete(self) -> Oidc:
        if self.issuer is None:
            return self
        if not re.match(r"https://|http://(localhost|127\.0\.0\.1|\[::1\])([:/]|$)", self.issuer):
            raise ValueError("issuer begins with https://; http:// is for a provider on this machine")
        if not self.client_id:
            raise ValueError("issuer needs a client_id")
        if not (self.role_claim and self.roles) and self.default_role is None:
            raise ValueError("nobody would get a role: set role_claim and roles, or default_role")
        return self


class Web(Section):
    """The analyst's pages and the API: `fingerprint serve` (docs/desk.md)."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535, description="0 takes any that is free")
    public_url: str | None = Field(
        None, description="where browsers find it, https://desk.example.com behind a proxy that ends TLS"
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="further names in the Host header; that of public_url, of host and of this machine are",
    )
    trusted_proxies: int = Field(
        0, ge=0, le=8, description="proxies in front, each adding to X-Forwarded-For: whose word is taken"
    )
    title: str = Field("Fingerprint", min_length=1, max_length=60, description="what stands above every page")
    session_idle_hours: float = Field(8.0, gt=0, le=720, description="without a request a session ends ...")
    session_max_hours: float = Field(24.0, gt=0, le=2160, description="... and after so long anyway")
    second_factor: Literal["optional", "required"] = Field(
        "optional", description="of accounts with a password here: an authenticator app or a passkey"
    )
    single_sign_on_only: bool = Field(
        False, description="refuse passwords and tokens of local accounts, but for those of ..."
    )
    emergency_account: str = Field(
        "", pattern=r"^[a-z0-9._@+-]*$", description="... this one, for the day that the provider is away"
    )
    max_body_bytes: int = Field(1 << 20, gt=0, description="of a request")
    run_delivery: bool = Field(
        False, description="also tell the receivers [deliver.NAME], as `fingerprint deliver` does"
    )
    serve_health: bool = Field(
        False,
        description="also serve health and metrics at health.host and health.port, without a token: for a network of one's own",
    )
    oidc: Oidc = Oidc()

    @field_validator("public_url")
    @classmethod
    def check_origin(cls, url: str | None) -> str | None:
        if url is not None and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+/?", url):
            raise ValueError(f"public_url {url!r} is not like https://desk.example.com, without a path")
        return url and url.rstrip("/")

    @model_validator(mode="after")
    def check_login_method(self) -> Web:
        if not self.single_sign_on_only:
            return self
        if self.oidc.issuer is None:
            raise ValueError("single_sign_on_only needs a provider: set web.oidc.issuer")
        if not self.emergency_account and "admin" not in (*self.oidc.roles.values(), self.oidc.default_role):
            raise ValueError(
                "single_sign_on_only leaves no admin: give a value of role_claim the role admin, or set emergency_account"
            )
        return self

    @property
    def https(self) -> bool:
        """Whether browsers come over TLS."""
        return (self.public_url or "").startswith("https://")


class ReceiverSettings(Section):
    """One receiver of alerts, `[deliver.NAME]`: who is told what, and where (docs/deliver.md)."""

    kind: Literal["webhook", "slack", "kafka"] = "webhook"
    url: SecretStr | None = Field(None, description="of a webhook: https://host/path")
    url_file: str | None = Field(
        None, description="... or the file that holds it: a Slack webhook's URL is a secret"
    )
    topic: str | None = Field(None, description="of kind kafka, at the brokers of the section kafka")
    format: Literal["json", "ecs", "ocsf", "slack"] | None = Field(
        None, description="json, and slack for Slack, if not said"
    )
    signing_secret_file: str | None = Field(
        None, description="signs: lines of whsec_ and base64, the newest first; all of them sign"
    )
    min_urgency: int = Field(50, ge=0, le=100, description="alerts below this are not told")
    notify_on: tuple[Literal["new", "grown", "decided"], ...] = Field(("new",), min_length=1)
    include_existing: bool = Field(False, description="also tell what lay on the desk when the receiver was added")
    alert_url_prefix: str = Field(
        "", description="where the alerts' pages are, before the id; those of web.public_url, if not said"
    )
    allowed_networks: tuple[str, ...] = Field((), description="inner networks that may be reached: 10.20.0.0/16")
    allow_http: bool = Field(False, description="http:// too, whose bodies anybody on the way can read")
    ca_file: str | None = Field(None, description="whom to trust, PEM; default: what the system trusts")
    timeout_seconds: float = Field(
        10.0, gt=0, le=300, description="how long one try may take, from its connection on"
    )
    tries: int = Field(60, gt=0, description="after which a delivery has failed ...")
    max_age_seconds: float = Field(3 * 86400.0, gt=0, description="... or when it has waited so long")

    @model_validator(mode="after")
    def check_target(self) -> ReceiverSettings:
        if self.kind == "kafka":
            if not self.topic or self.url or self.url_file or self.signing_secret_file:
                raise ValueError("kind kafka needs a topic, and has no url, url_file or secret_file")
        elif self.topic or (self.url is None) == (self.url_file is None):
            raise ValueError(f"kind {self.kind} needs one of url and url_file, and has no topic")
        if self.alert_url_prefix and not self.alert_url_prefix.startswith(("https://", "http://")):
            raise ValueError("link is where the alerts' pages are: https://desk.example.com/alerts/")
        return self

    @property
    def resolved_format(self) -> Literal["json", "ecs", "ocsf", "slack"]:
        """The format, said or not."""
        return self.format or ("slack" if self.kind == "slack" else "json")

    def target_url(self) -> str:
        """The URL. FingerprintError if the file that holds it cannot be read."""
        said = self.url.get_secret_value() if self.url else read_secret(self.url_file)
        return (said or "").strip()


class Settings(Section):
    backend: Literal["auto", "cpu", "cuda"] = Field(
        "auto",
        description="what reads and scores (docs/gpu.md): a GPU where there is one and its libraries are",
    )
    reading: Reading = Reading()
    entities: Entities = Entities()
    autoencoder: Autoencoder = Autoencoder()
    training: Training = Training()
    retraining: Retraining = Retraining()
    spectral: Spectral = Spectral()
    isolation_forest: IsolationForestSettings = IsolationForestSettings()
    voting: Voting = Voting()
    bank: Bank = Bank()
    promotion: Promotion = Promotion()
    alerts: Alerts = Alerts()
    database: Database = Database()
    retention: Retention = Retention()
    kafka: Kafka = Kafka()
    ingest: Ingest = Ingest()
    sqs: Sqs = Sqs()
    stream: Stream = Stream()
    feed_gaps: FeedGaps = FeedGaps()
    checkpoints: Checkpoints = Checkpoints()
    health: Health = Health()
    triton: Triton = Triton()
    workers: Workers = Workers()
    deliver: dict[str, ReceiverSettings] = Field({}, description="receivers of alerts by name")
    web: Web = Web()

    @field_validator("deliver")
    @classmethod
    def check_receiver_names(cls, receivers: dict[str, ReceiverSettings]) -> dict[str, ReceiverSettings]:
        for name in receivers:
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
                raise ValueError(f"{name!r} is no receiver's name: a-z, 0-9, _ and -, 40 at most")
        return receivers

    def without_receivers(self) -> Settings:
        """Return the settings without receivers of alerts: their URLs are secrets, and a scheduler may be spoken to in clear."""
        return self.model_copy(update={"deliver": {}})

    @model_validator(mode="after")
    def check_retention(self) -> Settings:
        if self.promotion.reference_versions_back >= self.bank.retained_versions:
            raise ValueError(
                f"gate.frozen {self.promotion.reference_versions_back} is further back than the bank.kept {self.bank.retained_versions} versions: "
                "keep more, or look back less"
            )
        return self


def load_settings(
    file: str | Path | None = None,
    environment: dict[str, str] | None = None,
    options: Mapping[str, dict[str, Any]] = NO_OPTIONS,
) -> Settings:
    """Settings from `file` (TOML), overridden by `FINGERPRINT_<SECTION>__<KEY>` variables, and those by what was given on the
    command line, `options` by section and key (None: not given).

    Raises FingerprintError with one sentence that names the key, the file and what was expected.
    """
    table = _read_toml(Path(file)) if file else {}
    given = {
        section: {key: value for key, value in keys.items() if value is not None}
        for section, keys in options.items()
    }
    for over in (_read_environment(dict(os.environ) if environment is None else environment), given):
        _merge(table, over)
    try:
        loaded = Settings.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        names = ".".join(str(part) for part in first["loc"])
        where = f"setting {names}" if names else "settings"
        known = (
            "" if first["type"] != "extra_forbidden" else f" (known: {', '.join(_known_keys(first['loc']))})"
        )
        raise FingerprintError(f"{where}: {first['msg'].removeprefix('Value error, ')}{known}") from None
    if file and any(receiver.url for receiver in loaded.deliver.values()):
        private_files.warn_if_exposed(Path(file))
    return loaded


def read_secret(file: str | None) -> str | None:
    """What is in a file that settings name, without the newline that editors add; None for none. FingerprintError if it
    cannot be read. Warns of one that others can read."""
    if file is not None:
        private_files.warn_if_exposed(Path(file))
    return _read_file(file)


def _read_file(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FingerprintError(f"file {file} of the settings cannot be read: {reason}") from None


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise FingerprintError(f"settings file {file}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FingerprintError(f"settings file {file}: {error}") from None


_TOP_LEVEL_KEYS = ("backend",)  # keys of no section


def _read_environment(environment: dict[str, str]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in environment.items():
        if name.startswith(PREFIX):
            section, two, key = name.removeprefix(PREFIX).lower().partition("__")
            if not two and section in _TOP_LEVEL_KEYS:
                table[section] = value
                continue
            if not two:
                raise FingerprintError(
                    f"setting {name}: name it {PREFIX}<SECTION>__<KEY>, with two underscores"
                )
            outer, two, inner = key.partition("__")  # FINGERPRINT_DELIVER__NAME__URL: a section of many
            place, key = (f"{section}.{outer}", inner) if two else (section, key)
            said = {key: _items(value) if _is_list(place, key) else value}
            _merge(table, {section: {outer: said} if two else said})
    return table


def _merge(table: dict[str, Any], over: Mapping[str, Any]) -> None:
    """What is said in `over`, in place of what `table` says."""
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(table.setdefault(key, {}), dict):
            _merge(table[key], value)
        elif not isinstance(value, dict):
            table[key] = value


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",")]


def _is_list(section: str, key: str) -> bool:
    """Whether a key takes several values; the section `deliver.NAME` is one of many."""
    model = _section(section.split("."))
    field = model.model_fields.get(key) if model else None
    return field is not None and get_origin(field.annotation) is tuple


def _section(path: Sequence[int | str]) -> Any:
    """The class of a section by its path; None where there is none."""
    model: Any = Settings
    for part in path:
        if get_origin(model) is dict:
            model = get_args(model)[1]
        elif model is None or part not in model.model_fields:
            return None
        else:
            model = model.model_fields[part].annotation
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    return sorted(_section(location[:-1]).model_fields)
