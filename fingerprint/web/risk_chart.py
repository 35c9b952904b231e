"""How strange a principal was, day by day, as geometry: a bar for each detector, as high as its strongest single vote.

Example:
    >>> drawing = drawn(days_of(desk.votes(principal=principal)), width=960, height=160)
    >>> drawing.bars[-1].text
    '4 March 2026, autoencoder: 9 votes, the strongest 16.8'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from fingerprint.analysis.principal_profile import DailyVotes
from fingerprint.web.charts import Tick
from fingerprint.web.formatting import pluralize

MAX_DAYS = 90
MAX_Z = 20.0  # z: what is stranger is drawn no higher
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 10, 26  # margins in units of the drawing, for the labels
DAY_LABEL_WIDTH = 64  # units that a label of a day needs
DETECTOR_CSS_CLASSES = {"autoencoder": "habit", "spectral": "volume"}


@dataclass(frozen=True, slots=True)
class DetectorBar:
    """One detector's day; `voted`: it reached its threshold, so it was more than kept for hunting."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    voted: bool
    text: str


@dataclass(frozen=True, slots=True)
class RiskChart:
    """All positions are in units of a drawing `width` by `height`."""

    width: int
    height: int
    baseline: float
    bars: tuple[DetectorBar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def draw_risk_chart(days: Sequence[DailyVotes], width: int, height: int) -> RiskChart | None:
    """The last MOST_DAYS days up to the newest vote; None without any."""
    if not days:
        return None
    last = max(day.day for day in days)
    first = max(min(day.day for day in days), last - timedelta(days=MAX_DAYS - 1))
    span = (last - first).days + 1
    base, step = height - BOTTOM, min(40.0, (width - LEFT - RIGHT) / span)
    bars = (_bar(day, (day.day - first).days * step + LEFT, step, base) for day in days if day.day >= first)
    levels = (Tick(_y(z, base), f"{z:g}") for z in (0.0, MAX_Z / 2, MAX_Z))
    return RiskChart(width, height, base, tuple(bars), tuple(_day_ticks(first, span, step)), tuple(levels))


def _bar(day: DailyVotes, left: float, step: float, baseline: float) -> DetectorBar:
    """Beside the other detector's bar of the same day."""
    place = list(DETECTOR_CSS_CLASSES).index(day.detector) if day.detector in DETECTOR_CSS_CLASSES else 0
    y, half = _y(day.strongest, baseline), 0.42 * step
    when = f"{day.day.day} {day.day:%B %Y}"
    text = f"{when}, {day.detector}: {pluralize(day.votes, 'vote')}, the strongest {day.strongest:.1f}"
    x, kind = round(left + 0.08 * step + place * half, 2), DETECTOR_CSS_CLASSES.get(day.detector, "habit")
    return DetectorBar(x, y, round(half, 2), round(baseline - y, 2), kind, day.votes > 0, text)


def _y(z: float, baseline: float) -> float:
    share = min(max(z, 0.0), MAX_Z) / MAX_Z if math.isfinite(z) else 1.0
    return round(baseline - (baseline - TOP) * share, 2)


def _day_ticks(first: date, span: int, step: float) -> list[Tick]:
    """Days as labels, as many as fit."""
    every = max(1, math.ceil(DAY_LABEL_WIDTH / step))
    days = range(0, span, every)
    return [
        Tick(
            round(LEFT + (at + 0.5) * step, 2),
            f"{(first + timedelta(days=at)).day} {first + timedelta(days=at):%b}",
        )
        for at in days
    ]
