"""What compiled code finds in joined lines is what Python finds in each of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.sources import compiled_lines
from fingerprint.sources.joined_lines import join_lines

TEXTS = st.text(st.sampled_from('[]{}"ab;KZ'), max_size=20).map(str.encode)


@given(st.lists(st.tuples(TEXTS, st.integers(0, 700)).map(lambda pair: pair[0] * pair[1]) | st.binary()))
def test_brackets_are_counted_line_by_line(lines: list[bytes]) -> None:
    text, borders = join_lines(lines)
    opening = np.full(len(lines), -1)
    compiled_lines.count_brackets(np.frombuffer(text, np.uint8), borders, opening)
    assert opening.tolist() == [line.count(b"{") + line.count(b"[") for line in lines]
