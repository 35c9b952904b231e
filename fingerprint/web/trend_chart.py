"""The picture above the queue: alerts by day and severity, a bar a day.

Example:
    >>> drawing = draw_trend(store.queue.daily_counts(AlertFilter()))
    >>> drawing.bars[-1].text
    '4 March 2026: 3 alerts, 1 critical, 2 high'

The drawing has no text, so that it may be stretched: the page has the words beside it, as text and as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from fingerprint.core.alert import SEVERITY_LEVELS
from fingerprint.core.case import DayCount
from fingerprint.web.language import format_count, format_date, gettext, ngettext

HEIGHT, STEP, GAP = 48.0, 10.0, 2.0  # units of the drawing; a day is a STEP wide
SMALLEST = 2.0  # units of the smallest part of a bar, so that one critical alert among hundreds is visible
SEVERITIES = tuple(word for _, word in SEVERITY_LEVELS)


@dataclass(frozen=True, slots=True)
class TrendPart:
    """The alerts of one severity within a bar."""

    severity: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class TrendBar:
    """A day: its parts from the bottom up, and the same in words."""

    day: date
    x: float
    parts: tuple[TrendPart, ...]
    counts: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class TrendDrawing:
    """Bars of equal width, `width` by `height` units."""

    width: float
    height: float
    bar_width: float
    bars: tuple[TrendBar, ...]
    peak: int

    @property
    def total(self) -> int:
        """Return the number of alerts in the picture."""
        return sum(sum(bar.counts) for bar in self.bars)


def draw_trend(days: Sequence[DayCount]) -> TrendDrawing | None:
    """Return the drawing of some days; None if they have no alert."""
    peak = max((each.total for each in days), default=0)
    if not peak:
        return None
    bars = tuple(_draw_bar(each, number * STEP, peak) for number, each in enumerate(days))
    return TrendDrawing(len(days) * STEP, HEIGHT, STEP - GAP, bars, peak)


def _draw_bar(count: DayCount, x: float, peak: int) -> TrendBar:
    """Return a bar with the lowest severity at its top, so that the gravest ones share a base line and can be compared."""
    parts, y = [], HEIGHT
    for severity, alerts in zip(SEVERITIES, count.severities, strict=True):
        if alerts:
            height = max(SMALLEST, HEIGHT * alerts / peak)
            y -= height
            parts.append(TrendPart(severity, round(max(0.0, y), 2), round(height, 2)))
    return TrendBar(count.day, x, tuple(parts), count.severities, _describe(count))


def _describe(count: DayCount) -> str:
    day = format_date(count.day, f"{count.day.day} {count.day:%B %Y}", "yMMMMd")
    there = ngettext("%(day)s: %(num)s alert", "%(day)s: %(num)s alerts", count.total, day=day)
    named = [
        f"{format_count(alerts)} {gettext(word)}"
        for word, alerts in zip(SEVERITIES, count.severities, strict=True)
        if alerts
    ]
    return ", ".join([there, *named])
