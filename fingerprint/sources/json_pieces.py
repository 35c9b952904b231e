"""Pieces of JSON text: the items of an array, the objects of a broken document, and the depth of nesting.

Example:
    >>> [*array_items(b'[{"a": 1}, {"a": 2}]')]
    [[b'{"a": 1}', b'{"a": 2}']]
    >>> [*recover_objects(b'{"a": 1} {"a": 2')]
    [(b'{"a": 1}', True), (b'{"a": 2', False)]

All functions and regular expressions take time linear in the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from fingerprint.sources.json_text import BLANK

SCAN_BYTES = 1 << 20  # bytes scanned at a time: they fit into a processor's cache
# An array with fewer is decoded at once; with more a window at a time, for its items need memory
COMMA_SCAN_THRESHOLD = 1 << 17
_FIRST_KEY = re.compile(rb'\{\s*("[^"\\]{1,64}")\s*:')
# A string that is not closed goes to the end, also where that is a lone backslash: were it no match, every quote in it would be
# tried as a new beginning. Of what lies between two runs of braces nothing is a match by itself, and the end is one.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BRACES = re.compile(rb'(?:[^"{}]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+(\{++|\}++|\Z)', re.DOTALL)
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
_items = msgspec.json.Decoder(list[msgspec.Raw])


def array_items(data: bytes) -> Iterator[list[bytes] | bytes]:
    """Yield the items of a JSON array, some at a time; or the text that should have them, if it is no JSON.

    A list of all items would take a hundred times the memory of their text. An item probably ends at `},{"key":`. It does if the
    text before can be decoded; if not, brackets are counted.
    """
    if data.count(b",") < COMMA_SCAN_THRESHOLD:
        yield _decode_array(data)
        return
    start, key = 1, _FIRST_KEY.search(data)
    while key and (border := _record_boundary(key[1]).search(data, start + SCAN_BYTES)):
        if isinstance(items := _decode_array(b"[" + data[start : border.start()] + b"]"), bytes):
            break
        yield items
        start = border.end()
    for comma in _commas(data, start):
        yield _decode_array(b"[" + data[start:comma] + b"]")
        start = comma + 1
    yield _decode_array(b"[" + data[start:])


def _decode_array(array: bytes) -> list[bytes] | bytes:
    try:
        return [bytes(item) for item in _items.decode(array)]
    except _UNREADABLE:
        return array


def _commas(data: bytes, begin: int) -> Iterator[int]:
    """Yield places of commas between the items of a JSON array, from `begin` on: the last one in each chunk that has any."""
    slashes, level = 0, 1  # backslashes at the end of the scanned text; depth of nesting there
    quoted = False
    for start in range(begin, len(data), SCAN_BYTES):
        text = np.frombuffer(data, np.uint8, min(SCAN_BYTES, len(data) - start), start)
        escaped, slashes = _escaped_mask(text, slashes)
        outside = np.logical_xor.accumulate((text == 0x22) & ~escaped) == quoted
        quoted = not outside[-1]
        structure = np.where(outside, text | 0x20, 0)  # [ and { become {, ] and } become }
        levels = np.cumsum((structure == 0x7B).astype(np.int64) - (structure == 0x7D)) + level
        level = int(levels[-1])
        if len(found := np.flatnonzero((text == 0x2C) & outside & (levels == 1))):
            yield start + int(found[-1])


def _escaped_mask(text: NDArray[np.uint8], before: int) -> tuple[NDArray[np.bool_], int]:
    """Return a mask of bytes after an odd number of backslashes, and how many end the text; `before` are before the text."""
    place = np.arange(len(text))
    other = np.maximum.accumulate(np.where(text == 0x5C, -1 - before, place))  # the last byte that is none
    run = place - np.concatenate([[-1 - before], other[:-1]]) - 1
    return run % 2 == 1, len(text) - 1 - int(other[-1])


def json_depth(record: bytes) -> int:
    """Return the depth of nesting of objects and arrays, by brackets outside strings; it also works for broken JSON."""
    structure = np.frombuffer(_STRING.sub(b"", record), np.uint8) | 0x20  # [ and { become {, ] and } become }
    steps = (structure == 0x7B).astype(np.int64) - (structure == 0x7D)
    return int(np.cumsum(steps).max(initial=0))


def recover_objects(text: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the objects of a broken document, and whether each is closed. A broken object never costs its neighbours.

    Records begin with the same key, so `}, {"eventVersion":` is a border, which no string can have (its quotes would be escaped).
    Between borders, objects are cut by balanced braces outside strings, in one pass.
    """
    first = _FIRST_KEY.search(text)
    if first is None:
        yield from ([(text, False)] if text.strip(BLANK + b",[]{}") else [])
        return
    start = 0
    for match in _record_boundary(first[1]).finditer(text, first.start()):
        yield from _balanced(text[start : match.start()])
        start = match.end()
    yield from _balanced(text[start:])


def _record_boundary(key: bytes) -> re.Pattern[bytes]:
    """Return a pattern for the border between two records that begin with the same key (with its quotes)."""
    return re.compile(rb"(?<=\})\s*+(?:,\s*+)?+(?=\{\s*+" + re.escape(key) + rb"\s*+:)")


def _balanced(text: bytes) -> Iterator[tuple[bytes, bool]]:
    level = start = 0
    for braces in _BRACES.finditer(text):
        at, end = braces.span(1)
        if text[at : at + 1] == b"{":
            start = start if level else at
            level += end - at
        elif level:
            level -= end - at
            if level <= 0:
                level, end = 0, end + level
                yield text[start:end], True
    if level:
        yield text[start:], False
