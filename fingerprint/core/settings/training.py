"""Settings of training, retraining, banks and their promotion (docs/explanation/training.md, docs/reference/bank-format.md)."""

from __future__ import annotations

from pydantic import Field, model_validator

from fingerprint.core.settings.base import Section


class Training(Section):
    """Training of a bank from a history."""

    partition_events: int = Field(
        300_000,
        gt=0,
        description="Approximate number of events in one training partition, which one worker holds in memory.",
    )
    single_vote_exclusion_days: float = Field(
        14.0, ge=0, description="Days for which an event with a single vote is left out of training."
    )
    max_threshold_increase: float = Field(
        0.1, ge=0, description="Largest share by which benign dispositions raise an entity's threshold."
    )
    max_threshold_decrease: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="Largest share by which true-positive dispositions lower an entity's threshold.",
    )


class Retraining(Section):
    """Schedule of `fingerprint retrain`, and the history that it trains on."""

    min_history_days: float = Field(
        14.0, gt=0, description="Days of events that the topic holds before the first bank is trained."
    )
    interval_hours: float = Field(
        24.0, gt=0, description="Hours from the end of one training to the start of the next."
    )
    history_days: float = Field(30.0, gt=0, description="Days before the newest event that a training reads.")
    poll_interval_seconds: float = Field(
        60.0, gt=0, description="Seconds between two checks whether a training is due."
    )


class Bank(Section):
    """Banks on disk: their size, how many are kept, and who signs them."""

    retained_versions: int = Field(
        7,
        gt=0,
        description="Number of newest versions that are kept on disk, and of those that were served last.",
    )
    poll_interval_seconds: float = Field(
        30.0, gt=0, description="Seconds between two checks of a stream for a newly served version."
    )
    verify_key_files: tuple[str, ...] = Field(
        (), description="Paths of public keys (PEM); a bank that none of them signed is refused."
    )
    signing_key_file: str | None = Field(
        None, description="Path of the private key (PEM) that signs new banks."
    )
    signer: str | None = Field(
        None,
        description="Import path package.module:factory of a signer that replaces the private key file, such as a key "
        "management service.",
    )

    @model_validator(mode="after")
    def check_single_signer(self) -> Bank:
        """Refuse two ways to sign."""
        if self.signing_key_file and self.signer:
            raise ValueError("signing_key_file and signer are two ways to sign: set one")
        return self


class Promotion(Section):
    """Conditions for a new bank to replace the one that is served."""

    max_missed_share: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Largest share of the injected attacks clearly found by the served bank that a new bank may miss.",
    )
    max_loss_shift: float = Field(
        0.5,
        gt=0,
        description="Largest share by which a quantile of the held-out losses may move from one bank to the next.",
    )
    max_lost_fingerprints: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Largest share of ready fingerprints that may be missing from a new bank.",
    )
    max_votes_per_day: float = Field(
        300.0,
        gt=0,
        description="Largest number of principals a day with an autoencoder vote on the held-out history; 5 % of them "
        "where that is more.",
    )
    reference_versions_back: int = Field(
        5,
        gt=0,
        description="Number of served versions back to the reference bank against which slow drift is measured.",
    )
