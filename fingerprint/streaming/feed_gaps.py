"""Which feeds have fallen silent: nothing came since their last event, and what was expected meanwhile is too much to miss.

Example:
    >>> office = np.tile([0] * 8 + [40] * 8 + [0] * 8, 14)          # two weeks, and then nothing
    >>> lack = missed(np.array([[*office, *[0] * 10]]), Settings())
    >>> int(lack.since[0]), round(float(lack.expected[0])), bool(lack.silent[0])
    (328, 80, True)

What is expected comes from the feed's own past, up to its last event: the frequencies that the spectral detector keeps, repeated
by whole weeks. Three things keep usual quiet from being news. Hours that no week of the past came near to are expected to
hold nothing (weekends). Bursts enter the past clipped, or one of them would be expected all day. And the feed's own usual
gaps, measured by the same expectation, raise what has to be missed (nights, batches that come when they please).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.core.alert import FeedGap
from fingerprint.core.settings import Settings
from fingerprint.estimators import spectral

WARM_UP_DAYS = 7  # that a feed is known before a gap is reported; less than a week takes weekends for gaps
Floats = NDArray[np.float32]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]

HALF_URGENCY_EVENTS = 40.0  # missed events (or as many as make up for usual gaps) at which urgency is 50
USUAL_GAPS = (
    3.0  # usual gaps that must be missed on top: they come in clusters, so longer ones are not much rarer
)
RESUMED, GIVEN_UP = "heard again", "given up"


@dataclass(frozen=True)
class FeedActivity:
    """What came of F feeds in T intervals, from interval `start` on: `counts` (F, T)."""

    feeds: list[tuple[str, str]]
    start: int
    counts: Floats


class MissedEvents(NamedTuple):
    """Of F feeds at the end of what was counted: place of the first silent interval, events expected since, how many must be
    missed, how many are usual in an interval. NaN where there is no opinion: never heard, or warming up."""

    silent_from: Longs
    expected: Floats
    needed: Floats
    usual_rate: Floats

    @property
    def is_silent(self) -> Mask:
        silent: Mask = np.greater_equal(self.expected, self.needed)  # NaN is not
        return silent


def activity_matrix(counts: pd.DataFrame, start: int, end: int, max_feeds: int) -> FeedActivity:
    """Rows (kind, feed, interval, events) as a matrix of the intervals start ... end - 1; the `most` busiest feeds."""
    inside = counts[(counts["interval"] >= start) & (counts["interval"] < end)]
    sizes = inside.groupby(["kind", "feed"])["events"].sum().nlargest(max_feeds, keep="first").sort_index()
    place = sizes.index.get_indexer(pd.MultiIndex.from_frame(inside[["kind", "feed"]]))
    out = np.zeros((len(sizes), end - start), np.float32)
    known = place >= 0
    interval = inside["interval"].to_numpy(np.int64)[known] - start
    np.add.at(out, (place[known], interval), inside["events"].to_numpy(np.float32)[known])
    return FeedActivity(list(sizes.index), start, out)


def find_gaps(
    activity: FeedActivity, begin: int, end: int, open_gaps: Mapping[str, FeedGap], settings: Settings
) -> dict[str, FeedGap]:
    """Notices that changed, by id, as the intervals begin ... end - 1 became complete one after another. `known`: those that
    have not ended."""
    still_open, changed = dict(open_gaps), dict[str, FeedGap]()
    for closed in range(begin + 1, end + 1):
        for notice in list(find_gaps_at(activity, closed, still_open, settings)):
            changed[notice.notice_id] = notice
            still_open[notice.notice_id] = notice
            if notice.ended_at:
                del still_open[notice.notice_id]
    return changed


def should_publish(before: FeedGap | None, after: FeedGap) -> bool:
    """Whether a notice is told (again): it is new, has ended, or its urgency has come twenty further."""
    return before is None or after.ended_at is not None or after.urgency // 20 > before.urgency // 20


def find_gaps_at(
    activity: FeedActivity, complete_until: int, open_gaps: Mapping[str, FeedGap], settings: Settings
) -> Iterator[FeedGap]:
    """Notices that are new, have grown or have ended, once the intervals below `closed` are complete. `known`: those by id
    that have not ended."""
    upto = _activity_until(activity, complete_until, settings)
    lack = missed_events(upto.counts, settings)
    rows = {feed: row for row, feed in enumerate(upto.feeds) if upto.counts[row].any()}
    for notice in open_gaps.values():
        if ended := _end_gap(notice, upto, rows.get((notice.kind, notice.feed)), complete_until, settings):
            yield ended
    for row in np.flatnonzero(lack.is_silent).tolist():
        yield _build_gap(upto, row, lack, complete_until, settings)


def missed_events(counts: Floats, settings: Settings) -> MissedEvents:
    """Counts (F, T) of complete intervals, oldest first."""
    came = counts > 0
    total = counts.shape[1]
    since = np.where(came.any(axis=1), total - np.argmax(came[:, ::-1], axis=1), 0)
    width = _window_lengths(since - np.argmax(came, axis=1), settings)
    width[since == total] = 0  # it has just spoken
    out = MissedEvents(since, *(np.full(len(counts), np.nan, np.float32) for _ in range(3)))
    for days in np.unique(width[width > 0]):
        rows = np.flatnonzero(width == days)
        places = since[rows, None] - days + np.arange(days)
        expected, needed, usual = _expectation(counts[rows[:, None], places], total - since[rows], settings)
        out.expected[rows], out.needed[rows], out.usual_rate[rows] = expected, needed, usual
    return out


def lookback_intervals(settings: Settings) -> int:
    """Intervals that are looked back: a whole past, and a week of silence after it."""
    return (settings.spectral.history_days + 7) * _per_day(settings)


def _activity_until(activity: FeedActivity, complete_until: int, settings: Settings) -> FeedActivity:
    start = max(complete_until - lookback_intervals(settings), activity.start)
    return FeedActivity(
        activity.feeds, start, activity.counts[:, start - activity.start : complete_until - activity.start]
    )


# --- what is expected -------------------------------------------------------------------------------------------------


def _expectation(window: Floats, elapsed: Longs, settings: Settings) -> tuple[Floats, Floats, Floats]:
    """Of the last W intervals up to a feed's last event, (R, W), and how many went by since, (R,): events expected in
    those, how many must be missed, and how many are usual in an interval, (R,) each."""
    per_day, threshold = _per_day(settings), settings.feed_gaps.threshold
    week = min(7 * per_day, window.shape[1])
    clipped = _clipped(window, per_day, threshold)
    kept, _ = spectral.forecast(clipped, clipped.shape[1], spectral.POWER_QUANTILE)
    kept = np.where(_near_activity(window, week, per_day // 2), kept, 0).astype(np.float32)
    kept *= _level(clipped[:, -per_day:], kept[:, -per_day:])
    whole, rest = np.divmod(elapsed, kept.shape[1])
    running = np.concatenate([np.zeros((len(kept), 1), np.float32), np.cumsum(kept, axis=1)], axis=1)
    expected = running[:, -1] * whole + running[np.arange(len(kept)), rest]
    return expected, threshold**2 + USUAL_GAPS * _usual_gap(window, kept, settings), window.mean(axis=1)


def _level(last: Floats, kept: Floats) -> Floats:
    """How much came in the last day before the silence, of what was expected of it: (R, day) each -> (R, 1), at most 1."""
    level: Floats = (last.sum(axis=1, keepdims=True) + 1) / (kept.sum(axis=1, keepdims=True) + 1)
    return np.minimum(level, 1)


def _clipped(window: Floats, per_day: int, threshold: float) -> Floats:
    """Counts, at most what is usual at that time of the day allows: its median over the days, and threshold Poisson roots."""
    usual = np.median(window.reshape(len(window), -1, per_day), axis=1)
    cap = np.tile(usual + threshold * np.sqrt(usual + 1), window.shape[1] // per_day)
    return np.minimum(window, cap).astype(np.float32)


def _near_activity(window: Floats, week: int, reach: int) -> Mask:
    """Which intervals of a week (repeated over the window) lie within `reach` of one in which something came, in any week."""
    came = np.asarray((window.reshape(len(window), -1, week) > 0).any(axis=1))
    around = np.concatenate([came[:, -reach:], came, came[:, :reach]], axis=1)
    sums = np.concatenate([np.zeros((len(came), 1), np.int64), np.cumsum(around, axis=1)], axis=1)
    near: Mask = sums[:, 2 * reach + 1 :] > sums[:, :week]
    return np.tile(near, window.shape[1] // week)


def _usual_gap(window: Floats, kept: Floats, settings: Settings) -> Floats:
    """Events that the feed's usual gaps miss at most, (R,): those of a day, in most weeks, on the day of the week that has the
    largest. So a silence that was news once is no usual gap, when there are three weeks to tell."""
    running = np.cumsum(np.where(window > 0, 0, kept), axis=1)
    gaps = running - np.maximum.accumulate(np.where(window > 0, running, 0), axis=1)
    daily = gaps.reshape(len(gaps), -1, _per_day(settings)).max(axis=2)
    weeks = np.sort(daily.reshape(len(gaps), -1, min(7, daily.shape[1])), axis=1)
    usual: Floats = weeks[:, weeks.shape[1] // 2].max(axis=1)
    return usual


def _window_lengths(known: Longs, settings: Settings) -> Longs:
    """Intervals of the past that are used, of so many that are known: whole weeks if there is one, else whole days, 0
    while warming up."""
    per_day = _per_day(settings)
    days = np.minimum(known // per_day, settings.spectral.history_days)
    days = np.where(days >= 7, days // 7 * 7, days)
    return np.where(days >= WARM_UP_DAYS, days * per_day, 0).astype(np.int64)


def _per_day(settings: Settings) -> int:
    return 86400 // settings.spectral.interval_seconds


# --- what is said of it -----------------------------------------------------------------------------------------------


def _build_gap(
    activity: FeedActivity, row: int, missing: MissedEvents, complete_until: int, settings: Settings
) -> FeedGap:
    (kind, feed), seconds = activity.feeds[row], settings.spectral.interval_seconds
    first = activity.start + int(missing.silent_from[row])
    hourly = float(missing.usual_rate[row]) * 3600 / seconds
    missed, needed = float(missing.expected[row]), float(missing.needed[row])
    since = _interval_start(first, seconds)
    return FeedGap(
        notice_id=_gap_id(kind, feed, first * seconds),
        kind=cast(Any, kind),
        feed=feed,
        since=since,
        seen_at=_interval_start(complete_until, seconds),
        expected=round(missed, 1),
        hourly=round(hourly, 2),
        urgency=_gap_urgency(missed * settings.feed_gaps.threshold**2 / needed),
        title=f"{_NAMES[kind].format(*feed.partition('/'))} is silent since {since:%Y-%m-%d %H:%M} UTC: about "
        f"{missed:,.0f} events were expected meanwhile, usually {_format_rate(hourly)} an hour",
    )


def _end_gap(
    gap: FeedGap, activity: FeedActivity, row: int | None, complete_until: int, settings: Settings
) -> FeedGap | None:
    """The notice with its end, None if it has not come to one."""
    seconds = settings.spectral.interval_seconds
    if row is None:
        return replace(gap, ended_at=_interval_start(complete_until, seconds), ending=GIVEN_UP)
    since = int(gap.since.timestamp()) // seconds - activity.start
    came = np.flatnonzero(activity.counts[row, max(since, 0) :])
    if not len(came):
        return None
    return replace(
        gap, ended_at=_interval_start(activity.start + max(since, 0) + int(came[0]), seconds), ending=RESUMED
    )


_NAMES = {"account": "account {0}", "region": "region {2} of account {0}", "source": "source {0}{1}{2}"}


def _gap_id(kind: str, feed: str, since: int) -> str:
    return f"{int(hashing.hash_pair(hashing.hash_string(f'{kind} {feed}'), since)):016x}"


def _gap_urgency(missed_count: float) -> int:
    return round(100 * (1 - 2 ** (-missed_count / HALF_URGENCY_EVENTS)))


def _format_rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _interval_start(interval: int, seconds: int) -> datetime:
    return datetime.fromtimestamp(interval * seconds, UTC)
