"""What a threshold shows against what it finds, as geometry: alerts a day as bars, known attacks as a line.

Example:
    >>> drawing = drawn(thresholds.curve(quorum=2), marks={"now": 3.2, "asked for": 3.8}, width=960, height=260)
    >>> drawing.marks[1].label
    'asked for'
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fingerprint.core.case import Foreseen
from fingerprint.web.charts import Tick
from fingerprint.web.formatting import short

LEFT, RIGHT, TOP, BOTTOM = 44, 44, 36, 30  # margins in units of the drawing, for the labels
LEAST = 0.1  # alerts a day at the foot of the axis, which is logarithmic


@dataclass(frozen=True, slots=True)
class Bar:
    """A threshold's alerts a day, and what to say of it."""

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """All positions are in units of a drawing `width` by `height`. `line` is SVG's; `share` the axis of known attacks."""

    width: int
    height: int
    base: float
    bars: tuple[Bar, ...]
    line: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    share: tuple[Tick, ...]
    marks: tuple[Tick, ...]


def drawn(curve: Sequence[Foreseen], marks: Mapping[str, float], width: int, height: int) -> Drawing | None:
    """A curve whose thresholds ascend; `marks` are thresholds by their names. None without a curve."""
    if len(curve) < 2:
        return None
    frame = _Frame.of(curve, width, height)
    known = [each for each in curve if each.known is not None]
    points = (f"{frame.x(each.threshold)} {frame.part(each.known or 0.0)}" for each in known)
    return Drawing(
        width,
        height,
        frame.base,
        tuple(frame.bar(each) for each in curve),
        "M" + "L".join(points) if known else "",
        tuple(frame.across()),
        tuple(Tick(frame.y(value), short(value)) for value in frame.decades()),
        tuple(Tick(frame.part(part), f"{part:.0%}") for part in (0.0, 0.5, 1.0)) if known else (),
        tuple(Tick(frame.x(at), name) for name, at in marks.items() if frame.low <= at <= frame.high),
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    low: float  # thresholds at the left and right end
    high: float
    top: float  # alerts a day at the upper end
    step: float  # between two thresholds
    width: float
    base: float

    @classmethod
    def of(cls, curve: Sequence[Foreseen], width: int, height: int) -> _Frame:
        low, high = curve[0].threshold, curve[-1].threshold
        most = max((each.alerts_per_day for each in curve if math.isfinite(each.alerts_per_day)), default=1.0)
        top = 10.0 ** math.ceil(math.log10(max(most, 10 * LEAST)))
        return cls(low, high, top, (high - low) / (len(curve) - 1), width - LEFT - RIGHT, height - BOTTOM)

    @property
    def each(self) -> float:
        """Units from one threshold to the next."""
        return self.width / ((self.high - self.low) / self.step + 1)

    def x(self, threshold: float) -> float:
        return round(LEFT + self.each * ((threshold - self.low) / self.step + 0.5), 2)

    def y(self, alerts: float) -> float:
        share = math.log(max(alerts, LEAST) / LEAST) / math.log(self.top / LEAST)
        return self.part(min(share, 1.0))

    def part(self, share: float) -> float:
        return round(self.base - (self.base - TOP) * share, 2)

    def bar(self, each: Foreseen) -> Bar:
        wide = 0.7 * self.each
        y = self.y(each.alerts_per_day)
        text = f"threshold {each.threshold:.2f}: {each.alerts_per_day:g} alerts a day"
        if each.known is not None:
            text += f", {each.known:.0%} of known attacks"
        return Bar(
            round(self.x(each.threshold) - wide / 2, 2), y, round(wide, 2), round(self.base - y, 2), text
        )

    def decades(self) -> list[float]:
        count = round(math.log10(self.top / LEAST))
        return [LEAST * 10.0**power for power in range(count + 1)]

    def across(self) -> list[Tick]:
        return [Tick(self.x(at), f"{at}") for at in range(math.ceil(self.low), math.floor(self.high) + 1)]
