"""The resource that a call touches: which member names it, how it is written, and what of it is folded."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.cloudtrail.features import FEATURE_SET
from fingerprint.sources.cloudtrail.operations import load_operations
from fingerprint.sources.cloudtrail.resources import (
    MAX_RESOURCE_LENGTH,
    RESOURCE_PARAMETERS,
    fold,
    resource_of,
    typed_resource,
)
from fingerprint.sources.flatten import flatten

TIME = "2026-02-02T08:15:00Z"


def resource(parameters: Any = None, **fields: Any) -> str | None:
    record = {"eventTime": TIME, "eventSource": "s3.amazonaws.com", "eventName": "X"} | fields
    events = flatten(split_lines([json.dumps(record | {"requestParameters": parameters}).encode()])).events
    found = events["resource"].iloc[0]
    return None if pd.isna(found) else str(found)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"bucketName": "acme-logs", "key": "a/b"}, "bucket:acme-logs"),
        ({"roleArn": "arn:aws:iam::111122223333:role/team/Admin", "roleSessionName": "x"}, "role:team/Admin"),
        ({"policyArn": "arn:aws:iam::aws:policy/AdministratorAccess", "roleName": "ci"}, "role:ci"),
        (
            {"secretId": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:prod/db-a1B2c3"},
            "secret:prod/db",
        ),
        ({"secretId": "prod/db"}, "secret:prod/db"),
        *(
            ({"secretId": f"arn:aws:secretsmanager:eu-west-1:111122223333:secret:{name}"}, f"secret:{named}")
            for name, named in (
                ("prod/db-master", "prod/db-master"),  # without the suffix, which may be left out
                ("prod/db-reader", "prod/db-reader"),
                ("prod/db-master-a1B2c3", "prod/db-master"),
                ("prod/db-reader-abcdeF", "prod/db-reader"),
                ("prod/db-reader-9bcdef", "prod/db-reader"),
            )
        ),
        ({"functionName": "arn:aws:lambda:eu-west-1:111122223333:function:orders:7"}, "function:orders"),
        ({"tableName": "orders"}, "table:orders"),
        (
            {"tableArn": "arn:aws:dynamodb:eu-west-1:111122223333:table/orders", "s3Bucket": "mirror"},
            "table:orders",
        ),
        ({"dBClusterSnapshotIdentifier": "orders-7", "valuesToAdd": ["all"]}, "snapshot:orders-7"),
        ({"sourceDBClusterSnapshotIdentifier": "a", "targetDBClusterSnapshotIdentifier": "b"}, "snapshot:a"),
        ({"snapshotIdentifier": "dwh-7", "accountWithRestoreAccess": "222222222222"}, "snapshot:dwh-7"),
        (
            {"sourceArn": "arn:aws:rds:eu-west-1:111122223333:snapshot:orders-7", "s3BucketName": "mirror"},
            "snapshot:orders-7",
        ),
        (
            {"recoveryPointArn": "arn:aws:ec2:eu-west-1::snapshot/snap-0f3e19049378e4fbd"},
            "snapshot:snap-0f3e19049378e4fbd",
        ),
        ({"layerName": "auth", "versionNumber": 3, "principal": "*"}, "layer:auth"),
        ({"rule": "nightly", "targets": [{"arn": "x"}]}, "rule:nightly"),
        ({"rule": {"x": 1}, "path": "/prod/"}, None),
        ({"rule": {"x": 1}, "name": "a"}, "resource:a"),
        ({"path": "/prod/", "recursive": True}, "resource:/prod/"),
        ({"virtualMFADeviceName": "eve", "path": "/"}, None),
        ({"policyName": "deploy", "path": "/", "policyDocument": "{}"}, "policy:deploy"),
        (
            {"identityPoolId": "eu-west-1:8f600cda-04e8-6f51-bf9e-f36bf7e8715e"},
            "identity pool:eu-west-1:8f600cda-04e8-6f51-bf9e-f36bf7e8715e",
        ),
        ({"keyId": "alias/orders"}, "key:alias/orders"),
        ({"queueUrl": "https://sqs.eu-west-1.amazonaws.com/111122223333/orders"}, "queue:orders"),
        ({"topicArn": "arn:aws:sns:eu-west-1:111122223333:alarms"}, "topic:alarms"),
        ({"name": "main-trail"}, "resource:main-trail"),
        ({"modelId": "anthropic.claude-v2"}, "model:anthropic.claude-v2"),
        ({"modelId": "arn:aws:bedrock:us-east-1::foundation-model/meta.llama3"}, "model:meta.llama3"),
        (
            {"modelId": "arn:aws:bedrock:us-east-1:111122223333:inference-profile/us.meta.llama3"},
            "model:us.meta.llama3",
        ),
        ({"secretIdList": ["prod/db", "prod/api"], "maxResults": 2}, "secret:prod/db"),
        ({"clusterIdentifier": "dwh", "dbUser": "x"}, "cluster:dwh"),
        ({"endpointName": "churn"}, "endpoint:churn"),
        ({"directoryId": "d-9067012345", "shareMethod": "HANDSHAKE"}, "directory:d-9067012345"),
        ({"serviceArn": "arn:aws:apprunner:eu-west-1:111122223333:service/web/8fe1"}, "service:web/8fe1"),
        (
            {"targetId": "111122223333", "permissionSetArn": "arn:aws:sso:::permissionSet/ssoins-1/ps-2"},
            "target:111122223333",
        ),
        ({"permissionSetArn": "arn:aws:sso:::permissionSet/ssoins-1/ps-2"}, "permission set:ssoins-1/ps-2"),
        ({"accountId": "111122223333", "destinationParentId": "ou-1"}, "account:111122223333"),
        ({"accountId": "111122223333", "name": "x"}, "resource:x"),
        (
            {"instancesSet": {"items": [{"instanceId": "i-0f3e1904"}, {"instanceId": "i-2"}]}, "force": True},
            "instance:i-0f3e1904",
        ),
        ({"instancesSet": {"items": [{"imageId": "ami-1"}]}, "names": ["x"]}, "resource:x"),
        ({"instancesSet": {}, "filterSet": {}}, None),
        ({"names": ["/prod/db/password", "/prod/api"], "withDecryption": True}, "resource:/prod/db/password"),
        ({"names": [], "name": "a"}, "resource:a"),
        ({"names": "x"}, None),
        ({"names": [{"a": 1}]}, None),
        ({"requestItems": {"orders": {"keys": []}, "customers": []}}, "table:orders"),
        ({"requestItems": {"arn:aws:dynamodb:eu-west-1:111122223333:table/orders": []}}, "table:orders"),
        ({"requestItems": {}}, None),
        ({"bucketName": None, "keyId": "k"}, "key:k"),
        ({"bucketName": {"a": 1}}, None),
        ({"filterSet": {"items": [{"name": "x"}]}}, None),
        ({"policyDocument": '{"bucketName":"x"}'}, None),
        (None, None),
    ],
)
def test_a_call_touches_what_its_most_telling_parameter_names(parameters: Any, named: str | None) -> None:
    assert resource(parameters) == named


def test_where_no_parameter_names_one_the_first_of_the_resources_does() -> None:
    arn = "arn:aws:kms:eu-west-1:111122223333:key/8f600cda-04e8-6f51-bf9e-f36bf7e8715e"
    resources = [
        {"accountId": "111122223333", "type": "AWS::KMS::Key", "ARN": arn},
        {"ARN": "arn:aws:s3:::b"},
    ]
    assert (
        resource({"encryptionContext": {}}, resources=resources) == "key:8f600cda-04e8-6f51-bf9e-f36bf7e8715e"
    )
    assert resource({"keyId": "alias/x"}, resources=resources) == "key:alias/x"


def test_identity_center_gives_a_permission_set_of_an_account() -> None:
    details = {"account_id": "222222222222", "role_name": "AdministratorAccess"}
    assert resource(serviceEventDetails=details) == "permission set:222222222222/AdministratorAccess"
    assert resource({"name": "x"}, serviceEventDetails=details) == "resource:x"
    assert resource(serviceEventDetails={"role_name": "AdministratorAccess"}) is None


@pytest.mark.parametrize(
    ("whole", "folded"),
    [
        (
            "permission set:222222222222/AdministratorAccess",
            "permission set:222222222222/AdministratorAccess",
        ),
        ("bucket:logs-2026-01-08-111122223333", "bucket:logs-*-*"),
        ("bucket:app-bucket-13nrzhi7fcs7w", "bucket:app-bucket-*"),
        ("model:anthropic.claude-3-5-sonnet-20240620-v1:0", "model:anthropic.claude-3-5-sonnet-*-v1:0"),
        ("service:web/8fe1a2b3c4d5e6f78fe1a2b3c4d5e6f7", "service:web/*"),
        ("account:111122223333", "account:111122223333"),
        ("user pool:eu-west-1_4abc5def6", "user pool:eu-west-1_4abc5def6"),
        ("directory:d-9067012345", "directory:d-9067012345"),
        ("log group:run-8f600cda-04e8-6f51-bf9e-f36bf7e8715e", "log group:run-*"),
        ("instance:i-0f3e19049378e4fbd", "instance:i-*"),
        ("database:terraform-20231208145149286600000001", "database:terraform-*"),
        ("key:8f600cda-04e8-6f51-bf9e-f36bf7e8715e", "key:8f600cda-04e8-6f51-bf9e-f36bf7e8715e"),
        ("role:orders-api-prod", "role:orders-api-prod"),
        ("bucket:customerdata2", "bucket:customerdata2"),
        ("bucket:logs-123456789012-eu-west-1", "bucket:logs-*-eu-west-1"),
        ("bucket:bucket-8f3a91c2d4", "bucket:bucket-*"),
        ("bucket:cdk-hnb659fds-assets-123456789012-eu-west-1", "bucket:cdk-hnb659fds-assets-*-eu-west-1"),
        ("role:shop-ApiRole-1Q9CL0TUY4GBM", "role:shop-ApiRole-*"),
        ("bucket:files-jm8nuzn9phc3d0sh", "bucket:files-*"),
        ("bucket:files-zxkw2pqrt5mn", "bucket:files-*"),  # no words
        ("bucket:prod2db1backup", "bucket:prod2db1backup"),
        ("bucket:dev1db2secret", "bucket:dev1db2secret"),
        ("bucket:app-web1eu2prod", "bucket:app-web1eu2prod"),
        ("role:PROD2DB1BACKUP", "role:PROD2DB1BACKUP"),
        ("bucket:coffeecafe-feedface", "bucket:coffeecafe-feedface"),
    ],
)
def test_what_changes_with_every_run_is_folded(whole: str, folded: str) -> None:
    assert fold(whole) == folded


@pytest.mark.parametrize(
    ("call", "named", "resource"),
    [
        ("cloudtrail:StopLogging", "name=org-trail", "trail:org-trail"),
        ("cloudtrail:PutEventSelectors", "trailName=org-trail", "trail:org-trail"),
        ("cloudtrail:StopLogging", "name=arn:aws:cloudtrail:eu-west-1:111122223333:trail/org", "trail:org"),
        ("ssm:GetParameter", "name=/prod/db/url", "parameter:/prod/db/url"),
        ("ssm:GetParametersByPath", "path=/prod/", "parameter:/prod/"),
        ("secretsmanager:CreateSecret", "name=prod/db", "secret:prod/db"),
        ("sts:GetFederationToken", "name=build", "federated user:build"),
        ("ssm:CreateDocument", "name=Restart", "document:Restart"),
        ("glue:CreateJob", "name=export", "job:export"),
        ("sso:CreateAccountAssignment", "targetId=111122223333", "account:111122223333"),
        ("organizations:AttachPolicy", "targetId=ou-ab12-cd34ef56", "target:ou-ab12-cd34ef56"),
        ("ram:CreateResourceShare", "name=lake", "resource share:lake"),
        ("ssm:UpdateDocument", "name=Restart", "resource:Restart"),
        ("ssm:Create", "name=Restart", "resource:Restart"),
        (f"ssm:Create{'A' * 5_000}", "name=Restart", "resource:Restart"),
        ("ssm:Create<b>", "name=Restart", "resource:Restart"),
        ("cloudtrail:StopLogging", "", ""),
    ],
)
def test_one_thing_has_one_name_whichever_member_names_it(call: str, named: str, resource: str) -> None:
    service, _, action = call.partition(":")
    assert typed_resource(service, action, resource_of(named) or "") == resource


@given(st.sampled_from([*RESOURCE_PARAMETERS, "ARN", "x"]), st.text(max_size=3000))
def test_whatever_a_caller_writes_is_bounded(member: str, value: str) -> None:
    found = resource_of(f"{member}={value}")
    assert found is None or len(fold(found)) <= MAX_RESOURCE_LENGTH + 60
    assert found is None or ":" in found


def test_a_member_of_the_request_that_names_a_resource_is_one_of_an_operation() -> None:
    known = {name for each in load_operations().values() for name, _, _ in each.parameters}
    assert {*RESOURCE_PARAMETERS} - known == {"instancesSet", "requestItems"}, (
        "the log's name, a data plane's"
    )


def test_the_resource_is_judged_given_the_action() -> None:
    place = FEATURE_SET.names.index("resource")
    assert FEATURE_SET.names[FEATURE_SET.given[place]] == "action"
    assert FEATURE_SET.is_open[place]


def test_what_aws_writes_in_place_of_a_name_is_no_resource() -> None:
    assert typed_resource("identitystore", "CreateUser", "user:HIDDEN_DUE_TO_SECURITY_REASONS") == ""
    assert typed_resource("signin", "ConsoleLogin", "resource:HIDDEN_DUE_TO_SECURITY_REASONS") == ""
    assert typed_resource("iam", "CreateUser", "user:hidden") == "user:hidden"
