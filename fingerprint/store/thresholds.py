"""Thresholds and quorums that people set, which take precedence over the settings.

Example:
    >>> store.thresholds.override(now, "maria", "too many alerts of CI", threshold=3.6)
    >>> store.thresholds.current().threshold
    3.6
"""

from __future__ import annotations

import math
from datetime import datetime

import sqlalchemy as sql

from fingerprint.core.case import MAX_THRESHOLD, MIN_THRESHOLD, ThresholdOverride
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable
from fingerprint.store.audit import add_audit_entry
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.schema import threshold_overrides

MAX_LISTED = 100


class SqlThresholdRepository(Repository):
    """Overrides: rows are only added, and the newest one is in force."""

    @writes(Locking.SERIALIZED)
    def override(
        self,
        connection: sql.Connection,
        at: datetime,
        by: str,
        reason: str,
        threshold: float | None = None,
        quorum: int | None = None,
    ) -> ThresholdOverride:
        """Override threshold or quorum from now on; if both are None, the settings are in force again.

        Raise FingerprintError without a reason, and for a threshold that all events or none would reach.
        """
        _check_override(reason, threshold, quorum)
        values = {"threshold": threshold, "quorum": quorum, "cleared": threshold is None and quorum is None}
        row = {"at": at, "by": storable(by), "why": storable(reason), **values}
        connection.execute(sql.insert(threshold_overrides).values(**row))
        detail = {**values, "why": storable(reason)}
        add_audit_entry(connection, at, by, "threshold.change", "threshold", detail)
        return _read_overrides(connection, 1)[0]

    @reads
    def current(self, connection: sql.Connection) -> ThresholdOverride | None:
        """Return the override in force, None where there has never been one."""
        return next(iter(_read_overrides(connection, 1)), None)

    @reads
    def history(self, connection: sql.Connection) -> list[ThresholdOverride]:
        """Return the newest MAX_LISTED overrides, the newest first."""
        return _read_overrides(connection, MAX_LISTED)


def _check_override(reason: str, threshold: float | None, quorum: int | None) -> None:
    if not reason.strip():
        raise FingerprintError("give a reason: the next reader of the thresholds needs it")
    if threshold is not None and not (
        math.isfinite(threshold) and MIN_THRESHOLD <= threshold <= MAX_THRESHOLD
    ):
        raise FingerprintError(
            f"a threshold of {threshold:g} cannot be meant: give {MIN_THRESHOLD:g} to {MAX_THRESHOLD:g}"
        )
    if quorum is not None and quorum < 1:
        raise FingerprintError("a quorum is at least one vote")


def _read_overrides(connection: sql.Connection, limit: int) -> list[ThresholdOverride]:
    query = sql.select(threshold_overrides).order_by(threshold_overrides.c.number.desc()).limit(limit)
    return [ThresholdOverride(**row) for row in connection.execute(query).mappings()]
