"""Items that a thread makes ahead: the same ones in the same order, errors in their place, and no thread stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.core.read_ahead import read_ahead


@given(st.lists(st.none() | st.integers()))
def test_the_items_come_in_their_order(items: list[int | None]) -> None:
    assert list(read_ahead(items)) == items


def test_the_next_item_is_made_while_this_one_is_worked_on() -> None:
    made = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, each in enumerate(made):
            each.set()
            yield number

    for number in read_ahead(items()):
        if number < 2:
            assert made[number + 1].wait(10), "the next one is made beside it"
        assert not any(each.is_set() for each in made[number + 2 :]), "and no other"


def test_an_error_comes_where_its_item_would_have_come() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("the second cannot be read")

    found = read_ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="the second cannot be read"):
        next(found)


def test_who_stops_early_leaves_no_thread_and_no_open_iterator() -> None:
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.set()

    found = read_ahead(items())
    assert next(found) == 0
    found.close()
    del found
    assert closed.wait(10)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]
