"""The distinct values of a batch are named once, whatever asks for them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import dictionary, hashing
from fingerprint.compute.dictionary import DictionaryEncoded, MappedColumn, map_values

EVENTS = pd.DataFrame(
    {
        "service": pd.Series(["s3", "iam", None, "s3", "s3"], dtype="str"),
        "action": pd.Series(["Get", "List", "List", "Get", "Put"], dtype="str"),
        "read_only": pd.Series([True, None, None, True, False], dtype="boolean"),
        "number": [3, 1, 3, 3, 2],
    }
)


@pytest.fixture(autouse=True, params=[0, 100], ids=["by arrays", "value by value"])
def few_events(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways say the same: EVENTS are many, or few."""
    monkeypatch.setattr(dictionary, "FEW_EVENTS", request.param)


def spread(code: np.ndarray, values: list) -> list:
    return [values[at] for at in code]


@pytest.mark.parametrize("name", ["service", "action", "read_only", "number"])
def test_codes_and_values_are_the_column(name: str) -> None:
    column = EVENTS[name].astype(object)
    assert spread(*DictionaryEncoded(EVENTS).column(name)) == column.where(column.notna(), None).tolist()


def test_whatever_stands_for_no_value_is_none() -> None:
    values = pd.Series(["a", None, float("nan"), pd.NA, pd.NaT, "a"], dtype=object)
    assert spread(*DictionaryEncoded(pd.DataFrame({"x": values})).column("x")) == ["a", *[None] * 4, "a"]


def test_columns_together_are_the_pairs_that_there_are() -> None:
    code, distinct = DictionaryEncoded(EVENTS).combined_column(("service", "action"))
    assert spread(code, distinct) == [
        ("s3", "Get"),
        ("iam", "List"),
        (None, "List"),
        ("s3", "Get"),
        ("s3", "Put"),
    ]
    assert len(distinct) == len(set(distinct)) == 4


def test_a_column_that_a_table_does_not_have_is_missing_everywhere() -> None:
    coded = DictionaryEncoded(EVENTS)
    assert spread(*coded.column("network")) == [None] * 5
    code, distinct = coded.combined_column(("network", "number"))
    assert spread(code, distinct) == [(None, number) for number in (3, 1, 3, 3, 2)]


def test_a_column_is_told_apart_once_however_many_ask() -> None:
    asked = []

    def derived(events: pd.DataFrame) -> np.ndarray:
        asked.append(1)
        return np.arange(len(events))

    coded = DictionaryEncoded(EVENTS, {"own": derived})
    for _ in range(3):
        coded.combined_column(("own", "service"))
    assert asked == [1]


def test_a_column_that_is_made_of_another_one_is_read_as_any_other() -> None:
    number = {
        "initial": MappedColumn("service", lambda text: (text or "-")[0]),
        "one": lambda events: events["number"].to_numpy() + 1,
    }
    coded = DictionaryEncoded(EVENTS, number)
    assert spread(*coded.column("initial")) == ["s", "i", "-", "s", "s"]
    rows = [("s", 4), ("i", 2), ("-", 4), ("s", 4), ("s", 3)]
    assert spread(*coded.combined_column(("initial", "one"))) == coded.rows(("initial", "one")) == rows


def test_a_column_of_fewer_values_is_that_of_their_names() -> None:
    column = DictionaryEncoded(EVENTS).column("action")
    assert spread(*map_values(column, lambda text: (text or "-")[0])) == ["G", "L", "L", "G", "P"]


def test_texts_that_were_told_apart_hash_as_a_column_does() -> None:
    texts = np.array(["a", None, "b", ""], object)
    np.testing.assert_array_equal(
        hashing.hash_distinct(texts), hashing.hash_strings(pd.Series(texts, dtype=object))
    )
    assert len(hashing.hash_distinct(np.empty(0, object))) == 0
