"""Typed settings: defaults in the code, then a TOML file, then the environment, then options of the command line.

A section of the file is a class in this package, one file a theme:

    detection   reading, entities, autoencoder, spectral, sequence, isolation_forest, voting, alerts
    training    training, retraining, bank, promotion
    streaming   ingest, sqs, stream, feed_gaps, checkpoints, health
    kafka       kafka
    storage     database, retention
    clusters    workers, triton
    enrichment  enrichment
    web         web, web.oidc, deliver.NAME
    base        the base class of sections; files that hold secrets
    loading     the order of the sources, and errors in one sentence

Example:
    >>> load_settings(environment={"FINGERPRINT_SPECTRAL__VOTE_SHARE": "0.02"}).spectral.vote_share
    0.02

    $ FINGERPRINT_SPECTRAL__VOTE_SHARE=0.02 fingerprint score ...      # the environment wins over the file
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from fingerprint.core.settings.base import Section, read_secret
from fingerprint.core.settings.clusters import Triton, Workers
from fingerprint.core.settings.detection import (
    Alerts,
    Autoencoder,
    Entities,
    IsolationForestSettings,
    Reading,
    SequenceSettings,
    Spectral,
    Voting,
)
from fingerprint.core.settings.enrichment import Enrichment
from fingerprint.core.settings.kafka import Kafka, KafkaSecurity
from fingerprint.core.settings.storage import Database, Retention
from fingerprint.core.settings.streaming import Checkpoints, FeedGaps, Health, Ingest, Sqs, Stream
from fingerprint.core.settings.training import Bank, Promotion, Retraining, Training
from fingerprint.core.settings.web import Oidc, ReceiverSettings, Web

__all__ = [
    "Alerts",
    "Autoencoder",
    "Bank",
    "Checkpoints",
    "Database",
    "Enrichment",
    "Entities",
    "FeedGaps",
    "Health",
    "Ingest",
    "IsolationForestSettings",
    "Kafka",
    "KafkaSecurity",
    "Oidc",
    "Promotion",
    "Reading",
    "ReceiverSettings",
    "Retention",
    "Retraining",
    "Section",
    "SequenceSettings",
    "Settings",
    "Spectral",
    "Sqs",
    "Stream",
    "Training",
    "Triton",
    "Voting",
    "Web",
    "Workers",
    "describe_settings",
    "load_settings",
    "read_secret",
]


class Settings(Section):
    """All settings. A plain value: only `load_settings` reads files and the environment."""

    backend: Literal["auto", "cpu", "cuda"] = Field(
        "auto",
        description="Backend that reads and scores: auto (a GPU if one with its libraries is present), cpu or cuda.",
    )
    reading: Reading = Field(Reading(), description="Reading records.")
    entities: Entities = Field(Entities(), description="Units that have a fingerprint.")
    autoencoder: Autoencoder = Field(
        Autoencoder(), description="The autoencoder, a detector of unusual events."
    )
    training: Training = Field(Training(), description="What a bank learns from a history.")
    retraining: Retraining = Field(Retraining(), description="When banks are trained again.")
    spectral: Spectral = Field(Spectral(), description="The spectral detector of unusual intervals.")
    sequence: SequenceSettings = Field(
        SequenceSettings(),
        description="The sequence detector of actions that are unusual after those before them.",
    )
    isolation_forest: IsolationForestSettings = Field(
        IsolationForestSettings(), description="The isolation forest, an optional detector of unusual events."
    )
    detectors: dict[str, dict[str, Any]] = Field(
        {},
        description="Sections of detectors from other packages, by the detector's name; each validates its own.",
    )
    voting: Voting = Field(Voting(), description="Which detectors vote, and what makes a verdict.")
    bank: Bank = Field(Bank(), description="Banks on disk.")
    promotion: Promotion = Field(Promotion(), description="When a new bank replaces the served one.")
    alerts: Alerts = Field(Alerts(), description="How verdicts become alerts.")
    database: Database = Field(Database(), description="The alert store.")
    retention: Retention = Field(Retention(), description="For how long the alert store keeps what.")
    enrichment: Enrichment = Field(Enrichment(), description="Tables that say more about addresses.")
    kafka: Kafka = Field(Kafka(), description="Brokers, topics and their security.")
    ingest: Ingest = Field(Ingest(), description="When ingest stops because of dead letters.")
    sqs: Sqs = Field(Sqs(), description="Notifications of S3 objects from SQS.")
    stream: Stream = Field(Stream(), description="Event time and memory of a stream.")
    feed_gaps: FeedGaps = Field(FeedGaps(), description="Feeds that fall silent.")
    checkpoints: Checkpoints = Field(Checkpoints(), description="Saved state of a stream.")
    health: Health = Field(Health(), description="Health endpoints of long-running programs.")
    triton: Triton = Field(Triton(), description="A Triton server that computes losses.")
    workers: Workers = Field(Workers(), description="Where trainings and backfills run.")
    deliver: dict[str, ReceiverSettings] = Field({}, description="Receivers of alerts by name.")
    web: Web = Field(Web(), description="The web server.")

    @field_validator("deliver")
    @classmethod
    def check_receiver_names(cls, receivers: dict[str, ReceiverSettings]) -> dict[str, ReceiverSettings]:
        """Refuse a receiver's name that cannot be part of an environment variable or a label of a metric."""
        for name in receivers:
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
                raise ValueError(f"{name!r} is no receiver's name: a-z, 0-9, _ and -, 40 at most")
        return receivers

    @model_validator(mode="after")
    def check_retention(self) -> Settings:
        """Refuse settings under which the reference bank is retired before it is compared."""
        if self.promotion.reference_versions_back >= self.bank.retained_versions:
            raise ValueError(
                f"promotion.reference_versions_back {self.promotion.reference_versions_back} is further back than the "
                f"bank.retained_versions {self.bank.retained_versions}: keep more, or look back less"
            )
        return self

    @property
    def alert_gap_intervals(self) -> int:
        """The number of intervals without a verdict after which an alert is over."""
        return -(-self.alerts.group_gap_seconds // self.spectral.interval_seconds)

    def without_receivers(self) -> Settings:
        """Return the settings without receivers, whose URLs are secrets: a connection to a scheduler may be unencrypted."""
        return self.model_copy(update={"deliver": {}})


from fingerprint.core.settings.loading import describe_settings, load_settings  # noqa: E402  needs Settings
