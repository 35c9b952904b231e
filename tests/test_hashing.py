"""Names of 64 bits: stable, and different where what they name is different."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing
from fingerprint.compute.murmur2 import partition_of


def test_pairs_of_small_numbers_do_not_collide() -> None:
    left, right = (grid.ravel().astype(np.uint64) for grid in np.meshgrid(np.arange(1500), np.arange(1500)))
    assert len(np.unique(hashing.mix(left, right))) == 1500 * 1500


def test_a_pair_is_not_its_reverse() -> None:
    assert hashing.mix(np.uint64(3), np.uint64(5)) != hashing.mix(np.uint64(5), np.uint64(3))


def test_missing_has_a_name_of_its_own_and_strings_keep_theirs() -> None:
    hashes = hashing.of(pd.Series(["a", None, "b", "a"]))
    assert hashes[0] == hashes[3] != hashes[2]
    assert hashes[1] == hashing.MISSING
    assert hashing.of_text("a") == hashes[0]
    assert hashing.of(pd.Series(["x", "a"], dtype=object))[1] == hashes[0]


PEOPLE = pd.Series([f"123456789012:user/søren-{number}" for number in range(500)], dtype=object)


@pytest.mark.parametrize("partitions", [1, 2, 8, 64, 256])
def test_a_virtual_partition_lies_whole_in_the_kafka_partition_of_its_principals(partitions: int) -> None:
    virtual = hashing.homes(hashing.homed(PEOPLE)) // 256
    kafka = [partition_of(person.encode(), partitions) for person in PEOPLE]
    assert (virtual % partitions).tolist() == kafka


def test_all_that_is_named_within_a_principal_stays_at_its_home() -> None:
    people = hashing.homed(PEOPLE)
    things = hashing.within(hashing.within(people, 5), hashing.of(PEOPLE))
    assert (hashing.homes(things) == hashing.homes(people)).all()
    assert len(np.unique(np.concatenate([things, people]))) == 1000
    assert len(np.unique(hashing.homes(people))) > 490, "homes are spread"


def test_a_mask_of_virtual_partitions_is_a_mask_of_their_homes() -> None:
    virtual = np.zeros(256, bool)
    virtual[[3, 255]] = True
    homes = hashing.homes(hashing.homed(PEOPLE))
    assert (hashing.of_partitions(virtual)[homes] == np.isin(homes // 256, [3, 255])).all()
