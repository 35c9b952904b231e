"""The address of the queue: what it asks for, and that two addresses that ask the same are the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as some
from make_alert import NASTY

from fingerprint.core.alert import LEVELS, Decision, FingerprintError
from fingerprint.core.case import By, Filter, Group, Order, Status
from fingerprint.web.queue_query import Asked, of_query, read

MOMENTS = some.none() | some.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1), timezones=some.just(UTC))
TEXTS = some.text(max_size=40).map(lambda text: text.replace("\0", "").strip())
FILTERS = some.builds(
    Filter,
    status=some.sampled_from(get_args(Status)),
    least_urgency=some.integers(0, 100),
    most_urgency=some.integers(0, 100),
    **dict.fromkeys(("principal", "service", "account", "tactic", "text"), TEXTS),
    assignee=some.none() | TEXTS.filter(lambda text: text != "-"),
    decision=some.none() | some.sampled_from(get_args(Decision)),
    level=some.none() | some.sampled_from(LEVELS),
    since=MOMENTS,
    until=MOMENTS,
    suppressed=some.booleans(),
)
ASKED = some.builds(
    Asked,
    filter=FILTERS,
    order=some.sampled_from(get_args(Order)),
    by=some.lists(some.sampled_from(get_args(By)), max_size=3, unique=True).map(tuple),
    following=some.none(),
)


@given(asked=ASKED)
def test_what_an_address_asks_is_read_from_it_again(asked):
    assert of_query(asked.query) == asked
    assert of_query(asked.link()) == asked


def test_a_plain_queue_has_a_plain_address():
    assert read([]).query == ""
    assert (
        read([("status", "open"), ("least_urgency", "0"), ("service", " "), ("order", "urgency")]).query == ""
    )
    assert read([("utm_source", "mail"), ("service", "iam")]).query == "service=iam"


def test_a_day_lasts_until_it_is_over():
    which = of_query("since=2026-03-04&until=2026-03-04").filter
    assert (which.since, which.until) == (
        datetime(2026, 3, 4, tzinfo=UTC),
        datetime(2026, 3, 4, 23, 59, 59, 999_999, tzinfo=UTC),
    )
    assert of_query("until=2026-03-04").query == "until=2026-03-04"


def test_nobody_is_not_the_same_as_anybody():
    assert of_query("assignee=-").filter.assignee == ""
    assert of_query("assignee=").filter.assignee is None
    assert of_query("assignee=-").link(assignee=None) == "?"


def test_the_alerts_of_a_group_are_asked_for_by_its_values():
    now = datetime(2026, 3, 4, tzinfo=UTC)
    asked = of_query("status=all&by=service&by=day&by=assignee")
    group = Group(("iam", "2026-03-04", ""), 3, 91, now, now)
    inside = of_query(asked.into(group)).filter
    assert inside == Filter(
        status="all",
        service="iam",
        assignee="",
        since=now,
        until=of_query("until=2026-03-04").filter.until,
    )


def test_each_filter_is_said_with_the_address_without_it():
    asked = of_query("status=closed&service=iam&least_urgency=50&by=tactic")
    assert asked.narrowed == [
        ("least_urgency", "50", "?status=closed&service=iam&by=tactic"),
        ("service", "iam", "?status=closed&least_urgency=50&by=tactic"),
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("status=nonsense", "status: choose one of open, closed, all"),
        ("by=human&by=day&by=level&by=service", "up to 3"),
        ("by=shoes", "by: choose"),
        ("order=random", "order: choose"),
        ("least_urgency=a", "least_urgency"),
        ("least_urgency=-1", "least_urgency"),
        ("most_urgency=\u0663", "most_urgency"),
        ("most_urgency=101", "most_urgency"),
        ("since=yesterday", "since: a day"),
        ("since=0001-01-01T00:00:00%2B14:00", "since: a day"),
        ("until=9999-12-31", "until: a day"),
        (f"text={'x' * 1001}", "text: at most 1000"),
    ],
)
def test_what_cannot_be_asked_is_said_with_the_name_of_the_field(query, said):
    with pytest.raises(FingerprintError, match=said):
        of_query(query)


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_an_address_carries_any_text_and_nothing_but_text(text):
    short = text[:500]
    link = read([("text", short)]).link(service="iam")
    assert link.isascii()
    assert not set(link) & set(" \"'<>\\")
    assert dict(parse_qsl(link[1:], keep_blank_values=True)).keys() <= {"text", "service"}
    assert of_query(link) == read([("text", short), ("service", "iam")])
