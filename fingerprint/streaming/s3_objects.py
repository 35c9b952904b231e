"""Objects that a notice names to records keyed by their principal: what `fingerprint ingest --sqs` does to each.

Example:
    >>> for fetched in Fetching(Settings()).read(notice, Object("trail", "a.json.gz"), stored_bytes):
    ...     send(fetched.records)

The notice is the message here: its place stands in the header `source` of every record, and it becomes the dead letter of what
could not be read in its objects. An object is read in bounded pieces, however large it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fingerprint.core.alert import Reject
from fingerprint.core.ports import Message
from fingerprint.core.settings import Settings
from fingerprint.sources import archives, arrival
from fingerprint.sources.arrival import Now, wall_clock_ms
from fingerprint.sources.base import RecordBatch
from fingerprint.sources.cloudtrail.s3_notifications import S3Object
from fingerprint.sources.decode import DecodedMessages, event_times_ms, row_indices
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.sources.limits import ReadLimits
from fingerprint.streaming import s3_watermarks
from fingerprint.streaming.rekeying import (
    Longs,
    OutgoingMessage,
    drop_future_dated,
    rekey_records,
    running_watermark,
)
from fingerprint.streaming.s3_watermarks import TrailWatermarks


class ObjectBatch(NamedTuple):
    """What lay in one piece of an object. `future` counts records dated past the notice, which are rejects."""

    records: list[OutgoingMessage]
    rejects: list[Reject]
    skipped: int
    future_dated: int


class S3ObjectReader:
    """Reads objects of any trails, and remembers how far event time has come."""

    def __init__(self, settings: Settings, now: Now = wall_clock_ms) -> None:
        self.settings, self.now = settings, now
        self.watermarks = TrailWatermarks(s3_watermarks.IDLE_TRAIL_SECONDS)

    def read(
        self, notification: Message, s3_object: S3Object, body: Iterator[bytes]
    ) -> Iterator[ObjectBatch]:
        """Pieces of at most `reading.batch_records` records; raises what `stored` raises, and nothing else."""
        for records in archives.rebatch(
            archives.read_records(s3_object.url, body, ReadLimits()), self.settings.reading.batch_records
        ):
            yield self._rekey_piece(notification, s3_object, records)

    def _rekey_piece(self, notification: Message, s3_object: S3Object, records: RecordBatch) -> ObjectBatch:
        flat = flatten(records)
        events = add_entity_columns(flat.events, self.settings.entities)
        source = np.zeros(len(events), np.int64)
        row, at = row_indices(events), event_times_ms(events)
        piece = DecodedMessages(0, 1, records.lines, events, source, flat.rejects, flat.skipped, row, at)
        arrived = arrival.arrival_times_ms(np.array([notification.timestamp]), self.now())
        piece, future = drop_future_dated(piece, arrived[source], self.settings.reading.max_future_seconds)
        marks = self._advance_watermark(s3_object.trail_prefix, piece.times_ms, int(arrived[0]))
        outgoing, _, too_large = rekey_records(
            [notification], piece, marks, self.settings.kafka.max_request_size
        )
        beside = piece.rejects[len(flat.rejects) :] + too_large
        rejects = flat.rejects + [Reject(s3_object.url, "", each.reason) for each in beside]
        return ObjectBatch(outgoing, rejects, flat.skipped, future)

    def _advance_watermark(self, trail: str, at: Longs, arrived: int) -> Longs:
        """The watermark that each record carries (n,)."""
        return self.watermarks.advance(
            trail, running_watermark(at, self.watermarks.watermarks.get(trail, 0)), arrived
        )
