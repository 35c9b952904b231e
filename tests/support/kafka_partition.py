"""Kafka's partition of one key."""

from __future__ import annotations

from fingerprint.compute.hashing import kafka_partitions


def kafka_partition(key: bytes, partitions: int) -> int:
    return int(kafka_partitions([key], partitions)[0])
