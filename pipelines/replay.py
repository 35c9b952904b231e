"""Send records of files, folders and S3 to a topic, at a rate of choice: for demonstrations, backtests and backfills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fingerprint.adapters import files
from fingerprint.adapters.files import SourceFile
from fingerprint.adapters.system import SystemClock
from fingerprint.core.ports.clock import Clock
from fingerprint.core.ports.message_stream import Producer
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME
from fingerprint.streaming.record_replayer import RecordReplayer
from fingerprint.streaming.replay_rate import ReplayRate
from pipelines.cli.console import Progress
from pipelines.runtime import wiring
from pipelines.runtime.input_check import find_input


def run_replay(
    sources: list[str],
    topic: str | None,
    settings: Settings,
    progress: Progress,
    rate: float | None = None,
    speed: float | None = None,
    keyed: bool = False,
) -> dict[str, Any]:
    """Run `fingerprint replay` and return its figures."""
    pace = ReplayRate(rate, speed)
    found = find_input(sources, ALL_TIME)  # raises for missing sources, before a broker is used
    with wiring.open_producer(settings.kafka) as producer:
        return replay_records(
            found.files,
            topic or settings.kafka.raw_topic,
            producer,
            settings,
            SystemClock(),
            progress,
            pace,
            keyed,
        )


def replay_records(
    found: Sequence[SourceFile],
    topic: str,
    producer: Producer,
    settings: Settings,
    clock: Clock,
    progress: Progress,
    pace: ReplayRate,
    keyed: bool = False,
) -> dict[str, Any]:
    """Send the records of the files `found` to `topic`, file by file; return the figures of `replay --json`.

    With `keyed` each message has its principal as key, so the scorer can read the topic directly. Unreadable records are counted.
    """
    of = files.total_size(found)
    replaying = RecordReplayer(topic, producer, clock, pace, settings.kafka.delivery_timeout_seconds)
    read = 0

    def stored(count: int) -> None:
        nonlocal read
        read += count
        progress("replaying bytes", read, of)

    for records in files.read_files(found, settings.reading, stored):
        replaying.send(records, settings, keyed)
    producer.flush()
    return replaying.figures()
