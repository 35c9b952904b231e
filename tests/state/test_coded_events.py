"""Coded events: what follows from a record is the same however the events were cut, on the host and where a device keeps them."""

from __future__ import annotations

import fake_cudf
import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import arrays, frames
from fingerprint.core.settings import Entities
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from fingerprint.state.coded_events import CodedEvents, code_events
from tests.support import record_corpus

ARRAYS = ("seconds", "principal", "entity", "key", "codes")


@pytest.fixture(scope="module", params=["pandas", fake_cudf.__name__])
def events(request: pytest.FixtureRequest) -> frames.Frame:
    real = flatten(split_lines(record_corpus.real()["schema_variety"])).events
    return frames.to_device(add_entity_columns(real, Entities()), request.param)


def assert_same(one: CodedEvents, other: CodedEvents) -> None:
    pd.testing.assert_frame_equal(frames.to_pandas(one.frame), frames.to_pandas(other.frame))
    for name in ARRAYS:
        here, there = (arrays.to_host(getattr(each, name)) for each in (one, other))
        np.testing.assert_array_equal(here, there, err_msg=name)


def test_some_of_coded_events_are_what_coding_them_gives(events: frames.Frame) -> None:
    mask = np.arange(len(events)) % 3 == 1
    coded = code_events(events)
    for which in (mask, np.flatnonzero(mask)):
        assert_same(coded.take(which), code_events(frames.select_rows(events, which)))
    end = len(events) - 3
    assert_same(coded.between(5, end), code_events(frames.select_rows(events, np.arange(5, end))))


def test_parts_together_are_the_whole(events: frames.Frame) -> None:
    coded = code_events(events)
    parts = [coded.between(0, 20), coded.between(20, 21), coded.between(21, len(coded))]
    assert_same(CodedEvents.concat(parts), coded)


def test_what_is_coded_or_whole_is_not_made_again(events: frames.Frame) -> None:
    coded = code_events(events)
    assert code_events(coded) is coded
    assert coded.between(0, len(coded)) is coded
    if frames.is_host_frame(events):
        assert coded.take(np.ones(len(coded), bool)) is coded


def test_no_events_are_coded_as_none() -> None:
    assert len(code_events(pd.DataFrame())) == 0
