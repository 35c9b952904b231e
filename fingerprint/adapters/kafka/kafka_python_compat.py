"""Header names that are not UTF-8: kafka-python 3.0.12 raises at them, so one message would stop its partition for ever.

Example:
    >>> tolerate()
    >>> consumer.poll(1.0)[0].headers        # sent as b"caf\\xe9"
    (('caf\\\\xe9', b'1'),)

Names are any bytes to a broker, and whoever may write to the topic chooses them. Here what is not UTF-8 is escaped.
"""

from __future__ import annotations

from typing import Any

from kafka.record.default_records import DefaultRecordBatch

_strict_read = DefaultRecordBatch._read_msg


def tolerate_invalid_header_names() -> None:
    """From now on, for every consumer of this process."""
    DefaultRecordBatch._read_msg = _read_record


class _LenientBytes(bytearray):
    """Bytes of a batch, whose parts decode whatever they are."""

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        return _LenientBytes(part) if isinstance(key, slice) else part

    def decode(self, *_: Any) -> str:
        return super().decode("utf-8", "backslashreplace")


def _read_record(batch: Any) -> Any:
    """The next record. A batch is read on slowly after its first such name; others are as fast as ever."""
    try:
        return _strict_read(batch)
    except UnicodeDecodeError:
        batch._buffer = _LenientBytes(batch._buffer)
        return _strict_read(batch)
