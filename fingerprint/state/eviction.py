"""Bound a scorer's state: evict the hash buckets that were inactive longest, and reload them before their next event.

Example:
    >>> evictor = StateEvictor(state, max_rows, store.put, store.get, EVENT_CHANNEL)
    >>> evictor.reload(bucket_mask([hashing.hash_with_bucket(events["principal"])]))     # before a step
    >>> result = pipeline.process(events)
    >>> evictor.evict(pipeline.state.buckets_in_use())                                   # after it

No answer changes, for three reasons:

- A bucket is evicted only if no step reads it before it is reloaded: all its intervals are closed, it can have no silent interval
  any more (`ActivitySeries.busy_rows`), and none of its events is pending.
- Reloaded state is expired as of now. One expiry does what many would have done, because only the last of them matters.
- Tables that some step reads for all buckets together are never evicted (`_RESIDENT_TABLES`).

So the bound is soft: all principals that were active in an open interval, or busy in the last days, stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import Arrays, Ints, Mask, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.state import checkpoint_codec, partitioning
from fingerprint.state.scorer_state import ScorerState

ROWS_PER_FILE = 4096  # about 1.5 MB: small enough to be read for one bucket, large enough to be few
HEADROOM_DIVISOR = 8  # an eighth of the bound is freed at a time
NEVER_ACTIVE = -1
# Tables that are never evicted. The unknown principals of a day are counted over all buckets; a limit bounds their rows.
_RESIDENT_TABLES = ("unknown_principals",)


class StateEvictor:
    """Evict and reload hash buckets of a scorer's state. Each bucket is in memory or evicted as a whole."""

    def __init__(
        self,
        state: ScorerState,
        max_rows: int,
        put: Callable[[bytes], str],
        get: Callable[[str], bytes],
        event_channel: np.uint64,
    ) -> None:
        """`event_channel` is the channel of series that count all events of an owner, in which silent intervals are found."""
        self.state, self.max_rows, self.put, self.get = state, max_rows, put, get
        self.event_channel = event_channel
        self.files: dict[str, NDArray[np.uint16]] = {}  # name -> the evicted buckets in it
        self.evicted: Mask = np.zeros(hashing.BUCKETS, bool)
        self.reloaded_buckets = 0  # buckets reloaded so far
        self._last_checked_interval = NEVER_ACTIVE  # the first open interval at the last eviction

    def blob_names(self) -> tuple[str, ...]:
        """Return the names of the files that are needed."""
        return tuple(self.files)

    # --- reload -------------------------------------------------------------------------------------------------------

    def reload(self, buckets: Mask) -> int:
        """Reload those of the buckets, a mask (65536,), that are evicted, and return their number.

        Raises FingerprintError if a file is missing or damaged; then nothing has changed.
        """
        reloaded = buckets & self.evicted
        count = int(reloaded.sum())
        if count:
            parts = [  # a file may also hold old state of buckets that were reloaded since; it is left out
                partitioning.select_buckets(
                    checkpoint_codec.unpack_arrays(self.get(name)),
                    _mask_of_buckets(buckets_in_file[reloaded[buckets_in_file]]),
                )
                for name, buckets_in_file in self.files.items()
                if reloaded[buckets_in_file].any()
            ]
            self.state.merge(self._expire_to_now(parts))
            self._mark_resident(reloaded)
        self.reloaded_buckets += count
        return count

    def _expire_to_now(self, parts: list[dict[str, NDArray[Any]]]) -> Arrays:
        """Return parts, which were evicted at different times, merged into one that is expired as of now."""
        expired = []
        for arrays in parts:
            part = ScorerState.from_arrays(self.state.options, arrays)
            part.watermark = self.state.watermark
            part.expire()
            expired.append(part)
        whole, *others = expired
        for other in others:
            whole.merge(other.as_arrays())
        return whole.as_arrays()

    def _mark_resident(self, buckets: Mask) -> None:
        left = {
            name: buckets_in_file[~buckets[buckets_in_file]] for name, buckets_in_file in self.files.items()
        }
        self.files = {name: buckets_in_file for name, buckets_in_file in left.items() if len(buckets_in_file)}
        self.evicted &= ~buckets

    # --- evict --------------------------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Return whether there are too many rows, and an interval has closed since the last eviction."""
        state = self.state
        return len(state.series.owner) > self.max_rows and self._last_checked_interval != state.voted_until

    def evict(self, protected: Mask) -> int:
        """Evict buckets if there are too many rows, the longest inactive first, but none of `protected` (65536,).

        Returns their number. Evicts at most once an interval, because only closing an interval makes more buckets evictable.
        Raises FingerprintError if the store cannot take them; then nothing has changed.
        """
        if not self.is_due():
            return 0
        self._last_checked_interval = self.state.voted_until
        rows = np.bincount(hashing.bucket_of(to_host(self.state.series.owner)), minlength=hashing.BUCKETS)
        evicted = self._eviction_candidates(rows, protected)
        if len(evicted):
            self._write_buckets(evicted, rows)
        return len(evicted)

    def _eviction_candidates(self, rows: NDArray[np.intp], protected: Mask) -> NDArray[np.uint16]:
        """Return as many buckets to evict as are needed for room, longest inactive first."""
        latest = self._last_active()
        may = (rows > 0) & ~protected & (latest < self.state.voted_until)
        series = self.state.series
        busy = series.owner[series.busy_rows(self.event_channel, self.state.voted_until)]
        may[hashing.bucket_of(to_host(busy))] = False
        candidates = np.flatnonzero(may)
        candidates = candidates[np.argsort(latest[candidates], kind="stable")]
        excess = len(series.owner) - (self.max_rows - self.max_rows // HEADROOM_DIVISOR)
        enough = np.searchsorted(np.cumsum(rows[candidates]), excess) + 1
        return candidates[:enough].astype(np.uint16)

    def _last_active(self) -> Ints:
        """Return the interval in which each bucket was last active, -1 for never: (65536,)."""
        latest = np.full(hashing.BUCKETS, NEVER_ACTIVE, np.int32)
        series = self.state.series
        for owner, interval in (self.state.last_active(), (series.owner, series.last_active())):
            np.maximum.at(latest, hashing.bucket_of(to_host(owner)), to_host(interval))
        return latest

    def _write_buckets(self, buckets: NDArray[np.uint16], rows: NDArray[np.intp]) -> None:
        resident, whole = _split_resident(self.state.as_arrays())
        evicted = _mask_of_buckets(buckets)
        files: dict[str, NDArray[np.uint16]] = {}
        for group, part in _split_by_group(
            partitioning.select_buckets(whole, evicted), _group_into_files(buckets, rows)
        ):
            files[self.put(checkpoint_codec.pack_arrays(part))] = group
        kept = partitioning.select_buckets(whole, ~evicted) | resident
        self.state.replace_with(ScorerState.from_arrays(self.state.options, kept, self.state.placement))
        self.files |= files
        self.evicted |= evicted

    # --- checkpoint ---------------------------------------------------------------------------------------------------

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the evicted buckets and their files, as arrays for a checkpoint."""
        buckets = list(self.files.values())
        return {
            "bucket": np.concatenate([np.empty(0, np.uint16), *buckets]),
            "file": np.repeat(np.arange(len(buckets), dtype=np.int32), [len(each) for each in buckets]),
            "names": np.frombuffer("\n".join(self.files).encode(), np.uint8),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the evicted buckets and their files from the arrays of `as_arrays`."""
        names = arrays["names"].tobytes().decode().split("\n")
        self.files = {
            name: arrays["bucket"][arrays["file"] == file] for file, name in enumerate(names) if name
        }
        self.evicted = _mask_of_buckets(arrays["bucket"])


def bucket_mask(principals: Iterable[Hashes]) -> Mask:
    """Return the buckets of arrays of principals, (n,) each, on host or device, as one mask (65536,) on the host."""
    out = np.zeros(hashing.BUCKETS, bool)
    for each in principals:
        out[to_host(hashing.bucket_of(each))] = True
    return out


def _mask_of_buckets(buckets: NDArray[np.uint16]) -> Mask:
    out = np.zeros(hashing.BUCKETS, bool)
    out[buckets] = True
    return out


def _group_into_files(buckets: NDArray[np.uint16], rows: NDArray[np.intp]) -> list[NDArray[np.uint16]]:
    """Return the buckets in groups of about ROWS_PER_FILE rows, in order: buckets last active together may return together."""
    number = (np.cumsum(rows[buckets]) - 1) // ROWS_PER_FILE
    return np.split(buckets, np.flatnonzero(np.diff(number)) + 1)


def _split_resident(arrays: Arrays) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return the arrays of the tables that are never evicted, and the others."""
    resident = {name: array for name, array in arrays.items() if name.rpartition(".")[0] in _RESIDENT_TABLES}
    return resident, {name: array for name, array in arrays.items() if name not in resident}


def _split_by_group(
    arrays: Arrays, groups: list[NDArray[np.uint16]]
) -> Iterator[tuple[NDArray[np.uint16], Arrays]]:
    """Yield each group of buckets with its part. Groups are halved recursively: a level copies state once."""
    if len(groups) == 1:
        yield groups[0], arrays
        return
    for half in (groups[: len(groups) // 2], groups[len(groups) // 2 :]):
        yield from _split_by_group(
            partitioning.select_buckets(arrays, _mask_of_buckets(np.concatenate(half))), half
        )
