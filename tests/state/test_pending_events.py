"""Pending events: few parts, closed intervals leave them, and too many of an interval are shared fairly by principals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.state import pending_events
from fingerprint.state.event_batch import EventBatch
from fingerprint.state.pending_events import PendingEvents


def events_of(principals: list[int], intervals: list[int], priority: list[float] | None = None) -> EventBatch:
    """Return a batch of events whose id says their place, whose evidence is their priority."""
    count = len(principals)
    hashes, zeros = np.array(principals, np.uint64), np.zeros(count, np.int32)
    return EventBatch(
        frame=pd.DataFrame({"event_id": [f"e{place}" for place in range(count)]}),
        codes=np.zeros((count, 1), np.uint64),
        principal=hashes,
        entity=hashes,
        interval=np.array(intervals, np.int32),
        first_seen=zeros,
        fingerprint=zeros,
        level=zeros.astype(np.int8),
        evidence={"autoencoder": np.array([priority or [0.0] * count], np.float32).T},
    )


def priority_of(batch: EventBatch) -> np.ndarray:
    return batch.evidence["autoencoder"][:, 0]


def ids_of(batch: EventBatch | None) -> list[str]:
    return [] if batch is None else batch.frame["event_id"].astype(str).tolist()


def test_events_of_closed_intervals_leave_and_the_others_stay() -> None:
    pending = PendingEvents([events_of([1, 2, 3], [5, 6, 5]), events_of([4], [7])])
    assert ids_of(pending.take_closed(6)) == ["e0", "e2"]
    assert pending.take_closed(6) is None
    assert [ids_of(part) for part in pending.parts] == [["e1"], ["e0"]]
    assert ids_of(pending.take_closed(8)) == ["e1", "e0"]
    assert len(pending) == 0
    assert pending.parts == []


def test_parts_without_events_of_the_principals_are_left_out() -> None:
    pending = PendingEvents([events_of([1, 2, 1], [5, 5, 5]), events_of([3], [5]), events_of([2], [5])])
    found = pending.rows_of(np.array([2, 9], np.uint64))
    assert [rows.tolist() for _, rows in found] == [[1], [0]]


def test_an_interval_with_too_many_is_shared_fairly_and_another_one_stays_whole() -> None:
    principals, intervals = [1, 1, 1, 2, 3, 3], [5, 5, 5, 5, 5, 6]
    pending = PendingEvents([events_of(principals, intervals, [9, 8, 7, 1, 2, 0])])
    assert pending.limit(4, priority_of) == 1
    assert ids_of(pending.joined()) == ["e0", "e1", "e3", "e4", "e5"]
    assert pending.limit(4, priority_of) == 0


def test_one_principal_keeps_no_more_than_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_events, "MAX_EVENTS_PER_PRINCIPAL", 2)
    pending = PendingEvents([events_of([1, 1], [5, 5], [1, 3]), events_of([1, 2], [5, 5], [2, 0])])
    assert pending.limit(100, priority_of) == 1
    assert priority_of(pending.joined()).tolist() == [3, 2, 0]
