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
from fingerprint.compute.arrays import host
from fingerprint.compute.hashing import Hashes
from fingerprint.detection import detectors
from fingerprint.state import partitioning
from fingerprint.state.activity_series import Ints
from fingerprint.state.scorer_state import Ledger
from fingerprint.state.partitioning import Arrays, Mask
from fingerprint.streaming import checkpoint_codec

FILE_ROWS = (
    4096  # rows in one file, about 1.5 MB: small enough to be read for one home, large enough to be few
)
ROOM = 8  # an eighth of the bound is made free at a time
NEVER = -1


class Spill:
    """What of a ledger is put away, and where: homes by the name of their file. A home is here or away as a whole."""

    def __init__(
        self, ledger: Ledger, rows: int, put: Callable[[bytes], str], get: Callable[[str], bytes]
    ) -> None:
        self.ledger, self.rows, self.put, self.get = ledger, rows, put, get
        self.files: dict[str, NDArray[np.uint16]] = {}  # name -> the homes in it that are away
        self.away: Mask = np.zeros(hashing.HOMES, bool)
        self.fetched = 0  # homes that came back, for whoever watches
        self._looked_at = NEVER  # the interval up to which all was closed when something was last put away

    def names(self) -> tuple[str, ...]:
        """The files that are needed."""
        return tuple(self.files)

    # --- back ---------------------------------------------------------------------------------------------------------

    def fetch(self, homes: Mask) -> int:
        """Bring homes (65536,) back where they are away; how many were. FingerprintError if a file is missing or damaged:
        then all is as it was."""
        wanted = homes & self.away
        count = int(wanted.sum())
        if count:
            parts = [  # a file may also hold homes that came back since, as they were: not those
                partitioning.pick(checkpoint_codec.arrays(self.get(name)), _mask(theirs[wanted[theirs]]))
                for name, theirs in self.files.items()
                if wanted[theirs].any()
            ]
            self.ledger.merge(self._up_to_date(parts))
            self._forget(wanted)
        self.fetched += count
        return count

    def _up_to_date(self, parts: list[dict[str, NDArray[Any]]]) -> Arrays:
        part = Ledger.from_arrays(self.ledger.options, parts[0])
        for more in parts[1:]:
            part.merge(more)
        part.watermark = self.ledger.watermark
        part.advance()
        return part.as_arrays()

    def _forget(self, homes: Mask) -> None:
        left = {name: theirs[~homes[theirs]] for name, theirs in self.files.items()}
        self.files = {name: theirs for name, theirs in left.items() if len(theirs)}
        self.away &= ~homes

    # --- away ---------------------------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Whether there are too many rows, and an interval has closed since that was last looked at."""
        ledger = self.ledger
        return len(ledger.series.owner) > self.rows and self._looked_at != ledger.silent_upto

    def spill(self, protected: Mask) -> int:
        """Put homes away if there are too many rows, the longest silent first, none of `protected` (65536,); how many.

        What may go changes when an interval closes: it is looked at once for each. FingerprintError if the store cannot
        take them: then all is as it was.
        """
        ledger = self.ledger
        if not self.due():
            return 0
        self._looked_at = ledger.silent_upto
        rows = np.bincount(hashing.homes(host(ledger.series.owner)), minlength=hashing.HOMES)
        going = self._going(rows, protected)
        if len(going):
            self._put_away(going, rows)
        return len(going)

    def _going(self, rows: NDArray[np.intp], protected: Mask) -> NDArray[np.uint16]:
        """The homes to put away, longest silent first, until there is room."""
        latest = self._latest()
        may = (rows > 0) & ~protected & (latest < self.ledger.silent_upto)
        series = self.ledger.series
        busy = series.owner[series.busy(detectors.COUNT, self.ledger.silent_upto)]
        may[hashing.homes(host(busy))] = False
        candidates = np.flatnonzero(may)
        candidates = candidates[np.argsort(latest[candidates], kind="stable")]
        excess = len(series.owner) - (self.rows - self.rows // ROOM)
        enough = np.searchsorted(np.cumsum(rows[candidates]), excess) + 1
        return candidates[:enough].astype(np.uint16)

    def _latest(self) -> Ints:
        """When each home was last active, -1 for never: (65536,)."""
        latest = np.full(hashing.HOMES, NEVER, np.int32)
        series = self.ledger.series
        for owner, interval in (self.ledger.latest(), (series.owner, series.latest())):
            np.maximum.at(latest, hashing.homes(host(owner)), host(interval))
        return latest

    def _put_away(self, going: NDArray[np.uint16], rows: NDArray[np.intp]) -> None:
        whole, away = self.ledger.as_arrays(), _mask(going)
        files: dict[str, NDArray[np.uint16]] = {}
        for homes, part in _divided(partitioning.pick(whole, away), _files(going, rows)):
            files[self.put(checkpoint_codec.pack_arrays(part))] = homes
        kept = partitioning.pick(whole, ~away)
        self.ledger.become(Ledger.from_arrays(self.ledger.options, kept, self.ledger.place))
        self.files |= files
        self.away |= away

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
        self.away = _mask(arrays["home"])


def homes_of(principals: Iterable[Hashes]) -> Mask:
    """Where principals belong, (n,) each, wherever they lie, as a mask (65536,) on the host."""
    out = np.zeros(hashing.HOMES, bool)
    for each in principals:
        out[host(hashing.homes(each))] = True
    return out


def _mask(homes: NDArray[np.uint16]) -> Mask:
    out = np.zeros(hashing.HOMES, bool)
    out[homes] = True
    return out


def _files(homes: NDArray[np.uint16], rows: NDArray[np.intp]) -> list[NDArray[np.uint16]]:
    """Homes in order, FILE_ROWS rows together: those that fell silent together may speak again together."""
    number = (np.cumsum(rows[homes]) - 1) // FILE_ROWS
    return np.split(homes, np.flatnonzero(np.diff(number)) + 1)


def _divided(arrays: Arrays, groups: list[NDArray[np.uint16]]) -> Iterator[tuple[NDArray[np.uint16], Arrays]]:
    """Each group of homes with its part, by halves: so all is copied as often as halves are halved, not for every group."""
    if len(groups) == 1:
        yield groups[0], arrays
        return
    for half in (groups[: len(groups) // 2], groups[len(groups) // 2 :]):
        yield from _divided(partitioning.pick(arrays, _mask(np.concatenate(half))), half)
