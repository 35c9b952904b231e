"""The charts of the overview: alerts by day and severity as stacked bars, precision by week with its interval.

Example:
    >>> draw_days(overview.days, 1000, 240).bars[0].text
    '4 March 2026: 3 critical'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from fingerprint.core.overview import SEVERITIES, DayFigures, PrecisionFigures
from fingerprint.web.charts import Tick
from fingerprint.web.formatting import abbreviate, format_short_day
from fingerprint.web.language import format_count, format_date, gettext, ngettext

LEFT, RIGHT, TOP, BOTTOM = 56, 10, 14, 46  # margins in units of the drawing, for labels and titles of axes
LABEL_WIDTH = 70  # units that a label of the lower axis needs


@dataclass(frozen=True, slots=True)
class StackedBar:
    """Alerts of one severity on one day."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class PrecisionPoint:
    """The precision of a week at `y`, its interval from `top` to `bottom`."""

    x: float
    y: float
    top: float
    bottom: float
    text: str


@dataclass(frozen=True, slots=True)
class OverviewChart:
    """A chart in units of a drawing `width` by `height`."""

    width: int
    height: int
    left: int
    right: int
    baseline: float
    bars: tuple[StackedBar, ...]
    points: tuple[PrecisionPoint, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def draw_days(days: Sequence[DayFigures], width: int, height: int) -> OverviewChart:
    """Return a chart of days, with the gravest severity at the bottom of the bars."""
    counts = [[getattr(day, name) for name in SEVERITIES] for day in days]
    top = _round_up(max(map(sum, counts), default=0))
    step = (width - LEFT - RIGHT) / max(1, len(days))
    base = height - BOTTOM
    bars = []
    for place, (day, by_severity) in enumerate(zip(days, counts, strict=True)):
        below = 0
        for name, count in zip(SEVERITIES, by_severity, strict=True):
            if count:
                low, high = _y(below / top, base), _y((below + count) / top, base)
                text = f"{_long_day(day.day)}: {format_count(count)} {gettext(name)}"
                x, wide = LEFT + step * (place + 0.1), 0.8 * step
                bars.append(StackedBar(name, _round(x), high, _round(wide), _round(low - high), text))
                below += count
    every = max(1, round(LABEL_WIDTH / step + 0.5))
    x_ticks = [
        Tick(_round(LEFT + step * (place + 0.5)), format_short_day(day.day))
        for place, day in enumerate(days)
        if place % every == 0
    ]
    y_ticks = [Tick(_y(part, base), abbreviate(part * top)) for part in (0, 0.5, 1)]
    return OverviewChart(width, height, LEFT, RIGHT, base, tuple(bars), (), tuple(x_ticks), tuple(y_ticks))


def draw_precision(weeks: Sequence[PrecisionFigures], width: int, height: int) -> OverviewChart:
    """Return a chart of weeks; a week without a decision has a place but no point."""
    step = (width - LEFT - RIGHT) / max(1, len(weeks))
    base = height - BOTTOM
    points = []
    for place, week in enumerate(weeks):
        if week.share is not None and week.low is not None and week.high is not None:
            text = ngettext(
                "week of %(day)s: %(share)s of %(num)s decided alert, between %(low)s and %(high)s",
                "week of %(day)s: %(share)s of %(num)s decided alerts, between %(low)s and %(high)s",
                week.decided,
                day=_long_day(date.fromisoformat(week.name)),
                share=f"{week.share:.0%}",
                low=f"{week.low:.0%}",
                high=f"{week.high:.0%}",
            )
            x = _round(LEFT + step * (place + 0.5))
            points.append(
                PrecisionPoint(x, _y(week.share, base), _y(week.high, base), _y(week.low, base), text)
            )
    every = max(1, round(LABEL_WIDTH / step + 0.5))
    x_ticks = [
        Tick(_round(LEFT + step * (place + 0.5)), format_short_day(day))
        for place, day in enumerate(date.fromisoformat(week.name) for week in weeks)
        if place % every == 0
    ]
    y_ticks = [Tick(_y(part, base), f"{part:.0%}") for part in (0, 0.5, 1)]
    return OverviewChart(width, height, LEFT, RIGHT, base, (), tuple(points), tuple(x_ticks), tuple(y_ticks))


def _y(share: float, base: float) -> float:
    return _round(base - (base - TOP) * min(max(share, 0.0), 1.0))


def _round(value: float) -> float:
    return round(value, 2)


def _round_up(most: int) -> int:
    """Return the next even number that is 2, 4, 6, 8 or 10 times a power of ten."""
    scale = 1
    while 10 * scale < most:
        scale *= 10
    return next(part * scale for part in (2, 4, 6, 8, 10) if part * scale >= most)


def _long_day(day: date) -> str:
    return format_date(day, f"{day.day} {day:%B %Y}", "yMMMMd")
