"""Read ahead: a thread makes the next item of an iterator while the caller works on the current one.

Example:
    >>> for events in read_ahead(history.batches()):     # disk and Arrow work while the events are scored
    ...     pipeline.process(events)

It pays if making an item waits, or works without the GIL: an object store, zlib, Arrow, DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

T = TypeVar("T")

END: Any = object()  # after the last item


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the items of an iterator, at the cost of one more item in memory.

    An error of the iterator is raised in place of its item. A caller that stops early waits for the item under way.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead") as thread:
        coming = thread.submit(next, iterator, END)
        while (item := coming.result()) is not END:
            coming = thread.submit(next, iterator, END)
            yield cast(T, item)
