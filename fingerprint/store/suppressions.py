"""Suppressions on the desk: what each hides, of the alerts that lie there and of every save; nothing needs a job to expire.

Example:
    >>> with engine.begin() as connection:
    ...     made = suppress(connection, Match(principal=etl, service="glue"), "a migration", tomorrow, "maria", now)
    ...     connection.scalars(sql.select(alerts.c.alert_id).where(hidden(now))).all()
    ['77b0e6d1920c4f3e']

A *hit* says that a suppression fits all of an alert's events. An alert is hidden by its hits of suppressions that have neither
ended nor expired; one that outgrew its match is seen again. What is critical by itself, or was judged a true positive, is hidden
by a suppression that was forced and by no other, whichever came first. Votes are never touched.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sql

from fingerprint.alerting.suppression import (
    AlertFacts,
    EventFacts,
    SuppressionMatcher,
    validate_expiry,
    validate_reason,
)
from fingerprint.core.alert import MINIMUM_URGENCY, Conflict, Decision, NotFound
from fingerprint.core.case import Suppression, SuppressionMatch
from fingerprint.core.sanitize import printable, storable
from fingerprint.store import audit
from fingerprint.store.queue_tables import alert_values, cases
from fingerprint.store.schema import Row, alert_events, alerts, index_key, insert_into
from fingerprint.store.suppression_tables import suppression_hits as hits
from fingerprint.store.suppression_tables import suppressions

MAX_IDS_PER_QUERY = 500  # alerts of one IN (...)
HASHED_FIELDS = (
    "principal",
    "human",
)  # of a match: the audit, from which nothing is ever removed, has their digests
ATTACK: Decision = "true_positive"
_FORCED = suppressions.c.forced != ""
_EVENT_COLUMNS = tuple(alert_events.c[name] for name in EventFacts._fields)


# --- what is hidden -------------------------------------------------------------------------------------------------


def is_hidden(now: datetime) -> sql.ColumnElement[bool]:
    """Of a row of `alerts`: whether a suppression hides it now."""
    hit = _in_force(now).with_only_columns(hits.c.alert_id)  # asked once, not for each row
    return alerts.c.alert_id.in_(hit) & (~_is_attack() | alerts.c.alert_id.in_(hit.where(_FORCED)))


def hiding_suppression(now: datetime) -> sql.ScalarSelect[str | None]:
    """Of a row of `alerts`: the suppression that hides it longest, null where none does."""
    latest = (suppressions.c.expires_at.desc(), suppressions.c.suppression_id)
    return (
        _in_force(now)
        .where(hits.c.alert_id == alerts.c.alert_id, _FORCED | ~_is_attack())
        .order_by(*latest)
        .limit(1)
        .scalar_subquery()
    )


def _is_attack() -> sql.ColumnElement[bool]:
    """Of a row of `alerts`: whether it is critical, however many share it, or it or what it is a duplicate of is confirmed."""
    judged = cases.alias()
    confirmed = sql.select(judged.c.alert_id).where(judged.c.decision == ATTACK)
    again = sql.select(judged.c.alert_id).where(
        judged.c.duplicate_of.in_(confirmed), judged.c.decision == "duplicate"
    )
    of_one = alerts.c.alert_id.in_(confirmed) | alerts.c.alert_id.in_(again)
    return (alerts.c.urgency >= MINIMUM_URGENCY["critical"]) | of_one


def _in_force(now: datetime) -> sql.Select[Any]:
    same = suppressions.c.suppression_id == hits.c.suppression_id
    return (
        sql.select(suppressions.c.suppression_id)
        .join_from(hits, suppressions, same)
        .where(~hits.c.outgrown, suppressions.c.ended_at.is_(None), suppressions.c.expires_at > now)
    )


# --- from begin to end ----------------------------------------------------------------------------------------------


def insert_suppression(
    connection: sql.Connection,
    match: SuppressionMatch,
    reason: str,
    expires_at: datetime,
    by: str,
    now: datetime,
    forced: str = "",
) -> tuple[Suppression, list[str]]:
    """A new suppression, and the alerts on the desk that it fits. FingerprintError as `suppressing` says."""
    matcher, why, end = SuppressionMatcher(match), validate_reason(reason), validate_expiry(expires_at, now)
    row: Row = {
        "version": 1,
        "match": asdict(matcher.match),
        "reason": why,
        "owner": storable(by),
        "forced": forced,
    }
    row |= {
        "suppression_id": _new_suppression_id(row, now),
        "created_at": now,
        "expires_at": end,
        "ended_at": None,
    }
    connection.execute(sql.insert(suppressions).values(**row))
    found = find_matching_alerts(connection, matcher)
    _save_hits(connection, [(row["suppression_id"], alert_id) for alert_id in found], now)
    detail = {
        "match": _match_for_audit(matcher.match),
        "reason": why,
        "until": end.isoformat(),
        "alerts": len(found),
    }
    detail |= {"forced": forced} if forced else {}
    audit.add_audit_entry(connection, now, by, "suppression.create", row["suppression_id"], detail)
    return read_suppression(connection, row["suppression_id"]), found


def close_suppression(
    connection: sql.Connection, suppression_id: str, version: int, by: str, now: datetime
) -> tuple[Suppression, list[str]]:
    """End it, and say which alerts are seen again. Overtaken where it is over, or somebody changed it since."""
    it = read_suppression(connection, suppression_id)
    if it.ended_at or it.expires_at <= now:
        raise Conflict(f"suppression {it.suppression_id} is over already")
    same = (suppressions.c.suppression_id == it.suppression_id) & (suppressions.c.version == version)
    changed = sql.update(suppressions).where(same, suppressions.c.ended_at.is_(None))
    if not connection.execute(changed.values(ended_at=now, version=version + 1)).rowcount:
        raise Conflict(f"suppression {it.suppression_id} was changed by somebody else: look again")
    audit.add_audit_entry(connection, now, by, "suppression.end", it.suppression_id, {"hits": it.hits})
    seen = sql.select(hits.c.alert_id).where(hits.c.suppression_id == it.suppression_id, ~hits.c.outgrown)
    return read_suppression(connection, it.suppression_id), list(connection.scalars(seen))


def read_suppression(connection: sql.Connection, suppression_id: str) -> Suppression:
    """By its whole id; NotThere without one."""
    wanted = suppressions.c.suppression_id == storable(suppression_id)
    found = [
        _to_suppression(row) for row in connection.execute(_select_with_hit_counts().where(wanted)).mappings()
    ]
    if not found:
        shown = printable(suppression_id[:100])
        raise NotFound(f"there is no suppression {shown!r}: `fingerprint suppressions list` shows them")
    return found[0]


def read_suppressions(connection: sql.Connection, now: datetime, ended: bool) -> list[Suppression]:
    """Those in force, the next to expire first; with `ended` then those that are over, the last of them first."""
    found = [_to_suppression(row) for row in connection.execute(_select_with_hit_counts()).mappings()]
    over = {each.suppression_id: min(each.ended_at or each.expires_at, each.expires_at) for each in found}
    running = [each for each in found if each.ended_at is None and each.expires_at > now]
    past = [each for each in found if each not in running] if ended else []
    running.sort(key=lambda each: (each.expires_at, each.suppression_id))
    return running + sorted(past, key=lambda each: over[each.suppression_id], reverse=True)


def _select_with_hit_counts() -> sql.Select[Any]:
    own = hits.c.suppression_id == suppressions.c.suppression_id
    count = sql.select(sql.func.count()).where(own).scalar_subquery().label("hits")
    last = sql.select(sql.func.max(hits.c.at)).where(own).scalar_subquery().label("last_hit")
    return sql.select(suppressions, count, last)


def _to_suppression(row: sql.RowMapping) -> Suppression:
    return Suppression(**{**row, "match": SuppressionMatch(**row["match"])})


def _new_suppression_id(row: Row, now: datetime) -> str:
    said = json.dumps([row["match"], row["reason"], row["owner"], now.isoformat()], sort_keys=True)
    return blake2b(said.encode(), digest_size=6).hexdigest()


def _match_for_audit(match: SuppressionMatch) -> Row:
    """A match as the audit keeps it for ever: without names of people."""
    asked = {name: value for name, value in asdict(match).items() if value}
    return {
        name: principal_digest(value) if name in HASHED_FIELDS else value for name, value in asked.items()
    }


def principal_digest(name: str) -> str:
    """By which a principal is known where its name must not stay."""
    return blake2b(storable(name).encode(), digest_size=8).hexdigest()


# --- what fits ------------------------------------------------------------------------------------------------------


def find_matching_alerts(connection: sql.Connection, matcher: SuppressionMatcher) -> list[str]:
    """Alerts on the desk that a match fits, by id: the database finds who may be, and they are looked at one by one."""
    found = connection.execute(_candidates(matcher).order_by(alerts.c.alert_id)).all()
    may_be = [alert_id for alert_id, address in found if address is None or matcher.matches_address(address)]
    return [alert_id for alert_id, facts in read_match_facts(connection, may_be) if matcher(facts)]


def update_suppression_hits(connection: sql.Connection, alert_ids: Sequence[str], now: datetime) -> None:
    """What is in force looks at alerts that were saved: new hits, and those that were outgrown. With none it costs a question."""
    wanted = sql.select(suppressions.c.suppression_id, suppressions.c.match).where(
        suppressions.c.ended_at.is_(None), suppressions.c.expires_at > now
    )
    running = [
        (name, SuppressionMatcher(SuppressionMatch(**match))) for name, match in connection.execute(wanted)
    ]
    if not running:
        return
    fitting: list[tuple[str, str]] = []
    for alert_id, facts in read_match_facts(connection, alert_ids):
        fitting += [(name, alert_id) for name, matcher in running if matcher(facts)]
    _mark_outgrown(connection, [name for name, _ in running], alert_ids, set(fitting))
    _save_hits(connection, fitting, now)


def read_match_facts(
    connection: sql.Connection, alert_ids: Sequence[str]
) -> Iterator[tuple[str, AlertFacts]]:
    """What matches ask of these alerts."""
    for start in range(0, len(alert_ids), MAX_IDS_PER_QUERY):
        part = alert_ids[start : start + MAX_IDS_PER_QUERY]
        who = sql.select(alerts.c.alert_id, alerts.c.principal, alerts.c.human)
        seen, accounts = _read_events(connection, part), _read_accounts(connection, part)
        for alert_id, principal, human in connection.execute(who.where(alerts.c.alert_id.in_(part))).all():
            yield alert_id, AlertFacts(principal, human, accounts[alert_id], seen[alert_id])


def _read_events(connection: sql.Connection, alert_ids: Collection[str]) -> dict[str, list[EventFacts]]:
    events = sql.select(alert_events.c.alert_id, *_EVENT_COLUMNS).distinct()
    found: dict[str, list[EventFacts]] = defaultdict(list)
    for alert_id, *values in connection.execute(events.where(alert_events.c.alert_id.in_(alert_ids))):
        found[alert_id].append(EventFacts(*values))
    return found


def _read_accounts(connection: sql.Connection, alert_ids: Collection[str]) -> dict[str, list[str]]:
    there = (alert_values.c.kind == "account") & alert_values.c.alert_id.in_(alert_ids)
    found: dict[str, list[str]] = defaultdict(list)
    for alert_id, account in connection.execute(
        sql.select(alert_values.c.alert_id, alert_values.c.value).where(there)
    ):
        found[alert_id].append(account)
    return found


def _candidates(matcher: SuppressionMatcher) -> sql.Select[Any]:
    """Alerts that may fit: of the principal, human, account and service, and without an event that is plainly another; where a
    network is asked for each with an address of one of its events."""
    match, table = matcher.match, alert_events.c
    address = sql.select(sql.func.min(table.source_address)).where(table.alert_id == alerts.c.alert_id)
    query = sql.select(alerts.c.alert_id, address.scalar_subquery() if matcher.network else sql.null())
    for column, value in ((alerts.c.principal, match.principal), (alerts.c.human, match.human)):
        query = query.where(column == value) if value else query
    for kind, value in (("account", match.account), ("service", matcher.service)):
        query = query.where(alerts.c.alert_id.in_(_alerts_with_value(kind, value))) if value else query
    exact = (
        (table.service, matcher.service),
        (table.action, matcher.action),
        (table.error_code, match.error_code),
    )
    others = [column != value for column, value in exact if value]
    if match.user_agent:
        others.append(sql.func.substr(table.user_agent, 1, len(match.user_agent)) != match.user_agent)
    different = (table.alert_id == alerts.c.alert_id) & sql.or_(*others, sql.false())
    return query.where(~sql.exists().where(different)) if others else query


def _alerts_with_value(kind: str, value: str) -> sql.Select[Any]:
    same = (alert_values.c.kind == kind) & (alert_values.c.value == index_key(value))
    return sql.select(alert_values.c.alert_id).where(same)


def _save_hits(connection: sql.Connection, pairs: Iterable[tuple[str, str]], now: datetime) -> None:
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
    fitting: Collection[tuple[str, str]],
) -> None:
    """Hits of these suppressions on these alerts that fit no more."""
    for start in range(0, len(alert_ids), MAX_IDS_PER_QUERY):
        part = (
            hits.c.alert_id.in_(alert_ids[start : start + MAX_IDS_PER_QUERY])
            & hits.c.suppression_id.in_(names)
            & ~hits.c.outgrown
        )
        there = connection.execute(sql.select(hits.c.suppression_id, hits.c.alert_id).where(part)).all()
        for name, alert_id in {(row[0], row[1]) for row in there} - set(fitting):
            gone = (hits.c.suppression_id == name) & (hits.c.alert_id == alert_id)
            connection.execute(sql.update(hits).where(gone).values(outgrown=True))
