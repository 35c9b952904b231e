"""Names of 64 bits: stable, and different where what they name is different."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.compute.murmur2 import kafka_partition


def test_pairs_of_small_numbers_do_not_collide() -> None:
    left, right = (grid.ravel().astype(np.uint64) for grid in np.meshgrid(np.arange(1500), np.arange(1500)))
    assert len(np.unique(hashing.hash_pair(left, right))) == 1500 * 1500


def test_a_pair_is_not_its_reverse() -> None:
    assert hashing.hash_pair(np.uint64(3), np.uint64(5)) != hashing.hash_pair(np.uint64(5), np.uint64(3))


def test_missing_has_a_name_of_its_own_and_strings_keep_theirs() -> None:
    hashes = hashing.hash_strings(pd.Series(["a", None, "b", "a"]))
    assert hashes[0] == hashes[3] != hashes[2]
    assert hashes[1] == hashing.MISSING
    assert hashing.hash_string("a") == hashes[0]
    assert hashing.hash_strings(pd.Series(["x", "a"], dtype=object))[1] == hashes[0]


PEOPLE = pd.Series([f"123456789012:user/søren-{number}" for number in range(500)], dtype=object)


@pytest.mark.parametrize("partitions", [1, 2, 8, 64, 256])
def test_a_virtual_partition_lies_whole_in_the_kafka_partition_of_its_principals(partitions: int) -> None:
    virtual = hashing.bucket_of(hashing.hash_with_bucket(PEOPLE)) // 256
    kafka = [kafka_partition(person.encode(), partitions) for person in PEOPLE]
    assert (virtual % partitions).tolist() == kafka


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
