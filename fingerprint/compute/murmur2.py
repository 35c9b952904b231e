"""The Kafka partition of a key: murmur2 as Kafka's own clients compute it, so that every client agrees.

Example:
    >>> kafka_partition(b"AROAEXAMPLE", 12)
    3

Source: Apache Kafka, org.apache.kafka.common.utils.Utils.murmur2 and BuiltInPartitioner.partitionForKey. A module of its own
beside `hashing`, because it follows Kafka's specification and nothing of ours.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MURMUR2_SEED = 0x9747B28C
MURMUR2_MULTIPLIER = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Return MurmurHash 2, 32 bits, of the key."""
    whole = len(key) & ~3
    state = MURMUR2_SEED ^ len(key)
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        word = word * MURMUR2_MULTIPLIER & _WORD
        word = (word ^ word >> 24) * MURMUR2_MULTIPLIER & _WORD
        state = state * MURMUR2_MULTIPLIER & _WORD ^ word
    if key[whole:]:
        state = (state ^ int.from_bytes(key[whole:], "little")) * MURMUR2_MULTIPLIER & _WORD
    state = (state ^ state >> 13) * MURMUR2_MULTIPLIER & _WORD
    return state ^ state >> 15


def murmur2_many(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return `murmur2` of many keys at once, (n,): a step for every four bytes of the longest, not for every key."""
    length = np.fromiter(map(len, keys), np.int64, len(keys))
    data = np.frombuffer(b"".join(keys), np.uint8).astype(np.uint32)
    start, whole = np.cumsum(length) - length, length >> 2
    state = np.uint32(MURMUR2_SEED) ^ length.astype(np.uint32)
    for step in range(int(whole.max(initial=0))):
        here = np.flatnonzero(whole > step)
        word = _little_endian(data, start[here] + 4 * step, 4) * np.uint32(MURMUR2_MULTIPLIER)
        word = (word ^ word >> np.uint32(24)) * np.uint32(MURMUR2_MULTIPLIER)
        state[here] = state[here] * np.uint32(MURMUR2_MULTIPLIER) ^ word
    for rest in (1, 2, 3):
        here = np.flatnonzero(length & 3 == rest)
        state[here] = (state[here] ^ _little_endian(data, (start + 4 * whole)[here], rest)) * np.uint32(
            MURMUR2_MULTIPLIER
        )
    state = (state ^ state >> np.uint32(13)) * np.uint32(MURMUR2_MULTIPLIER)
    return state ^ state >> np.uint32(15)


def _little_endian(data: NDArray[np.uint32], place: NDArray[np.int64], size: int) -> NDArray[np.uint32]:
    """Return the numbers that `size` bytes at each place make."""
    out = np.zeros(len(place), np.uint32)
    for byte in range(size):
        out |= data[place + byte] << np.uint32(8 * byte)
    return out


def kafka_partition(key: bytes, partitions: int) -> int:
    """Return the number of the key's partition, 0 to `partitions` - 1."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
