"""The threshold and the quorum that people chose at the desk: rows that are only ever added, the newest holds.

Example:
    >>> with engine.begin() as connection:
    ...     tune(connection, now, "maria", "too many of CI", threshold=3.6)
    ...     tuned(connection).threshold
    3.6
"""

from __future__ import annotations

import math
from datetime import datetime

import sqlalchemy as sql

from fingerprint.core.alert import FingerprintError
from fingerprint.core.case import ThresholdOverride
from fingerprint.core.sanitize import storable
from fingerprint.store import audit
from fingerprint.store import schema as tables
from fingerprint.store.queue_tables import AUTOINCREMENT_TYPE

MIN_THRESHOLD, MAX_THRESHOLD = (
    1.0,
    37.0,
)  # of a threshold: below, everything is strange; above, no probability is left to tell
MAX_LISTED = 100

threshold_overrides = sql.Table(
    "tunings",
    tables.metadata,
    sql.Column("number", AUTOINCREMENT_TYPE, primary_key=True),
    tables.required_time("at"),
    tables.required_text("by"),
    tables.required_text("why"),
    sql.Column("threshold", tables.NanAsNull),
    sql.Column("quorum", sql.Integer),
    sql.Column("cleared", sql.Boolean, nullable=False),
    sqlite_autoincrement=True,
)


def add_threshold_override(
    connection: sql.Connection,
    at: datetime,
    by: str,
    reason: str,
    threshold: float | None = None,
    quorum: int | None = None,
) -> ThresholdOverride:
    """Choose; without threshold and quorum what the settings say holds again. FingerprintError without a reason, and for a
    threshold that everything or nothing would pass."""
    if not reason.strip():
        raise FingerprintError("say why: whoever looks at the thresholds next wants to know")
    if threshold is not None and not (
        math.isfinite(threshold) and MIN_THRESHOLD <= threshold <= MAX_THRESHOLD
    ):
        raise FingerprintError(
            f"a threshold of {threshold:g} cannot be meant: give {MIN_THRESHOLD:g} to {MAX_THRESHOLD:g}"
        )
    if quorum is not None and quorum < 1:
        raise FingerprintError("a quorum is at least one vote")
    chosen = {"threshold": threshold, "quorum": quorum, "cleared": threshold is None and quorum is None}
    row = {"at": at, "by": storable(by), "why": storable(reason), **chosen}
    connection.execute(sql.insert(threshold_overrides).values(**row))
    audit.add_audit_entry(
        connection, at, by, "threshold.change", "threshold", {**chosen, "why": storable(reason)}
    )
    return list_threshold_overrides(connection, 1)[0]


def current_threshold_override(connection: sql.Connection) -> ThresholdOverride | None:
    """What holds; None where nobody ever chose."""
    return next(iter(list_threshold_overrides(connection, 1)), None)


def list_threshold_overrides(connection: sql.Connection, limit: int = MAX_LISTED) -> list[ThresholdOverride]:
    """What was chosen, the newest first."""
    query = sql.select(threshold_overrides).order_by(threshold_overrides.c.number.desc()).limit(limit)
    return [ThresholdOverride(**row) for row in connection.execute(query).mappings()]
