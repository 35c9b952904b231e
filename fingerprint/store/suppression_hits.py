"""Alerts that suppressions match, and alerts that they hide now.

Example:
    >>> query = sql.select(alerts.c.alert_id).where(is_hidden(now))
    >>> connection.scalars(query).all()
    ['77b0e6d1920c4f3e']

- A *hit* records that a suppression matches all of an alert's events. Hits are updated with every save.
- A hit hides its alert while the suppression has neither ended nor expired. An alert that outgrew its match is shown again.
- An alert that is critical by itself, or was decided as a true positive, is only hidden by a forced suppression.
- Votes are never touched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sql

from fingerprint.alerting.suppression import AlertFacts, EventFacts, SuppressionMatcher
from fingerprint.core.alert import MINIMUM_URGENCY, Decision
from fingerprint.core.case import SuppressionMatch
from fingerprint.core.sanitize import index_key
from fingerprint.store.schema import (
    alert_events,
    alert_values,
    alerts,
    cases,
    id_batches,
    insert_into,
    suppressions,
)
from fingerprint.store.schema import suppression_hits as hits

ATTACK: Decision = "true_positive"
_FORCED = suppressions.c.forced != ""
_EVENT_COLUMNS = tuple(alert_events.c[name] for name in EventFacts._fields)


# --- what is hidden --------------------------------------------------------------------------------------------------


def is_hidden(now: datetime) -> sql.ColumnElement[bool]:
    """Return the condition that a suppression hides a row of `alerts` now."""
    hit = _in_force(now).with_only_columns(hits.c.alert_id)  # evaluated once, not for each row
    return alerts.c.alert_id.in_(hit) & (~_is_attack() | alerts.c.alert_id.in_(hit.where(_FORCED)))


def hiding_suppression(now: datetime) -> sql.ScalarSelect[str | None]:
    """Return the suppression that hides a row of `alerts` for the longest time; null if none does."""
    latest = (suppressions.c.expires_at.desc(), suppressions.c.suppression_id)
    return (
        _in_force(now)
        .where(hits.c.alert_id == alerts.c.alert_id, _FORCED | ~_is_attack())
        .order_by(*latest)
        .limit(1)
        .scalar_subquery()
    )


def _is_attack() -> sql.ColumnElement[bool]:
    """Return the condition that a row of `alerts` is critical by itself, or confirmed, or a duplicate of a confirmed one."""
    decided = cases.alias()
    confirmed = sql.select(decided.c.alert_id).where(decided.c.decision == ATTACK)
    duplicate = sql.select(decided.c.alert_id).where(
        decided.c.duplicate_of.in_(confirmed), decided.c.decision == "duplicate"
    )
    is_confirmed = alerts.c.alert_id.in_(confirmed) | alerts.c.alert_id.in_(duplicate)
    return (alerts.c.urgency >= MINIMUM_URGENCY["critical"]) | is_confirmed


def _in_force(now: datetime) -> sql.Select[Any]:
    """Return a query of the hits of suppressions that have neither ended nor expired."""
    same = suppressions.c.suppression_id == hits.c.suppression_id
    return (
        sql.select(suppressions.c.suppression_id)
        .join_from(hits, suppressions, same)
        .where(~hits.c.outgrown, suppressions.c.ended_at.is_(None), suppressions.c.expires_at > now)
    )


# --- what matches ----------------------------------------------------------------------------------------------------


def find_matching_alerts(connection: sql.Connection, matcher: SuppressionMatcher) -> list[str]:
    """Return the ids of stored alerts that match. The database finds candidates, which are then matched one by one."""
    candidates = _find_candidates(connection, matcher)
    return [alert_id for alert_id, facts in read_match_facts(connection, candidates) if matcher(facts)]


def update_suppression_hits(connection: sql.Connection, alert_ids: Sequence[str], now: datetime) -> None:
    """Match saved alerts with the suppressions in force: add hits, and mark those that were outgrown."""
    query = sql.select(suppressions.c.suppression_id, suppressions.c.match).where(
        suppressions.c.ended_at.is_(None), suppressions.c.expires_at > now
    )
    running = [
        (name, SuppressionMatcher(SuppressionMatch(**match))) for name, match in connection.execute(query)
    ]
    if not running:
        return
    matching: list[tuple[str, str]] = []
    for alert_id, facts in read_match_facts(connection, alert_ids):
        matching += [(name, alert_id) for name, matcher in running if matcher(facts)]
    _mark_outgrown(connection, [name for name, _ in running], alert_ids, set(matching))
    save_hits(connection, matching, now)


def read_match_facts(
    connection: sql.Connection, alert_ids: Sequence[str]
) -> Iterator[tuple[str, AlertFacts]]:
    """Yield the facts about these alerts that a matcher compares, with their ids."""
    query = sql.select(alerts.c.alert_id, alerts.c.principal, alerts.c.human)
    for batch in id_batches(alert_ids):
        events, accounts = _read_events(connection, batch), _read_accounts(connection, batch)
        for alert_id, principal, human in connection.execute(query.where(alerts.c.alert_id.in_(batch))).all():
            yield alert_id, AlertFacts(principal, human, accounts[alert_id], events[alert_id])


def _read_events(connection: sql.Connection, alert_ids: Collection[str]) -> dict[str, list[EventFacts]]:
    events = sql.select(alert_events.c.alert_id, *_EVENT_COLUMNS).distinct()
    found: dict[str, list[EventFacts]] = defaultdict(list)
    for alert_id, *values in connection.execute(events.where(alert_events.c.alert_id.in_(alert_ids))):
        found[alert_id].append(EventFacts(*values))
    return found


def _read_accounts(connection: sql.Connection, alert_ids: Collection[str]) -> dict[str, list[str]]:
    own = (alert_values.c.kind == "account") & alert_values.c.alert_id.in_(alert_ids)
    query = sql.select(alert_values.c.alert_id, alert_values.c.value).where(own)
    found: dict[str, list[str]] = defaultdict(list)
    for alert_id, account in connection.execute(query):
        found[alert_id].append(account)
    return found


def _find_candidates(connection: sql.Connection, matcher: SuppressionMatcher) -> list[str]:
    """Return the ids of alerts that may match, sorted.

    The addresses of a network are selected here from the distinct addresses of all alerts, because the database knows no
    networks.
    """
    query = _select_candidates(matcher)
    if matcher.network is None:
        return list(connection.scalars(query.order_by(alerts.c.alert_id)))
    stored = sql.select(alert_values.c.value).where(alert_values.c.kind == "address").distinct()
    inside = [each for each in connection.scalars(stored) if matcher.matches_address(each)]
    found: set[str] = set()
    for batch in id_batches(inside):
        found.update(connection.scalars(query.where(alerts.c.alert_id.in_(_alerts_with("address", batch)))))
    return sorted(found)


def _select_candidates(matcher: SuppressionMatcher) -> sql.Select[tuple[str]]:
    """Return a query of alerts with the names and values of a match, and without events that clearly differ."""
    match, table = matcher.match, alert_events.c
    query = sql.select(alerts.c.alert_id)
    for column, name in ((alerts.c.principal, match.principal), (alerts.c.human, match.human)):
        query = query.where(column == name) if name else query
    values = (("account", match.account), ("service", matcher.service), ("action", matcher.action))
    for kind, value in values:
        query = query.where(alerts.c.alert_id.in_(_alerts_with(kind, [value]))) if value else query
    exact = ((table.service, matcher.service), (table.error_code, match.error_code))
    others = [column != value for column, value in exact if value]
    # User agents and actions are compared by their beginning: an API version may follow an action's name.
    begins = ((table.user_agent, match.user_agent), (table.action, matcher.action))
    others += [sql.func.substr(column, 1, len(value)) != value for column, value in begins if value]
    different = (table.alert_id == alerts.c.alert_id) & sql.or_(*others, sql.false())
    return query.where(~sql.exists().where(different)) if others else query


def _alerts_with(kind: str, values: Iterable[str]) -> sql.Select[tuple[str]]:
    """Return a query of alerts that have one of these values; every alert keeps some of its values of each kind."""
    same = (alert_values.c.kind == kind) & alert_values.c.value.in_([index_key(each) for each in values])
    return sql.select(alert_values.c.alert_id).where(same)


def save_hits(connection: sql.Connection, pairs: Iterable[tuple[str, str]], now: datetime) -> None:
    """Save hits, pairs of suppression and alert; a hit that was outgrown matches again."""
    rows = [
        {"suppression_id": name, "alert_id": alert_id, "at": now, "outgrown": False}
        for name, alert_id in pairs
    ]
    statement = insert_into(connection, hits)
    again = statement.on_conflict_do_update(
        index_elements=["suppression_id", "alert_id"], set_={"outgrown": False}, where=hits.c.outgrown
    )
    if rows:
        connection.execute(again, rows)


def _mark_outgrown(
    connection: sql.Connection,
    names: Collection[str],
    alert_ids: Sequence[str],
    matching: Collection[tuple[str, str]],
) -> None:
    """Mark the hits of these suppressions on these alerts that no longer match."""
    for batch in id_batches(alert_ids):
        matched = hits.c.alert_id.in_(batch) & hits.c.suppression_id.in_(names) & ~hits.c.outgrown
        known = connection.execute(sql.select(hits.c.suppression_id, hits.c.alert_id).where(matched)).all()
        for name, alert_id in {(row[0], row[1]) for row in known} - set(matching):
            outgrown = (hits.c.suppression_id == name) & (hits.c.alert_id == alert_id)
            connection.execute(sql.update(hits).where(outgrown).values(outgrown=True))
