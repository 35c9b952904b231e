"""All state of a detection pipeline, with one owner: saved, restored and split as a whole.

Example:
    >>> state = PipelineState(ScorerState(settings))
    >>> pipeline = DetectionPipeline(bank, state, settings)      # changes the state step by step
    >>> saved = state.checkpoint()
    >>> again = PipelineState.restore(settings, saved.metadata, saved.blobs)
    >>> part = again.split(hashing.buckets_of_partitions(np.arange(256) % 4 == 1))

The state of a principal lies in its hash bucket, one of 65,536, and is split by it. Two things belong to no bucket: every part
has the same event time (`watermarks`, the clock of `scorer`), and the counts of feeds go to the part that asks for them.

Bank, settings and connections are not state: the caller of `restore` gives them to the pipeline again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames, hashing
from fingerprint.compute.arrays import Mask
from fingerprint.compute.backend import HOST_BACKEND, Backend
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.settings import Settings
from fingerprint.state import checkpoint_codec, partitioning
from fingerprint.state.event_batch import Verdicts
from fingerprint.state.eviction import StateEvictor, bucket_mask
from fingerprint.state.feed_activity import MAX_FEEDS, FeedCounts
from fingerprint.state.pending_events import PendingEvents
from fingerprint.state.scorer_state import ScorerState
from fingerprint.state.watermarks import WatermarkTracker

_SAVED_COUNTERS = (
    "dropped_events",
    "over_limit_events",
    "already_trained_events",
    "forced_events",
)
# Principals with refused events that are counted: an attacker can invent any number
MAX_COUNTED_PRINCIPALS = 10_000
# Names of blobs that are not the scorer's begin with one of these.
_OTHER_BLOBS = ("pending.", "verdicts.", "supporting.", "early_events", "feed_counts", "evicted")


@dataclass
class Counters:
    """Counts since the state was made; those of `_SAVED_COUNTERS` survive a restart."""

    events: int = 0
    repeats: int = 0
    verdicts: int = 0
    alerts: int = 0
    silent_intervals: int = 0
    degraded: int = 0  # events whose losses the fallback measured
    no_opinion: int = 0  # cells of series that were still warming up
    votes_alone: int = 0  # votes on events about which no other detector had an opinion
    dropped_events: int = 0  # events that could not stay pending, because too many were
    over_limit_events: int = 0  # events of unknown principals beyond the daily limits of one or of all
    over_limit_intervals: int = 0  # votes on intervals of unknown principals beyond the limit of an interval
    already_trained_events: int = 0  # events that the bank was trained on
    forced_events: int = 0  # early events that were measured too soon, because too many were early
    failed_evictions: int = 0  # times that nothing could be evicted, because the store failed
    votes: dict[str, int] = field(default_factory=dict)  # by detector
    over_limit_principals: set[int] = field(default_factory=set)  # hashes, of `over_limit_events`

    def refuse_events(self, principal: Hashes) -> None:
        """Count events beyond the limits of unknown principals (N,), and at most MAX_COUNTED_PRINCIPALS of the principals."""
        self.over_limit_events += len(principal)
        room = MAX_COUNTED_PRINCIPALS - len(self.over_limit_principals)
        if room > 0:
            new = set(np.unique(principal).tolist()) - self.over_limit_principals
            self.over_limit_principals.update(sorted(new)[:room])


class TrainingCutoff(NamedTuple):
    """The events that a bank's training can have read: those before `event_time` that arrived by `arrival_time`.

    Both are in seconds since 1970. An event with an earlier time that arrives after the training is scored.
    """

    event_time: int = 0
    arrival_time: int = 0


NO_CUTOFF = TrainingCutoff()


@dataclass
class OpenAlerts:
    """Verdicts of alerts whose window is still open, and events without a verdict that support them.

    `published_sizes` and `provisional` are not saved: after a restart an alert is published again once, under the same id.
    """

    verdicts: list[Verdicts] = field(default_factory=list)
    supporting: list[Verdicts] = field(default_factory=list)  # few of each alert
    # Alert id -> its events when it was last built
    published_sizes: dict[str, int] = field(default_factory=dict)
    # Ids of alerts that were last built with events of open intervals
    provisional: set[str] = field(default_factory=set)

    @property
    def parts(self) -> list[Verdicts]:
        """Return the verdicts and the events that support them."""
        return [*self.verdicts, *self.supporting]


class StateCheckpoint(NamedTuple):
    """State as data: `metadata` fit for JSON, `blobs` of bytes by name, and the names of stored blobs that they need."""

    metadata: dict[str, Any]
    blobs: dict[str, bytes]
    referenced_blobs: tuple[str, ...]


class PipelineState:
    """Everything that a detection pipeline keeps from one step to the next."""

    def __init__(
        self,
        scorer: ScorerState,
        watermarks: WatermarkTracker | None = None,
        training_cutoff: TrainingCutoff = NO_CUTOFF,
        backend: Backend = HOST_BACKEND,
    ) -> None:
        self.scorer, self.training_cutoff, self.backend = scorer, training_cutoff, backend
        self.watermarks = watermarks or WatermarkTracker()
        self.counters = Counters()
        self.pending = PendingEvents()
        self.open_alerts = OpenAlerts()
        self.early_events: Frame = pd.DataFrame()  # not measured yet: their source is ahead of others
        # Entities that are not in the bank: hash -> name, last interval
        self.unknown_owners: dict[int, tuple[str, int]] = {}
        self.feed_counts = _empty_feed_counts(scorer.options)
        self.evictor: StateEvictor | None = None
        # As restored from a checkpoint, until `enable_eviction` takes it
        self._evicted: Mapping[str, NDArray[Any]] | None = None

    def enable_eviction(
        self,
        put: Callable[[bytes], str],
        get: Callable[[str], bytes],
        max_rows: int,
        event_channel: np.uint64,
    ) -> None:
        """Bound the scorer's state: hash buckets that were inactive longest go to a store, and come back before they are read."""
        self.evictor = StateEvictor(self.scorer, max_rows, put, get, event_channel)
        if self._evicted is not None:
            self.evictor.restore(self._evicted)
            self._evicted = None

    def buckets_in_use(self) -> Mask:
        """Return the mask (65536,) of buckets with events that are pending, early or of an open alert."""
        waiting = [part.principal for part in self.pending.parts]
        alerting = [part.batch.principal for part in self.open_alerts.parts]
        early = [hashing.hash_with_bucket(self.early_events["principal"])] if len(self.early_events) else []
        return bucket_mask([*waiting, *alerting, *early])

    def referenced_banks(self) -> set[str]:
        """Return the versions of the banks that measured pending events and those of open alerts."""
        parts = [
            *(part.frame for part in self.pending.parts),
            *(part.frame for part in self.open_alerts.parts),
        ]
        return {str(version) for frame in parts for version in frame["bank_version"].unique()}

    def restart_action_channels(self) -> None:
        """Let new channels of single actions begin now, because another bank has other actions."""
        interval_seconds = self.scorer.options.spectral.interval_seconds
        self.scorer.channels_since = self.scorer.watermark // interval_seconds

    # --- checkpoint -------------------------------------------------------------------------------------------------

    def checkpoint(self) -> StateCheckpoint:
        """Return the state as data. Parts that did not change since the last call have the same bytes again."""
        stored = self.evictor.blob_names() if self.evictor else ()
        return StateCheckpoint(self._metadata(), self._blobs(), stored)

    def _metadata(self) -> dict[str, Any]:
        counters = asdict(self.counters)
        return {
            "training_cutoff": list(self.training_cutoff),
            "feeds_closed_until": self.feed_counts.closed_until,
            "unknown_owners": {str(name): list(kept) for name, kept in self.unknown_owners.items()},
            "counters": {name: counters[name] for name in _SAVED_COUNTERS},
            **self.watermarks.as_metadata(),
        }

    def _blobs(self) -> dict[str, bytes]:
        blobs: dict[str, bytes] = {}
        # Each part is packed before the next is made, so that memory holds a copy of one day's ids, not of all.
        for part in _split_by_day(self.scorer.as_arrays()):
            blobs |= checkpoint_codec.pack_tables(part)
        if self.pending:
            blobs |= checkpoint_codec.pack_batch("pending", self.pending.joined())
        if self.open_alerts.verdicts:
            self.open_alerts.verdicts = [Verdicts.concat(self.open_alerts.verdicts)]
            blobs |= checkpoint_codec.pack_batch("verdicts", *self.open_alerts.verdicts[0])
        if self.open_alerts.supporting:
            self.open_alerts.supporting = [Verdicts.concat(self.open_alerts.supporting)]
            blobs |= checkpoint_codec.pack_batch("supporting", *self.open_alerts.supporting[0])
        if self.evictor and self.evictor.files:
            blobs["evicted"] = checkpoint_codec.pack_arrays(self.evictor.as_arrays())
        if len(self.early_events):
            blobs["early_events"] = checkpoint_codec.pack_table(self.early_events)
        if len(counts := self.feed_counts.as_table()):
            blobs["feed_counts"] = checkpoint_codec.pack_table(counts)
        return blobs

    @classmethod
    def restore(
        cls,
        settings: Settings,
        metadata: Mapping[str, Any],
        blobs: Mapping[str, bytes],
        backend: Backend = HOST_BACKEND,
    ) -> PipelineState:
        """Return the state that `checkpoint` saved. Raises FingerprintError if a blob cannot be read.

        If any bucket was evicted, `enable_eviction` must be called before the next step.
        """
        own = [name for name in blobs if not name.startswith(_OTHER_BLOBS)]
        tables = _merge_days(checkpoint_codec.unpack_tables(blobs, own))
        state = cls(
            ScorerState.from_arrays(settings, tables, backend.to_device),
            WatermarkTracker.from_metadata(dict(metadata), 1, settings.stream.source_idle_seconds),
            TrainingCutoff(*metadata["training_cutoff"]),
            backend,
        )
        for name in _SAVED_COUNTERS:
            setattr(state.counters, name, int(metadata["counters"][name]))
        state.unknown_owners = {
            int(name): (text, last) for name, (text, last) in metadata["unknown_owners"].items()
        }
        state._restore_blobs(blobs, int(metadata["feeds_closed_until"]))
        return state

    def _restore_blobs(self, blobs: Mapping[str, bytes], feeds_closed_until: int) -> None:
        if pending := checkpoint_codec.unpack_batch("pending", blobs):
            self.pending = PendingEvents([pending])
        if verdicts := checkpoint_codec.unpack_batch("verdicts", blobs):
            self.open_alerts.verdicts = [Verdicts(verdicts, verdicts.frame)]
        if supporting := checkpoint_codec.unpack_batch("supporting", blobs):
            self.open_alerts.supporting = [Verdicts(supporting, supporting.frame)]
        if "early_events" in blobs:
            early = checkpoint_codec.unpack_table(blobs["early_events"])
            self.early_events = frames.to_device(early, self.backend.dataframe_library)
        self.feed_counts.closed_until = feeds_closed_until  # even if there are no counts to restore
        if "feed_counts" in blobs:
            self.feed_counts.restore(checkpoint_codec.unpack_table(blobs["feed_counts"]), feeds_closed_until)
        if "evicted" in blobs:
            self._evicted = checkpoint_codec.unpack_arrays(blobs["evicted"])

    # --- split ------------------------------------------------------------------------------------------------------

    def split(self, buckets: Mask, keep_feed_counts: bool = True) -> PipelineState:
        """Return a copy of the part of the state in some hash buckets, a mask (65536,), with nothing evicted.

        Its counters begin at 0. Only one part of a state may keep the counts of feeds, or they would be counted twice.
        """
        if self.evictor:
            self.evictor.reload(buckets)
        own = partitioning.select_buckets(self.scorer.as_arrays(), buckets)
        part = PipelineState(
            ScorerState.from_arrays(self.scorer.options, own, self.backend.to_device),
            self.watermarks.copy(),
            self.training_cutoff,
            self.backend,
        )
        part.unknown_owners = dict(self.unknown_owners)  # all, because a shared entity lies in many buckets

        def in_part(principal: Hashes) -> NDArray[np.bool_]:
            return arrays.to_device_of(buckets, principal)[hashing.bucket_of(principal)]

        part.pending = PendingEvents(each.take(in_part(each.principal)) for each in self.pending.parts)

        def verdicts_in_part(verdicts: list[Verdicts]) -> list[Verdicts]:
            taken = (each.take(in_part(each.batch.principal)) for each in verdicts)
            return [each for each in taken if len(each.frame)]

        part.open_alerts.verdicts = verdicts_in_part(self.open_alerts.verdicts)
        part.open_alerts.supporting = verdicts_in_part(self.open_alerts.supporting)
        if len(self.early_events):
            early = in_part(hashing.hash_with_bucket(self.early_events["principal"]))
            part.early_events = frames.select_rows(self.early_events, early)
        if keep_feed_counts:
            part.feed_counts.restore(self.feed_counts.as_table().copy(), self.feed_counts.closed_until)
        return part


def _empty_feed_counts(settings: Settings) -> FeedCounts:
    return FeedCounts(settings.spectral.interval_seconds, MAX_FEEDS)


def _split_by_day(arrays: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the tables, then the seen ids as one table for each day, so that only today's part of this largest table changes."""
    yield {name: array for name, array in arrays.items() if not name.startswith("repeats.")}
    ids = {name: array for name, array in arrays.items() if name.startswith("repeats.")}
    days = ids["repeats.day"]
    for day in [None, *np.unique(days)]:  # None: an empty table, so that the columns are always there
        which = days == day if day is not None else np.zeros(len(days), bool)
        yield {f"repeats/{day}.{name[8:]}": column[which] for name, column in ids.items()}


def _merge_days(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Join the tables of days that `_split_by_day` made."""
    out = {name: array for name, array in arrays.items() if not name.startswith("repeats/")}
    ids: dict[str, list[NDArray[Any]]] = {}
    for name in sorted(arrays):
        if name.startswith("repeats/"):
            ids.setdefault(name.partition(".")[2], []).append(arrays[name])
    columns = {column: np.concatenate(parts) for column, parts in ids.items()}
    order = np.argsort(columns["key"])
    return out | {f"repeats.{column}": array[order] for column, array in columns.items()}
