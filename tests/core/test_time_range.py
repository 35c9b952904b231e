"""Which stretch of time is wanted, and which objects need not be fetched for it."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pandas as pd
import pytest

from fingerprint.core import time_range
from fingerprint.core.errors import FingerprintError
from fingerprint.core.time_range import ALL_TIME


def instants(*texts: str) -> pd.Series:
    return pd.Series(pd.to_datetime(list(texts), utc=True, format="ISO8601"))


def test_a_span_begins_at_its_first_moment_and_ends_before_its_last() -> None:
    times = instants("2025-12-31T23:59:59", "2026-01-01", "2026-01-31T23:59:59", "2026-02-01")
    assert time_range.parse_time_range("2026-01-01", "2026-02-01").contains(times).tolist() == [
        False,
        True,
        True,
        False,
    ]
    assert time_range.parse_time_range("2026-01-01").contains(times).tolist() == [False, True, True, True]
    assert time_range.parse_time_range(until="2026-01-01").contains(times).tolist() == [
        True,
        False,
        False,
        False,
    ]
    assert ALL_TIME.contains(times).all()


@pytest.mark.parametrize(
    "text", ["2026-01-31T18:00", "2026-01-31T18:00Z", "2026-01-31T20:00+02:00", " 20260131T1800 "]
)
def test_times_are_utc_unless_they_say_where(text: str) -> None:
    assert time_range.parse_time_range(text).since == datetime(2026, 1, 31, 18, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "31.01.2026", "", "2026-01-31T25:00"])
def test_what_is_no_date_is_said_with_one_that_is(text: str) -> None:
    with pytest.raises(FingerprintError, match=r"--until .* is no date: write 2026-01-31"):
        time_range.parse_time_range(until=text)


def test_a_span_that_ends_before_it_begins_is_refused() -> None:
    for until in ("2026-01-01", "2025-12-31"):
        with pytest.raises(FingerprintError, match="not before"):
            time_range.parse_time_range("2026-01-01", until)


def test_two_beginnings_and_no_days_at_all_are_refused() -> None:
    with pytest.raises(FingerprintError, match="give one of them"):
        time_range.parse_time_range("2026-01-01", days=3)
    for days in (0, -1, float("nan"), float("inf"), 1e9):
        with pytest.raises(FingerprintError, match="above 0"):
            time_range.parse_time_range(days=days)


def test_days_count_back_from_the_newest_event() -> None:
    span = time_range.parse_time_range(days=2).anchored_at(datetime(2026, 1, 10, 12, tzinfo=UTC))
    times = instants("2026-01-08T11:59:59", "2026-01-08T12:00:00", "2026-01-10T12:00:00")
    assert span.contains(times).tolist() == [False, True, True]


def test_a_day_of_delivery_is_passed_over_when_it_lies_more_than_a_day_outside() -> None:
    span = time_range.parse_time_range("2026-01-10", "2026-01-12")  # two days
    assert [day for day in range(1, 29) if span.may_contain_day(date(2026, 1, day))] == [9, 10, 11, 12]
    assert span.may_contain_day(None), "a file whose name says no day is always read"


def test_with_days_alone_the_newest_day_says_what_is_too_old() -> None:
    days, today = [date(2026, 1, day) for day in range(1, 29)], date(2026, 2, 10)
    assert time_range.newest_day([*days, None], today) == date(2026, 1, 28)
    assert time_range.newest_day([*days, date(2099, 1, 1)], today) == date(2026, 1, 28), (
        "no log is delivered in 2099"
    )
    assert time_range.newest_day([None], today) is None
    wide = time_range.parse_time_range(days=3).anchored_at_day(time_range.newest_day(days, today))
    assert [day.day for day in days if wide.may_contain_day(day)] == [23, 24, 25, 26, 27, 28]
    assert time_range.parse_time_range(days=3).anchored_at_day(None).may_contain_day(days[0])


def test_a_span_is_said_as_people_write_it() -> None:
    assert (
        str(time_range.parse_time_range("2026-01-01", "2026-02-01T06:00"))
        == "from 2026-01-01 before 2026-02-01T06:00:00"
    )
    assert str(time_range.parse_time_range(days=30)) == "in the last 30 days"
    assert str(ALL_TIME) == "ever"
    assert not ALL_TIME
    assert time_range.parse_time_range(days=1)
