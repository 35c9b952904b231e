"""The charts of a principal's anomaly by day: one for each detector, with a scale and a threshold line of its own.

Example:
    >>> charts = draw_risk_charts(daily_votes(store.votes.read(principal)), width=960, height=160)
    >>> charts[0].bars[-1].text
    '4 March 2026: 9 votes, the strongest 16.8, threshold 3.2'

- Detectors measure different things, so each has its own scale. It ends at SCALE_IN_THRESHOLDS thresholds, or at the strongest
  vote if that is less.
- A bar beyond the scale has an open top and its number, so that nothing is cut off silently.
- More than MAX_EMPTY_DAYS days in a row without a stored vote are left out, and the axis shows their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from fingerprint.analysis.principal_profile import DailyVotes
from fingerprint.detection.detectors import detector_label, load_known_detectors
from fingerprint.web.charts import Tick
from fingerprint.web.formatting import abbreviate, format_short_day
from fingerprint.web.language import format_date, format_decimal, gettext, ngettext

MAX_DAYS = 90
MAX_EMPTY_DAYS = 2  # most days in a row without a vote that are drawn
SCALE_IN_THRESHOLDS = 4
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 24, 26  # margins in units of the drawing, for the labels
DAY_LABEL_WIDTH = 64  # units that a label of a day needs
NUMBER_WIDTH = 44  # units that the number of a bar beyond the scale needs
WIDEST_BAR, WIDEST_STEP = 28.0, 60.0
LEAST_SLOTS = 3  # a drawing is at least as wide as so many slots
COLOURS = 3  # of bars, by the place of their detector: style classes detector-0 ...

Slot = date | int  # a day, or the number of days left out


@dataclass(frozen=True, slots=True)
class DayBar:
    """A detector's day. `voted`: a z reached the threshold. `beyond` is the number of a bar that is higher than the scale."""

    x: float
    y: float
    width: float
    height: float
    voted: bool
    beyond: str
    text: str


@dataclass(frozen=True, slots=True)
class SkippedDays:
    """Days without a vote that the axis leaves out."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class RiskChart:
    """The chart of one detector, in units of a drawing `width` by `height`; `threshold` is an SVG path."""

    detector: str
    label: str
    question: str
    kind: str
    width: int
    height: int
    baseline: float
    bars: tuple[DayBar, ...]
    threshold: str
    threshold_text: str
    skipped: tuple[SkippedDays, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def draw_risk_charts(days: Sequence[DailyVotes], width: int, height: int) -> list[RiskChart]:
    """Return a chart for each detector, of the last MAX_DAYS days up to the newest vote, all with the same axis of days.

    `width` is the largest width; a chart of few days is narrower.
    """
    if not days:
        return []
    last = max(day.day for day in days)
    recent = [day for day in days if day.day > last - timedelta(days=MAX_DAYS)]
    slots = _day_slots(sorted({day.day for day in recent}))
    # few days: no blank space beside them
    width = min(width, LEFT + RIGHT + round(max(len(slots), LEAST_SLOTS) * WIDEST_STEP))
    names = sorted({day.detector for day in recent})
    questions = {each.name: each.question for each in load_known_detectors(names)}
    return [
        _Axes(name, place, questions.get(name, ""), slots, width, height).draw(
            [day for day in recent if day.detector == name]
        )
        for place, name in enumerate(names)
    ]


def _day_slots(days: Sequence[date]) -> list[Slot]:
    """Return the days of the axis; more than MAX_EMPTY_DAYS days without a vote are one slot."""
    slots: list[Slot] = []
    for at, day in enumerate(days):
        empty = (day - days[at - 1]).days - 1 if at else 0
        if empty > MAX_EMPTY_DAYS:
            slots.append(empty)
        else:
            slots += [day - timedelta(days=back) for back in range(empty, 0, -1)]
        slots.append(day)
    return slots


@dataclass(frozen=True, slots=True)
class _Axes:
    """The axes of one detector's chart."""

    detector: str
    place: int
    question: str
    slots: Sequence[Slot]
    width: int
    height: int

    @property
    def step(self) -> float:
        return (self.width - LEFT - RIGHT) / max(len(self.slots), 1)

    @property
    def baseline(self) -> int:
        return self.height - BOTTOM

    def draw(self, days: Sequence[DailyVotes]) -> RiskChart:
        """Return the chart of the detector's days."""
        top = _scale(days)
        levels = (Tick(self._y(share * top, top), abbreviate(round(share * top, 1))) for share in (0, 0.5, 1))
        thresholds = sorted({day.threshold for day in days})
        low, high = format_decimal(thresholds[0], 1), format_decimal(thresholds[-1], 1)
        return RiskChart(
            detector=self.detector,
            label=detector_label(self.detector),
            question=self.question,
            kind=f"detector-{self.place % COLOURS}",
            width=self.width,
            height=self.height,
            baseline=self.baseline,
            bars=tuple(self._bars(days, top)),
            threshold="".join(self._threshold(days, top)),
            threshold_text=low if low == high else gettext("%(first)s to %(last)s", first=low, last=high),
            skipped=tuple(self._skipped()),
            x_ticks=tuple(self._ticks()),
            y_ticks=tuple(levels),
        )

    def _y(self, z: float, top: float) -> float:
        share = min(max(z / top, 0.0), 1.0) if math.isfinite(z) else 1.0
        return round(self.baseline - (self.baseline - TOP) * share, 2)

    def _left(self, day: date) -> float:
        return LEFT + self.slots.index(day) * self.step

    def _bars(self, days: Sequence[DailyVotes], top: float) -> Iterator[DayBar]:
        numbered = self._numbered([day for day in days if day.strongest > top])
        width = min(0.76 * self.step, WIDEST_BAR)
        for day in days:
            y = self._y(day.strongest, top)
            digits = 0 if day.strongest >= 100 else 1
            number = format_decimal(day.strongest, digits) if math.isfinite(day.strongest) else "∞"
            when = format_date(day.day, f"{day.day.day} {day.day:%B %Y}", "yMMMMd")
            yield DayBar(
                x=round(self._left(day.day) + (self.step - width) / 2, 2),
                y=y,
                width=round(width, 2),
                height=round(max(self.baseline - y, 1.0), 2),
                voted=day.votes > 0,
                beyond="" if day.strongest <= top else number if day.day in numbered else "↑",
                text=ngettext(
                    "%(day)s: %(num)s vote, the strongest %(strongest)s, threshold %(threshold)s",
                    "%(day)s: %(num)s votes, the strongest %(strongest)s, threshold %(threshold)s",
                    day.votes,
                    day=when,
                    strongest=format_decimal(day.strongest, 1),
                    threshold=format_decimal(day.threshold, 1),
                ),
            )

    def _numbered(self, beyond: Sequence[DailyVotes]) -> set[date]:
        """Return the days whose bars have room for their numbers; stronger days take room first."""
        chosen: set[date] = set()
        for day in sorted(beyond, key=lambda day: -day.strongest):
            here = self._left(day.day)
            if all(abs(here - self._left(other)) >= NUMBER_WIDTH for other in chosen):
                chosen.add(day.day)
        return chosen

    def _threshold(self, days: Sequence[DailyVotes], top: float) -> Iterator[str]:
        """Yield the threshold's line over each slot; a day without a threshold has the last known one."""
        by_day, current = {day.day: day.threshold for day in days}, days[0].threshold
        for at, slot in enumerate(self.slots):
            current = by_day.get(slot, current) if isinstance(slot, date) else current
            y, left = self._y(current, top), round(LEFT + at * self.step, 2)
            yield f"{'M' if at == 0 else 'L'}{left} {y}H{round(left + self.step, 2)}"

    def _skipped(self) -> Iterator[SkippedDays]:
        for at, slot in enumerate(self.slots):
            if isinstance(slot, int):
                yield SkippedDays(
                    round(LEFT + (at + 0.5) * self.step, 2), gettext("%(num)s days without a vote", num=slot)
                )

    def _ticks(self) -> Iterator[Tick]:
        """Yield labels of days, as many as fit."""
        every, free = max(1, math.ceil(DAY_LABEL_WIDTH / self.step)), 0
        for at, slot in enumerate(self.slots):
            if isinstance(slot, date) and at >= free:
                yield Tick(round(LEFT + (at + 0.5) * self.step, 2), format_short_day(slot))
                free = at + every


def _scale(days: Sequence[DailyVotes]) -> float:
    """Return the upper end of a detector's scale."""
    highest = max((day.strongest for day in days if math.isfinite(day.strongest)), default=1.0)
    threshold = max((day.threshold for day in days if math.isfinite(day.threshold)), default=0.0)
    least = 1.25 * threshold  # the line of the threshold is never at the edge
    return max(min(highest, SCALE_IN_THRESHOLDS * threshold) if threshold > 0 else highest, least, 1.0)
