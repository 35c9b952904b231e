"""What a person sees while a program works: progress on standard error, so that standard output stays for results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich import progress as bars
from rich.console import Console


class Progress(Protocol):
    def __call__(self, stage: str, done: int, of: int = 0) -> None:
        """`done` of `of` things (0: nobody knows how many) of a stage are done."""
        ...


def silent(stage: str, done: int, of: int = 0) -> None:
    """No progress at all: for tests and for programs that are called by programs."""


@contextmanager
def progress(shown: bool = True) -> Iterator[Progress]:
    """A bar per stage on standard error while the block runs."""
    if not shown:
        yield silent
        return
    columns = (
        bars.TextColumn("{task.description:<18}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed:>10,.0f}"),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True)) as display:
        tasks: dict[str, bars.TaskID] = {}

        def show(stage: str, done: int, of: int = 0) -> None:
            if stage not in tasks:
                for task in tasks.values():
                    display.update(task, total=display.tasks[task].completed or 1)
                tasks[stage] = display.add_task(stage, total=None)
            display.update(tasks[stage], completed=done, total=of or None)

        yield show
        for task in tasks.values():
            display.update(task, total=display.tasks[task].completed or 1)
