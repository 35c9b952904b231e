"""Tasks of an evaluation in parallel, each in a process of its own: worlds, weeks of retraining.

Example:
    >>> workers_for(12, 200, cores=16, memory=64 << 30)
    12
    >>> run_tasks([task], 1, no_progress, "worlds")         # in this process
    [EvaluatedWorld(...)]

The number of workers changes no figure.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Protocol, TypeVar

from pipelines.cli.console import Progress, no_progress
from pipelines.runtime import host

# Memory that a world takes at most, measured with 60 to 200 principals: a fixed part, and a part for each principal
BYTES_PER_PRINCIPAL = 12 << 20
BYTES_PER_WORLD = 1 << 30

Result = TypeVar("Result", covariant=True)


class EvaluationTask(Protocol[Result]):
    """Work for a process. The task and its result can be pickled."""

    def run(self, progress: Progress = no_progress) -> Result:
        """Return the result."""


def workers_for(tasks: int, principals: int, cores: int | None = None, memory: int | None = None) -> int:
    """Return how many tasks with `principals` principals each run at a time: as many as cores and free memory (bytes) allow.

    >>> workers_for(12, 200, cores=16, memory=12 << 30)
    3
    """
    cores = cores or len(os.sched_getaffinity(0))
    memory = memory or host.available_bytes()
    fit = memory // (BYTES_PER_WORLD + BYTES_PER_PRINCIPAL * principals)
    return max(1, min(tasks, cores, fit))


def run_tasks(
    tasks: Sequence[EvaluationTask[Result]], workers: int, progress: Progress, what: str
) -> list[Result]:
    """Return the results in the order of the tasks; the first failure ends all. `what` names the tasks in the progress."""
    if workers == 1:
        return [_run_here(task, number, len(tasks), progress, what) for number, task in enumerate(tasks, 1)]
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    pool = ProcessPoolExecutor(
        workers,
        multiprocessing.get_context("spawn"),  # a fork would lose the threads of DuckDB
        initializer=host.limit_threads,
        initargs=(threads,),
        max_tasks_per_child=1,  # so that a task's peak memory is its own
    )
    progress(what, 0, len(tasks))
    with pool:
        futures = [pool.submit(task.run) for task in tasks]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                progress(what, done, len(tasks))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [future.result() for future in futures]


def _run_here(task: EvaluationTask[Result], number: int, count: int, progress: Progress, what: str) -> Result:
    progress(what, number, count)
    return task.run(progress)
