"""The columnar store agrees with a dictionary, whatever is added in whatever pieces."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import fake_cupy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.compute import sorted_table
from fingerprint.compute.sorted_table import SortedTable, expand_ranges, find_sorted, rank_in_run

pieces = st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=8)


@given(pieces)
def test_sums_agree_with_a_counter(parts: list[list[int]]) -> None:
    table, plain = SortedTable.empty(count=np.float32), Counter[int]()
    for part in parts:
        table.add(np.array(part, np.uint64), count=np.ones(len(part)))
        plain.update(part)
    wanted = np.arange(45, dtype=np.uint64)
    assert table.get(wanted, "count").tolist() == [plain[int(key)] for key in wanted]
    assert table.has(wanted).tolist() == [int(key) in plain for key in wanted]
    assert len(table) == len(plain)


@given(pieces)
def test_keep_first_keeps_what_came_first(parts: list[list[int]]) -> None:
    table, plain = SortedTable.empty(keep_first=True, turn=np.int32), {}
    for turn, part in enumerate(parts):
        table.add(np.array(part, np.uint64), turn=np.full(len(part), turn))
        for key in part:
            plain.setdefault(key, turn)
    wanted = np.arange(45, dtype=np.uint64)
    assert table.get(wanted, "turn", missing=-1).tolist() == [plain.get(int(key), -1) for key in wanted]


def test_parts_are_merged_as_they_grow_and_nothing_is_lost(monkeypatch) -> None:
    monkeypatch.setattr(sorted_table, "MIN_PART", 10)
    table = SortedTable.empty(count=np.float32)
    most = 0
    for start in range(0, 504, 7):
        table.add(np.arange(start, start + 7, dtype=np.uint64), count=np.full(7, start))
        sizes = [len(part) for part, _ in table.parts]
        assert all(longer >= max(10, 8 * shorter) for longer, shorter in pairwise(sizes))
        assert len(table) == sum(sizes) == start + 7
        assert table.get(np.array([0, start], np.uint64), "count").tolist() == [0, start]
        most = max(most, len(sizes))
    assert most > 1
    keys, columns = table.compact()
    assert keys.tolist() == list(range(504))
    assert columns["count"].tolist() == [key // 7 * 7 for key in range(504)]


def test_put_and_keep_change_only_what_they_name() -> None:
    table = SortedTable.empty(count=np.float32)
    table.add(np.array([1, 2, 3], np.uint64), count=np.array([1, 1, 1]))
    table.overwrite(np.array([2, 9], np.uint64), "count", np.array([5, 5], np.float32))
    table.retain(table.compact()[0] != 1)
    assert table.get(np.array([1, 2, 3, 9], np.uint64), "count", missing=-1).tolist() == [-1, 5, 1, -1]


def test_find_says_what_is_not_there() -> None:
    place, found = find_sorted(np.array([2, 4, 6]), np.array([1, 2, 6, 7]))
    assert found.tolist() == [False, True, True, False]
    assert place[found].tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [bool, np.int32, np.int64, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize("key", [np.uint64, np.int64])
def test_a_column_of_any_type_is_read_where_a_key_is_there(key: type, dtype: type) -> None:
    table = SortedTable.empty(keep_first=True, key=key, column=dtype)
    table.add(np.array([9, 2, 5], key), column=np.array([1, 0, 1]))
    table.parts.append(
        (np.array([3, 7], key), {"column": np.array([0, 1], dtype)})
    )  # as more rows would make
    read = table.get(np.array([7, 9, 1, 2, 8, 3], key), "column", missing=1)
    assert read.dtype == dtype
    assert read.tolist() == [1, 1, 1, 0, 1, 0]


def test_ranges_lists_every_place_of_every_range() -> None:
    which, place = expand_ranges(np.array([0, 5, 9]), np.array([2, 5, 11]))
    assert list(zip(which.tolist(), place.tolist(), strict=True)) == [(0, 0), (0, 1), (2, 9), (2, 10)]


@given(pieces, st.lists(st.tuples(st.integers(0, 44), st.integers(0, 44)), max_size=6))
def test_rows_between_keys_are_those_of_both_parts(
    parts: list[list[int]], asked: list[tuple[int, int]]
) -> None:
    """Whether they were merged or not; a range whose end lies before its start is empty."""
    table, plain = SortedTable.empty(count=np.float32), Counter[int]()
    for place, part in enumerate(parts):
        table.add(np.array(part, np.uint64), count=np.ones(len(part)))
        plain.update(part)
        if place == len(parts) // 2:
            table.compact()
    first, last = (np.array([each[end] for each in asked], np.uint64) for end in (0, 1))
    which, keys, columns = table.between(first, last)
    found = sorted(zip(which.tolist(), keys.tolist(), columns["count"].tolist(), strict=True))
    assert found == sorted(
        (number, key, plain[key])
        for number, (low, high) in enumerate(asked)
        for key in plain
        if low <= key <= high
    )


@pytest.mark.parametrize("library", [np, fake_cupy])
@pytest.mark.parametrize("keys", [[], [3], [1, 1, 2, 5, 5, 5, 9]])
def test_a_rank_counts_those_before_in_the_run(library, keys: list[int]) -> None:
    rank = rank_in_run(library.asarray(np.array(keys, np.uint64)))
    assert rank.tolist() == [keys[:place].count(key) for place, key in enumerate(keys)]
