"""Workarounds for confluent-kafka 2.16.1: header names that crash the process, and a generation without a method.

Example:
    >>> read_headers(fetched)        # sent as b"caf\\xe9" = b"1"
    (('?', b'1'),)

A third one is in `ConfluentConsumer._admin_client`.
"""

from __future__ import annotations

import struct
from gc import get_referents
from operator import methodcaller
from typing import Any

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.message_stream import Headers

UNREADABLE_NAME = "?"
_GROUP_METADATA_MARK = b"CGMDv2:"
# Not fetched.headers(): this method sets an error and returns a value all the same. In a hot line, Python no longer checks
# for that,
# and the error appears at any later place.
_raw_headers = methodcaller("headers")


def read_headers(fetched: Any) -> Headers:
    """Return the headers of a librdkafka message; a name that is not UTF-8 becomes UNREADABLE_NAME.

    A broker accepts any bytes as a name, and each producer chooses them. For a name that is not UTF-8, confluent-kafka makes a
    tuple with a null pointer, which crashes the process when it is read. So one message would end every program that reads it.
    """
    try:
        return tuple(_raw_headers(fetched) or ())
    except SystemError:  # only once: the library keeps the tuples, and the second call returns them
        return tuple(map(_repair_pair, _raw_headers(fetched)))


def _repair_pair(pair: Any) -> tuple[str, bytes | None]:
    """Return a pair without its null pointer; the referents of the pair are counted without reading its items."""
    there = get_referents(pair)
    return pair if len(there) == 2 else (UNREADABLE_NAME, there[0])


def read_generation(group_metadata: Any) -> int:
    """Return the generation from librdkafka's group metadata (a mark and 32 bits), because no method returns it."""
    if not isinstance(group_metadata, bytes) or not group_metadata.startswith(_GROUP_METADATA_MARK):
        raise FingerprintError("this librdkafka writes group metadata in a form that is not known here")
    return int(struct.unpack_from("=i", group_metadata, len(_GROUP_METADATA_MARK))[0])
