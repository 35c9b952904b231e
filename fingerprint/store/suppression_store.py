"""What lies between an alert and whoever reads it, as the desk offers it: suppressions, sharing, retention, purge.

Example:
    >>> made = desk.suppress(Match(principal=etl, service="glue"), "a migration until Friday", friday, by="maria")
    >>> [each.suppression_id for each in desk.suppressions()] == [made.suppression_id]
    True
    >>> desk.prune(Retention(raw_days=30), by="retention")
    {'records': 1800}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import sqlalchemy as sql

from fingerprint.alerting.suppression import validate_reason
from fingerprint.core.case import Suppression, SuppressionMatch, SuppressionPreview
from fingerprint.core.settings import Retention
from fingerprint.store import change_feed, prevalence, suppression_preview
from fingerprint.store import suppressions as desk_suppressions
from fingerprint.store.retention import purge_principal_rows, records_removed_at, remove_expired
from fingerprint.store.session import SqlStore

T = TypeVar("T")
FORCE_REASON_REQUIRED = "whoever forces a suppression says why it may hide attacks: it is recorded"


def ignore_progress(kind: str, done: int) -> None:
    """Progress that nobody watches."""


class SqlSuppressionStore(SqlStore):
    """Suppressions (see `ports_queue`), and what a desk no longer keeps."""

    def preview(self, match: SuppressionMatch, limit: int = 20) -> SuppressionPreview:
        """What a match would hide of the alerts that are on the desk. FingerprintError as `suppressing` says."""
        return self._read(
            lambda connection: suppression_preview.build_preview(connection, match, limit, self._now())
        )

    def create_suppression(
        self, match: SuppressionMatch, reason: str, expires_at: datetime, by: str, force: str | None = None
    ) -> Suppression:
        """From now on, and of what lies there already. `force` says why it may hide confirmed attacks and critical alerts.
        FingerprintError as `suppressing` says, and for one that would hide such alerts without it."""
        now, forced = self._now(), "" if force is None else validate_reason(force, FORCE_REASON_REQUIRED)

        def work(connection: sql.Connection) -> tuple[Suppression, list[str]]:
            if not forced:
                suppression_preview.check_suppression_safe(connection, match, now)
            return desk_suppressions.insert_suppression(
                connection, match, reason, expires_at, by, now, forced
            )

        return self._write_and_mark_changed(work)

    def end_suppression(self, suppression_id: str, version: int, by: str) -> Suppression:
        """What it hid is seen again. Overtaken where it is over, or somebody changed it since."""
        now = self._now()
        return self._write_and_mark_changed(
            lambda connection: desk_suppressions.close_suppression(
                connection, suppression_id, version, by, now
            )
        )

    def suppressions(self, ended: bool = False) -> list[Suppression]:
        """Those in force, the next to expire first; with `ended` those that are over, too."""
        return self._read(
            lambda connection: desk_suppressions.read_suppressions(connection, self._now(), ended)
        )

    def suppression(self, suppression_id: str) -> Suppression:
        """One, by its whole id; NotThere without it."""
        return self._read(lambda connection: desk_suppressions.read_suppression(connection, suppression_id))

    def prevalence(self, alert_id: str) -> list[tuple[str, str, int]]:
        """Its surprises that others show within a day of it: feature, value seen, and how many other principals."""
        return self._read(lambda connection: prevalence.read_prevalence(connection, alert_id))

    def apply_retention(
        self, retention: Retention, by: str, progress: Callable[[str, int], None] = ignore_progress
    ) -> dict[str, int]:
        """Remove what is older than it is kept, in short turns; how much that was, by kind."""
        return remove_expired(self._read, self._write, retention, by, self._now(), progress)

    def records_removed_at(self, alert_id: str) -> datetime | None:
        """When raw records of an alert were removed; None while all are there."""
        return self._read(lambda connection: records_removed_at(connection, alert_id))

    def purge_principal(self, principal: str, by: str) -> dict[str, int]:
        """Remove all that is of a principal; how many rows that were, by table. NotThere where nothing is."""
        return self._write(lambda connection: purge_principal_rows(connection, principal, by, self._now()))

    def _write_and_mark_changed(self, work: Callable[[sql.Connection], tuple[T, Sequence[str]]]) -> T:
        """Work that hides or shows alerts, and whoever looks at them is told."""

        def told(connection: sql.Connection) -> T:
            done, alert_ids = work(connection)
            change_feed.mark_changed(connection, alert_ids)
            return done

        return self._write(told)
