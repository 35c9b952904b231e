"""Pieces of JSON text: depth outside strings, objects of a broken document, and items of a large array."""

from __future__ import annotations

import pytest

from fingerprint.sources import json_pieces
from fingerprint.sources.json_pieces import array_items, json_depth, recover_objects


def test_depth_ignores_brackets_in_strings() -> None:
    assert json_depth(rb'{"a": ["{{{\"[[", {"b": []}]}') == 4


def test_unclosed_quotes_are_cut_in_linear_steps() -> None:
    pieces = list(recover_objects(b'{"a": "' + rb"\"" * 200_000))
    assert [closed for _, closed in pieces] == [False]


def test_a_broken_object_does_not_cost_its_neighbours() -> None:
    found = list(recover_objects(b'{"a": 1}, {"a": {"b": 2}, {"a": 3}'))
    assert [piece for piece, closed in found if closed] == [b'{"a": 1}', b'{"a": 3}']


@pytest.mark.parametrize("scan_bytes", [1, 7, 1 << 20])
def test_a_large_array_has_the_same_items_wherever_it_is_cut(
    scan_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_pieces, "COMMA_SCAN_THRESHOLD", 1)
    monkeypatch.setattr(json_pieces, "SCAN_BYTES", scan_bytes)
    array = b'[{"a": "},{"}, {"b": [1, {"c": "\\",\\\\"}]}, "x,y", 5]'
    found = [item for items in array_items(array) for item in items]
    assert found == [b'{"a": "},{"}', b'{"b": [1, {"c": "\\",\\\\"}]}', b'"x,y"', b"5"]
