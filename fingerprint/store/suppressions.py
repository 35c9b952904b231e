"""Suppressions: rules that hide alerts for a while, from their creation to their end.

Example:
    >>> match = SuppressionMatch(principal=etl, service="glue")
    >>> store.suppressions.preview(match).alerts
    14
    >>> made = store.suppressions.create(match, "a migration until Friday", friday, by="maria")
    >>> [each.suppression_id for each in store.suppressions.list_all()] == [made.suppression_id]
    True

Hidden alerts stay stored, and a suppression expires without a program that runs. `suppression_hits` determines the hidden alerts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import sqlalchemy as sql

from fingerprint.alerting.suppression import SuppressionMatcher, validate_expiry, validate_reason
from fingerprint.core.alert import MINIMUM_URGENCY, Decision
from fingerprint.core.case import Suppression, SuppressionMatch, SuppressionPreview
from fingerprint.core.errors import Conflict, FingerprintError, NotFound
from fingerprint.core.sanitize import printable, storable
from fingerprint.store.audit import add_audit_entry, audit_digest, mark_changed
from fingerprint.store.cases import read_current_decisions
from fingerprint.store.database import Locking, Repository, reads, writes
from fingerprint.store.filters import ALERTS_WITH_CASES
from fingerprint.store.query_conditions import OPEN
from fingerprint.store.queue import read_queue_rows
from fingerprint.store.schema import Row, alerts, cases, id_batches, suppressions
from fingerprint.store.schema import suppression_hits as hits
from fingerprint.store.suppression_hits import ATTACK, find_matching_alerts, save_hits
from fingerprint.store.unknown_values import unknown_values

FORCE_REASON_REQUIRED = "to force a suppression, say why it may hide attacks: the reason is recorded"
HASHED_FIELDS = ("principal", "human")  # of a match: stored as digests in the audit, which is never erased


class SqlSuppressionRepository(Repository):
    """Suppressions and what they hide."""

    @reads
    def preview(
        self, connection: sql.Connection, match: SuppressionMatch, limit: int = 20
    ) -> SuppressionPreview:
        """Return the stored alerts that a match would hide; if there are none, the values that no stored alert has.

        Raise FingerprintError for a match that is empty or cannot be read.
        """
        matcher = SuppressionMatcher(match)
        ids = find_matching_alerts(connection, matcher)
        preview = _build_preview(connection, ids, limit, self._session.now())
        return preview if ids else replace(preview, unknown=unknown_values(connection, matcher))

    @writes(Locking.SERIALIZED)
    def create(
        self,
        connection: sql.Connection,
        match: SuppressionMatch,
        reason: str,
        expires_at: datetime,
        by: str,
        force: str | None = None,
    ) -> Suppression:
        """Hide matching alerts, stored and future ones. `force` says why it may hide confirmed attacks and critical alerts.

        Raise FingerprintError without a reason, for an end in the past or more than a year ahead, and for a match that would hide
        such alerts without `force`.
        """
        now = self._session.now()
        forced = "" if force is None else validate_reason(force, FORCE_REASON_REQUIRED)
        matcher = SuppressionMatcher(match)
        row = _new_row(
            matcher.match, validate_reason(reason), validate_expiry(expires_at, now), by, forced, now
        )
        found = find_matching_alerts(connection, matcher)
        if not forced:
            _check_hides_no_attacks(connection, found, now)
        connection.execute(sql.insert(suppressions).values(**row))
        save_hits(connection, [(row["suppression_id"], alert_id) for alert_id in found], now)
        detail = {"match": _match_for_audit(matcher.match), "reason": row["reason"]}
        detail |= {"until": row["expires_at"].isoformat(), "alerts": len(found)}
        detail |= {"forced": forced} if forced else {}
        add_audit_entry(connection, now, by, "suppression.create", row["suppression_id"], detail)
        made = _read_suppression(connection, row["suppression_id"])
        mark_changed(connection, found)
        return made

    @writes(Locking.SERIALIZED)
    def end(self, connection: sql.Connection, suppression_id: str, version: int, by: str) -> Suppression:
        """End a suppression, so that its alerts are shown again. Raise Conflict if it is over or was changed since `version`."""
        now, known = self._session.now(), _read_suppression(connection, suppression_id)
        if known.ended_at or known.expires_at <= now:
            raise Conflict(f"suppression {known.suppression_id} is over already")
        own = suppressions.c.suppression_id == known.suppression_id
        same = own & (suppressions.c.version == version) & suppressions.c.ended_at.is_(None)
        changed = sql.update(suppressions).where(same).values(ended_at=now, version=version + 1)
        if not connection.execute(changed).rowcount:
            raise Conflict(f"suppression {known.suppression_id} was changed by another user: look again")
        detail = {"hits": known.hits}
        add_audit_entry(connection, now, by, "suppression.end", known.suppression_id, detail)
        shown = sql.select(hits.c.alert_id).where(
            hits.c.suppression_id == known.suppression_id, ~hits.c.outgrown
        )
        ended = _read_suppression(connection, known.suppression_id)
        mark_changed(connection, list(connection.scalars(shown)))
        return ended

    @reads
    def list_all(self, connection: sql.Connection, ended: bool = False) -> list[Suppression]:
        """Return suppressions in force, the next to expire first; with `ended` then past ones, the latest first."""
        now = self._session.now()
        found = [_to_suppression(row) for row in connection.execute(_select_with_hit_counts()).mappings()]
        running = [each for each in found if each.ended_at is None and each.expires_at > now]
        past = [each for each in found if each not in running] if ended else []
        running.sort(key=lambda each: (each.expires_at, each.suppression_id))
        past.sort(key=lambda each: min(each.ended_at or each.expires_at, each.expires_at), reverse=True)
        return running + past

    @reads
    def get(self, connection: sql.Connection, suppression_id: str) -> Suppression:
        """Return a suppression by its whole id. Raise NotFound without one."""
        return _read_suppression(connection, suppression_id)


# --- rows -------------------------------------------------------------------------------------------------------------


def _read_suppression(connection: sql.Connection, suppression_id: str) -> Suppression:
    this_suppression = suppressions.c.suppression_id == storable(suppression_id)
    row = connection.execute(_select_with_hit_counts().where(this_suppression)).mappings().first()
    if row is None:
        shown = printable(suppression_id[:100])
        raise NotFound(f"there is no suppression {shown!r}: `fingerprint suppressions list` shows them")
    return _to_suppression(row)


def _select_with_hit_counts() -> sql.Select[Any]:
    own = hits.c.suppression_id == suppressions.c.suppression_id
    count = sql.select(sql.func.count()).where(own).scalar_subquery().label("hits")
    last = sql.select(sql.func.max(hits.c.at)).where(own).scalar_subquery().label("last_hit")
    return sql.select(suppressions, count, last)


def _to_suppression(row: sql.RowMapping) -> Suppression:
    return Suppression(**{**row, "match": SuppressionMatch(**row["match"])})


def _new_row(
    match: SuppressionMatch, reason: str, expires_at: datetime, by: str, forced: str, now: datetime
) -> Row:
    own: Row = {"match": asdict(match), "reason": reason, "owner": storable(by)}
    content = json.dumps([*own.values(), now.isoformat()], sort_keys=True)
    own["suppression_id"] = blake2b(content.encode(), digest_size=6).hexdigest()
    life = {"version": 1, "created_at": now, "expires_at": expires_at, "ended_at": None}
    return own | life | {"forced": forced}


def _match_for_audit(match: SuppressionMatch) -> Row:
    """Return a match with digests in place of names, because the audit is kept for ever."""
    given = {name: value for name, value in asdict(match).items() if value}
    return {name: audit_digest(value) if name in HASHED_FIELDS else value for name, value in given.items()}


# --- previews ---------------------------------------------------------------------------------------------------------


class _HiddenAlert(NamedTuple):
    """An alert that would be hidden; its urgency is its own, however many principals share it."""

    urgency: int
    first_event_time: datetime
    alert_id: str
    is_open: bool
    decision: Decision | None


def _build_preview(
    connection: sql.Connection, ids: Sequence[str], limit: int, now: datetime
) -> SuppressionPreview:
    """Count the alerts that would be hidden, by their ids, and show the most urgent.

    A confirmed alert was decided as a true positive or as a duplicate of one, even if it has grown since.
    """
    found = sorted(
        _read_hidden_alerts(connection, ids),
        key=lambda each: (-each.urgency, each.first_event_time, each.alert_id),
    )
    decisions = read_current_decisions(connection) if found else {}
    shown = [each.alert_id for each in found[: max(0, limit)]]
    return SuppressionPreview(
        alerts=len(found),
        open=sum(each.is_open for each in found),
        urgent=sum(each.urgency >= MINIMUM_URGENCY["high"] for each in found),
        critical=sum(each.urgency >= MINIMUM_URGENCY["critical"] for each in found),
        confirmed=sum(ATTACK in (each.decision, decisions.get(each.alert_id)) for each in found),
        rows=tuple(read_queue_rows(connection, shown, now)),
    )


def _check_hides_no_attacks(connection: sql.Connection, ids: Sequence[str], now: datetime) -> None:
    """Raise FingerprintError if confirmed attacks or critical alerts would be hidden."""
    preview = _build_preview(connection, ids, 0, now)
    if preview.critical or preview.confirmed:
        raise FingerprintError(
            f"of the {preview.alerts:,} alerts that it would hide {preview.critical:,} are critical and "
            f"{preview.confirmed:,} confirmed attacks: make it narrower, or force it and say why (--force REASON)"
        )


def _read_hidden_alerts(connection: sql.Connection, alert_ids: Sequence[str]) -> Iterator[_HiddenAlert]:
    columns = (alerts.c.urgency, alerts.c.first_event_time, alerts.c.alert_id, OPEN, cases.c.decision)
    query = sql.select(*columns).select_from(ALERTS_WITH_CASES)
    for batch in id_batches(alert_ids):
        rows = connection.execute(query.where(alerts.c.alert_id.in_(batch)))
        yield from (_HiddenAlert(*row) for row in rows)
