"""Notices to the objects they name: what S3, SNS, EventBridge or CloudTrail put on a queue when an object was written.

Example:
    >>> read(b'{"s3Bucket": "trail", "s3ObjectKey": ["AWSLogs/1/CloudTrail/eu-west-1/a.json.gz"]}').objects
    (Object(bucket='trail', key='AWSLogs/1/CloudTrail/eu-west-1/a.json.gz'),)

Four forms, each also inside SNS: S3's own event notices (keys URL-encoded), EventBridge's `Object Created`, CloudTrail's own,
and what is sent once to see whether the road is open (`s3:TestEvent`, CloudTrail's validation message).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

import msgspec

MAX_WRAPPINGS = 4  # SNS in SNS: AWS makes one
NO_EVENTS = ("CloudTrail-Digest", "CloudTrail-Insight")  # folders of a trail that hold no events
_VALIDATION = "CloudTrail validation message."
_TRAIL = re.compile(r"(?:.*/)?AWSLogs/(?:o-[a-z0-9]+/)?\d{12}/CloudTrail/[a-z0-9-]+(?=/)")


class Unreadable(ValueError):
    """No notice: why, in a sentence without its end."""


class Object(NamedTuple):
    """An object that was written; `key` as S3 knows it, not URL-encoded."""

    bucket: str
    key: str

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def trail(self) -> str:
        """Bucket and prefix of one account and region, whose objects come one after the other; else the bucket.

        >>> Object("b", "AWSLogs/111122223333/CloudTrail/eu-west-1/2026/01/01/a.json.gz").trail
        'b/AWSLogs/111122223333/CloudTrail/eu-west-1'
        """
        prefix = _TRAIL.match(self.key)
        return f"{self.bucket}/{prefix[0]}" if prefix else self.bucket


class Notice(NamedTuple):
    """`skipped` counts what needs no reading: objects removed, digests, insights, folders. `test`: only a greeting."""

    objects: tuple[Object, ...] = ()
    skipped: int = 0
    test: bool = False


class _Bucket(msgspec.Struct):
    name: str


class _Key(msgspec.Struct):
    key: str


class _Place(msgspec.Struct):
    bucket: _Bucket
    object: _Key


class _S3Record(msgspec.Struct):
    eventName: str
    s3: _Place


class _CloudTrail(msgspec.Struct):
    s3Bucket: str
    s3ObjectKey: list[str]


class _Sns(msgspec.Struct):
    Type: str
    Message: str


_WRONG = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def read(body: bytes) -> Notice:
    """What a message of the queue says; raises Unreadable, whatever the bytes."""
    try:
        return _notice(body, MAX_WRAPPINGS)
    except _WRONG as error:
        raise Unreadable(f"not a notice of objects written: {error}") from None


def _notice(body: bytes | str, wrappings: int) -> Notice:
    if isinstance(body, str) and body.startswith(_VALIDATION):
        return Notice(test=True)
    table = msgspec.json.decode(body)
    if not isinstance(table, dict):
        raise Unreadable("not a notice of objects written: not a JSON object")
    if "Message" in table and "Type" in table:
        return _sns(table, wrappings)
    if "Records" in table:
        return _s3(table["Records"])
    if "s3Bucket" in table:
        return _cloudtrail(table)
    if "detail-type" in table:
        return _eventbridge(table)
    if table.get("Event") == "s3:TestEvent":
        return Notice(test=True)
    raise Unreadable("not a notice of objects written: neither of S3 nor SNS, EventBridge or CloudTrail")


def _sns(table: dict[str, Any], wrappings: int) -> Notice:
    wrapped = msgspec.convert(table, _Sns)
    if wrapped.Type != "Notification":
        raise Unreadable(f"an SNS message of type {wrapped.Type[:40]}, not a notification")
    if not wrappings:
        raise Unreadable(f"more than {MAX_WRAPPINGS} SNS messages around one another")
    return _notice(wrapped.Message, wrappings - 1)


def _s3(records: Any) -> Notice:
    found = msgspec.convert(records, list[_S3Record])
    created = [each.s3 for each in found if each.eventName.removeprefix("s3:").startswith("ObjectCreated:")]
    objects = [Object(place.bucket.name, unquote_plus(place.object.key)) for place in created]
    return _of(objects, len(found) - len(created))


def _cloudtrail(table: dict[str, Any]) -> Notice:
    notice = msgspec.convert(table, _CloudTrail)
    return _of([Object(notice.s3Bucket, key) for key in notice.s3ObjectKey])


def _eventbridge(table: dict[str, Any]) -> Notice:
    if table.get("source") != "aws.s3":
        raise Unreadable("an EventBridge event, but not one of S3")
    if table["detail-type"] != "Object Created":
        return Notice(skipped=1)
    place = msgspec.convert(table.get("detail"), _Place)
    return _of([Object(place.bucket.name, place.object.key)])


def _of(objects: list[Object], skipped: int = 0) -> Notice:
    kept = tuple(each for each in objects if _holds_events(each.key))
    return Notice(kept, skipped + len(objects) - len(kept))


def _holds_events(key: str) -> bool:
    return not key.endswith("/") and not set(NO_EVENTS) & set(key.split("/"))
