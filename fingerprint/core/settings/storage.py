"""Settings of the alert store: the database, what it never stores, and for how long it keeps what."""

from __future__ import annotations

from pydantic import Field, field_validator

from fingerprint.core.errors import FingerprintError
from fingerprint.core.redaction import Redactor
from fingerprint.core.settings.base import Section

MAX_DAYS = 36_500  # the longest retention; earlier dates cannot all be represented


class Database(Section):
    """The database of alerts, votes and accounts."""

    url: str = Field(
        "sqlite:///fingerprint.sqlite",
        description="SQLAlchemy URL of the alert store: a SQLite file or a PostgreSQL database.",
    )
    min_vote_score: float = Field(
        1.6,
        description="Lowest score (z) of a single vote that is stored; estimates of thresholds know of no others. A vote "
        "share of 0.05 is a z of 1.64.",
    )
    redacted_fields: tuple[str, ...] = Field(
        (),
        description="Paths of record fields whose values are never stored; * stands for any one name.",
    )

    @field_validator("redacted_fields")
    @classmethod
    def check_paths(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse a path that the redactor does not understand."""
        try:
            Redactor(paths)
        except FingerprintError as error:
            raise ValueError(str(error)) from None
        return paths


class Retention(Section):
    """For how many days the database keeps what, counted from when it was stored; 0 keeps it for ever."""

    record_days: int = Field(
        90,
        ge=0,
        le=MAX_DAYS,
        description="Days that raw records are kept after they were stored; 0 keeps them for ever.",
    )
    vote_days: int = Field(
        90,
        ge=0,
        le=MAX_DAYS,
        description="Days that single votes and session owners are kept after they were stored; 0 keeps them for ever.",
    )
    closed_alert_days: int = Field(
        400,
        ge=0,
        le=MAX_DAYS,
        description="Days that closed alerts are kept after they were stored; 0 keeps them for ever, and open alerts "
        "are always kept.",
    )
