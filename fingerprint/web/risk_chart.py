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

from fingerprint.analysis.principal_profile import Day
from fingerprint.web.charts import Tick
from fingerprint.web.formatting import many

MOST_DAYS = 90
CEILING = 20.0  # z: what is stranger is drawn no higher
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 10, 26  # margins in units of the drawing, for the labels
LABEL = 64  # units that a label of a day needs
KINDS = {"autoencoder": "habit", "spectral": "volume"}


@dataclass(frozen=True, slots=True)
class Bar:
    """One detector's day; `voted`: it reached its threshold, so it was more than kept for hunting."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    voted: bool
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """All positions are in units of a drawing `width` by `height`."""

    width: int
    height: int
    base: float
    bars: tuple[Bar, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def drawn(days: Sequence[Day], width: int, height: int) -> Drawing | None:
    """The last MOST_DAYS days up to the newest vote; None without any."""
    if not days:
        return None
    last = max(day.day for day in days)
    first = max(min(day.day for day in days), last - timedelta(days=MOST_DAYS - 1))
    span = (last - first).days + 1
    base, step = height - BOTTOM, min(40.0, (width - LEFT - RIGHT) / span)
    bars = (_bar(day, (day.day - first).days * step + LEFT, step, base) for day in days if day.day >= first)
    levels = (Tick(_y(z, base), f"{z:g}") for z in (0.0, CEILING / 2, CEILING))
    return Drawing(width, height, base, tuple(bars), tuple(_across(first, span, step)), tuple(levels))


def _bar(day: Day, left: float, step: float, base: float) -> Bar:
    """Beside the other detector's bar of the same day."""
    place = list(KINDS).index(day.detector) if day.detector in KINDS else 0
    y, half = _y(day.strongest, base), 0.42 * step
    when = f"{day.day.day} {day.day:%B %Y}"
    text = f"{when}, {day.detector}: {many(day.votes, 'vote')}, the strongest {day.strongest:.1f}"
    x, kind = round(left + 0.08 * step + place * half, 2), KINDS.get(day.detector, "habit")
    return Bar(x, y, round(half, 2), round(base - y, 2), kind, day.votes > 0, text)


def _y(z: float, base: float) -> float:
    share = min(max(z, 0.0), CEILING) / CEILING if math.isfinite(z) else 1.0
    return round(base - (base - TOP) * share, 2)


def _across(first: date, span: int, step: float) -> list[Tick]:
    """Days as labels, as many as fit."""
    every = max(1, math.ceil(LABEL / step))
    days = range(0, span, every)
    return [
        Tick(
            round(LEFT + (at + 0.5) * step, 2),
            f"{(first + timedelta(days=at)).day} {first + timedelta(days=at):%b}",
        )
        for at in days
    ]
