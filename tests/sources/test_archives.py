"""Files and objects in batches of bounded size, whatever they hold."""

from __future__ import annotations

from fingerprint.sources.archives import rebatch
from fingerprint.sources.base import RecordBatch


def test_what_is_no_event_by_design_fills_batches_too() -> None:
    """An object of nothing else was one batch: who reads it could not give it up, nor say that it is still at work."""
    parts = (RecordBatch([], [], [], skipped=8) for _ in range(3))
    assert [each.skipped for each in rebatch(parts, batch_records=10)] == [8, 8, 8]


def test_small_parts_become_one_batch() -> None:
    parts = (RecordBatch([line], [("a.json", "1")], [], skipped=1) for line in (b"{}", b"[]", b"1"))
    assert [(each.lines, each.skipped) for each in rebatch(parts, batch_records=4)] == [
        ([b"{}", b"[]"], 2),
        ([b"1"], 1),
    ]
