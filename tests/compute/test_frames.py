"""Tables of pandas and of cuDF's fake: the same rows, times, texts and codes, each where its table lies."""

from __future__ import annotations

from itertools import pairwise

import fake_cudf
import fake_cupy
import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import frames
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.cloudtrail.schema import COLUMNS
from fingerprint.sources.flatten import flatten
from tests.support import record_corpus

FAKE = "fake_cudf"


@pytest.fixture(scope="module")
def here() -> pd.DataFrame:
    return flatten(split_lines(record_corpus.real()["schema_variety"])).events


@pytest.fixture(scope="module")
def there(here: pd.DataFrame) -> frames.Frame:
    return frames.to_device(here, FAKE)


def test_what_goes_up_and_down_again_is_the_same(here: pd.DataFrame, there: frames.Frame) -> None:
    pd.testing.assert_frame_equal(frames.to_pandas(there), here)
    assert frames.to_pandas(here) is here


@pytest.mark.parametrize("which", [slice(3, 40, 2), slice(0), slice(None)])
@pytest.mark.parametrize("lifted", [True, False])
def test_rows_are_taken_by_mask_or_place(
    here: pd.DataFrame, there: frames.Frame, which: slice, lifted: bool
) -> None:
    mask = np.zeros(len(here), bool)
    mask[which] = True
    for chosen in (mask, np.flatnonzero(mask)):
        taken = frames.select_rows(there, fake_cupy.asarray(chosen) if lifted else chosen)
        pd.testing.assert_frame_equal(frames.to_pandas(taken), frames.select_rows(here, chosen))


def test_where_no_row_is_left_out_the_table_itself_is_taken(there: frames.Frame) -> None:
    assert frames.select_rows(there, fake_cupy.asarray(np.ones(len(there), bool))) is there


def test_times_are_whole_numbers_and_a_missing_one_is_the_smallest(
    here: pd.DataFrame, there: frames.Frame
) -> None:
    for name in ("event_time", "session_created"):
        ours, theirs = (frames.epoch_microseconds(frame[name]) for frame in (here, there))
        assert (theirs.get() == ours).all()
    assert (ours == frames.NOT_A_TIME).any()


@pytest.mark.parametrize("name", [column.name for column in COLUMNS if column.type != "time"])
def test_a_column_is_told_apart_alike(here: pd.DataFrame, there: frames.Frame, name: str) -> None:
    """In whatever order the values come."""
    (ours, distinct), (theirs, others) = (frames.factorize_values(frame[name]) for frame in (here, there))
    assert sorted(map(str, distinct)) == sorted(map(str, others))
    told = [None if code < 0 else others[code] for code in theirs.tolist()]
    assert told == [None if code < 0 else distinct[code] for code in ours.tolist()]
    assert frames.factorize_codes(there[name])[1] == frames.factorize_codes(here[name])[1] == len(distinct)


def test_texts_become_pythons_own_in_one_block(here: pd.DataFrame, there: frames.Frame) -> None:
    plain = frames.with_object_texts(here)
    texts = [name for name in here.columns if here[name].dtype == "str"]
    assert len(texts) > 20
    assert set(plain.columns) == set(here.columns)
    for name in here.columns:
        if name in texts:
            assert plain[name].dtype == object
            assert plain[name].tolist() == [None if pd.isna(each) else each for each in here[name]], name
        else:
            pd.testing.assert_series_equal(plain[name], here[name])
    assert frames.with_object_texts(plain) is plain
    assert frames.with_object_texts(there) is there


def test_a_column_of_objects_that_is_added_stays_one(here: pd.DataFrame) -> None:
    added = {"text": np.full(len(here), "one", object), "number": np.arange(len(here))}
    more = frames.with_columns(here, added)
    assert (more["text"].dtype, more["number"].dtype) == (object, np.int64)
    assert more["text"].tolist() == ["one"] * len(here)
    assert "text" not in here


def test_texts_are_spread_over_codes(here: pd.DataFrame, there: frames.Frame) -> None:
    codes = np.arange(len(here)) % 3
    ours = frames.make_text_column(["a", None, "é"], codes, here)
    theirs = frames.make_text_column(["a", None, "é"], fake_cupy.asarray(codes), there)
    assert theirs.to_arrow().to_pylist() == [None if pd.isna(text) else text for text in ours]


def test_a_column_is_renamed_with_what_is_missing(here: pd.DataFrame, there: frames.Frame) -> None:
    ours, theirs = (
        frames.map_texts(frame["error_code"], lambda text: text or "none") for frame in (here, there)
    )
    assert theirs.to_arrow().to_pylist() == ours.tolist()
    assert "none" in ours.tolist()


def test_texts_over_memory_that_lies_there_are_a_column() -> None:
    """The records that went up for reading are the column that alerts show."""
    text, borders = np.frombuffer("ab東京c".encode(), np.uint8), np.array([0, 2, 2, 8, 9], np.int32)
    column = frames.text_from_buffers(fake_cupy.asarray(text), fake_cupy.asarray(borders), FAKE)
    assert isinstance(column, fake_cudf.Series)
    assert column.to_arrow().to_pylist() == ["ab", "", "東京", "c"]
    characters, at = frames.utf8_buffers(column)
    cut = [characters.get()[begin:end].tobytes().decode() for begin, end in pairwise(at.tolist())]
    assert cut == ["ab", "", "東京", "c"]


REFUSED = {
    "being gone through": list,
    "becoming an array of the host": np.asarray,
    "being a truth": bool,
    "values where some are missing": lambda column: column.values,
    "an array of the host as a column": lambda column: fake_cudf.DataFrame({"x": np.arange(3)}),
    "a call that our code has not looked up in cuDF": lambda column: column.str.upper(),
    "places that are not there": lambda column: column.take(fake_cupy.asarray(np.array([99_999]))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_fake_refuses_what_cudf_refuses(there: frames.Frame, what: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, IndexError)):
        REFUSED[what](there["error_code"])


def test_columns_are_taken_in_the_order_of_their_names(here: pd.DataFrame, there: frames.Frame) -> None:
    wanted = ["service", "event_time", "action"]
    pd.testing.assert_frame_equal(frames.select_columns(here, wanted), here[wanted])
    pd.testing.assert_frame_equal(frames.to_pandas(frames.select_columns(there, wanted)), here[wanted])
    with pytest.raises(KeyError):
        frames.select_columns(here, ["service", "no such column"])
