"""Tasks of an evaluation: how many run at a time, where they run, and in which order their results come."""

from __future__ import annotations

import os

import pytest

from pipelines.cli.console import no_progress
from pipelines.evaluation.side_by_side import run_tasks, workers_for
from tests.support.numbered_task import NumberedTask


def test_tasks_run_side_by_side_as_far_as_cores_and_memory_go() -> None:
    assert workers_for(12, 200, cores=4, memory=1 << 40) == 4
    assert workers_for(2, 200, cores=16, memory=1 << 40) == 2
    assert workers_for(12, 200, cores=16, memory=1 << 30) == 1, "one at a time where memory is short"
    assert workers_for(12, 500, cores=16, memory=40 << 30) < workers_for(12, 60, cores=16, memory=40 << 30)


def test_tasks_run_in_processes_of_their_own_and_come_in_the_order_that_was_asked_for() -> None:
    ran = run_tasks([NumberedTask(1), NumberedTask(2)], 2, no_progress, "tasks")
    assert [number for number, _, _ in ran] == [1, 2]
    assert os.getpid() not in {process for _, process, _ in ran}
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert {each for _, _, each in ran} == {threads}, "a library was there before its threads were limited"


@pytest.mark.parametrize("workers", [1, 2])
def test_how_many_are_done_is_told(workers: int) -> None:
    told: list[tuple[str, int, int | None]] = []
    run_tasks(
        [NumberedTask(1), NumberedTask(2)],
        workers,
        lambda what, done, of=None: told.append((what, done, of)),
        "tasks",
    )
    assert told == [*([("tasks", 0, 2)] if workers == 2 else []), ("tasks", 1, 2), ("tasks", 2, 2)]
