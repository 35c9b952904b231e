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
from fingerprint.sources.arrival import Now, wall_clock
from fingerprint.sources.cloudtrail.envelopes import Records
from fingerprint.sources.cloudtrail.identity import add_entities
from fingerprint.sources.cloudtrail.s3_notifications import Object
from fingerprint.sources.decode import Piece, milliseconds, places
from fingerprint.sources.flatten import flatten
from fingerprint.streaming.rekeying import Longs, Outgoing, keyed, latest, without_future
from fingerprint.streaming.s3_watermarks import Trails


class Fetched(NamedTuple):
    """What lay in one piece of an object. `future` counts records dated past the notice, which are rejects."""

    records: list[Outgoing]
    rejects: list[Reject]
    skipped: int
    future: int


class Fetching:
    """Reads objects of any trails, and remembers how far event time has come."""

    def __init__(self, settings: Settings, now: Now = wall_clock) -> None:
        self.settings, self.now = settings, now
        self.trails = Trails(settings.sqs.idle_seconds)

    def read(self, notice: Message, written: Object, stored: Iterator[bytes]) -> Iterator[Fetched]:
        """Pieces of at most `reading.batch_records` records; raises what `stored` raises, and nothing else."""
        bounds = self.settings.reading
        for records in archives.batches(archives.read(written.url, stored, bounds), bounds):
            yield self._piece(notice, written, records)

    def _piece(self, notice: Message, written: Object, records: Records) -> Fetched:
        flat = flatten(records)
        events = add_entities(flat.events, self.settings.entities)
        source = np.zeros(len(events), np.int64)
        row, at = places(events), milliseconds(events)
        piece = Piece(0, 1, records.lines, events, source, flat.rejects, flat.skipped, row, at)
        arrived = arrival.arrived(np.array([notice.timestamp]), self.now())
        piece, future = without_future(piece, arrived[source], self.settings.ingest.future_seconds)
        marks = self._advance(written.trail, piece.at, int(arrived[0]))
        outgoing, _, too_large = keyed([notice], piece, marks, self.settings.kafka.message_bytes)
        beside = piece.rejects[len(flat.rejects) :] + too_large
        rejects = flat.rejects + [Reject(written.url, "", each.reason) for each in beside]
        return Fetched(outgoing, rejects, flat.skipped, future)

    def _advance(self, trail: str, at: Longs, arrived: int) -> Longs:
        """The watermark that each record carries (n,)."""
        return self.trails.come(trail, latest(at, self.trails.marks.get(trail, 0)), arrived)
