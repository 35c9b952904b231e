"""Whether the log still speaks: partitions tell the desk what they heard of each feed, and one worker looks at all of them.

A feed's events lie in all partitions, so nobody but the desk can add them up. What is complete in every partition is looked at
once, by whoever has partition 0; another one that does so meanwhile says the same under the same ids.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from fingerprint.core.alert import FeedGap
from fingerprint.core.ports import AlertStore
from fingerprint.core.settings import Settings
from fingerprint.streaming import feed_activity, feed_gaps
from fingerprint.streaming.partition_processor import PartitionProcessor

MAX_INTERVALS_PER_CHECK = 24  # intervals looked at in one go, so that a long past holds up nobody


class FeedCheck(NamedTuple):
    """What one look has to say: notices that changed, those of them to be told, how many feeds are silent now, up to where
    was looked, and from where on counts are still needed (seconds since 1970)."""

    changed: list[FeedGap]
    to_publish: list[FeedGap]
    silent_feeds: int
    checked_until: int
    delete_before: int


class FeedMonitor:
    """What the stream asks of the desk about feeds."""

    def __init__(self, store: AlertStore, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.seconds = settings.spectral.interval_seconds
        self.counts = (
            pd.DataFrame()
        )  # what the desk held at the last look, so that not all is asked for again
        self.checked_until = 0  # up to where that was, seconds since 1970

    def closed_counts(self, processor: PartitionProcessor, now: int) -> tuple[int, pd.DataFrame] | None:
        """Up to where a partition has closed (seconds since 1970) and what it heard, for `Desk.count_feeds`; None if it is
        no further than before. It is given once. What lies ahead of `now` has not closed, whatever a mark says."""
        closed = min(processor.feeds_complete_until(), now // self.seconds)
        counts = processor.feed_counts.drain_closed(closed)
        if counts is None:
            return None
        return closed * self.seconds, counts.assign(at=counts["interval"] * self.seconds)

    def check(self, topic: str, now: int) -> FeedCheck | None:
        """At what has become complete in all partitions of a topic since the last look; None if nothing has. No look goes past
        `now` (seconds since 1970), nor on from a later one: a mark ahead must not switch the watch off."""
        closed = [upto for place, upto in self.store.feeds_complete_until().items() if place.topic == topic]
        looked = min(self.store.feeds_checked_until(), now)
        upto = min([*closed, now])
        if not closed or upto // self.seconds <= looked // self.seconds:
            return None
        horizon = feed_gaps.lookback_intervals(self.settings)
        counts = self._load_counts(looked, max(looked - (horizon + 1) * self.seconds, 0))
        begin = self._first_interval(looked // self.seconds, upto // self.seconds, counts)
        end = min(upto // self.seconds, begin + MAX_INTERVALS_PER_CHECK)
        past = feed_gaps.activity_matrix(counts, begin - horizon, end, feed_activity.MAX_FEEDS)
        known = {notice.notice_id: notice for notice in self.store.feed_gaps(ended=False)}
        changed = feed_gaps.find_gaps(past, begin, end, known, self.settings)
        self.checked_until = end * self.seconds
        told = [each for name, each in changed.items() if feed_gaps.should_publish(known.get(name), each)]
        silent = sum(each.ended_at is None for each in (known | changed).values())
        return FeedCheck(
            list(changed.values()), told, silent, end * self.seconds, (end - horizon) * self.seconds
        )

    def _first_interval(self, looked: int, upto: int, counts: pd.DataFrame) -> int:
        """The interval to look on from, at most `upto`: the next one in which something came, if nothing has for so long that
        no feed can fall silent any more, nor be given up. Years without a record are not walked hour by hour."""
        if looked and (self.store.feed_gaps(ended=False) or (counts["interval"] < looked).any()):
            return looked
        ahead = counts["interval"][counts["interval"] >= looked]
        return min(int(ahead.min()), upto) if len(ahead) else upto

    def _load_counts(self, looked: int, since: int) -> pd.DataFrame:
        """What came of each feed from `since` on. Counts of more than a day before the last look do not change any more
        (`FeedCounts`), unless somebody else has looked meanwhile: then all are asked for."""
        known = self.checked_until and self.checked_until == looked
        settled = looked - 2 * 86400 if known else since
        fresh = self.store.feed_counts(max(settled, since))
        if known:
            kept = self.counts[self.counts["at"].between(since, settled - 1)]
            fresh = pd.concat([kept, fresh], ignore_index=True)
        self.counts = fresh.assign(interval=fresh["at"] // self.seconds)
        return self.counts
