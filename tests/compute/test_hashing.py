"""Names of 64 bits: stable, and different where what they name is different."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import murmur2 as theirs

from fingerprint.compute import frames, hashing
from fingerprint.compute.column_table import FEW_ROWS, ColumnTable, TextDictionary
from fingerprint.compute.hashing import hash_with_bucket, kafka_partitions, murmur2


def test_pairs_of_small_numbers_do_not_collide() -> None:
    left, right = (grid.ravel().astype(np.uint64) for grid in np.meshgrid(np.arange(1500), np.arange(1500)))
    in_order = np.sort(hashing.hash_pair(left, right))
    assert len(in_order) == 1500 * 1500
    assert (in_order[1:] != in_order[:-1]).all()


def test_texts_with_a_dictionary_have_the_hashes_of_the_column() -> None:
    texts = ["123456789012:user/ann", None, "", "123456789012:user/bob"] * FEW_ROWS
    table = ColumnTable.from_pandas(pd.DataFrame({"who": pd.Series(texts, dtype="str")}))
    some = table.take(np.arange(len(table))[:2:-1])
    known = frames.texts_of(some, "who")
    assert isinstance(known, TextDictionary)
    assert not isinstance(frames.texts_of(some.take(np.arange(2)), "who"), TextDictionary), "texts are fewer"
    for hash_column in (hashing.hash_strings, hash_with_bucket):
        np.testing.assert_array_equal(hash_column(known), hash_column(pd.Series(some.array("who"))))
        assert hash_column(known)[-1] == hash_column(pd.Series(["123456789012:user/bob"]))[0]


def test_a_pair_is_not_its_reverse() -> None:
    assert hashing.hash_pair(np.uint64(3), np.uint64(5)) != hashing.hash_pair(np.uint64(5), np.uint64(3))


def test_missing_has_a_name_of_its_own_and_strings_keep_theirs() -> None:
    hashes = hashing.hash_strings(pd.Series(["a", None, "b", "a"]))
    assert hashes[0] == hashes[3] != hashes[2]
    assert hashes[1] == hashing.MISSING
    assert hashing.hash_string("a") == hashes[0]
    assert hashing.hash_strings(pd.Series(["x", "a"], dtype=object))[1] == hashes[0]


@pytest.mark.parametrize(
    "texts", [["a", "", "søren", "x" * 100], ["a", 1, 2.5, b"b"], [None, float("nan")], []]
)
def test_a_text_has_the_hash_that_pandas_gives_it(texts: list[object]) -> None:
    """Banks keep hashes, so they stay the same whichever way they are made."""
    column = np.array([*texts, None], object)[:-1]
    theirs = pd.util.hash_array(column, categorize=False)
    assert hashing.hash_texts(column).tolist() == theirs.tolist()
    assert [hashing.hash_string(text) for text in texts if isinstance(text, str)] == [
        each for text, each in zip(texts, theirs, strict=True) if isinstance(text, str)
    ]


def test_the_hash_of_a_text_never_changes() -> None:
    """With any release of pandas: both its inner function and its public one."""
    known = {
        "": 0x186DA64456263A46,
        "a": 0xC1999A454057BFD0,
        "søren": 0xFDE8FB0B1438A964,
        "123456789012:user/alice": 0x46FD628E2BF0F8B9,
        "x" * 100: 0x640835BC0E0ACBFB,
    }
    texts = np.array([*known], object)
    made = [hashing.hash_texts(texts).tolist(), [int(hashing.hash_string(text)) for text in known]]
    assert made == [[*known.values()]] * 2, (
        f"pandas {pd.__version__} hashes texts otherwise: the hashes in stored banks, checkpoints and ids would match nothing. "
        "Stay below it, or compute SipHash-2-4 in fingerprint/compute"
    )


PEOPLE = pd.Series([f"123456789012:user/søren-{number}" for number in range(500)], dtype=object)


@pytest.mark.parametrize("partitions", [1, 2, 8, 64, 256])
def test_a_virtual_partition_lies_whole_in_the_kafka_partition_of_its_principals(partitions: int) -> None:
    virtual = hashing.bucket_of(hashing.hash_with_bucket(PEOPLE)) // 256
    kafka = kafka_partitions([person.encode() for person in PEOPLE], partitions)
    assert (virtual % partitions).tolist() == kafka.tolist()


def test_all_that_is_named_within_a_principal_stays_at_its_home() -> None:
    people = hashing.hash_with_bucket(PEOPLE)
    things = hashing.combine(hashing.combine(people, 5), hashing.hash_strings(PEOPLE))
    assert (hashing.bucket_of(things) == hashing.bucket_of(people)).all()
    assert len(np.unique(np.concatenate([things, people]))) == 1000
    assert len(np.unique(hashing.bucket_of(people))) > 490, "homes are spread"


def test_a_mask_of_virtual_partitions_is_a_mask_of_their_homes() -> None:
    virtual = np.zeros(256, bool)
    virtual[[3, 255]] = True
    homes = hashing.bucket_of(hashing.hash_with_bucket(PEOPLE))
    assert (hashing.buckets_of_partitions(virtual)[homes] == np.isin(homes // 256, [3, 255])).all()


@given(st.lists(st.binary(max_size=70)))
def test_the_hash_of_each_key_is_that_of_kafka_s_client(keys: list[bytes]) -> None:
    assert murmur2(keys).tolist() == [theirs(key) & 0xFFFFFFFF for key in keys]


@pytest.mark.parametrize(
    ("key", "java"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_what_kafka_s_own_test_expects(key: bytes, java: int) -> None:
    """Source: Apache Kafka, clients/src/test/.../UtilsTest.java, testMurmur2."""
    assert murmur2([key]).tolist() == [java & 0xFFFFFFFF]


@given(st.lists(st.binary(max_size=40)), st.integers(1, 1000))
def test_every_key_has_a_partition(keys: list[bytes], partitions: int) -> None:
    assert all(0 <= partition < partitions for partition in kafka_partitions(keys, partitions))


def test_a_principal_that_was_met_before_has_the_same_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many others were met between, and whether they were forgotten."""
    names = pd.Series([f"123456789012:user/{number}" for number in range(50)], dtype=object)
    memory = hashing.HashMemory(hashing._hash_principals, most=20)
    monkeypatch.setattr(hashing, "_PRINCIPALS", memory)
    first = hash_with_bucket(names)
    assert len(memory) <= 20
    again = hash_with_bucket(names[::-1])[::-1]
    few = hash_with_bucket(names[:10])
    assert len(memory) <= 20
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(few, first[:10])
    np.testing.assert_array_equal(hash_with_bucket(names[:15]), first[:15])


def test_few_texts_hash_as_a_column_of_many_and_what_stands_for_none_as_missing() -> None:
    texts = np.array(["a", None, "ü", float("nan"), "a", pd.NA, ""], object)
    many = np.tile(texts, hashing.FEW_TEXTS)
    for hash_column in (hashing.hash_strings, hash_with_bucket):
        for _ in range(2):  # met for the first time, and again
            np.testing.assert_array_equal(hash_column(texts), hash_column(many)[: len(texts)])
            assert (hash_column(texts)[[1, 3, 5]] == hashing.MISSING).all()


def test_a_long_value_is_hashed_and_not_kept() -> None:
    memory = hashing.HashMemory(hashing.hash_distinct, most=20)
    long, short = "x" * (hashing.MAX_REMEMBERED_LENGTH + 1), "x" * hashing.MAX_REMEMBERED_LENGTH
    for _ in range(2):
        found = memory.look_up([short, long, short])
        assert found == hashing.hash_distinct([short, long, short]).tolist()
    assert len(memory) == 1
