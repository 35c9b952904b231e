"""Coded events: a table of events with their hashes and codes, computed once even if the events are split many times.

Example:
    >>> coded = code_events(events)                       # events with entities
    >>> coded.codes.shape == (len(events), len(FEATURES))
    True
    >>> few = coded.take(np.array([0, 2]))                # for example, of one partition; nothing is hashed again

A poll holds events of many partitions. Hashing and encoding cost almost as much for the events of one partition as for all, so
they are done once for the whole poll.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fingerprint.compute import arrays, frames, hashing
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.features import encoding
from fingerprint.sources.flatten import dedup_key

_ARRAYS = ("seconds", "principal", "entity", "key", "codes")


@dataclass(frozen=True, slots=True)
class CodedEvents:
    """N events: their table, and arrays on the same device.

    `seconds` (N,) are since 1970; `principal` (with its hash bucket), `entity` and `key` (of the record's id) are hashes (N,);
    `codes` (N, F) are those of the features, 0 for features that need state.
    """

    frame: Frame
    seconds: Array
    principal: Hashes
    entity: Hashes
    key: Hashes
    codes: Hashes

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, which: Array) -> CodedEvents:
        """Return the events of a mask (N,) or an index (M,); this object itself if a mask leaves none out."""
        which = arrays.to_device_of(which, self.seconds)
        frame = frames.select_rows(self.frame, which)
        if frame is self.frame:
            return self
        return CodedEvents(frame, *(getattr(self, name)[which] for name in _ARRAYS))

    def between(self, start: int, end: int) -> CodedEvents:
        """Return the events from `start` to before `end`."""
        if start == 0 and end == len(self):
            return self
        return self.take(arrays.namespace(self.seconds).arange(start, end))

    @staticmethod
    def concat(parts: Sequence[CodedEvents]) -> CodedEvents:
        """Return the concatenated events of parts, at least one."""
        xp = arrays.namespace(parts[0].seconds)
        together = (xp.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS)
        return CodedEvents(frames.concat_frames([part.frame for part in parts]), *together)


def code_events(events: Frame | CodedEvents) -> CodedEvents:
    """Return coded events, on a host with a ColumnTable; events that are coded already are returned unchanged."""
    if isinstance(events, CodedEvents):
        return events
    events = frames.to_column_table(events)
    if not len(events):
        none = np.zeros(0, np.uint64)
        return CodedEvents(events, np.zeros(0, np.int64), none, none, none, none.reshape(0, 0))
    return CodedEvents(
        events,
        frames.epoch_seconds(frames.column_of(events, "event_time")),
        hashing.hash_with_bucket(frames.texts_of(events, "principal")),
        hashing.hash_strings(frames.texts_of(events, "entity")),
        dedup_key(events),
        encoding.FEATURE_SET.encode(events),
    )
