"""Check of the input: input without an event of the active log source is an error, and passed-over files are reported."""

from __future__ import annotations

import codecs
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from fingerprint.adapters.event_spool import EventSpool
from fingerprint.adapters.files import FilesInSpan, SourceFile, find_files_in_span
from fingerprint.core import time_range
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable, truncate
from fingerprint.core.time_range import TimeRange
from fingerprint.sources.active import SOURCE

HEAD_BYTES = 4096  # first bytes of a file, by which its format is guessed
MAX_REASON_LENGTH = 200
MAX_SHOWN_SUFFIXES = 5  # suffixes of passed-over files that are shown
MAX_SUFFIX_LENGTH = 20  # characters; an attacker may have named the file
GZIP_START, GZIP_ONLY = b"\x1f\x8b", 31  # zlib's wbits for gzip
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
FORMATS = (  # bytes at the beginning of a file, or among its first bytes, and the format that they show
    (b"PK\x03\x04", "a ZIP archive: unpack it first"),
    (b"PAR1", "Parquet: export it as JSON"),
    (b"BZh", "compressed with bzip2: only gzip and zstd are read"),
    (b"\xfd7zXZ", "compressed with xz: only gzip and zstd are read"),
    (b"<?xml", "XML"),
)
JSON_FIELDS = (
    (b'"protoPayload"', "an audit log of Google Cloud"),
    (b'"operationName"', "an activity log of Azure"),
    (b'"class_uid"', "a log in the OCSF format"),
    (b'"srcaddr"', "a VPC flow log"),
)


def find_input(sources: Sequence[str], span: TimeRange, may_be_empty: bool = False) -> FilesInSpan:
    """Return the files of the input, and print on standard error how many others its folders have.

    Raise FingerprintError, before any file is read, if `files.find_files_in_span` does or no file can hold an event of the span.
    """
    found = find_files_in_span(sources, span)
    report_passed_over(found)
    if not found.files and not may_be_empty:
        raise FingerprintError(f"there is no event {span}: {_days_of_objects(found)}")
    return found


def report_passed_over(found: FilesInSpan) -> None:
    """Print on standard error how many files in the folders of the input are passed over for their names, by suffix."""
    if not (count := sum(found.passed_over.values())):
        return
    most = Counter(found.passed_over).most_common(MAX_SHOWN_SUFFIXES)
    shown = [
        f"{number:,} {truncate(printable(suffix), MAX_SUFFIX_LENGTH) or 'without a suffix'}"
        for suffix, number in most
    ]
    if rest := count - sum(number for _, number in most):
        shown.append(f"{rest:,} others")
    print(
        f"passed over {count:,} file{'s' * (count != 1)} not named as {SOURCE.NAME} records: {', '.join(shown)}",
        file=sys.stderr,
    )


def require_events(history: EventSpool, found: Sequence[SourceFile], may_be_empty: bool = False) -> None:
    """Raise FingerprintError, with the most frequent reason, if the input has no event of the span.

    `found` are the files of the input; the first bytes of the first file may show another format. `may_be_empty` accepts input
    without records, with only records that are no events by design, or with only events outside the span; input of rejects alone
    is an error in any case.
    """
    if history.records == history.rejected + history.skipped:
        if history.rejected:
            raise FingerprintError(_describe_rejects(history, found))
        if not may_be_empty:
            raise FingerprintError(f"there is no event in the input: {_describe_skipped(history, found)}")
    elif history.outside_span and not history.events and not may_be_empty:
        raise FingerprintError(f"there is no event {history.span}{_range_of_events(history.observed_range)}")
    elif history.future_dated and not history.events and not may_be_empty:
        raise FingerprintError(
            "there is no event in the input: all of its events are dated in the future; is the clock of this machine right?"
        )


def unread_objects(found: FilesInSpan) -> dict[str, int]:
    """Return the numbers of all objects, of those not fetched, of months not listed because of the span, and of other logs."""
    return {
        "objects": len(found.found),
        "not_fetched": len(found.found) - len(found.files),
        "months_not_listed": len(found.unlisted),
        "other_logs": found.other_logs,
    }


def _days_of_objects(found: FilesInSpan) -> str:
    """Return the sentence on the days of the objects; on their months if some months were not listed."""
    days = sorted(
        [*found.unlisted, *(day for day in (SOURCE.object_day(file.path) for file in found.found) if day)]
    )
    first, last = (f"{day:%Y-%m}" if found.unlisted else f"{day}" for day in (days[0], days[-1]))
    return f"there are objects of {first}" if first == last else f"there are objects of {first} to {last}"


def _range_of_events(seen: tuple[datetime, datetime] | None) -> str:
    if seen is None:
        return ""
    return (
        f": the history has {time_range.format_instant(seen[0])} to {time_range.format_instant(seen[1])} UTC"
    )


def _describe_rejects(history: EventSpool, found: Sequence[SourceFile]) -> str:
    reason, _ = Counter(each.reason for each in history.rejects).most_common(1)[0]
    guess = guess_format(found)
    return (
        f"nothing in the input is a {SOURCE.NAME} record: {history.rejected:,} rejected, most often for this reason: "
        f"{printable(reason)[:MAX_REASON_LENGTH]}" + (f"; it looks like {guess}" if guess else "")
    )


def _describe_skipped(history: EventSpool, found: Sequence[SourceFile]) -> str:
    if not history.skipped:
        return "it holds no record"
    head = _first_bytes(found)
    kinds = [name for field, name in SOURCE.NO_EVENT_FIELDS if f'"{field}"'.encode() in head]
    of = f" ({', '.join(kinds)})" if kinds else ""
    return f"{history.skipped:,} skipped, because {SOURCE.NAME} writes them beside its events{of}"


def guess_format(found: Sequence[SourceFile]) -> str | None:
    """Return the format of the first file if it is a known other format, also inside gzip; else None."""
    return _format_of(_first_bytes(found))


def _first_bytes(found: Sequence[SourceFile]) -> bytes:
    """Return the first bytes of the first file, expanded if it is gzip; empty without a file."""
    for file in found[:1]:
        with file.system.open(file.path, "rb") as stream:
            return _expand(stream.read(HEAD_BYTES))
    return b""


def _expand(head: bytes) -> bytes:
    if not head.startswith(GZIP_START):
        return head
    try:
        return zlib.decompressobj(GZIP_ONLY).decompress(head, HEAD_BYTES)
    except zlib.error:
        return head


def _format_of(head: bytes) -> str | None:
    for start, name in FORMATS:
        if head.startswith(start):
            return name
    if head[TAR_MAGIC_AT:].startswith(TAR_MAGIC):
        return "a tar archive: unpack it first"
    if head.lstrip().startswith((b"{", b"[")):
        return next((name for field, name in JSON_FIELDS if field in head), None)
    first_line = head.partition(b"\n")[0]
    is_table = first_line.count(b",") >= 2 and b"{" not in first_line and _is_text(first_line)
    return "a table (CSV)" if is_table else None


def _is_text(line: bytes) -> bool:
    """Return whether bytes are UTF-8, which may be cut within the last character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(line)
    except UnicodeDecodeError:
        return False
    return True
