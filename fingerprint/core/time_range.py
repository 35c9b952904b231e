"""A range of event time, and tests whether a day or month of delivery may have events of the range.

Example:
    >>> january = parse_time_range("2026-01-01", "2026-02-01")
    >>> january.may_contain_day(date(2026, 2, 1)), january.may_contain_day(date(2026, 2, 2))
    (True, False)

Objects are named by the day of delivery. An event just before midnight is delivered after it, so objects of the neighbouring days
may have events of the range as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from fingerprint.core.errors import FingerprintError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

DAY_SECONDS = 86_400
DAY_MICROSECONDS = DAY_SECONDS * 1_000_000
MAX_DAYS = 36_500  # most days that a range counts back: a hundred years
KEY_DAY_MARGIN = timedelta(days=1)  # most days between the day in a key and an event of the object


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The times from `since` on and before `until`, UTC; None is no bound.

    `days` counts back from the newest event: `anchored_at` turns it into `since` once that event is known.
    """

    since: datetime | None = None
    until: datetime | None = None
    days: float | None = None

    def __bool__(self) -> bool:
        """Return whether the range has any bound."""
        return (self.since, self.until, self.days) != (None, None, None)

    def __str__(self) -> str:
        begin = f"from {format_instant(self.since)}" if self.since else ""
        end = f"before {format_instant(self.until)}" if self.until else ""
        days = f"in the last {self.days:g} days" if self.days else ""
        return " ".join(part for part in (days, begin, end) if part) or "ever"

    def contains(self, times: pd.Series) -> NDArray[np.bool_]:
        """Return a mask (n,) of the event times (n,), UTC, that lie in the range."""
        import numpy as np  # late: commands that only list alerts start without it

        inside = np.ones(len(times), bool)
        if self.since:
            inside &= (times >= self.since).to_numpy(bool)
        if self.until:
            inside &= (times < self.until).to_numpy(bool)
        return inside

    def anchored_at(self, newest: datetime) -> TimeRange:
        """Return the same range with its days counted back from the newest event."""
        return self if self.days is None else replace(self, since=newest - timedelta(days=self.days))

    def anchored_at_day(self, newest: date | None) -> TimeRange:
        """Return the widest range that `days` can still give, if `newest` is the latest day of delivery."""
        return self if newest is None else self.anchored_at(_midnight(newest) - KEY_DAY_MARGIN)

    def may_contain_day(self, day: date | None) -> bool:
        """Return whether objects of a day of delivery may have events of the range; True for None, an unknown day."""
        if day is None:
            return True
        begin, end = _midnight(day) - KEY_DAY_MARGIN, _midnight(day) + timedelta(days=1) + KEY_DAY_MARGIN
        return self._overlaps(begin, end)

    def may_contain_month(self, first: date) -> bool:
        """Return whether objects of the month with this first day may have events of the range."""
        after = last_day_of_month(first) + timedelta(days=1)
        return self._overlaps(_midnight(first) - KEY_DAY_MARGIN, _midnight(after) + KEY_DAY_MARGIN)

    def _overlaps(self, begin: datetime, end: datetime) -> bool:
        return not ((self.since and end <= self.since) or (self.until and begin >= self.until))


ALL_TIME = TimeRange()


def parse_time_range(
    since: str | None = None, until: str | None = None, days: float | None = None
) -> TimeRange:
    """Return the range that a person gave as ISO dates or date-times, UTC without an offset; a date means its midnight.

    Raise FingerprintError for a text that is no date, for a range that does not begin before its end, and for two beginnings.
    """
    if days is not None and since is not None:
        raise FingerprintError(
            "--days counts back from the newest event, --since says a date: give one of them"
        )
    if days is not None:
        check_days(days)
    span = TimeRange(_parse_time("--since", since), _parse_time("--until", until), days)
    if span.since and span.until and span.since >= span.until:
        raise FingerprintError(
            f"--since {since} is not before --until {until}: nothing lies between them (--until itself is left out)"
        )
    return span


def check_days(days: float, most: float = MAX_DAYS) -> float:
    """Return `days`. Raise FingerprintError if it is not above 0, is above `most`, or is not a number."""
    if not 0 < days <= most:
        raise FingerprintError(
            f"--days {days:g} is no stretch of time: give a number above 0, and {most:g} at most"
        )
    return days


def newest_day(days: Iterable[date | None], today: date) -> date | None:
    """Return the latest of the days that have already begun in some time zone, when the day in UTC is `today`."""
    latest = today + KEY_DAY_MARGIN
    return max((day for day in days if day and day <= latest), default=None)


def last_day_of_month(first: date) -> date:
    """Return the last day of a month, by its first."""
    return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def format_iso(at: datetime, timespec: str = "auto") -> str:
    """Return ISO 8601 in UTC with a Z, such as 2026-03-04T14:02:00Z; by default a fraction of a second only if it is not 0."""
    return at.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def format_instant(at: datetime) -> str:
    """Return a UTC time as people write it: only the date at midnight, else date and time."""
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
