"""The lenient parser: it repairs the few records that the fast reader refuses, or says why a line is no record.

Example:
    >>> repair_record(rb'{"eventTime": "2023-07-10T11:42:18Z", "userAgent": "\\ud800"}').decode()
    '{"eventTime": "2023-07-10T11:42:18Z", "userAgent": "\ufffd"}'

An attacker who breaks a strict parser with a character in a user agent could hide records. So lone surrogates become U+FFFD, and
raw control characters are accepted. Numbers become text, with the digits of the record.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

NO_EVENT_FIELDS = (
    ("digestStartTime", "digest files"),
    ("insightDetails", "insights"),
    ("timeWindow", "aggregated events"),
    ("logEvents", "control messages of CloudWatch Logs"),
)
"""Fields of the objects without events that AWS writes beside records, and the names of these objects."""

OTHER_FORMS = (
    ("class_uid", "an OCSF event, as Security Lake has them: read the trail's own files"),
    ("eventtime", "a row of a table, whose columns are lower-case: read the trail's own files"),
    ("_raw", "an event of Splunk whose _raw holds no JSON"),
    ("result", "a search result of Splunk without the record in result._raw"),
    ("@timestamp", "a document of Elastic or a log shipper without the record in message or event.original"),
    ("kinesis", "a Kinesis record without JSON in kinesis.data"),
    ("body", "a message of SQS without JSON in body"),
    ("records", "a list of another name: CloudTrail writes Records"),
    ("s3ObjectKey", "a notice of objects: it names them and holds no record"),
    ("configurationItems", "a file of AWS Config"),
)
"""Keys of JSON objects that have records in another form or are mistaken for records, and why they are not read."""

EARLIEST_TIME, LATEST_TIME = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


class ParseError(ValueError):
    """The reason why a line is no record, in the words of the list of rejects."""


def repair_record(line: bytes) -> bytes:
    """Return the same record as strict JSON. Raises ParseError with the reason if it cannot be repaired."""
    record = _load(line)
    if not isinstance(record, dict):
        raise ParseError(f"a record must be a JSON object, not {_kind(line)}")
    return _without_lone_surrogates(json.dumps(record, ensure_ascii=False)).encode()


def non_event_reason(line: bytes) -> str | None:
    """Return why a line holds no event; None for objects that are no events by design (digest, insight, test notice)."""
    try:
        record = _load(line)
    except ParseError as error:
        return str(error)
    if not isinstance(record, dict):
        return f"a record must be a JSON object, not {_kind(line)}"
    if record.get("Event") == "s3:TestEvent" or any(field in record for field, _ in NO_EVENT_FIELDS):
        return None
    forms = () if "eventTime" in record else OTHER_FORMS
    return next((reason for key, reason in forms if key in record), "no usable eventTime")


def parse_time(text: str) -> datetime | None:
    """Return an ISO 8601 time in UTC; None if it is no time, or not from 2000 up to 2200.

    The text may have fractions of any length, an offset (without one it is UTC), and a space in place of the T.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if len(text) > 10 and EARLIEST_TIME <= moment < LATEST_TIME else None


def _load(line: bytes) -> Any:
    try:
        return json.loads(
            line.decode(errors="replace"), strict=False, parse_int=str, parse_float=str, parse_constant=str
        )
    except RecursionError:
        raise ParseError("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ParseError(f"malformed JSON at character {error.pos}: {error.msg}") from None


def _without_lone_surrogates(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _kind(line: bytes) -> str:
    names = {b"[": "an array", b'"': "a string", b"n": "null", b"t": "a boolean", b"f": "a boolean"}
    return names.get(line[:1], "a number")
