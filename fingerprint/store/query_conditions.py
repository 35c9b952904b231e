"""Conditions of a query (`core.alert_query`) on the tables `alerts` and `cases`, joined.

Example:
    >>> sql.select(alerts.c.alert_id).where(*query_conditions("action:StopLogging -principal:ci-* severity>=high"))

- Fields of which an alert has several values are in `alert_values`. An index in byte order, in both databases, finds a whole
  value or the beginning of one. A pattern with `*` elsewhere is compared with all values of its kind, or only with the values
  of few alerts that an index has found.
- The full text index finds free text: every word by its beginning.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
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
    is_pattern,
    like_pattern,
    parse_alert_query,
    query_words,
)
from fingerprint.store.filter_values import CALL, EVENT_VALUES, PLACE_VALUES, TECHNIQUE
from fingerprint.store.schema import WORD_INDEX, WORD_VECTOR, Condition, alert_values, alerts, cases

HasValue = Callable[[str, str], Condition]  # (field, value) -> condition

VALUE_FIELDS = (*EVENT_VALUES, *PLACE_VALUES, "account", "tactic", TECHNIQUE, "principal")
NO_WORD = ""  # the word of a text without letters and digits, such as "!"
LAST_CHARACTER = "\U0010ffff"  # a prefix with it sorts after all texts with the prefix
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


def query_conditions(query: str, many: bool = False) -> list[Condition]:
    """Return the conditions whose conjunction is the query. Raise FingerprintError for a query that cannot be read.

    Words come first, all in one look-up, then values, then fields of an alert's row. Each alert's own values are read, instead of
    the values of all alerts, with `many`, because a page of a value that many alerts have is full after few alerts; and for a
    pattern if an index finds the alerts of another term.
    """
    terms = parse_alert_query(query)
    texts = [term for term in terms if term.field == TEXT and len(term.values) == 1]
    words = [word for term in texts if not term.negated for word in _words(term.values[0])]
    texts = texts if words else []  # without a wanted word, there is nothing to look excluded words up with
    unwanted = [_words(term.values[0]) for term in texts if term.negated]
    few = bool(words) or any(map(_is_indexed, terms))
    found = [_has_words(words, unwanted, many)] if words else []
    for term in sorted(
        (term for term in terms if term not in texts), key=lambda term: term.field in _OWN_FIELDS
    ):
        condition = _any_of(term, _shows if many or (few and _has_pattern(term)) else _among_alerts_with)
        found.append(sql.not_(condition) if term.negated else condition)
    return found


def _is_indexed(term: Term) -> bool:
    """Return whether an index finds the alerts of a term."""
    is_value = term.field in VALUE_FIELDS or (term.field in _OF_VALUES and NO_VALUE not in term.values)
    return is_value and not term.negated and not _has_pattern(term)


def _has_pattern(term: Term) -> bool:
    return any(map(is_pattern, term.values))


def has_principal(text: str) -> Condition:
    """Return the condition that the name of an alert's principal, or of the person behind it, has a text.

    The full text index finds words by their beginning, as in the queue's search; matches outside the names are left out. A text
    with `*` is a pattern of the whole name or of its last part.
    """
    if "*" in text:
        return _among_alerts_with("principal", text) | _among_alerts_with("person", text)
    names = sql.func.lower(alerts.c.principal.concat(" ").concat(alerts.c.human))
    parts = [
        names.like(sql.func.lower(like_pattern(f"*{word}*")), escape="!") for word in _words(text) if word
    ]
    whole = alerts.c.principal == text
    return whole | sql.and_(_has_words(_words(text)), *parts)


def _any_of(term: Term, has_value: HasValue) -> Condition:
    """Return the condition that one of the values of a term holds; it is never null."""
    return reduce(or_, (_condition(term, value, has_value) for value in term.values))


def _condition(term: Term, value: str, has_value: HasValue) -> Condition:
    if term.field == TEXT:
        return _has_words(_words(value))
    if term.field in VALUE_FIELDS:
        return has_value(term.field, value)
    if term.field in _NUMBERS:
        return _COMPARISONS[term.compare](_NUMBERS[term.field], int(value))
    if term.field in _OF_VALUES:
        return _OF_VALUES[term.field](value, has_value)
    return _OWN_FIELDS[term.field](term, value)


# --- what an alert has several of -------------------------------------------------------------------------------------


def _among_alerts_with(field: str, value: str) -> Condition:
    """Return the condition that an alert is among all alerts with a value; for counts, and for values that few alerts have."""
    table = alert_values.c
    having = sql.select(table.alert_id).where(*_is_value(field, value, table.lower_value))
    return _Unindexed(alerts.c.alert_id).in_(having)


def _shows(field: str, value: str) -> Condition:
    """Return the condition that an alert's own values include a value; for a page of alerts of which many have it."""
    table = alert_values.c
    own = table.alert_id == alerts.c.alert_id
    return sql.exists(
        sql.select(table.alert_id).where(own, *_is_value(field, value, _Unindexed(table.lower_value)))
    )


def _is_value(field: str, value: str, lower: Any) -> tuple[Condition, Condition]:
    """Return the conditions that a row of `alert_values` belongs to a field and has a value."""
    kind = CALL if field == "action" and ":" in value else field
    value = address_pattern(value) if field == "address" else value
    if is_pattern(value):
        return alert_values.c.kind == kind, _like(lower, value)
    first = sql.func.lower(sql.literal(value.removesuffix("*"), sql.Text))
    found = (
        (lower >= first) & (lower < first.concat(LAST_CHARACTER)) if value.endswith("*") else lower == first
    )
    return alert_values.c.kind == kind, found


def _network(value: str, has_value: HasValue) -> Condition:
    return has_value("address" if is_address(value) else "network_owner", value)


def _person(value: str, has_value: HasValue) -> Condition:
    return sql.not_(has_value("person", "*")) if value == NO_VALUE else has_value("person", value)


_OF_VALUES: Mapping[str, Callable[[str, HasValue], Condition]] = {"person": _person, "network": _network}


class _Unindexed(GenericFunction[str]):
    """A column whose index SQLite does not use.

    With the index on an alert's id, it would read the wide rows of all alerts found. An index of the queue's order or of counts
    takes a tenth of the time if many are found, and some 40 ms for 100,000 alerts if few are. With the index on a value, it would
    read all alerts that have the value, once for each alert.
    """

    type = sql.Text()
    inherit_cache = True
    name = "unindexed"


@compiles(_Unindexed)
def _compile_column(element: _Unindexed, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(next(iter(element.clauses)), **options)


@compiles(_Unindexed, "sqlite")
def _compile_unindexed(element: _Unindexed, compiler: SQLCompiler, **options: Any) -> str:
    return f"+{compiler.process(next(iter(element.clauses)), **options)}"


# --- full text --------------------------------------------------------------------------------------------------------


def _has_words(words: list[str], without: Sequence[list[str]] = (), many: bool = False) -> Condition:
    """Return the condition that an alert has, for each of `words`, a word that begins with it.

    It must not have words that begin with all words of one of `without`. NO_WORD is in no alert.
    """
    if NO_WORD in words:
        return sql.false()
    unwanted = [each for each in without if NO_WORD not in each]
    fts = " NOT ".join(_all_of(each, '"{}"*', " AND ") for each in (words, *unwanted))
    tsquery = " & !".join(_all_of(each, "'{}':*", " & ") for each in (words, *unwanted))
    match = _ShowsWords if many else _AmongAlertsWithWords
    return match(sql.literal(fts, sql.Text), sql.literal(tsquery, sql.Text))


def _all_of(words: list[str], beginning: str, both: str) -> str:
    return f"({both.join(map(beginning.format, words))})"


def _words(text: str) -> list[str]:
    return query_words(text) or [NO_WORD]


class _AmongAlertsWithWords(GenericFunction[bool]):
    """The condition that an alert is among all alerts with the words of a query (FTS5's, or PostgreSQL's tsquery)."""

    type = sql.Boolean()
    inherit_cache = True
    name = "among_alerts_with_words"


class _ShowsWords(_AmongAlertsWithWords):
    """The condition that an alert's own words match a query. PostgreSQL does not turn its one-value subquery into a join."""

    inherit_cache = True
    name = "shows_words"


@compiles(_AmongAlertsWithWords, "sqlite")
@compiles(_ShowsWords, "sqlite")
def _compile_fts5(element: _AmongAlertsWithWords, compiler: SQLCompiler, **options: Any) -> str:
    """Return SQL that compares row numbers: SQLite would first sort a list of ids, which takes longer."""
    query = compiler.process(next(iter(element.clauses)), **options)
    number = "SELECT number FROM alert_texts WHERE alert_texts.alert_id = alerts.alert_id"
    return f"({number}) IN (SELECT rowid FROM {WORD_INDEX} WHERE {WORD_INDEX} MATCH {query})"  # noqa: S608 - `query` is the name of a bound parameter


@compiles(_AmongAlertsWithWords, "postgresql")
def _compile_tsquery_list(element: _AmongAlertsWithWords, compiler: SQLCompiler, **options: Any) -> str:
    found = _compile_tsquery(element, compiler, **options)
    return f"alerts.alert_id IN (SELECT alert_texts.alert_id FROM alert_texts WHERE {found})"  # noqa: S608 - as above


@compiles(_ShowsWords, "postgresql")
def _compile_own_words(element: _ShowsWords, compiler: SQLCompiler, **options: Any) -> str:
    found = _compile_tsquery(element, compiler, **options)
    return f"(SELECT {found} FROM alert_texts WHERE alert_texts.alert_id = alerts.alert_id)"  # noqa: S608 - as above


def _compile_tsquery(element: _AmongAlertsWithWords, compiler: SQLCompiler, **options: Any) -> str:
    query = compiler.process(list(element.clauses)[1], **options)
    return f"alert_texts.{WORD_VECTOR} @@ CAST({query} AS tsquery)"


# --- what an alert has one of -----------------------------------------------------------------------------------------


def _status(_: Term, value: str) -> Condition:
    return _STATUSES[value]


def _assignee(_: Term, value: str) -> Condition:
    assignee = sql.func.coalesce(cases.c.assignee, "")
    return assignee == "" if value == NO_VALUE else _is_like(assignee, value)


def _decision(_: Term, value: str) -> Condition:
    return sql.func.coalesce(cases.c.decision, NO_VALUE) == value


def _judged(_: Term, value: str) -> Condition:
    return alerts.c.level == value


def _severity(term: Term, value: str) -> Condition:
    """Return the condition that the urgency is in, above or below the range of a severity."""
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
    "assignee": _assignee,
    "decision": _decision,
    "judged": _judged,
    "status": _status,
    "severity": _severity,
}


def _is_like(column: Any, value: str) -> Condition:
    lower = sql.func.lower(column)
    return _like(lower, value) if "*" in value else lower == sql.func.lower(sql.literal(value, sql.Text))


def _like(lower: Any, pattern: str) -> Condition:
    """Return the condition that a text in small letters matches a pattern with `*`."""
    return lower.like(sql.func.lower(sql.literal(like_pattern(pattern), sql.Text)), escape="!")
