"""What is distinct in a batch is named once; and a batch's codes are those of its events one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import hashing
from fingerprint.compute.dictionary import DictionaryEncoded, encode_numbers, map_values
from fingerprint.core.settings import Settings
from fingerprint.features import encoding
from tests.support.sample_organisation import Road

EVENTS = pd.DataFrame(
    {
        "service": pd.Series(["s3", "iam", None, "s3", "s3"], dtype="str"),
        "action": pd.Series(["Get", "List", "List", "Get", "Put"], dtype="str"),
        "read_only": pd.Series([True, None, None, True, False], dtype="boolean"),
        "number": [3, 1, 3, 3, 2],
    }
)


@pytest.fixture(scope="module")
def events(organisation: Road) -> pd.DataFrame:
    settings = Settings()
    with EventSpool(settings) as history:
        for records in files.read_sources(organisation.new[:1], settings.reading):
            history.add_records(records)
        return pd.concat(history.batches(), ignore_index=True)


def spread(code: np.ndarray, values: list) -> list:
    return [values[at] for at in code]


@pytest.mark.parametrize("name", ["service", "action", "read_only", "number"])
def test_codes_and_values_are_the_column(name: str) -> None:
    column = EVENTS[name].astype(object)
    assert spread(*DictionaryEncoded(EVENTS).column(name)) == column.where(column.notna(), None).tolist()


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

    def derived(coded: DictionaryEncoded):
        asked.append(1)
        return encode_numbers(np.arange(len(coded)))

    coded = DictionaryEncoded(EVENTS, {"own": derived})
    for _ in range(3):
        coded.combined_column(("own", "service"))
    assert asked == [1]


def test_a_column_of_fewer_values_is_that_of_their_names() -> None:
    column = DictionaryEncoded(EVENTS).column("action")
    assert spread(*map_values(column, lambda text: (text or "-")[0])) == ["G", "L", "L", "G", "P"]


def test_texts_that_were_told_apart_hash_as_a_column_does() -> None:
    texts = np.array(["a", None, "b", ""], object)
    np.testing.assert_array_equal(
        hashing.hash_distinct(texts), hashing.hash_strings(pd.Series(texts, dtype=object))
    )
    assert len(hashing.hash_distinct(np.empty(0, object))) == 0


def test_the_codes_of_a_batch_are_those_of_its_events_one_by_one(events: pd.DataFrame) -> None:
    some = events.iloc[np.random.default_rng(0).choice(len(events), 40, replace=False)]
    alone = np.concatenate([encoding.encode_events(some.iloc[[row]]) for row in range(len(some))])
    np.testing.assert_array_equal(encoding.encode_events(some), alone)


def test_the_codes_are_the_hashes_of_the_texts(events: pd.DataFrame) -> None:
    memory = events.assign(idle=-1, today=2, sources=0, actions=3)
    codes = encoding.encode_events(memory)
    encoding.encode_stateful_features(codes, memory)
    for place, name in enumerate(encoding.FEATURE_NAMES):
        np.testing.assert_array_equal(
            codes[:, place], hashing.hash_strings(encoding.feature_texts(memory)[name].astype(object))
        )


def test_what_changed_something_is_told_by_the_record_or_else_by_the_verb() -> None:
    assert encoding.is_write(EVENTS).tolist() == [False, False, False, False, True]
    unsaid = EVENTS.assign(read_only=pd.Series([None] * 5, dtype="boolean"))
    assert encoding.is_write(unsaid).tolist() == [False, False, False, False, True]
    assert encoding.is_write(EVENTS.iloc[:0]).tolist() == []
