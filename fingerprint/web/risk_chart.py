"""The chart of a principal's anomaly by day: a bar for each detector, as high as its strongest vote.

Example:
    >>> drawing = draw_risk_chart(daily_votes(store.votes.read(principal)), width=960, height=160)
    >>> drawing.bars[-1].text
    '4 March 2026, autoencoder: 9 votes, the strongest 16.8'
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from fingerprint.analysis.principal_profile import DailyVotes
from fingerprint.detection.detectors import detector_label, load_known_detectors
from fingerprint.web.charts import Tick
from fingerprint.web.formatting import pluralize

MAX_DAYS = 90
MAX_Z = 20.0  # z: what is stranger is drawn no higher
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 10, 26  # margins in units of the drawing, for the labels
DAY_LABEL_WIDTH = 64  # units that a label of a day needs
COLOURS = 3  # of bars, by the place of their detector: style classes detector-0 ...


@dataclass(frozen=True, slots=True)
class DetectorBar:
    """One detector's day; `voted`: it reached its threshold."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    voted: bool
    text: str


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A detector's style class, its label, and the question it answers."""

    kind: str
    label: str
    question: str


@dataclass(frozen=True, slots=True)
class RiskChart:
    """The chart, in units of a drawing `width` by `height`."""

    width: int
    height: int
    baseline: float
    bars: tuple[DetectorBar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    legend: tuple[LegendEntry, ...] = ()


def draw_risk_chart(days: Sequence[DailyVotes], width: int, height: int) -> RiskChart | None:
    """Return the chart of the last MAX_DAYS days up to the newest vote; None without votes."""
    if not days:
        return None
    last = max(day.day for day in days)
    first = max(min(day.day for day in days), last - timedelta(days=MAX_DAYS - 1))
    span = (last - first).days + 1
    base, step = height - BOTTOM, min(40.0, (width - LEFT - RIGHT) / span)
    names = detectors_of(days)
    bars = (
        _bar(day, names, (day.day - first).days * step + LEFT, step, base) for day in days if day.day >= first
    )
    levels = (Tick(_y(z, base), f"{z:g}") for z in (0.0, MAX_Z / 2, MAX_Z))
    ticks = tuple(_day_ticks(first, span, step))
    return RiskChart(width, height, base, tuple(bars), ticks, tuple(levels), tuple(_legend(names)))


def _legend(names: Sequence[str]) -> Iterator[LegendEntry]:
    questions = {each.name: each.question for each in load_known_detectors(names)}
    for place, name in enumerate(names):
        yield LegendEntry(detector_class(place), detector_label(name), questions.get(name, ""))


def detectors_of(days: Sequence[DailyVotes]) -> list[str]:
    """Return the names of the detectors with votes, in the order of their bars."""
    return sorted({day.detector for day in days})


def detector_class(place: int) -> str:
    """Return the style class of the bars of the detector at a place."""
    return f"detector-{place % COLOURS}"


def _bar(day: DailyVotes, names: Sequence[str], left: float, step: float, baseline: float) -> DetectorBar:
    """Return a detector's bar of a day, beside those of the other detectors."""
    place, width = names.index(day.detector), 0.84 * step / max(len(names), 2)
    y = _y(day.strongest, baseline)
    when = f"{day.day.day} {day.day:%B %Y}"
    label = detector_label(day.detector).lower()
    text = f"{when}, {label}: {pluralize(day.votes, 'vote')}, the strongest {day.strongest:.1f}"
    x = round(left + 0.08 * step + place * width, 2)
    return DetectorBar(
        x, y, round(width, 2), round(baseline - y, 2), detector_class(place), day.votes > 0, text
    )


def _y(z: float, baseline: float) -> float:
    share = min(max(z, 0.0), MAX_Z) / MAX_Z if math.isfinite(z) else 1.0
    return round(baseline - (baseline - TOP) * share, 2)


def _day_ticks(first: date, span: int, step: float) -> list[Tick]:
    """Return labels of days, as many as fit."""
    every = max(1, math.ceil(DAY_LABEL_WIDTH / step))
    days = range(0, span, every)
    return [
        Tick(
            round(LEFT + (at + 0.5) * step, 2),
            f"{(first + timedelta(days=at)).day} {first + timedelta(days=at):%b}",
        )
        for at in days
    ]
