"""Conditions of a query (`core.alert_query`) on the tables `alerts` and `cases`, joined.

Example:
    >>> sql.select(alerts.c.alert_id).where(*query_conditions("action:StopLogging -principal:ci-* severity>=high"))

What an alert has several of lies in `alert_values`: a whole value, or the beginning of one, is found by an index that both
databases read in the order of bytes; `*` elsewhere is compared with the values of each alert. Free text is looked up in the full
text index: every word, by its beginning.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any

import sqlalchemy as sql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from fingerprint.core.alert import MINIMUM_URGENCY
from fingerprint.core.alert_query import (
    NO_VALUE,
    TEXT,
    Term,
    address_pattern,
    is_address,
    like_pattern,
    parse_alert_query,
    query_words,
)
from fingerprint.store.filter_values import CALL, EVENT_VALUES, PLACE_VALUES, TECHNIQUE
from fingerprint.store.schema import WORD_INDEX, alert_texts, alert_values, alerts, cases

Condition = sql.ColumnElement[bool]

VALUE_FIELDS = (*EVENT_VALUES, *PLACE_VALUES, "account", "tactic", TECHNIQUE, "principal")
_SCANNED = (*PLACE_VALUES, TECHNIQUE)  # an alert has few of them: all are read in one go, not alert by alert
NO_WORD = ""  # of a text without letters and digits, such as "!"
LAST_CHARACTER = "\U0010ffff"  # after every text that begins alike
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    ":": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
OPEN: Condition = cases.c.decision.is_(None) | (cases.c.decided_events < alerts.c.event_count)
CLOSED: Condition = cases.c.decision.is_not(None) & (cases.c.decided_events >= alerts.c.event_count)
IN_PROGRESS: Condition = sql.func.coalesce(cases.c.in_progress, sql.false())
_STATUSES: Mapping[str, Condition] = {
    "new": OPEN & ~IN_PROGRESS,
    "in-progress": OPEN & IN_PROGRESS,
    "closed": CLOSED,
}
_NUMBERS = {"urgency": alerts.c.urgency_shown, "events": alerts.c.event_count}


def query_conditions(query: str) -> list[Condition]:
    """Return conditions that hold together where the query does. Raise FingerprintError for a query that cannot be read.

    Words come first, all in one look-up, then indexed values, then what has to be read from an alert's row.
    """
    terms = parse_alert_query(query)
    words = [term for term in terms if term.field == TEXT and not term.negated and len(term.values) == 1]
    others = sorted((term for term in terms if term not in words), key=lambda term: term.field in _OWN_FIELDS)
    found = [sql.not_(_any_of(term)) if term.negated else _any_of(term) for term in others]
    return (
        [_has_words([word for term in words for word in _words(term.values[0])]), *found] if words else found
    )


def has_principal(text: str) -> Condition:
    """Return the condition that an alert's principal, or the person behind it, has a text in its name.

    As the queue's search finds words: by their beginning, in the full text index; what it finds elsewhere than in the names is
    left out. With `*` it is a pattern of the whole name or its last part.
    """
    if "*" in text:
        return _has_value("principal", text) | _has_value("person", text)
    names = sql.func.lower(alerts.c.principal.concat(" ").concat(alerts.c.human))
    parts = [
        names.like(sql.func.lower(like_pattern(f"*{word}*")), escape="!") for word in _words(text) if word
    ]
    whole = alerts.c.principal == text
    return whole | sql.and_(_has_words(_words(text)), *parts)


def asks_status(query: str) -> bool:
    """Return whether a query asks for a status, other than to exclude it."""
    return any(term.field == "status" and not term.negated for term in parse_alert_query(query))


def _any_of(term: Term) -> Condition:
    """Return the condition that one of the values of a term holds; it is never null."""
    return reduce(or_, (_condition(term, value) for value in term.values))


def _condition(term: Term, value: str) -> Condition:
    if term.field == TEXT:
        return _has_words(_words(value))
    if term.field in VALUE_FIELDS:
        return _has_value(term.field, value)
    if term.field in _NUMBERS:
        return _COMPARISONS[term.compare](_NUMBERS[term.field], int(value))
    return _OWN_FIELDS[term.field](term, value)


# --- what an alert has several of -------------------------------------------------------------------------------------


def _has_value(field: str, value: str) -> Condition:
    kind = CALL if field == "action" and ":" in value else field
    value = address_pattern(value) if field == "address" else value
    table = alert_values.c
    if "*" in value.removesuffix("*") and kind in _SCANNED:
        like = BytesOrder(table.value).like(
            sql.func.lower(sql.literal(like_pattern(value), sql.Text)), escape="!"
        )
        return _AlertId(alerts.c.alert_id).in_(sql.select(table.alert_id).where(table.kind == kind, like))
    if "*" in value.removesuffix("*"):
        own = (table.alert_id == alerts.c.alert_id) & (table.kind == kind)
        return sql.exists(sql.select(table.alert_id).where(own, _is_like(table.value, value)))
    low = BytesOrder(table.value)
    first = sql.func.lower(sql.literal(value.removesuffix("*"), sql.Text))
    found = (low >= first) & (low < first.concat(LAST_CHARACTER)) if value.endswith("*") else low == first
    return _AlertId(alerts.c.alert_id).in_(sql.select(table.alert_id).where(table.kind == kind, found))


class _AlertId(GenericFunction[str]):
    """An alert's id that SQLite does not look rows up by.

    It would read the wide rows of all alerts found, in the order of ids; an index of the queue's order or of counts is read in a
    tenth of the time where many are found, and in some 40 ms of 100,000 alerts where few are.
    """

    type = sql.Text()
    inherit_cache = True
    name = "alert_id_of"


@compiles(_AlertId)
def _compile_alert_id(element: _AlertId, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(next(iter(element.clauses)), **options)


@compiles(_AlertId, "sqlite")
def _compile_unindexed(element: _AlertId, compiler: SQLCompiler, **options: Any) -> str:
    return f"+{compiler.process(next(iter(element.clauses)), **options)}"


class BytesOrder(GenericFunction[str]):
    """A text in small letters, in the order of its bytes, as the index `alert_values_search` has it."""

    type = sql.Text()
    inherit_cache = True
    name = "lower"
    identifier = "bytes_order"


@compiles(BytesOrder, "postgresql")
def _compile_bytes_order(element: BytesOrder, compiler: SQLCompiler, **options: Any) -> str:
    return f'(lower({compiler.process(element.clauses, **options)}) COLLATE "C")'


# --- full text --------------------------------------------------------------------------------------------------------


def _has_words(words: list[str]) -> Condition:
    """Return the condition that an alert has a word that begins with each of these; NO_WORD is in none."""
    if NO_WORD in words:
        return sql.false()
    fts = " ".join(f'"{word}"*' for word in words)
    tsquery = " & ".join(f"'{word}':*" for word in words)
    found = _WordMatch(sql.literal(fts, sql.Text), sql.literal(tsquery, sql.Text))
    return _AlertId(alerts.c.alert_id).in_(sql.select(alert_texts.c.alert_id).where(found))


def _words(text: str) -> list[str]:
    return query_words(text) or [NO_WORD]


class _WordMatch(GenericFunction[bool]):
    """A row of `alert_texts` has the words of a query: FTS5's, or PostgreSQL's tsquery."""

    type = sql.Boolean()
    inherit_cache = True
    name = "word_match"


@compiles(_WordMatch, "sqlite")
def _compile_fts5(element: _WordMatch, compiler: SQLCompiler, **options: Any) -> str:
    query = compiler.process(next(iter(element.clauses)), **options)
    return f"alert_texts.number IN (SELECT rowid FROM {WORD_INDEX} WHERE {WORD_INDEX} MATCH {query})"  # noqa: S608 - `query` is the name of a bound parameter


@compiles(_WordMatch, "postgresql")
def _compile_tsquery(element: _WordMatch, compiler: SQLCompiler, **options: Any) -> str:
    query = compiler.process(list(element.clauses)[1], **options)
    return f"array_to_tsvector(string_to_array(alert_texts.words, ' ')) @@ CAST({query} AS tsquery)"


# --- what an alert has one of -----------------------------------------------------------------------------------------


def _network(_: Term, value: str) -> Condition:
    return _has_value("address" if is_address(value) else "network_owner", value)


def _status(_: Term, value: str) -> Condition:
    return _STATUSES[value]


def _person(_: Term, value: str) -> Condition:
    return sql.not_(_has_value("person", "*")) if value == NO_VALUE else _has_value("person", value)


def _assignee(_: Term, value: str) -> Condition:
    assignee = sql.func.coalesce(cases.c.assignee, "")
    return assignee == "" if value == NO_VALUE else _is_like(assignee, value)


def _decision(_: Term, value: str) -> Condition:
    return sql.func.coalesce(cases.c.decision, NO_VALUE) == value


def _judged(_: Term, value: str) -> Condition:
    return alerts.c.level == value


def _severity(term: Term, value: str) -> Condition:
    """Return whether the urgency lies at, above or below the range of a severity."""
    least = MINIMUM_URGENCY[value]
    above = min((each for each in MINIMUM_URGENCY.values() if each > least), default=101)
    urgency = alerts.c.urgency_shown
    ranges: dict[str, Condition] = {
        ":": (urgency >= least) & (urgency < above),
        ">=": urgency >= least,
        ">": urgency >= above,
        "<": urgency < least,
        "<=": urgency < above,
    }
    return ranges[term.compare]


_OWN_FIELDS: Mapping[str, Callable[[Term, str], Condition]] = {
    "person": _person,
    "assignee": _assignee,
    "decision": _decision,
    "judged": _judged,
    "network": _network,
    "status": _status,
    "severity": _severity,
}


def _is_like(column: Any, value: str) -> Condition:
    lower = sql.func.lower(column)
    if "*" in value:
        return lower.like(sql.func.lower(sql.literal(like_pattern(value), sql.Text)), escape="!")
    return lower == sql.func.lower(sql.literal(value, sql.Text))
