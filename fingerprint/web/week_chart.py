"""The picture of a week: events by weekday and hour (UTC) as squares, darker for more.

Example:
    >>> picture = draw_week(usual_hours(bank, principal))
    >>> picture.cells[0].text, picture.cells[0].shade
    ('Monday 00:00 to 01:00: 1.5', 2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date

from fingerprint.analysis.principal_activity import HourOfWeek
from fingerprint.web.charts import Tick
from fingerprint.web.formatting import format_figure
from fingerprint.web.language import N_, format_date, gettext

WEEKDAYS = (
    N_("Monday"),
    N_("Tuesday"),
    N_("Wednesday"),
    N_("Thursday"),
    N_("Friday"),
    N_("Saturday"),
    N_("Sunday"),
)
SHADES = 5  # of squares with events: style classes shade-1 ... shade-5, 0 is empty
LEFT, TOP, SIZE, GAP = 34, 4, 15, 2  # units of the drawing
LABEL_EVERY = 4  # hours


@dataclass(frozen=True, slots=True)
class WeekCell:
    """The square of one hour of the week."""

    x: int
    y: int
    shade: int
    text: str


@dataclass(frozen=True, slots=True)
class WeekRow:
    """A weekday's counts as text, for the table."""

    day: str
    counts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WeekChart:
    """The squares of 7 x 24 hours, in units of a drawing `width` by `height`; `rows` are the same as a table."""

    width: int
    height: int
    size: int
    cells: tuple[WeekCell, ...]
    days: tuple[Tick, ...]
    hours: tuple[Tick, ...]
    rows: tuple[WeekRow, ...]
    highest: str
    weeks: float | None


def draw_week(week: HourOfWeek | None) -> WeekChart | None:
    """Return the picture of a week; None if nothing was counted. A shade is the square root of the share of the highest."""
    if week is None or not week.highest > 0:
        return None
    step = SIZE + GAP
    cells = tuple(
        WeekCell(
            LEFT + hour * step, TOP + day * step, _shade(count, week.highest), _cell_text(day, hour, count)
        )
        for day, counts in enumerate(week.counts)
        for hour, count in enumerate(counts)
    )
    return WeekChart(
        width=LEFT + 24 * step,
        height=TOP + 7 * step + 18,
        size=SIZE,
        cells=cells,
        days=tuple(Tick(TOP + at * step + SIZE - 3, _short_weekday(at)) for at in range(len(WEEKDAYS))),
        hours=tuple(Tick(LEFT + at * step, f"{at:02d}") for at in range(0, 24, LABEL_EVERY)),
        rows=tuple(
            WeekRow(gettext(name), tuple(map(_count_text, week.counts[at])))
            for at, name in enumerate(WEEKDAYS)
        ),
        highest=format_figure(week.highest),
        weeks=week.weeks,
    )


def _short_weekday(day: int) -> str:
    """Return a weekday as the language shortens it: `Mon`, in German `Mo`."""
    return format_date(date(2024, 1, 1 + day), WEEKDAYS[day][:3], "E")  # 1 January 2024 was a Monday


def _shade(count: float, highest: float) -> int:
    return math.ceil(SHADES * math.sqrt(count / highest)) if count > 0 else 0


def _count_text(count: float) -> str:
    return format_figure(count) if count else "0"


def _cell_text(day: int, hour: int, count: float) -> str:
    return gettext(
        "%(day)s %(start)s to %(end)s: %(count)s",
        day=gettext(WEEKDAYS[day]),
        start=f"{hour:02d}:00",
        end=f"{(hour + 1) % 24:02d}:00",
        count=format_figure(count),
    )
