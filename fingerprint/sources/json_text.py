"""JSON as text: check whether bytes are one JSON value, without building the value.

Example:
    >>> is_json_object(b' {"a": 1} '), is_json(b'{"a": 1} {"b": 2}')
    (True, False)
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE

import msgspec

BLANK = b" \t\r\n\x00"  # bytes that may be around a value: some writers pad with zeros
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)  # as `>` of Windows PowerShell writes

# Errors that a decoder raises for text that is no such value
UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)

_decoder = msgspec.json.Decoder(msgspec.Raw)
_text = msgspec.json.Decoder(str)


def is_json_object(line: bytes) -> bool:
    """Return whether a line is one complete JSON object or array, or a string that has an object."""
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
    """Return a JSON string as text; empty if the value is missing, is no string, or has half a surrogate pair."""
    try:
        return "" if raw is msgspec.UNSET else _text.decode(raw)
    except UNREADABLE:
        return ""
