"""Checkpoints of the stream: what a scorer would restore, by partition."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fingerprint.adapters.checkpoints import FileCheckpointStore
from fingerprint.adapters.checkpoints.store import CheckpointSummary
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import format_iso


def list_checkpoints(settings: Settings) -> list[dict[str, Any]]:
    """Return the latest checkpoint of each partition: the figures of `checkpoints list --json`."""
    return [_checkpoint_row(each) for each in FileCheckpointStore(settings.checkpoints).list_summaries()]


def print_checkpoints(found: list[dict[str, Any]]) -> None:
    """Print the checkpoints, one a line."""
    for each in found:
        fence = f"{each['era']}-{each['generation']}-{each['sequence']}"
        print(
            f"{each['topic']}/{each['partition']}  offset {each['offset']:,}, fence {fence}, written {each['written']}, "
            f"{each['bytes']:,} bytes, {each['checkpoints']} kept"
        )
    print(f"partitions with a checkpoint: {len(found):,}")


def _checkpoint_row(summary: CheckpointSummary) -> dict[str, Any]:
    return {
        "topic": summary.partition.topic,
        "partition": summary.partition.number,
        "offset": summary.offset,
        **summary.fence._asdict(),
        "written": _iso_time(summary.written_at),
        "bytes": summary.size_bytes,
        "checkpoints": summary.checkpoint_count,
    }


def _iso_time(seconds: float) -> str:
    if seconds == float("inf"):
        return "the store does not say when"
    return format_iso(datetime.fromtimestamp(seconds, UTC), "seconds")
