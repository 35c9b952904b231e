"""JSON as text: whether bytes are one JSON value, without building it.

Example:
    >>> is_json_object(b' {"a": 1} '), is_json(b'{"a": 1} {"b": 2}')
    (True, False)
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE

import msgspec

BLANK = b" \t\r\n\x00"  # what may stand around a value: some writers pad with zeros
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)  # as `>` of Windows PowerShell writes

# What a decoder raises for what is no such value.
UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)

_decoder = msgspec.json.Decoder(msgspec.Raw)
_text = msgspec.json.Decoder(str)


def is_json_object(line: bytes) -> bool:
    """Return whether a line is one whole JSON object or array by itself, or a string that holds an object."""
    line = line.removeprefix(BYTE_ORDER_MARK).strip(BLANK)
    return line.startswith((b"{", b"[", b'"{')) and len(line) > 2 and is_json(line)


def is_json(text: bytes) -> bool:
    """Return whether the bytes are one JSON value (strings unchecked)."""
    try:
        _decoder.decode(text)
    except UNREADABLE:
        return False
    return True


def text_of(raw: msgspec.Raw | bytes | msgspec.UnsetType) -> str:
    """Return a JSON string as text; empty where the value is missing or no string, or is one with half a surrogate pair."""
    try:
        return "" if raw is msgspec.UNSET else _text.decode(raw)
    except UNREADABLE:
        return ""
