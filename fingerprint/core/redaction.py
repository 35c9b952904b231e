"""Redaction: fields of a record whose values are replaced before the record is stored.

Example:
    >>> redactor = Redactor(["requestParameters.password", "responseElements.*.secret"])
    >>> redactor.redact('{"requestParameters":{"password":"hunter2","name":"x"}}')
    '{"requestParameters":{"password":"[redacted]","name":"x"}}'

A path names fields from the outermost to the innermost, case-sensitive. `*` stands for any one name, and a path goes through
lists. A record without any of the fields keeps every byte. A record that cannot be parsed, or has a name twice, is replaced as a
whole, because its values cannot be known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fingerprint.core.errors import FingerprintError

REDACTED = "[redacted]"
WILDCARD = "*"

FieldPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Redactor:
    """A redactor of paths such as `a.b.*.c`. Raise FingerprintError for a path that names no field."""

    paths: Sequence[str] = ()

    def __post_init__(self) -> None:
        for path in self.paths:
            if not all(path.split(".")) or path.strip() != path:
                raise FingerprintError(
                    f"{path!r} names no field of a record: one is requestParameters.password"
                )

    def __bool__(self) -> bool:
        return bool(self.paths)

    def redact(self, raw: str) -> str:
        """Return a record (JSON text) with the values at the paths replaced. Empty text stays empty."""
        if not self.paths or not raw:
            return raw
        try:
            record = json.loads(raw, object_pairs_hook=_object_without_duplicates)
        except (ValueError, RecursionError):
            return json.dumps(REDACTED)
        found = sum(_redact(record, tuple(path.split("."))) for path in self.paths)
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")) if found else raw


def _redact(value: Any, path: FieldPath) -> int:
    """Replace the values at `path` in place, also inside lists; return their number."""
    if isinstance(value, list):
        return sum(_redact(part, path) for part in value)
    if not isinstance(value, dict):
        return 0
    names = list(value) if path[0] == WILDCARD else [path[0]] if path[0] in value else []
    if len(path) > 1:
        return sum(_redact(value[name], path[1:]) for name in names)
    value |= dict.fromkeys(names, REDACTED)
    return len(names)


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise ValueError if a name comes twice, because parsers see only the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found
