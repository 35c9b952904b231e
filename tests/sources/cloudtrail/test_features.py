"""The features of CloudTrail events: what each says of a record, and what changed something."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.cloudtrail.features import (
    FEATURE_SET,
    GLOBAL_REGION,
    GLOBAL_SIGN_IN_REGIONS,
    SERVICE_FAILURE,
    is_write,
)
from fingerprint.sources.flatten import flatten

OWN = "444455556666"
TIME = "2026-02-02T08:15:00Z"


def texts(**fields: Any) -> dict[str, str | None]:
    record = {"eventTime": TIME, "eventSource": "ec2.amazonaws.com", "eventName": "RunInstances"} | fields
    events = flatten(split_lines([json.dumps(record).encode()])).events
    events = events.assign(network=None, idle=0, today=0, sources=0, actions=0)
    return {name: text for name, [text] in FEATURE_SET.texts(events, FEATURE_SET.names).items()}


def test_an_action_has_its_service_and_parameters_their_sorted_names() -> None:
    said = texts(requestParameters={"minCount": 1, "imageId": "ami-1"})
    assert said["action"] == "ec2:RunInstances"
    assert said["parameters"] == "ec2:RunInstances(imageId,minCount)"
    assert texts(requestParameters=None)["parameters"] == "ec2:RunInstances()"


@pytest.mark.parametrize(
    ("identity", "fields", "credentials"),
    [
        ({"type": "IAMUser", "accessKeyId": "AKIA1"}, {}, "IAMUser long-lived key"),
        ({"type": "AssumedRole", "accessKeyId": "ASIA1"}, {}, "AssumedRole temporary key"),
        ({"type": "Root"}, {"sessionCredentialFromConsole": "true"}, "Root no key from the console"),
        ({"accessKeyId": "XXXX1"}, {}, "no type other key"),
        (
            {"type": "IAMUser", "sessionContext": {"attributes": {"mfaAuthenticated": "true"}}},
            {},
            "IAMUser no key with MFA",
        ),
        ({"type": "IAMUser"}, {"additionalEventData": {"MFAUsed": "Yes"}}, "IAMUser no key with MFA"),
        ({"type": "IAMUser"}, {"additionalEventData": {"MFAUsed": "No"}}, "IAMUser no key"),
    ],
)
def test_credentials_are_their_kind_and_how_they_were_got(
    identity: dict[str, Any], fields: dict[str, Any], credentials: str
) -> None:
    assert texts(userIdentity=identity, **fields)["credentials"] == credentials


def test_a_missing_field_has_a_default_where_its_absence_says_something() -> None:
    said = texts()
    assert said["error"] == "no error"
    assert said["target"] == "own account"
    assert said["age"] == "no session"
    assert said["region"] is None
    assert said["program"] is None
    assert texts(errorCode="AccessDenied")["error"] == "AccessDenied"


@pytest.mark.parametrize(
    ("fields", "network"),
    [
        ({"sourceIPAddress": "10.0.5.7"}, "private"),
        ({"sourceIPAddress": "10.0.5.7", "vpcEndpointAccountId": OWN}, "private"),
        ({"sourceIPAddress": "172.31.99.9", "vpcEndpointAccountId": "111122223333"}, "private 111122223333"),
        ({"sourceIPAddress": "8.8.4.4", "vpcEndpointAccountId": "111122223333"}, "8.8.0.0/16 111122223333"),
        ({"sourceIPAddress": "10.0.5.7", "vpcEndpointAccountId": ""}, "private"),
        ({"sourceIPAddress": "10.0.5.7", "vpcEndpointAccountId": 7}, "private 7"),
        ({"sourceIPAddress": "10.0.5.7", "vpcEndpointAccountId": "9" * 500}, "private " + "9" * 12),
        ({"vpcEndpointAccountId": "111122223333"}, None),
    ],
)
def test_a_private_network_behind_anothers_endpoint_is_another_network(
    fields: dict[str, Any], network: str | None
) -> None:
    said = texts(recipientAccountId=OWN, vpcEndpointId="vpce-0123456789abcdef0", **fields)
    assert said["network"] == network


def test_an_endpoint_is_not_compared_where_the_record_has_no_account_of_its_own() -> None:
    assert texts(sourceIPAddress="10.0.5.7", vpcEndpointAccountId="111122223333")["network"] == "private"


@pytest.mark.parametrize("code", ["ServiceUnavailable", "InternalFailure", "KMSInternalException"])
def test_failures_of_the_service_itself_are_one_error_which_no_caller_brings_about(code: str) -> None:
    assert texts(errorCode=code)["error"] == SERVICE_FAILURE


def test_a_refusal_is_not_a_failure_of_the_service() -> None:
    for code in ("AccessDenied", "ThrottlingException", "Client.UnauthorizedOperation", "NoSuchBucket"):
        assert texts(errorCode=code)["error"] == code


@pytest.mark.parametrize(
    ("source", "action", "region", "said"),
    [
        *(("signin", "ConsoleLogin", each, GLOBAL_REGION) for each in sorted(GLOBAL_SIGN_IN_REGIONS)),
        ("signin", "ConsoleLogin", "eu-west-1", "eu-west-1"),
        ("signin", "SwitchRole", "us-east-2", "us-east-2"),
        ("sts", "AssumeRole", "us-east-1", "us-east-1"),
        ("iam", "ListUsers", "us-east-1", GLOBAL_REGION),
    ],
)
def test_the_region_of_a_global_endpoint_is_not_its_callers(
    source: str, action: str, region: str, said: str
) -> None:
    fields = {"eventSource": f"{source}.amazonaws.com", "eventName": action, "awsRegion": region}
    assert texts(**fields)["region"] == said


def test_the_age_of_a_session_is_counted_from_its_creation() -> None:
    attributes = {"creationDate": "2026-02-02T06:15:00Z"}
    said = texts(userIdentity={"type": "AssumedRole", "sessionContext": {"attributes": attributes}})
    assert said["age"] == "up to 4 h"


def test_a_change_is_told_by_the_record_or_else_by_the_verb() -> None:
    actions = pd.Series(["GetUser", "ListUsers", "PutObject", None], dtype="str")
    told = pd.DataFrame(
        {"action": actions, "read_only": pd.Series([False, True, True, None], dtype="boolean")}
    )
    assert is_write(told).tolist() == [True, False, False, True]
    untold = told.assign(read_only=pd.Series([None] * 4, dtype="boolean"))
    assert is_write(untold).tolist() == [False, False, True, True]
