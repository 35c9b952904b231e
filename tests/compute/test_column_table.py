"""Tables whose rows are taken late: the same rows, columns and types as pandas has, however they were cut."""

from __future__ import annotations

import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fingerprint.compute import frames
from fingerprint.compute.column_table import FEW_ROWS, ColumnTable, to_array
from fingerprint.compute.dictionary import DictionaryEncoded
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.flatten import flatten
from tests.support import record_corpus

TIMES = ["event_time", "session_created"]
COLUMNS = ["event_id", *TIMES, "read_only", "action", "row"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return frames.with_object_texts(flatten(split_lines(record_corpus.real()["schema_variety"])).events)


@pytest.fixture
def table(frame: pd.DataFrame) -> ColumnTable:
    return ColumnTable.from_pandas(frame)


def test_pandas_gets_back_what_it_gave(frame: pd.DataFrame, table: ColumnTable) -> None:
    pd.testing.assert_frame_equal(table.to_pandas(), frame)
    assert (len(table), list(table)) == (len(frame), list(frame.columns))
    assert "action" in table
    assert "nothing" not in table
    for name in frame.columns:
        pd.testing.assert_series_equal(table[name], frame[name], check_names=False)


def test_rows_that_are_taken_again_and_again_are_those_of_pandas(
    frame: pd.DataFrame, table: ColumnTable
) -> None:
    few = table.take(np.arange(len(table))[::-2])
    assert (
        few.array("action").tolist() == frame["action"].tolist()[::-2]
    )  # one column is taken before the others
    more = few.with_columns({"number": np.arange(len(few))}).take(np.array([5, 0, 5]))
    expected = frame.iloc[::-2].iloc[[5, 0, 5]].reset_index(drop=True).assign(number=[5, 0, 5])
    pd.testing.assert_frame_equal(more.to_pandas()[[*expected]], expected)
    pd.testing.assert_frame_equal(more.select(COLUMNS).to_pandas()[COLUMNS], expected[COLUMNS])


def test_a_table_without_columns_has_its_rows(table: ColumnTable) -> None:
    none = table.select([])
    assert len(none.take(np.array([1, 2]))) == 2
    assert len(ColumnTable.concat([none, none.take(np.array([0])).compact()])) == len(table) + 1
    assert none.to_pandas().shape == (len(table), 0)


def test_parts_together_are_the_whole(frame: pd.DataFrame, table: ColumnTable) -> None:
    parts = [table.take(np.arange(0, 7)), table.take(np.arange(7, 8)), table.take(np.arange(8, len(table)))]
    pd.testing.assert_frame_equal(ColumnTable.concat(parts).to_pandas(), frame)


def test_what_a_part_lacks_is_missing_in_its_rows(frame: pd.DataFrame, table: ColumnTable) -> None:
    one = table.take(np.array([3])).with_columns({"network": np.array(["office"], object)})
    both = ColumnTable.concat([one, table.select(COLUMNS).take(np.array([4]))])
    assert both.array("network").tolist() == ["office", None]
    assert both.array("action").tolist() == frame["action"].tolist()[3:5]
    assert both.array("region").tolist() == [frame["region"][3], None]
    flags = ColumnTable.concat([one.select(["mfa"]), table.select(["action"]).take(np.array([4]))])["mfa"]
    assert len(flags) == 2
    assert pd.isna(flags[1])


def test_a_compact_table_keeps_no_other_rows_alive() -> None:
    class Record:
        """Stands for a record's bytes, and can be watched."""

    records = np.array([Record() for _ in range(10)], object)
    watched = weakref.ref(records[9])
    table = ColumnTable.of_arrays({"raw": records}, len(records))
    late, kept = table.take(np.array([2])), table.take(np.array([2])).compact()
    del table, records
    assert watched() is not None  # `late` still points into the whole
    del late
    assert watched() is None, "nothing holds it in a cycle either"
    assert isinstance(kept.array("raw")[0], Record)


@pytest.mark.parametrize("rows", [4, FEW_ROWS + 1])
def test_texts_of_pandas_become_pythons_own(rows: int) -> None:
    texts = pd.Series(["é", None, "", "é"] * (rows // 4 + 1), dtype="str")[:rows]
    array = to_array(texts)
    assert array.dtype == object
    assert array.tolist() == (["é", None, "", "é"] * (rows // 4 + 1))[:rows]
    assert to_array(array) is array


def test_texts_keep_their_dictionary_however_rows_are_taken() -> None:
    texts = pd.Series(["é", None, "", "é"] * FEW_ROWS, dtype="str")
    whole = ColumnTable.from_pandas(pd.DataFrame({"text": texts, "number": np.arange(len(texts))}))
    few = whole.take(np.arange(len(whole))[::-2]).take(np.array([1, 0, 1]))  # None, "é", None
    for table in (whole, few, few.select(["text"]), few.with_columns({"text": few.dictionary("text")})):
        texts_of_rows = table.array("text").tolist()
        for _ in range(2):  # before the column is read, and after
            codes, values = table.dictionary("text").factorize()
            assert [values[at] for at in codes] == texts_of_rows == table["text"].tolist()
            assert sorted(map(str, values)) == sorted(set(map(str, texts_of_rows)))
        code, rows = DictionaryEncoded(table).combined_column(("text",))
        assert [rows[at] for at in code] == [(text,) for text in texts_of_rows]
    assert whole.dictionary("number") is None
    assert few.compact().dictionary("text") is None


def test_a_kept_table_keeps_a_dictionary_of_far_fewer_values_than_rows() -> None:
    """Put together with others, it has one dictionary; with a part without one, texts. The rows are the same."""

    def rows_of(texts: list[str | None], rows: int) -> ColumnTable:
        column = pd.Series(texts * FEW_ROWS, dtype="str")
        whole = ColumnTable.from_pandas(pd.DataFrame({"text": column, "at": np.arange(len(column))}))
        return whole.take(np.arange(rows)[::-1]).compact()

    one, other = rows_of(["a", None, "b"], 40), rows_of(["c", "b", None, "d"], 40)
    few = rows_of(["e", "a", None], 7)
    assert few.dictionary("text") is None, "most of what is kept would be texts of other rows"
    for parts in ([one, one], [one, other], [other, one, other]):
        table = ColumnTable.concat(parts)
        texts = [text for part in parts for text in part.array("text").tolist()]
        assert table.array("text").tolist() == texts
        codes, values = table.dictionary("text").factorize()
        assert [values[at] for at in codes.tolist()] == texts
        assert sorted(map(str, values)) == sorted(set(map(str, texts)))
        assert len(set(table._columns["text"][2].tolist())) == len(table._columns["text"][2])
    mixed = ColumnTable.concat([one, few, other])
    assert mixed.dictionary("text") is None
    assert mixed.array("text").tolist() == [
        text for part in (one, few, other) for text in part.array("text").tolist()
    ]


def test_flags_are_an_array_of_pandas_and_have_plain_values() -> None:
    flags = pd.Series([True, None, False, True], dtype="boolean")
    table = ColumnTable.from_pandas(pd.DataFrame({"mfa": flags})).take(np.array([2, 1, 0, 0]))
    for _ in range(2):  # before the column is read, and after
        assert table.values("mfa") == [False, None, True, True]
        codes, values = table.dictionary("mfa").factorize()
        assert [values[at] for at in codes.tolist()] == [False, None, True, True]
        assert table.array("mfa").tolist() == [False, pd.NA, True, True]
        assert table["mfa"].dtype == table.compact().to_pandas()["mfa"].dtype == flags.dtype


def test_arrows_columns_are_kept_as_they_are_read() -> None:
    """Pieces with dictionaries of their own, and bytes of which only the rows that are read are copied."""
    pieces = [
        pa.table(
            {
                "action": pa.array(actions, pa.large_string()).dictionary_encode(),
                "raw": pa.array([f"{place}".encode() * 1000 for place in actions], pa.large_binary()),
                "mfa": pa.array([True, None], pa.bool_()),
            }
        )
        for actions in (["GetObject", None], ["ListBuckets", "GetObject"])
    ]
    table = ColumnTable.from_arrow(pa.concat_tables(pieces))
    assert table.array("action").tolist() == ["GetObject", None, "ListBuckets", "GetObject"]
    texts = table.dictionary("action")
    assert texts
    assert texts.factorize()[1] == ["GetObject", None, "ListBuckets"]
    assert table["mfa"].tolist() == [True, pd.NA, True, pd.NA]
    few = ColumnTable.concat([table.take(np.array([2])), table.take(np.array([0]))]).compact()
    assert few.array("raw").tolist() == [b"ListBuckets" * 1000, b"GetObject" * 1000]
    assert few.array("raw").nbytes < 25_000


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_plain_arrays_in_utc(unit: str) -> None:
    written = ["2026-01-23T03:28:11+00:00", None, "1969-12-31T23:59:59+00:00"]
    times = pd.Series(pd.to_datetime(written, utc=True)).astype(f"datetime64[{unit}, UTC]")
    there = ColumnTable.from_pandas(pd.DataFrame({"at": times, "abroad": times.dt.tz_convert("Asia/Tokyo")}))
    for name in ("at", "abroad"):
        assert there.array(name).dtype == f"datetime64[{unit}]"
        pd.testing.assert_series_equal(there[name], times, check_names=False)
        pd.testing.assert_series_equal(there.to_pandas()[name], times, check_names=False)
    assert frames.epoch_microseconds(there.array("at")).tolist() == [
        1_769_138_891_000_000,
        frames.NOT_A_TIME,
        -1_000_000,
    ]


def test_functions_of_tables_answer_as_they_do_for_pandas(frame: pd.DataFrame, table: ColumnTable) -> None:
    for name in COLUMNS:
        ours, theirs = (frames.factorize_values(frames.column_of(each, name)) for each in (table, frame))
        np.testing.assert_array_equal(ours[0], theirs[0])
        distinct = (
            pd.to_datetime(ours[1], utc=True) if name in TIMES else ours[1]
        )  # those of arrays name no zone
        assert [*distinct] == [*theirs[1]]
    for name in TIMES:
        times = [frames.epoch_microseconds(frames.column_of(each, name)) for each in (table, frame)]
        np.testing.assert_array_equal(*times)
    assert (frames.present_mask(table.array("error_code")) == frame["error_code"].notna()).all()
    assert frames.array_module_of(table) is np
    assert frames.library_of(table) is pd
    assert frames.is_host_frame(table)
    everything = np.ones(len(table), bool)
    assert frames.select_rows(table, everything) is table
    everything[3] = False
    pd.testing.assert_frame_equal(
        frames.to_pandas(frames.select_rows(table, everything)), frames.select_rows(frame, everything)
    )
    few = slice(1, 3)
    pd.testing.assert_frame_equal(
        frames.to_pandas(frames.slice_rows(table, few)), frames.slice_rows(frame, few)
    )
    mixed = frames.concat_frames([table, frame.iloc[:2]])
    assert isinstance(mixed, ColumnTable)
    pd.testing.assert_frame_equal(mixed.to_pandas(), pd.concat([frame, frame.iloc[:2]], ignore_index=True))
    codes = np.array([1, 0] * len(table))[: len(table)]
    assert frames.make_text_column(["a", None], codes, table).tolist()[:2] == [None, "a"]


@pytest.mark.parametrize(
    "flags",
    [
        np.array([True, False, False]),
        np.array([True, None, False], object),
        pd.array([True, None, False], "boolean"),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([1.0, np.nan, 0.0]),
    ],
    ids=["flags", "objects", "array of pandas", "nullable", "numbers"],
)
def test_a_missing_flag_is_not_true(flags: frames.FrameColumn) -> None:
    assert frames.true_mask(flags).tolist() == [True, False, False]
