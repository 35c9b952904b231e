"""Queries of the queue: parse the URL of a page, and build URLs of other queries.

Example:
    >>> query = parse_query_pairs([("service", "iam"), ("by", "tactic")])
    >>> query.filter.service, query.by, query.url_with(service="", tactic="Discovery")
    ('iam', ('tactic',), '?tactic=Discovery&by=tactic')

A URL names only what differs from the plain queue, so equal queries have equal text, which saved views store. An invalid value
is an error that names the field; unknown parameters are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, get_args
from urllib.parse import parse_qsl, urlencode

from fingerprint.core.alert import LEVELS, Decision
from fingerprint.core.alert_query import (
    NO_VALUE,
    Term,
    format_alert_query,
    is_searchable_value,
    parse_alert_query,
    resolve_me,
    with_term,
    without_term,
    without_value,
)
from fingerprint.core.case import (
    MAX_GROUP_FIELDS,
    AlertFilter,
    AlertGroup,
    CaseStatus,
    GroupField,
    QueueOrder,
    Within,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import storable
from fingerprint.core.time_range import format_iso

UNASSIGNED = "-"  # the assignee of alerts without one
MAX_QUERY_VALUE_LENGTH = 1000  # characters of a value that an address may carry
VALID_YEARS = range(1970, 9999)  # that a moment may lie in
FIELD_CHOICES: Mapping[str, tuple[str, ...]] = {
    "status": get_args(CaseStatus),
    "level": LEVELS,
    "decision": get_args(Decision),
    "order": get_args(QueueOrder),
    "within": get_args(Within),
    "by": get_args(GroupField),
}
_FILTER_FIELDS = tuple(each.name for each in fields(AlertFilter))
_DAY = timedelta(days=1)
# Fields that the query language has as well
_SINGLE_FIELDS = frozenset({"principal", "service", "account", "tactic", "assignee"})


@dataclass(frozen=True, slots=True)
class QueueQuery:
    """A filter, an order, up to three fields to group by, and the cursor of the page."""

    filter: AlertFilter = field(default_factory=AlertFilter)
    order: QueueOrder = "urgency"
    by: tuple[GroupField, ...] = ()
    following: str | None = None

    @property
    def query(self) -> str:
        """Return the query string without the cursor: `service=iam`; empty for the plain queue."""
        return urlencode(self._pairs())

    def url_with(self, **changes: Any) -> str:
        """Return the address with some values changed, from its first page on. `None` or empty text removes a filter."""
        return f"?{_with_changes(self, changes).query}"

    def narrowed_url(self, field: str, value: str) -> str:
        """Return the address that accepts a value of a field of the query language as well."""
        return self._url_asking(field, value, negated=False)

    def excluded_url(self, field: str, value: str) -> str:
        """Return the address that excludes alerts with a value of a field; empty if a query cannot express that."""
        return self._url_asking(field, value, negated=True)

    def filter_of(self, reader: str) -> AlertFilter:
        """Return the filter, with the reader's name in place of `assignee:me`."""
        return replace(self.filter, q=resolve_me(self.filter.q, reader)) if self.filter.q else self.filter

    @property
    def cleared_url(self) -> str:
        """Return the address of the same tab of the queue without other filters."""
        return (
            f"?{QueueQuery(AlertFilter(status=self.filter.status, suppressed=self.filter.suppressed)).query}"
        )

    def next_page_url(self, following: str) -> str:
        """Return the address of the next page."""
        return f"?{urlencode([*self._pairs(), ('following', following)])}"

    def group_url(self, group: AlertGroup) -> str:
        """Return the address of the alerts of one group: filtered by its values, not grouped.

        It is empty if a filter cannot ask for a value: the group of alerts without a service, tactic or account, or a principal
        without a name.
        """
        pairs = list(zip(self.by, group.values, strict=True))
        if any(not value and name not in ("assignee", "human") for name, value in pairs):
            return ""
        filters = [pair for name, value in pairs for pair in _group_filter(name, value)]
        return f"?{_with_changes(replace(self, by=()), dict(filters)).query}"

    @property
    def active_filters(self) -> list[tuple[str, str, str]]:
        """Return the active filters: field, value as text, and the address without it. Each term of the query is one."""
        plain = AlertFilter(status=self.filter.status)
        terms = parse_alert_query(self.filter.q)
        queried = [chip for number, term in enumerate(terms) for chip in self._term_chips(number, term)]
        active = [
            (name, _format_value(self.filter, name))
            for name in _FILTER_FIELDS
            if name not in ("status", "suppressed", "q")
        ]
        return queried + [
            (name, text, self.url_with(**{name: getattr(plain, name)}))
            for name, text in active
            if getattr(self.filter, name) != getattr(plain, name)
        ]

    def _term_chips(self, number: int, term: Term) -> list[tuple[str, str, str]]:
        """Return a chip for each value of a term, so that each can be removed by itself."""
        if len(term.values) == 1:
            return [("", str(term), self.url_with(q=without_term(self.filter.q, number)))]
        return [
            (
                "",
                str(replace(term, values=(value,))),
                self.url_with(
                    q=format_alert_query(without_value(self.filter.q, term.field, value, term.negated))
                ),
            )
            for value in term.values
        ]

    def _url_asking(self, field: str, value: str, negated: bool) -> str:
        """Return the address that asks for a value of a field, or excludes it; empty if a query cannot do that."""
        changes: dict[str, Any] = {}
        start = self.filter.q
        single = getattr(self.filter, field) if field in _SINGLE_FIELDS else None
        if single or (field == "assignee" and single == ""):
            changes[field] = None  # the filter has one value, the query language several
            if is_searchable_value(single or NO_VALUE) and not (negated and single == value):
                start = with_term(start, field, single or NO_VALUE)
        narrowed = with_term(start, field, value, negated)
        try:
            if not is_searchable_value(value) or not parse_alert_query(narrowed):
                return ""
        except FingerprintError:  # too long, or too many values
            return ""
        return self.url_with(q=narrowed, **changes)

    def _pairs(self) -> list[tuple[str, str]]:
        plain = AlertFilter()
        changed = [name for name in _FILTER_FIELDS if getattr(self.filter, name) != getattr(plain, name)]
        order = [("order", self.order)] if self.order != "urgency" else []
        return [
            *((name, _format_value(self.filter, name)) for name in changed),
            *order,
            *(("by", each) for each in self.by),
        ]


def parse_query_pairs(pairs: Iterable[tuple[str, str]]) -> QueueQuery:
    """Parse the pairs of a URL; the last one of a repeated field counts. Raise FingerprintError for an invalid value."""
    listed = [(name, storable(value).strip()) for name, value in pairs]
    given = {name: value for name, value in listed if value}
    for name, value in given.items():
        _check(name, value)
    grouped = dict.fromkeys(value for name, value in listed if name == "by" and value)
    if len(grouped) > MAX_GROUP_FIELDS:
        raise FingerprintError(f"alerts are grouped by up to {MAX_GROUP_FIELDS} fields, not {len(grouped)}")
    kept = {name: _parse_value(name, given[name]) for name in _FILTER_FIELDS if name in given}
    return QueueQuery(
        AlertFilter(**kept),
        given.get("order", "urgency"),  # _check knows them
        tuple(grouped),
        given.get("following"),
    )


def parse_query_string(query: str) -> QueueQuery:
    """Parse the query of a saved view, or of the queue that an alert was opened from."""
    return parse_query_pairs(parse_qsl(query.removeprefix("?"), max_num_fields=40))


def _check(name: str, value: str) -> None:
    if len(value) > MAX_QUERY_VALUE_LENGTH and name != "following":
        raise FingerprintError(f"{name}: at most {MAX_QUERY_VALUE_LENGTH} characters")
    if name in FIELD_CHOICES and value not in FIELD_CHOICES[name]:
        raise FingerprintError(f"{name}: choose one of {', '.join(FIELD_CHOICES[name])}")
    if name == "q":
        parse_alert_query(value)


def _parse_value(name: str, text: str) -> Any:
    if name in ("least_urgency", "most_urgency"):
        return _parse_urgency(name, text)
    if name in ("since", "until"):
        return _parse_moment(name, text)
    if name == "day":
        return _parse_moment(name, text).date()
    if name == "suppressed":
        return text in ("1", "true", "on")
    return "" if name == "assignee" and text == UNASSIGNED else text


def _parse_urgency(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 100):
        raise FingerprintError(f"{name}: a whole number from 0 to 100")
    return int(text)


def _parse_moment(name: str, text: str) -> datetime:
    """Parse a day or a time in ISO 8601; UTC without an offset. `until` a day means its end."""
    try:
        if len(text) == 10:
            day = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
            moment = day + _DAY - timedelta(microseconds=1) if name == "until" else day
        else:
            moment = datetime.fromisoformat(text)
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        if moment.year not in VALID_YEARS:
            raise ValueError
    except (ValueError, OverflowError):
        raise FingerprintError(f"{name}: a day such as 2026-03-04, or a moment of ISO 8601") from None
    return moment


def _format_value(alert_filter: AlertFilter, name: str) -> str:
    value = getattr(alert_filter, name)
    if isinstance(value, datetime):
        return _whole_day(name, value) or format_iso(value)
    if name == "suppressed":
        return "1" if value else ""
    return UNASSIGNED if name == "assignee" and value == "" else "" if value is None else str(value)


def _whole_day(name: str, moment: datetime) -> str:
    """Return the day whose beginning (`since`) or end (`until`) the time is."""
    start = moment if name == "since" else moment + timedelta(microseconds=1) - _DAY
    return f"{start:%Y-%m-%d}" if start.timetz().replace(tzinfo=None) == datetime.min.time() else ""


def date_field_value(moment: datetime | None) -> str:
    """Return the value of a form's date field for `since` or `until`."""
    return "" if moment is None else f"{moment:%Y-%m-%d}"


def _with_changes(query: QueueQuery, changes: Mapping[str, Any]) -> QueueQuery:
    given = dict(changes)
    order, by = given.pop("order", query.order), given.pop("by", query.by)
    plain = AlertFilter()
    kept = {name: getattr(plain, name) if value is None else value for name, value in given.items()}
    return QueueQuery(replace(query.filter, **kept), order or "urgency", tuple(by or ()))


def _group_filter(by: GroupField, value: str) -> list[tuple[str, Any]]:
    """Return the filter of a group's alerts: a person is a term of the query."""
    if by == "day":
        return [("day", date.fromisoformat(value))]
    if by == "human":
        return [("q", str(Term("person", (value or NO_VALUE,))))]
    return [(by, value)]
