"""Header names that are not UTF-8: of such a message confluent-kafka 2.16.1 makes tuples with a hole for a name, and who
looks into the hole is dead (a null pointer). One message would end every program that reads it.

Example:
    >>> headers_of(fetched)        # sent as b"caf\\xe9" = b"1"
    (('?', b'1'),)

Names are any bytes to a broker, and whoever may write to the topic chooses them. Their bytes are lost here; the values
are not.
"""

from __future__ import annotations

from gc import get_referents
from operator import methodcaller
from typing import Any

from fingerprint.core.ports import Headers

UNREADABLE_NAME = "?"
# Not fetched.headers(): where that line is hot, Python no longer looks whether the method set an error and answered all the
# same, as this one does, and the error comes out anywhere later.
_raw_headers = methodcaller("headers")


def read_headers(fetched: Any) -> Headers:
    """The headers of a message as librdkafka gives it."""
    try:
        return tuple(_raw_headers(fetched) or ())
    except SystemError:  # told once; what was made is kept, and given the second time
        return tuple(map(_repair_pair, _raw_headers(fetched)))


def _repair_pair(pair: Any) -> tuple[str, bytes | None]:
    """A pair without its hole; what a pair refers to is counted without touching it."""
    there = get_referents(pair)
    return pair if len(there) == 2 else (UNREADABLE_NAME, there[0])
