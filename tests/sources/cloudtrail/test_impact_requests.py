"""What a request says about its gravity: opened to whom, switched off or on; and that unreadable requests lower nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fingerprint.sources.cloudtrail.impact import impact_of
from fingerprint.sources.cloudtrail.impact_requests import GRANT_CHECKS, adjust_gravity
from fingerprint.sources.cloudtrail.record_members import MAX_RECORD_CHARACTERS, CallRecord
from fingerprint.sources.cloudtrail.request_checks import REQUEST_CHECKS
from tests.support.alerts import NASTY

ACCOUNT = "123456789012"
KMS_KEY = "x-amz-server-side-encryption-aws-kms-key-id"


def gravity(call: str, request: Any, **record: Any) -> str:
    text = json.dumps({"recipientAccountId": ACCOUNT, "requestParameters": request, **record})
    return impact_of(*call.split(":"), text).gravity


def policy(principal: Any, effect: str = "Allow") -> dict[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": effect, "Principal": principal, "Action": "s3:*"}],
    }


def acl(grantee: str) -> dict[str, Any]:
    grant = {"Grantee": {"ID": grantee, "xsi:type": "CanonicalUser"}, "Permission": "FULL_CONTROL"}
    return {"AccessControlPolicy": {"AccessControlList": {"Grant": [grant]}, "Owner": {"ID": "ab" * 32}}}


def recovery(enabled: bool) -> dict[str, Any]:
    return {"pointInTimeRecoverySpecification": {"pointInTimeRecoveryEnabled": enabled}}


def selectors(**other: Any) -> dict[str, Any]:
    data = [{"type": "AWS::S3::Object", "values": ["arn:aws:s3"]}]
    whole = {"includeManagementEvents": True, "readWriteType": "All", "dataResources": data}
    return {"trailName": "t", "eventSelectors": [whole | other]}


def rights(effect: str = "Allow", **other: Any) -> str:
    statement = {"Effect": effect, "Action": "s3:GetObject", "Resource": "*"} | other
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def ingress(port: Any, cidr: str = "0.0.0.0/0") -> dict[str, Any]:
    ranges = {"ipRanges": {"items": [{"cidrIp": cidr}]}, "ipv6Ranges": {}, "groups": {}}
    return {
        "groupId": "sg-1",
        "ipPermissions": {"items": [{"ipProtocol": "tcp", "fromPort": port, "toPort": port} | ranges]},
    }


def advanced(*selectors: dict[str, str]) -> dict[str, Any]:
    made = [
        {
            "name": "x",
            "fieldSelectors": [{"field": field, "equals": [value]} for field, value in each.items()],
        }
        for each in selectors
    ]
    return {"trailName": "t", "advancedEventSelectors": made}


def lifecycle(**rule: Any) -> dict[str, Any]:
    return {"bucketName": "b", "LifecycleConfiguration": {"Rule": {"ID": "x", "Status": "Enabled"} | rule}}


def machines(kind: str, many: Any) -> dict[str, Any]:
    return {"instanceType": kind, "instancesSet": {"items": [{"minCount": 1, "maxCount": many}]}}


MANAGEMENT, DATA = (
    {"eventCategory": "Management"},
    {"eventCategory": "Data", "resources.type": "AWS::S3::Object"},
)
DENIES_HTTP = policy("*", "Deny")
DENIES_HTTP["Statement"][0]["Condition"] = {"Bool": {"aws:SecureTransport": "false"}}
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
PERMISSION_SET = "sso:AttachManagedPolicyToPermissionSet"
MUCH = "starts machines that cost much: with GPUs, very large ones, or many"
DESTINATION = "arn:aws:logs:eu-west-1:210987654321:destination:d"
FINDINGS = {"criterion": {"severity": {"gte": 1}}}
OF_EC2 = f"arn:aws-us-gov:sts::{ACCOUNT}:assumed-role/aws:ec2-infrastructure/i-0123456789abcdef0"
OWN, OTHER = f"arn:aws:iam::{ACCOUNT}:role/app", "arn:aws:iam::210987654321:root"


@pytest.mark.parametrize(
    ("call", "request_", "expected"),
    [
        ("s3:PutBucketPolicy", {"bucketPolicy": policy("*")}, "severe"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"AWS": [OWN, OTHER]})}, "severe"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"AWS": "210987654321"})}, "severe"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"AWS": OWN})}, "notable"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy("*", "Deny")}, "grave"),  # it shuts everybody out
        ("s3:PutBucketPolicy", {"bucketPolicy": DENIES_HTTP}, "notable"),
        ("s3:PutBucketPolicy", {"policy": "", "bucketPolicy": {"Statement": []}}, "notable"),
        ("iam:UpdateAssumeRolePolicy", {"policyDocument": json.dumps(policy({"AWS": OTHER}))}, "severe"),
        (
            "iam:UpdateAssumeRolePolicy",
            {"policyDocument": json.dumps(policy({"Service": "ec2.amazonaws.com"}))},
            "notable",
        ),
        (
            "iam:UpdateAssumeRolePolicy",
            {"policyDocument": json.dumps(policy({"Service": "rolesanywhere.amazonaws.com"}))},
            "severe",
        ),
        ("sns:Publish", {"phoneNumber": "+4512345678", "message": "x"}, "notable"),
        ("sns:Publish", {"topicArn": "arn:aws:sns:eu-west-1:1:t", "message": "x"}, "minor"),
        ("sqs:SetQueueAttributes", {"attributes": {"VisibilityTimeout": "60"}}, "minor"),
        ("sqs:SetQueueAttributes", {"attributes": {"Policy": json.dumps(policy("*"))}}, "severe"),
        ("sqs:SetQueueAttributes", {"attributes": {"Policy": ""}}, "notable"),
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
        ("guardduty:CreateFilter", {"action": "ARCHIVE", "findingCriteria": FINDINGS}, "severe"),
        ("guardduty:CreateFilter", {"action": "NOOP", "findingCriteria": FINDINGS}, "notable"),
        ("guardduty:CreateFilter", {"findingCriteria": FINDINGS}, "notable"),  # GuardDuty's default: it lists
        ("guardduty:CreateFilter", {}, "severe"),
        ("guardduty:UpdateFilter", {"action": "NOOP"}, "notable"),
        ("guardduty:UpdateFilter", {"findingCriteria": FINDINGS}, "severe"),  # it may archive already
        ("iam:AttachRolePolicy", {"policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}, "severe"),
        ("iam:AttachUserPolicy", {"policyArn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}, "notable"),
        (PERMISSION_SET, {"managedPolicyArn": ADMINISTRATOR}, "severe"),
        (PERMISSION_SET, {"managedPolicyArn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}, "notable"),
        ("iam:UpdateAccessKey", {"status": "Inactive"}, "minor"),
        ("iam:UpdateAccessKey", {"status": "Active"}, "grave"),
        ("ssm:GetParameters", {"names": ["/prod/db"], "withDecryption": True}, "notable"),
        ("ssm:GetParameters", {"names": ["/prod/region"]}, "minor"),
        ("iam:AttachUserPolicy", {"policyArn": f"arn:aws:iam::{ACCOUNT}:policy/OpsReadOnly"}, "severe"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"CanonicalUser": "ab" * 32})}, "severe"),
        (
            "s3:PutBucketPolicy",
            {"bucketPolicy": {"Statement": [{"Effect": "Allow", "NotPrincipal": {"AWS": OWN}}]}},
            "severe",
        ),
        (
            "iam:UpdateAssumeRolePolicy",
            {
                "policyDocument": json.dumps(
                    policy({"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/evil.example"})
                )
            },
            "severe",
        ),
        ("s3:PutBucketAcl", acl("ab" * 32), "notable"),
        ("s3:PutBucketAcl", acl("cd" * 32), "severe"),
        ("s3:PutBucketAcl", {"x-amz-grant-full-control": 'id="' + "cd" * 32 + '"'}, "severe"),
        (
            "ec2:AuthorizeSecurityGroupIngress",
            {"items": [{"cidrIp": "0.0.0.0/1"}, {"cidrIp": "128.0.0.0/1"}]},
            "grave",
        ),
        ("ec2:AuthorizeSecurityGroupIngress", {"items": [{"cidrIpv6": "2000::/3"}]}, "grave"),
        ("ec2:AuthorizeSecurityGroupIngress", {"items": [{"cidrIp": "no range/1"}]}, "minor"),
        ("ec2:ModifySecurityGroupRules", {"SecurityGroupRule": {"CidrIpv4": "0.0.0.0/0"}}, "grave"),
        ("ec2:CreateNetworkAclEntry", {"cidrBlock": "0.0.0.0/0", "ruleAction": "deny"}, "minor"),
        ("ec2:CreateNetworkAclEntry", {"cidrBlock": "0.0.0.0/0", "ruleAction": "allow"}, "grave"),
        ("dynamodb:UpdateContinuousBackups", recovery(True), "minor"),
        ("dynamodb:UpdateContinuousBackups", recovery(False), "severe"),
        ("eks:UpdateClusterConfig", {"resourcesVpcConfig": {"endpointPublicAccess": False}}, "notable"),
        ("eks:UpdateClusterConfig", {"resourcesVpcConfig": {"endpointPublicAccess": True}}, "grave"),
        (
            "eks:UpdateClusterConfig",
            {"logging": {"clusterLogging": [{"types": ["audit"], "enabled": False}]}},
            "severe",
        ),
        ("cloudtrail:PutEventSelectors", selectors(), "notable"),
        ("cloudtrail:PutEventSelectors", selectors(readWriteType="ReadOnly"), "severe"),
        ("cloudtrail:PutEventSelectors", selectors(dataResources=[]), "severe"),
        (
            "cloudtrail:PutEventSelectors",
            selectors(excludeManagementEventSources=["kms.amazonaws.com"]),
            "severe",
        ),
        ("network-firewall:UpdateLoggingConfiguration", {"logDestinationConfigs": []}, "severe"),
        (
            "network-firewall:UpdateLoggingConfiguration",
            {"logDestinationConfigs": [{"logDestinationType": "S3"}]},
            "notable",
        ),
        ("logs:PutRetentionPolicy", {"retentionInDays": 365}, "minor"),
        ("logs:PutRetentionPolicy", {"retentionInDays": 1}, "grave"),
        (
            "s3:PutBucketLogging",
            {"BucketLoggingStatus": {"LoggingEnabled": {"TargetBucket": "logs"}}},
            "minor",
        ),
        ("s3:PutBucketLogging", {"BucketLoggingStatus": {}}, "grave"),
        ("s3:PutBucketEncryption", {"Rule": {"SSEAlgorithm": "AES256"}}, "minor"),
        (
            "s3:PutBucketEncryption",
            {
                "Rule": {
                    "SSEAlgorithm": "aws:kms",
                    "KMSMasterKeyID": "arn:aws:kms:eu-west-1:210987654321:key/1",
                }
            },
            "grave",
        ),
        ("s3:PutObject", {"x-amz-server-side-encryption-customer-algorithm": "AES256"}, "severe"),
        ("s3:PutObject", {"bucketName": "b", "key": "k"}, "minor"),
        ("s3:PutObject", {KMS_KEY: "arn:aws-us-gov:kms:us-gov-west-1:210987654321:key/1"}, "grave"),
        ("s3:CopyObject", {KMS_KEY: f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/1"}, "notable"),
        ("s3:CopyObject", {KMS_KEY: "alias/aws/s3"}, "notable"),
        ("kms:CreateGrant", {"granteePrincipal": "rds.us-gov-west-1.amazonaws.com"}, "minor"),
        ("kms:CreateGrant", {"granteePrincipal": OF_EC2}, "minor"),
        ("kms:CreateGrant", {"granteePrincipal": OWN}, "grave"),
        ("kms:CreateGrant", {"granteePrincipal": OTHER, "retiringPrincipal": OF_EC2}, "severe"),
        ("rds:ModifyDBInstance", {"masterUserPassword": "****"}, "grave"),
        ("rds:ModifyDBInstance", {"backupRetentionPeriod": 0}, "grave"),
        ("rds:ModifyDBInstance", {"allocatedStorage": 100}, "notable"),
        ("ec2:DescribeInstanceAttribute", {"attribute": "userData"}, "notable"),
        ("ec2:DescribeInstanceAttribute", {"attribute": "instanceType"}, "none"),
        *(("ec2:AuthorizeSecurityGroupIngress", ingress(port), "grave") for port in (22, 3389, 5432, -1)),
        *(("ec2:AuthorizeSecurityGroupIngress", ingress(port), "notable") for port in (80, 443)),
        ("ec2:AuthorizeSecurityGroupIngress", ingress(443) | {"cidrIp": "0.0.0.0/0"}, "grave"),
        *(
            (f"iam:{action}", {"policyDocument": document}, gravity)
            for action, usual in (
                ("PutRolePolicy", "grave"),
                ("PutUserPolicy", "severe"),
                ("CreatePolicyVersion", "grave"),
            )
            for document, gravity in (
                (rights(), usual),
                (rights(Action="*"), "severe"),
                (rights(Action=["s3:*", "iam:*"]), "severe"),
                (rights(Action="*", Resource="arn:aws:s3:::b/*"), usual),
                (rights("Deny", Action="*"), "notable"),
            )
        ),
        ("iam:CreatePolicyVersion", {"policyDocument": "no policy"}, "severe"),
        ("iam:CreatePolicy", {"policyDocument": rights(Action="*")}, "grave"),
        ("iam:CreatePolicy", {"policyDocument": rights()}, "notable"),
        ("sso:PutInlinePolicyToPermissionSet", {"inlinePolicy": rights(Action="*")}, "severe"),
        ("sts:GetFederationToken", {"name": "x", "policy": rights(Action="*")}, "grave"),
        (
            "sts:GetFederationToken",
            {"policyArns": [{"arn": "arn:aws:iam::aws:policy/AdministratorAccess"}]},
            "grave",
        ),
        ("sts:GetFederationToken", {"name": "x", "policy": rights()}, "notable"),
        (
            "iam:AttachUserPolicy",
            {"policyArn": "arn:aws:iam::aws:policy/AWSCompromisedKeyQuarantineV3"},
            "notable",
        ),
        ("iam:AttachUserPolicy", {"policyArn": f"arn:aws:iam::{ACCOUNT}:policy/AWSDenyAll"}, "severe"),
        (
            "guardduty:UpdateDetector",
            {"detectorId": "d", "findingPublishingFrequency": "SIX_HOURS"},
            "notable",
        ),
        ("guardduty:UpdateMemberDetectors", {"features": [{"name": "S3", "status": "DISABLED"}]}, "severe"),
        ("guardduty:UpdateOrganizationConfiguration", {"autoEnableOrganizationMembers": "NONE"}, "grave"),
        ("guardduty:UpdateOrganizationConfiguration", {"autoEnableOrganizationMembers": "ALL"}, "notable"),
        ("macie2:CreateFindingsFilter", {"action": "ARCHIVE", "findingCriteria": FINDINGS}, "severe"),
        ("inspector2:CreateFilter", {"action": "SUPPRESS", "filterCriteria": {}}, "grave"),
        ("cloudtrail:UpdateTrail", {"name": "t", "enableLogFileValidation": True}, "notable"),
        ("cloudtrail:UpdateTrail", {"name": "t", "isMultiRegionTrail": False}, "severe"),
        ("cloudtrail:UpdateTrail", {"name": "t", "isMultiRegionTrail": True, "s3BucketName": "x"}, "severe"),
        ("cloudtrail:UpdateTrail", {"name": "t"}, "severe"),
        ("cloudtrail:PutEventSelectors", advanced(MANAGEMENT, DATA), "notable"),
        ("cloudtrail:PutEventSelectors", advanced(MANAGEMENT), "severe"),
        ("cloudtrail:PutEventSelectors", advanced(MANAGEMENT | {"readOnly": "true"}, DATA), "severe"),
        ("cloudtrail:PutInsightSelectors", {"trailName": "t", "insightSelectors": []}, "grave"),
        ("events:PutRule", {"name": "r", "state": "DISABLED"}, "grave"),
        ("events:PutTargets", {"targets": [{"id": "1", "arn": DESTINATION}]}, "grave"),
        ("logs:PutSubscriptionFilter", {"destinationArn": DESTINATION}, "grave"),
        (
            "logs:PutSubscriptionFilter",
            {"destinationArn": f"arn:aws:lambda:eu-west-1:{ACCOUNT}:function:f"},
            "notable",
        ),
        (
            "elasticloadbalancing:ModifyLoadBalancerAttributes",
            {"attributes": [{"key": "access_logs.s3.enabled", "value": "false"}]},
            "grave",
        ),
        (
            "elasticloadbalancing:ModifyLoadBalancerAttributes",
            {"attributes": [{"key": "idle_timeout.timeout_seconds", "value": "30"}]},
            "minor",
        ),
        ("s3:PutBucketLifecycle", lifecycle(Expiration={"Days": 1}), "grave"),
        ("s3:PutBucketLifecycle", lifecycle(Transition={"Days": 30, "StorageClass": "GLACIER"}), "minor"),
        ("s3:PutBucketLifecycle", {}, "grave"),
        ("lambda:CreateFunctionUrlConfig", {"authType": "NONE"}, "grave"),
        ("lambda:CreateFunctionUrlConfig", {"authType": "AWS_IAM"}, "notable"),
        ("cognito-identity:CreateIdentityPool", {"allowUnauthenticatedIdentities": True}, "grave"),
        ("cognito-identity:CreateIdentityPool", {"allowUnauthenticatedIdentities": False}, "minor"),
        ("redshift:ModifyCluster", {"publiclyAccessible": True}, "grave"),
        ("redshift:ModifyCluster", {"numberOfNodes": 3}, "minor"),
        ("rds:ModifyDBInstance", {"deletionProtection": False}, "grave"),
        ("dlm:UpdateLifecyclePolicy", {"policyId": "p", "state": "DISABLED"}, "grave"),
        ("logs:PutRetentionPolicy", {"retentionInDays": "²"}, "grave"),
        ("sagemaker:CreateNotebookInstance", {"instanceType": "ml.g5.12xlarge"}, "grave"),
        ("sagemaker:CreateNotebookInstance", {"instanceType": "ml.t3.medium"}, "notable"),
        ("sagemaker:CreateNotebookInstance", {"notebookInstanceName": "n"}, "grave"),
        ("sagemaker:CreateTrainingJob", {"resourceConfig": {"instanceType": "ml.p5.48xlarge"}}, "grave"),
        ("sagemaker:CreateTrainingJob", {"resourceConfig": {"instanceType": "ml.m5.large"}}, "notable"),
        ("ec2:RunInstances", machines("c6a.large", 50), "grave"),
        ("ec2:RunInstances", machines("c6a.large", 2), "notable"),
        ("ec2:RunInstances", machines("c7i.24xlarge", 1), "grave"),
        ("ec2:RunInstances", machines("t4g.micro", "²"), "notable"),
        ("batch:CreateComputeEnvironment", {"computeResources": {"instanceTypes": ["m5.large"]}}, "notable"),
        ("batch:CreateComputeEnvironment", {"computeResources": {"instanceTypes": ["optimal"]}}, "grave"),
        ("batch:CreateComputeEnvironment", {"computeResources": {"instanceTypes": ["g4dn"]}}, "grave"),
        ("codebuild:CreateFleet", {"environmentType": "LINUX_GPU_CONTAINER", "baseCapacity": 1}, "grave"),
        ("codebuild:CreateFleet", {"computeType": "BUILD_GENERAL1_SMALL", "baseCapacity": 1}, "notable"),
        ("ecs:CreateService", {"desiredCount": 30, "launchType": "FARGATE"}, "grave"),
        ("ecs:CreateService", {"desiredCount": 2, "launchType": "FARGATE"}, "notable"),
        ("workspaces:CreateWorkspaces", {"computeTypeName": "GRAPHICS_G4DN"}, "grave"),
        ("lightsail:CreateInstances", {"bundleId": "nano_3_0"}, "notable"),
        ("lightsail:CreateInstances", {"bundleId": "gpu_nvidia_xlarge_1_0"}, "grave"),
        ("codebuild:UpdateProject", {"name": "p", "source": {"buildspec": "x"}}, "grave"),
        ("codebuild:UpdateProject", {"name": "p", "description": "d", "timeoutInMinutes": 9}, "notable"),
        ("codebuild:StartBuild", {"projectName": "p", "buildspecOverride": "x"}, "grave"),
        ("codebuild:StartBuild", {"projectName": "p", "sourceVersion": "main"}, "notable"),
        ("ec2:ModifyInstanceAttribute", {"instanceId": "i-1", "userData": "x"}, "grave"),
        ("ec2:ModifyInstanceAttribute", {"attribute": "userData", "value": "x"}, "grave"),
        ("ec2:ModifyInstanceAttribute", {"disableApiTermination": {"value": True}}, "notable"),
        ("ssm:GetParametersByPath", {"path": "/", "recursive": True, "withDecryption": True}, "grave"),
        ("ssm:GetParametersByPath", {"path": "/app", "recursive": True, "withDecryption": True}, "notable"),
        ("ssm:GetParametersByPath", {"path": "/", "recursive": True}, "minor"),
        ("iot:SetV2LoggingOptions", {"defaultLogLevel": "WARN", "disableAllLogs": False}, "minor"),
        ("iot:SetV2LoggingOptions", {"disableAllLogs": True}, "grave"),
        ("iot:SetV2LoggingLevel", {"logLevel": "DISABLED"}, "grave"),
        ("iot:SetLoggingOptions", {"loggingOptionsPayload": {"logLevel": "DISABLED"}}, "grave"),
        ("iot:UpdateCertificate", {"certificateId": "c", "newStatus": "ACTIVE"}, "notable"),
        ("iot:CreatePolicyVersion", {"policyDocument": rights(Action="iot:*")}, "grave"),
        ("iot:CreatePolicy", {"policyDocument": rights(Action="iot:Connect")}, "notable"),
        ("ecr:PutImageTagMutability", {"imageTagMutability": "MUTABLE"}, "notable"),
        ("ecr:PutImageTagMutability", {"imageTagMutability": "IMMUTABLE"}, "minor"),
        ("iot:UpdateCertificate", {"certificateId": "c", "newStatus": "REVOKED"}, "minor"),
        ("glue:GetConnections", {"catalogId": ACCOUNT}, "notable"),
        ("glue:GetConnections", {"hidePassword": False}, "notable"),
        ("glue:GetConnection", {"name": "crm", "hidePassword": True}, "minor"),
        (
            "ecs:RunTask",
            {"taskDefinition": "t", "overrides": {"taskRoleArn": "arn:aws:iam::1:role/admin"}},
            "grave",
        ),
        (
            "ecs:RunTask",
            {"taskDefinition": "t", "overrides": {"containerOverrides": [{"name": "a"}]}},
            "notable",
        ),
    ],
)
def test_the_same_action_protects_or_harms_by_its_parameters(call: str, request_: Any, expected: str) -> None:
    assert gravity(call, request_) == expected


@pytest.mark.parametrize(
    "record",
    ["", "{", "[]", "null", '{"requestParameters": "x"}', '{"requestParameters": null}', "[" * 100_000],
)
def test_a_record_that_cannot_be_read_lowers_nothing(record: str) -> None:
    assert adjust_gravity("s3", "PutBucketPolicy", "severe", CallRecord(record)) == "severe"


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_a_request_of_any_text_is_read_without_an_error(text: str) -> None:
    for service, action in (*GRANT_CHECKS, *REQUEST_CHECKS):
        names = ("logging", "Owner", "Grantee", "cidrIp", "retentionInDays", "policyArn", "KMSMasterKeyID")
        named = {name: {"ID": text, name: [text, {"enabled": text}]} for name in names}
        request = {text: {"add": [text, {"Principal": text}]}, "Principal": {text: [text]}, **named}
        assert gravity(f"{service}:{action}", request)


def test_a_policy_nested_beyond_all_bounds_is_read_in_bounded_time() -> None:
    deep: Any = "*"
    for _ in range(400):
        deep = {"Statement": [deep, deep]} if isinstance(deep, str) else {"x": deep}
    wide = {f"member{n}": {"Principal": "*"} for n in range(20_000)}
    assert gravity("s3:PutBucketPolicy", deep)
    assert gravity("s3:PutBucketPolicy", wide) == "severe"
    assert (
        adjust_gravity("s3", "PutBucketPolicy", "severe", CallRecord(" " * (MAX_RECORD_CHARACTERS + 1)))
        == "severe"
    )


@pytest.mark.parametrize(
    ("call", "request_", "effect"),
    [
        ("s3:PutBucketPolicy", {"bucketPolicy": {"Statement": []}}, "changes who may use stored data"),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy("*")}, "opens stored data to outsiders"),
        (
            "s3:PutBucketVersioning",
            {"VersioningConfiguration": {"Status": "Enabled"}},
            "changes how data can be recovered",
        ),
        ("guardduty:UpdateDetector", {"enable": True}, "changes threat detection"),
        ("guardduty:UpdateDetector", {"enable": False}, "switches off threat detection"),
        ("guardduty:UpdateMemberDetectors", {"status": "DISABLED"}, "switches off threat detection"),
        ("guardduty:UpdateMemberDetectors", {"status": "ENABLED"}, "changes threat detection"),
        ("iam:PutUserPolicy", {"policyDocument": rights("Deny")}, "changes rights of a user or group"),
        (
            "iam:CreateRole",
            {"assumeRolePolicyDocument": policy({"AWS": OTHER})},
            "makes a role that outsiders may assume",
        ),
        ("logs:PutSubscriptionFilter", {"destinationArn": DESTINATION}, "sends data to another account"),
        ("events:PutRule", {"state": "DISABLED"}, "switches off what reacts to events"),
        ("sagemaker:CreateNotebookInstance", {"instanceType": "ml.t3.medium"}, "starts machines or models"),
        ("ec2:RunInstances", machines("p4d.24xlarge", 1), MUCH),
        ("codebuild:UpdateProject", {"name": "p", "tags": []}, "changes a project that runs code"),
        ("ec2:ModifyInstanceAttribute", {"userData": "x"}, "replaces a machine's start script"),
        ("glue:GetConnections", {}, "reads the password of a connection to a database"),
        ("glue:GetConnections", {"hidePassword": True}, "reads how a database is reached"),
        ("iot:SetV2LoggingOptions", {"disableAllLogs": True}, "stops network or access logs"),
        ("iot:SetV2LoggingOptions", {"disableAllLogs": False}, "changes what is logged"),
    ],
)
def test_a_request_that_does_no_harm_is_not_said_to_do_it(call: str, request_: Any, effect: str) -> None:
    text = json.dumps({"recipientAccountId": ACCOUNT, "requestParameters": request_})
    assert impact_of(*call.split(":"), text).effect == effect


@pytest.mark.parametrize(
    ("request_members", "effect", "technique"),
    [
        (
            {
                "documentName": "AWS-StartPortForwardingSessionToRemoteHost",
                "parameters": {"host": ["db.example.com"]},
            },
            "opens a tunnel through a machine to another host",
            "T1572",
        ),
        (
            {"documentName": "own", "parameters": {"host": ["db"]}},
            "opens a tunnel through a machine to another host",
            "T1572",
        ),
        ({"target": "i-1"}, "runs commands on machines", "T1651"),
        ({"parameters": "host"}, "runs commands on machines", "T1651"),
    ],
)
def test_a_session_that_leads_to_another_host_is_a_tunnel(
    request_members: dict[str, Any], effect: str, technique: str
) -> None:
    found = impact_of("ssm", "StartSession", json.dumps({"requestParameters": request_members}))
    assert (found.gravity, found.effect, found.technique) == ("notable", effect, technique)


@pytest.mark.parametrize(
    ("request_members", "protects"),
    [
        ({"instanceId": "i-1", "disableApiTermination": {"value": True}}, True),
        ({"instanceId": "i-1", "disableApiStop": {"value": True}}, True),
        ({"instanceId": "i-1", "attribute": "disableApiTermination", "value": "true"}, True),
        ({"instanceId": "i-1", "disableApiTermination": {"value": False}}, False),
        ({"instanceId": "i-1", "attribute": "ebsOptimized", "value": "true"}, False),
        ({"instanceId": "i-1", "disableApiTermination": [["value"]]}, False),
    ],
)
def test_a_machine_that_cannot_be_terminated_is_said_to_be_protected(
    request_members: dict[str, Any], protects: bool
) -> None:
    found = impact_of("ec2", "ModifyInstanceAttribute", json.dumps({"requestParameters": request_members}))
    assert found.gravity == "notable"
    assert ("protects a machine from being stopped or terminated" in found.effect) is protects


@pytest.mark.parametrize(
    ("service", "effect"),
    [
        ("ec2", "asks for a higher quota of machines"),
        ("ses", "asks for a higher quota of mail or messages"),
        ("bedrock", "asks for a higher quota of models or machines for them"),
        ("vpc", "asks for a higher quota"),
        (["ec2"], "asks for a higher quota"),
    ],
)
def test_a_request_for_a_quota_is_told_by_the_service_that_it_is_for(service: Any, effect: str) -> None:
    text = json.dumps({"requestParameters": {"serviceCode": service, "quotaCode": "L-1216C47A"}})
    found = impact_of("servicequotas", "RequestServiceQuotaIncrease", text)
    assert (found.gravity, found.effect) == ("notable", effect)


@pytest.mark.parametrize(
    ("request_", "gravity", "effect"),
    [
        ({"serviceCode": "amazon-s3"}, "minor", "opens a case with AWS Support"),
        ({}, "minor", "opens a case with AWS Support"),
        ({"serviceCode": "service-limit-increase"}, "notable", "asks for a higher quota"),
        ({"categoryCode": "service-limit-increase-ses"}, "notable", "asks for a higher quota"),
    ],
)
def test_a_case_with_support_is_more_than_minor_where_it_asks_for_a_limit(
    request_: dict[str, str], gravity: str, effect: str
) -> None:
    found = impact_of("support", "CreateCase", json.dumps({"requestParameters": request_}))
    assert (found.gravity, found.effect) == (gravity, effect)


def test_who_writes_to_support_about_a_case_does_no_more_than_who_opened_it() -> None:
    found = impact_of(
        "support", "AddCommunicationToCase", json.dumps({"requestParameters": {"caseId": "case-1"}})
    )
    assert (found.gravity, found.effect) == ("minor", "writes to AWS Support about a case")


@pytest.mark.parametrize(
    ("call", "request_members", "lets_in"),
    [
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"AWS": "arn:aws:iam::210987654321:root"})}, True),
        ("s3:PutBucketPolicy", {"bucketPolicy": policy({"AWS": f"arn:aws:iam::{ACCOUNT}:root"})}, False),
        ("kms:PutKeyPolicy", {"policy": json.dumps(policy({"AWS": "210987654321"}))}, True),
        (
            "ec2:ModifySnapshotAttribute",
            {"createVolumePermission": {"add": {"items": [{"userId": "2"}]}}},
            True,
        ),
        ("ec2:ModifyImageAttribute", {"launchPermission": {"remove": {"items": [{"userId": "2"}]}}}, False),
        ("guardduty:UpdateDetector", {"enable": False}, False),
        ("iam:CreateUser", {"userName": "eve"}, False),
    ],
)
def test_what_gives_an_outsider_a_right_is_told_from_other_severe_calls(
    call: str, request_members: dict[str, Any], lets_in: bool
) -> None:
    record = json.dumps({"recipientAccountId": ACCOUNT, "requestParameters": request_members})
    assert bool(impact_of(*call.split(":"), record).outsiders) is lets_in
    assert not impact_of(*call.split(":"), "").outsiders, "without a record nothing is known to be given"


LAYER = "arn:aws:lambda:eu-west-1:{}:layer:metrics:3"


@pytest.mark.parametrize(
    ("layers", "gravity", "outsiders"),
    [
        (["210987654321"], "grave", ("210987654321",)),
        ([ACCOUNT, "210987654321"], "grave", ("210987654321",)),
        ([ACCOUNT], "notable", ()),
        (["580247275435", "017000801446"], "notable", ()),  # AWS's own
        ([], "notable", ()),
    ],
)
@pytest.mark.parametrize("action", ["UpdateFunctionConfiguration20150331v2", "CreateFunction20150331"])
def test_a_layer_of_another_account_is_code_of_others(
    action: str, layers: list[str], gravity: str, outsiders: tuple[str, ...]
) -> None:
    request = {"functionName": "quotes", "layers": list(map(LAYER.format, layers))}
    text = json.dumps({"recipientAccountId": ACCOUNT, "requestParameters": request})
    found = impact_of("lambda", action, text)
    assert (found.gravity, found.outsiders) == (gravity, outsiders)
    assert ("layer of another account" in found.effect) is (gravity == "grave")
    within = found.within(["210987654321"])  # an account of the organisation's own
    assert (within.gravity, within.effect) == ("notable", "changes code or configuration that runs")


def lifecycle(*rules: dict[str, Any]) -> dict[str, Any]:
    made = [{"Status": "Enabled", "Prefix": ""} | rule for rule in rules]
    return {"bucketName": "claims", "LifecycleConfiguration": {"Rule": made[0] if len(made) == 1 else made}}


@pytest.mark.parametrize(
    ("call", "request_", "effect"),
    [
        (
            "iam:AttachRolePolicy",
            {"roleName": "x", "policyArn": ADMINISTRATOR},
            "gives rights to a role: AdministratorAccess",
        ),
        (
            "iam:AttachRolePolicy",
            {"roleName": "x", "policyArn": f"arn:aws:iam::{ACCOUNT}:policy/<b>"},
            "gives rights to a role",
        ),
        (PERMISSION_SET, {"managedPolicyArn": ADMINISTRATOR}, "gives rights to a role: AdministratorAccess"),
        (
            "iam:PutUserPolicy",
            {"policyDocument": rights(Action="*")},
            "gives rights to a user or group: all rights",
        ),
        ("iam:PutUserPolicy", {"policyDocument": rights()}, "gives rights to a user or group"),
        (
            "s3:PutBucketLifecycle",
            lifecycle({"Expiration": {"Days": 1}}),
            "sets how long data is kept: 1 day",
        ),
        (
            "s3:PutBucketLifecycle",
            lifecycle({"Expiration": {"Days": "30"}}, {"NoncurrentVersionExpiration": {"NoncurrentDays": 7}}),
            "sets how long data is kept: 7 days",
        ),
        (
            "s3:PutBucketLifecycle",
            lifecycle({"Expiration": {"Date": "2026-05-06"}, "Transition": {"Days": 2}}),
            "sets how long data is kept",
        ),
        ("s3:PutBucketLifecycle", lifecycle({"Expiration": {"Days": "9" * 9}}), "sets how long data is kept"),
        ("logs:PutRetentionPolicy", {"retentionInDays": 1}, "sets how long logs are kept: 1 day"),
        ("logs:PutRetentionPolicy", {"retentionInDays": "<b>1"}, "sets how long logs are kept"),
        ("logs:PutRetentionPolicy", {"retentionInDays": 3653}, "sets how long logs are kept"),  # minor
        ("logs:PutRetentionPolicy", None, "sets how long logs are kept"),
    ],
)
def test_the_effect_has_the_rights_or_days_of_the_request(call: str, request_: Any, effect: str) -> None:
    text = json.dumps({"recipientAccountId": ACCOUNT, "requestParameters": request_})
    assert impact_of(*call.split(":"), text).effect_in_full == effect
