"""Settings of reading records, of the detectors, and of what makes a verdict and an alert (docs/explanation/detection.md)."""

from __future__ import annotations

import re
from statistics import NormalDist
from typing import Literal

from pydantic import Field, field_validator, model_validator

from fingerprint.core.case import MAX_THRESHOLD, MIN_THRESHOLD
from fingerprint.core.settings.base import Section
from fingerprint.core.time_range import DAY_SECONDS


class Reading(Section):
    """Reading of records. The bounds on sizes and nesting are constants: `fingerprint.sources.archives.ReadLimits`."""

    networks_file: str | None = Field(
        None,
        description="Path of a table of networks with one CIDR block, or first and last address, and a name in each row, "
        "or of an MMDB of network owners; no table if unset.",
    )
    batch_records: int = Field(
        20_000, gt=0, description="Number of records that are read, encoded and scored together."
    )


class Entities(Section):
    """Units that have a fingerprint, and conditions for one to be ready."""

    granularity: Literal["principal_service", "principal", "service"] = Field(
        "principal_service",
        description="Unit that has a fingerprint: a principal in a service, a principal, or a service.",
    )
    person_role_patterns: tuple[str, ...] = Field(
        (r"^AWSReservedSSO_",),
        description="Regular expressions of role names whose session name is fixed by the identity provider, so that "
        "each session name is a person.",
    )
    min_ready_events: int = Field(
        40,
        gt=0,
        description="Number of events from which an entity is judged by its own fingerprint instead of its peer group's.",
    )
    min_ready_days: int = Field(
        2,
        gt=0,
        description="Number of distinct days with events from which an entity is judged by its own fingerprint.",
    )

    @field_validator("person_role_patterns")
    @classmethod
    def check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse what is no regular expression."""
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return patterns


class Autoencoder(Section):
    """The autoencoder: which events are unusual for their entity."""

    vote_share: float = Field(
        0.05,
        ge=0.0005,
        le=0.5,
        description="Share of harmless events, on the held-out days of the history, that the autoencoder votes on; events "
        "that are alike count as one.",
    )
    threshold: float | None = Field(
        None,
        description="Score in standard deviations (z) from which the autoencoder votes on an event; derived from the vote "
        "share if unset.",
    )
    warm_start_bank: str | None = Field(
        None,
        description="Path of a bank whose generic net all nets start from; nets start from random weights if unset, or if "
        "that bank has counts alone.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto",
        description="Device that nets are trained on: auto (a CUDA device that PyTorch sees, else the CPU), cpu or cuda.",
    )
    max_epochs: int = Field(
        20,
        ge=0,
        description="Largest number of training epochs of a net; training stops earlier when held-out loss stops "
        "improving.",
    )


class Spectral(Section):
    """The spectral detector: which intervals have unusual activity for their entity."""

    vote_share: float = Field(
        0.05,
        gt=0,
        le=0.5,
        description="Share of a principal's harmless events that the spectral detector may vote for, by held-out history.",
    )
    interval_seconds: int = Field(
        3600,
        ge=60,
        description="Length in seconds of the intervals in which activity is counted; it divides a day.",
    )
    history_days: int = Field(21, gt=0, description="Days of past activity that one spectral forecast uses.")
    warm_up_days: int = Field(
        2, gt=0, description="Days of history that an entity needs before the spectral detector votes on it."
    )
    allowed_lateness_seconds: int = Field(
        600,
        ge=600,
        description="Seconds of event time after the end of an interval during which late events still count in it.",
    )

    @model_validator(mode="after")
    def check_can_fire(self) -> Spectral:
        """Refuse settings under which the detector never votes."""
        if DAY_SECONDS % self.interval_seconds:
            raise ValueError("interval_seconds must divide a day")
        if self.warm_up_days > self.history_days:
            raise ValueError(
                f"warm_up_days {self.warm_up_days} never ends within {self.history_days} history_days"
            )
        return self

    @property
    def intervals_per_day(self) -> int:
        """The number of intervals in a day."""
        return DAY_SECONDS // self.interval_seconds

    @property
    def late_intervals(self) -> int:
        """The number of intervals before the running one that late records may still change."""
        return -(-self.allowed_lateness_seconds // self.interval_seconds)

    @property
    def threshold(self) -> float:
        """The z (standard deviations) from which the detector votes: a share `vote_share` of harmless events reaches it."""
        return -NormalDist().inv_cdf(self.vote_share)


class SequenceSettings(Section):
    """The sequence detector: which actions are unusual after those just before them."""

    vote_share: float = Field(
        0.05,
        gt=0,
        lt=0.5,
        description="Share of harmless events of each kind of principal on which the sequence detector may vote.",
    )

    @property
    def threshold(self) -> float:
        """The z (standard deviations) from which the detector votes: a share `vote_share` of harmless events reaches it."""
        return -NormalDist().inv_cdf(self.vote_share)


class IsolationForestSettings(Section):
    """The isolation forest, an optional third detector."""

    threshold: float = Field(
        4.0, description="Score in standard deviations (z) from which the isolation forest votes on an event."
    )


class Voting(Section):
    """Detectors that vote, votes that make a verdict, and events that wait for an interval to close."""

    detectors: tuple[str, ...] = Field(
        ("autoencoder", "spectral", "sequence"),
        description="Detectors that vote: names, or import paths (package.module:Class) of detectors from other packages.",
    )
    quorum: int = Field(2, gt=0, description="Number of votes that make a verdict.")
    max_pending_events: int = Field(
        200_000,
        gt=0,
        description="Largest number of events of one interval that wait for it to close, in one partition; events "
        "beyond it are dropped and counted.",
    )
    max_unknown_principals_per_day: int = Field(
        1_000,
        gt=0,
        description="Largest number of principals unknown to the bank that receive votes on one day, in one partition. Grave "
        "calls of as many more do, and severe ones of twice as many more.",
    )

    @model_validator(mode="after")
    def check_reachable(self) -> Voting:
        """Refuse a quorum that the detectors cannot reach."""
        if len(set(self.detectors)) < len(self.detectors):
            raise ValueError("detectors lists one of them twice, and each has one vote")
        if self.quorum > len(self.detectors):
            raise ValueError(f"quorum {self.quorum} can never be reached by {len(self.detectors)} detectors")
        return self


class Alerts(Section):
    """Flagged events that open an alert, and their grouping."""

    budget_per_100_principals: float = Field(
        1.0,
        gt=0,
        description="Most alerts a day of ordinary work for each 100 principals, where a person counts once; the threshold "
        "follows from held-out history, with a margin: it is short, and days to come have more alerts. A smaller organisation "
        "counts as 100 principals.",
    )
    threshold: float | None = Field(
        None,
        ge=MIN_THRESHOLD,
        le=MAX_THRESHOLD,
        description="Score in standard deviations (z) of the strongest calibrated detector from which a flagged event opens an "
        "alert; derived from the budget if unset.",
    )
    group_gap_seconds: int = Field(
        3 * 3600,
        gt=0,
        description="Seconds without a verdict of the principal after which an alert is over; rounded up to intervals.",
    )
