"""Sanitisation: make strings safe to store and to show. An attacker may have written any string in a record.

Example:
    >>> printable("evil\\u202eexe.txt\\x1b[2J")                   # characters that control a terminal become text
    'evil\\\\u202eexe.txt\\\\x1b[2J'
    >>> storable("nul\\x00, half a pair \\ud800")                 # characters that databases refuse become U+FFFD
    'nul\ufffd, half a pair \ufffd'

Control and invisible characters are those of Unicode's categories Cc, Cf, Cs, Zl and Zp, and blanks and selectors without a shape
of their own (Unicode 15; tests/core/test_sanitize.py compares).
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

_CONTROL = r"\x00-\x1f\x7f-\x9f\xad\u2028\u2029"
_BIDI = r"\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_FORMAT = r"\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u180b-\u180f\ufff0-\ufffb"
_SCRIPTS = r"\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
_TAGS = r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
_SHAPELESS = r"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0"
_UNPRINTABLE = re.compile(f"[{_CONTROL}{_BIDI}{_FORMAT}{_SCRIPTS}{_TAGS}{_SHAPELESS}\ud800-\udfff]")
_PIECE = re.compile(  # an unclosed string extends to the end, so that no quote inside it is tried as a new beginning
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[{}\[\],:]|\s+|[^"{}\[\],:\s]+', re.DOTALL
)
MAX_KEY_LENGTH = 500  # characters, of at most 4 bytes each: PostgreSQL's B-trees take 2,704 bytes
# Characters of a longer text that its key keeps, before an ellipsis and a digest
CUT_KEY_LENGTH = MAX_KEY_LENGTH - 33
_DEEPEST = 32  # levels of indentation; deeper levels are not indented further


def printable(text: str, lines: bool = False) -> str:
    """Return the text with control and invisible characters as escapes; with `lines`, line ends and tabs stay."""
    return _UNPRINTABLE.sub(lambda match: _escape(match[0], lines), text)


def _escape(character: str, lines: bool) -> str:
    if lines and character in "\n\t":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def storable(value: Any) -> Any:
    """Return a value with NULs and lone surrogates in its strings replaced by U+FFFD, also inside lists and dicts.

    Tuples become lists, and NumPy's scalars become Python's.
    """
    if isinstance(value, str):
        return _storable_text(value)
    if isinstance(value, list | tuple):
        return [storable(part) for part in value]
    if isinstance(value, dict):
        return {_storable_text(str(key)): storable(part) for key, part in value.items()}
    return value.item() if hasattr(value, "dtype") and not value.shape else value


def _storable_text(text: str) -> str:
    text = text.replace("\0", "\ufffd") if "\0" in text else text
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def truncate(text: str, max_length: int) -> str:
    """Return at most `max_length` characters; a longer text ends with an ellipsis.

    >>> truncate("role/administrators", 8)
    'role/ad…'
    """
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def index_key(text: str) -> str:
    """Return a text as an index key: `storable`, and cut with a digest if it is longer than MAX_KEY_LENGTH."""
    text = _storable_text(text)
    if len(text) <= MAX_KEY_LENGTH:
        return text
    return f"{text[:CUT_KEY_LENGTH]}…{blake2b(text.encode(), digest_size=16).hexdigest()}"


def indent_json(json_text: str) -> str:
    """Return JSON text in several indented lines.

    Only white space between tokens changes, so numbers, repeated keys and even broken JSON stay as they were written.
    """
    out: list[str] = []
    depth, opened = 0, False
    for piece in _PIECE.findall(json_text):
        if piece.isspace():
            continue
        if piece in "}]":
            depth -= 1
            out.append(piece if opened else _line(depth) + piece)
        else:
            out.append((_line(depth) if opened else "") + piece)
        opened = piece in "{["
        depth += opened
        out.append(_line(depth) if piece == "," else " " if piece == ":" else "")
    return "".join(out)


def _line(depth: int) -> str:
    return "\n" + "  " * min(max(depth, 0), _DEEPEST)
