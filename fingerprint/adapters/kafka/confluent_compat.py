"""Work-arounds of confluent-kafka 2.16.1: header names that crash the process, and a generation that has no method.

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
# Not fetched.headers(): where that line is hot, Python no longer looks whether the method set an error and answered all the
# same, as this one does, and the error comes out anywhere later.
_raw_headers = methodcaller("headers")


def read_headers(fetched: Any) -> Headers:
    """Return the headers of a librdkafka message; a name that is not UTF-8 becomes UNREADABLE_NAME.

    Names are any bytes to a broker, and each producer chooses them. For a name that is not UTF-8 confluent-kafka makes a tuple
    with a hole, a null pointer that ends the process when it is read: one message would end every program that reads it.
    """
    try:
        return tuple(_raw_headers(fetched) or ())
    except SystemError:  # raised once; the tuples are kept, and returned by the second call
        return tuple(map(_repair_pair, _raw_headers(fetched)))


def _repair_pair(pair: Any) -> tuple[str, bytes | None]:
    """Return a pair without its hole; what a pair refers to is counted without touching it."""
    there = get_referents(pair)
    return pair if len(there) == 2 else (UNREADABLE_NAME, there[0])


def read_generation(group_metadata: Any) -> int:
    """Return the generation from librdkafka's own form of group metadata, a mark and 32 bits: no method returns it."""
    if not isinstance(group_metadata, bytes) or not group_metadata.startswith(_GROUP_METADATA_MARK):
        raise FingerprintError("this librdkafka writes group metadata in a form that is not known here")
    return int(struct.unpack_from("=i", group_metadata, len(_GROUP_METADATA_MARK))[0])
