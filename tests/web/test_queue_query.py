"""The address of the queue: what it asks for, and that two addresses that ask the same are the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fingerprint.core.alert import LEVELS, Decision
from fingerprint.core.case import AlertFilter, AlertGroup, CaseStatus, GroupField, QueueOrder, Within
from fingerprint.core.errors import FingerprintError
from fingerprint.web.queue_query import QueueQuery, parse_query_pairs, parse_query_string
from tests.support.alerts import NASTY

MOMENTS = some.none() | some.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1), timezones=some.just(UTC))
TEXTS = some.text(max_size=40).map(lambda text: text.replace("\0", "").strip())
FILTERS = some.builds(
    AlertFilter,
    status=some.sampled_from(get_args(CaseStatus)),
    least_urgency=some.integers(0, 100),
    most_urgency=some.integers(0, 100),
    **dict.fromkeys(("principal", "service", "account", "tactic"), TEXTS),
    assignee=some.none() | TEXTS.filter(lambda text: text != "-"),
    decision=some.none() | some.sampled_from(get_args(Decision)),
    level=some.none() | some.sampled_from(LEVELS),
    q=some.sampled_from(
        ["", "action:(StopLogging, DeleteTrail) -principal:ci-*", "iam:CreateUser", '"Ola N"']
    ),
    within=some.none() | some.sampled_from(get_args(Within)),
    since=MOMENTS,
    until=MOMENTS,
    suppressed=some.booleans(),
)
ASKED = some.builds(
    QueueQuery,
    filter=FILTERS,
    order=some.sampled_from(get_args(QueueOrder)),
    by=some.lists(some.sampled_from(get_args(GroupField)), max_size=3, unique=True).map(tuple),
    following=some.none(),
)


@given(asked=ASKED)
def test_what_an_address_asks_is_read_from_it_again(asked):
    assert parse_query_string(asked.query) == asked
    assert parse_query_string(asked.url_with()) == asked


def test_a_plain_queue_has_a_plain_address():
    assert parse_query_pairs([]).query == ""
    assert (
        parse_query_pairs(
            [("status", "open"), ("least_urgency", "0"), ("service", " "), ("order", "urgency")]
        ).query
        == ""
    )
    assert parse_query_pairs([("utm_source", "mail"), ("service", "iam")]).query == "service=iam"


def test_a_day_lasts_until_it_is_over():
    which = parse_query_string("since=2026-03-04&until=2026-03-04").filter
    assert (which.since, which.until) == (
        datetime(2026, 3, 4, tzinfo=UTC),
        datetime(2026, 3, 4, 23, 59, 59, 999_999, tzinfo=UTC),
    )
    assert parse_query_string("until=2026-03-04").query == "until=2026-03-04"


def test_no_one_is_not_the_same_as_anybody():
    assert parse_query_string("assignee=-").filter.assignee == ""
    assert parse_query_string("assignee=").filter.assignee is None
    assert parse_query_string("assignee=-").url_with(assignee=None) == "?"


def test_the_alerts_of_a_group_are_asked_for_by_its_values():
    now = datetime(2026, 3, 4, tzinfo=UTC)
    asked = parse_query_string("status=all&by=service&by=day&by=assignee")
    group = AlertGroup(("iam", "2026-03-04", ""), 3, 91, now, now)
    nameless = AlertGroup(("", "2026-03-04", ""), 3, 91, now, now)
    assert asked.group_url(nameless) == ""  # without a service; a link would find the whole queue
    inside = parse_query_string(asked.group_url(group)).filter
    assert inside == AlertFilter(
        status="all",
        service="iam",
        assignee="",
        day=now.date(),
    )


def test_each_filter_is_said_with_the_address_without_it():
    asked = parse_query_string("status=closed&service=iam&least_urgency=50&by=tactic")
    assert asked.active_filters == [
        ("least_urgency", "50", "?status=closed&service=iam&by=tactic"),
        ("service", "iam", "?status=closed&least_urgency=50&by=tactic"),
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("status=nonsense", "status: choose one of open, new, in_progress, closed, all"),
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
        (f"q={'x' * 1001}", "q: at most 1000"),
        ("q=acton:StopLogging", "q: there is no field"),
        ("within=3h", "within: choose"),
    ],
)
def test_what_cannot_be_asked_is_said_with_the_name_of_the_field(query, said):
    with pytest.raises(FingerprintError, match=said):
        parse_query_string(query)


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_an_address_carries_any_text_and_nothing_but_text(text):
    short = text[:500]
    link = parse_query_pairs([("principal", short)]).url_with(service="iam")
    assert link.isascii()
    assert not set(link) & set(" \"'<>\\")
    assert dict(parse_qsl(link[1:], keep_blank_values=True)).keys() <= {"principal", "service"}
    assert parse_query_string(link) == parse_query_pairs([("principal", short), ("service", "iam")])


def test_a_click_adds_a_value_or_leaves_it_out_and_each_is_removed_by_itself():
    asked = parse_query_string("tactic=Impact&status=all")
    both = parse_query_string(asked.narrowed_url("tactic", "Discovery"))
    assert (both.filter.q, both.filter.tactic, both.filter.status) == (
        "tactic:(Impact, Discovery)",
        "",
        "all",
    )
    assert [text for _, text, _ in both.active_filters] == ["tactic:Impact", "tactic:Discovery"]
    left = parse_query_string(both.active_filters[0][2])
    assert left.filter.q == "tactic:Discovery"
    out = parse_query_string(left.excluded_url("tactic", "Discovery"))
    assert out.filter.q == "-tactic:Discovery"
    assert parse_query_string(out.excluded_url("tactic", "Impact")).filter.q == "-tactic:(Discovery, Impact)"


@pytest.mark.parametrize("value", ["", "a*", 'a"b', "x" * 301])
def test_a_value_that_a_query_cannot_say_has_no_link(value):
    assert parse_query_string("").narrowed_url("principal", value) == ""
    assert parse_query_string("").excluded_url("principal", value) == ""


def test_a_click_beyond_the_length_of_a_query_has_no_link():
    assert parse_query_string("q=" + "a" * 990).excluded_url("service", "b" * 20) == ""
