"""Key the records of S3 objects by principal.

Example:
    >>> for batch in S3ObjectReader(Settings()).read(notification, S3Object("trail", "a.json.gz"), chunks):
    ...     send(batch.records)

The notification is the message: every record names it in the header `source`, and it becomes a dead letter if a part of its
objects cannot be read. An object of any size is read in bounded batches.

Reading of an object stops at more than MAX_UNREADABLE items that are no event, if they are more than its events. AWS writes none
of them, each costs as much as 5 events, and a megabyte of gzip may have a billion. Events before that point have been sent.

The watermark is the lowest of all feeds (an account and region that logs come through), because one queue brings the objects of
many feeds in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fingerprint.compute.arrays import Longs
from fingerprint.core.alert import Reject
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.settings import Settings
from fingerprint.sources import archives, arrival
from fingerprint.sources.arrival import Now, wall_clock_ms
from fingerprint.sources.base import RecordBatch
from fingerprint.sources.decode import DecodedMessages, event_times_ms, row_indices
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.sources.limits import ReadLimits
from fingerprint.sources.s3_notifications import S3Object
from fingerprint.state.watermarks import NO_WATERMARK
from fingerprint.streaming.event_messages import EventMessages, OutgoingMessage
from fingerprint.streaming.rekeying import drop_future_dated, running_watermark

IDLE_FEED_SECONDS = 900.0  # the watermark no longer waits for a feed that was silent for so long
MAX_UNREADABLE = 100_000  # rejects and records that are no event by design, of one object: about 10 seconds


class FeedWatermarks:
    """The latest event time of each feed, and the arrival of its last record; the watermark is the lowest of these times."""

    def __init__(self, idle_seconds: float) -> None:
        self.idle_ms = int(idle_seconds * 1000)
        self.watermarks: dict[str, int] = {}
        self.last_arrivals: dict[str, int] = {}
        self.latest_arrival = 0
        self.low_watermark = 0  # 0 while none is known

    def advance(self, feed: str, watermarks: Longs, arrival_time: int) -> Longs:
        """Return the watermark at each of N records of one feed, ms.

        `watermarks` (N,) are the feed's latest event times up to each record, ascending; 0 while no time is believed, in which
        case the watermark does not wait for the feed.
        """
        self.latest_arrival = max(self.latest_arrival, arrival_time)
        self._forget_idle()
        others = min((mark for name, mark in self.watermarks.items() if name != feed), default=NO_WATERMARK)
        least = np.minimum(np.where(watermarks > 0, watermarks, NO_WATERMARK), others)
        low = np.maximum(np.where(least == NO_WATERMARK, 0, least), self.low_watermark)
        if watermarks.any():
            self.watermarks[feed], self.last_arrivals[feed] = int(watermarks[-1]), self.latest_arrival
            self.low_watermark = int(low[-1])
        return low

    def _forget_idle(self) -> None:
        for feed in [
            name for name, at in self.last_arrivals.items() if self.latest_arrival - at > self.idle_ms
        ]:
            del self.watermarks[feed], self.last_arrivals[feed]


class ObjectAbandoned(FingerprintError):
    """Raised for an object with so many items that are no event that the rest of it is not read."""

    def __init__(self, url: str, unreadable: int, events: int) -> None:
        super().__init__(
            f"{url}: the rest of it is not read, for {unreadable:,} of its records were no events, and {events:,} were"
        )


class ObjectBatch(NamedTuple):
    """A part of an object's content; `future_dated` counts records dated after the notification, which are rejects."""

    records: list[OutgoingMessage]
    rejects: list[Reject]
    skipped: int
    future_dated: int


class S3ObjectReader:
    """Reads objects of any feed, and tracks the watermark."""

    def __init__(
        self, settings: Settings, now: Now = wall_clock_ms, partitions: Callable[[], int] = lambda: 0
    ) -> None:
        """`partitions` gives the number of partitions of the events topic, 0 while it is unknown."""
        self.settings, self.now = settings, now
        self.event_messages = EventMessages(settings, partitions)
        self.watermarks = FeedWatermarks(IDLE_FEED_SECONDS)

    def read(
        self, notification: Message, s3_object: S3Object, body: Iterator[bytes]
    ) -> Iterator[ObjectBatch]:
        """Yield batches of at most `reading.batch_records` records. Raises what `body` raises, and ObjectAbandoned."""
        unreadable = events = 0
        read = archives.read_records(s3_object.url, body, ReadLimits())
        for records in archives.rebatch(read, self.settings.reading.batch_records):
            yield (batch := self._rekey(notification, s3_object, records))
            unreadable += sum(each.count for each in batch.rejects) + batch.skipped
            events += sum(each.records for each in batch.records)
            if unreadable > max(MAX_UNREADABLE, events):
                raise ObjectAbandoned(s3_object.url, unreadable, events)

    def _rekey(self, notification: Message, s3_object: S3Object, records: RecordBatch) -> ObjectBatch:
        flat = flatten(records)
        events = add_entity_columns(flat.events, self.settings.entities)
        source = np.zeros(len(events), np.int64)
        row, at = row_indices(events), event_times_ms(events)
        decoded = DecodedMessages(0, 1, records.lines, events, source, flat.rejects, flat.skipped, row, at)
        arrived = arrival.arrival_times_ms(np.array([notification.timestamp]), self.now())
        decoded, future = drop_future_dated(decoded, arrived[source])
        marks = self._advance_watermark(s3_object.ordered_prefix, decoded.times_ms, int(arrived[0]))
        sent = self.event_messages.build([notification], decoded, marks)
        beside = decoded.rejects[len(flat.rejects) :] + sent.rejects
        rejects = flat.rejects + [Reject(s3_object.url, "", each.reason) for each in beside]
        return ObjectBatch(sent.messages, rejects, flat.skipped, future)

    def _advance_watermark(self, feed: str, at: Longs, arrived: int) -> Longs:
        """Return the watermark of each record (n,), ms."""
        return self.watermarks.advance(
            feed, running_watermark(at, self.watermarks.watermarks.get(feed, 0)), arrived
        )
