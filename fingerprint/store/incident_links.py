"""The values by which alerts are linked (`core.incident_rule`), in SQL: saved with alerts, and queried for alerts that share one.

Example:
    >>> save_links(connection, alert_rows, event_rows, known={})
    >>> nearby_alerts(connection, ["3fa94c1be0d27a58"])
    {'91c7e0a25d4408bf'}

A key or address that too many principals show is marked as common, and links nothing from then on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sql

from fingerprint.core.incident import MAX_OTHER_RECORDS, LinkKind, OtherRecord
from fingerprint.core.incident_rule import (
    GAP_SECONDS,
    GAPS,
    MAX_OPENED,
    MAX_PRINCIPALS,
    MAX_VALUES,
    RECENT_SECONDS,
    AlertLink,
    forwarding_service,
    linking_addresses,
    name_at_address,
    names_with_actions,
    new_actions,
    new_addresses,
    shared_new_actions,
)
from fingerprint.core.related_events import MAX_CHAIN_LENGTH
from fingerprint.core.sanitize import index_key
from fingerprint.store.rows import principal_digest, principal_span
from fingerprint.store.schema import (
    Row,
    alert_events,
    alert_links,
    alerts,
    credential_issues,
    execute_batches,
    id_batches,
    insert_into,
)

_LINK_COLUMNS = tuple(alert_links.c[name] for name in AlertLink._fields)
_other = alert_links.alias("other")
_near = alert_links.alias("near")
_same_value = (_other.c.kind == alert_links.c.kind) & (_other.c.value == alert_links.c.value)


class _LinkValues(NamedTuple):
    """Values of an alert by which it may be linked, from the events of one save."""

    keys: set[str]  # digests of the access keys that it used
    issued: set[str]  # digests of the access keys that its calls issued
    calls: set[tuple[str, str]]  # entity and source address
    opened: set[str]  # digests of principals that it created or gave access to
    shared: set[str]  # ids of calls that another account's log has as well


def save_links(
    connection: sql.Connection, saved: Sequence[Row], events: Iterable[Row], known: Collection[str]
) -> None:
    """Store the values by which saved alerts are linked, and their times."""
    values = _values_of_events(events)
    calls = {alert["alert_id"]: values[alert["alert_id"]].calls for alert in saved}
    services = _forwarding_services(connection, saved, calls, known)
    rows = [
        row
        for alert in saved
        for row in _link_rows(alert, values[alert["alert_id"]], services.get(alert["alert_id"]))
    ]
    _update_times(connection, [alert for alert in saved if alert["alert_id"] in known])
    _forget_new_actions(connection, {alert["alert_id"] for alert in saved} & set(known))
    _insert_links(connection, rows)
    _trim_shared_calls(connection, [alert["alert_id"] for alert in saved if values[alert["alert_id"]].shared])


def _values_of_events(events: Iterable[Row]) -> defaultdict[str, _LinkValues]:
    """Return the values by which alerts are linked, by alert."""
    from fingerprint.sources.active import SOURCE  # only saving needs the package that reads records

    values = defaultdict[str, _LinkValues](lambda: _LinkValues(set(), set(), set(), set(), set()))
    for event in events:
        own = values[event["alert_id"]]
        if event["access_key"]:
            own.keys.add(index_key(event["access_key"]))
        elif key := SOURCE.issued_key(event["raw"]):
            own.issued.add(index_key(key))
        access = SOURCE.opened_access(event["service"], event["action"], event["raw"])
        own.issued.update([index_key(access.access_key)] if access.access_key else ())
        own.opened.update(map(principal_digest, access.principals))
        own.calls.add((event["entity"], event["source_address"]))
        own.shared.update([call] if (call := SOURCE.shared_call(event["raw"])) else ())
    return values


def _link_rows(alert: Row, values: _LinkValues, service: str | None) -> Iterator[Row]:
    """Yield the links of one alert, at most MAX_VALUES of them by keys. `service` made all of its calls for the principal.

    The shared calls with the smallest ids are kept, so that two alerts with the same calls, however many, keep the same ones.
    """
    from fingerprint.sources.active import SOURCE  # as in `_values_of_events`

    own = _timed_link(alert)
    person, _ = SOURCE.person_and_access(alert["principal"])
    used = sorted(values.keys)[:MAX_VALUES]
    given = sorted(values.issued - values.keys)[: MAX_VALUES - len(used)]
    others = sorted(values.opened - {own["principal_digest"]})[:MAX_OPENED]
    sources = {address for _, address in values.calls}
    names = [name_at_address(alert["principal"], each) for each in new_addresses(sources, alert["drivers"])]
    if not alert["human"]:
        begun = [each for each in new_actions(alert["drivers"]) if not _serves_attackers(each)]
        names += names_with_actions(alert["principal"], begun)
    found = [("principal", own["principal_digest"])]
    found += [("person", index_key(person.casefold()))] if person else []
    found += [("access_key", key) for key in used]
    found += [("opened", each) for each in others]
    found += [("shared_call", index_key(each)) for each in sorted(values.shared)[:MAX_VALUES]]
    found += [("address", each) for each in linking_addresses(sources, alert["drivers"])]
    found += [("name", index_key(each)) for each in names]
    found += [("new_action", index_key(each)) for each in _new_actions(alert)]
    if service:
        found.append(("service", index_key(name_at_address(alert["principal"], service))))
    yield from (own | {"kind": kind, "value": value, "inherited": False} for kind, value in found)
    yield from (own | {"kind": "access_key", "value": key, "inherited": True} for key in given)


def _new_actions(alert: Row) -> list[str]:
    """Return the value that links alerts by new actions: the actions and their day; empty if any action serves attackers."""
    names = shared_new_actions(alert["drivers"], alert["impact_of"])
    if not names or any(map(_serves_attackers, names)):
        return []
    return [f"{', '.join(names)} {alert['first_event_time']:%Y-%m-%d}"]


def _serves_attackers(action: str) -> bool:
    """Return whether an action, such as `iam:ListUsers`, serves attackers according to a public mapping."""
    from fingerprint.sources.active import SOURCE  # as in `_values_of_events`

    return SOURCE.serves_attackers(*action.partition(":")[::2])


def _forget_new_actions(connection: sql.Connection, alert_ids: Collection[str]) -> None:
    """Delete the links of grown alerts by new actions: something else may surprise more now."""
    for batch in id_batches(sorted(alert_ids)):
        own = alert_links.c.alert_id.in_(batch) & (alert_links.c.kind == "new_action")
        connection.execute(sql.delete(alert_links).where(own))


def _update_times(connection: sql.Connection, saved: Sequence[Row]) -> None:
    """Update the times of all links of grown alerts."""
    times: Row = {name: sql.bindparam(f"new_{name}") for name in ("first_at", "last_at")}
    moved = sql.update(alert_links).where(alert_links.c.alert_id == sql.bindparam("own")).values(**times)
    new = [
        {"own": row["alert_id"], "new_first_at": row["first_at"], "new_last_at": row["last_at"]}
        for row in map(_timed_link, saved)
    ]
    if new:
        connection.execute(moved, new)


def _forwarding_services(
    connection: sql.Connection,
    saved: Sequence[Row],
    calls: Mapping[str, set[tuple[str, str]]],
    known: Collection[str],
) -> dict[str, str]:
    """Return, by alert without a person, the service that made all of its calls; delete links by a service otherwise.

    `calls` are those of this save. For `known` alerts, stored calls count as well.
    """
    machines = {alert["alert_id"] for alert in saved if not alert["human"]}
    found = {alert_id: set(calls[alert_id]) for alert_id in machines}
    columns = (alert_events.c.alert_id, alert_events.c.entity, alert_events.c.source_address)
    for batch in id_batches(sorted(machines & set(known))):
        stored = sql.select(*columns).where(alert_events.c.alert_id.in_(batch)).distinct()
        for alert_id, *call in connection.execute(stored):
            found[alert_id].add(tuple(call))
    services = {name: service for name, each in found.items() if (service := forwarding_service(each))}
    for batch in id_batches(sorted({alert["alert_id"] for alert in saved} & set(known) - set(services))):
        over = (alert_links.c.kind == "service") & alert_links.c.alert_id.in_(batch)
        connection.execute(sql.delete(alert_links).where(over))
    return services


def _timed_link(alert: Row) -> Row:
    times = (alert[name] for name in ("first_event_time", "last_event_time"))
    return {"alert_id": alert["alert_id"]} | principal_span(alert["principal"], *times)


def _insert_links(connection: sql.Connection, rows: Sequence[Row]) -> None:
    statement = insert_into(connection, alert_links)
    own = {"inherited": statement.excluded.inherited}  # a used key is surer than an inherited one
    again = statement.on_conflict_do_update(
        index_elements=["alert_id", "kind", "value"], set_=own, where=alert_links.c.inherited
    )
    execute_batches(connection, again, rows)


def _trim_shared_calls(connection: sql.Connection, alert_ids: Sequence[str]) -> None:
    """Keep the MAX_VALUES smallest of each alert's shared calls, as if all events had been saved at once."""
    shared = alert_links.c.kind == "shared_call"
    for batch in id_batches(alert_ids):
        query = sql.select(alert_links.c.alert_id, alert_links.c.value)
        stored: dict[str, list[str]] = defaultdict(list)
        for alert_id, value in connection.execute(query.where(shared, alert_links.c.alert_id.in_(batch))):
            stored[alert_id].append(value)
        for alert_id, calls in stored.items():
            for more in id_batches(sorted(calls)[MAX_VALUES:]):
                own = (alert_links.c.alert_id == alert_id) & shared
                connection.execute(sql.delete(alert_links).where(own, alert_links.c.value.in_(more)))


def read_other_records(connection: sql.Connection, alert_id: str) -> list[OtherRecord]:
    """Return the first alerts with other records of an alert's calls, without calls that too many principals show."""
    query = (
        sql.select(alerts.c.alert_id, alerts.c.principal, alerts.c.human, alerts.c.first_event_time)
        .join_from(alert_links, _other, _same_value & ~_other.c.common)
        .join(alerts, alerts.c.alert_id == _other.c.alert_id)
        .where(alert_links.c.alert_id == alert_id, alert_links.c.kind == "shared_call", ~alert_links.c.common)
        .where(_other.c.principal_digest != alert_links.c.principal_digest)
        .order_by(alerts.c.first_event_time, alerts.c.alert_id)
        .distinct()
        .limit(MAX_OTHER_RECORDS)
    )
    return [OtherRecord(*row[:3]) for row in connection.execute(query)]


def alerts_with_keys(connection: sql.Connection, keys: Collection[str]) -> set[str]:
    """Return the alerts that are linked by these keys."""
    queries = (
        sql.select(alert_links.c.alert_id).where(
            alert_links.c.kind == "access_key", alert_links.c.value.in_(batch)
        )
        for batch in id_batches(sorted(keys))
    )
    return {alert_id for query in queries for alert_id in connection.scalars(query)}


def extend_chains(connection: sql.Connection, alert_ids: Collection[str]) -> set[str]:
    """Link alerts by the keys that issued their keys, and so on; return the alerts with new links."""
    links: dict[str, dict[str, Row]] = defaultdict(dict)  # alert -> key -> link
    of_key = alert_links.c.kind == "access_key"
    for batch in id_batches(sorted(alert_ids)):
        query = sql.select(alert_links).where(alert_links.c.alert_id.in_(batch), of_key)
        for row in connection.execute(query).mappings():
            links[row["alert_id"]][row["value"]] = dict(row)
    holders: dict[str, set[str]] = defaultdict(set)
    for alert_id, own in links.items():
        for key in own:
            holders[key].add(alert_id)
    new: list[Row] = []
    frontier = set(holders)
    for _ in range(MAX_CHAIN_LENGTH):
        if not frontier:
            break
        issuers = _read_issuers(connection, frontier)
        frontier = set()
        for key, issuer in issuers:
            for alert_id in holders[key] - holders[issuer]:
                if len(links[alert_id]) < 2 * MAX_VALUES:
                    link = links[alert_id][key] | {"value": issuer, "inherited": True, "common": False}
                    links[alert_id][issuer] = link
                    new.append(link)
                    holders[issuer].add(alert_id)
                    frontier.add(issuer)
    _insert_links(connection, new)
    return {row["alert_id"] for row in new}


def _read_issuers(connection: sql.Connection, keys: Collection[str]) -> list[tuple[str, str]]:
    """Return pairs of a key and the key that issued it, as far as that is known."""
    table = credential_issues.c
    queries = (
        sql.select(table.issued_key, table.access_key).where(
            table.issued_key.in_(batch), table.access_key != "", table.access_key != table.issued_key
        )
        for batch in id_batches(sorted(keys))
    )
    return sorted(tuple(row) for query in queries for row in connection.execute(query))


def mark_common_values(connection: sql.Connection, alert_ids: Collection[str]) -> set[str]:
    """Mark links near these alerts whose value too many principals show now; return the alerts of these links."""
    marked: set[str] = set()
    for kind, value in _suspect_values(connection, alert_ids):
        marked |= _mark_common_value(connection, kind, value, alert_ids)
    return marked


def _suspect_values(connection: sql.Connection, alert_ids: Collection[str]) -> list[tuple[LinkKind, str]]:
    """Return kinds and values of these alerts that too many principals show in the whole time around the alerts.

    Each value is counted once: to count around each link of hundreds of alerts of one principal took a minute.
    """
    own = (
        sql.select(
            alert_links.c.kind,
            alert_links.c.value,
            sql.func.min(alert_links.c.first_at).label("first_at"),
            sql.func.max(alert_links.c.last_at).label("last_at"),
        )
        .where(alert_links.c.alert_id.in_(alert_ids), alert_links.c.kind.in_(list(MAX_PRINCIPALS)))
        .group_by(alert_links.c.kind, alert_links.c.value)
        .subquery()
    )
    same = (_near.c.kind == own.c.kind) & (_near.c.value == own.c.value)
    principals = sql.func.count(_near.c.principal_digest.distinct())
    query = (
        sql.select(own.c.kind, own.c.value, principals)
        .join_from(own, _near, same & _touching(own, _near, 2 * RECENT_SECONDS))
        .group_by(own.c.kind, own.c.value)
        .order_by(own.c.kind, own.c.value)
    )
    return [(kind, value) for kind, value, count in connection.execute(query) if count > MAX_PRINCIPALS[kind]]


def _mark_common_value(
    connection: sql.Connection, kind: LinkKind, value: str, alert_ids: Collection[str]
) -> set[str]:
    """Mark those links of a value near these alerts that have too many principals around them; return their alerts."""
    of_value = (alert_links.c.kind == kind) & (alert_links.c.value == value)
    near_ones = sql.exists().where(
        _other.c.alert_id.in_(alert_ids), _same_value, _touching(alert_links, _other, RECENT_SECONDS)
    )
    counted = (
        sql.select(_near.c.principal_digest)
        .where(_near.c.kind == kind, _near.c.value == value, _touching(alert_links, _near, RECENT_SECONDS))
        .distinct()
        .limit(MAX_PRINCIPALS[kind] + 1)
        .correlate(alert_links)
        .subquery()
    )
    principals = sql.select(sql.func.count()).select_from(counted).correlate(alert_links).scalar_subquery()
    query = sql.select(alert_links.c.alert_id).where(
        of_value, ~alert_links.c.common, near_ones, principals > MAX_PRINCIPALS[kind]
    )
    found = set(connection.scalars(query))
    for batch in id_batches(sorted(found)):
        now_common = sql.update(alert_links).where(of_value, alert_links.c.alert_id.in_(batch))
        connection.execute(now_common.values(common=True))
    return found


def _touching(one: Any, other: Any, seconds: int) -> sql.ColumnElement[bool]:
    """Return the condition that at most `seconds` lie between two links."""
    return (other.c.last_at >= one.c.first_at - seconds) & (other.c.first_at <= one.c.last_at + seconds)


def nearby_alerts(connection: sql.Connection, alert_ids: Collection[str]) -> set[str]:
    """Return the alerts that share a value with these and are near them in time."""
    found: set[str] = set()
    for batch in id_batches(sorted(alert_ids)):
        touching = _same_value & _touching(alert_links, _other, GAP_SECONDS) & ~_other.c.common
        query = (
            sql.select(_other.c.alert_id)
            .join_from(alert_links, _other, touching)
            .where(alert_links.c.alert_id.in_(batch), ~alert_links.c.common)
            .distinct()
        )
        found.update(connection.scalars(query))
        for condition in (_opens(alert_links, _other), _opens(_other, alert_links)):
            one_way = sql.select(_other.c.alert_id).join_from(alert_links, _other, condition)
            found.update(connection.scalars(one_way.where(alert_links.c.alert_id.in_(batch)).distinct()))
    return found


def alerts_with_the_same_new_action(connection: sql.Connection, alert_ids: Collection[str]) -> set[str]:
    """Return the alerts with the same new actions on the same day as one of these; only several principals are linked by them."""
    queries = (
        sql.select(_other.c.alert_id)
        .join_from(alert_links, _other, _same_value)
        .where(alert_links.c.alert_id.in_(batch), alert_links.c.kind == "new_action")
        .distinct()
        for batch in id_batches(sorted(alert_ids))
    )
    return {alert_id for query in queries for alert_id in connection.scalars(query)}


def _opens(opener: Any, opened: Any) -> sql.ColumnElement[bool]:
    """Return the condition that an alert created or opened the principal of another alert, which follows within a day."""
    soon = opened.c.first_at <= opener.c.last_at + GAPS["opened"]
    whose = (opener.c.kind == "opened") & (opened.c.kind == "principal") & (opener.c.value == opened.c.value)
    condition: sql.ColumnElement[bool] = whose & soon & (opened.c.last_at >= opener.c.first_at)
    return condition


def read_links(connection: sql.Connection, alert_ids: Collection[str]) -> list[AlertLink]:
    """Return the links of these alerts, without those by a value that too many principals show."""
    queries = (
        sql.select(*_LINK_COLUMNS).where(alert_links.c.alert_id.in_(batch), ~alert_links.c.common)
        for batch in id_batches(sorted(alert_ids))
    )
    return [AlertLink(*row) for query in queries for row in connection.execute(query)]
