"""Batches go through the spool as one batch after the other does, in whatever order they come, and what fails is raised."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import frames
from fingerprint.compute.column_table import ColumnTable
from fingerprint.core.settings import Settings
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import RecordBatch
from tests.support import sample_organisation

SETTINGS = Settings()
ROWS = 500


@pytest.fixture(scope="module")
def batches(organisation: sample_organisation.SampleOrganisation) -> list[RecordBatch]:
    """The new records of the organisation, the last days first, and in the middle a line that is none."""
    lines = sample_organisation.lines_of(organisation.new)[::-1]
    lines.insert(len(lines) // 2, b"{broken")
    return [SOURCE.split_lines(lines[start : start + ROWS]) for start in range(0, len(lines), ROWS)]


def test_batches_say_what_their_records_say_one_batch_after_the_other(batches: list[RecordBatch]) -> None:
    with EventSpool(SETTINGS) as single, EventSpool(SETTINGS) as ahead:
        for each in batches:
            single.add_batches([each])
        said: list[tuple[str, int]] = []
        ahead.add_batches(iter(batches), lambda *report: said.append(report))
        assert ahead.figures() == single.figures()
        assert ahead.rejected == 1
        pd.testing.assert_frame_equal(pd.concat(ahead.batches()), pd.concat(single.batches()))
        assert [stage for stage, _ in said] == ["reading records"] * len(batches)
        assert said[-1] == ("reading records", ahead.records)


def test_events_come_back_in_the_order_of_time(batches: list[RecordBatch]) -> None:
    with EventSpool(SETTINGS) as spool:
        spool.add_batches(batches)
        times = pd.concat(spool.batches())["event_time"]
    assert len(times) == sum(len(each.lines) for each in batches) - 1
    assert times.is_monotonic_increasing


def test_tables_to_score_are_the_same_events(batches: list[RecordBatch]) -> None:
    settings = SETTINGS.model_copy(
        update={"reading": SETTINGS.reading.model_copy(update={"batch_records": 300})}
    )
    with EventSpool(settings) as spool:
        spool.add_batches(batches)
        tables, expected = list(spool.batches_to_score()), list(spool.batches())
    sizes = [len(each) for each in tables]
    assert sizes == [len(each) for each in expected]
    assert {*sizes[:-1]} == {300}
    assert 0 < sizes[-1] <= 300
    assert sum(sizes) == spool.events > 3 * 300
    for table, events in zip(tables, expected, strict=True):
        assert isinstance(table, ColumnTable)
        pd.testing.assert_frame_equal(
            frames.to_pandas(table)[[*events]].astype({"raw": object}),
            frames.with_object_texts(events)[[*events]],
        )


def test_columns_that_are_not_asked_for_are_not_kept(batches: list[RecordBatch]) -> None:
    columns = ["event_id", "event_time", "principal", "entity"]
    with EventSpool(SETTINGS) as whole, EventSpool(SETTINGS, columns=columns) as spool:
        for each in (whole, spool):
            each.add_batches(batches)
        kept, expected = (pd.concat(each.batches()) for each in (spool, whole))
    assert [*kept] == [*columns, "network", "raw"]
    pd.testing.assert_frame_equal(kept, expected[[*kept]])


def test_what_a_reader_raises_is_raised_once_what_came_before_is_added(batches: list[RecordBatch]) -> None:
    def torn() -> Iterator[RecordBatch]:
        yield from batches[:2]
        raise OSError("the network is gone")

    with EventSpool(SETTINGS) as spool:
        with pytest.raises(OSError, match="the network is gone"):
            spool.add_batches(torn())
        assert spool.records == 2 * ROWS
