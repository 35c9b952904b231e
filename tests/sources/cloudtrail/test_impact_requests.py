"""What a request says about its gravity: opened to whom, switched off or on; and that unreadable requests lower nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fingerprint.sources.cloudtrail.impact import impact_of
from fingerprint.sources.cloudtrail.impact_requests import MAX_RECORD_CHARACTERS, adjust_gravity
from tests.support.alerts import NASTY

ACCOUNT = "123456789012"


def gravity(call: str, request: Any, **record: Any) -> str:
    text = json.dumps({"recipientAccountId": ACCOUNT, "requestParameters": request, **record})
    return impact_of(*call.split(":"), text).gravity


def policy(principal: Any, effect: str = "Allow") -> dict[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": effect, "Principal": principal, "Action": "s3:*"}],
    }


OWN, OTHER = f"arn:aws:iam::{ACCOUNT}:role/app", "arn:aws:iam::210987654321:root"


@pytest.mark.parametrize(
    ("call", "request_", "expected"),
    [
        ("s3:PutBucketPolicy", {"bucketPolicy": policy("*")}, "severe"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"AWS": [OWN, OTHER]})}, "severe"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"AWS": "210987654321"})}, "severe"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"AWS": OWN})}, "notable"),
        (
            "s3:PutBucketPolicy",
            {"bucketPolicy": policy("*", "Deny")},
            "severe",
        ),  # nothing is allowed: as the action's
        ("iam:UpdateAssumeRolePolicy", {"policyDocument": json.dumps(policy({"AWS": OTHER}))}, "severe"),
        (
            "iam:UpdateAssumeRolePolicy",
            {"policyDocument": json.dumps(policy({"Service": "ec2.amazonaws.com"}))},
            "notable",
        ),
        ("sqs:SetQueueAttributes", {"attributes": {"VisibilityTimeout": "60"}}, "minor"),
        ("sqs:SetQueueAttributes", {"attributes": {"Policy": json.dumps(policy("*"))}}, "severe"),
        (
            "ec2:ModifySnapshotAttribute",
            {"createVolumePermission": {"add": {"items": [{"userId": "210987654321"}]}}},
            "severe",
        ),
        (
            "ec2:ModifySnapshotAttribute",
            {"createVolumePermission": {"remove": {"items": [{"group": "all"}]}}},
            "minor",
        ),
        ("rds:ModifyDBSnapshotAttribute", {"valuesToAdd": ["all"]}, "severe"),
        (
            "ec2:AuthorizeSecurityGroupIngress",
            {"ipPermissions": {"items": [{"cidrIp": "0.0.0.0/0"}]}},
            "grave",
        ),
        (
            "ec2:AuthorizeSecurityGroupIngress",
            {"ipPermissions": {"items": [{"cidrIp": "10.0.0.0/8"}]}},
            "minor",
        ),
        ("s3:PutBucketAcl", {"x-amz-acl": "public-read"}, "severe"),
        ("s3:PutBucketAcl", {"x-amz-acl": "private"}, "notable"),
        (
            "s3:PutBucketPublicAccessBlock",
            {"PublicAccessBlockConfiguration": {"BlockPublicAcls": False}},
            "severe",
        ),
        (
            "s3:PutBucketPublicAccessBlock",
            {"PublicAccessBlockConfiguration": {"BlockPublicAcls": True}},
            "minor",
        ),
        ("s3:PutBucketVersioning", {"VersioningConfiguration": {"Status": "Suspended"}}, "severe"),
        ("s3:PutBucketVersioning", {"VersioningConfiguration": {"Status": "Enabled"}}, "minor"),
        ("guardduty:UpdateDetector", {"enable": False}, "severe"),
        ("guardduty:UpdateDetector", {"enable": True}, "notable"),
        ("iam:AttachRolePolicy", {"policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}, "severe"),
        ("iam:AttachUserPolicy", {"policyArn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}, "notable"),
        ("iam:UpdateAccessKey", {"status": "Inactive"}, "minor"),
        ("iam:UpdateAccessKey", {"status": "Active"}, "grave"),
        ("ssm:GetParameters", {"names": ["/prod/db"], "withDecryption": True}, "notable"),
        ("ssm:GetParameters", {"names": ["/prod/region"]}, "minor"),
        ("ec2:DescribeInstanceAttribute", {"attribute": "userData"}, "notable"),
        ("ec2:DescribeInstanceAttribute", {"attribute": "instanceType"}, "none"),
    ],
)
def test_the_same_action_protects_or_harms_by_its_parameters(call: str, request_: Any, expected: str) -> None:
    assert gravity(call, request_) == expected


@pytest.mark.parametrize(
    "record",
    ["", "{", "[]", "null", '{"requestParameters": "x"}', '{"requestParameters": null}', "[" * 100_000],
)
def test_a_record_that_cannot_be_read_lowers_nothing(record: str) -> None:
    assert adjust_gravity("s3", "PutBucketPolicy", "severe", record) == "severe"


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_a_request_of_any_text_is_read_without_an_error(text: str) -> None:
    for call in (
        "s3:PutBucketPolicy",
        "ec2:ModifySnapshotAttribute",
        "s3:PutBucketAcl",
        "iam:AttachUserPolicy",
    ):
        assert gravity(call, {text: {"add": [text, {"Principal": text}]}, "Principal": {text: [text]}})


def test_a_policy_nested_beyond_all_bounds_is_read_in_bounded_time() -> None:
    deep: Any = "*"
    for _ in range(400):
        deep = {"Statement": [deep, deep]} if isinstance(deep, str) else {"x": deep}
    wide = {f"member{n}": {"Principal": "*"} for n in range(20_000)}
    assert gravity("s3:PutBucketPolicy", deep)
    assert gravity("s3:PutBucketPolicy", wide) == "severe"
    assert adjust_gravity("s3", "PutBucketPolicy", "severe", " " * (MAX_RECORD_CHARACTERS + 1)) == "severe"
