"""Feed gaps: a feed has had no event for so long that too many expected events are missing.

Example:
    >>> office = np.tile([0] * 8 + [40] * 8 + [0] * 8, 14)          # two weeks, and then nothing
    >>> gap = missed_events(np.array([[*office, *[0] * 10]]), Settings())
    >>> int(gap.silent_from[0]), round(float(gap.expected[0])), bool(gap.is_silent[0])
    (328, 80, True)

The expectation comes from the feed's own past, up to its last event: the frequencies that the spectral detector keeps, repeated
by whole weeks. Three rules prevent reports of usual quiet:
- Hours that were empty in every week of the past are expected to be empty (weekends).
- Bursts are clipped in the past, because an unclipped one would be expected all day.
- The feed's own usual gaps (nights, irregular batches), measured by the same expectation, raise the number of events that must be
  missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Floats, Longs, Mask
from fingerprint.core.alert import FeedGap
from fingerprint.core.ports.store import Store
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.estimators import spectral
from fingerprint.state.feed_activity import MAX_FEEDS
from fingerprint.streaming.partition_processor import PartitionProcessor

HALF_URGENCY_EVENTS = 40.0  # missed events (or as many as make up for usual gaps) at which urgency is 50
WARM_UP_DAYS = 7  # days that a feed is known before its gaps are reported: with less, weekends look like gaps
# So many times the usual gap must be missed in addition: usual gaps come in clusters, so longer ones are not much rarer.
USUAL_GAPS = 3.0
RESUMED, GIVEN_UP = "heard again", "given up"  # endings of a gap, as they are shown


@dataclass(frozen=True)
class FeedActivity:
    """Events of F feeds in T intervals, from interval `start` on: `counts` (F, T)."""

    feeds: list[tuple[str, str]]
    start: int
    counts: Floats


class MissedEvents(NamedTuple):
    """The state of F feeds at the end of their counts, (F,) each.

    In order: index of the first silent interval, events expected since then, number of missing events that makes a gap, usual
    events of an interval. NaN means no opinion: the feed has had no event, or is warming up.
    """

    silent_from: Longs
    expected: Floats
    needed: Floats
    usual_rate: Floats

    @property
    def is_silent(self) -> Mask:
        """Return a mask (F,) of the feeds that are in a gap."""
        silent: Mask = np.greater_equal(self.expected, self.needed)  # NaN is not
        return silent


def activity_matrix(counts: pd.DataFrame, start: int, end: int, max_feeds: int) -> FeedActivity:
    """Return counts (columns kind, feed, interval, events) as a matrix of intervals start ... end - 1, of `max_feeds` at most."""
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
    """Return by id the gaps that changed while the intervals begin ... end - 1 became complete, one after another.

    `open_gaps` are the gaps that have not ended, by id.
    """
    still_open, changed = dict(open_gaps), dict[str, FeedGap]()
    for closed in range(begin + 1, end + 1):
        for gap in list(find_gaps_at(activity, closed, still_open, settings)):
            changed[gap.notice_id] = gap
            still_open[gap.notice_id] = gap
            if gap.ended_at:
                del still_open[gap.notice_id]
    return changed


def should_publish(before: FeedGap | None, after: FeedGap) -> bool:
    """Return whether a gap is published (again): it is new, has ended, or its urgency has grown by twenty."""
    return before is None or after.ended_at is not None or after.urgency // 20 > before.urgency // 20


def find_gaps_at(
    activity: FeedActivity, complete_until: int, open_gaps: Mapping[str, FeedGap], settings: Settings
) -> Iterator[FeedGap]:
    """Yield the gaps that are new, have grown or have ended, once the intervals below `complete_until` are complete."""
    closed = _activity_until(activity, complete_until, settings)
    missing = missed_events(closed.counts, settings)
    rows = {feed: row for row, feed in enumerate(closed.feeds) if closed.counts[row].any()}
    for gap in open_gaps.values():
        if ended := _end_gap(gap, closed, rows.get((gap.kind, gap.feed)), complete_until, settings):
            yield ended
    for row in np.flatnonzero(missing.is_silent).tolist():
        yield _build_gap(closed, row, missing, complete_until, settings)


def missed_events(counts: Floats, settings: Settings) -> MissedEvents:
    """Return the missed events of F feeds, from their counts (F, T) in complete intervals, oldest first."""
    came = counts > 0
    total = counts.shape[1]
    since = np.where(came.any(axis=1), total - np.argmax(came[:, ::-1], axis=1), 0)
    limits = settings.spectral.intervals_per_day, settings.spectral.history_days, WARM_UP_DAYS
    width = spectral.window_lengths(since - np.argmax(came, axis=1), *limits)
    width[since == total] = 0  # it has just had an event
    out = MissedEvents(since, *(np.full(len(counts), np.nan, np.float32) for _ in range(3)))
    for days in np.unique(width[width > 0]):
        rows = np.flatnonzero(width == days)
        places = since[rows, None] - days + np.arange(days)
        expected, needed, usual = _expectation(counts[rows[:, None], places], total - since[rows], settings)
        out.expected[rows], out.needed[rows], out.usual_rate[rows] = expected, needed, usual
    return out


def lookback_intervals(settings: Settings) -> int:
    """Return the number of intervals to read: a whole history, and a week of silence after it."""
    return (settings.spectral.history_days + 7) * settings.spectral.intervals_per_day


def _activity_until(activity: FeedActivity, complete_until: int, settings: Settings) -> FeedActivity:
    start = max(complete_until - lookback_intervals(settings), activity.start)
    return FeedActivity(
        activity.feeds, start, activity.counts[:, start - activity.start : complete_until - activity.start]
    )


# --- what is expected -------------------------------------------------------------------------------------------------


def _expectation(window: Floats, elapsed: Longs, settings: Settings) -> tuple[Floats, Floats, Floats]:
    """Return (R,) each: events expected since a feed's last one, number of missing ones that makes a gap, usual events.

    `window` (R, W) are the last W intervals up to each feed's last event, `elapsed` (R,) the number of intervals since then. The
    usual events are those of an interval.
    """
    per_day, threshold = settings.spectral.intervals_per_day, settings.feed_gaps.threshold
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
    """Return the share (R, 1), at most 1, of expected events that came in the last day before the silence; (R, day) each."""
    level: Floats = (last.sum(axis=1, keepdims=True) + 1) / (kept.sum(axis=1, keepdims=True) + 1)
    return np.minimum(level, 1)


def _clipped(window: Floats, per_day: int, threshold: float) -> Floats:
    """Return counts clipped at the median of their time of day plus `threshold` times its square root (Poisson)."""
    usual = np.median(window.reshape(len(window), -1, per_day), axis=1)
    cap = np.tile(usual + threshold * np.sqrt(usual + 1), window.shape[1] // per_day)
    return np.minimum(window, cap).astype(np.float32)


def _near_activity(window: Floats, week: int, reach: int) -> Mask:
    """Return a mask, over the window, of the intervals of a week within `reach` of one that has events in any week."""
    came = np.asarray((window.reshape(len(window), -1, week) > 0).any(axis=1))
    around = np.concatenate([came[:, -reach:], came, came[:, :reach]], axis=1)
    sums = np.concatenate([np.zeros((len(came), 1), np.int64), np.cumsum(around, axis=1)], axis=1)
    near: Mask = sums[:, 2 * reach + 1 :] > sums[:, :week]
    return np.tile(near, window.shape[1] // week)


def _usual_gap(window: Floats, kept: Floats, settings: Settings) -> Floats:
    """Return the most events (R,) missing in a feed's usual gaps: the largest gap of a weekday that occurs in most weeks.

    So with three weeks or more, a gap that was reported once is no usual gap.
    """
    running = np.cumsum(np.where(window > 0, 0, kept), axis=1)
    gaps = running - np.maximum.accumulate(np.where(window > 0, running, 0), axis=1)
    daily = gaps.reshape(len(gaps), -1, settings.spectral.intervals_per_day).max(axis=2)
    weeks = np.sort(daily.reshape(len(gaps), -1, min(7, daily.shape[1])), axis=1)
    usual: Floats = weeks[:, weeks.shape[1] // 2].max(axis=1)
    return usual


# --- gaps ------------------------------------------------------------------------------------------------------------


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
        f"{missed:,.0f} events were expected since then, usually {_format_rate(hourly)} an hour",
    )


def _end_gap(
    gap: FeedGap, activity: FeedActivity, row: int | None, complete_until: int, settings: Settings
) -> FeedGap | None:
    """Return the gap with its end, or None if it has not ended."""
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


MAX_INTERVALS_PER_CHECK = 24  # intervals in one check, so that a long past does not delay the stream


class FeedCheck(NamedTuple):
    """The result of one check of all feeds.

    In order: gaps that changed, those of them to publish, the number of feeds in a gap now, the time until which feeds were
    checked, and the time before which counts may be deleted (both in seconds since 1970).
    """

    changed: list[FeedGap]
    to_publish: list[FeedGap]
    silent_feeds: int
    checked_until: int
    delete_before: int


class FeedMonitor:
    """Check the feeds of all partitions by the counts in the alert store.

    Events of a feed are in all partitions, so only the store can add them up. One worker, the owner of partition 0, checks the
    intervals that are complete in every partition. If two workers check at the same time, both find the same gaps with the same
    ids.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.seconds = settings.spectral.interval_seconds
        # As in the store at the last check, so that not all of them are read again
        self.counts = pd.DataFrame()
        self.checked_until = 0  # of the last check, seconds since 1970

    def closed_counts(self, processor: PartitionProcessor, now: int) -> tuple[int, pd.DataFrame] | None:
        """Return the time until which a partition is closed (seconds since 1970) and its counts, for `Store.feeds.save_counts`.

        Return None if it is no further than before. Intervals after `now` are not closed, whatever a watermark says.
        """
        closed = min(processor.feeds_complete_until(), now // self.seconds)
        counts = processor.feed_counts.drain_closed(closed)
        if counts is None:
            return None
        return closed * self.seconds, counts.assign(at=counts["interval"] * self.seconds)

    def check(self, topic: str, partitions: int, now: int) -> FeedCheck | None:
        """Check the intervals that became complete in all partitions of a topic since the last check; None if there are none.

        `partitions` is the topic's number of partitions, 0 if unknown. A check neither begins nor ends after `now` (seconds since
        1970): a watermark that is ahead must not stop later checks.
        """
        closed = self._complete_until(topic, partitions)
        looked = min(self.store.feeds.checked_until(), now)
        until = min([*closed, now])
        if not closed or until // self.seconds <= looked // self.seconds:
            return None
        horizon = lookback_intervals(self.settings)
        counts = self._load_counts(looked, max(looked - (horizon + 1) * self.seconds, 0))
        begin = self._first_interval(looked // self.seconds, until // self.seconds, counts)
        end = min(until // self.seconds, begin + MAX_INTERVALS_PER_CHECK)
        past = activity_matrix(counts, begin - horizon, end, MAX_FEEDS)
        known = {gap.notice_id: gap for gap in self.store.feeds.gaps(ended=False)}
        changed = find_gaps(past, begin, end, known, self.settings)
        self.checked_until = end * self.seconds
        to_publish = [each for name, each in changed.items() if should_publish(known.get(name), each)]
        silent = sum(each.ended_at is None for each in (known | changed).values())
        return FeedCheck(
            list(changed.values()), to_publish, silent, end * self.seconds, (end - horizon) * self.seconds
        )

    def _complete_until(self, topic: str, partitions: int) -> list[int]:
        """Return the time until which each partition of a topic is complete; forget partitions that no longer exist.

        A topic may be created again with fewer partitions. One that no longer exists would stop the checks for good.
        """
        complete = {
            place: until for place, until in self.store.feeds.complete_until().items() if place.topic == topic
        }
        gone = [place for place in complete if partitions and place.number >= partitions]
        if gone:
            self.store.feeds.forget(gone)
        return [until for place, until in complete.items() if place not in gone]

    def _first_interval(self, looked: int, until: int, counts: pd.DataFrame) -> int:
        """Return the first interval to check, at most `until`.

        If there were no events for so long that no feed can begin a gap or be given up, it is the next interval with events:
        years without a record are not checked hour by hour.
        """
        if looked and (self.store.feeds.gaps(ended=False) or (counts["interval"] < looked).any()):
            return looked
        ahead = counts["interval"][counts["interval"] >= looked]
        return min(int(ahead.min()), until) if len(ahead) else until

    def _load_counts(self, looked: int, since: int) -> pd.DataFrame:
        """Return the counts of each feed from `since` on.

        Counts older than a day before the last check no longer change (`FeedCounts`), so they are kept. If another worker has
        checked since, all are read again.
        """
        known = self.checked_until and self.checked_until == looked
        settled = looked - 2 * DAY_SECONDS if known else since
        fresh = self.store.feeds.counts(max(settled, since))
        if known:
            kept = self.counts[self.counts["at"].between(since, settled - 1)]
            fresh = pd.concat([kept, fresh], ignore_index=True)
        self.counts = fresh.assign(interval=fresh["at"] // self.seconds)
        return self.counts
