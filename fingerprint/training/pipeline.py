"""Training pipeline: history -> bank.

Example:
    >>> bank = train(chunks, settings, progress)        # chunks: events with entities, oldest first
    >>> int(bank.fingerprints["ready"].sum())
    412

    partition ─▶ collect ─▶ index ─▶ count ─▶ fit shared ─▶ fit ─▶ calibrate ─▶ finish ─▶ assemble
                 partition           partition              partition           partition

Stages marked `partition` work on each partition by itself, here or on other machines (`worker_pool.WorkerPool`). The others
combine the small results of all partitions. Memory follows the size of a partition, not that of the history. Every stage writes
its files completely or not at all: a training that is started again in the same folder continues where it was.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pandas as pd

from fingerprint.compute import frames, hashing
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.worker_pool import WorkerPool
from fingerprint.core.settings import Settings
from fingerprint.registry.bank import Bank
from fingerprint.sources.active import SOURCE
from fingerprint.sources.arrival import wall_clock_ms
from fingerprint.state.event_clock import EventClock
from fingerprint.training import (
    action_transitions,
    build_bank,
    distinct_rows,
    fingerprint_index,
    partition_finish,
    partition_fit,
    shared_priors,
)
from fingerprint.training.dataset import PartitionedDataset, partition_count, write_json, write_partitions
from fingerprint.training.nn.trainer import InitialWeights

Progress = Callable[[str, int, int], None]  # stage, done, of
Stage = Callable[[int], int | Path]  # number of a partition -> how much was done

SPLIT_FILE = "split.json"  # written last: the whole history is there


def train(
    chunks: Iterable[pd.DataFrame],
    settings: Settings,
    progress: Progress = lambda *_: None,
    events: int = 0,
) -> Bank:
    """Learn all fingerprints of a history given as chunks of events with entities, oldest first, in this process.

    The approximate number of `events` determines the number of partitions; without it there is one. Raise FingerprintError if the
    history is empty.
    """
    with tempfile.TemporaryDirectory(prefix="fingerprint-training-") as folder:
        partition_history(chunks, settings, Path(folder), events, progress)
        return train_partitions(Path(folder), settings, progress)


def partition_history(
    chunks: Iterable[pd.DataFrame],
    settings: Settings,
    folder: Path,
    events: int = 0,
    progress: Progress = lambda *_: None,
    arrived_until: int | None = None,
    end: int | None = None,
) -> None:
    """Write a history of about `events` events to `folder`, in partitions. Raise FingerprintError if it has no event.

    `arrived_until` (seconds since 1970, by default now): records that arrived later cannot be in the history. `end` (by default
    the watermark of an `EventClock`): the time at which its activity ended.
    """
    clock, total = EventClock(settings.spectral.interval_seconds), 0
    # Entities that principals share would be spread over several partitions.
    shared = settings.entities.granularity == "service"
    count = 1 if shared else partition_count(events, settings.training.partition_events)
    arrived_until = wall_clock_ms() // 1000 if arrived_until is None else arrived_until

    def on_chunk(chunk: pd.DataFrame) -> None:
        nonlocal total
        clock.observe(frames.epoch_seconds(chunk["event_time"]), hashing.hash_with_bucket(chunk["principal"]))
        total += len(chunk)
        progress("splitting history", total, events)

    write_partitions((chunk for chunk in chunks if len(chunk)), folder, count, on_chunk)
    if not total:
        shutil.rmtree(folder)
        raise FingerprintError(
            f"there is no event to learn from: name a file or folder with {SOURCE.NAME} records"
        )
    watermark = clock.watermark if end is None else end
    write_json(folder / SPLIT_FILE, count=count, watermark=watermark, arrived_until=arrived_until)


def train_partitions(
    folder: Path,
    settings: Settings,
    progress: Progress = lambda *_: None,
    workers: WorkerPool | None = None,
    start: InitialWeights | None = None,
) -> Bank:
    """Learn the history that was partitioned into `folder`, and continue after the stages that are done.

    The generic network starts from `start`. The bank maps arrays in the folder, which may be deleted once the bank is written or
    no longer used.
    """
    dataset = PartitionedDataset(folder, **json.loads((folder / SPLIT_FILE).read_text()))
    each = partial(_run_stage, dataset, workers, progress)
    each("collecting", partial(distinct_rows.collect_rows, dataset, settings=settings))
    index = fingerprint_index.build_index(dataset, settings)
    fingerprint_index.save_index(index, dataset)
    each("counting", partial(shared_priors.count_shared, dataset, settings=settings))
    each("counting sequences", partial(action_transitions.count_partition, dataset))
    action_transitions.merge_shared(dataset)
    each("judging sequences", partial(action_transitions.calibrate_partition, dataset))
    shared_priors.fit_shared(dataset, settings, start)
    each(
        "fitting",
        partial(partition_fit.fit_partition, dataset, settings=settings),
        int(index.table["ready"].sum()),
    )
    shared_priors.calibrate_shared(dataset)
    each(
        "finishing", partial(partition_finish.finish_partition, dataset, settings=settings), len(index.table)
    )
    return build_bank.assemble_bank(dataset, index, settings)


def _run_stage(
    dataset: PartitionedDataset,
    workers: WorkerPool | None,
    progress: Progress,
    name: str,
    stage: Stage,
    total: int | None = None,
) -> None:
    """Run one stage on all partitions; `total` is the sum of their figures, for progress. Without it partitions are counted."""
    numbers, done = dataset.non_empty(), 0
    for _, figure in workers.map_unordered(stage, numbers) if workers else enumerate(map(stage, numbers)):
        done += figure if isinstance(figure, int) else 1
        progress(name, done, total or len(numbers))
