"""Every notice that AWS writes of an object is understood, and nothing else is taken for one."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.sources.s3_notifications import (
    NotificationError,
    S3Notification,
    S3Object,
    parse_notification,
)

KEY = "AWSLogs/111122223333/CloudTrail/eu-west-1/2026/01/01/a b+c.json.gz"
WRITTEN = (S3Object("trail", KEY),)


def s3(key: str = KEY, bucket: str = "trail", name: str = "ObjectCreated:Put") -> dict[str, Any]:
    """As S3 sends it: the key URL-encoded, with + for a space."""
    place = {"bucket": {"name": bucket}, "object": {"key": quote_plus(key), "size": 1024}}
    return {"Records": [{"eventVersion": "2.1", "eventSource": "aws:s3", "eventName": name, "s3": place}]}


def sns(body: Any) -> dict[str, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    return {
        "Type": "Notification",
        "MessageId": "1",
        "TopicArn": "arn:aws:sns:eu-west-1:1:t",
        "Message": text,
    }


def eventbridge(
    key: str = KEY, bucket: str = "trail", kind: str = "Object Created", source: str = "aws.s3"
) -> dict[str, Any]:
    detail = {"version": "0", "bucket": {"name": bucket}, "object": {"key": key, "size": 5}}
    return {"version": "0", "detail-type": kind, "source": source, "detail": detail}


def cloudtrail(key: str = KEY, bucket: str = "trail") -> dict[str, Any]:
    return {"s3Bucket": bucket, "s3ObjectKey": [key]}


FORMS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "S3": s3,
    "EventBridge": eventbridge,
    "CloudTrail": cloudtrail,
}
TEST = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "trail"}


def said(body: Any) -> Any:
    return parse_notification(json.dumps(body).encode())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "inside SNS"])
def test_each_form_names_its_object(form: str, wrapped: bool) -> None:
    notice = FORMS[form](KEY, "trail")
    assert said(sns(notice) if wrapped else notice).objects == WRITTEN


def test_only_s3s_own_notices_encode_their_keys() -> None:
    encoded = json.dumps(s3("a=é b+c.json"))
    assert "a%3D%C3%A9+b%2Bc.json" in encoded
    assert parse_notification(encoded.encode()).objects == (S3Object("trail", "a=é b+c.json"),)
    for form in (eventbridge, cloudtrail):
        assert said(form("a%3Db+c")).objects == (S3Object("trail", "a%3Db+c"),)


@pytest.mark.parametrize("body", [TEST, sns(TEST), sns("CloudTrail validation message.")])
def test_a_notice_that_only_tries_the_pipeline_names_nothing(body: Any) -> None:
    assert (said(body).objects, said(body).is_test) == ((), True)


@pytest.mark.parametrize(
    "body",
    [
        s3(name="ObjectRemoved:Delete"),
        s3(name="ObjectRestore:Completed"),
        s3("AWSLogs/111122223333/CloudTrail-Digest/eu-west-1/a.json.gz"),
        s3("AWSLogs/111122223333/CloudTrail-Insight/eu-west-1/a.json.gz"),
        s3("AWSLogs/111122223333/Config/eu-west-1/2026/1/1/ConfigHistory/a.json.gz"),
        s3("AWSLogs/111122223333/CloudTrail-Aggregated/eu-west-1/a.json.gz"),
        s3("AWSLogs/111122223333/"),
        eventbridge(kind="Object Deleted"),
        cloudtrail("AWSLogs/1/CloudTrail-Digest/a.json.gz"),
    ],
)
def test_what_needs_no_reading_is_counted_and_passed_over(body: Any) -> None:
    assert (said(body).objects, said(body).skipped) == ((), 1)


def test_a_file_called_like_a_digest_is_no_digest() -> None:
    assert said(s3("logs/not-CloudTrail-Digest.json")).objects


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff\xfe", "not a notice"),
        (b"hello", "not a notice"),
        (b"[]", "not a JSON object"),
        (b"{}", "neither of S3 nor"),
        (b"[" * 100_000, "not a notice"),
        (json.dumps({"Records": [{"eventName": "GetUser"}]}).encode(), "s3"),
        (json.dumps({"s3Bucket": "trail", "s3ObjectKey": "no list"}).encode(), "s3ObjectKey"),
        (json.dumps(eventbridge(source="aws.ec2")).encode(), "not one of S3"),
        (
            json.dumps({"Type": "SubscriptionConfirmation", "Message": "x"}).encode(),
            "SubscriptionConfirmation",
        ),
        (json.dumps(sns(sns(sns(sns(sns(s3())))))).encode(), "around one another"),
    ],
)
def test_what_is_no_notice_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(NotificationError, match=reason):
        parse_notification(body)


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.text(max_size=9),
        lambda each: (
            st.lists(each)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "Records",
                        "Message",
                        "Type",
                        "s3Bucket",
                        "s3ObjectKey",
                        "detail-type",
                        "source",
                        "detail",
                        "Event",
                    ]
                ),
                each,
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_whatever_the_bytes_it_is_a_notice_or_unreadable(body: bytes) -> None:
    with suppress(NotificationError):
        assert isinstance(parse_notification(body), S3Notification)


def test_a_trail_is_what_one_account_writes_of_one_region() -> None:
    organised = "backup/AWSLogs/o-abc123/111122223333/CloudTrail/eu-west-1/2026/01/01/a.json.gz"
    assert (
        S3Object("b", organised).ordered_prefix
        == "b/backup/AWSLogs/o-abc123/111122223333/CloudTrail/eu-west-1"
    )
    assert S3Object("b", "anything/else.json").ordered_prefix == "b"
