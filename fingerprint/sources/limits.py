"""Limits on the size of one record, document or file: one beyond a limit becomes a reject, and nothing else is affected.

Example:
    >>> ReadLimits(max_record_bytes=1000).max_json_depth
    64
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_RECORD_BYTES = 1 << 20
MAX_JSON_DEPTH = 64
MAX_DOCUMENT_BYTES = 256 << 20
MAX_EXPANDED_BYTES = 16 << 30


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The bounds that readers keep."""

    max_record_bytes: int = field(default_factory=lambda: MAX_RECORD_BYTES)
    """Largest record; a larger one is rejected."""
    max_json_depth: int = field(default_factory=lambda: MAX_JSON_DEPTH)
    """Deepest nesting of JSON; a deeper record is rejected."""
    max_document_bytes: int = field(default_factory=lambda: MAX_DOCUMENT_BYTES)
    """Largest JSON document, or line that holds an envelope, also after decompression."""
    max_expanded_bytes: int = field(default_factory=lambda: MAX_EXPANDED_BYTES)
    """Largest expanded size of one compressed file."""
