"""The chart of an activity curve as geometry: positions of bars, lines, ticks and labels for the template.

Example:
    >>> drawing = draw_activity_chart(alert.curve, width=960, height=250)
    >>> drawing.flagged[0].text
    'Tuesday 4 March 14:00 UTC: 34 where 0.2 were expected'
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fingerprint.core.alert import ActivityCurve
from fingerprint.web.formatting import abbreviate, format_figure, format_short_day, interval_start
from fingerprint.web.language import format_date, gettext

LEFT, RIGHT, TOP, BOTTOM = 44, 8, 28, 46  # margins in units of the drawing, for labels and titles of axes
TICK_WIDTH = 75  # units that a label of the time axis needs
# If a peak is so many times the largest expected count, the axis is a square root: a linear one would flatten all else.
SQUARE_ROOT_RATIO = 25
_STEPS = tuple(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 672, 1344, 4032, 8736))


@dataclass(frozen=True, slots=True)
class FlaggedInterval:
    """A flagged interval: its band, its bar and its text. `sentence` is the text with {time} in place of the `start`."""

    x: float
    width: float
    y: float
    height: float
    text: str
    start: datetime
    sentence: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick of an axis: its position and its label; `time` is set if the label is a UTC time."""

    at: float
    label: str
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class ActivityChart:
    """The chart of a curve, in units of a drawing `width` by `height`; paths are SVG."""

    width: int
    height: int
    baseline: float
    bars: str
    expected: str
    flagged: tuple[FlaggedInterval, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    square_root: bool


def draw_activity_chart(curve: ActivityCurve, width: int, height: int) -> ActivityChart:
    """Return the geometry of a curve. NaN is a gap; infinite values are drawn at the top."""
    axis = _Axis.from_curve(curve, width, height)
    usual = (index for index in range(len(curve.counts)) if index not in set(curve.flagged))
    return ActivityChart(
        width=width,
        height=height,
        baseline=axis.baseline,
        bars="".join(axis.bar(index) for index in usual),
        expected=axis.line(),
        flagged=tuple(axis.flag(index) for index in curve.flagged if index < len(curve.counts)),
        x_ticks=tuple(axis.x_ticks()),
        y_ticks=tuple(axis.y_ticks()),
        square_root=axis.square_root,
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    curve: ActivityCurve
    top: float  # the count at the upper end
    step: float  # units of an interval
    left: float
    baseline: float
    height: float  # units from the base to the upper end
    square_root: bool

    @classmethod
    def from_curve(cls, curve: ActivityCurve, width: int, height: int) -> _Axis:
        highest = _highest(curve.counts + curve.expected)
        root = highest > SQUARE_ROOT_RATIO * max(1.0, _highest(curve.expected))
        step = (width - LEFT - RIGHT) / max(1, len(curve.counts))
        return cls(curve, _round_up(highest), step, LEFT, height - BOTTOM, height - BOTTOM - TOP, root)

    def x(self, index: float) -> float:
        return round(self.left + index * self.step, 2)

    def y(self, count: float) -> float:
        share = min(max(count / self.top, 0.0), 1.0)
        return round(self.baseline - self.height * (math.sqrt(share) if self.square_root else share), 2)

    def bar(self, index: int) -> str:
        count = self.curve.counts[index]
        if not count > 0:
            return ""
        gap = min(1.0, 0.15 * self.step)
        return (
            f"M{self.x(index)} {self.baseline}V{self.y(count)}h{round(self.step - gap, 2)}V{self.baseline}z"
        )

    def line(self) -> str:
        """Return the line of expected counts, in steps, as an SVG path; broken where nothing is expected yet."""
        path, broken = [], True
        for index, count in enumerate(self.curve.expected):
            if math.isnan(count):
                broken = True
                continue
            path.append(f"{'M' if broken else 'L'}{self.x(index)} {self.y(count)}H{self.x(index + 1)}")
            broken = False
        return "".join(path)

    def flag(self, index: int) -> FlaggedInterval:
        count, start = self.curve.counts[index], self.interval_time(index)
        expected = self.curve.expected[index] if index < len(self.curve.expected) else math.nan
        day = format_date(start, f"{start:%A} {start.day} {start:%B}", "MMMMEEEEd")
        sentence = gettext(
            "%(time)s: %(count)s where %(expected)s were expected",
            time="{time}",
            count=format_figure(count),
            expected=format_figure(expected),
        )
        top = self.y(0.0 if math.isnan(count) else count)
        return FlaggedInterval(
            x=self.x(index),
            width=round(max(self.step, 2.0), 2),
            y=top,
            height=round(self.baseline - top, 2),
            text=sentence.replace("{time}", f"{day} {start:%H:%M} UTC"),
            start=start,
            sentence=sentence,
        )

    def interval_time(self, index: int) -> datetime:
        return interval_start(self.curve.start, self.curve.interval_seconds, index).astimezone(UTC)

    def x_ticks(self) -> Iterator[Tick]:
        """Return labels of time at round hours and midnights of UTC, as many as fit."""
        seconds = len(self.curve.counts) * self.curve.interval_seconds
        room = self.step * len(self.curve.counts) / TICK_WIDTH
        step = next((step for step in _STEPS if seconds / step <= room), _STEPS[-1])
        first = self.interval_time(0)
        at = first.replace(hour=0, minute=0, second=0, microsecond=0)
        while at < first + timedelta(seconds=seconds):
            if at >= first:
                text = format_short_day(at) if at.hour == 0 else f"{at:%H:%M}"
                yield Tick(self.x((at - first).total_seconds() / self.curve.interval_seconds), text, at)
            at += timedelta(seconds=step)

    def y_ticks(self) -> Iterator[Tick]:
        parts = (0, 1 / 16, 1 / 4, 1) if self.square_root else (0, 1 / 2, 1)
        for part in parts:
            yield Tick(self.y(part * self.top), abbreviate(part * self.top))


def _highest(values: tuple[float, ...]) -> float:
    return max((value for value in values if math.isfinite(value)), default=0.0)


def _round_up(highest: float) -> float:
    """Return the next of 4, 8, 10, 20, 40, 80, 100, 200 ...: their halves and quarters are round as well."""
    if highest <= 4:
        return 4.0
    scale = 10.0 ** math.floor(math.log10(highest))
    return next(part * scale for part in (1, 2, 4, 6, 8, 10) if part * scale >= highest)
