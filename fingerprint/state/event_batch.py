"""Events with their codes, hashes and the evidence of each detector: what detectors judge and alerts are explained from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames, hashing
from fingerprint.compute.arrays import namespace, to_device_of, to_host
from fingerprint.compute.hashing import Hashes
from fingerprint.features import encoding


@dataclass(frozen=True)
class EventBatch:
    """N events, on the host or on a device.

    - `frame`: the columns of the events
    - `codes` (N, F): the codes of their features
    - `principal` (with its hash bucket), `entity` (N,): hashes
    - `interval`, `first_seen` (N,): the interval of the event, and that in which its principal was first seen
    - `fingerprint` (N,): the row of the bank that measured the event
    - `level` (N,): the level of the finest fingerprint that is ready (`Bank.resolve`)
    - `evidence`: by detector, what it keeps of each event, (N, C)
    - `unmeasured`: by detector, a mask (N,) of events without evidence, measured while the detector was not listed
    """

    frame: frames.Frame
    codes: Hashes
    principal: Hashes
    entity: Hashes
    interval: NDArray[np.int32]
    first_seen: NDArray[np.int32]
    fingerprint: NDArray[np.int32]
    level: NDArray[np.int8]
    evidence: dict[str, NDArray[Any]]
    unmeasured: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, rows: NDArray[Any]) -> EventBatch:
        """Return the events of a mask or an index, copied to the host: few are taken, to stay pending or to be explained."""
        rows = to_device_of(rows, self.codes)
        return EventBatch(
            frame=frames.to_host(frames.select_rows(self.frame, rows)),
            evidence={name: to_host(kept[rows]) for name, kept in self.evidence.items()},
            unmeasured={name: to_host(mask[rows]) for name, mask in self.unmeasured.items()},
            **{name: to_host(getattr(self, name)[rows]) for name in ARRAY_FIELDS},
        )

    def between(self, rows: slice) -> EventBatch:
        """Return neighbouring events of a batch on the host, which share its memory."""
        return EventBatch(
            frame=frames.slice_rows(self.frame, rows),
            evidence={name: kept[rows] for name, kept in self.evidence.items()},
            unmeasured={name: mask[rows] for name, mask in self.unmeasured.items()},
            **{name: getattr(self, name)[rows] for name in ARRAY_FIELDS},
        )

    def has_evidence(self, detector: str) -> NDArray[np.bool_]:
        """Return whether a detector has measured each event, (N,)."""
        xp, count = namespace(self.codes), len(self.codes)
        if detector not in self.evidence:
            nothing: NDArray[np.bool_] = xp.zeros(count, bool)
            return nothing
        measured: NDArray[np.bool_] = (
            ~self.unmeasured[detector] if detector in self.unmeasured else xp.ones(count, bool)
        )
        return measured

    def has_all_evidence(self, detector: str) -> bool:
        """Return whether a detector is known to have measured all events."""
        return detector in self.evidence and detector not in self.unmeasured

    def with_evidence_of(
        self, detectors: Collection[str], columns: Sequence[str] | None = None
    ) -> EventBatch:
        """Return the events with the evidence of some detectors only, and with all columns or only `columns`."""
        frame = self.frame if columns is None else frames.select_columns(self.frame, columns)
        evidence = {name: kept for name, kept in self.evidence.items() if name in detectors}
        unmeasured = {name: mask for name, mask in self.unmeasured.items() if name in detectors}
        return replace(self, frame=frame, evidence=evidence, unmeasured=unmeasured)

    @property
    def owner(self) -> Hashes:
        """Return the hash of each entity (N,) as the state uses it: moved to the hash bucket of the principal that acted.

        An entity that principals share (granularity `service`) is counted separately in each of their buckets.
        """
        return hashing.rebucket(self.principal, self.entity)

    @property
    def is_write(self) -> NDArray[np.bool_]:
        """Return whether each event changed something, (N,)."""
        wrote: NDArray[np.bool_] = to_device_of(encoding.FEATURE_SET.is_write(self.frame), self.codes)
        return wrote

    @property
    def kind(self) -> Hashes:
        """Return the hash of each event's kind of principal, (N,)."""
        kinds: Hashes = to_device_of(hashing.hash_strings(frames.texts_of(self.frame, "kind")), self.codes)
        return kinds

    @property
    def is_error(self) -> NDArray[np.bool_]:
        """Return whether each event was refused or failed, (N,)."""
        error = frames.column_of(self.frame, "error_code")
        failed: NDArray[np.bool_] = to_device_of(frames.present_mask(error), self.codes)
        return failed


_PARTS_BY_DETECTOR = ("evidence", "unmeasured")
ARRAY_FIELDS = tuple(
    field.name for field in fields(EventBatch) if field.name not in ("frame", *_PARTS_BY_DETECTOR)
)


def concat_batches(parts: list[EventBatch]) -> EventBatch:
    """Return the concatenation of batches on the host, at least one.

    Where a detector has measured only some of the batches, its evidence is 0 for the others.
    """
    detectors = dict.fromkeys(name for part in parts for name in part.evidence)
    missing = {
        name: np.concatenate([~part.has_evidence(name) for part in parts])
        for name in detectors
        if not all(part.has_all_evidence(name) for part in parts)
    }
    return EventBatch(
        frame=frames.concat_frames([part.frame for part in parts]),
        evidence={name: _concat_evidence(parts, name) for name in detectors},
        unmeasured={name: mask for name, mask in missing.items() if mask.any()},
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAY_FIELDS},
    )


def _concat_evidence(parts: list[EventBatch], detector: str) -> NDArray[Any]:
    known = next(part.evidence[detector] for part in parts if detector in part.evidence)
    return np.concatenate(
        [
            part.evidence[detector]
            if detector in part.evidence
            else np.zeros((len(part), *known.shape[1:]), known.dtype)
            for part in parts
        ]
    )


class Verdicts(NamedTuple):
    """Judged events of alerts, on the host: the batch (N events), and its frame with the columns of the judgement.

    `take` returns ColumnTables, because alerts take few rows many times, and explaining one reads some hundred columns.
    """

    batch: EventBatch
    frame: frames.Frame

    def take(self, rows: NDArray[Any]) -> Verdicts:
        """Return the verdicts of a mask (N,) or an index (M,)."""
        batch = self.batch.take(rows)
        return Verdicts(
            replace(batch, frame=frames.to_column_table(batch.frame)),
            frames.to_column_table(frames.to_host(frames.select_rows(self.frame, rows))),
        )

    def between(self, rows: slice) -> Verdicts:
        """Return neighbouring verdicts, which share the memory of these."""
        return Verdicts(self.batch.between(rows), frames.slice_rows(self.frame, rows))

    @classmethod
    def concat(cls, parts: list[Verdicts]) -> Verdicts:
        """Return the concatenated verdicts of parts, at least one."""
        frame = frames.concat_frames([part.frame for part in parts])
        return cls(concat_batches([part.batch for part in parts]), frame)
