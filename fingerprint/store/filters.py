"""Which alerts a filter asks for, as conditions on the tables `alerts` and `cases`, joined.

Example:
    >>> query = sql.select(alerts.c.alert_id).select_from(WORKED)
    >>> query.where(*conditions(Filter(status="open", service="iam"), now))

What is open is never stored: an alert is open unless somebody decided on it over all of its events.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import sqlalchemy as sql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from fingerprint.core.case import AlertFilter
from fingerprint.core.sanitize import storable
from fingerprint.store.queue_tables import alert_values, cases
from fingerprint.store.schema import alerts, index_key
from fingerprint.store.suppressions import is_hidden

Condition = sql.ColumnElement[bool]

ALERTS_WITH_CASES = alerts.outerjoin(
    cases, cases.c.alert_id == alerts.c.alert_id
)  # a case only where somebody touched it
OPEN: Condition = cases.c.decision.is_(None) | (cases.c.decided_events < alerts.c.event_count)
CLOSED: Condition = cases.c.decision.is_not(None) & (cases.c.decided_events >= alerts.c.event_count)
ASSIGNEE = sql.func.coalesce(cases.c.assignee, "")


def filter_conditions(which: AlertFilter, now: datetime) -> list[Condition]:
    """All that a filter asks."""
    shown = is_hidden(now) if which.suppressed else ~is_hidden(now)
    status = {"open": [OPEN], "closed": [CLOSED], "all": []}[which.status]
    return [*status, *property_conditions(which), shown]


def property_conditions(which: AlertFilter) -> list[Condition]:
    """What it asks besides status and suppression."""
    found = [alerts.c.urgency_shown >= which.least_urgency] if which.least_urgency > 0 else []
    found += [alerts.c.urgency_shown <= which.most_urgency] if which.most_urgency < 100 else []
    return [
        *found,
        *_equality_conditions(which),
        *_multi_value_conditions(which),
        *_time_conditions(which),
        *_text_conditions(which.text),
    ]


def _equality_conditions(which: AlertFilter) -> Iterator[Condition]:
    if which.principal:
        yield alerts.c.principal == storable(which.principal)
    if which.level is not None:
        yield alerts.c.level == which.level
    if which.assignee is not None:
        yield storable(which.assignee) == ASSIGNEE
    if which.decision is not None:
        yield cases.c.decision == which.decision


def _multi_value_conditions(which: AlertFilter) -> Iterator[Condition]:
    """What an alert has several of. Asked of each alert in turn: a service that nearly all of them show costs as much as one that
    few do, where a list of those that show it would be long."""
    for kind in ("service", "account", "tactic"):
        if value := getattr(which, kind):
            table = alert_values.c
            own = (
                (table.alert_id == alerts.c.alert_id)
                & (table.kind == kind)
                & (table.value == index_key(value))
            )
            yield sql.exists(sql.select(table.alert_id).where(own))


def _time_conditions(which: AlertFilter) -> Iterator[Condition]:
    if which.since is not None:
        yield alerts.c.last_event_time >= which.since
    if which.until is not None:
        yield alerts.c.first_event_time <= which.until


def _text_conditions(text: str) -> Iterator[Condition]:
    """A part of one of these, in any case. No pattern, so nothing in it has to be escaped."""
    if not text:
        return
    places = (alerts.c[name] for name in ("title", "principal", "human", "alert_id"))
    small = sql.func.lower if text.isascii() else _Lowercase
    wanted = small(sql.literal(storable(text), sql.Text))
    yield sql.or_(*(_Position(small(place), wanted) > 0 for place in places))


class _Lowercase(GenericFunction[str]):
    """Text in small letters, of any alphabet: SQLite's own `lower` knows only ASCII, and is faster."""

    type = sql.Text()
    inherit_cache = True
    name = "lower"
    identifier = "desk_small"


class _Position(GenericFunction[int]):
    """Where in a text another one begins, counted from 1; 0 where it does not."""

    type = sql.Integer()
    inherit_cache = True
    name = "strpos"
    identifier = "desk_position"


@compiles(_Lowercase, "sqlite")
def _compile_lowercase(element: _Lowercase, compiler: SQLCompiler, **options: Any) -> str:
    return f"small_letters({compiler.process(element.clauses, **options)})"  # `desk_engine` gives it


@compiles(_Position, "sqlite")
def _compile_position(element: _Position, compiler: SQLCompiler, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"
