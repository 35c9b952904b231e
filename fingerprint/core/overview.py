"""Figures for a lead: alerts received, decisions, durations, and the share of alerts that were attacks.

Example:
    >>> wilson_interval(3, 4)
    (0.3006..., 0.9544...)
    >>> overview = store.overview.figures(now - timedelta(days=28), now, response_target=14_400, close_target=86_400)
    >>> overview.first_response.median, overview.first_response.late
    (1800.0, 2)

- An alert counts on the day on which the store received it, not on the day of its events: a backfill of old records is work of
  today.
- Durations are of alerts that were answered or closed. Waiting alerts are counted separately, because a slow month would look
  fast without them.
- *Precision* is the share of true positives among alerts that were decided as true positive, benign or false positive; duplicates
  are left out. Small numbers prove little, so each share has its 95 % Wilson interval.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from fingerprint.core.alert import SEVERITY_LEVELS, Decision, severity_of

MIN_FOR_P90 = 10  # durations; with fewer the ninetieth percentile is about the slowest one
_Z95 = 1.959964  # standard deviations of the normal distribution that hold 95 %
SEVERITIES = tuple(word for _, word in SEVERITY_LEVELS)


@dataclass(frozen=True, slots=True)
class AlertTimes:
    """The fields of an alert that the figures need; `decision` is the one in force, None while the alert is open."""

    alert_id: str
    urgency: int
    stored_at: datetime
    responded_at: datetime | None
    closed_at: datetime | None
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class DayFigures:
    """Alerts received on a day (UTC), by severity."""

    day: date
    critical: int
    high: int
    medium: int
    low: int


@dataclass(frozen=True, slots=True)
class DurationFigures:
    """Durations of alerts, in seconds.

    `done` alerts took `median` and `p90` (None for too few). `waiting` alerts are not done; `late` of these have waited longer
    than `target` seconds.
    """

    done: int
    median: float | None
    p90: float | None
    waiting: int
    late: int
    target: float


@dataclass(frozen=True, slots=True)
class PrecisionFigures:
    """Decided alerts of a week, a detector or a suppression: the share of true positives, with its 95 % interval.

    `undecided` counts open alerts and duplicates. `share`, `low` and `high` are None without a decision.
    """

    name: str
    true_positives: int
    benign: int
    false_positives: int
    undecided: int
    share: float | None
    low: float | None
    high: float | None

    @property
    def decided(self) -> int:
        """Return the number of decided alerts."""
        return self.true_positives + self.benign + self.false_positives


@dataclass(frozen=True, slots=True)
class Overview:
    """All figures of the alerts received from `since` on and before `until`."""

    since: datetime
    until: datetime
    alerts: int
    days: tuple[DayFigures, ...]
    decisions: dict[str, int]  # by decision, and `open`
    first_response: DurationFigures
    time_to_close: DurationFigures
    total: PrecisionFigures
    by_week: tuple[PrecisionFigures, ...]
    by_detector: tuple[PrecisionFigures, ...]  # by the detector with the alert's highest z
    by_suppression: tuple[PrecisionFigures, ...]


def summarise(
    alerts: Sequence[AlertTimes],
    since: datetime,
    until: datetime,
    response_target: float,
    close_target: float,
    detectors: Mapping[str, str] | None = None,
    suppressions: Mapping[str, Sequence[AlertTimes]] | None = None,
) -> Overview:
    """Return the figures of these alerts; `detectors` maps a decided alert to its leading detector."""
    weeks, led = defaultdict(list), defaultdict(list)
    for each in alerts:
        weeks[_week_of(each.stored_at)].append(each)
        if each.alert_id in (detectors or {}):
            led[(detectors or {})[each.alert_id]].append(each)
    decisions = Counter(each.decision or "open" for each in alerts)
    answered = [(each.stored_at, each.responded_at) for each in alerts]
    closed = [(each.stored_at, each.closed_at) for each in alerts]
    return Overview(
        since=since,
        until=until,
        alerts=len(alerts),
        days=tuple(_count_days(alerts, since, until)),
        decisions=dict(sorted(decisions.items())),
        first_response=measure_durations(answered, until, response_target),
        time_to_close=measure_durations(closed, until, close_target),
        total=measure_precision("all", alerts),
        by_week=tuple(measure_precision(f"{week}", weeks[week]) for week in sorted(weeks)),
        by_detector=tuple(measure_precision(name, led[name]) for name in sorted(led)),
        by_suppression=tuple(
            measure_precision(name, hidden) for name, hidden in sorted((suppressions or {}).items())
        ),
    )


def measure_durations(
    spans: Iterable[tuple[datetime, datetime | None]], now: datetime, target: float
) -> DurationFigures:
    """Return the durations of spans (beginning, end); the end is None while a span lasts."""
    took: list[float] = []
    waiting: list[float] = []
    for begin, end in spans:
        seconds = max(0.0, ((end or now) - begin).total_seconds())
        (waiting if end is None else took).append(seconds)
    took.sort()
    median = percentile(took, 0.5) if took else None
    p90 = percentile(took, 0.9) if len(took) >= MIN_FOR_P90 else None
    return DurationFigures(
        len(took), median, p90, len(waiting), sum(each > target for each in waiting), target
    )


def percentile(ascending: Sequence[float], share: float) -> float:
    """Return a percentile of values in ascending order, interpolated between its neighbours as in NumPy."""
    place = share * (len(ascending) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])


def measure_precision(name: str, alerts: Iterable[AlertTimes]) -> PrecisionFigures:
    """Return the share of true positives among decided alerts."""
    counts = Counter(each.decision for each in alerts)
    attacks, benign, false = counts["true_positive"], counts["benign"], counts["false_positive"]
    decided = attacks + benign + false
    low, high = wilson_interval(attacks, decided) if decided else (None, None)
    share = attacks / decided if decided else None
    return PrecisionFigures(name, attacks, benign, false, sum(counts.values()) - decided, share, low, high)


def wilson_interval(successes: float, trials: float, deviations: float = _Z95) -> tuple[float, float]:
    """Return the Wilson score interval of a share: of 95 %, or of so many standard `deviations`. `trials` is at least 1.

    It does not use `scipy.stats`, whose import is slow: commands and the web app start without it.
    """
    square = deviations**2
    share, scale = successes / trials, 1 + square / trials
    middle = (share + square / (2 * trials)) / scale
    half = deviations / scale * math.sqrt(share * (1 - share) / trials + square / (4 * trials**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _week_of(moment: datetime) -> date:
    """Return the Monday of a time's week, in UTC."""
    day = moment.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def _count_days(alerts: Iterable[AlertTimes], since: datetime, until: datetime) -> Iterable[DayFigures]:
    """Yield the figures of all days of the span, including days without an alert."""
    counts: dict[date, Counter[str]] = defaultdict(Counter)
    for each in alerts:
        counts[each.stored_at.astimezone(UTC).date()][severity_of(each.urgency)] += 1
    day = since.astimezone(UTC).date()
    while day <= until.astimezone(UTC).date():
        yield DayFigures(day, **{name: counts[day][name] for name in SEVERITIES})
        day += timedelta(days=1)
