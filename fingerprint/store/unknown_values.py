"""Values of a suppression's match that no stored alert has, with similar stored values that were probably meant.

Example:
    >>> unknown_values(connection, SuppressionMatcher(SuppressionMatch(principal="role/etl")))
    (UnknownValue(field='principal', value='role/etl', similar=('111122223333:role/etl',)),)

A stored value was probably meant if it ends with the unknown one (a user agent: if it begins with it); case does not matter. All
values except whole names are looked up among the values that filter the queue, so at most `filter_values.MAX_VALUES` of a kind
count from each save of an alert.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql

from fingerprint.alerting.suppression import MATCH_FIELDS, SuppressionMatcher
from fingerprint.core.alert_query import literal_pattern
from fingerprint.core.case import UnknownValue
from fingerprint.core.sanitize import CUT_KEY_LENGTH, MAX_KEY_LENGTH, index_key
from fingerprint.store.filter_values import CALL
from fingerprint.store.schema import alert_values, alerts

MAX_SIMILAR = 3  # of one value: the shortest
KINDS = {  # of `alert_values`, by the field of a match
    "account": "account",
    "service": "service",
    "action": "action",
    "network": "address",
    "user_agent": "agent",
    "error_code": "error",
}
NAMES = {  # column of `alerts`, and the kinds of `alert_values` by which its alerts are found
    "principal": (alerts.c.principal, ("principal", "person")),
    "human": (alerts.c.human, ("person",)),
}


def unknown_values(connection: sql.Connection, matcher: SuppressionMatcher) -> tuple[UnknownValue, ...]:
    """Return the values of a match that no stored alert has, in the order of its fields."""
    given = ((name, getattr(matcher.match, name)) for name in MATCH_FIELDS)
    return tuple(
        UnknownValue(name, value, _similar_values(connection, name, value))
        for name, value in given
        if value and not _is_known(connection, matcher, name, value)
    )


def _is_known(connection: sql.Connection, matcher: SuppressionMatcher, name: str, value: str) -> bool:
    """Return whether a stored alert has exactly this value."""
    stored, own = alert_values.c.value, alert_values.c.kind == _kind(name, value)
    if name == "network":
        return any(map(matcher.matches_address, connection.scalars(sql.select(stored).where(own).distinct())))
    if name == "principal":
        condition = alerts.c.principal == value
    elif name == "human":  # its column has no index: found by the value, compared as a whole
        found = sql.select(alert_values.c.alert_id).where(own, stored == index_key(value))
        condition = alerts.c.alert_id.in_(found) & (alerts.c.human == value)
    elif name == "user_agent":
        begins = value[:CUT_KEY_LENGTH]
        condition = own & (sql.func.substr(stored, 1, len(begins)) == begins)
    else:
        condition = own & (stored == index_key(value))
    return bool(connection.scalar(sql.select(sql.exists().where(condition))))


def _kind(name: str, value: str) -> str:
    if name in NAMES:
        return "person" if name == "human" else "principal"
    return CALL if name == "action" and ":" in value else KINDS[name]


def _similar_values(connection: sql.Connection, name: str, value: str) -> tuple[str, ...]:
    """Return stored values that end with a value, or begin with a user agent, the shortest first.

    A principal is also found by the person behind its session.
    """
    if name == "network":
        return ()
    column: sql.Column[Any]
    if name in NAMES:
        column, kinds = NAMES[name]
        query = sql.select(column).join(alert_values, alert_values.c.alert_id == alerts.c.alert_id)
    else:
        column, kinds = alert_values.c.value, (_kind(name, value),)
        query = sql.select(column).where(sql.func.length(column) < MAX_KEY_LENGTH)  # others are cut short
    literally = literal_pattern(value)
    pattern = f"{literally}%" if name == "user_agent" else f"%{literally}"
    like = alert_values.c.lower_value.like(sql.func.lower(sql.literal(pattern, sql.Text)), escape="!")
    fits = alert_values.c.kind.in_(kinds) & like
    shortest = (sql.func.length(column), column)
    return tuple(
        connection.scalars(query.where(fits).group_by(column).order_by(*shortest).limit(MAX_SIMILAR))
    )
