"""Which stretch of event time is wanted, and which objects of a trail need not be fetched for it.

Example:
    >>> span = of("2026-01-01", "2026-02-01")
    >>> span.may_hold("trail/AWSLogs/111122223333/CloudTrail/eu-west-1/2026/01/31/a.json.gz")
    True
    >>> span.may_hold("trail/AWSLogs/111122223333/CloudTrail/eu-west-1/2026/02/02/b.json.gz")
    False

CloudTrail writes the day of delivery into an object's key, UTC; an organisation's trail has the organisation's id before the
account. What happened just before midnight is delivered after it, and late deliveries are: a day either way is fetched still.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.core.alert import FingerprintError

KEY_DAY_MARGIN = timedelta(days=1)  # between the day in a key and the day of an event in it, at most
_DAY = re.compile(
    r"(?:^|/)AWSLogs/(?:[^/]+/){1,2}CloudTrail[^/]*/[^/]+/(\d{4})/(\d{2})/(\d{2})/[^/]+$"
)  # of an account's trail, or of an organisation's


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From `since` on and before `until`, UTC; None is no bound. `days`: so many before the newest event, not known yet."""

    since: datetime | None = None
    until: datetime | None = None
    days: float | None = None

    def __bool__(self) -> bool:
        """Whether anything is left out by it."""
        return (self.since, self.until, self.days) != (None, None, None)

    def __str__(self) -> str:
        begin = f"from {format_instant(self.since)}" if self.since else ""
        end = f"before {format_instant(self.until)}" if self.until else ""
        days = f"in the last {self.days:g} days" if self.days else ""
        return " ".join(part for part in (days, begin, end) if part) or "ever"

    def contains(self, times: pd.Series) -> NDArray[np.bool_]:
        """Which event times (n,), UTC, lie in it: a mask (n,)."""
        inside = np.ones(len(times), bool)
        if self.since:
            inside &= (times >= self.since).to_numpy(bool)
        if self.until:
            inside &= (times < self.until).to_numpy(bool)
        return inside

    def anchored_at(self, newest: datetime) -> TimeRange:
        """The same with its days counted back from the newest event."""
        return self if self.days is None else replace(self, since=newest - timedelta(days=self.days))

    def anchored_at_day(self, newest: date | None) -> TimeRange:
        """The same, as wide as it can still become, where `newest` is the latest day in a key."""
        return self if newest is None else self.anchored_at(_midnight(newest) - KEY_DAY_MARGIN)

    def may_contain_object(self, path: str) -> bool:
        """Whether an object may hold events in it: yes, unless its key names a day that lies too far outside."""
        day = key_day(path)
        if day is None:
            return True
        begin, end = _midnight(day) - KEY_DAY_MARGIN, _midnight(day) + timedelta(days=1) + KEY_DAY_MARGIN
        return self._overlaps(begin, end)

    def may_contain_month(self, first: date) -> bool:
        """Whether objects of the month with this first day may hold events in it."""
        after = last_day_of_month(first) + timedelta(days=1)
        return self._overlaps(_midnight(first) - KEY_DAY_MARGIN, _midnight(after) + KEY_DAY_MARGIN)

    def _overlaps(self, begin: datetime, end: datetime) -> bool:
        return not ((self.since and end <= self.since) or (self.until and begin >= self.until))


ALL_TIME = TimeRange()


def parse_time_range(
    since: str | None = None, until: str | None = None, days: float | None = None
) -> TimeRange:
    """A span as people write it: ISO dates or date-times, UTC where they say nothing else; a date is its first moment.

    Raises FingerprintError for what is no date, for one that ends before it begins, and for two beginnings.
    """
    if days is not None and since is not None:
        raise FingerprintError(
            "--days counts back from the newest event, --since says a date: give one of them"
        )
    if days is not None and days <= 0:
        raise FingerprintError(f"--days {days:g} is no stretch of time: give a number above 0")
    span = TimeRange(_parse_time("--since", since), _parse_time("--until", until), days)
    if span.since and span.until and span.since >= span.until:
        raise FingerprintError(
            f"--since {since} is not before --until {until}: nothing lies between them (--until itself is left out)"
        )
    return span


def key_day(path: str) -> date | None:
    """The day in the key of a trail's object; None for any other file."""
    found = _DAY.search(path)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:  # a key that looks like one: 2026/13/40
        return None


def newest_key_day(paths: Iterable[str], today: date | None = None) -> date | None:
    """The latest day that a key names, of those that have begun somewhere on earth; `today` (UTC) is by the clock."""
    latest = (today or datetime.now(UTC).date()) + KEY_DAY_MARGIN
    return max((day for day in map(key_day, paths) if day and day <= latest), default=None)


def last_day_of_month(first: date) -> date:
    """Of a month, by its first."""
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def format_instant(at: datetime) -> str:
    """A time as people write it: a date alone at midnight, UTC."""
    return at.strftime("%Y-%m-%d" if at.time() == time() else "%Y-%m-%dT%H:%M:%S")


def _parse_time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise FingerprintError(
            f"{option} {text!r} is no date: write 2026-01-31, or 2026-01-31T18:00 (UTC)"
        ) from None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
