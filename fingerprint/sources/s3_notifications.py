"""Notifications of written objects that S3, SNS, EventBridge or the log source itself put on a queue.

Example:
    >>> record = b'{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "trail"}, "object": {"key": "a+b.json.gz"}}}'
    >>> parse_notification(b'{"Records": [%s]}' % record).objects
    (S3Object(bucket='trail', key='a b.json.gz'),)

There are four forms, each also inside SNS: S3's own event notifications (with URL-encoded keys), EventBridge's `Object Created`,
the log source's own (`LogSource.notified_objects`), and the test message that S3 sends once when a queue is connected.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote_plus

import msgspec

from fingerprint.sources.active import SOURCE

MAX_WRAPPINGS = 4  # levels of SNS in SNS; AWS makes one


class NotificationError(ValueError):
    """Raised for a message that is no notification; the reason is a clause without a full stop."""


class S3Object(NamedTuple):
    """An object that was written; `key` is as in S3, not URL-encoded."""

    bucket: str
    key: str

    @property
    def url(self) -> str:
        """The object's address, `s3://bucket/key`."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def ordered_prefix(self) -> str:
        """Bucket and prefix below which objects are sorted by time; the bucket alone if the log source knows no such prefix.

        >>> S3Object("b", "AWSLogs/111122223333/CloudTrail/eu-west-1/2026/01/01/a.json.gz").ordered_prefix
        'b/AWSLogs/111122223333/CloudTrail/eu-west-1'
        """
        return f"{self.bucket}/{SOURCE.ordered_prefix(self.key)}".rstrip("/")


class S3Notification(NamedTuple):
    """The objects of a notification. `skipped` counts those that are not read: removed objects, folders, no possible events."""

    objects: tuple[S3Object, ...] = ()
    skipped: int = 0
    is_test: bool = False


class _Bucket(msgspec.Struct):
    name: str


class _Key(msgspec.Struct):
    key: str


class _S3Location(msgspec.Struct):
    bucket: _Bucket
    object: _Key


class _S3Record(msgspec.Struct):
    eventName: str
    s3: _S3Location


class _Sns(msgspec.Struct):
    Type: str
    Message: str


_WRONG = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def parse_notification(body: bytes) -> S3Notification:
    """Return the objects in a message of the queue. Raise NotificationError, and no other error, for any other bytes."""
    try:
        return _parse_body(body, MAX_WRAPPINGS)
    except _WRONG as error:
        raise NotificationError(f"not a notice of objects written: {error}") from None


def _parse_body(body: bytes | str, wrappings: int) -> S3Notification:
    if isinstance(body, str) and SOURCE.notified_objects(body) == []:
        return S3Notification(is_test=True)
    table = msgspec.json.decode(body)
    if not isinstance(table, dict):
        raise NotificationError("not a notice of objects written: not a JSON object")
    if "Message" in table and "Type" in table:
        return _sns(table, wrappings)
    if "Records" in table:
        return _s3(table["Records"])
    own = SOURCE.notified_objects(table)
    if own is not None:
        return _notification([S3Object(*each) for each in own])
    if "detail-type" in table:
        return _eventbridge(table)
    if table.get("Event") == "s3:TestEvent":
        return S3Notification(is_test=True)
    raise NotificationError(
        f"not a notice of objects written: neither of S3 nor SNS, EventBridge or {SOURCE.NAME}"
    )


def _sns(table: dict[str, Any], wrappings: int) -> S3Notification:
    wrapped = msgspec.convert(table, _Sns)
    if wrapped.Type != "Notification":
        raise NotificationError(f"an SNS message of type {wrapped.Type[:40]}, not a notification")
    if not wrappings:
        raise NotificationError(f"more than {MAX_WRAPPINGS} SNS messages around one another")
    return _parse_body(wrapped.Message, wrappings - 1)


def _s3(records: Any) -> S3Notification:
    found = msgspec.convert(records, list[_S3Record])
    created = [each.s3 for each in found if each.eventName.removeprefix("s3:").startswith("ObjectCreated:")]
    objects = [S3Object(place.bucket.name, unquote_plus(place.object.key)) for place in created]
    return _notification(objects, len(found) - len(created))


def _eventbridge(table: dict[str, Any]) -> S3Notification:
    if table.get("source") != "aws.s3":
        raise NotificationError("an EventBridge event, but not one of S3")
    if table["detail-type"] != "Object Created":
        return S3Notification(skipped=1)
    place = msgspec.convert(table.get("detail"), _S3Location)
    return _notification([S3Object(place.bucket.name, place.object.key)])


def _notification(objects: list[S3Object], skipped: int = 0) -> S3Notification:
    kept = tuple(each for each in objects if _holds_events(each.key))
    return S3Notification(kept, skipped + len(objects) - len(kept))


def _holds_events(key: str) -> bool:
    return not key.endswith("/") and SOURCE.holds_events(key)
