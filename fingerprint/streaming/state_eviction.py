"""A ledger kept bounded: the homes that were silent longest are put away, and fetched before their next event is taken.

Example:
    >>> spill = Spill(ledger, settings.state.rows, put=store.put, get=store.get)
    >>> spill.fetch(homes_of([hashing.homed(events["principal"])]))     # before a step
    >>> said = road.walk(events)
    >>> spill.spill(homes_of(principals_that_wait))                     # after it

No answer changes. Put away is only what no step reads before it is fetched: homes whose intervals are all closed, in
which no silence can be noticed any more (`Series.busy`), and of which nothing waits. What was put away is brought up to
date when it comes back: one passing of time does what many would have done, because what is forgotten depends on the
last of them only, and open days enter the past clipped by forecasts that were put away with them.

So the bound is soft: who was active in the running interval, or busy in the last days, stays whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import hashing
from fingerprint.compute.arrays import to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.detection.detectors.spectral import EVENT_CHANNEL
from fingerprint.state import partitioning
from fingerprint.state.activity_series import Ints
from fingerprint.state.partitioning import Arrays, Mask
from fingerprint.state.scorer_state import ScorerState
from fingerprint.streaming import checkpoint_codec

ROWS_PER_FILE = (
    4096  # rows in one file, about 1.5 MB: small enough to be read for one home, large enough to be few
)
HEADROOM_DIVISOR = 8  # an eighth of the bound is made free at a time
NEVER_ACTIVE = -1


class StateEvictor:
    """What of a ledger is put away, and where: homes by the name of their file. A home is here or away as a whole."""

    def __init__(
        self, state: ScorerState, max_rows: int, put: Callable[[bytes], str], get: Callable[[str], bytes]
    ) -> None:
        self.state, self.max_rows, self.put, self.get = state, max_rows, put, get
        self.files: dict[str, NDArray[np.uint16]] = {}  # name -> the homes in it that are away
        self.evicted: Mask = np.zeros(hashing.BUCKETS, bool)
        self.reloaded_buckets = 0  # homes that came back, for whoever watches
        self._last_checked_interval = (
            NEVER_ACTIVE  # the interval up to which all was closed when something was last put away
        )

    def blob_names(self) -> tuple[str, ...]:
        """The files that are needed."""
        return tuple(self.files)

    # --- back ---------------------------------------------------------------------------------------------------------

    def reload(self, buckets: Mask) -> int:
        """Bring homes (65536,) back where they are away; how many were. FingerprintError if a file is missing or damaged:
        then all is as it was."""
        wanted = buckets & self.evicted
        count = int(wanted.sum())
        if count:
            parts = [  # a file may also hold homes that came back since, as they were: not those
                partitioning.select_buckets(
                    checkpoint_codec.unpack_arrays(self.get(name)), _mask_of_buckets(theirs[wanted[theirs]])
                )
                for name, theirs in self.files.items()
                if wanted[theirs].any()
            ]
            self.state.merge(self._expire_to_now(parts))
            self._mark_resident(wanted)
        self.reloaded_buckets += count
        return count

    def _expire_to_now(self, parts: list[dict[str, NDArray[Any]]]) -> Arrays:
        part = ScorerState.from_arrays(self.state.options, parts[0])
        for more in parts[1:]:
            part.merge(more)
        part.watermark = self.state.watermark
        part.expire()
        return part.as_arrays()

    def _mark_resident(self, buckets: Mask) -> None:
        left = {name: theirs[~buckets[theirs]] for name, theirs in self.files.items()}
        self.files = {name: theirs for name, theirs in left.items() if len(theirs)}
        self.evicted &= ~buckets

    # --- away ---------------------------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Whether there are too many rows, and an interval has closed since that was last looked at."""
        ledger = self.state
        return len(ledger.series.owner) > self.max_rows and self._last_checked_interval != ledger.voted_until

    def evict(self, protected: Mask) -> int:
        """Put homes away if there are too many rows, the longest silent first, none of `protected` (65536,); how many.

        What may go changes when an interval closes: it is looked at once for each. FingerprintError if the store cannot
        take them: then all is as it was.
        """
        ledger = self.state
        if not self.is_due():
            return 0
        self._last_checked_interval = ledger.voted_until
        rows = np.bincount(hashing.bucket_of(to_host(ledger.series.owner)), minlength=hashing.BUCKETS)
        going = self._eviction_candidates(rows, protected)
        if len(going):
            self._write_buckets(going, rows)
        return len(going)

    def _eviction_candidates(self, rows: NDArray[np.intp], protected: Mask) -> NDArray[np.uint16]:
        """The homes to put away, longest silent first, until there is room."""
        latest = self._last_active()
        may = (rows > 0) & ~protected & (latest < self.state.voted_until)
        series = self.state.series
        busy = series.owner[series.busy_rows(EVENT_CHANNEL, self.state.voted_until)]
        may[hashing.bucket_of(to_host(busy))] = False
        candidates = np.flatnonzero(may)
        candidates = candidates[np.argsort(latest[candidates], kind="stable")]
        excess = len(series.owner) - (self.max_rows - self.max_rows // HEADROOM_DIVISOR)
        enough = np.searchsorted(np.cumsum(rows[candidates]), excess) + 1
        return candidates[:enough].astype(np.uint16)

    def _last_active(self) -> Ints:
        """When each home was last active, -1 for never: (65536,)."""
        latest = np.full(hashing.BUCKETS, NEVER_ACTIVE, np.int32)
        series = self.state.series
        for owner, interval in (self.state.last_active(), (series.owner, series.last_active())):
            np.maximum.at(latest, hashing.bucket_of(to_host(owner)), to_host(interval))
        return latest

    def _write_buckets(self, buckets: NDArray[np.uint16], rows: NDArray[np.intp]) -> None:
        whole, away = self.state.as_arrays(), _mask_of_buckets(buckets)
        files: dict[str, NDArray[np.uint16]] = {}
        for homes, part in _split_by_group(
            partitioning.select_buckets(whole, away), _group_into_files(buckets, rows)
        ):
            files[self.put(checkpoint_codec.pack_arrays(part))] = homes
        kept = partitioning.select_buckets(whole, ~away)
        self.state.replace_with(ScorerState.from_arrays(self.state.options, kept, self.state.placement))
        self.files |= files
        self.evicted |= away

    # --- with a snapshot ----------------------------------------------------------------------------------------------

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Which homes are away, and in which file."""
        homes = list(self.files.values())
        return {
            "home": np.concatenate([np.empty(0, np.uint16), *homes]),
            "file": np.repeat(np.arange(len(homes), dtype=np.int32), [len(each) for each in homes]),
            "names": np.frombuffer("\n".join(self.files).encode(), np.uint8),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Know again what was away when the ledger was remembered."""
        names = arrays["names"].tobytes().decode().split("\n")
        self.files = {name: arrays["home"][arrays["file"] == file] for file, name in enumerate(names) if name}
        self.evicted = _mask_of_buckets(arrays["home"])


def bucket_mask(principals: Iterable[Hashes]) -> Mask:
    """Where principals belong, (n,) each, wherever they lie, as a mask (65536,) on the host."""
    out = np.zeros(hashing.BUCKETS, bool)
    for each in principals:
        out[to_host(hashing.bucket_of(each))] = True
    return out


def _mask_of_buckets(buckets: NDArray[np.uint16]) -> Mask:
    out = np.zeros(hashing.BUCKETS, bool)
    out[buckets] = True
    return out


def _group_into_files(buckets: NDArray[np.uint16], rows: NDArray[np.intp]) -> list[NDArray[np.uint16]]:
    """Homes in order, FILE_ROWS rows together: those that fell silent together may speak again together."""
    number = (np.cumsum(rows[buckets]) - 1) // ROWS_PER_FILE
    return np.split(buckets, np.flatnonzero(np.diff(number)) + 1)


def _split_by_group(
    arrays: Arrays, groups: list[NDArray[np.uint16]]
) -> Iterator[tuple[NDArray[np.uint16], Arrays]]:
    """Each group of homes with its part, by halves: so all is copied as often as halves are halved, not for every group."""
    if len(groups) == 1:
        yield groups[0], arrays
        return
    for half in (groups[: len(groups) // 2], groups[len(groups) // 2 :]):
        yield from _split_by_group(
            partitioning.select_buckets(arrays, _mask_of_buckets(np.concatenate(half))), half
        )
