"""A check that the input is CloudTrail: input of which nothing can be read is an error, not a quiet day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.core.alert import FingerprintError
from fingerprint.core.sanitize import printable

HEAD_BYTES = 4096  # of a file, by which its format is guessed
MAX_REASON_LENGTH = 200
FORMATS = (  # what a file of another format begins with, or has in its first bytes
    (b"PK\x03\x04", "a ZIP archive: unpack it first"),
    (b"PAR1", "Parquet: CloudTrail Lake exports JSON too"),
    (b"BZh", "compressed with bzip2: only gzip is read"),
    (b"\xfd7zXZ", "compressed with xz: only gzip is read"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: only gzip is read"),
    (b"<?xml", "XML"),
)
JSON_FIELDS = (
    (b'"protoPayload"', "an audit log of Google Cloud"),
    (b'"operationName"', "an activity log of Azure"),
    (b'"class_uid"', "a log in the OCSF format"),
    (b'"srcaddr"', "a VPC flow log"),
)


def require_events(history: EventSpool, sources: Sequence[str]) -> None:
    """Raise FingerprintError if every record of the input was rejected: one sentence with the most frequent reason."""
    usable = history.records - history.rejected - history.skipped
    if usable or not history.rejected:
        return
    reason, _ = Counter(each.reason for each in history.rejects).most_common(1)[0]
    guess = guess_format(sources)
    raise FingerprintError(
        f"nothing in the input is a CloudTrail record: {history.rejected:,} rejected, most often for this reason: "
        f"{printable(reason)[:MAX_REASON_LENGTH]}" + (f"; it looks like {guess}" if guess else "")
    )


def guess_format(sources: Sequence[str]) -> str | None:
    """Return what the first file of the sources seems to be, if it is of a known other format."""
    for file in files.find_files(sources)[:1]:
        with file.system.open(file.path, "rb") as stream:
            return _format_of(stream.read(HEAD_BYTES))
    return None


def _format_of(head: bytes) -> str | None:
    for start, name in FORMATS:
        if head.startswith(start):
            return name
    if head.lstrip().startswith((b"{", b"[")):
        return next((name for field, name in JSON_FIELDS if field in head), None)
    first_line = head.partition(b"\n")[0]
    return "a table (CSV)" if first_line.count(b",") >= 2 and b"{" not in first_line else None
