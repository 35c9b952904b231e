"""The chart of thresholds: alerts a day as dashes on a log scale, the share of attack sessions flagged as a line.

Example:
    >>> drawing = draw_threshold_chart(thresholds.estimate_curve(quorum=2), {"now": 3.2, "previewed": 3.8}, 960, 260)
    >>> drawing.marks[1].label
    'previewed'
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fingerprint.core.case import ThresholdEstimate
from fingerprint.web.charts import Tick
from fingerprint.web.formatting import abbreviate, format_rate
from fingerprint.web.language import format_count, format_decimal, gettext, localise_figure

LEFT, RIGHT = 44, 44  # margins in units of the drawing, for the labels and the titles of the axes
TOP, BOTTOM = 60, 48
DASH = 4  # height of a dash; not a bar, whose length has no meaning on a log scale without a zero
MIN_ALERTS_PER_DAY = 0.1  # lower end of the logarithmic axis


@dataclass(frozen=True, slots=True)
class ThresholdBar:
    """A threshold's alerts a day: a dash at that height, and its text."""

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class ThresholdChart:
    """The chart, in units of a drawing `width` by `height`. `attack_line` is an SVG path; `share_ticks` label its axis."""

    width: int
    height: int
    baseline: float
    bars: tuple[ThresholdBar, ...]
    attack_line: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    share_ticks: tuple[Tick, ...]
    marks: tuple[Tick, ...]


def draw_threshold_chart(
    curve: Sequence[ThresholdEstimate], marks: Mapping[str, float], width: int, height: int
) -> ThresholdChart | None:
    """Return the chart of a curve whose thresholds ascend; `marks` are thresholds by name. None without a curve."""
    if len(curve) < 2:
        return None
    frame = _Axes.from_curve(curve, width, height)
    known = [each for each in curve if each.session_share is not None]
    points = (f"{frame.x(each.threshold)} {frame.share_y(each.session_share or 0.0)}" for each in known)
    return ThresholdChart(
        width,
        height,
        frame.baseline,
        tuple(frame.bar(each) for each in curve),
        "M" + "L".join(points) if known else "",
        tuple(frame.x_ticks()),
        tuple(
            Tick(
                frame.y(value),
                abbreviate(value) if value > MIN_ALERTS_PER_DAY else f"≤ {localise_figure(f'{value:g}')}",
            )
            for value in frame.decades()
        ),
        tuple(Tick(frame.share_y(part), f"{part:.0%}") for part in (0.0, 0.5, 1.0)) if known else (),
        tuple(Tick(frame.x(at), name) for name, at in marks.items() if frame.low <= at <= frame.high),
    )


@dataclass(frozen=True, slots=True)
class _Axes:
    low: float  # thresholds at the left and right end
    high: float
    top: float  # alerts a day at the upper end
    step: float  # between two thresholds
    width: float
    baseline: float

    @classmethod
    def from_curve(cls, curve: Sequence[ThresholdEstimate], width: int, height: int) -> _Axes:
        low, high = curve[0].threshold, curve[-1].threshold
        most = max((each.alerts_per_day for each in curve if math.isfinite(each.alerts_per_day)), default=1.0)
        top = 10.0 ** math.ceil(math.log10(max(most, 10 * MIN_ALERTS_PER_DAY)))
        return cls(low, high, top, (high - low) / (len(curve) - 1), width - LEFT - RIGHT, height - BOTTOM)

    @property
    def slot_width(self) -> float:
        """Return the units from one threshold to the next."""
        return self.width / ((self.high - self.low) / self.step + 1)

    def x(self, threshold: float) -> float:
        return round(LEFT + self.slot_width * ((threshold - self.low) / self.step + 0.5), 2)

    def y(self, alerts: float) -> float:
        share = math.log(max(alerts, MIN_ALERTS_PER_DAY) / MIN_ALERTS_PER_DAY) / math.log(
            self.top / MIN_ALERTS_PER_DAY
        )
        return self.share_y(min(share, 1.0))

    def share_y(self, share: float) -> float:
        return round(self.baseline - (self.baseline - TOP) * share, 2)

    def bar(self, each: ThresholdEstimate) -> ThresholdBar:
        wide = 0.7 * self.slot_width
        y = min(self.y(each.alerts_per_day) - DASH / 2, self.baseline - DASH)
        text = gettext(
            "threshold %(threshold)s: %(rate)s alerts a day",
            threshold=format_decimal(each.threshold, 2),
            rate=format_rate(each.alerts_per_day),
        )
        if each.sessions:
            text += gettext(
                ", %(some)s of %(all)s attack sessions flagged",
                some=format_count(each.sessions_found or 0),
                all=format_count(each.sessions),
            )
        return ThresholdBar(
            round(self.x(each.threshold) - wide / 2, 2), round(y, 2), round(wide, 2), DASH, text
        )

    def decades(self) -> list[float]:
        count = round(math.log10(self.top / MIN_ALERTS_PER_DAY))
        return [MIN_ALERTS_PER_DAY * 10.0**power for power in range(count + 1)]

    def x_ticks(self) -> list[Tick]:
        return [Tick(self.x(at), f"{at}") for at in range(math.ceil(self.low), math.floor(self.high) + 1)]
