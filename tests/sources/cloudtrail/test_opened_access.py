"""What a call opens that others may act by: names of requests that were carried out, and nothing of any other text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fingerprint.sources.base import OpenedAccess
from fingerprint.sources.cloudtrail.opened_access import opened_access
from tests.support.alerts import ACCOUNT

KEY = {"accessKey": {"userName": "backup", "accessKeyId": "AKIABACKUP"}}


def record(request: Any, response: Any = None, **members: Any) -> str:
    return json.dumps(
        {"recipientAccountId": ACCOUNT, "requestParameters": request, "responseElements": response, **members}
    )


@pytest.mark.parametrize(
    ("call", "text", "opened"),
    [
        ("iam:CreateUser", record({"userName": "backup"}), OpenedAccess((f"{ACCOUNT}:user/backup",))),
        ("iam:CreateAccessKey", record(None, KEY), OpenedAccess((f"{ACCOUNT}:user/backup",), "AKIABACKUP")),
        ("iam:UpdateAssumeRolePolicy", record({"roleName": "x"}), OpenedAccess((f"{ACCOUNT}:role/x",))),
        ("iam:CreateUser", record({"userName": "a/b"}), OpenedAccess((f"{ACCOUNT}:user/a%2Fb",))),
        ("iam:CreateUser", record({"userName": "backup"}, errorCode="AccessDenied"), OpenedAccess()),
        ("iam:DeleteUser", record({"userName": "backup"}), OpenedAccess()),
        ("cognito-idp:CreateUser", record({"userName": "backup"}), OpenedAccess()),
        ("iam:CreateUser", record({"userName": ["backup"]}, {"accessKey": "x"}), OpenedAccess()),
        ("iam:CreateUser", record(["userName"], recipientAccountId=7), OpenedAccess()),
        ("iam:CreateUser", record({"userName": "\ud800"}), OpenedAccess()),
        ("iam:CreateUser", "[" * 100_000, OpenedAccess()),
        ("iam:CreateUser", "", OpenedAccess()),
    ],
)
def test_what_a_call_opens(call: str, text: str, opened: OpenedAccess) -> None:
    assert opened_access(*call.split(":"), text) == opened


def test_a_name_is_no_part_of_a_key() -> None:
    [principal] = opened_access("iam", "CreateUser", record({"userName": "a:b/c|d"})).principals
    assert principal.count("/") == principal.count(":") == 1
