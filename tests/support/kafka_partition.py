"""Kafka's partition of one key."""

from __future__ import annotations

from functools import lru_cache

from fingerprint.compute.hashing import kafka_partitions


# The hashing is written for many keys at once: one takes a millisecond, and a test sends the same few thousands of times.
@lru_cache(1 << 16)
def kafka_partition(key: bytes, partitions: int) -> int:
    return int(kafka_partitions([key], partitions)[0])
