"""Which partition a key lies in: murmur2 as Kafka's own clients compute it, so that every door agrees.

Example:
    >>> partition_of(b"AROAEXAMPLE", 12)
    3

Source: Apache Kafka, org.apache.kafka.common.utils.Utils.murmur2 and BuiltInPartitioner.partitionForKey.
"""

from __future__ import annotations

import struct

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """MurmurHash 2, 32 bits, of the key."""
    whole = len(key) & ~3
    state = SEED ^ len(key)
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        word = word * MULTIPLIER & _WORD
        word = (word ^ word >> 24) * MULTIPLIER & _WORD
        state = state * MULTIPLIER & _WORD ^ word
    if key[whole:]:
        state = (state ^ int.from_bytes(key[whole:], "little")) * MULTIPLIER & _WORD
    state = (state ^ state >> 13) * MULTIPLIER & _WORD
    return state ^ state >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The number of the key's partition, 0 to `partitions` - 1."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
