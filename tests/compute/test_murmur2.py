"""A key lies where Kafka's own clients put it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import murmur2 as theirs

from fingerprint.compute.murmur2 import kafka_partition, murmur2, murmur2_many


@given(st.binary(max_size=70))
def test_the_hash_is_kafka_s(key: bytes) -> None:
    assert murmur2(key) == theirs(key) & 0xFFFFFFFF


@given(st.lists(st.binary(max_size=70)))
def test_many_keys_at_once_have_the_hash_of_each(keys: list[bytes]) -> None:
    assert murmur2_many(keys).tolist() == [murmur2(key) for key in keys]


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
    assert murmur2(key) == java & 0xFFFFFFFF


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_every_key_has_a_partition(key: bytes, partitions: int) -> None:
    assert 0 <= kafka_partition(key, partitions) < partitions
