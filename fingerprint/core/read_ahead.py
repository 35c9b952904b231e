"""Read ahead: a thread makes the next item of an iterator while this one is worked on.

Example:
    >>> for events in read_ahead(history.batches()):     # the disk and Arrow beside the scoring
    ...     pipeline.process(events)

It pays where making an item waits, or works outside Python's lock: zlib, Arrow, DuckDB, an object store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

T = TypeVar("T")

END: Any = object()  # after the last item


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the items of an iterator; one more than without it is in memory.

    What the iterator raises is raised where its item would have come. Who stops early waits for the item under way.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead") as thread:
        coming = thread.submit(next, iterator, END)
        while (item := coming.result()) is not END:
            coming = thread.submit(next, iterator, END)
            yield cast(T, item)
