"""Hashes of 64 bits for strings and pairs, to compare values, owners and ids without their text.

Example:
    >>> bool(hash_strings(pd.Series(["a", "b", "a"]))[0] == hash_strings(pd.Series(["a"]))[0])
    True
    >>> alice = hash_with_bucket(pd.Series(["123456789012:user/alice"]))
    >>> bool(bucket_of(combine(alice, 7))[0] == bucket_of(alice)[0])
    True

Among 5 billion values a collision is as likely as not (birthday bound at 64 bits). The texts of values that a fingerprint knows
are kept with their codes (`bank`, words).

A principal has a *hash bucket* of 16 bits: its virtual partition (the high 8) and 8 further bits of the same murmur2 hash, by
which Kafka's clients place its records. The keys of a principal in the scorer state have its bucket as their top 16 bits, so the
state of a virtual partition, or of a bucket, is a range of each sorted table. The other 48 bits distinguish the keys in a bucket.
They are enough for the thousands of keys of a principal; where there are millions (ids of records) the remaining 16 bits of the
hash are kept in a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# A private function, because `pd.util.hash_array` around it takes 10 us more a call: for a few texts two to eight times as long.
# pandas is held to one minor version, and a test pins its hashes, because banks, checkpoints and ids contain them.
from pandas._libs.hashing import hash_object_array  # type: ignore[import-not-found]  # the stubs leave it out

from fingerprint.compute import frames
from fingerprint.compute.arrays import Array, compiled_functions, to_device_of
from fingerprint.compute.column_table import TextDictionary
from fingerprint.core.ports.topics import VIRTUAL_PARTITIONS as VIRTUAL_PARTITIONS

MURMUR2_SEED = 0x9747B28C
MURMUR2_MULTIPLIER = 0x5BD1E995

Hashes = NDArray[np.uint64]
MISSING = np.uint64(1)  # the hash of a missing value, which has a slot of its own
BUCKETS = 1 << 16
PAIR_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: SplitMix64's increment (Steele et al. 2014)
PAIR_MIX = np.uint64(0xBF58476D1CE4E5B9)  # SplitMix64's first multiplier
PAIR_SHIFT = np.uint64(29)
_PANDAS_KEY = "0123456789123456"  # key of SipHash in pandas' `hash_array`
_BUCKET_SHIFT = np.uint64(48)
_ON_HOST = (np.ndarray, np.uint64)
LOW_BITS = np.uint64((1 << 48) - 1)  # the bits of a hash that are not its bucket
FEW_TEXTS = 300  # rows of a column on the host up to which each text is looked up by itself
MAX_REMEMBERED_LENGTH = 512  # characters


def murmur2(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return MurmurHash 2, 32 bits, of each key, (n,), in one array step for every four bytes of the longest key."""
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
    """Return the little-endian integers of `size` bytes at each place."""
    out = np.zeros(len(place), np.uint32)
    for byte in range(size):
        out |= data[place + byte] << np.uint32(8 * byte)
    return out


def kafka_partitions(keys: Sequence[bytes], partitions: int) -> NDArray[np.int64]:
    """Return the partition of each key, 0 to `partitions` - 1, (n,), as Kafka's clients choose it."""
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def hash_strings(values: frames.FrameColumn | TextDictionary) -> Hashes:
    """Hash a column of strings, or strings with a dictionary: (N,) -> (N,) uint64; missing values become MISSING.

    Each distinct string is hashed once, on the host (`hash_texts`); the hashes are then gathered on the device of the column.
    """
    if isinstance(values, TextDictionary):
        return hash_distinct(values.values)[values.codes]
    if _are_few_texts(values):
        return np.array(_STRINGS.look_up(values.tolist()), np.uint64)
    codes, distinct = _factorize(values)
    return _spread_hashes(hash_texts(distinct), codes)


def hash_distinct(texts: Sequence[Any] | NDArray[np.object_]) -> Hashes:
    """Hash distinct texts as `hash_strings` does: (D,) of str or None -> (D,)."""
    plain = np.empty(len(texts), object)
    plain[:] = texts
    hashes = hash_texts(plain)
    # NaN does not equal itself
    missing = [text is None or text is pd.NA or text != text for text in texts]
    hashes[np.array(missing, bool)] = MISSING
    return hashes


def hash_texts(texts: NDArray[np.object_]) -> Hashes:
    """Hash texts as pandas' `hash_array` does, without treating missing ones apart: (N,) -> (N,).

    It calls the inner function of `hash_array`; a few texts take a fifth of the time.
    """
    try:
        words = hash_object_array(texts, _PANDAS_KEY, "utf8")
    except TypeError:  # a number among them
        words = hash_object_array(texts.astype(str).astype(object), _PANDAS_KEY, "utf8")
    hashes: Hashes = compiled_functions().finish_hashes(words)
    return hashes


def hash_string(text: str) -> np.uint64:
    """Hash one string as `hash_strings` does. Modules make constants with it, so it needs pandas alone, not numba."""
    return pd.util.hash_array(np.array([text], object), categorize=False)[0]


def _are_few_texts(values: frames.FrameColumn) -> bool:
    """Return whether looking up each text is faster than finding the distinct ones."""
    return isinstance(values, np.ndarray) and values.dtype == object and len(values) <= FEW_TEXTS


def _factorize(values: frames.FrameColumn) -> tuple[Array, NDArray[np.object_]]:
    """Return codes (N,) of the rows' texts, on the device of the column, -1 for missing ones, and the distinct texts."""
    codes, distinct = frames.factorize_values(values)
    return codes, np.asarray(distinct, dtype=object)


def _spread_hashes(hashes: Hashes, codes: Array) -> Hashes:
    # The code -1 of missing values is the last place
    return to_device_of(np.append(hashes, MISSING), codes)[codes]


class HashMemory:
    """Cache of hashes, because the values of a stream come again in the next poll.

    `hash_values` hashes a list of values, each by itself. At most `most` hashes are kept, and none of values with more than
    MAX_REMEMBERED_LENGTH characters, because values may be written by attackers.
    """

    def __init__(self, hash_values: Callable[[list[Any]], Hashes], most: int) -> None:
        self._hash_values, self._most = hash_values, most
        self._known: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def look_up(self, values: Sequence[Any]) -> list[int]:
        """Return the hashes of N values; a value is a text, None, or a tuple of texts, numbers and None."""
        found = [*map(self._known.get, values)]
        if None not in found:
            return found  # type: ignore[return-value]  # mypy does not narrow by `in`
        new = [place for place, known in enumerate(found) if known is None]
        for place, each in zip(new, self._hash_values([values[at] for at in new]).tolist(), strict=True):
            found[place] = each
            if _length(values[place]) <= MAX_REMEMBERED_LENGTH:
                self._known[values[place]] = each
        if len(self._known) > self._most:
            self._known.clear()
        return found  # type: ignore[return-value]


def _length(value: Any) -> int:
    """Return the number of characters in a value."""
    parts = value if isinstance(value, tuple) else (value,)
    return sum(len(part) for part in parts if isinstance(part, str))


_STRINGS = HashMemory(hash_distinct, 1 << 14)


def hash_pair(left: Hashes | np.uint64, right: Hashes | np.uint64 | int) -> Hashes:
    """Hash ordered pairs, element by element with broadcasting; either side may be small numbers.

    The left number is mixed into all bits before it is combined with the right one; otherwise pairs of small numbers would
    collide.
    """
    left, right = _as_uint64(left), _as_uint64(right)
    if isinstance(left, _ON_HOST) and isinstance(right, _ON_HOST):
        return compiled_functions().hash_pairs(left, right)
    return mix_pairs(left, right)


def mix_pairs(left: Any, right: Any) -> Any:
    """Hash ordered pairs of uint64 arrays in any library, as `hash_pair` does on the host."""
    with np.errstate(over="ignore"):  # NumPy warns of overflow for scalars
        spread = left * PAIR_MIX
        mixed = ((spread ^ (spread >> PAIR_SHIFT)) ^ (right + PAIR_ODD)) * PAIR_MIX
        return (mixed ^ (mixed >> PAIR_SHIFT)) * PAIR_ODD


def _as_uint64(value: Any) -> Any:
    """Return an array, on its device, or a number as uint64."""
    return value.astype(np.uint64, copy=False) if hasattr(value, "shape") else np.uint64(value)


# --- buckets ----------------------------------------------------------------------------------------------------------


def hash_with_bucket(principals: frames.FrameColumn | TextDictionary) -> Hashes:
    """Hash a column of principals (see `hash_strings`): (N,) -> (N,) uint64, with the bucket in the top 16 bits.

    The virtual partition is murmur2 of the UTF-8 key, without its sign, modulo 256. With 2^k Kafka partitions (k up to 8), the
    virtual partition modulo 2^k is the partition of the principal's records.
    """
    if isinstance(principals, TextDictionary):
        return np.array(_PRINCIPALS.look_up(principals.values.tolist()), np.uint64)[principals.codes]
    if _are_few_texts(principals):
        return np.array(_PRINCIPALS.look_up(principals.tolist()), np.uint64)
    codes, texts = _factorize(principals)
    return _spread_hashes(np.array(_PRINCIPALS.look_up(texts.tolist()), np.uint64), codes)


def _hash_principals(principals: list[str | None]) -> Hashes:
    """Return the hash of each principal, (D,)."""
    murmur = murmur2([str(text).encode() for text in principals]).astype(np.uint64)
    bucket = (murmur & np.uint64(0xFF)) << np.uint64(8) | (murmur >> np.uint64(8)) & np.uint64(0xFF)
    hashes = hash_distinct(principals)
    return np.where(hashes == MISSING, MISSING, rebucket(bucket << _BUCKET_SHIFT, hashes))


_PRINCIPALS = HashMemory(_hash_principals, 1 << 16)


def bucket_of(hashes: Hashes) -> NDArray[np.uint16]:
    """Return the bucket of each hash: (N,) -> (N,)."""
    return (hashes >> _BUCKET_SHIFT).astype(np.uint16)


def bucket_start(hashes: Hashes) -> Hashes:
    """Return the least hash in the bucket of each hash, (N,)."""
    return hashes & ~LOW_BITS


def bucket_end(hashes: Hashes) -> Hashes:
    """Return the greatest hash in the bucket of each hash, (N,)."""
    return hashes | LOW_BITS


def rebucket(owner: Hashes, hashes: Hashes) -> Hashes:
    """Return hashes with their bucket replaced by that of an owner, element by element with broadcasting."""
    return owner & ~LOW_BITS | hashes & LOW_BITS


def combine(owner: Hashes, value: Hashes | np.uint64 | int) -> Hashes:
    """Return the hash of an owner and a value, in the owner's bucket."""
    owner, value = _as_uint64(owner), _as_uint64(value)
    if isinstance(owner, _ON_HOST) and isinstance(value, _ON_HOST):
        return compiled_functions().combine_hashes(owner, value)
    return rebucket(owner, mix_pairs(owner, value))


def in_interval(owner: Hashes, interval: NDArray[np.int32]) -> Hashes:
    """Return the hash of an owner (N,) and an interval (N,), in the owner's bucket."""
    return combine(owner, interval.astype(np.uint64))


def without_bucket(hashes: Hashes) -> Hashes:
    """Return the 48 bits of hashes that are not their bucket, (N,)."""
    return hashes & LOW_BITS


def overflow_bits(hashes: Hashes) -> NDArray[np.uint16]:
    """Return the 16 bits of a plain hash that `rebucket` replaces, (N,)."""
    return (hashes >> _BUCKET_SHIFT).astype(np.uint16)


def buckets_of_partitions(virtual: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the buckets of some virtual partitions: a mask (256,) -> a mask (65536,)."""
    return np.repeat(virtual, BUCKETS // VIRTUAL_PARTITIONS)
